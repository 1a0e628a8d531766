//! What is measured, and etcd's limits.

use std::time::Duration;

/// etcd's limit: 99 of 100 `fdatasync` calls must take less, or etcd may lose its leader ("WAL fsync duration" in etcd's FAQ and
/// in OpenShift's recommended etcd practices).
pub const LIMIT: Duration = Duration::from_millis(10);

/// The limit for heavily loaded clusters: 500 sequential writes a second (OpenShift's recommended etcd practices).
pub const HEAVY_LIMIT: Duration = Duration::from_millis(2);

/// The size of the measured file. etcd writes its log in segments of 64,000,000 bytes (etcd `server/storage/wal/wal.go`,
/// `SegmentSizeBytes`). [`BLOCK`] divides it.
pub const SEGMENT: u64 = 64_000_000;

/// The size of a write, from OpenShift's recommended etcd practices.
pub const BLOCK: u32 = 8000;

/// The size of a write in older guides, from the writes of etcd 3.2.
pub const SMALL_BLOCK: u32 = 2300;

/// Space that must stay free beside the measured file: etcd's next segment.
pub const SPARE_SPACE: u64 = SEGMENT;

/// The most writes of a series: one segment.
pub const MAX_WRITES: u32 = 8000;

/// The fewest writes of a series. With fewer there is no slowest one in a hundred.
pub const MIN_WRITES: u32 = 100;

/// How long a series may take. A disk at etcd's limit needs a little more for 8,000 writes.
pub const TIME_LIMIT: Duration = Duration::from_secs(60);

/// True if a filesystem of this type is in memory, where `fdatasync` does nothing.
pub fn is_memory(filesystem: &str) -> bool {
    ["tmpfs", "ramfs", "devtmpfs", "rootfs"].contains(&filesystem)
}
