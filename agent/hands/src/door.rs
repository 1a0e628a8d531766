//! The way to have something privileged done, chosen once: directly, or for the confined service by its hands.

use super::{
    direct::Direct,
    request::{AskedUnit, KnownUnit, Privileged, Request, Requester, Said, SaidOfUnit},
    socket::Socket,
};
use anyhow::Context as _;
use config::Config;
use host::{
    Host, block, namespace, selinux,
    staging::{self, Staging, StagingError},
    systemd::Unit,
};
use std::{io, os::fd::OwnedFd};
use terms::{AbsPath, named};

/// The host, and who performs what needs more rights than the service has.
#[derive(Debug)]
pub struct Door<'a> {
    /// The host.
    pub host: &'a Host,
    /// For whom this process works.
    pub requester: Requester,
    performer: Box<dyn Privileged>,
}

impl<'a> Door<'a> {
    /// The door for this process.
    pub fn of(host: &'a Host, config: &Config) -> anyhow::Result<Self> {
        Self::chosen(host, || Ok(Direct::by_hand(config)))
    }

    /// A door where the config cannot be read, for a look at units.
    pub fn without_config(host: &'a Host) -> anyhow::Result<Self> {
        Self::chosen(host, Direct::without_config)
    }

    fn chosen(host: &'a Host, direct: impl FnOnce() -> anyhow::Result<Direct>) -> anyhow::Result<Self> {
        Ok(match is_confined(host).context("finding out whether this is a service")? {
            true => Self::to(host, Requester::Service, Box::new(Socket)),
            false => Self::to(host, Requester::Person, Box::new(direct()?)),
        })
    }

    /// A door to this performer.
    pub fn to(host: &'a Host, requester: Requester, performer: Box<dyn Privileged>) -> Self {
        Self { host, requester, performer }
    }

    /// Has a request performed. Succeeds when it is done.
    pub fn perform(&self, request: &Request) -> anyhow::Result<()> {
        self.performer.perform(self.host, request).map(drop)
    }

    /// Mounts the XFS on a disk (kernel name) at a place that only this process sees. `like` are the options of etcd's mount.
    pub fn stage(&self, disk: &str, place: &AbsPath, like: &[String]) -> Result<Staging, StagingError> {
        let node = block::node(disk).map_err(StagingError::Io)?;
        let request = Request::Stage { disk: disk.into() };
        Staging::attach(self.host, node.as_path(), place, like, || self.mount(&request))
    }

    /// Opens the root of the XFS on a disk (kernel name) without writing anything to it: see [`staging::inspect`].
    pub fn inspect(&self, disk: &str) -> Result<OwnedFd, StagingError> {
        let node = block::node(disk).map_err(StagingError::Io)?;
        let request = Request::Inspect { disk: disk.into() };
        staging::inspect(self.host, node.as_path(), || self.mount(&request))
    }

    /// A filesystem in memory for iscsiadm's records.
    pub fn records(&self) -> io::Result<OwnedFd> {
        self.mount(&Request::Records)
    }

    /// A mount that is attached nowhere. If the kernel refuses it, the error has the kernel's code.
    fn mount(&self, request: &Request) -> io::Result<OwnedFd> {
        match self.performer.perform(self.host, request) {
            Ok((_, Some(mount))) => Ok(mount),
            Ok((_, None)) => Err(io::Error::other("etcd-lun's hands have sent no mount")),
            Err(error) => {
                Err(error.downcast().unwrap_or_else(|error| io::Error::other(format!("{error:#}"))))
            }
        }
    }

    /// The state of a unit.
    pub fn unit(&self, name: &str) -> Result<Unit, UnitUnknown> {
        self.units(&[name]).of(name)
    }

    /// Returns the states of these units, from one request to PID 1.
    pub fn units(&self, names: &[&str]) -> Units<'_> {
        let said = self.states(names).unwrap_or_else(|error| {
            let why = UnitUnknown(format!("{error:#}"));
            vec![Err(why); names.len()]
        });
        Units { door: self, said: names.iter().map(|name| (*name).to_owned()).zip(said).collect() }
    }

    fn states(&self, names: &[&str]) -> anyhow::Result<Vec<Result<Unit, UnitUnknown>>> {
        if names.is_empty() {
            return Ok(Vec::new());
        }
        let request = Request::Units(names.iter().map(|name| asked(name)).collect());
        let found = match self.performer.perform(self.host, &request)?.0 {
            Said::Units(found) if found.len() == names.len() => found,
            _ => return Err(another()),
        };
        // The hands have the name of etcd's unit from their own.
        let about = |(name, found): (&&str, SaidOfUnit)| match found.name == **name {
            true => found.said.map_err(UnitUnknown),
            false => Err(UnitUnknown(format!(
                "etcd-lun-hands@.service is about {}, and the config about {name}: {}",
                found.name,
                unit::RENDER_AGAIN
            ))),
        };
        Ok(names.iter().zip(found).map(about).collect())
    }

    /// True if the system shuts down.
    pub fn is_stopping(&self) -> anyhow::Result<bool> {
        let asked = self.performer.perform(self.host, &Request::IsStopping);
        match asked.context("asking whether the system shuts down")?.0 {
            Said::Stopping(stopping) => Ok(stopping),
            _ => Err(another()),
        }
    }
}

/// True if this process is a service of etcd-lun: in its domain, or where SELinux is off in a mount namespace that PID 1 has made for
/// it.
fn is_confined(host: &Host) -> io::Result<bool> {
    match selinux::enforces(host)? {
        Some(_) => Ok(policy::type_of(&selinux::own_context(host)?) == Some(policy::DOMAIN)),
        // The units of the release before have no socket there.
        None => Ok(host.root.mode(unit::HANDS_PATH)?.is_some() && namespace::receives_mounts_of_pid1(host)?),
    }
}

/// Why the state of a unit is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitUnknown(String);

/// The states of units from PID 1: of some it has said so already, and of others it is asked.
#[derive(Debug)]
pub struct Units<'a> {
    door: &'a Door<'a>,
    said: Vec<(String, Result<Unit, UnitUnknown>)>,
}

impl Units<'_> {
    /// Returns the state of one of them.
    pub fn of(&self, name: &str) -> Result<Unit, UnitUnknown> {
        match self.said.iter().find(|(asked, _)| asked == name) {
            Some((_, said)) => said.clone(),
            None => self.door.unit(name),
        }
    }
}

fn another() -> anyhow::Error {
    named!(HandsRefused, "etcd-lun's hands have answered another question: they are of another version")
        .into()
}

/// The name of a unit in a request.
fn asked(name: &str) -> AskedUnit {
    match KnownUnit::try_from(name.to_owned()) {
        Ok(known) => AskedUnit::Known(known),
        Err(_) => AskedUnit::Etcd,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Pool, Source};
    use host::{Root, files::Files, transcript::NoTools};
    use std::{
        io::{Read as _, Write as _},
        os::unix::net::UnixListener,
        thread,
    };

    /// The units of each config, and those with a drop-in of ours.
    #[test]
    fn each_unit_that_the_program_asks_for_is_known() {
        let text = "[target]\niqn = \"iqn.2024-02.com.example:etcd\"\nportals = [\"192.168.10.5\"]\nmultipath = true\nsafe_logout = true\n[etcd]\nruntime = \"static-pod\"\n[boot]\ngate = \"kubelet\"";
        let pool = Pool::load(&[Source { path: "config.toml".into(), text: text.into() }]).unwrap();
        let rendered = unit::for_config_installed_by(&pool, unit::InstalledBy::MachineConfig).unwrap();
        let own = rendered.into_iter().map(|unit| unit::state_of(&unit.name));
        let drop_ins = unit::drop_ins(&pool).into_iter().map(|drop_in| drop_in.unit.to_owned());
        let others = ["iscsid.socket", "pacemaker.service"].map(String::from);
        for name in own.chain(drop_ins).chain(others) {
            match asked(&name) {
                AskedUnit::Known(_) => {}
                AskedUnit::Etcd => assert_eq!(name, "etcd.service"),
            }
        }
        assert_eq!(asked("etcd.service"), AskedUnit::Etcd);
    }

    fn config() -> Config {
        let text = "[device]\npath = \"/dev/disk/by-id/x\"\n[etcd]\nruntime = \"static-pod\"";
        Config::load(&[Source { path: "config.toml".into(), text: text.into() }], "cafe", "a").unwrap()
    }

    /// Returns the answer for each unit, and the question.
    fn of_hands(name: &str, answer: &'static str, names: &[&str]) -> (Vec<String>, String) {
        let files = Files::new(name);
        files.put("sys/fs/selinux/enforce", "1");
        files.put("proc/self/attr/current", "system_u:system_r:etcd_lun_t:s0\0");
        files.dir("run/etcd-lun-hands");
        let listener = UnixListener::bind(files.0.join("run/etcd-lun-hands/socket")).unwrap();
        let hands = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = String::new();
            stream.read_to_string(&mut question).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            question
        });
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        let door = Door::of(&host, &config()).unwrap();
        let units = door.units(names);
        let why = names.iter().map(|name| units.of(name).unwrap_err().to_string()).collect();
        (why, hands.join().unwrap())
    }

    /// One request for all, and an answer is taken only for the unit that it is about.
    #[test]
    fn the_confined_service_asks_its_hands() {
        let answer = r#"{"Ok":{"units":[{"name":"kubelet.service","said":{"Err":"denied"}},{"name":"other.service","said":{"Err":""}}]}}"#;
        let (why, question) = of_hands("hands-units", answer, &["kubelet.service", "etcd.service"]);
        assert_eq!(question, "{\"units\":[{\"known\":\"kubelet.service\"},\"etcd\"]}\n");
        assert_eq!(why[0], "denied");
        assert!(
            why[1].starts_with("etcd-lun-hands@.service is about other.service, and the config"),
            "{why:?}"
        );
        for (name, answer, expected) in [
            ("hands-units-few", r#"{"Ok":{"units":[]}}"#, another().to_string()),
            ("hands-units-done", r#"{"Ok":"done"}"#, another().to_string()),
            ("hands-units-failed", r#"{"Err":{"failed":["systemd-failed","no bus"]}}"#, "no bus".to_owned()),
        ] {
            assert_eq!(of_hands(name, answer, &["kubelet.service"]).0, [expected]);
        }
    }

    /// A process in another domain does it itself: there is no bus here.
    #[test]
    fn a_person_asks_systemd() {
        let files = Files::new("hands-person");
        files.put("sys/fs/selinux/enforce", "1");
        files.put("proc/self/attr/current", "unconfined_u:unconfined_r:unconfined_t:s0\0");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        let door = Door::of(&host, &config()).unwrap();
        assert_eq!(door.requester, Requester::Person);
        let why = door.units(&[]).of("kubelet.service").unwrap_err().to_string();
        assert!(why.starts_with("connecting to the system bus"), "{why}");
    }
}
