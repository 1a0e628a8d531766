//! The check must find every kind of fault, and only faults.

use super::*;

fn ms(time: u64) -> Duration {
    Duration::from_millis(time)
}

fn put(number: Number, begun: u64, ended: u64, outcome: Outcome) -> Put {
    Put { number, begun: ms(begun), ended: ms(ended), outcome }
}

fn read(number: Number, begun: u64, ended: u64) -> Read {
    Read { number, begun: ms(begun), ended: ms(ended) }
}

/// Writes 1, 2 and 5 are acknowledged. Write 3 was never sent, and nobody knows about write 4.
fn history() -> History {
    use Outcome::{Acknowledged, Failed, Unknown};
    History {
        puts: vec![
            put(1, 0, 10, Acknowledged),
            put(2, 20, 30, Acknowledged),
            put(3, 40, 41, Failed),
            put(4, 50, 2050, Unknown),
            put(5, 2060, 2070, Acknowledged),
        ],
        reads: vec![read(0, 0, 5), read(2, 35, 45), read(4, 1000, 1010), read(5, 2065, 2068)],
    }
}

fn held(member: &str, numbers: &[Number]) -> Held {
    Held {
        member: member.into(),
        pairs: numbers.iter().map(|number| (key(*number), value(*number))).collect(),
        counter: 5,
        hash: (12, 99, 0),
    }
}

fn members() -> [Held; 3] {
    ["a", "b", "c"].map(|name| held(name, &[1, 2, 4, 5]))
}

#[test]
fn the_slowest_write_between_two_moments() {
    let history = history();
    let slowest = |from, to| history.slowest(ms(from), ms(to)).map(|put| put.number);
    assert_eq!(slowest(0, 3000), Some(4));
    assert_eq!(slowest(1000, 1100), Some(4), "it has begun before, and ends later");
    assert_eq!([slowest(0, 35), slowest(2051, 2055)], [Some(2), None]);
}

#[test]
fn a_sound_history_has_no_fault_whether_an_unknown_write_is_there_or_not() {
    assert_eq!(history().faults(&members()), []);
    let mut without = history();
    without.reads.remove(2);
    assert_eq!(without.faults(&["a", "b", "c"].map(|name| held(name, &[1, 2, 5]))), []);
}

#[test]
fn a_lost_write_is_found_on_one_member() {
    let mut members = members();
    members[1].pairs.remove(&key(2));
    assert_eq!(history().faults(&members), [Fault::Lost { member: "b".into(), number: 2 }]);
}

#[test]
fn a_foreign_value_a_foreign_key_and_a_write_that_was_never_sent_are_found() {
    for (foreign, text) in
        [(key(2), "other".to_string()), (key(77), value(77)), (key(3), value(3)), (key(2), value(1))]
    {
        let mut members = members();
        members[2].pairs.insert(foreign.clone(), text.clone());
        let fault = Fault::Foreign { member: "c".into(), key: foreign, value: text };
        assert_eq!(history().faults(&members), [fault]);
    }
}

#[test]
fn a_read_that_went_back_is_found() {
    // Behind another read, behind an acknowledged write, and not behind a write or read that overlaps.
    for (bad, known) in [(read(2, 1020, 1030), 4), (read(4, 2071, 2080), 5), (read(0, 11, 12), 1)] {
        let mut history = history();
        history.reads.push(bad);
        history.reads.sort_by_key(|read| read.begun);
        assert_eq!(history.faults(&members()), [Fault::WentBack { read: bad, known }]);
    }
    for fine in [read(4, 2061, 2090), read(0, 9, 15), read(2, 1005, 1020)] {
        let mut history = history();
        history.reads.push(fine);
        assert_eq!(history.faults(&members()), [], "{fine:?}");
    }
}

#[test]
fn a_read_of_what_nobody_had_written_is_found() {
    for bad in [read(9, 2080, 2090), read(5, 2051, 2055), read(3, 42, 43)] {
        let mut history = history();
        history.reads = vec![bad];
        assert_eq!(history.faults(&members()), [Fault::FromNowhere { read: bad }]);
    }
}

#[test]
fn a_counter_behind_and_members_that_differ_are_found() {
    let mut members = members();
    members[0].counter = 4;
    let behind = Fault::CounterBehind { member: "a".into(), counter: 4, acknowledged: 5 };
    assert_eq!(history().faults(&members), [behind]);
    members[0].counter = 5;
    for hash in [(13, 99, 0), (12, 98, 0), (12, 99, 7)] {
        members[2].hash = hash;
        let members_that_differ =
            Fault::HashesDiffer { members: ["b".into(), "c".into()], hashes: [(12, 99, 0), hash] };
        assert_eq!(history().faults(&members), [members_that_differ]);
    }
}

#[test]
fn every_fault_is_told_with_its_object() {
    let fault = Fault::Lost { member: "master-2".into(), number: 7 };
    assert_eq!(fault.to_string(), "master-2 lost write 7, which was acknowledged");
}

#[test]
fn the_longest_gap_reaches_over_both_ends_of_the_time_asked_for() {
    let gap = |from, to| history().longest_gap(ms(from), ms(to));
    assert_eq!(gap(0, 30), ms(2040), "the gap after the second write begins in this time");
    assert_eq!(gap(0, 29), ms(20));
    assert_eq!(gap(100, 200), ms(2040), "it begins before and ends after this time");
    assert_eq!(gap(2070, 9070), ms(7000), "nothing is acknowledged after it");
    assert_eq!(longest_gap([].into_iter(), ms(5), ms(9)), ms(4));
}
