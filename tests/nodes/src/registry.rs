//! A registry of images in the run's namespace, with TLS and a password. Nodes reach it as the mirror of another registry,
//! which does not exist.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bed::Bed;
use crate::delivery::Root;
use crate::host;
use crate::net::Path as NetPath;
use crate::node::Node;

const LIMIT: Duration = Duration::from_secs(120);
const PACKAGING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging");
const LICENSE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../LICENSE");

/// The repository, as objects name it.
pub const REPOSITORY: &str = "registry.example.com/tools/etcd-lun";
/// Where the registry has it.
const MIRRORED: &str = "mirror/etcd-lun";
const USER: &str = "puller";
const PASSWORD: &str = "bed-Registry-s3cret";
/// The password for the registry, which knows bcrypt only. perl's `crypt` made it, with five bits of cost.
const HASHED: &str = "$2y$05$abcdefghijklmnopqrstuuTiRYDHdRVUgPEjOLxY4fpK7ZXBw.YEO";
/// `puller:bed-Registry-s3cret` in base64, as the pull secret has it.
const ENCODED: &str = "cHVsbGVyOmJlZC1SZWdpc3RyeS1zM2NyZXQ=";

/// The registry.
#[derive(Debug)]
pub struct Registry {
    bed: Rc<Bed>,
    dir: PathBuf,
    process: Option<Child>,
}

/// An image in the registry, and the program in it.
#[derive(Debug, Clone)]
pub struct Pushed {
    /// The image, as an object names it.
    pub image: String,
    /// The program, on the host.
    pub program: PathBuf,
    /// The program's SHA-256.
    pub sum: String,
}

impl Registry {
    /// Makes a certificate and starts the registry. It ends with the run.
    pub fn start(bed: &Rc<Bed>) -> Result<Self> {
        let mut registry = Self { bed: Rc::clone(bed), dir: bed.run.dir().join("registry"), process: None };
        if !registry.dir.exists() {
            registry.prepare()?;
        }
        registry.restart()?;
        Ok(registry)
    }

    /// Its address and port.
    pub fn address() -> String {
        format!("{}:8443", NetPath::Management.target())
    }

    /// `user:password` for it.
    pub fn account() -> String {
        format!("{USER}:{PASSWORD}")
    }

    /// The directory whose certificate podman and skopeo trust for it.
    pub fn trusted(&self) -> &Path {
        &self.dir
    }

    fn prepare(&self) -> Result<()> {
        // podman and skopeo trust the certificate in this file for the registry.
        fs::create_dir_all(&self.dir)?;
        let mut request = Command::new("openssl");
        request
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
            .args(["-days", "3650", "-subj", "/CN=registry", "-addext"])
            .arg(format!("subjectAltName=IP:{}", NetPath::Management.target()))
            .arg("-keyout")
            .arg(self.dir.join("key.pem"))
            .arg("-out")
            .arg(self.dir.join("ca.crt"));
        host::ok(&mut request, LIMIT)?;
        fs::write(self.dir.join("htpasswd"), format!("{USER}:{HASHED}\n"))?;
        let dir = self.dir.display();
        let config = format!(
            "version: 0.1\nlog:\n  level: warn\nstorage:\n  filesystem:\n    rootdirectory: {dir}/storage\n\
             http:\n  addr: {}\n  tls:\n    certificate: {dir}/ca.crt\n    key: {dir}/key.pem\n\
             auth:\n  htpasswd:\n    realm: bed\n    path: {dir}/htpasswd\n",
            Self::address()
        );
        fs::write(self.dir.join("config.yml"), config)?;
        Ok(())
    }

    /// Starts the registry again. It has every image that was pushed.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        let log = File::options().create(true).append(true).open(self.dir.join("log"))?;
        let mut serve = self.bed.net.command("docker-registry");
        serve.arg("serve").arg(self.dir.join("config.yml")).stdout(log.try_clone()?).stderr(log);
        self.process = Some(self.bed.run.spawn(&mut serve, "registry")?);
        host::poll(LIMIT, Duration::from_millis(100), || {
            let mut ask = self.bed.net.command("curl");
            ask.args(["--silent", "--output", "/dev/null", "--insecure", "--max-time", "5"]);
            let output = host::run(ask.arg(format!("https://{}/v2/", Self::address())), LIMIT)?;
            Ok((output.code == 0).then_some(()))
        })?
        .with_context(|| {
            format!(
                "the registry does not answer: {}",
                fs::read_to_string(self.dir.join("log")).unwrap_or_default()
            )
        })
    }

    /// Ends the registry.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.process.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// Makes the image of a program as a release does, and pushes it.
    pub fn push(&self, program: &Path) -> Result<Pushed> {
        let sum = sum(program)?;
        let layout = self.dir.join(&sum);
        if !layout.exists() {
            make_image(&layout, program)?;
        }
        let digest = self.dir.join("digest");
        let mut copy = self.bed.net.command("skopeo");
        copy.args(["--insecure-policy", "copy", "--quiet", "--all", "--preserve-digests", "--dest-creds"])
            .arg(Self::account())
            .arg("--dest-cert-dir")
            .arg(&self.dir)
            .arg("--digestfile")
            .arg(&digest)
            .arg(format!("oci:{}", layout.display()))
            .arg(format!("docker://{}/{MIRRORED}:{}", Self::address(), &sum[..12]));
        host::ok(&mut copy, LIMIT)?;
        let digest = fs::read_to_string(digest)?;
        Ok(Pushed { image: format!("{REPOSITORY}@{}", digest.trim()), program: program.into(), sum })
    }

    /// The files of a node that may use the registry, as the operator and the installer write them: path, mode, text.
    pub fn trust(&self) -> Result<Vec<(String, u32, String)>> {
        let (address, ca) = (Self::address(), fs::read_to_string(self.dir.join("ca.crt"))?);
        let source = REPOSITORY.rsplit_once('/').map_or(REPOSITORY, |(source, _)| source);
        let mirror = MIRRORED.rsplit_once('/').map_or(MIRRORED, |(mirror, _)| mirror);
        let registries = format!(
            "unqualified-search-registries = [\"registry.access.redhat.com\"]\n\n[[registry]]\nprefix = \"\"\n\
             location = \"{source}\"\n\n[[registry.mirror]]\nlocation = \"{address}/{mirror}\"\n\
             pull-from-mirror = \"digest-only\"\n"
        );
        let secret = format!("{{\"auths\":{{\"{address}\":{{\"auth\":\"{ENCODED}\"}}}}}}");
        Ok(vec![
            (format!("/etc/containers/certs.d/{address}/ca.crt"), 0o644, ca),
            ("/etc/containers/registries.conf".into(), 0o644, registries),
            ("/var/lib/kubelet/config.json".into(), 0o600, secret),
        ])
    }

    /// Writes these files into a running node.
    pub fn introduce(&self, node: &Node) -> Result<()> {
        self.trust()?.iter().try_for_each(|(path, mode, text)| node.put(path, *mode, text.as_bytes()))
    }
}

/// Makes the image of a program as a release does, as an OCI layout. Returns its digest.
pub fn make_image(layout: &Path, program: &Path) -> Result<String> {
    let mut make = Command::new(Path::new(PACKAGING).join("image"));
    let said = host::ok(make.arg(layout).arg(LICENSE).arg(program), LIMIT)?;
    said.lines().next_back().map(str::to_owned).context("packaging/image prints no digest")
}

/// Writes the files of [`Registry::trust`] on a node's disk.
pub fn introduce_on(root: &Root, trust: &[(String, u32, String)]) -> Result<()> {
    trust.iter().try_for_each(|(path, mode, text)| root.put(path, *mode, text.as_bytes()))?;
    root.label("/etc/containers /var/lib/kubelet")
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A file's SHA-256.
pub fn sum(file: &Path) -> Result<String> {
    let said = host::ok(Command::new("sha256sum").arg(file), LIMIT)?;
    Ok(said.split_whitespace().next().context("sha256sum prints no sum")?.into())
}
