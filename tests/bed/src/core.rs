//! The scenarios that every run of the tests plays.
//!
//! All scenarios take an emulated node hours. So every run plays these, which have what every node meets. The others are played by
//! name (`--only`), all of them before a release (`--only /`). Many of them are a kind once more, with another target, another
//! fault or another moment. Multipath, a local disk instead of a LUN, a second session to the target, a LUN that changes its size,
//! a cluster of several nodes and recorded power cuts are in none of these.
//!
//! `tests/model` has every moment of the protocol, `tests/rooted_units.rs` the mount unit under a real PID 1, and
//! `tests/cluster.rs` the findings of a real cluster. The older node plays `rollback/cut-after-the-commit-then-a-boot`.

/// Their names.
pub const CORE: &[&str] = &[
    // Boots. They come first, because they take longest.
    "boot/target-off",
    "delivery/image",
    "selinux/enforcing",
    // The target, the network and the LUN fail while etcd runs, or in the middle of a migration.
    "faults/filesystem-shut-down",
    "faults/target-away-for-three-minutes",
    "faults/cut-off",
    "faults/restarted",
    "faults/mounted-elsewhere",
    "health/each-check",
    "rollback/refused",
    "pod/agent-killed-while-etcd-is-stopped",
    "pod/operator-writes-a-manifest-meanwhile",
    "terminal/closed-at-each-step",
    "terminal/debug-pod-keeps-the-lun-mounted",
    "secret/during-a-migration",
    "secret/in-the-config-itself",
    "migrate/no-committed-write-is-lost-and-nothing-is-done-twice",
    "migrate/verbs-afterwards",
    "migrate/record-lost",
    "migrate/two-histories",
    "migrate/target-gone-afterwards",
    "copy/more-data-than-room",
    "copy/storage-out-of-space",
    "copy/unreadable-file",
    "bench/before-and-after",
    "login/wrong-secrets",
    "login/portal-refused",
    "login/target-comes-up-late",
    "login/lun-at-another-portal",
    "login/iscsid-failed-for-want-of-a-name",
    "login/ways-in",
    "content/made-by-tools",
    "lun/not-the-one",
    "lun/number-of-the-array",
    "config/cannot-be-meant",
    "tools/unfit-node",
];
