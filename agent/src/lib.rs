//! etcd-lun: see ARCHITECTURE.md.
