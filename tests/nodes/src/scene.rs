//! Puts the agent and its config into the node.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::host::Output;
use crate::image::HOSTNAME;
use crate::net;
use crate::node::Node;
use crate::target::{Account, IQN};

/// Large enough for etcd's keys and for XFS. Small enough to hash in a second.
pub const LUN_SIZE: u64 = 1 << 30;

/// The node's initiator name.
pub const INITIATOR: &str = "iqn.1994-05.com.redhat:master0";

/// Longer than every time limit of the agent itself, so that the agent gives up first.
pub const LIMIT: Duration = Duration::from_secs(300);

const CONFIG: &str = "/etc/etcd-lun/config.toml";

/// The account for sessions, where the target requires CHAP.
pub fn chap() -> Account {
    Account::new("initiator1", "bed-Session-s3cret")
}

/// Shell functions: `record PORTAL` makes a node record of our interface, as releases left it that kept records, and
/// `log_in PORTAL` makes a session of ours by such a record, which goes again.
pub fn record_by_hand() -> String {
    let account = chap();
    format!(
        "made() {{
             iscsiadm -m iface -I etcd-lun -o new && iscsiadm -m iface -I etcd-lun -o update -n iface.initiatorname -v {INITIATOR}
             set -- -m node -T {IQN} -p $1,1 -I etcd-lun
             iscsiadm \"$@\" -o new && iscsiadm \"$@\" -o update -n node.startup -v manual -n node.session.scan -v manual \
                 -n node.session.auth.authmethod -v CHAP -n node.session.auth.username -v {} -n node.session.auth.password -v {}
         }}
         unmade() {{ rm -f /var/lib/iscsi/ifaces/etcd-lun /etc/iscsi/ifaces/etcd-lun; }}
         record() {{ made $1 && unmade; }}
         log_in() {{
             made $1 && iscsiadm -m node -T {IQN} -p $1,1 -I etcd-lun --login; done=$?
             unmade; rm -rf /var/lib/iscsi/nodes/{IQN}/*/etcd-lun /etc/iscsi/nodes/{IQN}/*/etcd-lun; return $done
         }}\n",
        account.user, account.secret
    )
}

/// The account with which the target authenticates itself.
pub fn mutual() -> Account {
    Account::new("target1", "bed-Mutual-s3cret")
}

/// The account for discovery.
pub fn discovery() -> Account {
    Account::new("discoverer1", "bed-Discov-s3cret")
}

/// What the config contains. The default fits a target with CHAP and a LUN 1 on the first storage network.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// `device.path`, instead of the target and the node's entry
    pub device: Option<String>,
    /// The lines of another `[[target]]` before this one, which is the second then, and the node's
    pub first_target: Option<String>,
    /// `target.iqn`
    pub iqn: String,
    /// `target.portals`: an address, or a table with address and name
    pub portals: Vec<String>,
    /// Whether the config's `discovery` is `static` instead of `sendtargets`
    pub static_records: bool,
    /// Further lines of the table `target`
    pub target: String,
    /// `target.chap`
    pub chap: Option<Account>,
    /// The `_in` half of `target.chap`
    pub mutual: Option<Account>,
    /// `algs` of both CHAP tables, such as `["SHA256"]`
    pub algs: Option<String>,
    /// `target.discovery_chap`
    pub discovery_chap: Option<Account>,
    /// The lines of the table `etcd`
    pub etcd: String,
    /// The lines of the table `cluster`
    pub cluster: String,
    /// `lun.min_size`
    pub min_size: String,
    /// `lun.max_switch`
    pub max_switch: Option<String>,
    /// `boot.gate`
    pub gate: Option<String>,
    /// `boot.attach_timeout`
    pub attach_timeout: String,
    /// `node.hostname`
    pub hostname: String,
    /// `node.initiator`
    pub initiator: String,
    /// `node.lun`
    pub lun: u32,
    /// `node.wwid`
    pub wwid: Option<String>,
    /// Further lines of TOML, at the end
    pub more: String,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            device: None,
            first_target: None,
            iqn: IQN.into(),
            portals: vec![net::Path::A.portal()],
            static_records: false,
            target: String::new(),
            chap: Some(chap()),
            mutual: None,
            algs: None,
            discovery_chap: None,
            etcd: "runtime = \"systemd\"\nunit = \"etcd.service\"\n".into(),
            cluster: "client_url = \"http://127.0.0.1:2379\"\nserve_timeout = \"2min\"\n".into(),
            min_size: "512MiB".into(),
            max_switch: None,
            gate: None,
            attach_timeout: "1min".into(),
            hostname: HOSTNAME.into(),
            initiator: INITIATOR.into(),
            lun: 1,
            wwid: None,
            more: String::new(),
        }
    }
}

impl Wanted {
    /// The same for OpenShift's static pod, whose address and certificates are the defaults.
    pub fn of_pod(self) -> Self {
        let (etcd, cluster) = ("runtime = \"static-pod\"\n".into(), "serve_timeout = \"4min\"\n".into());
        Self { etcd, cluster, ..self }
    }

    /// Returns the config's text, and the path and content of each secret's file.
    pub fn render(&self) -> (String, Vec<(String, String)>) {
        let gate = self.gate.as_ref().map(|gate| format!("gate = {gate:?}\n")).unwrap_or_default();
        let switch =
            self.max_switch.as_ref().map(|limit| format!("max_switch = {limit:?}\n")).unwrap_or_default();
        let common = format!(
            "\n[etcd]\n{}\n[cluster]\n{}\n[lun]\nmin_size = {:?}\n{switch}\n[boot]\n{gate}attach_timeout = {:?}\n",
            self.etcd, self.cluster, self.min_size, self.attach_timeout
        );
        if let Some(path) = &self.device {
            return (format!("[device]\npath = {path:?}\n{common}{}", self.more), Vec::new());
        }
        let mut secrets = Vec::new();
        let mut secret = |name: &str, account: &Account| {
            let file = format!("/etc/etcd-lun/{name}.secret");
            // An editor adds a newline at the end. It is not part of the secret.
            secrets.push((file.clone(), format!("{}\n", account.secret)));
            file
        };
        let row =
            |portal: &String| if portal.starts_with('{') { portal.clone() } else { format!("{portal:?}") };
        let portals: Vec<String> = self.portals.iter().map(row).collect();
        let discovery = if self.static_records { "static" } else { "sendtargets" };
        let (head, takes) = match &self.first_target {
            Some(first) => {
                (format!("[[target]]\n{first}\n[[target]]\nname = \"second\""), "target = \"second\"\n")
            }
            None => ("[target]".into(), ""),
        };
        let mut text = format!(
            "{head}\niqn = {:?}\nportals = [{}]\ndiscovery = {discovery:?}\n{}",
            self.iqn,
            portals.join(", "),
            self.target
        );
        if let Some(account) = &self.chap {
            let file = secret("chap", account);
            text += &format!("\n[target.chap]\nusername = {:?}\npassword_file = {file:?}\n", account.user);
        }
        if let Some(account) = &self.mutual {
            let file = secret("mutual", account);
            text += &format!("username_in = {:?}\npassword_in_file = {file:?}\n", account.user);
        }
        let algs = self.algs.as_ref().map(|list| format!("algs = {list}\n")).unwrap_or_default();
        if self.chap.is_some() {
            text += &algs;
        }
        if let Some(account) = &self.discovery_chap {
            let file = secret("discovery", account);
            text += &format!(
                "\n[target.discovery_chap]\nusername = {:?}\npassword_file = {file:?}\n{algs}",
                account.user
            );
        }
        text += &format!(
            "{common}\n[[node]]\nhostname = {:?}\ninitiator = {:?}\nlun = {}\n{takes}",
            self.hostname, self.initiator, self.lun
        );
        if let Some(wwid) = &self.wwid {
            text += &format!("wwid = {wwid:?}\n");
        }
        text += &self.more;
        (text, secrets)
    }
}

/// The program's path in a node.
pub const PROGRAM: &str = "/var/lib/etcd-lun/bin/etcd-lun";

/// Puts the agent into the node, as a person does.
pub fn install(node: &Node, agent: &Path) -> Result<()> {
    node.ok("mkdir --mode 0700 /var/lib/etcd-lun")?;
    node.copy_in(agent, PROGRAM, 0o755)?;
    node.ok(&format!("ln -s {PROGRAM} /usr/local/bin/etcd-lun")).map(drop)
}

/// Writes the config and its secrets into the node.
pub fn configure(node: &Node, wanted: &Wanted) -> Result<()> {
    node.ok(&writing(wanted)).map(drop)
}

/// Writes the config and its secrets, and puts the rendered units in place, as an administrator does once.
pub fn configure_with_units(node: &Node, wanted: &Wanted) -> Result<()> {
    node.ok(&format!("{}{UNITS}", writing(wanted))).map(drop)
}

/// Puts the units in place, without the drop-in by which a boot starts them: see [`AT_BOOT`]. systemd reloads them only if
/// one changed, because that takes seconds in an emulated node.
const UNITS: &str = "rm -rf /run/units; mkdir /run/units; etcd-lun render units --into /run/units
    changed=; for unit in $(cd /run/units && find * -type f \\( -not -path '*.d/*' -o -path 'iscsid.service.d/*' \\)); do
        cmp --silent /run/units/$unit /etc/systemd/system/$unit ||
            { mkdir -p $(dirname /etc/systemd/system/$unit); cp /run/units/$unit /etc/systemd/system/$unit; changed=1; }
    done
    [ -z \"$changed\" ] || systemctl daemon-reload\n";

/// From now on a boot starts what the config says. A node has this from the beginning, but a scenario that boots a node to look
/// at what etcd does without etcd-lun must not have it.
pub const AT_BOOT: &str =
    "etcd-lun render units --into /etc/systemd/system >/dev/null && systemctl daemon-reload";

/// The commands are one script, because each command in an emulated node costs nearly a second.
fn writing(wanted: &Wanted) -> String {
    let (text, secrets) = wanted.render();
    let mut script = String::from("set -e; umask 077; mkdir -p /etc/etcd-lun\n");
    for (file, content) in secrets.iter().map(|(f, c)| (f.as_str(), c)).chain([(CONFIG, &text)]) {
        script += &format!("cat >{file} <<'END-OF-FILE'\n{content}END-OF-FILE\n");
    }
    script + &format!("chmod 755 /etc/etcd-lun; chmod 644 {CONFIG}\n")
}

/// Runs etcd-lun in the node.
pub fn agent(node: &Node, arguments: &str) -> Result<Output> {
    node.run_within(&format!("etcd-lun {arguments}"), LIMIT)
}
