//! The scenarios that a run of all tests plays: a core, and a share of the others.
//!
//! All scenarios take an emulated node hours, and a run of all tests is to end within 40 minutes on two processors. So every run
//! plays what only real parts can show, once, and one of fifteen shares of the others. Which share that is, the number of commits
//! says (`tests/all`): fifteen commits in a row play every scenario.

/// The scenarios of every run.
pub const CORE: &[&str] = &[
    // Boots. It comes first, because it takes longest.
    "selinux/enforcing",
    // The target, the network and the LUN fail in the middle of a migration, and while etcd runs.
    "faults/cut-off",
    // What a person meets.
    "pod/agent-killed-while-etcd-is-stopped",
    "migrate/no-committed-write-is-lost-and-nothing-is-done-twice",
    "rollback/refused",
    "login/ways-in",
];

/// How many shares there are.
pub const SHARES: usize = 15;

/// The names of the core and of a share, in their order. Neighbours in the list are alike and take about as long, so each goes to
/// the next share.
pub fn with_share<'a>(all: &[&'a str], share: usize) -> Vec<&'a str> {
    let mut position = 0;
    let is_played = |name: &&&str| {
        if CORE.contains(*name) {
            return true;
        }
        position += 1;
        (position - 1) % SHARES == share % SHARES
    };
    all.iter().filter(is_played).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenarios;
    use std::collections::BTreeSet;

    #[test]
    fn any_fifteen_shares_in_a_row_have_every_scenario() {
        let scenarios = scenarios::all();
        let all: Vec<_> = scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
        for first in [0, 1, 14, 917] {
            let seen: BTreeSet<_> =
                (first..first + SHARES).flat_map(|share| with_share(&all, share)).collect();
            assert_eq!(seen, all.iter().copied().collect(), "from share {first}");
        }
        // So many take 25 minutes.
        for share in 0..SHARES {
            let played = with_share(&all, share);
            assert!(
                CORE.iter().all(|name| played.contains(name)) && played.len() <= 14,
                "{share}: {played:?}"
            );
        }
    }
}
