//! Whether SELinux confines etcd-lun.

use super::{
    Outcome::{self, CannotTell, Found, Ok},
    Seen,
};
use crate::{
    node::{InForce, Selinux},
    policy::{DOMAIN, PROGRAM_TYPE, type_of},
};

pub(super) fn selinux(seen: Seen<'_>) -> Outcome {
    let (enforcing, module, context, program, unit) = match seen.node.selinux.require() {
        Err(why) => return CannotTell(why.to_owned()),
        // The kernel's command line says so, and only a reboot changes it.
        Result::Ok(Selinux::Off) => return Ok("SELinux is off in this kernel: it confines nothing".into()),
        Result::Ok(Selinux::On { enforcing, module, context, program, unit, .. }) => {
            (enforcing, module, context, program, unit)
        }
    };
    match module {
        InForce::Right => {}
        InForce::Other => {
            return Found(
                "etcd-lun's policy module is not that of this version and config: `systemctl restart etcd-lun-selinux.service`, or `etcd-lun selinux install`".into(),
            );
        }
        InForce::Absent => {
            return Found(
                "etcd-lun's policy module is not installed: `systemctl restart etcd-lun-selinux.service`, or `etcd-lun selinux install`".into(),
            );
        }
    }
    if let Some(unit) = unit
        && type_of(context) != Some(DOMAIN)
    {
        return Found(format!(
            "{unit} runs this as {context} and not in {DOMAIN}: see `systemctl cat {unit}` for SELinuxContext="
        ));
    }
    match program.as_deref() {
        Some(label) if type_of(label) == Some(PROGRAM_TYPE) => {}
        label => {
            let label = label.unwrap_or("unlabelled");
            return Found(format!(
                "this program's file is {label} and not {PROGRAM_TYPE}: the service won't start; `etcd-lun selinux install` labels it"
            ));
        }
    }
    if !enforcing {
        return Found("SELinux is permissive: what etcd-lun may not do is logged, not denied".into());
    }
    Ok(format!("enforcing, with the module of this config; this runs as {context}"))
}
