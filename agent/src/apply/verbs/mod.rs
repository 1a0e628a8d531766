//! What is done beside `apply` and `rollback`, each by a verb of its own.
//!
//! * [`mark`]: counting a use while etcd runs
//! * [`retired`]: deleting old local data
//! * [`confine`]: SELinux: the policy module, and labels
//! * [`let_go`]: shutting down without the target

pub mod confine;
pub mod let_go;
pub mod mark;
pub mod retired;
