//! Whether a disk is fast enough for etcd. Pure functions of how long each `fdatasync` call took.
//!
//! A run writes at most one segment of etcd's log. So every time is kept, and percentiles are exact.

mod chart;
mod limits;
mod summary;

pub use chart::{beside_limits, chart, in_ascii, milliseconds};
pub use limits::{
    BLOCK, HEAVY_LIMIT, LIMIT, MAX_WRITES, MIN_WRITES, SEGMENT, SMALL_BLOCK, SPARE_SPACE, TIME_LIMIT,
    is_memory,
};
pub use summary::{Bucket, Percentiles, Summary, Verdict};
