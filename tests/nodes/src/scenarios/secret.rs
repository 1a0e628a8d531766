//! Secrets are in no process's arguments, in no log or output, and in no file that others can read.

use anyhow::{Result, bail};

use crate::scene::{self, Wanted};
use crate::stage::Stage;
use crate::suite::Scenario;
use crate::target::{Account, Offer};

pub(super) fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario::new("secret/during-a-migration", |stage| {
            let offered = stage.target.offered().clone();
            stage.target.offer(Offer {
                mutual: Some(scene::mutual()),
                discovery_chap: Some(scene::discovery()),
                ..offered
            })?;
            let wanted = Wanted {
                mutual: Some(scene::mutual()),
                discovery_chap: Some(scene::discovery()),
                ..Wanted::default()
            };
            stage.configure(&wanted)?;
            let secrets = [scene::chap(), scene::mutual(), scene::discovery()].map(|account| account.secret);
            sampled(stage, 0, &secrets)?;
            stage.is_on_lun()
        }),
        Scenario::new("secret/in-errors", |stage| {
            let wrong = Account::new("initiator1", "bed-Wrong-s3cret");
            stage.configure(&Wanted {
                chap: Some(wrong.clone()),
                attach_timeout: "10s".into(),
                ..Wanted::default()
            })?;
            sampled(stage, 1, &[wrong.secret])
        }),
        Scenario::new("secret/in-the-config-itself", |stage| {
            stage.configure(&Wanted::default())?;
            let secret = scene::chap().secret;
            // The config also has a misspelled key with the secret, because parsers often quote the faulty
            // line.
            stage.node.ok(&format!(
                "sed -i -e 's/^password_file = .*chap.secret.*/password = \"{secret}\"\\npasswort = \"{secret}\"/' /etc/etcd-lun/config.toml; chmod 600 /etc/etcd-lun/config.toml"
            ))?;
            sampled(stage, 2, &[secret])
        }),
    ]
}

/// The commands that a person or a unit may run, while a sampler reads every process's arguments and
/// environment.
const SCRIPT: &str = "
sample() { while [ ! -e /run/enough ]; do cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null; sleep 0.05; done >/run/sampled; }
sample & sampler=$!
for how in 'plan' 'plan --json' 'apply --dry-run --json'; do etcd-lun $how; done >/run/outputs 2>&1
RUST_BACKTRACE=1 RUST_LOG=trace etcd-lun apply >>/run/outputs 2>&1; code=$?
for how in apply plan status health 'config check'; do etcd-lun $how; etcd-lun $how --json; done >>/run/outputs 2>&1
touch /run/enough; wait $sampler
journalctl --sync; journalctl -b -o verbose --no-pager >/run/journal.txt
exit $code";

fn sampled(stage: &Stage, code: i32, secrets: &[String]) -> Result<()> {
    let output = stage.node.run_within(SCRIPT, 2 * scene::LIMIT)?;
    if output.code != code {
        bail!("`apply` should have ended with {code}: {output}\n{}", stage.node.read("/run/outputs")?);
    }
    // With the byte between two arguments, so that the script's own text is not found.
    // Without a config that can be read nothing else runs.
    let programs: &[&str] = if code == 2 { &["etcd-lun"] } else { &["etcd-lun", "iscsiadm"] };
    for program in programs {
        if stage.node.run(&format!("grep -a -q -P '{program}\\x00' /run/sampled"))?.code != 0 {
            bail!("the sampler saw no run of {program}");
        }
    }
    for secret in secrets {
        let found = stage.node.ok(&format!(
            "cd /run; for place in sampled outputs journal.txt; do
                ! grep -q -a -F '{secret}' $place ||
                    {{ echo \"in $place:\"; tr '\\0' ' ' <$place | grep -o -m 3 '.\\{{0,80\\}}{secret}'; }}
            done"
        ))?;
        if !found.is_empty() {
            bail!("a secret was found {found}");
        }
        // open-iscsi needs the secret in its files. Only root may read them.
        let open = stage.node.ok(&format!(
            "grep -rlZ '{secret}' /var/lib/iscsi /var/lib/etcd-lun /etc /run/etcd-lun 2>/dev/null | xargs -0r stat -c '%a %U %n' | grep -v '^600 root ' || true"
        ))?;
        if !open.is_empty() {
            bail!("a file with the secret can be read by others: {open}");
        }
    }
    Ok(())
}
