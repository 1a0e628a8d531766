//! Observes SELinux, and how it confines this process.

use config::Config;
use host::{Host, identity, selinux};
use node::{Fact, InForce, Selinux};
use std::io;

/// SELinux on this node. This works in every domain that etcd-lun may run in.
pub fn selinux(host: &Host, config: &Config) -> Fact<Selinux> {
    read(host, config).into()
}

fn read(host: &Host, config: &Config) -> io::Result<Selinux> {
    let Some(enforcing) = selinux::enforces(host)? else { return Ok(Selinux::Off) };
    Ok(Selinux::On {
        enforcing,
        module: in_force(host, &policy::module(config))?,
        knows_data_label: selinux::knows(host, config.lun.data_label())?,
        context: selinux::own_context(host)?,
        program: selinux::label_of(host, "/proc/self/exe")?,
        beside: selinux::label_of(host, config.etcd.data_dir.parent().as_str())?,
        unit: identity::unit(host)?.filter(|unit| unit.starts_with("etcd-lun")),
    })
}

/// Which version of the module the loaded policy has. Only while SELinux is on.
pub fn in_force(host: &Host, module: &policy::Module) -> io::Result<InForce> {
    Ok(if selinux::knows(host, &module.mark)? {
        InForce::Right
    } else if selinux::knows(host, policy::DATA_LABEL)? {
        InForce::Other
    } else {
        InForce::Absent
    })
}
