//! `pool fetch` with the real script on each node. A script stands in for `oc debug`, whose output is mixed and whose code says
//! nothing.

use crate::{
    Dir, IMAGE, NO_SECRETS, program,
    script::{KEPT, PROGRAM, Root, sum},
};
use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

const SCRIPT: &str = "usr/local/lib/etcd-lun/program.sh";

/// Runs the verb. Returns the code, what it printed, and what the nodes were told to fetch.
fn fetch(desk: &Dir, object: &str) -> (i32, String, Vec<String>) {
    desk.write("calls", "");
    let (via, config) = (format!("{} {{node}}", desk.path("reach")), desk.path("pool.toml"));
    let args = ["pool", "fetch", &desk.path(object), "--via", &via, "--config", &config];
    let output = Command::new(crate::tested_program()).args(args).output().unwrap();
    let calls = fs::read_to_string(desk.path("calls")).unwrap();
    let fetches = calls.lines().filter(|call| call.contains(" systemd-run ")).map(str::to_owned);
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
    (output.status.code().unwrap(), said, fetches.collect())
}

#[test]
fn every_node_has_the_next_program_and_runs_the_old_one() {
    let desk = Dir::new("fetch");
    let nodes = ["fetch-0", "fetch-1"].map(Root::new);
    for node in &nodes {
        node.order(b"old", None);
        node.write(PROGRAM, b"old");
        node.write("registry", &program());
        node.write(SCRIPT, &node.read("script").unwrap());
    }
    let reach = format!(
        r#"#!/bin/sh
exec 2>&1
echo "$*" >>{}
[ $1 = master-0 ] && cd {} || cd {}
shift
echo "Warning: would violate PodSecurity"
[ ! -e says ] || {{ cat says; exit 0; }}
case $1 in
sha256sum) shift 2; sha256sum --tag $(printf ' .%s' "$@") | sed 's|(\.|(|' ;;
systemd-run) shift 8; PATH=$PWD/stand-ins:$PATH bash .$1 $2 $3 $4 ;;
esac"#,
        desk.path("calls"),
        nodes[0].0.display(),
        nodes[1].0.display()
    );
    fs::set_permissions(desk.write("reach", reach), fs::Permissions::from_mode(0o755)).unwrap();
    let (_, object, _) = desk.render("machineconfig", &[NO_SECRETS]);
    desk.write("object.yaml", object);
    let (wanted, now) = (sum(&program()), &sum(b"old")[..12]);
    let copy = format!("{KEPT}/{wanted}");
    nodes[1].write(&copy, &program());
    let (code, said, fetches) = fetch(&desk, "object.yaml");
    let table =
        format!("NODE      NOW           PROGRAM\nmaster-0  {now}  fetched\nmaster-1  {now}  was there");
    assert!(code == 0 && said.starts_with(&table), "{said}");
    let told = format!(
        "master-0 systemd-run --quiet --collect --wait --pipe -p EnvironmentFile=-/etc/mco/proxy.env bash /{SCRIPT} \
         ahead {IMAGE} {wanted}"
    );
    assert_eq!(fetches, [told]);
    let has = |node: &Root| node.read(PROGRAM).unwrap() == b"old" && node.read(&copy).unwrap() == program();
    assert!(nodes.iter().all(has));

    // In a pool of several architectures the first sum may be that of another one.
    let mut foreign = program();
    foreign[18] = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    let (own, foreign) = (desk.path("etcd-lun"), desk.write("foreign", foreign));
    let (_, object, _) =
        desk.render("machineconfig", &["--program", &foreign, "--program", &own, NO_SECRETS]);
    desk.write("both.yaml", object);
    nodes[0].remove(&copy);
    let (code, said, fetches) = fetch(&desk, "both.yaml");
    assert!((code, fetches.len()) == (0, 2) && said.contains("  fetched\n"), "{said}");

    // Neither silence nor another's line is a success, nor what a script says that has kept nothing.
    let (node, script) = (&nodes[0], nodes[0].read("script").unwrap());
    let strangers = format!("SHA256 (/{copy}) = \nx SHA256 (/{copy}) = {wanted}\nSHA256 (/x) = {wanted}");
    let liar = format!("echo 'etcd-lun-program: /{copy} is the program'");
    let cases: [(&dyn Fn(), bool, &str); 5] = [
        (&|| node.remove("registry"), true, ": connection refused.\n"),
        (&|| drop(node.write(SCRIPT, liar.as_bytes())), true, "is the program"),
        (&|| node.remove(SCRIPT), false, "copy the program there"),
        (&|| drop(node.write("says", strangers.as_bytes())), false, "master-0: Warning"),
        (&|| drop(node.write("says", b"")), false, "master-0: Warning"),
    ];
    for (breaks, is_told, why) in cases {
        let _ = fs::remove_file(node.0.join(&copy));
        node.write("registry", &program());
        node.write(SCRIPT, &script);
        node.remove("storage");
        breaks();
        let (code, said, fetches) = fetch(&desk, "object.yaml");
        assert!(code == 1 && said.contains("  COULD NOT\n") && said.contains(why), "{why}: {said}");
        assert!(said.contains("error [pool-cannot-begin]: 1 of 2 nodes lack the program of "), "{said}");
        assert_eq!(fetches.len(), usize::from(is_told), "{fetches:?}");
        node.write("storage", b"");
    }
    let (code, said, _) = fetch(&desk, "pool.toml");
    assert!(code == 2 && said.contains("pool.toml names no image: give one object of"), "{said}");
}
