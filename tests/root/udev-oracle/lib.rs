//! Checks that `host::udev` reads the same as libudev.
//!
//! `cargo test -p udev-oracle` needs `pkg-config` and `libudev-dev` (RHEL: `systemd-devel`). One test reads
//! this machine's devices. The other one needs root: it starts a udevd in mount and network namespaces of its
//! own and makes a filesystem on a loop device. It also needs `udev`, `util-linux` and `xfsprogs`. If
//! something is missing, a test prints that and passes.

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // nothing here is part of the agent
mod tests;
