//! Makes the LUN visible to this node: login and scan; or waits for a local disk.

use super::{
    input::{Occasion, PlanInput, is_held, require},
    outcome::{Horizon, Plan},
    refusal::Refusal,
    step::{AttachLun, LogIn, NodeStep, Step},
};
use config::{Backing, Config, Gate, Iscsi};
use node::{Fact, LunView, Multipath, Node, SeenSession};
use std::time::Duration;
use terms::{ChapAlg, FsUuid, Iqn, Portal, Span, TermError};

/// How long a boot waits for the target or the disk if nothing but etcd needs it: the fence keeps etcd down, and the gate is
/// `etcd`. The kubelet is ordered after this run, and a node without a kubelet can be repaired by nobody. 30 s is time for two log-ins (`node.conn[0].timeo.login_timeout`, 15 s). The service tries again every 20 s (`RestartSec=`
/// in `units/etcd-lun.service.in`), and starts etcd when the LUN is there.
const WAIT_BEFORE_KUBELET: Span = Span(Duration::from_secs(30));

fn time_limit(input: &PlanInput<'_>) -> Span {
    let limit = input.config.boot.attach_timeout;
    // Nothing is moved now, in both cases. After a rollback not even the gate needs the LUN.
    let only_looks = input.local.is_fenced() || is_held(input.config, input.node);
    let is_left = input.record.is_some_and(|record| record.rolled_back);
    match (input.occasion, input.config.boot.gate) {
        (Occasion::Boot, _) if is_left => limit.min(WAIT_BEFORE_KUBELET),
        (Occasion::Boot, Gate::Etcd) if only_looks => limit.min(WAIT_BEFORE_KUBELET),
        (Occasion::Boot, Gate::Etcd | Gate::Kubelet) | (Occasion::ByHand, _) => limit,
    }
}

/// The steps that make the LUN visible; none if it is visible.
pub(super) fn plan(input: &PlanInput<'_>) -> Result<Option<Plan>, Refusal> {
    let attached = match input.lun_view()? {
        LunView::Seen(_) => true,
        LunView::NoSession | LunView::NotAttached => false,
    };
    match &input.config.backing {
        Backing::Iscsi(iscsi) => log_in(input, iscsi, attached),
        Backing::Device(_) if attached => Ok(None),
        Backing::Device(device) => {
            let limit = time_limit(input);
            let step = Step::Node(NodeStep::AwaitDisk { path: device.path.clone(), limit });
            Ok(Some(Plan::until(vec![step], Horizon::Lun)))
        }
    }
}

fn log_in(input: &PlanInput<'_>, iscsi: &Iscsi, attached: bool) -> Result<Option<Plan>, Refusal> {
    let (Iscsi { target, initiator, lun }, node) = (iscsi, input.node);
    let sessions = require("iSCSI sessions", &node.sessions)?;
    let mut steps = log_out_former_name(iscsi, sessions)?;
    let is_right = |session: &SeenSession| {
        session.is_of(&target.iqn) && !session.has_former_name(&target.iqn, initiator)
    };
    let logged_in = sessions.iter().any(|session| is_right(session) && session.is_logged_in());
    if attached && logged_in && steps.is_empty() {
        return Ok(None);
    }
    let limit = time_limit(input);
    let all = *require("whether multipathd runs", &node.initiator.multipathd_active)?;
    let log_in = log_in_at(iscsi, target.portals.clone(), all, limit);
    if !logged_in {
        steps.extend(name_the_node(input)?);
        steps.push(Step::Node(NodeStep::LogIn(log_in.clone())));
    }
    // A log-in shows that a portal answers, and not that the LUN is there: an array may show it at other portals only.
    steps.push(Step::Node(NodeStep::AttachLun(AttachLun {
        target: target.iqn.clone(),
        initiator: initiator.clone(),
        lun: lun.clone(),
        everywhere: false,
        elsewhere: Some(log_in),
        limit,
    })));
    Ok(Some(Plan::until(steps, Horizon::Lun)))
}

/// A single log-in at one portal, to look at what it shows.
pub fn single_log_in(iscsi: &Iscsi, portal: Portal) -> LogIn {
    log_in_at(iscsi, vec![portal], false, iscsi.target.timeouts.replacement)
}

/// A log-in at all or the first of these portals.
pub(super) fn log_in_at(iscsi: &Iscsi, portals: Vec<Portal>, all: bool, limit: Span) -> LogIn {
    let Iscsi { target, initiator, .. } = iscsi;
    let [noop_interval, noop_timeout] = target.timeouts.pings(target.has_paths(all));
    LogIn {
        target: target.iqn.clone(),
        initiator: initiator.clone(),
        portals,
        discovery: target.discovery,
        all,
        noop_interval,
        noop_timeout,
        digests: target.digests,
        limit,
    }
}

/// Sets the replacement timeout of sessions that have another one than the config asks for, so that etcd's writes wait that
/// long for the target. A session has another one if it was made for the copy, or with an earlier config.
///
/// It comes after etcd's start: if the session is lost just then, the step fails while etcd is up, and the next run does it.
///
/// Only for a connected session. While the connection is lost the kernel refuses the change
/// (`drivers/scsi/scsi_transport_iscsi.c`, `iscsi_priv_session_rw_attr`), and its timer already runs. Under a multipath
/// map, multipathd sets the timeout (`fast_io_fail_tmo`); not so if it runs and leaves the LUN alone.
pub(super) fn session_timeouts(input: &PlanInput<'_>) -> Result<Vec<Step>, Refusal> {
    let Some(Iscsi { target, .. }) = input.config.backing.iscsi() else { return Ok(Vec::new()) };
    if !matches!(input.node.lun.known(), Some(LunView::Seen(lun)) if lun.multipath == Multipath::Unclaimed) {
        return Ok(Vec::new());
    }
    let replacement = target.timeouts.replacement;
    let differs = |session: &&SeenSession| {
        session.is_of(&target.iqn)
            && session.is_logged_in()
            && session.recovery_timeout.map(u64::from) != Some(replacement.0.as_secs())
    };
    let sessions = require("iSCSI sessions", &input.node.sessions)?.iter().filter(differs);
    Ok(sessions.map(|session| Step::Node(NodeStep::SetTimeout { sid: session.sid, replacement })).collect())
}

/// Logs out our sessions with an initiator name that the config had before: a session keeps the name that it was made
/// with. Sessions that etcd-lun did not make are other programs', whatever their name is.
fn log_out_former_name(iscsi: &Iscsi, sessions: &[SeenSession]) -> Result<Vec<Step>, Refusal> {
    let Iscsi { target, initiator, .. } = iscsi;
    let former: Vec<_> =
        sessions.iter().filter(|session| session.has_former_name(&target.iqn, initiator)).collect();
    if let Some(session) = former.iter().find(|session| !session.in_use.is_empty()) {
        return Err(Refusal::InitiatorInUse {
            found: session.initiator.clone().unwrap_or_else(|| "not known".into()),
            wanted: initiator.to_string(),
            sid: session.sid,
            target: session.target.clone(),
        });
    }
    Ok(former.iter().map(|session| Step::Node(NodeStep::LogOut { sid: session.sid })).collect())
}

/// Logs out the sessions that a run has left without a use, after it has ended without etcd on the LUN: else the wrong machine of two
/// with one initiator name would go on ending the right one's session, and another program may take a disk that is blank.
pub fn let_go(config: &Config, node: &Node) -> Plan {
    let ours = |session: &&SeenSession| {
        config.backing.iscsi().is_some_and(|iscsi| session.is_of(&iscsi.target.iqn))
            && session.in_use.is_empty()
    };
    let sessions = match &node.mount {
        Fact::Known(None) => node.sessions.known().map_or(&[][..], Vec::as_slice),
        Fact::Known(Some(_)) | Fact::Unknown(_) => &[],
    };
    let log_out = |session: &SeenSession| Step::Node(NodeStep::LogOut { sid: session.sid });
    Plan::complete(sessions.iter().filter(ours).map(log_out).collect())
}

/// Gives the node an initiator name of its own, if it has none, because iscsid doesn't work without one. It is a random
/// name, as open-iscsi's own `iscsi-iname` makes it. It is not the config's: that one is for one target, and an array
/// accepts a name for one host entry only. A name that the node has stays as it is, because other programs on the node
/// may have registered it at their targets.
fn name_the_node(input: &PlanInput<'_>) -> Result<Option<Step>, Refusal> {
    if require("the initiator name", &input.node.initiator.name)?.is_some() {
        return Ok(None);
    }
    let unknown = |error: TermError| Refusal::Unknown { what: "an initiator name", why: error.to_string() };
    let random = require("a random number from the kernel", &input.node.fresh_uuid)?;
    let name = initiator_name(*random).map_err(unknown)?;
    Ok(Some(Step::Node(NodeStep::SetInitiatorName { name })))
}

/// An initiator name that no other node has, from random bits.
pub fn initiator_name(FsUuid(bits): FsUuid) -> Result<Iqn, TermError> {
    let [a, b, c, d, e, f, ..] = bits;
    format!("iqn.2016-04.com.open-iscsi:{a:02x}{b:02x}{c:02x}{d:02x}{e:02x}{f:02x}").parse()
}

/// Warns before a log-in that cannot succeed: open-iscsi offers MD5 alone by default, and a kernel in FIPS mode has none.
pub(super) fn warn_of_md5(input: &PlanInput<'_>, plan: &Plan) -> Option<String> {
    let is_login = |step: &Step| matches!(step, Step::Node(NodeStep::LogIn(_)));
    if input.node.fips != Fact::Known(true) || !plan.steps.iter().any(is_login) {
        return None;
    }
    let (table, _) = input
        .config
        .backing
        .iscsi()?
        .target
        .chaps()
        .find(|(_, chap)| chap.algs.iter().all(|alg| *alg == ChapAlg::Md5))?;
    Some(format!(
        "this node is in FIPS mode, which has no MD5, and `{table}` allows no other algorithm: set `{table}.algs = [\"SHA3-256\", \"SHA256\"]` if the target knows one of them, or the log-in fails"
    ))
}
