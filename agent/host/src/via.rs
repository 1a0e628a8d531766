//! Commands on other nodes, by the program with which an administrator reaches them, such as `oc debug` or ssh.

use super::{ExecError, Host, Output, system};
use std::{
    io,
    process::{ExitStatus, Stdio},
    str::FromStr,
    time::Duration,
};
use tokio::process::Command;

/// The placeholder for the node's name in a [`Via`].
pub const NODE: &str = "{node}";

/// How a command gets to a node: a command line with [`NODE`] in place of the node's name. The command for the node follows it.
///
/// No shell of this machine reads it. Quotation marks join words as in a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Via(Vec<String>);

impl FromStr for Via {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words = shlex::split(text).ok_or("a quotation mark in it is not closed")?;
        match words.iter().position(|word| word.contains(NODE)) {
            None => Err("it has no `{node}`, where each node's name goes: 'ssh root@{node}'"),
            // The name of a node would choose the program.
            Some(0) => Err("it must begin with a program, such as ssh"),
            Some(_) => Ok(Self(words)),
        }
    }
}

impl Via {
    fn to(&self, node: &str, what: &[&str]) -> Vec<String> {
        let way = self.0.iter().map(|word| word.replace(NODE, node));
        way.chain(what.iter().map(|word| (*word).to_owned())).collect()
    }

    /// Runs a command on each of these nodes, side by side. The results are in the order of the nodes.
    ///
    /// The commands have no input. They stay in this process's group, so that ssh can ask for a passphrase at the terminal.
    pub fn ask_all(
        &self,
        host: &Host,
        nodes: &[String],
        what: &[&str],
        limit: Duration,
    ) -> Vec<Result<Output, ExecError>> {
        let each = nodes.iter().map(|node| ask(self.to(node, what), limit));
        host.wait(system::join_all(each))
    }

    /// Runs a command on one node to its end. What it prints goes where this process prints.
    pub fn run(&self, host: &Host, node: &str, what: &[&str]) -> Result<ExitStatus, ExecError> {
        let words = self.to(node, what);
        host.wait(async { command(&words).status().await }).map_err(|source| failed(&words, source))
    }
}

fn command(words: &[String]) -> Command {
    let (program, arguments) =
        words.split_first().map_or(("", &[][..]), |(first, rest)| (first.as_str(), rest));
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    command
}

fn failed(words: &[String], source: io::Error) -> ExecError {
    let source = match (source.kind(), words.first()) {
        (io::ErrorKind::NotFound, Some(program)) => {
            io::Error::other(format!("there is no `{program}` in PATH of this machine: install it"))
        }
        _ => source,
    };
    ExecError::Io { what: words.join(" "), source }
}

async fn ask(words: Vec<String>, limit: Duration) -> Result<Output, ExecError> {
    let what = words.join(" ");
    let failed = |source| failed(&words, source);
    let mut child = command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let ended = tokio::time::timeout(limit, system::finish(&mut child, &mut |_| {})).await;
    let Ok(ended) = ended else { return Err(ExecError::TimedOut { what, limit }) };
    let (status, stdout, stderr) = ended.map_err(failed)?;
    let code = status.code().ok_or(ExecError::Signalled { what: what.clone() })?;
    Ok(Output { code, stdout, stderr })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::NoTools};

    fn via(text: &str) -> Via {
        text.parse().unwrap()
    }

    fn host() -> Host {
        Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap()
    }

    #[test]
    fn what_a_way_is() {
        assert_eq!(
            via("oc debug -q 'node/{node}' -- chroot /host").to("master-0", &["etcd-lun", "plan"]),
            ["oc", "debug", "-q", "node/master-0", "--", "chroot", "/host", "etcd-lun", "plan"]
        );
        for (text, why) in [
            ("ssh root@node", "no `{node}`"),
            ("", "no `{node}`"),
            ("{node} ssh", "begin with a program"),
            ("ssh '{node}", "not closed"),
        ] {
            assert!(text.parse::<Via>().unwrap_err().contains(why), "{text}");
        }
    }

    /// Each of the first two waits for the other one.
    #[test]
    fn side_by_side_and_in_order() {
        let dir = std::env::temp_dir().join(format!("etcd-lun-via-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let nodes = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let way = format!(
            "sh -c 'cd {}; [ {{node}} != c ] || exit 3; >{{node}}; until [ -e a ] && [ -e b ]; do sleep 0.05; done; echo $0 on {{node}}'",
            dir.display()
        );
        let answers = via(&way).ask_all(&host(), &nodes, &["said"], Duration::from_secs(60));
        let said: Vec<_> = answers.iter().map(|answer| answer.as_ref().unwrap()).collect();
        assert_eq!(
            [&*said[0].stdout, &*said[1].stdout, &*said[2].stdout],
            ["said on a\n", "said on b\n", ""]
        );
        assert_eq!([said[0].code, said[1].code, said[2].code], [0, 0, 3]);
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn the_limit_and_a_missing_program() {
        let ask = |way: &str| {
            let node = ["master-0".to_owned()];
            via(way).ask_all(&host(), &node, &[], Duration::from_millis(200)).remove(0)
        };
        assert!(matches!(ask("sh -c 'sleep 60; # {node}'"), Err(ExecError::TimedOut { .. })));
        let missing = ask("no-such-program-anywhere {node}").unwrap_err();
        let ExecError::Io { source, .. } = missing else { panic!("{missing}") };
        let said = "there is no `no-such-program-anywhere` in PATH of this machine: install it";
        assert_eq!(source.to_string(), said);
    }
}
