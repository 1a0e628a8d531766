//! Both ends of the hands' socket: the confined service asks, and `etcd-lun hands` answers.

use super::names::name_of;
use super::request::{Answer, NotDone, Privileged, Request, Said};
use anyhow::Context as _;
use host::{
    Host,
    line_socket::{self, Heard},
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Duration,
};
use terms::fail;
use unit::HANDS_PATH;

/// mkfs.xfs has 15 minutes.
const FORMAT_LIMIT: Duration = Duration::from_secs(960);
/// A mount may have to replay a large log, an unmount waits three times for umount(8) (systemd.mount(5)), and a large database takes
/// long to open. Each has a limit of its own, which is reached before this one.
const LIMIT: Duration = Duration::from_secs(330);
/// Of the state of units. systemd answers a question within 25 s or not at all. `health`, which asks twice, has 90 s.
const STATE_LIMIT: Duration = Duration::from_secs(30);

/// Has requests performed by the hands.
#[derive(Debug, Clone, Copy)]
pub struct Socket;

impl Privileged for Socket {
    fn perform(&self, host: &Host, request: &Request) -> anyhow::Result<(Said, Option<OwnedFd>)> {
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
            fail!(
                HandsRefused,
                "etcd-lun's hands have not answered {question}: see `journalctl -u 'etcd-lun-hands@*'`"
            );
        }
        let answer: Answer = serde_json::from_str(&text)
            .with_context(|| format!("the answer of etcd-lun's hands to {question} is of another version"))?;
        match answer {
            Ok(said) => Ok((said, handle)),
            Err(NotDone::Refused(code)) => Err(io::Error::from_raw_os_error(code).into()),
            Err(NotDone::Failed(name, why)) => Err(name.says(why).into()),
        }
    }
}

/// Does what the text asks for, and answers over the connection.
pub fn serve(host: &Host, by: &dyn Privileged, text: &str, to: impl AsFd) -> io::Result<()> {
    let (answer, mount) = match answer(host, by, text) {
        Ok((said, mount)) => (Ok(said), mount),
        Err(error) => {
            tracing::warn!("refused or failed: {error:#}");
            // A code says enough where nothing was added to it.
            let bare = error.chain().next().and_then(|error| error.downcast_ref::<io::Error>());
            let code = bare.and_then(io::Error::raw_os_error);
            let why =
                code.map_or_else(|| NotDone::Failed(name_of(&error), format!("{error:#}")), NotDone::Refused);
            (Err(why), None)
        }
    };
    let text = serde_json::to_string::<Answer>(&answer).map_err(io::Error::other)?;
    line_socket::answer(to, &text, mount.as_ref())
}

pub(super) fn answer(
    host: &Host,
    by: &dyn Privileged,
    text: &str,
) -> anyhow::Result<(Said, Option<OwnedFd>)> {
    let request =
        serde_json::from_str(text).context("the request has another form: it is of another version")?;
    tracing::info!("asked for {request:?}");
    by.perform(host, &request)
}
