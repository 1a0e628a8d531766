//! `units/etcd-lun-program.sh`, run for real in a directory that stands for the node's root. Stand-ins replace podman,
//! systemctl and restorecon; everything else is the system's own. The bed's scenarios `delivery/*` have the real ones.

use crate::{IMAGE, tool};
use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::PathBuf,
    process::Command,
    time::{Duration, SystemTime},
};

pub const PROGRAM: &str = "var/lib/etcd-lun/bin/etcd-lun";
pub const KEPT: &str = "var/lib/etcd-lun/program";
const LINK: &str = "usr/local/bin/etcd-lun";

/// A directory that stands for the node's root. It holds one image at most, in the registry and in the node's storage.
pub struct Root(pub PathBuf);

impl Root {
    pub fn new(name: &str) -> Self {
        let root = Self(std::env::temp_dir().join(format!("etcd-lun-script-{name}-{}", std::process::id())));
        let dir = root.0.display();
        let podman = format!(
            "echo \"$*\" >>{dir}/podman.log
            case $1 in
            image) [ -e {dir}/storage ] ;;
            pull)
                if [ -e {dir}/registry ]; then cp {dir}/registry {dir}/storage; else
                    printf 'Trying to pull\\nError: pinging container registry: connection refused\\n' >&2; exit 125
                fi ;;
            create) [ -e {dir}/storage ] ;;
            cp) if [ -s {dir}/layer ]; then cp {dir}/layer {dir}/storage; fi; if [ -s {dir}/storage ]; then tar --create --file=- --directory={dir} storage; else echo 'Error: layer' >&2; exit 125; fi ;;
            rmi) rm -f {dir}/storage {dir}/layer ;;
            rm) ;;
            *) exit 125 ;;
            esac"
        );
        let systemctl = format!(
            "[ \"$*\" = 'start etcd-lun-program-fetch.service' ] && exec bash {dir}/script fetch 2>>{dir}/fetch.log"
        );
        for (name, text) in [
            ("podman", podman),
            ("systemctl", systemctl),
            ("restorecon", format!("echo \"$*\" >>{dir}/labels.log")),
        ] {
            let path = root.write(&format!("stand-ins/{name}"), format!("#!/bin/sh\n{text}\n").as_bytes());
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(root.0.join("run")).unwrap();
        let mut script = unit::program_script();
        for top in ["/etc/", "/var/", "/usr/local/", "/run/"] {
            script = script.replace(top, &format!("{dir}{top}"));
        }
        root.write("script", script.as_bytes());
        root
    }

    pub fn write(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn read(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.0.join(name)).ok()
    }

    pub fn remove(&self, name: &str) {
        let path = self.0.join(name);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }

    /// The object asks for this program, by the image or, without one, by the packed program.
    pub fn order(&self, program: &[u8], image: Option<&str>) {
        let image = image.map(|image| format!("image={image}\n")).unwrap_or_default();
        let other = "0".repeat(64);
        let order = format!("# comment\n{image}other={other}\n{}={}\n", std::env::consts::ARCH, sum(program));
        self.write("etc/etcd-lun/program", order.as_bytes());
    }

    /// Runs `place`: exit code, and what it says. The error of a fetch before is a minute old.
    fn place(&self) -> (i32, String) {
        if let Ok(error) = fs::File::open(self.0.join("run/etcd-lun-program.error")) {
            error.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        }
        self.runs(&["place"])
    }

    fn runs(&self, args: &[&str]) -> (i32, String) {
        let path = format!("{}:{}", self.0.join("stand-ins").display(), std::env::var("PATH").unwrap());
        let output =
            Command::new("bash").arg(self.0.join("script")).args(args).env("PATH", path).output().unwrap();
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
    }

    fn places(&self, program: &[u8]) -> String {
        let (code, said) = self.place();
        assert_eq!(code, 0, "{said}");
        self.has(program);
        said
    }

    /// Checks that the program is in place, complete, and that people find it.
    fn has(&self, program: &[u8]) {
        assert!(self.read(PROGRAM).as_deref() == Some(program));
        let mode = fs::metadata(self.0.join(PROGRAM)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o755);
        let copy = self.read(&format!("{KEPT}/{}", sum(program)));
        assert!(copy.as_deref() == Some(program));
        assert!(!self.0.join("var/lib/etcd-lun/bin/etcd-lun.new").exists());
    }

    /// What podman was asked since the last time.
    fn podman(&self) -> String {
        let log = self.read("podman.log").unwrap_or_default();
        if !log.is_empty() {
            self.remove("podman.log");
        }
        String::from_utf8(log).unwrap()
    }

    fn copies(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.join(KEPT)).unwrap();
        let mut names: Vec<_> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

pub fn sum(program: &[u8]) -> String {
    let said = tool("sha256sum", &[], program).unwrap().stdout;
    String::from_utf8(said).unwrap().split_whitespace().next().unwrap().to_owned()
}

/// Each case is a node with one thing missing. Every source that is not needed is away.
#[test]
fn each_source_in_its_turn() {
    let root = Root::new("sources");
    root.order(b"one", Some(IMAGE));
    root.write("registry", b"one");
    root.write("var/lib/kubelet/config.json", b"{}");
    let said = root.places(b"one");
    assert!(said.starts_with("etcd-lun-program: installed ") && said.lines().count() == 1, "{said}");
    let asked = root.podman();
    let auth = format!("--authfile={}/var/lib/kubelet/config.json", root.0.display());
    assert!(asked.contains(&format!("pull --quiet {auth} {IMAGE}\n")), "{asked}");
    assert!(
        asked.contains("create --replace --name etcd-lun-program --pull=never --network=none"),
        "{asked}"
    );
    assert_eq!(fs::read_link(root.0.join(LINK)).unwrap(), root.0.join(PROGRAM));
    let labels = String::from_utf8(root.read("labels.log").unwrap()).unwrap();
    assert!(
        labels.contains("/var/lib/etcd-lun/bin ") && labels.contains("/var/lib/etcd-lun/program"),
        "{labels}"
    );
    root.remove("registry");
    // An ordinary boot changes no file, prints nothing, and starts no fetch.
    let before = fs::metadata(root.0.join(PROGRAM)).unwrap();
    let begun = std::time::Instant::now();
    assert_eq!(root.places(b"one"), "");
    eprintln!("an ordinary boot takes {:.3} s", begun.elapsed().as_secs_f32());
    let after = fs::metadata(root.0.join(PROGRAM)).unwrap();
    assert_eq!((before.ino(), before.ctime_nsec()), (after.ino(), after.ctime_nsec()));
    // The copy.
    root.remove("storage");
    for damage in [&b""[..], b"on", b"two"] {
        root.write(PROGRAM, damage);
        root.places(b"one");
    }
    root.remove(PROGRAM);
    root.places(b"one");
    fs::set_permissions(root.0.join(PROGRAM), fs::Permissions::from_mode(0o644)).unwrap();
    root.places(b"one");
    assert_eq!(root.podman(), "");
    // The image in the node's storage, also when the copy is damaged.
    root.write("storage", b"one");
    root.remove("var/lib/etcd-lun");
    root.places(b"one");
    root.write(&format!("{KEPT}/{}", sum(b"one")), b"damaged");
    root.remove(PROGRAM);
    root.places(b"one");
    assert!(!root.podman().contains("pull "));
    // An image whose layer is incomplete is fetched again.
    root.write("storage", b"");
    root.write("registry", b"one");
    root.remove("var/lib/etcd-lun");
    root.places(b"one");
    assert!(root.podman().contains(&format!("rmi --force {IMAGE}\n")));
}

#[test]
fn the_registry_is_away() {
    let root = Root::new("away");
    root.order(b"one", Some(IMAGE));
    let (code, said) = root.place();
    assert_eq!((code, said.lines().count()), (1, 1), "{said}");
    let begins = format!(
        "etcd-lun-program: cannot fetch the image {IMAGE}: Error: pinging container registry: connection refused. "
    );
    assert!(said.starts_with(&begins), "{said}");
    assert!(said.contains("Try by hand: systemctl restart etcd-lun-program"), "{said}");
    assert!(!root.podman().contains("authfile"));
    assert_eq!(root.read("fetch.log").unwrap_or_default(), b"");
    root.write("registry", b"one");
    root.places(b"one");
    // A later object, and the registry is away again: the program of the earlier one goes on.
    root.remove("registry");
    root.remove("storage");
    root.order(b"two", Some(IMAGE));
    assert_eq!(root.place().0, 1);
    root.has(b"one");
    // One fetch for each try of etcd-lun.service, though systemd starts the unit twice.
    root.podman();
    let (code, again) = root.runs(&["place"]);
    assert!(code == 1 && again.contains("cannot fetch the image"), "{again}");
    assert_eq!(root.podman(), "");
    // It says nothing of another order.
    root.order(b"three", Some(IMAGE));
    root.runs(&["place"]);
    assert!(root.podman().contains("pull "));
    root.order(b"two", Some(IMAGE));
    // The same, and the program is damaged: the copy runs in its place.
    root.write(PROGRAM, b"damaged");
    let (code, said) = root.place();
    assert!(
        code == 1 && said.contains("was damaged (sha256 ") && said.contains("replaced by the copy"),
        "{said}"
    );
    root.has(b"one");
    // Without a good copy it must not run.
    root.write(&format!("{KEPT}/{}", sum(b"one")), b"damaged too");
    root.write(PROGRAM, b"damaged");
    let (code, said) = root.place();
    assert!(code == 1 && said.contains("was damaged (sha256 ") && said.contains("): removed"), "{said}");
    assert_eq!(root.read(PROGRAM), None);
}

/// Before an update a person brings the next program to the node, while the old one runs.
#[test]
fn the_next_program_is_there_before_its_object() {
    let root = Root::new("ahead");
    root.order(b"one", Some(IMAGE));
    root.write("registry", b"one");
    root.places(b"one");
    root.remove("storage");
    root.write("registry", b"two");
    let (code, said) = root.runs(&["ahead", IMAGE, &sum(b"three")]);
    assert!(code == 3 && said.contains("holds another program"), "{said}");
    // The first one is given up before its object.
    for program in [&b"four"[..], b"two"] {
        root.remove("storage");
        root.write("registry", program);
        let (code, said) = root.runs(&["ahead", IMAGE, &sum(program)]);
        assert!(code == 0 && said.contains("needs no registry"), "{said}");
    }
    assert_eq!(root.read(PROGRAM).unwrap(), b"one");
    assert_eq!(root.places(b"one"), "");
    for away in ["registry", "storage"] {
        root.remove(away);
    }
    root.podman();
    root.order(b"two", Some(IMAGE));
    root.places(b"two");
    // The way back needs the program that was in place.
    root.order(b"one", Some(IMAGE));
    root.places(b"one");
    assert_eq!(root.podman(), "");
}

/// Where no program is in place, a registry that refuses once costs no boot.
#[test]
fn a_first_fetch_is_tried_for_a_while() {
    let root = Root::new("first");
    root.order(b"one", Some(IMAGE));
    let late = root.0.join("registry");
    let registry = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        fs::write(late, b"one").unwrap();
    });
    let (code, said) = root.runs(&["place", "20"]);
    registry.join().unwrap();
    assert_eq!(code, 0, "{said}");
    root.has(b"one");
    assert_eq!(root.podman().matches("pull ").count(), 2);
}

/// A program that a person has put in place serves until the object's is here.
#[test]
fn a_program_from_before_the_object() {
    let root = Root::new("before");
    root.order(b"one", Some(IMAGE));
    root.write(PROGRAM, b"by hand");
    root.write(LINK, b"by hand too");
    assert_eq!(root.place().0, 1);
    assert_eq!(root.read(PROGRAM).unwrap(), b"by hand");
    root.write("registry", b"one");
    let said = root.places(b"one");
    assert!(said.contains("is not a link and stays as it is"), "{said}");
    assert_eq!(root.read(LINK).unwrap(), b"by hand too");
    assert_eq!(root.copies(), [sum(b"one")]);
}

#[test]
fn an_image_with_another_program() {
    let root = Root::new("other");
    root.order(b"one", Some(IMAGE));
    root.write("registry", b"two");
    for pulls in [2, 0] {
        let (code, said) = root.place();
        assert_eq!((code, said.lines().count()), (1, 1), "{said}");
        let begins = format!(
            "etcd-lun-program: the image {IMAGE} holds another program (sha256 {}, expected {}). Nothing was installed.",
            sum(b"two"),
            sum(b"one")
        );
        assert!(said.starts_with(&begins), "{said}");
        assert!(root.read(PROGRAM).is_none() && root.copies().is_empty());
        // A fresh image decides, once in a boot.
        assert_eq!(root.podman().matches("pull ").count(), pulls);
    }
    // The order is corrected by what the message said.
    root.order(b"two", Some(IMAGE));
    root.places(b"two");
    root.order(b"one", Some(IMAGE));
    // A power cut has damaged the layer: podman takes it for present, until the image is removed.
    root.write("registry", b"one");
    for layer in [&b"damaged"[..], b"two"] {
        let _ = fs::remove_file(root.0.join("run/etcd-lun-program.error"));
        let _ = fs::remove_dir_all(root.0.join("var/lib/etcd-lun"));
        root.write("layer", layer);
        root.places(b"one");
        assert!(root.podman().contains(&format!("rmi --force {IMAGE}\n")));
    }
}

/// Two copies are kept: of this program, and of the one that was in use before it.
#[test]
fn back_to_the_old_object_without_a_registry() {
    let root = Root::new("back");
    let brings = |program: &[u8]| {
        root.order(program, Some(IMAGE));
        root.write("registry", program);
        root.write("storage", program);
        root.places(program);
        root.remove("registry");
        root.remove("storage");
        // So that the copies have different times.
        std::thread::sleep(Duration::from_millis(20));
    };
    brings(b"one");
    brings(b"two");
    root.podman();
    root.order(b"one", Some(IMAGE));
    root.places(b"one");
    assert_eq!(root.podman(), "");
    let both = |one: &[u8], two: &[u8]| {
        let mut sums = [sum(one), sum(two)];
        sums.sort();
        assert_eq!(root.copies(), sums);
    };
    both(b"one", b"two");
    std::thread::sleep(Duration::from_millis(20));
    brings(b"three");
    both(b"one", b"three");
}

#[test]
fn the_object_brings_the_program_itself() {
    let root = Root::new("packed");
    root.order(b"one", None);
    let Some(packed) = tool("xz", &["--format=lzma", "--stdout"], b"one") else { return };
    root.write("usr/local/lib/etcd-lun/program.lzma", &packed.stdout);
    root.places(b"one");
    root.remove("usr/local/lib/etcd-lun/program.lzma");
    root.remove(PROGRAM);
    root.places(b"one");
    // A new object, whose packed program is cut off, of another version, or not there.
    root.order(b"two", None);
    for wrong in [&packed.stdout[..packed.stdout.len() - 20], &packed.stdout, b""] {
        root.write("usr/local/lib/etcd-lun/program.lzma", wrong);
        let (code, said) = root.place();
        assert!(code == 3 && said.contains("is not the program that"), "{code}, {said}");
        root.has(b"one");
    }
    // By an image from now on.
    root.write("registry", b"two");
    root.order(b"two", Some(IMAGE));
    root.places(b"two");
    assert!(root.podman().contains("pull "));
}

#[test]
fn no_program_for_this_architecture() {
    let root = Root::new("machine");
    root.write("etc/etcd-lun/program", format!("image={IMAGE}\nother={}\n", "0".repeat(64)).as_bytes());
    let (code, said) = root.place();
    assert!(code == 3 && said.contains("one more --program FILE"), "{said}");
}

#[test]
fn shellcheck_finds_nothing() {
    let Some(output) = tool("shellcheck", &["-"], unit::program_script().as_bytes()) else { return };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
