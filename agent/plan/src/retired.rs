//! When retired data may be deleted: etcd has run on the LUN for so long that nobody returns to the old data.

use super::{
    input::{Occasion, PlanInput, require},
    refusal::{Refusal, RetiredRefusal},
    resume,
};
use config::Config;
use node::{Node, Retired, layout::RETIRED};

/// The retired data of a generation. Refuses unless it may be deleted.
///
/// The data was retired when the LUN became authoritative. Since then etcd has run on the LUN or not at all. So the age of the
/// retired data, and an etcd that runs on the LUN now, show how long etcd has worked without it.
pub fn may_delete<'a>(config: &Config, node: &'a Node, generation: u64) -> Result<&'a Retired, Refusal> {
    let keep = config.lun.keep_retired;
    let input = PlanInput::new(config, node, Occasion::ByHand)?;
    let needed = |found: &str| Refusal::from(RetiredRefusal::Needed { found: found.to_owned() });
    let Some(mount) = require("what is mounted on the data directory", &node.mount)? else {
        return Err(needed("the LUN is not mounted"));
    };
    let (record, _) = resume::verify_mounted(&input, mount)?;
    if !input.etcd.is_up() {
        return Err(needed(&format!("etcd ({}) is {}", input.etcd.name, input.etcd.state)));
    }
    let all = require("the retired data", &node.retired)?;
    let at = || format!("{RETIRED}/{generation}");
    let Some(one) = all.iter().find(|one| one.name == generation.to_string()) else {
        return Err(RetiredRefusal::Absent { at: at() }.into());
    };
    if !one.ours || generation > record.generation {
        return Err(RetiredRefusal::ByOthers { at: at() }.into());
    }
    if one.age.0 < keep.0 {
        return Err(RetiredRefusal::Lately { at: at(), age: one.age, keep }.into());
    }
    Ok(one)
}
