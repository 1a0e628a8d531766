//! The verbs of the command line that change a node, beside `apply` and `rollback`.
//!
//! * [`mark`]: advancing the use counter while etcd runs
//! * [`retired`]: deleting retired data
//! * [`confine`]: installing and removing the SELinux policy module, and labels
//! * [`let_go`]: giving up an unreachable target at shutdown
//! * [`luns`]: what each portal shows

pub mod confine;
pub mod let_go;
pub mod luns;
pub mod mark;
pub mod retired;
