//! etcd-lun.
fn main() {}
