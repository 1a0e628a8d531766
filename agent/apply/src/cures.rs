//! What a person can do when the machine did not do something. `host` says what it found, and knows no key of the config: they are
//! named here.

use hands::Explained;
use host::{
    ExecError,
    iscsi::{IscsiError, IscsiExit},
};

/// An error of open-iscsi's, with its cure.
pub fn iscsi(error: IscsiError) -> anyhow::Error {
    let cure = match &error {
        IscsiError::Exit { exit, .. } => of_exit(*exit),
        IscsiError::Exec { source: ExecError::TimedOut { .. }, .. } => of_exit(IscsiExit::ConnectTimeout),
        IscsiError::NotAnnounced { .. } => {
            Some("correct `target.iqn`, or allow this initiator at the target")
        }
        IscsiError::Unresolved { .. } => Some(
            "correct it in `target.portals`, or give the address there: a boot should not wait for a name server",
        ),
        IscsiError::UnknownAlg { .. } => Some("remove it from `target.chap.algs`"),
        IscsiError::Exec { .. } | IscsiError::Io { .. } | IscsiError::Unexpected { .. } => None,
    };
    match cure {
        Some(cure) => Explained::new(error, cure).into(),
        None => error.into(),
    }
}

/// The cure for an exit code of iscsiadm, if the code alone determines that.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "most codes of open-iscsi's say nothing that a person could act on"
)]
fn of_exit(exit: IscsiExit) -> Option<&'static str> {
    match exit {
        IscsiExit::Transport | IscsiExit::ConnectTimeout | IscsiExit::PduTimeout => {
            Some("check that the portal is right and answers this node")
        }
        IscsiExit::NoDriver => Some("load the kernel module iscsi_tcp"),
        IscsiExit::Permission => Some("run as root"),
        // Without an initiator name iscsid exits at once, until systemd stops starting it for its socket.
        IscsiExit::IscsidBroken | IscsiExit::IscsidAbsent => Some(
            "see `systemctl status iscsid.socket iscsid.service`; iscsid needs an initiator name in \
             /etc/iscsi/initiatorname.iscsi",
        ),
        // iscsiadm returns this code also when the target fails to authenticate itself in mutual CHAP, and when it
        // knows none of the algorithms. LIO answers so to an initiator that offers CHAP, if it demands none
        // (`authentication=0`).
        IscsiExit::FatalLogin => Some(
            "check `target.iqn`, mutual CHAP, that the target allows this node's initiator name, that it demands CHAP if the \
             config has it, that it accepts one of the algorithms (`target.chap.algs`; open-iscsi's default is MD5), \
             `target.digests` if the config has it, and that the target has room for another session",
        ),
        // LIO's answer to an initiator name without an ACL is this code too: iscsid has only one code for both.
        IscsiExit::Authentication => Some(
            "check the user name and the secret that `target.chap` names, on this node and at the target, that the target \
             allows this node's initiator name, and that it accepts one of the algorithms (`target.chap.algs`; open-iscsi's \
             default is MD5)",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cure_names_the_key_of_the_config() {
        let doing = || "logging in to x via y".to_owned();
        let exit = |exit| IscsiError::Exit { doing: doing(), exit, said: "no".into() };
        for (error, says) in [
            (
                exit(IscsiExit::Authentication),
                "logging in to x via y: iscsiadm exited with 24 (authentication failed): no; check the user name and the \
                 secret that `target.chap` names, on this node and at the target, that the target allows this node's initiator \
                 name, and that it accepts one of the algorithms (`target.chap.algs`; open-iscsi's default is MD5)",
            ),
            (
                exit(IscsiExit::Busy),
                "logging in to x via y: iscsiadm exited with 28 (device or resource in use): no",
            ),
            (
                IscsiError::NotAnnounced {
                    portal: "10.0.0.1".parse().unwrap(),
                    target: "iqn.2024-02.com.example:etcd".parse().unwrap(),
                    announced: "iqn.x".into(),
                },
                "10.0.0.1:3260 announces no target iqn.2024-02.com.example:etcd to this initiator, only: iqn.x; correct \
                 `target.iqn`, or allow this initiator at the target",
            ),
            (
                IscsiError::UnknownAlg {
                    doing: doing(),
                    alg: "SHA9".into(),
                    file: "/etc/iscsi/x".parse().unwrap(),
                },
                "logging in to x via y: no SHA9 in /etc/iscsi/x: this node's open-iscsi doesn't know that algorithm; remove it \
                 from `target.chap.algs`",
            ),
        ] {
            assert_eq!(format!("{:#}", iscsi(error)), says);
        }
    }
}
