//! Tests, in the domain, what a plain config does not need: a portal with a DNS name, an IPv6 address,
//! another port, and mutual CHAP with secrets from the unit's credentials. The node also had another
//! initiator name before. On Red Hat's policy a running iscsid uses that name.

use std::path::{Path as FilePath, PathBuf};
use std::process::Child;

use anyhow::Result;

use super::super::boot;
use crate::delivery::{self, Root};
use crate::net::Path;
use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::target::Offer;

const NAME: &str = "san1.bed.example";

/// The config with this portal.
pub(super) fn wanted() -> Wanted {
    let (pool, chap, mutual) = (boot::pool(), scene::chap().user, scene::mutual().user);
    let accounts = format!(
        "username = {chap:?}\ncredential = \"chap\"\nusername_in = {mutual:?}\ncredential_in = \"chap-in\"\n"
    );
    let more = format!("{}\n[target.chap]\n{accounts}", pool.more);
    // Nobody listens at the first portal.
    let portals = vec![format!("[{}]:3261", Path::A.target_v6()), format!("{NAME}:13260")];
    Wanted { portals, chap: None, more, ..pool }
}

/// A copy of a disk with this config delivered, with its credentials and the address of a name server.
pub(super) fn delivered(stage: &Stage, disk: &FilePath) -> Result<PathBuf> {
    // If the policy has a type for its unit, iscsid runs first with the other name, as if other storage
    // needed it.
    // The key of a node exists only when it runs, so its credentials are encrypted at its first boot.
    let script = format!(
        "umask 077; echo {} >/root/chap; echo {} >/root/chap-in
         umask 022; printf '%s\\n' '[Unit]' Before=etcd-lun.service '[Service]' Type=oneshot UMask=0077 \
             'ExecStart=/bin/sh -ec \"mkdir -p /etc/credstore.encrypted; for name in chap chap-in; do \
                 systemd-creds encrypt --tpm2-pcrs= --name=$$name.cred /root/$$name /etc/credstore.encrypted/$$name.cred; rm /root/$$name; done\"' \
             >/etc/systemd/system/bed-credentials.service
         mkdir -p /etc/systemd/system/multi-user.target.wants
         ln -s ../bed-credentials.service /etc/systemd/system/multi-user.target.wants/
         echo nameserver {} >/etc/resolv.conf
         echo InitiatorName=iqn.1994-05.com.redhat:other >/etc/iscsi/initiatorname.iscsi
         . /etc/selinux/config
         [ $SELINUXTYPE = default ] || echo enable iscsid.service >/etc/systemd/system-preset/10-bed.preset",
        scene::chap().secret,
        scene::mutual().secret,
        Path::Management.target()
    );
    delivery::change(&stage.bed, "portal", disk, |root: &Root| {
        root.run(&script, &[])?;
        root.label("/root /etc/systemd/system /etc/resolv.conf /etc/iscsi /etc/systemd/system-preset")
    })
}

/// Offers LUNs for the pool, with mutual CHAP.
pub(super) fn offer(stage: &mut Stage) -> Result<()> {
    stage.offer_luns(boot::NODES.len())?;
    stage.target.offer(Offer { mutual: Some(scene::mutual()), ..stage.target.offered().clone() })
}

/// A name server that knows the portal's name.
pub(super) struct NameServer(Child);

impl NameServer {
    pub(super) fn serve(stage: &Stage) -> Result<Self> {
        let mut names = stage.bed.net.command("dnsmasq");
        names.args(["--keep-in-foreground", "--no-resolv", "--no-hosts", "--user=root", "--pid-file"]);
        names.arg("--bind-interfaces").arg(format!("--listen-address={}", Path::Management.target()));
        names.arg(format!("--address=/{NAME}/{}", Path::A.target_v6()));
        Ok(Self(stage.bed.run.spawn(&mut names, "dnsmasq")?))
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
