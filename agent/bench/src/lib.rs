//! Whether a disk is fast enough for etcd. Pure functions of how long each `fdatasync` call took.
//!
//! A run writes at most one segment of etcd's log. So every time is kept, and percentiles are exact.

mod limits;
mod summary;
mod times;

pub use limits::{
    BLOCK, HEAVY_LIMIT, LIMIT, MAX_WRITES, MIN_WRITES, SEGMENT, SMALL_BLOCK, SPARE_SPACE, TIME_LIMIT,
    is_memory,
};
pub use summary::{Percentiles, Summary, Verdict};
pub use times::{beside_limits, milliseconds};
