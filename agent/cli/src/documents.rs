//! All documents that commands print with `--json`, and their schemas.

use super::{apply, bench, check, health, luns, pool, retired, selinux, view};
use serde_json::Value;

pub use super::{
    apply::{APPLY, CLAIM, ROLLBACK},
    document::Document,
    failure::{FAILURE, Failure, failure},
    health::HEALTH,
    luns::LUNS,
    retired::{Deleted, RETIRED_DELETE, RETIRED_LIST},
    view::{PLAN, STATUS},
};

/// The schema of each document, with its name.
pub fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        apply::APPLY.schema(),
        apply::ROLLBACK.schema(),
        apply::CLAIM.schema(),
        bench::BENCH.schema(),
        check::CONFIG_CHECK.schema(),
        FAILURE.schema(),
        health::HEALTH.schema(),
        health::HEALTH_LIST.schema(),
        luns::LUNS.schema(),
        pool::POOL_HEALTH.schema(),
        retired::RETIRED_DELETE.schema(),
        retired::RETIRED_LIST.schema(),
        selinux::SELINUX_STATUS.schema(),
        view::PLAN.schema(),
        view::STATUS.schema(),
    ]
}
