//! The scenarios that every run of the tests plays.
//!
//! All scenarios take an emulated node hours, and a run of all tests is to end within an hour on two processors. So every run plays
//! these: what only real parts can show, once. The others are played by name (`--only`), all of them before a release (`--only /`).
//! Many of them are a kind once more, with another target, another fault or another moment. In none of these are: multipath, a
//! local disk instead of a LUN, a second session to the target, a LUN that changes its size, a cluster of several nodes, recorded
//! power cuts, each check of `health` by itself, `bench`, what blkid knows (`content/*`), a record that is lost, a disk of the node
//! that goes back in time (`restored/*`), and what the service does later than at a boot under SELinux (`selinux/service`).
//!
//! `tests/model` has every moment of the protocol, `tests/root/units.rs` the mount unit under a real PID 1, and
//! `tests/root/cluster.rs` the findings of a real cluster. The older node plays `rollback/cut-after-the-commit-then-a-boot`.

/// Their names.
pub const CORE: &[&str] = &[
    // Boots. They come first, because they take longest.
    "selinux/enforcing",
    "boot/target-off",
    "delivery/image",
    // The target, the network and the LUN fail while etcd runs, or in the middle of a migration.
    "faults/mounted-elsewhere",
    "faults/cut-off",
    "faults/filesystem-shut-down",
    // What a person meets.
    "terminal/closed-at-each-step",
    "pod/agent-killed-while-etcd-is-stopped",
    "migrate/no-committed-write-is-lost-and-nothing-is-done-twice",
    "rollback/refused",
    "lun/not-the-one",
    "lun/number-of-the-array",
    "login/ways-in",
    "copy/unreadable-file",
    "config/cannot-be-meant",
    "secret/during-a-migration",
    "tools/unfit-node",
    "tour/as-the-page-says",
];
