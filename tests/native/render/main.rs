//! Runs `render` as a person would, and checks the result with other programs. The tests need no root and
//! change nothing on the machine.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

mod butane;
mod device;
mod errors;
mod fetch;
mod fit;
mod machineconfig;
mod multipath;
mod safe_logout;
mod script;
mod target;
mod targets;
#[path = "../tested.rs"]
mod tested;
mod units;
mod ways;

use serde_json::Value;
use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
};
use tested::tested_program;

const CONFIG: &str = r#"[target]
iqn = "iqn.2024-02.com.example:etcd"
portals = ["192.168.10.5:3260"]
[target.chap]
username = "initiator1"
password_file = "/etc/etcd-lun/chap.secret"
[target.discovery_chap]
username = "finder"
password_file = "/etc/etcd-lun/chap.secret"
[etcd]
runtime = "static-pod"
[[node]]
hostname = "master-0"
initiator = "iqn.1994-05.com.redhat:master0"
lun = 1
[[node]]
hostname = "master-1"
initiator = "iqn.1994-05.com.redhat:master1"
lun = 1
"#;

/// An image with a digest that nobody has.
const IMAGE: &str = "registry.example.com/tools/etcd-lun@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// For [`Dir::render`]: an object without secrets.
const NO_SECRETS: &str = "no secrets";

const SECRET: &str = "hunter2 hunter2\n";

/// A directory with a config, a secret and a program, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("etcd-lun-render-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let dir = Self(path);
        dir.write("pool.toml", CONFIG);
        dir.write("chap.secret", SECRET);
        dir.write("etcd-lun", program());
        dir
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.join(name), content).unwrap();
        self.path(name)
    }

    /// Runs `render` with exactly these arguments.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(tested_program());
        let Output { status, stdout, stderr } = command.arg("render").args(args).output().unwrap();
        let err = String::from_utf8(stderr).unwrap();
        assert!(!err.contains("hunter2"), "{err}");
        (status.code().unwrap(), String::from_utf8(stdout).unwrap(), err)
    }

    /// Runs `render` with the directory's own config, secrets, image and program, unless `more` has others, or [`NO_SECRETS`].
    fn render(&self, verb: &str, more: &[&str]) -> (i32, String, String) {
        let has = |option: &str| more.contains(&option);
        let (config, program, secrets) = (self.path("pool.toml"), self.path("etcd-lun"), self.path(""));
        let mut args = vec![verb];
        for (option, value, is_replaced) in [
            ("--config", config.as_str(), false),
            ("--image", IMAGE, has("--embed") || has("--without-program")),
            ("--program", &program, has("--without-program")),
            ("--secrets-from", &secrets, has(NO_SECRETS)),
        ] {
            if !has(option) && !is_replaced {
                args.extend([option, value]);
            }
        }
        args.extend(more.iter().filter(|&&option| option != NO_SECRETS));
        self.run(&args)
    }

    fn object(&self, verb: &str, more: &[&str]) -> Value {
        let (code, out, err) = self.render(verb, more);
        assert_eq!(code, 0, "{err}");
        serde_norway::from_str(&out).unwrap()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

/// The smallest static program for this machine: an ELF header and one segment to load.
fn program() -> Vec<u8> {
    let own = fs::read("/proc/self/exe").unwrap();
    let mut file = vec![0; 4096];
    file[..20].copy_from_slice(&own[..20]);
    file[32..40].copy_from_slice(&64u64.to_ne_bytes());
    for (at, value) in [(54, 56u16), (56, 1)] {
        file[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
    file[64..68].copy_from_slice(&1u32.to_ne_bytes());
    file
}

/// Bytes that look random, so that nothing makes them shorter.
fn noise(count: usize) -> Vec<u8> {
    let mut state = 1u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    noise.take(count).collect()
}

/// Runs a tool and gives it some bytes as input. Returns `None` if the tool is not installed.
fn tool(program: &str, args: &[&str], input: &[u8]) -> Option<Output> {
    let mut command = Command::new(program);
    let spawned =
        command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let Ok(mut child) = spawned else {
        eprintln!("{program} is not installed, so this check was skipped");
        return None;
    };
    let (mut stdin, input) = (child.stdin.take().unwrap(), input.to_owned());
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    Some(output)
}

/// A file's bytes. A program of the system decodes them, not our own code.
fn content(file: &Value) -> Vec<u8> {
    let encoded = file["contents"]["source"].as_str().unwrap().strip_prefix("data:;base64,").unwrap();
    tool("base64", &["--decode"], encoded.as_bytes()).unwrap().stdout
}

fn files(object: &Value) -> &Vec<Value> {
    object["spec"]["config"]["storage"]["files"].as_array().unwrap()
}
