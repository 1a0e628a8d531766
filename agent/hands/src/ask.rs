//! Asking: the side of the confined service.

use super::request::{Answer, Request};
use anyhow::{Context as _, bail};
use host::{
    Host,
    line_socket::{self, Heard},
};
use std::{io, os::fd::OwnedFd, time::Duration};
use unit::HANDS_PATH;

/// mkfs.xfs has 15 minutes.
const FORMAT_LIMIT: Duration = Duration::from_secs(960);
/// A mount may have to replay a large log, an unmount waits three times for umount(8) (systemd.mount(5)), and a large database takes
/// long to open. Each has a limit of its own, which is reached before this one.
const LIMIT: Duration = Duration::from_secs(330);

/// Of the state of units. systemd answers a question within 25 s or not at all. `health`, which asks twice, has 90 s.
const STATE_LIMIT: Duration = Duration::from_secs(30);

/// Has a request done. Succeeds when it is done.
pub fn ask(host: &Host, request: &Request) -> anyhow::Result<()> {
    said(host, request).map(drop)
}

/// The answer to a request that was carried out.
pub(super) fn said(host: &Host, request: &Request) -> anyhow::Result<Answer> {
    match asked(host, request)?.0 {
        Answer::Refused(code) => Err(io::Error::from_raw_os_error(code).into()),
        Answer::Failed(why) => bail!("{why}"),
        answer => Ok(answer),
    }
}

/// Has a mount made, which is attached nowhere. If the kernel refuses it, the error has the kernel's code.
pub(super) fn mount(host: &Host, request: &Request) -> io::Result<OwnedFd> {
    match asked(host, request).map_err(|error| io::Error::other(format!("{error:#}")))? {
        (Answer::Done, Some(mount)) => Ok(mount),
        (Answer::Refused(code), _) => Err(io::Error::from_raw_os_error(code)),
        (Answer::Failed(why), _) => Err(io::Error::other(why)),
        _ => Err(io::Error::other("etcd-lun's hands have sent no mount")),
    }
}

fn asked(host: &Host, request: &Request) -> anyhow::Result<(Answer, Option<OwnedFd>)> {
    let question = serde_json::to_string(request).context("writing a request to etcd-lun's hands")?;
    let limit = match request {
        Request::Format { .. } => FORMAT_LIMIT,
        Request::Units(_) | Request::IsStopping => STATE_LIMIT,
        _ => LIMIT,
    };
    let heard = line_socket::ask(host, HANDS_PATH, &format!("{question}\n"), limit);
    let Heard { text, handle } = heard.with_context(|| {
        format!("asking {HANDS_PATH} for {question}: see `systemctl status etcd-lun-hands.socket`")
    })?;
    if text.is_empty() {
        bail!("etcd-lun's hands have not answered {question}: see `journalctl -u 'etcd-lun-hands@*'`");
    }
    let answer = serde_json::from_str(&text)
        .with_context(|| format!("the answer of etcd-lun's hands to {question} is of another version"))?;
    Ok((answer, handle))
}
