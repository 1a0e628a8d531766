//! What PID 1 knows of a unit.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use zbus::{OwnedObjectPath, OwnedVariant};

/// A unit as PID 1 sees it. States are systemd's own words: org.freedesktop.systemd1(5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unit {
    /// Its name; the real one when it was asked for by an alias.
    pub name: String,
    /// `loaded`, `not-found`, `bad-setting`, `error` or `masked`.
    pub load_state: String,
    /// `active`, `reloading`, `inactive`, `failed`, `activating` or `deactivating`.
    pub active_state: String,
    /// Finer, by type of unit: `mounted`, `running`, `dead` and others.
    pub sub_state: String,
    /// `enabled`, `disabled`, `static` and others; empty without a file.
    pub unit_file_state: String,
    /// Files that change or add to it.
    pub drop_in_paths: Vec<String>,
    /// Units that it starts, and without which it starts too.
    pub wants: Vec<String>,
    /// Units that it starts, and without which it does not start.
    pub requires: Vec<String>,
    /// True if a job for it is queued or runs.
    pub job_pending: bool,
    /// The main process of a service, while there is one.
    pub main_pid: Option<u32>,
    /// How the last run of a service or mount ended: `success`, `exit-code`, `timeout` and others.
    pub result: Option<String>,
}

impl Unit {
    /// Returns true if PID 1 found the unit at all, be it masked or broken.
    pub fn exists(&self) -> bool {
        self.load_state != "not-found"
    }

    /// Returns true if it runs, or is mounted.
    pub fn is_active(&self) -> bool {
        matches!(self.active_state.as_str(), "active" | "reloading")
    }

    /// Returns true if it is fully down. Not the opposite of active: between the two it starts or stops.
    pub fn is_stopped(&self) -> bool {
        matches!(self.active_state.as_str(), "inactive" | "failed")
            && self.main_pid.is_none()
            && !self.job_pending
    }

    /// Reads a unit with what asks for all properties of an interface.
    pub(super) async fn read(
        name: &str,
        all: impl AsyncFn(&str) -> zbus::Result<Properties>,
    ) -> zbus::Result<Self> {
        let general = all("org.freedesktop.systemd1.Unit").await?;
        let kind = Kind::of(name);
        let special = match kind {
            Kind::Service => all("org.freedesktop.systemd1.Service").await?,
            Kind::Mount => all("org.freedesktop.systemd1.Mount").await?,
            Kind::Other => Properties::new(),
        };
        parse(kind, general, special).map_err(zbus::Error::Failure)
    }
}

/// The types of units that have properties of their own here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Service,
    Mount,
    Other,
}

impl Kind {
    fn of(name: &str) -> Self {
        match name.rsplit_once('.') {
            Some((_, "service")) => Self::Service,
            Some((_, "mount")) => Self::Mount,
            _ => Self::Other,
        }
    }
}

/// The properties of an interface of an object.
pub(super) type Properties = HashMap<String, OwnedVariant>;

fn parse(kind: Kind, mut general: Properties, mut special: Properties) -> Result<Unit, String> {
    let (_number, job) = take::<(u32, OwnedObjectPath)>(&mut general, "Job")?;
    let main_pid = match kind {
        Kind::Service => Some(take::<u32>(&mut special, "MainPID")?).filter(|&pid| pid != 0),
        Kind::Mount | Kind::Other => None,
    };
    let mut text = |key| take::<String>(&mut general, key);
    let result = match kind {
        Kind::Service | Kind::Mount => Some(take(&mut special, "Result")?),
        Kind::Other => None,
    };
    Ok(Unit {
        name: text("Id")?,
        load_state: text("LoadState")?,
        active_state: text("ActiveState")?,
        sub_state: text("SubState")?,
        unit_file_state: text("UnitFileState")?,
        drop_in_paths: take(&mut general, "DropInPaths")?,
        wants: take(&mut general, "Wants")?,
        requires: take(&mut general, "Requires")?,
        job_pending: job.as_str() != "/",
        main_pid,
        result,
    })
}

/// Takes a property out, of the type that its place in [`Unit`] has.
fn take<T: TryFrom<OwnedVariant>>(properties: &mut Properties, key: &str) -> Result<T, String> {
    let variant = properties.remove(key).ok_or_else(|| format!("the property {key} is missing"))?;
    T::try_from(variant).map_err(|_| format!("the property {key} has an unexpected type"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zbus::Variant;

    fn properties(pairs: &[(&str, Variant<'static>)]) -> Properties {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), OwnedVariant::try_from(value).unwrap())).collect()
    }

    fn general() -> Properties {
        let no_job = (0_u32, OwnedObjectPath::try_from("/").unwrap());
        properties(&[
            ("Id", "x.service".into()),
            ("LoadState", "loaded".into()),
            ("ActiveState", "active".into()),
            ("SubState", "running".into()),
            ("UnitFileState", "static".into()),
            ("DropInPaths", vec!["/etc/systemd/system/x.service.d/a.conf"].into()),
            ("Wants", vec!["y.service"].into()),
            ("Requires", Vec::<&str>::new().into()),
            ("Job", no_job.into()),
        ])
    }

    #[test]
    fn a_service() {
        let special = properties(&[("MainPID", 7_u32.into()), ("Result", "success".into())]);
        let unit = parse(Kind::Service, general(), special).unwrap();
        assert_eq!((unit.main_pid, unit.result.as_deref()), (Some(7), Some("success")));
        assert_eq!(unit.drop_in_paths, ["/etc/systemd/system/x.service.d/a.conf"]);
        assert_eq!((&unit.wants, unit.requires.len()), (&vec!["y.service".to_owned()], 0));
        assert!(unit.exists() && unit.is_active() && !unit.is_stopped());
        let stopped = Unit { active_state: "failed".into(), main_pid: None, ..unit.clone() };
        assert!(stopped.is_stopped() && !stopped.is_active());
        for other in [
            Unit { active_state: "deactivating".into(), ..stopped.clone() },
            Unit { main_pid: Some(7), ..stopped.clone() },
            Unit { job_pending: true, ..stopped.clone() },
        ] {
            assert!(!other.is_stopped(), "{other:?}");
        }
    }

    #[test]
    fn missing_and_mistyped() {
        let special = properties(&[("MainPID", 7_u32.into()), ("Result", "success".into())]);
        for key in general().keys() {
            let mut less = general();
            less.remove(key);
            let said = parse(Kind::Service, less.clone(), special.clone()).unwrap_err();
            assert_eq!(said, format!("the property {key} is missing"));
            less.insert(key.clone(), Variant::from(1.5).try_into().unwrap());
            let said = parse(Kind::Service, less.clone(), special.clone()).unwrap_err();
            assert_eq!(said, format!("the property {key} has an unexpected type"));
        }
        // A property that the unit's type has is never treated as absent.
        assert!(parse(Kind::Service, general(), Properties::new()).is_err());
        assert!(parse(Kind::Mount, general(), Properties::new()).is_err());
        assert!(parse(Kind::Other, general(), Properties::new()).is_ok());
    }
}
