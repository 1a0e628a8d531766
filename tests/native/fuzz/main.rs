//! Randomly changed inputs from outside: the config, record and stamp, and what the kernel, udev, blkid
//! and iscsiadm write.
//!
//! For every input the parsers must not panic or hang. A value that is written and read again must be the
//! same. A LUN that is not blank must not count as blank.
//!
//! Each input gets two seconds here. `ETCD_LUN_FUZZ_SECONDS=600` sets a longer time. A failure prints the
//! seed. `ETCD_LUN_FUZZ_SEED` starts with that seed.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod inputs;
mod mutate;

use mutate::Mutator;
use std::{
    env, panic,
    time::{Duration, Instant},
};
use support::say;

type Holds = Box<dyn Fn(&[u8]) -> bool>;

/// An input, and what must hold for it.
struct Input {
    name: &'static str,
    /// The texts that are changed.
    corpus: Vec<Vec<u8>>,
    /// Panics when something does not hold. Returns whether the parser accepted the text.
    holds: Holds,
}

/// A longer time counts as a hang, because no input is larger than some kilobytes.
const HANGS: Duration = Duration::from_secs(5);

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}

fn fuzz(input: &Input) {
    for text in &input.corpus {
        assert!((input.holds)(text), "{}: a correct text was not accepted: {}", input.name, shown(text));
    }
    let given = number("ETCD_LUN_FUZZ_SEED");
    let first = given.unwrap_or(0x5eed);
    let limit = Duration::from_secs(number("ETCD_LUN_FUZZ_SECONDS").unwrap_or(2));
    let begun = Instant::now();
    let (mut tried, mut understood) = (0u64, 0u64);
    let mut seed = first;
    while begun.elapsed() < limit {
        let text = Mutator::new(seed).changed(&input.corpus);
        let start = Instant::now();
        match panic::catch_unwind(panic::AssertUnwindSafe(|| (input.holds)(&text))) {
            Ok(was) => understood += u64::from(was),
            Err(_) => panic!("{}: ETCD_LUN_FUZZ_SEED={seed}: {}", input.name, shown(&text)),
        }
        let took = start.elapsed();
        assert!(took < HANGS, "{}: ETCD_LUN_FUZZ_SEED={seed} took {took:?}: {}", input.name, shown(&text));
        tried += 1;
        seed += 1;
    }
    say!("{}: {tried} texts from seed {first}, {understood} of them accepted", input.name);
    assert!(tried > 5, "{}: {tried} texts prove little", input.name);
}

fn shown(text: &[u8]) -> String {
    text.escape_ascii().to_string()
}

macro_rules! fuzzed {
    ($($input:ident)*) => { $(
        #[test]
        fn $input() {
            fuzz(&inputs::$input());
        }
    )* };
}

fuzzed! { config record stamp mountinfo locks udev blkid superblock iscsi_record discovery sessions }
