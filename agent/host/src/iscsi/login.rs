//! Logging in and out.

use super::{DATABASE_LIMIT, IscsiError, IscsiExit, iscsiadm};
use crate::{Host, Invocation, Tool, root::at};
use std::{path::Path, time::Duration};
use terms::{INTERFACE, Portal, TargetName};

/// The result of a login that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogIn {
    /// There is a new session.
    New,
    /// A session exists already. It may be logged in, reconnecting, or still in its first login after a login that was
    /// interrupted. See its state in [`sessions`](super::sessions).
    AlreadyIn,
}

/// Logs in to a target at several portals at the same time, by the records of our interface. The results are in the
/// order of the portals. Each portal must have its record.
///
/// Each portal has an iscsiadm of its own, because one iscsiadm for several portals returns the first error only. After
/// `limit` iscsiadm is killed, but iscsid continues to try for as long as the record says
/// (`node.session.initial_login_retry_max` times `node.conn[0].timeo.login_timeout`). So a session may still appear
/// later.
pub fn log_in(
    host: &Host,
    target: &TargetName,
    portals: &[Portal],
    limit: Duration,
) -> Vec<Result<LogIn, IscsiError>> {
    let invocation = |portal: &Portal| {
        let (portal, at) = (portal, portal.to_string());
        let node = ["-m", "node", "-T", target.at(portal).as_str(), "-p", &at, "-I", INTERFACE, "--login"];
        Invocation::new(Tool::Iscsiadm, node).limit(limit)
    };
    let results = host.runner.run_all(&portals.iter().map(invocation).collect::<Vec<_>>());
    let judge = |(portal, result): (&Portal, Result<_, _>)| {
        let doing = format!("logging in to {} at {portal}", target.at(portal));
        let output: crate::Output =
            result.map_err(|source| IscsiError::Exec { doing: doing.clone(), source })?;
        match IscsiExit::from_code(output.code) {
            None => Ok(LogIn::New),
            Some(IscsiExit::SessionExists) => Ok(LogIn::AlreadyIn),
            Some(exit) => Err(IscsiError::exit(&doing, exit, &output, None)),
        }
    };
    portals.iter().zip(results).map(judge).collect()
}

/// Ends a session. If the session has ended already, that is no error. Neither this function nor, by default,
/// open-iscsi checks that the session's devices are not in use.
pub fn log_out(host: &Host, sid: u32) -> Result<(), IscsiError> {
    let doing = format!("logging out of session {sid}");
    let result =
        iscsiadm(host, &doing, &["-m", "session", "-r", &sid.to_string(), "--logout"], DATABASE_LIMIT, None);
    match result {
        Ok(_) => Ok(()),
        // iscsiadm returns 22 if the session doesn't exist, and 2 or 21 if it ends during the call.
        Err(IscsiError::Exit {
            exit: IscsiExit::SessionNotFound | IscsiExit::NothingFound | IscsiExit::Sysfs,
            ..
        }) if is_gone(host, sid).map_err(IscsiError::io(&doing))? => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_gone(host: &Host, sid: u32) -> std::io::Result<bool> {
    let path = format!("/sys/class/iscsi_session/session{sid}");
    host.root.mode(&path).map(|mode| mode.is_none()).map_err(|error| at(Path::new(&path), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{iscsi::tests::Fixture, transcript::Transcript};

    #[test]
    fn each_portal_has_its_result() {
        let line = |portal| {
            format!("iscsiadm -m node -T iqn.2024-02.com.example:etcd -p {portal} -I etcd-lun --login")
        };
        let refused = "iscsiadm: Could not login to [iface: etcd-lun, target: iqn.2024-02.com.example:etcd, \
            portal: 10.0.0.3,3260].\niscsiadm: initiator reported error (24 - iSCSI login failed due to \
            authorization failure)\niscsiadm: Could not log into all portals\n";
        let transcript = Transcript::default()
            .on(&line("10.0.0.1:3260"), 0, "Login to [...] successful.\n", "")
            .on(
                &line("[2001:db8::1]:3260"),
                15,
                "",
                "iscsiadm: etcd-lun: 1 session requested, but 1 already present.\n",
            )
            .on(&line("10.0.0.3:3260"), 24, "", refused)
            .on(&line("10.0.0.4:3260"), 8, "", "iscsiadm: timed out\n");
        let fixture = Fixture::with("login", transcript);
        let portals: Vec<Portal> = ["10.0.0.1", "2001:db8::1", "10.0.0.3", "10.0.0.4"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let target = "iqn.2024-02.com.example:etcd".parse().unwrap();
        let results = log_in(&fixture.host, &target, &portals, Duration::from_secs(10));
        assert_eq!(*results[0].as_ref().unwrap(), LogIn::New);
        assert_eq!(*results[1].as_ref().unwrap(), LogIn::AlreadyIn);
        let error = results[2].as_ref().unwrap_err();
        let begin = "logging in to iqn.2024-02.com.example:etcd at 10.0.0.3:3260: iscsiadm exited with 24";
        assert!(error.to_string().starts_with(begin) && !error.is_transient(), "{error}");
        assert!(results[3].as_ref().unwrap_err().is_transient());
    }

    #[test]
    fn a_session_that_has_ended_is_logged_out() {
        let line = "iscsiadm -m session -r 5 --logout";
        let said = "iscsiadm: could not read session targetname: 5\niscsiadm: Could not get session info for sid 5\n";
        let fixture = Fixture::with("logout", Transcript::default().on(line, 22, "", said));
        log_out(&fixture.host, 5).unwrap();
        fixture.file("/sys/class/iscsi_session/session5/state", "LOGGED_IN\n");
        assert!(log_out(&fixture.host, 5).is_err());
    }
}
