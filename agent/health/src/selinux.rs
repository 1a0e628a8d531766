//! The check whether SELinux confines etcd-lun.

use super::report::{
    CheckInput,
    Outcome::{self, CannotTell, Found, Ok},
};
use node::{InForce, Selinux};
use policy::{DOMAIN, PROGRAM_TYPE, type_of};

pub(super) fn selinux(input: CheckInput<'_>) -> Outcome {
    let (enforcing, module, context, program, unit) = match input.node.selinux.require() {
        Err(why) => return CannotTell(why.to_owned()),
        // The kernel's command line decides this, and only a reboot changes it.
        Result::Ok(Selinux::Off) => return Ok("SELinux is off in this kernel, so it confines nothing".into()),
        Result::Ok(Selinux::On { enforcing, module, context, program, unit, .. }) => {
            (enforcing, module, context, program, unit)
        }
    };
    match module {
        InForce::Right => {}
        InForce::Other => {
            return Found(
                "etcd-lun's policy module is of another version or config: run `systemctl restart etcd-lun-selinux.service`, or `etcd-lun selinux install`".into(),
            );
        }
        InForce::Absent => {
            return Found(
                "etcd-lun's policy module is not installed: run `systemctl restart etcd-lun-selinux.service`, or `etcd-lun selinux install`".into(),
            );
        }
    }
    if let Some(unit) = unit
        && type_of(context) != Some(DOMAIN)
    {
        return Found(format!(
            "{unit} runs this process as {context}, not in {DOMAIN}: check SELinuxContext= in `systemctl cat {unit}`"
        ));
    }
    match program.as_deref() {
        Some(label) if type_of(label) == Some(PROGRAM_TYPE) => {}
        label => {
            let label = label.unwrap_or("unlabelled");
            return Found(format!(
                "this program's file is labelled {label}, not {PROGRAM_TYPE}, so the service will not start: run `etcd-lun selinux install`"
            ));
        }
    }
    if !enforcing {
        return Found("SELinux is permissive: it logs what etcd-lun may not do, and does not deny it".into());
    }
    Ok(format!("enforcing, with the module for this config; this process runs as {context}"))
}
