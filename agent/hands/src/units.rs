//! What PID 1 says of units: by D-Bus, or for the confined service by its hands.

use super::{
    ask::said,
    is_confined,
    request::{Answer, AskedUnit, KnownUnit, Request, SaidOfUnit},
};
use anyhow::{Context as _, anyhow};
use host::{
    Host,
    systemd::{self, SystemdError, Unit},
};

/// Why the state of a unit is unknown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UnitUnknown(String);

impl UnitUnknown {
    fn because(error: &anyhow::Error) -> Self {
        Self(format!("{error:#}"))
    }
}

/// What PID 1 says of some units, all asked for at once.
#[derive(Debug)]
pub struct Units(Vec<(String, Result<Unit, UnitUnknown>)>);

impl Units {
    /// What it says of one of them.
    pub fn of(&self, name: &str) -> Result<Unit, UnitUnknown> {
        match self.0.iter().find(|(asked, _)| asked == name) {
            Some((_, said)) => said.clone(),
            None => Err(UnitUnknown(format!("systemd was not asked for {name}"))),
        }
    }
}

/// Answers what PID 1 says of a unit.
pub type State<'a> = &'a dyn Fn(&str) -> Result<Unit, UnitUnknown>;

/// What PID 1 says of a unit: see [`systemd::unit`].
pub fn unit(host: &Host, name: &str) -> Result<Unit, UnitUnknown> {
    units(host, &[name]).of(name)
}

/// What PID 1 says of these units. The confined service sends one request for all of them.
pub fn units(host: &Host, names: &[&str]) -> Units {
    let found = match is_confined(host) {
        Ok(false) => Ok(units_here(host, names)),
        Ok(true) => by_hands(host, names),
        Err(error) => Err(error.into()),
    };
    let found = found.unwrap_or_else(|error| vec![Err(UnitUnknown::because(&error)); names.len()]);
    Units(names.iter().map(|name| (*name).to_owned()).zip(found).collect())
}

/// The same by this process, in this order. If the bus or systemd does not answer, it is not asked for the rest: each question
/// could take as long.
pub fn units_here(host: &Host, names: &[&str]) -> Vec<Result<Unit, UnitUnknown>> {
    let mut found: Vec<_> = match systemd::units(host, names) {
        Ok(said) => said.into_iter().map(|said| said.map_err(unknown)).collect(),
        Err(error) => vec![Err(unknown(error))],
    };
    // The last answer says why there are no more.
    let rest = found.last().cloned();
    found.resize_with(names.len(), || rest.clone().unwrap_or_else(|| Err(UnitUnknown(String::new()))));
    found
}

fn unknown(error: SystemdError) -> UnitUnknown {
    UnitUnknown::because(&error.into())
}

fn by_hands(host: &Host, names: &[&str]) -> anyhow::Result<Vec<Result<Unit, UnitUnknown>>> {
    let request = Request::Units(names.iter().map(|name| asked(name)).collect());
    let found = match said(host, &request)? {
        Answer::Units(found) if found.len() == names.len() => found,
        _ => return Err(another()),
    };
    // The hands have the names of the mount unit and of etcd's from their own unit.
    let about = |(name, found): (&&str, SaidOfUnit)| match found.name == **name {
        true => found.said.map_err(UnitUnknown),
        false => Err(UnitUnknown(format!(
            "etcd-lun-hands@.service is about {}, and the config about {name}: run `etcd-lun render units --into /etc/systemd/system` and `systemctl daemon-reload`",
            found.name
        ))),
    };
    Ok(names.iter().zip(found).map(about).collect())
}

fn another() -> anyhow::Error {
    anyhow!("etcd-lun's hands have answered another question: they are of another version")
}

/// What stands for a unit in a request.
fn asked(name: &str) -> AskedUnit {
    match KnownUnit::try_from(name.to_owned()) {
        Ok(known) => AskedUnit::Known(known),
        Err(_) if name.ends_with(".mount") => AskedUnit::Mount,
        Err(_) => AskedUnit::Etcd,
    }
}

/// Whether the system shuts down: see [`systemd::is_stopping`].
pub fn is_stopping(host: &Host) -> anyhow::Result<bool> {
    if !is_confined(host)? {
        return Ok(systemd::is_stopping(host)?);
    }
    match said(host, &Request::IsStopping).context("asking whether the system shuts down")? {
        Answer::Stopping(stopping) => Ok(stopping),
        _ => Err(another()),
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
                AskedUnit::Mount => assert_eq!(name, "var-lib-etcd.mount"),
                AskedUnit::Etcd => panic!("{name}"),
            }
        }
        assert_eq!(asked("etcd.service"), AskedUnit::Etcd);
    }

    fn of_hands(name: &str, answer: &'static str, names: &[&str]) -> (Units, String) {
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
        (units(&host, names), hands.join().unwrap())
    }

    /// One request for all, and an answer is taken only for the unit that it is about.
    #[test]
    fn the_confined_service_asks_its_hands() {
        let answer = r#"{"units":[{"name":"kubelet.service","said":{"Err":"denied"}},{"name":"var-lib-other.mount","said":{"Err":""}}]}"#;
        let (units, question) = of_hands("hands-units", answer, &["kubelet.service", "var-lib-etcd.mount"]);
        assert_eq!(question, "{\"units\":[{\"known\":\"kubelet.service\"},\"mount\"]}\n");
        let why = |name| units.of(name).unwrap_err().to_string();
        assert_eq!(why("kubelet.service"), "denied");
        let other = why("var-lib-etcd.mount");
        assert!(
            other.starts_with("etcd-lun-hands@.service is about var-lib-other.mount, and the config"),
            "{other}"
        );
        assert_eq!(why("crio.service"), "systemd was not asked for crio.service");
        for (name, answer) in [("hands-units-few", r#"{"units":[]}"#), ("hands-units-done", r#""done""#)] {
            let (units, _) = of_hands(name, answer, &["kubelet.service"]);
            assert_eq!(units.of("kubelet.service").unwrap_err().to_string(), another().to_string());
        }
    }
}
