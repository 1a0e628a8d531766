//! The storage: tgtd in the run's namespace, with LUNs in sparse files. It survives every node's reboots and
//! power cuts.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bed::Bed;
use crate::host;
use crate::net::Path;
use crate::slow::Slow;

pub use crate::backing::{blank, fingerprint};

const LIMIT: Duration = Duration::from_secs(20);

/// The name of the target, unless a scenario uses another one.
pub const IQN: &str = "iqn.2024-02.com.example:etcd";

/// The name of another target at the same portals, which a scenario may offer beside it.
pub const BESIDE: &str = "iqn.2024-02.com.example:beside";

/// A user name and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The CHAP name.
    pub user: String,
    /// The CHAP secret.
    pub secret: String,
}

impl Account {
    /// An account.
    pub fn new(user: &str, secret: &str) -> Self {
        Self { user: user.into(), secret: secret.into() }
    }
}

/// A LUN that the target offers.
#[derive(Debug, Clone)]
pub struct Lun {
    /// Its number. tgtd uses 0 itself.
    pub number: u32,
    /// Its backing file.
    pub file: PathBuf,
    /// Whether the target refuses writes to it.
    pub read_only: bool,
    /// The number of the storage's volume. The WWID depends on it.
    pub volume: u32,
    /// The size of its sectors, in bytes.
    pub sector: u32,
}

impl Lun {
    /// A LUN in a backing file.
    pub fn new(number: u32, file: PathBuf) -> Self {
        Self { number, file, read_only: false, volume: number, sector: 512 }
    }

    /// Its WWID as sysfs shows it. tgtd makes it from the `scsi_id` that `configure` sets.
    pub fn wwid(&self) -> String {
        format!("naa.6000000000000000{}", self.scsi_id())
    }

    fn scsi_id(&self) -> String {
        // Sixteen hexadecimal digits. tgtd replaces other characters by 0.
        format!("0bed{:012x}", self.volume)
    }
}

/// What the target offers, and to which initiators.
#[derive(Debug, Clone)]
pub struct Offer {
    /// The target's name.
    pub iqn: String,
    /// Its LUNs.
    pub luns: Vec<Lun>,
    /// The account that a node must have.
    pub chap: Option<Account>,
    /// The account with which the target authenticates itself to the node.
    pub mutual: Option<Account>,
    /// The account that a node must have for discovery.
    pub discovery_chap: Option<Account>,
    /// The only initiator name that may log in, if there is one.
    pub only_initiator: Option<String>,
    /// The LUN of the other target, and the only initiator name that may log in there, if there is such a target.
    pub beside: Option<(PathBuf, String)>,
}

impl Offer {
    /// A target with these LUNs, open to every initiator.
    pub fn open(luns: Vec<Lun>) -> Self {
        Self {
            iqn: IQN.into(),
            luns,
            chap: None,
            mutual: None,
            discovery_chap: None,
            only_initiator: None,
            beside: None,
        }
    }
}

/// A tgtd with one target.
#[derive(Debug)]
pub struct Target {
    bed: Rc<Bed>,
    portals: Vec<String>,
    socket: PathBuf,
    log: PathBuf,
    offer: Offer,
    process: Option<Child>,
}

impl Target {
    /// Starts tgtd on both storage networks and sets up the target.
    pub fn start(bed: &Rc<Bed>, offer: Offer) -> Result<Self> {
        let all = [Path::A.portal(), Path::B.portal(), Path::A.portal_v6(), Path::A.other_portal_v6()];
        Self::start_at(bed, "tgt", &all, offer)
    }

    /// Starts one more tgtd at these portals, like another controller of the array: what it offers may differ. Its name must not
    /// be another one's.
    pub fn start_at(bed: &Rc<Bed>, name: &str, portals: &[String], offer: Offer) -> Result<Self> {
        let mut target = Self {
            bed: Rc::clone(bed),
            portals: portals.to_vec(),
            socket: bed.run.dir().join(name),
            log: bed.run.dir().join(format!("{name}d.log")),
            offer,
            process: None,
        };
        target.restart()?;
        Ok(target)
    }

    /// Starts tgtd again at these portals only.
    pub fn only_at(&mut self, portals: &[String]) -> Result<()> {
        self.portals = portals.to_vec();
        self.restart()
    }

    /// Keeps a LUN known and lets no read of it succeed, as a standby controller does.
    pub fn set_standby(&self, number: u32, standby: bool) -> Result<()> {
        let parameters = format!("online={}", u8::from(!standby));
        let number = number.to_string();
        self.set("logicalunit", "update", &["--tid", "1", "--lun", &number, "--params", &parameters])
    }

    /// Starts tgtd with the same offer again, also after it was killed.
    pub fn restart(&mut self) -> Result<()> {
        self.stop();
        let log = File::options().create(true).append(true).open(&self.log)?;
        let portals: Vec<_> = self.portals.iter().map(|portal| format!("portal={portal}")).collect();
        let mut tgtd = self.bed.net.command("tgtd");
        tgtd.args(["-f", "--iscsi", &portals.join(",")])
            .env("TGT_IPC_SOCKET", &self.socket)
            .stdout(log.try_clone()?)
            .stderr(log);
        self.process = Some(self.bed.run.spawn(&mut tgtd, "tgtd")?);
        let ready = host::poll(LIMIT, Duration::from_millis(30), || {
            let output = host::run(&mut self.tgtadm("system", "show", &[]), LIMIT)?;
            Ok((output.code == 0).then_some(()))
        })?;
        if ready.is_none() {
            bail!("tgtd does not answer: {}", fs::read_to_string(&self.log).unwrap_or_default());
        }
        self.configure()
    }

    /// Replaces the offer. All sessions end.
    pub fn offer(&mut self, offer: Offer) -> Result<()> {
        self.offer = offer;
        self.restart()
    }

    /// The current offer.
    pub fn offered(&self) -> &Offer {
        &self.offer
    }

    /// Kills tgtd, as a crash of the storage would. The files keep what was written.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.process.take() {
            child.kill().ok();
            child.wait().ok();
        }
        // tgtd does not start while the socket of a killed tgtd exists.
        for port in ["0", "0.lock"] {
            fs::remove_file(self.socket.with_extension(port)).ok();
        }
    }

    /// Stops answering without closing any connection, like a storage array that hangs.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets a frozen tgtd answer again.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Makes tgtd answer slowly until the returned value is dropped. tgtd must run until then.
    pub fn slow_down(&self) -> Result<Slow> {
        Ok(Slow::begin(self.pid()?))
    }

    /// Offers one more LUN. Sessions stay.
    pub fn map(&mut self, lun: Lun) -> Result<()> {
        self.set_up_lun(&lun)?;
        self.offer.luns.push(lun);
        Ok(())
    }

    /// Maps another volume behind a LUN's number. Sessions stay. tgtd announces it (3F/0E) only with the next LUN that is mapped.
    pub fn exchange(&mut self, lun: Lun) -> Result<()> {
        self.unmap(lun.number)?;
        self.map(lun)
    }

    /// Takes a LUN away. Sessions stay.
    pub fn unmap(&mut self, number: u32) -> Result<()> {
        self.set("logicalunit", "delete", &["--tid", "1", "--lun", &number.to_string()])?;
        self.offer.luns.retain(|other| other.number != number);
        Ok(())
    }

    /// Ends all sessions, as an array does that restarts a service. Nodes may log in again at once.
    pub fn end_sessions(&self) -> Result<()> {
        let text = host::ok(&mut self.tgtadm("target", "show", &[]), LIMIT)?;
        for sid in text.lines().filter_map(|line| line.trim().strip_prefix("I_T nexus: ")) {
            let mut end = self.tgtadm("conn", "delete", &["--tid", "1", "--sid", sid, "--cid", "0"]);
            host::run(&mut end, LIMIT)?;
        }
        Ok(())
    }

    /// Makes the first LUN read-only or writable. Sessions stay.
    pub fn set_read_only(&self, read_only: bool) -> Result<()> {
        let number = self.offer.luns.first().context("no LUN is offered")?.number.to_string();
        let parameters = format!("readonly={}", u8::from(read_only));
        self.set("logicalunit", "update", &["--tid", "1", "--lun", &number, "--params", &parameters])
    }

    /// How many sessions the target has.
    pub fn sessions(&self) -> Result<usize> {
        let text = host::ok(&mut self.tgtadm("target", "show", &[]), LIMIT)?;
        Ok(text.matches("I_T nexus:").count())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid()?, signal)?;
        Ok(())
    }

    fn pid(&self) -> Result<Pid> {
        let child = self.process.as_ref().context("tgtd does not run")?;
        Ok(Pid::from_raw(i32::try_from(child.id())?))
    }

    fn configure(&self) -> Result<()> {
        let offer = &self.offer;
        self.set("target", "new", &["--tid", "1", "--targetname", &offer.iqn])?;
        offer.luns.iter().try_for_each(|lun| self.set_up_lun(lun))?;
        // The accounts of sessions are bound to the target. The account for discovery is bound to no target.
        let accounts = [
            (&offer.chap, &["--tid", "1"][..]),
            (&offer.mutual, &["--tid", "1", "--outgoing"][..]),
            (&offer.discovery_chap, &[][..]),
        ];
        for (account, binding) in accounts {
            let Some(Account { user, secret }) = account else { continue };
            self.set("account", "new", &["--user", user, "--password", secret])?;
            self.set("account", "bind", &[binding, &["--user", user]].concat())?;
        }
        let who = match &offer.only_initiator {
            Some(name) => ["--initiator-name", name],
            None => ["--initiator-address", "ALL"],
        };
        self.set("target", "bind", &[&["--tid", "1"][..], &who].concat())?;
        let Some((file, initiator)) = &offer.beside else { return Ok(()) };
        self.set("target", "new", &["--tid", "2", "--targetname", BESIDE])?;
        self.set("logicalunit", "new", &["--tid", "2", "--lun", "1", "-b", &file.to_string_lossy()])?;
        self.set("target", "bind", &["--tid", "2", "--initiator-name", initiator])
    }

    fn set_up_lun(&self, lun: &Lun) -> Result<()> {
        let number = lun.number.to_string();
        let file = lun.file.to_string_lossy().into_owned();
        let at = ["--tid", "1", "--lun", &number];
        let sector = lun.sector.to_string();
        self.set("logicalunit", "new", &[&at[..], &["-b", &file, "--blocksize", &sector]].concat())?;
        let parameters =
            format!("scsi_id={},scsi_sn=bed{number:0>5},readonly={}", lun.scsi_id(), u8::from(lun.read_only));
        self.set("logicalunit", "update", &[&at[..], &["--params", &parameters]].concat())
    }

    fn set(&self, mode: &str, op: &str, arguments: &[&str]) -> Result<()> {
        host::ok(&mut self.tgtadm(mode, op, arguments), LIMIT).map(drop)
    }

    fn tgtadm(&self, mode: &str, op: &str, arguments: &[&str]) -> Command {
        let mut tgtadm = Command::new("tgtadm");
        tgtadm
            .args(["--lld", "iscsi", "--mode", mode, "--op", op])
            .args(arguments)
            .env("TGT_IPC_SOCKET", &self.socket);
        tgtadm
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // A scenario that fails must not leave a second tgtd at a portal that the next one uses.
        self.stop();
    }
}
