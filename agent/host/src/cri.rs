//! Containers that the node's container runtime reports: `crictl`.
//!
//! Programs run here with an empty environment, so crictl asks the runtime that `/etc/crictl.yaml` names. CRI-O's
//! package brings such a file (`crictl.yaml` in cri-o/cri-o), which names its own socket. Without the file crictl tries
//! a list of known sockets and takes the first that answers (kubernetes-sigs/cri-tools `cmd/crictl/main_unix.go`:
//! containerd, then CRI-O, then cri-dockerd). So "no container" means no container of that runtime. It says nothing
//! about processes outside of containers.

use super::{ExecError, Host, Invocation, Tool, exec::one_line};
use std::time::Duration;

/// crictl gives up a connection after 2 s (`cmd/crictl/main.go`, `defaultTimeout`), and tries up to four sockets. The
/// limit is higher, because a runtime may be busy.
const LIMIT: Duration = Duration::from_secs(20);

/// Why the running containers are not known.
#[derive(Debug, thiserror::Error)]
pub enum CriError {
    /// crictl got no answer: the runtime is down, or starting.
    #[error("asking the container runtime")]
    Exec(#[from] ExecError),
    /// crictl printed something else than container ids.
    #[error("`{what}` answered `{said}`, not container ids")]
    Answer {
        /// The command line.
        what: String,
        /// The first line that is not an id.
        said: String,
    },
}

/// Containers of one name in their pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running<'a> {
    /// The name.
    pub name: &'a str,
    /// The id of each, 64 hexadecimal digits.
    pub ids: Vec<String>,
}

/// Which of these containers of a pod run, by their names; none if crictl isn't on this machine. Containers that have ended or not
/// started are not counted. The pod is named by its UID, because another pod may have containers of the same names.
pub fn running<'a>(host: &Host, pod: &str, names: &[&'a str]) -> Result<Option<Vec<Running<'a>>>, CriError> {
    if !host.runner.has(Tool::Crictl) {
        return Ok(None);
    }
    let ask = |name: &&str| {
        // Set by the kubelet on each container (kubernetes, `KubernetesContainerNameLabel` and `KubernetesPodUIDLabel`).
        let label = format!("io.kubernetes.container.name={name}");
        let of_pod = format!("io.kubernetes.pod.uid={pod}");
        Invocation::new(Tool::Crictl, ["ps", "--label", &label, "--label", &of_pod, "-q"]).limit(LIMIT)
    };
    let asked: Vec<_> = names.iter().map(ask).collect();
    let mut running = Vec::new();
    for ((name, what), output) in names.iter().zip(&asked).zip(host.runner.run_all(&asked)) {
        let answer = output?.success(what)?.stdout;
        let ids = parse_ids(&answer)
            .map_err(|line| CriError::Answer { what: what.to_string(), said: one_line(line) })?;
        if !ids.is_empty() {
            running.push(Running { name, ids: ids.into_iter().map(str::to_owned).collect() });
        }
    }
    Ok(Some(running))
}

/// The pod that a container belongs to, as `namespace/name`; none if the runtime does not say so.
pub fn pod_of(host: &Host, container: &str) -> Option<String> {
    let ask = Invocation::new(Tool::Crictl, ["inspect", "--output", "json", container]).limit(LIMIT);
    let answer = host.run(&ask).ok()?.success(&ask).ok()?.stdout;
    let value: serde_json::Value = serde_json::from_str(&answer).ok()?;
    // Set by the kubelet on each container, as above. Names of Kubernetes have only these characters.
    let label = |name: &str| {
        let text = value.pointer("/status/labels")?.get(format!("io.kubernetes.pod.{name}"))?.as_str()?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
        (!text.is_empty() && text.bytes().all(is_plain)).then_some(text)
    };
    Some(format!("{}/{}", label("namespace")?, label("name")?))
}

/// The ids, one on each line, or the first line that is not an id.
fn parse_ids(text: &str) -> Result<Vec<&str>, &str> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let is_id = |line: &str| line.bytes().all(|byte| byte.is_ascii_hexdigit());
    lines.map(|line| if is_id(line.trim()) { Ok(line.trim()) } else { Err(line) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Root,
        transcript::{NoTools, Transcript},
    };

    const ID: &str = "3f4b8c0e6f0a4d2b9c1e7a5d8f6b3c2a1e0d9c8b7a6f5e4d3c2b1a0f9e8d7c6b";

    fn ask(answer: (i32, &str, &str)) -> Result<Option<Vec<Running<'static>>>, CriError> {
        let line = |name: &str| {
            format!(
                "crictl ps --label io.kubernetes.container.name={name} --label io.kubernetes.pod.uid=77 -q"
            )
        };
        let (code, stdout, stderr) = answer;
        let runner =
            Transcript::default().on(&line("etcd"), code, stdout, stderr).on(&line("etcd-rev"), 0, "", "");
        running(&Host::fixture(Root::new("/"), Box::new(runner)).unwrap(), "77", &["etcd", "etcd-rev"])
    }

    #[test]
    fn who_runs() {
        let two = format!("{ID}\n{ID}\n");
        let etcd = |count| vec![Running { name: "etcd", ids: vec![ID.to_owned(); count] }];
        for (stdout, expected) in [("", vec![]), ("\n", vec![]), (ID, etcd(1)), (&two, etcd(2))] {
            assert_eq!(ask((0, stdout, "")).unwrap().unwrap(), expected, "{stdout}");
        }
    }

    #[test]
    fn no_answer_is_never_nobody() {
        let down = "time=\"2024-05-02T10:11:12Z\" level=fatal msg=\"validate service connection: validate CRI v1 \
                    runtime API for endpoint \\\"unix:///var/run/crio/crio.sock\\\": rpc error: code = Unavailable\"\n";
        let error = ask((1, "", down)).unwrap_err();
        assert!(matches!(error, CriError::Exec(ExecError::Failed { code: 1, .. })), "{error:?}");
        let table = format!("CONTAINER   IMAGE\n{ID}  quay.io\n");
        for stdout in [&table, "WARN[0000] using default endpoints", "\u{1b}[1m", &format!("{ID}\nx\n")] {
            let error = ask((0, stdout, "")).unwrap_err();
            assert!(matches!(error, CriError::Answer { .. }), "{error:?}");
            assert!(!error.to_string().contains('\u{1b}'), "{error}");
        }
    }

    #[test]
    fn a_container_names_its_pod() {
        let pod = |code, answer: &str| {
            let line = format!("crictl inspect --output json {ID}");
            let host =
                Host::fixture(Root::new("/"), Box::new(Transcript::default().on(&line, code, answer, "")));
            pod_of(&host.unwrap(), ID)
        };
        let answer = r#"{"status":{"labels":{"io.kubernetes.pod.name":"agent-x7","io.kubernetes.pod.namespace":"watch"}}}"#;
        assert_eq!(pod(0, answer).as_deref(), Some("watch/agent-x7"));
        assert_eq!(pod(1, answer), None);
        for wrong in ["", "[]", &answer.replace("agent-x7", "a b"), &answer.replace("agent-x7", "")] {
            assert_eq!(pod(0, wrong), None, "{wrong}");
        }
    }

    #[test]
    fn without_crictl_nothing_is_asked() {
        let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
        assert!(running(&host, "77", &["etcd"]).unwrap().is_none());
    }
}
