use super::*;
use crate::{Interrupt, Root, system::SystemRunner};
use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::PathBuf,
};

struct Kubernetes {
    base: PathBuf,
    host: Host,
    manifest: AbsPath,
    parked: AbsPath,
}

impl Kubernetes {
    fn new(test: &str) -> Self {
        let base = std::env::temp_dir().join(format!("etcd-lun-manifest-{test}-{}", std::process::id()));
        fs::create_dir_all(base.join("etc/kubernetes/manifests")).unwrap();
        let runner = Box::new(SystemRunner::new(Interrupt::never()).unwrap());
        let path = |text: &str| format!("/etc/kubernetes/{text}").parse().unwrap();
        Self {
            host: Host::fixture(Root::new(&base), runner).unwrap(),
            base,
            manifest: path("manifests/etcd-pod.yaml"),
            parked: path("etcd-lun-parked/etcd-pod.yaml"),
        }
    }

    /// The content of the two places, as an interrupted run or someone else left it.
    fn with(test: &str, manifest: Option<&str>, parked: Option<&str>) -> Self {
        let new = Self::new(test);
        let texts = [(&new.manifest, manifest), (&new.parked, parked)];
        for (path, text) in texts.into_iter().filter_map(|(path, text)| Some((path, text?))) {
            fs::create_dir_all(new.at(&path.parent())).unwrap();
            fs::write(new.at(path), text).unwrap();
        }
        new
    }

    fn at(&self, path: &AbsPath) -> PathBuf {
        self.host.root.locate(path.as_path())
    }

    fn texts(&self) -> (Option<String>, Option<String>) {
        let text = |path: &AbsPath| self.host.root.read_opt(path.as_path()).unwrap();
        (text(&self.manifest), text(&self.parked))
    }

    fn texts_parked(&self) -> Option<String> {
        self.host.root.read_opt(self.parked.as_path()).unwrap()
    }

    fn look(&self) -> io::Result<(bool, bool)> {
        look(&self.host, &self.manifest, &self.parked).map(|found| (found.present, found.parked))
    }

    fn park(&self) -> io::Result<()> {
        park(&self.host, &self.manifest, &self.parked)
    }

    fn put_back(&self) -> io::Result<PutBack> {
        put_back(&self.host, &self.manifest, &self.parked)
    }

    fn has_shelf(&self) -> bool {
        self.at(&self.parked.parent()).exists()
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.base);
    }
}

#[test]
fn the_same_file_there_and_back() {
    let node = Kubernetes::with("same", Some("old\n"), None);
    fs::set_permissions(node.at(&node.manifest), fs::Permissions::from_mode(0o640)).unwrap();
    let id = |path: &AbsPath| {
        let found = fs::metadata(node.at(path)).unwrap();
        (found.ino(), found.mode())
    };
    let before = id(&node.manifest);
    for _again in 0..2 {
        node.park().unwrap();
        assert_eq!(id(&node.parked), before);
        assert_eq!(fs::metadata(node.at(&node.parked.parent())).unwrap().mode() & 0o777, 0o700);
    }
    assert_eq!(node.put_back().unwrap(), PutBack::Back);
    assert_eq!(id(&node.manifest), before);
    assert!(!node.has_shelf());
}

/// From every combination: each is also what a cut between two steps leaves.
#[test]
fn every_combination() {
    let text = |text: &str| Some(text.to_owned());
    for (manifest, parked, after_park, back, after_back) in [
        (None, None, (None, None), PutBack::NotParked, (None, None)),
        (Some("a"), None, (None, text("a")), PutBack::NotParked, (text("a"), None)),
        (None, Some("a"), (None, text("a")), PutBack::Back, (text("a"), None)),
        (Some("new"), Some("old"), (None, text("new")), PutBack::Newer, (text("new"), None)),
    ] {
        for shelf in [false, true] {
            let make = |test| {
                let node = Kubernetes::with(test, manifest, parked);
                if shelf {
                    fs::create_dir_all(node.at(&node.parked.parent())).unwrap();
                }
                assert_eq!(node.look().unwrap(), (manifest.is_some(), parked.is_some()));
                node
            };
            let node = make("park");
            let done = node.park();
            let nowhere = manifest.or(parked).is_none();
            assert_eq!(done.err().map(|error| error.kind()), nowhere.then_some(io::ErrorKind::NotFound));
            assert_eq!(node.texts(), after_park);
            assert!(node.put_back().is_ok() && !node.has_shelf());

            let node = make("back");
            assert_eq!(node.put_back().unwrap(), back);
            assert_eq!(node.texts(), after_back);
            assert!(!node.has_shelf());
            assert_eq!(node.put_back().unwrap(), PutBack::NotParked);
            assert_eq!(node.texts(), after_back);
        }
    }
}

#[test]
fn what_is_no_file_is_left_alone() {
    for what in ["a directory", "a symbolic link", "a named pipe"] {
        let make = |path: PathBuf| match what {
            "a directory" => fs::create_dir(path).unwrap(),
            "a symbolic link" => symlink("/etc/passwd", path).unwrap(),
            _ => nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).unwrap(),
        };
        let said = |result: io::Result<()>| {
            let error = result.unwrap_err().to_string();
            assert!(error.contains(&format!("etcd-pod.yaml is {what}, not a regular file")), "{error}");
        };
        for parked in [None, Some("parked")] {
            let node = Kubernetes::with("no-manifest", None, parked);
            make(node.at(&node.manifest));
            said(node.look().map(drop));
            said(node.park());
            assert_eq!(node.has_shelf(), parked.is_some());
            if parked.is_some() {
                said(node.put_back().map(drop));
                assert_eq!(node.texts_parked().as_deref(), parked);
            }
        }
        let node = Kubernetes::with("no-parked", Some("mine"), None);
        fs::create_dir(node.at(&node.parked.parent())).unwrap();
        make(node.at(&node.parked));
        said(node.look().map(drop));
        said(node.park());
        said(node.put_back().map(drop));
        assert_eq!(node.host.root.read(node.manifest.as_path()).unwrap(), "mine");
    }
}

#[test]
fn what_is_around_them() {
    let node = Kubernetes::with("around", Some("mine"), None);
    // A parking place that leads elsewhere.
    symlink("/tmp", node.at(&node.parked.parent())).unwrap();
    assert!(node.park().is_err() && node.put_back().is_err() && node.look().is_err());
    fs::remove_file(node.at(&node.parked.parent())).unwrap();
    // Another's file in the parking place.
    node.park().unwrap();
    fs::write(node.at(&node.parked.parent()).join("other"), "").unwrap();
    assert_eq!(node.put_back().unwrap(), PutBack::Back);
    assert!(node.has_shelf());
    // The manifest's directory is gone: nothing is lost.
    node.park().unwrap();
    fs::remove_dir(node.at(&node.manifest.parent())).unwrap();
    assert_eq!(node.look().unwrap(), (false, true));
    assert_eq!(node.put_back().unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(node.texts_parked().as_deref(), Some("mine"));
    // A directory that is a link.
    fs::create_dir(node.base.join("elsewhere")).unwrap();
    symlink(node.base.join("elsewhere"), node.at(&node.manifest.parent())).unwrap();
    assert_eq!(node.put_back().unwrap(), PutBack::Back);
    assert_eq!(fs::read_to_string(node.base.join("elsewhere/etcd-pod.yaml")).unwrap(), "mine");
}

#[test]
fn a_try_moves_nothing_and_leaves_nothing() {
    let kubernetes = Kubernetes::with("try", Some("pod"), None);
    let (manifest, parked) = (&kubernetes.manifest, &kubernetes.parked);
    let try_it = || try_both_ways(&kubernetes.host, manifest, parked);
    let list = |dir: &str| kubernetes.host.root.list_opt(dir).unwrap();
    // Twice from the beginning, and after tries that were interrupted: the second between both renames.
    for left in ["", "manifests/.etcd-lun-preflight", "etcd-lun-parked/.etcd-lun-preflight"] {
        if !left.is_empty() {
            let left = kubernetes.base.join("etc/kubernetes").join(left);
            fs::create_dir_all(left.parent().unwrap()).unwrap();
            fs::write(left, "").unwrap();
        }
        try_it().unwrap();
        assert_eq!(kubernetes.texts(), (Some("pod".into()), None));
        assert_eq!(list("/etc/kubernetes").unwrap(), ["manifests"]);
        assert_eq!(list("/etc/kubernetes/manifests").unwrap(), ["etcd-pod.yaml"]);
    }
    // A parked manifest stays.
    fs::create_dir(kubernetes.at(&parked.parent())).unwrap();
    fs::write(kubernetes.at(parked), "older").unwrap();
    try_it().unwrap();
    assert_eq!(kubernetes.texts(), (Some("pod".into()), Some("older".into())));
    // An entry in the way is an error, and the manifest stays.
    fs::remove_dir_all(kubernetes.at(&parked.parent())).unwrap();
    fs::write(kubernetes.at(&parked.parent()), "").unwrap();
    assert!(try_it().is_err());
    assert_eq!(list("/etc/kubernetes/manifests").unwrap(), ["etcd-pod.yaml"]);
}
