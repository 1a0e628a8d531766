use host::{
    Host,
    block::{self, Content},
    udev::{self, Monitor},
};
use nix::{
    mount::{MsFlags, mount},
    sys::{
        signal::{Signal, kill},
        stat::{Mode, SFlag, mknod},
    },
    unistd::{Pid, Uid},
};
use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::{Child, Command},
    time::{Duration, Instant},
};

/// This variable tells the second run of this program that it runs inside the namespaces.
const INSIDE: &str = "UDEV_ORACLE_INSIDE";
const LABEL: &str = "etcd-lun";

/// Compares all block devices. Returns how many udev has processed, and how many it has not.
fn compare(host: &Host) -> (usize, usize) {
    let mut enumerator = ::udev::Enumerator::new().unwrap();
    enumerator.match_subsystem("block").unwrap();
    let (mut finished, mut unfinished) = (0, 0);
    for device in enumerator.scan_devices().unwrap() {
        let name = device.sysname().to_str().unwrap().to_owned();
        let number = device.devnum().unwrap();
        let (major, minor) = (nix::sys::stat::major(number), nix::sys::stat::minor(number));
        let ours = udev::record(host, u32::try_from(major).unwrap(), u32::try_from(minor).unwrap()).unwrap();
        let is_finished = ours.as_ref().is_some_and(|ours| !ours.is_in_work());
        assert_eq!(is_finished, device.is_initialized(), "{name}");
        let Some(ours) = ours else {
            unfinished += 1;
            continue;
        };
        finished += 1;
        // libudev also returns the kernel's properties, and properties that it makes from other lines.
        let added = ["DEVLINKS", "TAGS", "CURRENT_TAGS", "USEC_INITIALIZED"];
        let uevent = fs::read_to_string(device.syspath().join("uevent")).unwrap();
        let of_kernel: Vec<_> = uevent.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
        let of_kernel = [&of_kernel[..], &["DEVPATH", "SUBSYSTEM"]].concat();
        let theirs: BTreeMap<_, _> = device
            .properties()
            .map(|one| (one.name().to_str().unwrap().to_owned(), one.value().to_str().unwrap().to_owned()))
            .filter(|(key, _)| !added.contains(&key.as_str()) && !of_kernel.contains(&key.as_str()))
            .collect();
        assert_eq!(ours.properties, theirs, "{name}");
        let links =
            device.property_value("DEVLINKS").map(|links| links.to_str().unwrap()).unwrap_or_default();
        let mut links: Vec<_> =
            links.split_whitespace().map(|link| link.trim_start_matches("/dev/")).collect();
        links.sort_unstable();
        assert_eq!(ours.links, links, "{name}");
    }
    (finished, unfinished)
}

#[test]
fn on_this_machine() {
    if !Path::new("/run/udev/data").is_dir() {
        println!("not run: this machine has no udevd");
        return;
    }
    println!("finished, not finished: {:?}", compare(&Host::machine().unwrap()));
}

fn udevd() -> Option<PathBuf> {
    ["/usr/lib/systemd/systemd-udevd", "/lib/systemd/systemd-udevd"]
        .map(PathBuf::from)
        .into_iter()
        .find(|path| path.is_file())
}

#[test]
fn with_a_udevd_of_its_own() {
    if !Uid::effective().is_root() || udevd().is_none() || !Path::new("/dev/loop-control").exists() {
        println!("not run: this test needs root, udevd and loop devices");
        return;
    }
    let inner = ["--exact", "tests::inside", "--ignored", "--nocapture"];
    let ended = Command::new("unshare")
        .args(["-m", "-n", "--propagation", "private"])
        .arg(env::current_exe().unwrap())
        .args(inner)
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(ended.success());
}

/// A running udevd. It ends when this value is dropped, also after a failure.
struct Udevd(Child);

impl Drop for Udevd {
    fn drop(&mut self) {
        // When asked with SIGTERM, udevd ends its workers itself.
        kill(Pid::from_raw(i32::try_from(self.0.id()).unwrap()), Signal::SIGTERM).unwrap();
        self.0.wait().unwrap();
    }
}

struct Loop {
    name: String,
    image: PathBuf,
}

impl Loop {
    fn attach() -> Self {
        let image = env::temp_dir().join(format!("udev-oracle-{}", std::process::id()));
        fs::File::create(&image).unwrap().set_len(512 << 20).unwrap();
        let name = run("losetup", &["-f", "--show", image.to_str().unwrap()]);
        Self { name: name.trim().trim_start_matches("/dev/").to_owned(), image }
    }

    fn node(&self) -> String {
        format!("/dev/{}", self.name)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        run("losetup", &["-d", &self.node()]);
        fs::remove_file(&self.image).unwrap();
    }
}

fn run(program: &str, args: &[&str]) -> String {
    let ran = Command::new(program).args(args).output().unwrap();
    assert!(ran.status.success(), "{program} {args:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

/// Mounts a private `/run` and `/dev`, with nodes for the kernel's devices.
fn furnish() {
    let none: Option<&str> = None;
    for dir in ["/run", "/dev"] {
        mount(Some("tmpfs"), dir, Some("tmpfs"), MsFlags::empty(), none).unwrap();
    }
    let make = |path: &Path, kind, number: &str| {
        let (major, minor) = number.trim().split_once(':').unwrap();
        let number = nix::sys::stat::makedev(major.parse().unwrap(), minor.parse().unwrap());
        mknod(path, kind, Mode::from_bits_truncate(0o600), number).unwrap();
    };
    for (name, number) in [("null", "1:3"), ("zero", "1:5"), ("urandom", "1:9"), ("loop-control", "10:237")] {
        make(&Path::new("/dev").join(name), SFlag::S_IFCHR, number);
    }
    for entry in fs::read_dir("/sys/class/block").unwrap() {
        let entry = entry.unwrap();
        let number = fs::read_to_string(entry.path().join("dev")).unwrap();
        make(&Path::new("/dev").join(entry.file_name()), SFlag::S_IFBLK, &number);
    }
}

#[test]
#[ignore = "runs inside the namespaces of with_a_udevd_of_its_own"]
fn inside() {
    if env::var_os(INSIDE).is_none() {
        println!("not run: only with_a_udevd_of_its_own runs this test");
        return;
    }
    furnish();
    let host = Host::machine().unwrap();
    assert_eq!(compare(&host).0, 0); // as early in a boot
    let monitor = Monitor::open(&host).unwrap();
    let _udevd = Udevd(Command::new(udevd().unwrap()).spawn().unwrap());
    let wait = |what: &str, condition: &dyn Fn() -> bool| {
        let start = Instant::now();
        let found =
            monitor.wait_until(&host, start + Duration::from_secs(30), || Ok(condition().then_some(())));
        assert!(found.unwrap().is_some(), "{what}");
        println!("{what}: after {:?}", start.elapsed());
    };
    wait("udevd listens", &|| Path::new("/run/udev/control").exists());

    let device = Loop::attach();
    let record = || block::disk(&host, &device.name).unwrap().unwrap().udev;
    let label = || record().and_then(|udev| udev.properties.get("ID_FS_LABEL").cloned());
    wait("attached", &|| record().is_some());
    assert!(block::nobody_holds(&host, &device.name).unwrap());
    assert_eq!(block::probe(&host, &device.name, None).unwrap(), Content::Blank);

    let start = Instant::now();
    run("mkfs.xfs", &["-q", "-K", "-L", LABEL, &device.node()]);
    wait("labelled", &|| label().as_deref() == Some(LABEL));
    // The monitor must report it. The program also looks twice a second, which takes longer.
    println!("label seen {:?} after mkfs.xfs began", start.elapsed());
    let link = format!("/dev/disk/by-label/{LABEL}");
    assert_eq!(block::led_to(&host, &link).unwrap(), Some(device.name.clone()));
    assert_eq!(record().unwrap().properties.get("ID_FS_TYPE").map(String::as_str), Some("xfs"));
    run("udevadm", &["settle"]);
    let (finished, unfinished) = compare(&host);
    assert!(finished >= 1 && unfinished >= 1);

    run("wipefs", &["-q", "-a", &device.node()]);
    wait("wiped", &|| label().is_none());
    run("udevadm", &["settle"]);
    compare(&host);
}
