//! The protocol breaks without any one of its guards, and the search detects that.

use crate::{
    NEAR,
    run::Runtime,
    search::{search, visit},
    world::{Guards, Look},
};
use support::say;

type Mutant = (&'static str, fn(&mut Guards));

const MUTANTS: &[Mutant] = &[
    ("retiring leaves an empty directory", |guards| guards.bar = false),
    ("the fence empties the directory before it is immutable", |guards| guards.fence_is_atomic = false),
    ("a rollback does not compare the LUN once more", |guards| guards.compare_lun = false),
    ("the source at rest is not held against the copy", |guards| guards.proof = false),
    ("the commit comes before the stamp", |guards| guards.stamp_first = false),
    ("the local data's fingerprint is not looked at", |guards| guards.fingerprint = false),
    ("the stamp's generation is not looked at", |guards| guards.generation = false),
    ("the stamp's owner is not looked at", |guards| guards.owner = false),
    ("the count of activations is not looked at", |guards| guards.counter = false),
    ("the filesystem's UUID is not looked at", |guards| guards.uuid = false),
    ("etcd is put back whatever the record says", |guards| guards.put_back = false),
    ("a rollback commits with the LUN still mounted", |guards| guards.unmount_first = false),
    ("a rollback's mark is not looked at", |guards| guards.rolled_back = false),
    ("the record counts before the stamp does", |guards| guards.stamp_before_record = false),
    ("whether the filesystem has shut down is not looked at", |guards| guards.shut = false),
    ("what the device has beneath the mount is not looked at", |guards| guards.in_place = false),
    ("where etcd has its data is not looked at", |guards| guards.source = false),
    ("what each path shows is not compared", |guards| guards.paths = false),
    ("a mark is not on the stamp", |guards| guards.mark_on_stamp = false),
    ("a mark is not in the record", |guards| guards.mark_in_record = false),
    ("what was written to the copy is not read back", |guards| guards.read_back = false),
    ("the copy is not read once more before etcd is stopped", |guards| guards.audit = false),
    ("a stamp is not read back from the device", |guards| guards.stamp_read_back = false),
    ("the record does not announce a use", |guards| guards.announces = false),
    ("counting goes on from the record alone", |guards| guards.counts_on = false),
];

/// Guards that only a static pod needs.
const MUTANTS_OF_A_POD: &[Mutant] = &[
    ("the end of the pod's other containers is not awaited", |guards| guards.pod_end = false),
    ("containers are asked to end beside an etcd that runs", |guards| guards.pod_is_down = false),
];

/// Looks of the program's own steps without which the search finds a loss, one at a time.
///
/// Others were left out too, and the search found no loss: the rest of `retire`, all of `bar`, `return`, `start-etcd`, and where
/// it is mounted and who uses it in `mount-data`. Behind each of them stands another one, or nothing in this world does what it
/// looks for: behind all looks of `commit` come those of `retire`, which puts the data back; nothing mounts between
/// `unmount-data`, which looks too, and `commit-local`; nothing but a run removes a fence; and without the mount that `mark` holds
/// there is no stamp to read. `claim` is played by `restored` only. The looks of the other steps were not all left out.
const NEEDED: &[(&str, Look)] = &[
    ("stop-etcd", Look::Quorum),
    ("commit-local", Look::Holds),
    ("retire", Look::Users),
    ("retire", Look::Holds),
    ("retire", Look::Unchanged),
    ("retire", Look::Read),
    ("fence", Look::Unfinished),
    ("fence", Look::Users),
    ("fence", Look::Read),
];

/// A look without which only two events in one run lose something: somebody starts etcd, which writes and ends, and then the array
/// has another volume behind the LUN.
#[test]
fn the_stamp_is_needed_when_a_rollback_commits() {
    let guards = Guards { blind: Some(("commit-local", Look::Stamp)), ..Guards::ALL };
    assert!(visit(guards, 2, Runtime::Unit, NEAR).is_err());
}

#[test]
fn looks_of_the_protocol_are_needed() {
    for (step, look) in NEEDED {
        let guards = Guards { blind: Some((step, *look)), ..Guards::ALL };
        let broken = search(guards, 2, Runtime::StaticPod).err();
        assert!(broken.is_some(), "{step} without {look:?} is not seen to break anything");
    }
}

#[test]
fn every_guard_is_needed() {
    let mut missed = Vec::new();
    let of_any = MUTANTS.iter().map(|mutant| (mutant, Runtime::Unit));
    let of_a_pod = MUTANTS_OF_A_POD.iter().map(|mutant| (mutant, Runtime::StaticPod));
    for ((name, take_out), runtime) in of_any.chain(of_a_pod) {
        let mut guards = Guards::ALL;
        take_out(&mut guards);
        match search(guards, 2, runtime) {
            Ok(_) => missed.push(*name),
            Err(broken) => {
                say!("{name}: {}", broken.lines().next().unwrap_or_default());
            }
        }
    }
    assert!(missed.is_empty(), "not seen to break anything: {missed:#?}");
}
