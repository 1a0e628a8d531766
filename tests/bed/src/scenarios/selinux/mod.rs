//! learning
use anyhow::Result;
use std::path::PathBuf;
use std::process::Command;

use super::boot;
use crate::delivery::{self, Root};
use crate::host;
use crate::node::Node;
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::vm::{Options, Selinux};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![Scenario::new("selinux/learn", learn)]
}

fn learn(stage: &mut Stage) -> Result<()> {
    let module = std::fs::read("/work/tgt/policy/learn.cil")?;
    let wanted = boot::pool();
    let data = boot::etcd_data(stage)?;
    let object = boot::object(stage, &wanted)?;
    let disk: PathBuf = delivery::deliver(&stage.bed, "enforcing", &stage.bed.image.disk, &object, |root: &Root| {
        root.run("base64 --decode | tar -C /var/lib/etcd -xz", data.as_bytes())?;
        root.run("cat >/root/etcd_lun.cil; rm -f /etc/systemd/system/etcd-lun-selinux.service; semodule -n -i /root/etcd_lun.cil; mkdir -p /etc/systemd/system/etcd-lun.service.d; printf '[Service]\nSELinuxContext=system_u:system_r:etcd_lun_t:s0\n' >/etc/systemd/system/etcd-lun.service.d/x.conf; mkdir -p /etc/udev/rules.d; echo 'SUBSYSTEM==\"block\", ENV{ID_PATH}==\"ip-*-iscsi-*\", SECLABEL{selinux}=\"system_u:object_r:etcd_lun_device_t:s0\"' >/etc/udev/rules.d/99-etcd-lun.rules; echo xfs >/etc/modules-load.d/xfs.conf; sed -i /WantedBy/d /etc/systemd/system/etcd-lun.service; sed -i '/etcd-lun.service/d' /etc/systemd/system-preset/*; ls -R /etc/systemd/system/*.wants; setfiles -F /etc/selinux/default/contexts/files/file_contexts /", &module)
    })?;
    boot::offer(stage)?;
    let options = Options { hostname: Some("master-0"), selinux: Selinux::Enforcing, ..Options::default() };
    stage.change_node(Node::off(&stage.bed, "master-0", &disk, options)?);
    stage.node.power_on()?;
    stage.node.ok("load_policy; rm -f /etc/systemd/system/etcd-lun.service.d/*; printf '[Service]\nSELinuxContext=system_u:system_r:etcd_lun_t:s0\nRestart=no\n' >/etc/systemd/system/etcd-lun.service.d/x.conf; systemctl daemon-reload")?;
    stage.node.save("learn")?;
    let q = PathBuf::from("/work/tgt/policy/q");
    std::fs::write(q.join("ready"), "")?;
    loop {
        let job = q.join("job.sh");
        if q.join("quit").exists() {
            break;
        }
        if !job.exists() {
            std::thread::sleep(std::time::Duration::from_millis(300));
            continue;
        }
        let script = std::fs::read_to_string(&job)?;
        let mut out = String::new();
        if q.join("job.policy").exists() {
            boot::offer(stage)?;
            stage.node.load("learn")?;
            stage.node.ok("date -s @$(date +%s)")?;
            stage.node.copy_in(&q.join("job.policy"), "/etc/selinux/default/policy/policy.34", 0o644)?;
            let _ = stage.node.run("touch /tmp/mark; systemctl kill -s USR1 auditd; >/var/log/audit/audit.log; load_policy");
            std::fs::remove_file(q.join("job.policy"))?;
        }
        if q.join("job.off").exists() { stage.target.stop(); std::fs::remove_file(q.join("job.off"))?; }
        if q.join("job.on").exists() { stage.target.restart()?; std::fs::remove_file(q.join("job.on"))?; }
        if q.join("job.reboot").exists() { std::fs::remove_file(q.join("job.reboot"))?; if let Err(e) = stage.node.reboot() { out += &format!("{e:#}"); } }
        match stage.node.run_within(&script, std::time::Duration::from_secs(300)) {
            Ok(o) => out += &format!("code {}\n{}\n{}", o.code, o.stdout, o.stderr),
            Err(e) => out += &format!("{e:#}"),
        }
        std::fs::write(q.join("out.tmp"), out)?;
        std::fs::rename(q.join("out.tmp"), q.join("out"))?;
        std::fs::remove_file(job)?;
    }
    let _ = Command::new("true");
    let _ = host::has("x");
    anyhow::bail!("done")
}
