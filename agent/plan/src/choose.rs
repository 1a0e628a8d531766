//! Which LUN of a list in the config is this node's.
//!
//! With a record it is the LUN that the record names, and no other, ever. Without one it is the LUN that this machine has stamped;
//! else the first of the list that is blank, large enough and free. A LUN that cannot be judged may be this machine's own, so while
//! there is one no blank LUN is taken. What is taken is proven again by each step that writes to it.

use super::{
    input::PlanInput,
    lun::{SPARE_SPACE, check_listed},
    outcome::{Horizon, Plan},
    refusal::{ListRefusal, Refusal},
    step::{PassedOver, Step, TakeLun},
};
use node::{Content, Fact, Lun, authority::Stamp};
use terms::{Bytes, Wwid};

/// How a LUN of the list looks to this node.
enum Judged<'a> {
    /// This machine has stamped it.
    Own(&'a Stamp),
    /// It is blank, large enough, and nobody uses it.
    Free,
    /// It holds something, or cannot be used: why, in words that follow its WWID.
    Taken(String),
    /// It cannot be told.
    Unknown(String),
}

/// The plan that takes one of these LUNs, which the target shows.
pub(super) fn plan(input: &PlanInput<'_>, shown: &[Lun]) -> Result<Plan, Refusal> {
    let listed = input.config.listed();
    if let Some(record) = input.record {
        check_listed(input, &record.wwid)?;
        return Ok(take(&record.wwid, "which the record names", Vec::new()));
    }
    let judged: Vec<_> =
        listed.iter().map(|wwid| (wwid, of(shown, wwid).map(|lun| judge(input, lun)))).collect();
    let taken = |but: &Wwid| -> Vec<PassedOver> {
        let others = judged.iter().filter(|(wwid, _)| *wwid != but);
        let reason = |judged: &Judged<'_>| match judged {
            Judged::Own(stamp) => {
                Some(format!("is stamped for this machine too, generation {}", stamp.generation))
            }
            Judged::Taken(why) | Judged::Unknown(why) => Some(why.clone()),
            Judged::Free => None,
        };
        let passed = others.filter_map(|(wwid, judged)| Some(((*wwid).clone(), reason(judged.as_ref()?)?)));
        passed.map(|(wwid, why)| PassedOver { wwid, why }).collect()
    };
    if let Some(own) = newest(&judged) {
        return Ok(take(own, "which this machine has stamped", taken(own)));
    }
    let unknown = judged.iter().find_map(|(wwid, judged)| match judged {
        Some(Judged::Unknown(why)) => Some((*wwid, why)),
        Some(Judged::Own(_) | Judged::Free | Judged::Taken(_)) | None => None,
    });
    if let Some((wwid, why)) = unknown {
        let (wwid, found) = (wwid.clone(), why.clone());
        return Err(ListRefusal::CannotBeJudged { wwid, found }.into());
    }
    match judged.iter().find(|(_, judged)| matches!(judged, Some(Judged::Free))) {
        Some((free, _)) => Ok(take(free, "which is blank", taken(free))),
        None => Err(ListRefusal::NoneFree { list: reasons(&judged) }.into()),
    }
}

/// Refuses a claim while more than one LUN of the list has this machine's stamp: a person has to say which one.
pub(super) fn check_single_own(input: &PlanInput<'_>, shown: &[Lun]) -> Result<(), Refusal> {
    let own = shown.iter().filter(|lun| matches!(judge(input, lun), Judged::Own(_)));
    let own: Vec<_> = own.filter_map(|lun| lun.wwid.known()).map(Wwid::as_str).collect();
    match own.len() {
        0 | 1 => Ok(()),
        _ if input.record.is_some() => Ok(()),
        _ => Err(ListRefusal::SeveralOwn { own: own.join(", ") }.into()),
    }
}

fn take(wwid: &Wwid, because: &'static str, passed_over: Vec<PassedOver>) -> Plan {
    let step = TakeLun { wwid: wwid.clone(), because, passed_over };
    Plan::until(vec![Step::TakeLun(step)], Horizon::Lun)
}

fn of<'a>(shown: &'a [Lun], wwid: &Wwid) -> Option<&'a Lun> {
    shown.iter().find(|lun| lun.wwid.known() == Some(wwid))
}

/// The LUN that this machine has stamped; of several the newest of those that etcd has used. What is on it is newer than a disk
/// without a record, so the plan that follows keeps etcd from that disk's data, and a person decides.
fn newest<'a>(judged: &[(&'a Wwid, Option<Judged<'_>>)]) -> Option<&'a Wwid> {
    let own = judged.iter().filter_map(|(wwid, judged)| match judged {
        Some(Judged::Own(stamp)) => {
            let in_use = !stamp.is_unused() && !stamp.released;
            Some(((in_use, stamp.generation, stamp.activations), *wwid))
        }
        Some(Judged::Free | Judged::Taken(_) | Judged::Unknown(_)) | None => None,
    });
    own.max_by_key(|(moment, _)| *moment).map(|(_, wwid)| wwid)
}

/// Each LUN of the list, with why it is not taken.
fn reasons(judged: &[(&Wwid, Option<Judged<'_>>)]) -> String {
    let each = judged.iter().map(|(wwid, judged)| match judged {
        None => format!("{wwid} is not shown to this node"),
        Some(Judged::Taken(why) | Judged::Unknown(why)) => format!("{wwid} {why}"),
        Some(Judged::Own(_) | Judged::Free) => wwid.to_string(),
    });
    each.collect::<Vec<_>>().join("; ")
}

fn judge<'a>(input: &PlanInput<'_>, lun: &'a Lun) -> Judged<'a> {
    if let Some(user) = lun.users.known().and_then(|users| users.first()) {
        return Judged::Unknown(format!("is in use at {} by {} (pid {})", user.at, user.command, user.pid));
    }
    let content = match (&lun.users, &lun.content) {
        (Fact::Unknown(why), _) => return Judged::Unknown(format!("may be in use: {why}")),
        (_, Fact::Unknown(why)) => return Judged::Unknown(format!("cannot be read: {why}")),
        (Fact::Known(_), Fact::Known(content)) => content,
    };
    let wanted = input
        .config
        .lun
        .min_size
        .max(Bytes(input.local.size().map_or(0, |data| data.0.saturating_add(SPARE_SPACE))));
    match content {
        Content::Xfs { stamp: Fact::Unknown(why), .. } => {
            Judged::Unknown(format!("has a stamp that cannot be read: {why}"))
        }
        Content::Xfs { stamp: Fact::Known(Some(stamp)), .. } => {
            if stamp.machine_id == input.node.identity.machine_id {
                return Judged::Own(stamp);
            }
            let Stamp { node, machine_id, generation, .. } = stamp;
            Judged::Taken(format!(
                "holds etcd data of {node} (machine id {machine_id}), generation {generation}"
            ))
        }
        Content::Xfs { uuid, stamp: Fact::Known(None), .. } => {
            Judged::Taken(format!("holds an XFS without a stamp, UUID {uuid}"))
        }
        Content::Unfinished { uuid } => Judged::Taken(format!("holds an unfinished XFS, UUID {uuid}")),
        Content::Foreign { found } => Judged::Taken(format!("holds {found}")),
        Content::Blank if !lun.partitions.is_empty() => {
            Judged::Taken(format!("has partitions ({})", lun.partitions.join(", ")))
        }
        Content::Blank if !lun.holders.is_empty() => {
            Judged::Taken(format!("is held by {}", lun.holders.join(", ")))
        }
        Content::Blank if lun.read_only => Judged::Taken("is read-only".into()),
        Content::Blank if lun.least_size() < wanted => {
            Judged::Taken(format!("has {}, and {wanted} are needed", lun.least_size()))
        }
        Content::Blank => Judged::Free,
    }
}
