//! What the service does by itself for a mounted LUN, and how often: it mounts the LUN anew after its filesystem has shut down, and
//! restarts iscsid.

use anyhow::Context as _;
use host::{Host, dir};
use node::MountedAnew;
use std::time::Duration;
use terms::require;

/// A LUN that is lost more often is a person's: each time costs the member some seconds, and something is wrong.
const MOST: usize = 3;
const SPAN: Duration = Duration::from_secs(3600);

/// Notes that the filesystem is about to be unmounted. Fails if that was done too often.
pub fn begin(host: &Host) -> anyhow::Result<()> {
    let (mut anew, now) = (observe::mounted_anew(host)?, dir::since_boot()?);
    require!(
        anew.within(now, SPAN).count() < MOST,
        MountedAnewOften,
        "the LUN was mounted anew {MOST} times within an hour: find out what ends its session (`journalctl -u iscsid -u etcd-lun-lost`), then run `etcd-lun apply`"
    );
    anew.at.push(now.as_secs());
    anew.unfinished = true;
    write(host, &anew)
}

/// Notes that a run has reached its end: what is mounted, or not, is as it should be.
pub fn finish(host: &Host) -> anyhow::Result<()> {
    let anew = observe::mounted_anew(host)?;
    if anew.unfinished { write(host, &MountedAnew { unfinished: false, ..anew }) } else { Ok(()) }
}

/// True if iscsid may be restarted now, which is noted. A restart that has not helped is not repeated soon.
pub fn may_restart_iscsid(host: &Host) -> anyhow::Result<bool> {
    const APART: Duration = Duration::from_secs(600);
    let (anew, now) = (observe::mounted_anew(host)?, dir::since_boot()?);
    if anew.iscsid_restarted.is_some_and(|at| now.saturating_sub(Duration::from_secs(at)) < APART) {
        return Ok(false);
    }
    write(host, &MountedAnew { iscsid_restarted: Some(now.as_secs()), ..anew }).map(|()| true)
}

fn write(host: &Host, anew: &MountedAnew) -> anyhow::Result<()> {
    let text = serde_json::to_string(anew)?;
    host.root
        .write_durably(&MountedAnew::PATH.parse()?, &text, 0o600)
        .context("noting what the service does for the mounted LUN")
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::{Root, files::Files, transcript::NoTools};

    #[test]
    fn three_times_an_hour() {
        let files = Files::new("anew");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        files.put("run/etcd-lun/lock", "");
        finish(&host).unwrap();
        (0..MOST).for_each(|_| begin(&host).unwrap());
        let often = begin(&host).unwrap_err().to_string();
        assert!(often.starts_with("the LUN was mounted anew 3 times within an hour"), "{often}");
        let anew = observe::mounted_anew(&host).unwrap();
        assert_eq!((anew.at.len(), anew.unfinished), (3, true));
        finish(&host).unwrap();
        assert_eq!(observe::mounted_anew(&host).unwrap(), MountedAnew { unfinished: false, ..anew.clone() });
        // An hour later it may be done again.
        let now = Duration::from_secs(*anew.at.last().unwrap());
        assert_eq!(anew.within(now + SPAN, SPAN).count(), anew.within(now, SPAN).count());
        assert_eq!(anew.within(now + SPAN * 2, SPAN).count(), 0);
        // iscsid is restarted by itself, and not again soon.
        assert_eq!([(); 2].map(|()| may_restart_iscsid(&host).unwrap()), [true, false]);
        let anew = observe::mounted_anew(&host).unwrap();
        let at = anew.iscsid_restarted.unwrap().saturating_sub(600);
        assert_eq!(anew.at.len(), 3);
        write(&host, &MountedAnew { iscsid_restarted: Some(at), ..anew }).unwrap();
        assert!(may_restart_iscsid(&host).unwrap());
    }
}
