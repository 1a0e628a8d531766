//! Hands that mount something, whatever they are asked for.
#![allow(clippy::disallowed_methods)] // the fixture of a test

use super::*;
use hands::{Privileged, Requester, Said};
use host::{Root, files::Files, transcript::NoTools};
use std::{fs, os::fd::OwnedFd};

const LUN: &str = "36 25 8:16 / /data rw,noexec - xfs /dev/sdb rw,prjquota\n";
const READ_ONLY: &str = "36 25 8:16 / /data ro,noexec - xfs /dev/sdb ro,prjquota\n";
const OTHER: &str = "36 25 8:32 / /data rw,noexec - xfs /dev/sdc rw,prjquota\n";

/// The device that they mount, and whether it can be unmounted.
#[derive(Debug, Clone, Copy)]
struct Hands {
    mounts: &'static str,
    unmounts: bool,
}

const MOUNTINFO: &str = "/proc/1/mountinfo";

impl Privileged for Hands {
    fn perform(&self, host: &Host, request: &Request) -> anyhow::Result<(Said, Option<OwnedFd>)> {
        let now = if matches!(request, Request::Expose { disk } if disk == "sdb") {
            Some(self.mounts)
        } else if *request == Request::TakeBack {
            self.unmounts.then_some("")
        } else {
            anyhow::bail!("{request:?}")
        };
        now.map_or(Ok(()), |now| fs::write(host.root.locate(MOUNTINFO), now))?;
        Ok((Said::Done, None))
    }
}

/// Exposes the LUN. Says what is mounted then, and the error.
fn exposed(
    name: &str,
    hands: Hands,
    verify: impl Fn(&Host, &MountData) -> anyhow::Result<()>,
) -> (String, Option<String>) {
    let files = Files::new(name);
    files.put(MOUNTINFO.trim_start_matches('/'), "");
    let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
    let (door, step) = (Door::to(&host, Requester::Person, Box::new(hands)), step());
    let result = expose(&door, &step, "sdb", || verify(&host, &step));
    let mounted = fs::read_to_string(host.root.locate(MOUNTINFO)).unwrap();
    (mounted, result.err().map(|error| format!("{error:#}")))
}

fn verified(host: &Host, step: &MountData) -> anyhow::Result<()> {
    is_as_asked(host, step, "8:16")
}

fn step() -> MountData {
    MountData {
        at: "/data".parse().unwrap(),
        wwid: "naa.60014050123456789abcdef012345678".parse().unwrap(),
        uuid: "0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b".parse().unwrap(),
        options: vec!["prjquota".into(), "noexec".into()],
    }
}

#[test]
fn what_is_verified_stays_mounted() {
    let hands = Hands { mounts: LUN, unmounts: true };
    assert_eq!(exposed("exposure-right", hands, verified), (LUN.into(), None));
}

#[test]
fn what_fails_the_verification_is_not_mounted_any_more() {
    for (name, mounts, says) in [
        ("other", OTHER, "device 8:32 is mounted on /data, not 8:16"),
        ("read-only", READ_ONLY, "is mounted read-only"),
        ("nothing", "", "there are 0 mounts on /data"),
        ("quota", "36 25 8:16 / /data rw,noexec - xfs /dev/sdb rw\n", "is mounted without prjquota"),
        (
            "ext4",
            "36 25 8:16 / /data rw,noexec - ext4 /dev/sdb rw,prjquota\n",
            "ext4 is mounted on /data, not xfs",
        ),
    ] {
        let (mounted, error) =
            exposed(&format!("exposure-{name}"), Hands { mounts, unmounts: true }, verified);
        let error = error.unwrap();
        assert!(error.contains(says) && error.starts_with("the mount on /data was not accepted"), "{error}");
        assert_eq!(mounted, "", "{name}");
    }
}

#[test]
fn a_stamp_that_fails_the_verification_takes_the_mount_back_too() {
    let hands = Hands { mounts: LUN, unmounts: true };
    let (mounted, error) = exposed("exposure-stamp", hands, |_, _| anyhow::bail!("an old stamp"));
    assert!(error.as_ref().unwrap().ends_with("an old stamp"), "{error:?}");
    assert_eq!(mounted, "");
}

#[test]
fn a_mount_that_stays_is_named_with_the_cure() {
    let hands = Hands { mounts: OTHER, unmounts: false };
    let (_, error) = exposed("exposure-stays", hands, verified);
    let error = error.unwrap();
    assert!(error.contains("/data may still be mounted") && error.contains("umount /data"), "{error}");
}
