//! `render target --kind targetd`. Real curl and jq run the script against a stand-in for targetd, over TLS.

use crate::{CONFIG, Dir, tool};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
};

const STAND_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/render/targetd.py");
const SECRET: &str = "hunter2hunter2";
const ACCOUNT: &str = "appliance-secret";

fn script(dir: &Dir, config: &str, more: &[&str]) -> String {
    let config = dir.write("variant.toml", config);
    let args = [&["target", "--config", &config, "--kind", "targetd", "--pool", "vg-etcd"], more].concat();
    let (code, out, err) = dir.run(&args);
    assert_eq!((code, err.as_str()), (0, ""), "{config}");
    assert!(!out.contains("hunter2"), "{out}");
    if let Some(output) = tool("shellcheck", &["-"], out.as_bytes()) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    out
}

/// A running stand-in, with its files.
struct Appliance<'a> {
    dir: &'a Dir,
    server: Child,
    url: String,
    state: PathBuf,
}

impl<'a> Appliance<'a> {
    /// Starts it; none if a tool that it needs is not installed.
    fn start(dir: &'a Dir) -> Option<Self> {
        for program in ["curl", "jq", "openssl", "python3"] {
            tool(program, &["--version"], b"").or_else(|| tool(program, &["version"], b""))?;
        }
        let (key, certificate) = (dir.path("key.pem"), dir.path("certificate.pem"));
        let args = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
        let names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", &key, "-out", &certificate];
        let made = tool("openssl", &[&args[..], &names].concat(), b"")?;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let state = PathBuf::from(dir.path("state.json"));
        fs::write(&state, "{\"volumes\": [], \"exports\": [], \"auth\": {}, \"calls\": []}").unwrap();
        let mut server = Command::new("python3")
            .args([STAND_IN, &certificate, &key, state.to_str().unwrap(), ACCOUNT])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut port).unwrap();
        dir.write("netrc", format!("machine localhost login admin password {ACCOUNT}\n"));
        dir.write("chap", format!("{SECRET}\n"));
        let url = format!("https://localhost:{}/targetrpc", port.trim());
        Some(Self { dir, server, url, state })
    }

    fn run(&self, script: &str) -> (i32, String, String) {
        let path = self.dir.write("script", script);
        let output: Output = Command::new("sh")
            .args([&path, &self.url, &self.dir.path("netrc"), &self.dir.path("certificate.pem")])
            .env("CHAP_FILE", self.dir.path("chap"))
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(!format!("{out}{err}").contains(SECRET) && !err.contains(ACCOUNT), "{out}{err}");
        (output.status.code().unwrap(), out, err)
    }

    fn state(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(&self.state).unwrap()).unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        change(&mut state);
        fs::write(&self.state, state.to_string()).unwrap();
    }

    /// Calls that changed something.
    fn changes(&self) -> Vec<String> {
        let calls = self.state()["calls"].as_array().unwrap().clone();
        let names = calls.iter().map(|call| call.as_str().unwrap().to_owned());
        names.filter(|name| !name.ends_with("_list")).collect()
    }
}

impl Drop for Appliance<'_> {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn an_appliance_gets_the_luns_of_the_config() {
    let dir = Dir::new("targetd");
    let Some(appliance) = Appliance::start(&dir) else { return };
    let text = script(&dir, CONFIG, &[]);
    let (code, out, err) = appliance.run(&text);
    assert_eq!(code, 0, "{err}");
    assert!(err.contains("made volume etcd-lun-master-0 in vg-etcd, 8589934592 bytes"), "{err}");
    let cure = "targetcli /iscsi/iqn.2024-02.com.example:etcd/tpg1 set attribute authentication=1\n";
    assert!(err.contains(cure), "{err}");
    let wwids: Vec<_> = out.lines().filter(|line| line.starts_with("wwid = \"naa.6001405")).collect();
    assert_eq!(wwids.len(), 2, "{out}");
    let state = appliance.state();
    assert_eq!(state["exports"].as_array().unwrap().len(), 2, "{state}");
    for auth in state["auth"].as_object().unwrap().values() {
        assert_eq!(auth["in_pass"], SECRET, "{state}");
        assert!(auth["out_user"].is_null() && auth["out_pass"].is_null(), "{state}");
    }
    // A second run makes nothing, and sets the credentials again. The WWIDs fit the config then.
    let before = appliance.changes().len();
    let (code, again, err) = appliance.run(&text);
    assert_eq!((code, again), (0, out.clone()), "{err}");
    assert_eq!(appliance.changes()[before..], ["initiator_set_auth", "initiator_set_auth"]);
    let wwid = wwids[0].split('#').next().unwrap().trim();
    let (first, second) = CONFIG.split_once("lun = 1\n").unwrap();
    let with_wwid = |wwid: &str| script(&dir, &format!("{first}lun = 1\n{wwid}\n{second}"), &[]);
    assert_eq!(appliance.run(&with_wwid(wwid)).0, 0);
    let (code, _, err) = appliance.run(&with_wwid(&format!("wwid = \"naa.6001405{}\"", "f".repeat(25))));
    assert!(code == 1 && err.contains("correct the config"), "{err}");
}

#[test]
fn what_contradicts_the_config_stops_the_script_before_it_changes_anything() {
    let dir = Dir::new("targetd-refusals");
    let Some(appliance) = Appliance::start(&dir) else { return };
    let text = script(&dir, CONFIG, &[]);
    assert_eq!(appliance.run(&text).0, 0);
    let whole = appliance.state();
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 6] = [
        (
            |state| state["volumes"][1]["size"] = 4_294_967_296_u64.into(),
            "has 4294967296 bytes, and the config wants",
        ),
        (|state| state["volumes"][1]["size"] = 17_179_869_184_u64.into(), "has 17179869184 bytes"),
        (|state| state["exports"][1]["lun"] = 9.into(), "is LUN 9 of"),
        (|state| state["exports"][1]["vol_name"] = "other".into(), "which the config does not give it"),
        (
            |state| state["exports"][1]["initiator_wwn"] = "iqn.2000-01.x:y".into(),
            "is exported to iqn.2000-01.x:y too",
        ),
        (|state| state["refuse"] = "vol_list".into(), "vol_list: targetd refuses: Invalid pool (error -110)"),
    ];
    for (change, said) in cases {
        appliance.change(|state| {
            *state = whole.clone();
            change(state);
            state["calls"] = Value::Array(Vec::new());
        });
        let (code, out, err) = appliance.run(&text);
        assert!(code == 1 && out.is_empty() && err.contains(said), "{said}: {out}{err}");
        assert_eq!(appliance.changes(), [""; 0], "{said}");
    }
    dir.write("netrc", "machine localhost login admin password other\n");
    let (code, _, err) = appliance.run(&text);
    assert!(code == 1 && err.contains("401"), "{err}");
    let plain = appliance.url.replace("https", "http");
    let insecure =
        Command::new("sh").args([&dir.path("script"), &plain, &dir.path("netrc")]).output().unwrap();
    assert!(!insecure.status.success(), "curl must use TLS only");
}

/// curl of OpenSSL 3 says so after every answer of targetd, which ends a connection without TLS's notice.
#[test]
fn a_connection_that_ends_without_notice_is_an_error_only_after_part_of_an_answer() {
    let dir = Dir::new("targetd-end");
    let Some(appliance) = Appliance::start(&dir) else { return };
    let text = script(&dir, CONFIG, &[]);
    let ends = |answer: &str| {
        let curl =
            format!("curl() {{ command curl \"$@\" | {answer}; echo 'curl: (56) eof' >&2; return 56; }}\n");
        appliance.run(&text.replacen("set -eu\n", &format!("set -eu\n{curl}"), 1))
    };
    for (answer, said) in [("head -c 9", "is no whole JSON"), ("head -c 0", "eof\nerror: vol_list: https://")]
    {
        let (code, out, err) = ends(answer);
        assert!(code == 1 && out.is_empty() && err.contains(said), "{out}{err}");
    }
    assert_eq!(appliance.changes(), [""; 0]);
    let (code, out, err) = ends("cat");
    assert!(code == 0 && out.contains("wwid = ") && !err.contains("curl"), "{out}{err}");
}

#[test]
fn names_that_targetd_does_not_have() {
    let dir = Dir::new("targetd-names");
    let dotted = script(&dir, &CONFIG.replacen("\"master-0\"", "\"master-0.example.com\"", 1), &[]);
    assert!(dotted.contains("check 'master-0.example.com' etcd-lun-master-0_example_com "), "{dotted}");
    let config = dir.write("variant.toml", CONFIG);
    for (pool, said) in [
        ("vg/thin/more", "the pool `vg/thin/more`"),
        ("vg;reboot", "the pool `vg;reboot`"),
        ("", "the pool ``"),
    ] {
        let (code, out, err) = dir.run(&["target", "--config", &config, "--kind", "targetd", "--pool", pool]);
        assert_eq!((code, out.as_str()), (2, ""), "{said}: {err}");
        assert!(err.contains(said), "{said}: {err}");
    }
    for (more, said) in [
        (&["--kind", "targetd"][..], "--pool must name the pool"),
        (&["--pool", "vg"], "only --kind targetd has a pool"),
        (&["--kind", "netapp"], "targetd"),
        (&["--kind", "targetd", "--pool", "vg", "--backstore-block"], "in its pool"),
    ] {
        let (code, _, err) = dir.run(&[&["target", "--config", &config], more].concat());
        assert!(code == 2 && err.contains(said), "{said}: {err}");
    }
}
