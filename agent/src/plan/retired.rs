//! When the old local data may go: once etcd has run on the LUN for long enough that nobody goes back to what it was.

use super::{Occasion, Refusal, Sight, require, resume};
use crate::{
    config::Config,
    node::{Node, Retired, layout::RETIRED},
};

/// The retired data of a generation, if it may be deleted.
///
/// It was retired when the LUN was committed to, and a boot without the LUN has no etcd; so how long it lies there, and
/// that etcd runs on the truth now, tells how long etcd has done without it.
pub fn may_delete<'a>(config: &Config, node: &'a Node, generation: u64) -> Result<&'a Retired, Refusal> {
    let keep = config.lun.keep_retired;
    let sight = Sight::of(config, node, Occasion::ByHand)?;
    let kept = |found: &str| Refusal::RetiredIsNeeded { found: found.to_owned() };
    let Some(mount) = require("what is mounted on the data directory", &node.mount)? else {
        return Err(kept("the LUN is not mounted"));
    };
    let (record, _) = resume::truth(&sight, mount)?;
    if !sight.etcd.is_up() {
        return Err(kept(&format!("etcd ({}) is {}", sight.etcd.name, sight.etcd.state)));
    }
    let all = require("what lies retired", &node.retired)?;
    let at = || format!("{RETIRED}/{generation}");
    let Some(one) = all.iter().find(|one| one.name == generation.to_string()) else {
        return Err(Refusal::NothingRetired { at: at() });
    };
    if !one.ours || generation > record.generation {
        return Err(Refusal::RetiredByOthers { at: at() });
    }
    if one.age.0 < keep.0 {
        return Err(Refusal::RetiredLately { at: at(), age: one.age, keep });
    }
    Ok(one)
}
