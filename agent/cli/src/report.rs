//! `report`: one archive with what a colleague or a ticket needs, without secrets.

mod scrub;
mod tar;

use super::{
    config::{self, credentials},
    exit::Exit,
    failure::failure,
    follow,
    health::HEALTH,
    output::{print_err, print_out},
    show,
    values::absolute,
    view::{self, PLAN, STATUS},
};
use ::config::{Config, Runtime};
use anyhow::Context as _;
use clap::{Args, ValueHint};
use hands::Door;
use host::{Host, Invocation, Tool};
use node::{
    HealthFacts, Identity, KUBELET,
    layout::{RECORD, RUN_FILE, VERDICTS},
};
use plan::{Goal, Occasion};
use scrub::Secrets;
use serde_json::{Value, json};
use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use terms::{AbsPath, Bytes};

/// Where the archive goes.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// The archive [default: /var/tmp/etcd-lun-report-HOST-SECONDS.tar]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = absolute())]
    output: Option<PathBuf>,
}

/// The most that one file of the archive has. Of a longer one the end is kept, because the last lines say what went wrong.
const LARGEST: usize = 1 << 20;
/// How long a tool may take. A disk or a target that does not answer must not keep the report from its end.
const LIMIT: Duration = Duration::from_secs(20);

/// Writes the archive.
pub(super) fn run(file: Option<&Path>, options: &Options, version: &str) -> Result<(), Exit> {
    let machine = config::TO_LOOK.machine()?;
    let loaded = machine.config(file);
    let host = machine.host;
    let texts = config::texts(&host, file);
    let secrets =
        Secrets::new(&host, &texts, loaded.as_ref().ok().map(|(_, config)| config), credentials().as_deref());
    host.watch_signals().context("setting up signals")?;
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut parts = Parts { secrets, files: Vec::new() };
    let name = match &loaded {
        Ok((identity, config)) => {
            of_node(&Door::of(&host, config)?, config, identity, &mut parts);
            identity.hostname.clone()
        }
        Err(exit) => {
            parts.add("config-error.txt", &exit.line().unwrap_or_default());
            "node".into()
        }
    };
    let read: String = texts.iter().map(|(path, _)| format!("{path}\n")).collect();
    parts.add("config-files.txt", &read);
    parts.add("version.txt", version);
    of_machine(&host, &mut parts);
    let path = match &options.output {
        Some(path) => path.to_str().context("the directory's name is not UTF-8")?.to_owned(),
        None => format!("/var/tmp/etcd-lun-report-{name}-{at}.tar"),
    };
    let path: AbsPath = path.parse().map_err(|error| Exit::Usage(format!("--output: {error}")))?;
    let bytes = tar::packed(&parts.files, at).context("packing the report")?;
    host.root.write_bytes_durably(&path, &bytes, 0o600).context("writing the report")?;
    for (name, bytes) in &parts.files {
        print_out(&format!("  {name}  {}", Bytes(bytes.len() as u64)));
    }
    print_out(&format!("wrote {path}: {}, mode 0600", Bytes(bytes.len() as u64)));
    print_err(
        "note: secrets of the config are taken out wherever they were; addresses, names and serial numbers are in it: look at it before you send it",
    );
    Ok(())
}

/// The files of the archive. Each is scrubbed and bounded when it is added, so that none can be forgotten.
struct Parts {
    secrets: Secrets,
    files: Vec<(String, Vec<u8>)>,
}

impl Parts {
    fn add(&mut self, name: &str, text: &str) {
        let text = self.secrets.scrubbed(text);
        let bytes = text.as_bytes();
        let kept = match bytes.len().checked_sub(LARGEST) {
            None | Some(0) => bytes.to_vec(),
            Some(left_out) => {
                let end = bytes.get(left_out..).unwrap_or_default();
                let line = format!("[the first {left_out} bytes are left out]\n");
                [line.as_bytes(), end].concat()
            }
        };
        self.files.push((name.to_owned(), kept));
    }

    fn add_json(&mut self, name: &str, document: &Value) {
        self.add(name, &serde_json::to_string_pretty(document).unwrap_or_default());
    }
}

/// What the program itself says of this node.
fn of_node(door: &Door<'_>, config: &Config, identity: &Identity, parts: &mut Parts) {
    let host = door.host;
    let (node, at_work) = view::look(door, config, identity, observe::Asked::BY_HAND);
    let last_run = view::last_run(host, at_work.as_ref());
    parts.add("status.txt", &show::status(config, &node, &last_run, at_work.is_some()));
    parts.add_json("status.json", &STATUS.of(&node));
    match Goal::Lun(Occasion::ByHand).plan(config, &node) {
        Ok(plan) => parts.add_json("plan.json", &PLAN.of(&plan)),
        Err(refusal) => {
            let exit = Exit::from(refusal);
            parts.add("plan.txt", &format!("{}\n", exit.line().unwrap_or_default()));
            parts.add_json("plan.json", &failure(&exit).unwrap_or_default());
        }
    }
    let at_work = at_work.as_ref().map(follow::under_way);
    let facts = HealthFacts { at_work, ..observe::health_facts(door, config, &node) };
    parts.add_json("health.json", &HEALTH.of(&health::assess(config, &node, &facts)));
    parts.add_json("config.json", &json!({ "version": 1, "config": config }));
    let etcd = match &config.etcd.runtime {
        Runtime::Systemd { unit } => unit.as_str(),
        Runtime::StaticPod { .. } => KUBELET,
    };
    let mount = unit::mount_unit_name(&config.etcd.data_dir);
    let mut units: Vec<&str> = UNITS.to_vec();
    units.extend([etcd, mount.as_str()]);
    let status = ["status", "--no-pager", "--full", "--lines=20"].into_iter().chain(units.iter().copied());
    tool(host, parts, "units.txt", Tool::Systemctl, status);
    let cat = ["cat", "--no-pager"].into_iter().chain(units.iter().copied());
    tool(host, parts, "unit-files.txt", Tool::Systemctl, cat);
    journal(host, parts, "journal-etcd.txt", &["--boot", "--unit", etcd]);
    journal(host, parts, "journal-mount.txt", &["--boot", "--unit", &mount]);
}

/// Our units, and those that we depend on.
const UNITS: [&str; 10] = [
    "etcd-lun.service",
    "etcd-lun-program.service",
    "etcd-lun-selinux.service",
    "etcd-lun-hands.socket",
    "etcd-lun-health.timer",
    "etcd-lun-health.service",
    "iscsid.service",
    "iscsid.socket",
    "multipathd.service",
    "crio.service",
];

/// What the machine says.
fn of_machine(host: &Host, parts: &mut Parts) {
    for (name, path) in [
        ("record.json", RECORD),
        ("run.json", RUN_FILE),
        ("health-verdicts.json", VERDICTS),
        ("os-release.txt", "/etc/os-release"),
        ("mounts.txt", "/proc/1/mountinfo"),
        ("kernel.txt", "/proc/version"),
    ] {
        let is_ours = [RECORD, RUN_FILE, VERDICTS].contains(&path);
        match if is_ours { host.root.read_ours(path) } else { host.root.read_opt(path) } {
            Ok(Some(text)) => parts.add(name, &text),
            Ok(None) => parts.add(name, &format!("{path} does not exist\n")),
            Err(error) => parts.add(name, &format!("{error}\n")),
        }
    }
    journal(host, parts, "journal-etcd-lun.txt", &["--identifier", "etcd-lun"]);
    journal(host, parts, "journal-units.txt", &["--unit", "etcd-lun*"]);
    journal(
        host,
        parts,
        "journal-iscsid.txt",
        &["--boot", "--unit", "iscsid.service", "--unit", "multipathd.service"],
    );
    journal(host, parts, "journal-kernel.txt", &["--boot", "--dmesg"]);
    tool(host, parts, "sessions.txt", Tool::Iscsiadm, ["-m", "session", "-P", "3"]);
    tool(host, parts, "multipath.txt", Tool::Multipathd, ["show", "topology"]);
    tool(
        host,
        parts,
        "block.txt",
        Tool::Lsblk,
        ["--paths", "--output", "NAME,HCTL,SIZE,RO,TYPE,FSTYPE,UUID,WWN,MOUNTPOINTS,STATE"],
    );
    tool(
        host,
        parts,
        "containers.txt",
        Tool::Crictl,
        ["ps", "--all", "--label", "io.kubernetes.pod.namespace=openshift-etcd"],
    );
}

fn journal(host: &Host, parts: &mut Parts, name: &str, of: &[&str]) {
    let how = ["--no-pager", "--output=short-iso-precise", "--lines=4000"];
    tool(host, parts, name, Tool::Journalctl, how.into_iter().chain(of.iter().copied()));
}

/// Adds what a tool prints. A tool that is missing or fails says so in its file: what is not there is a fact too.
fn tool<'a>(host: &Host, parts: &mut Parts, name: &str, tool: Tool, args: impl IntoIterator<Item = &'a str>) {
    let what = Invocation::new(tool, args).limit(LIMIT);
    let said = match host.run(&what) {
        Ok(output) => {
            let errors = if output.stderr.is_empty() {
                String::new()
            } else {
                format!("[standard error]\n{}\n", output.stderr)
            };
            format!("$ {what}\n{}{errors}[exit code {}]\n", output.stdout, output.code)
        }
        Err(error) => format!("$ {what}\n{:#}\n", anyhow::Error::from(error)),
    };
    parts.add(name, &said);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::config::Source;
    use host::{ExecError, Output, Root, Runner, files::Files};
    use std::process::Command;

    /// A tool that prints every secret, as a faulty one could.
    #[derive(Debug)]
    struct Talkative(String);

    impl Runner for Talkative {
        fn run(&self, what: &Invocation, _: &mut dyn FnMut(&str)) -> Result<Output, ExecError> {
            Ok(Output { code: 0, stdout: format!("{what}: {}\n", self.0), stderr: self.0.clone() })
        }

        fn has(&self, _: Tool) -> bool {
            true
        }
    }

    const SECRETS: [&str; 8] = [
        "inline-secret-1",
        "inline in secret 2",
        "file-secret-3",
        "file-in-secret-4",
        "discovery-secret-5",
        "credential-6",
        "quote\"secret\\7",
        "fragment-secret-8",
    ];

    fn machine(config: &str) -> (Files, Host, String) {
        let files = Files::new("report");
        files.put("etc/etcd-lun/config.toml", config);
        files.put(
            "etc/etcd-lun/config.d/9.toml",
            "[target.discovery_chap]\nusername_in = \"x\"\npassword_in = \"fragment-secret-8\"\n",
        );
        files.put("etc/etcd-lun/chap.secret", "file-secret-3\n");
        files.put("etc/etcd-lun/in.secret", "file-in-secret-4");
        files.put("credentials/chap", "credential-6\n");
        let said = SECRETS.join(" ") + &serde_json::to_string(&SECRETS).unwrap();
        for path in [RECORD, RUN_FILE, VERDICTS, "/etc/os-release", "/proc/1/mountinfo"] {
            files.put(path.trim_start_matches('/'), &said);
        }
        let host = Host::fixture(Root::new(&files.0), Box::new(Talkative(said.clone()))).unwrap();
        (files, host, said)
    }

    /// Every form in which a config can name a secret, in a config that is not even valid.
    const CONFIG: &str = r#"
[target.chap]
password = "inline-secret-1"   # a comment
password_file = "/etc/etcd-lun/chap.secret"
more = { username = "x", password_in = 'inline in secret 2', "password" = "quote\"secret\\7" }
credential = "chap"
[target.discovery_chap]
password="discovery-secret-5"
password_in_file = '/etc/etcd-lun/in.secret'
"#;

    #[test]
    #[allow(clippy::disallowed_methods)] // tar(1) is the oracle
    fn no_secret_is_in_a_report_whatever_prints_it() {
        let (files, host, said) = machine(CONFIG);
        let texts = config::texts(&host, None);
        assert_eq!(texts.len(), 2);
        let secrets = Secrets::new(&host, &texts, None, Some("/credentials"));
        let mut parts = Parts { secrets, files: Vec::new() };
        of_machine(&host, &mut parts);
        parts.add("said.txt", &said);
        parts.add_json("said.json", &json!(SECRETS));
        let archive = files.0.join("report.tar");
        let bytes = tar::packed(&parts.files, 1_700_000_000).unwrap();
        host.root.write_bytes_durably(&"/report.tar".parse().unwrap(), &bytes, 0o600).unwrap();
        // tar(1) reads it, and nothing in it is a secret.
        let listed =
            Command::new("tar").args(["--list", "--verbose", "--file"]).arg(&archive).output().unwrap();
        let listed = String::from_utf8(listed.stdout).unwrap();
        assert!(listed.lines().count() == parts.files.len() && parts.files.len() > 14, "{listed}");
        assert!(listed.lines().all(|line| line.starts_with("-rw------- root/root")), "{listed}");
        let all =
            Command::new("tar").args(["--extract", "--to-stdout", "--file"]).arg(&archive).output().unwrap();
        let all = String::from_utf8(all.stdout).unwrap();
        assert!(all.contains("iscsiadm -m session -P 3: ***"), "{all}");
        for secret in SECRETS {
            let json = serde_json::to_string(secret).unwrap();
            for form in [secret, json.trim_matches('"')] {
                assert!(!all.contains(form), "{form} is in the report");
            }
        }
        // The test can fail: what was printed had all of them.
        assert!(SECRETS.iter().all(|secret| said.contains(secret)));
    }

    #[test]
    fn a_valid_config_gives_its_secrets_in_any_form() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"10.0.0.1\"]\n[target.chap]\nusername = \"x\"\n\
                    password = \"\"\"\nmulti\\u002dline-9\"\"\"\n[etcd]\nruntime = \"systemd\"\n[[node]]\nhostname = \"a\"\n\
                    initiator = \"iqn.1994-05.com.redhat:a\"\nlun = 1\n";
        let source = Source { path: "c.toml".into(), text: text.into() };
        let config = Config::load(&[source], "x", "a").unwrap();
        let (_files, host, _) = machine(text);
        let secrets = Secrets::new(&host, &[], Some(&config), None);
        assert_eq!(secrets.scrubbed("a multi-line-9 b"), "a *** b");
    }

    #[test]
    fn a_long_text_keeps_its_end() {
        let (_files, host, _) = machine("");
        let mut parts = Parts { secrets: Secrets::new(&host, &[], None, None), files: Vec::new() };
        parts.add("long", &format!("begin{}end", "x".repeat(3 * LARGEST)));
        let (_, bytes) = &parts.files[0];
        let text = String::from_utf8_lossy(bytes);
        assert!(bytes.len() < LARGEST + 100 && text.ends_with("xend"), "{}", bytes.len());
        assert!(text.starts_with("[the first ") && !text.contains("begin"));
    }
}
