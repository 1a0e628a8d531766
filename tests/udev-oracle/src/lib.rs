//! Does `host::udev` read what libudev reads?
//!
//! `cargo test -p udev-oracle` needs `pkg-config` and `libudev-dev` (RHEL: `systemd-devel`). One test
//! looks at the machine as it is. The other, for root, starts a udevd in mount and network namespaces of
//! its own and makes a filesystem on a loop device; it also needs `udev`, `util-linux` and `xfsprogs`.
//! Where something is missing, a test says so and passes.

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // nothing here is part of the agent
mod tests;
