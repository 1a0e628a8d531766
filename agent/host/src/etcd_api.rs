//! Queries of etcd's members: its API as JSON over HTTP (gRPC gateway, etcd `Documentation/dev-guide/api_grpc_gateway`), with
//! the node's curl. It only reads, but for [`move_leader`].

use super::{
    ExecError, Host, Output,
    exec::one_line,
    http::{self, Certificates},
};
use serde_json::Value;
use terms::ClientUrl;

/// More members than any cluster has: etcd's FAQ advises against more than 7. A longer list is not a cluster's.
const MOST_MEMBERS: usize = 50;
/// More client URLs than any member has.
const MOST_URLS: usize = 8;
/// The longest text of an answer that a message repeats, in characters.
const LONGEST: usize = 120;

/// The status that a member reports of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The id of its cluster.
    pub cluster: u64,
    /// Its own id.
    pub member: u64,
    /// The id of the leader that it sees; 0 if it sees none.
    pub leader: u64,
    /// The last entry of the log that it knows to be committed.
    pub committed: u64,
    /// The last entry of the log that it has applied.
    pub applied: u64,
    /// True if it is a learner. etcd before 3.4 has no learners.
    pub learner: bool,
    /// Its errors, such as alarms.
    pub errors: Vec<String>,
}

/// A member, as a member lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedMember {
    /// Its id.
    pub id: u64,
    /// Its name; empty until it has started for the first time.
    pub name: String,
    /// True if it is a learner.
    pub learner: bool,
    /// Its client URLs, as texts of another machine.
    pub urls: Vec<String>,
}

/// Why a member gave no answer that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// curl could not be run.
    #[error("{0}")]
    Curl(String),
    /// curl ran and got no answer.
    #[error("{} ({said})", finding(*code))]
    Failed {
        /// The exit code of curl.
        code: i32,
        /// The error message of curl.
        said: String,
    },
    /// The server answered with an error.
    #[error("it answers {status}: {said}")]
    Refused {
        /// The status, such as 503.
        status: u16,
        /// The error message of the server.
        said: String,
    },
    /// The answer is not one of etcd.
    #[error("its answer is not etcd's: {0}")]
    Form(&'static str),
}

impl ApiError {
    /// Returns true if something answered that does not speak HTTP, or not with this API. So does etcd's port for
    /// clients where HTTP has a port of its own: gRPC answers 415 to a request that is not gRPC.
    pub fn is_other_protocol(&self) -> bool {
        match self {
            Self::Failed { code, .. } => matches!(code, 1 | 8 | 16 | 52 | 92),
            Self::Refused { status, .. } => matches!(status, 404 | 405 | 415 | 464),
            Self::Curl(_) | Self::Form(_) => false,
        }
    }

    /// Returns true if nobody answers, as while a member starts.
    pub fn is_silence(&self) -> bool {
        self.has_no_listener() || matches!(self, Self::Failed { code: 28, .. })
    }

    /// Returns true if nobody listens.
    pub fn has_no_listener(&self) -> bool {
        matches!(self, Self::Failed { code: 7, .. })
    }
}

/// The finding behind an exit code of curl (curl(1), "EXIT CODES"). With TLS 1.3 a server that wants another client certificate
/// closes the connection after the handshake: code 55 or 56, or 16 with HTTP/2.
fn finding(code: i32) -> &'static str {
    match code {
        6 => "its host name cannot be resolved",
        7 => "connection refused, or no route to it",
        28 => "it did not answer in time",
        16 | 35 | 52 | 55 | 56 => "it did not accept the client certificate, or does not answer over HTTPS",
        58 => "the client certificate or its key cannot be used",
        60 => "its certificate is not accepted",
        77 => "the CA certificate cannot be read",
        _ => "it does not answer as etcd does over HTTP",
    }
}

/// Asks members for their status, all at once; results in the order of the addresses.
pub fn statuses(host: &Host, urls: &[ClientUrl], with: &Certificates) -> Vec<Result<Status, ApiError>> {
    post(host, urls, "/v3/maintenance/status", "{}", with)
        .into_iter()
        .map(|answer| status(&answer?).ok_or(ApiError::Form("it is no status of a member")))
        .collect()
}

/// Asks a member for the list of all members. A list that is linearizable needs a leader and a quorum; etcd 3.4 has no such
/// list and answers with its own one.
pub fn members(
    host: &Host,
    url: &ClientUrl,
    linearizable: bool,
    with: &Certificates,
) -> Result<Vec<ListedMember>, ApiError> {
    let body = if linearizable { "{\"linearizable\":true}" } else { "{}" };
    list(&one(host, url, "/v3/cluster/member/list", body, with)?)
}

/// Has a member read from its database, up to date with the leader (a linearizable read): the member answers when it has
/// applied all that was committed before. Nothing is read but the number of keys with a name that nobody uses.
pub fn read(host: &Host, url: &ClientUrl, with: &Certificates) -> Result<(), ApiError> {
    one(host, url, "/v3/kv/range", "{\"key\":\"AA==\",\"count_only\":true}", with).map(drop)
}

/// Asks the leader to let another member lead, and waits until that leads. etcd itself gives up after an election time-out
/// (`MoveLeader` in etcd `server/etcdserver/server.go`); the cluster has a leader again in any case.
pub fn move_leader(host: &Host, leader: &ClientUrl, to: u64, with: &Certificates) -> Result<(), ApiError> {
    let body = format!("{{\"targetID\":\"{to}\"}}");
    one(host, leader, "/v3/maintenance/transfer-leadership", &body, with).map(drop)
}

fn one(host: &Host, url: &ClientUrl, path: &str, body: &str, with: &Certificates) -> Result<Value, ApiError> {
    let mut answers = post(host, std::slice::from_ref(url), path, body, with);
    answers.pop().unwrap_or(Err(ApiError::Form("there is none")))
}

fn post(
    host: &Host,
    urls: &[ClientUrl],
    path: &str,
    body: &str,
    with: &Certificates,
) -> Vec<Result<Value, ApiError>> {
    let requests: Vec<_> = urls.iter().map(|url| http::request(url, path, with, body)).collect();
    host.runner.run_all(&requests).into_iter().map(answer).collect()
}

fn answer(output: Result<Output, ExecError>) -> Result<Value, ApiError> {
    let output = output.map_err(|error| match error {
        // Without the command line, which is long and no part of the finding.
        ExecError::TimedOut { limit, .. } => {
            ApiError::Failed { code: 28, said: format!("curl did not end within {} s", limit.as_secs()) }
        }
        other => ApiError::Curl(other.to_string()),
    })?;
    let said = match output.code {
        // Its own words for an answer that is no HTTP, such as gRPC's, lead away from the port that was asked.
        code @ (1 | 8 | 52) => format!("curl ended with {code}"),
        _ => short(&output.stderr),
    };
    let failed = || ApiError::Failed { code: output.code, said };
    let answer = http::answer(&output).ok_or_else(failed)?;
    let value: Option<Value> = serde_json::from_str(&answer.body).ok();
    if answer.status != 200 {
        // The gateway answers with an object: with `error` up to etcd 3.5, with `message` alone since etcd 3.6
        // (grpc-gateway 2, `runtime/errors.go`). Anything else is another program's answer.
        let said = ["error", "message"].iter().find_map(|key| value.as_ref()?.get(key)?.as_str());
        return Err(ApiError::Refused { status: answer.status, said: short(said.unwrap_or(&answer.body)) });
    }
    value.filter(Value::is_object).ok_or(ApiError::Form("it is no JSON object"))
}

/// A text of another machine, fit for a message. A path at its end is not cut before its last component, which is the part that
/// tells one file from another.
pub fn short(text: &str) -> String {
    let line = one_line(text);
    let Some((end, _)) = line.char_indices().nth(LONGEST) else { return line };
    let begin = line[..end].rfind(' ').map_or(0, |space| space + 1);
    let word = line[begin..].split(' ').next().unwrap_or_default();
    // PATH_MAX (limits.h)
    let end = if word.contains('/') && word.len() < 4096 { begin + word.len() } else { end };
    if end == line.len() { line } else { format!("{}…", &line[..end]) }
}

/// A number of 64 bits. The gateway writes it as a text, as JSON of protobuf has it, and leaves out a zero.
fn number(value: &Value, key: &str) -> Option<u64> {
    match value.get(key) {
        None => Some(0),
        Some(Value::String(text)) => text.parse().ok(),
        Some(other) => other.as_u64(),
    }
}

fn flag(value: &Value, key: &str) -> Option<bool> {
    value.get(key).map_or(Some(false), Value::as_bool)
}

/// A list of texts. The gateway leaves out an empty one.
fn texts(value: &Value, key: &str) -> Option<Vec<String>> {
    let Some(list) = value.get(key) else { return Some(Vec::new()) };
    list.as_array()?.iter().map(|text| text.as_str().map(short)).collect()
}

fn status(value: &Value) -> Option<Status> {
    let header = value.get("header")?;
    let member = number(header, "member_id").filter(|id| *id != 0)?;
    Some(Status {
        cluster: number(header, "cluster_id")?,
        member,
        leader: number(value, "leader")?,
        committed: number(value, "raftIndex")?,
        applied: number(value, "raftAppliedIndex")?,
        learner: flag(value, "isLearner")?,
        errors: texts(value, "errors")?,
    })
}

fn list(value: &Value) -> Result<Vec<ListedMember>, ApiError> {
    let wrong = || ApiError::Form("it is no list of members");
    let members = value.get("members").and_then(Value::as_array).ok_or_else(wrong)?;
    if members.is_empty() || members.len() > MOST_MEMBERS {
        return Err(wrong());
    }
    let member = |value: &Value| {
        let urls = texts(value, "clientURLs")?;
        Some(ListedMember {
            id: number(value, "ID").filter(|id| *id != 0)?,
            name: value.get("name").map_or(Some(""), Value::as_str).map(name)?,
            learner: flag(value, "isLearner")?,
            urls: (urls.len() <= MOST_URLS).then_some(urls)?,
        })
    };
    let members: Vec<_> = members.iter().map(member).collect::<Option<_>>().ok_or_else(wrong)?;
    let mut ids: Vec<_> = members.iter().map(|member| member.id).collect();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() == members.len() { Ok(members) } else { Err(wrong()) }
}

fn name(text: &str) -> String {
    if text.is_empty() { String::new() } else { short(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_with_a_whole_path() {
        let path = format!("/etc/{}/etcd-peer-master-0.example.com.crt", "static-pod-resources/".repeat(9));
        let said = format!("could not load the certificate from {path}");
        assert_eq!(short(&said), said);
        assert_eq!(short(&format!("{said} and more")), format!("{said}…"));
        assert_eq!(short(&"word ".repeat(90)).chars().count(), LONGEST + 1);
    }
    use crate::{Root, transcript::Transcript};
    use terms::AbsPath;

    const LINE: &str =
        "curl --disable --silent --show-error --proto =http,https --max-time 10 --max-filesize 8388608";

    /// The rest of the line, for a request to a server.
    fn asks(server: &str, path: &str) -> String {
        format!(
            "--http1.1 --no-buffer --fail-early --output - --output /dev/full --globoff --data-raw '{{}}' \
             --write-out '\n%{{http_code}}' {server}/v3/{path} {server}/version"
        )
    }

    /// A server whose answer ends with a status, as the one to the second request does then.
    fn host(path: &str, code: i32, stdout: &str, stderr: &str) -> Host {
        let answered = code == 0 && stdout.contains('\n');
        let (code, stdout) = if answered { (23, format!("{stdout}\n405")) } else { (code, stdout.into()) };
        let line = format!("{LINE} {}", asks("http://127.0.0.1:2379", path));
        let curl = Transcript::default().on(&line, code, &stdout, stderr);
        Host::fixture(Root::new("/"), Box::new(curl)).unwrap()
    }

    fn url() -> ClientUrl {
        "http://127.0.0.1:2379".parse().unwrap()
    }

    fn ask_status(code: i32, stdout: &str) -> Result<Status, ApiError> {
        let host = host("maintenance/status", code, stdout, "curl: (1) It did not work\n");
        statuses(&host, &[url()], &Certificates::default()).remove(0)
    }

    fn ask_list(body: &str) -> Result<Vec<ListedMember>, ApiError> {
        let host = host("cluster/member/list", 0, &format!("{body}\n200"), "");
        members(&host, &url(), false, &Certificates::default())
    }

    #[test]
    fn a_status_is_read_whether_its_numbers_are_texts_or_numbers() {
        let body = r#"{"header":{"cluster_id":"14841639068965178418","member_id":"10276657743932975437"},"leader":7,
                       "raftIndex":"9","raftAppliedIndex":8,"errors":["memberID:7 alarm:NOSPACE "]}"#;
        let expected = Status {
            cluster: 14_841_639_068_965_178_418,
            member: 10_276_657_743_932_975_437,
            leader: 7,
            committed: 9,
            applied: 8,
            learner: false,
            errors: vec!["memberID:7 alarm:NOSPACE".into()],
        };
        assert_eq!(ask_status(0, &format!("{body}\n200")), Ok(expected));
        for (from, to) in [
            ("\"leader\":7", "\"leader\":-7"),
            ("\"leader\":7", "\"leader\":7.5"),
            ("\"leader\":7", "\"leader\":[]"),
            ("\"raftIndex\":\"9\"", "\"raftIndex\":\"99999999999999999999\""),
            ("\"member_id\"", "\"member\""),
            ("\"header\"", "\"head\""),
            ("[\"memberID:7 alarm:NOSPACE \"]", "[7]"),
            ("[\"memberID:7 alarm:NOSPACE \"]", "{}"),
            ("}", ""),
        ] {
            assert!(body.contains(from));
            let error = ask_status(0, &format!("{}\n200", body.replacen(from, to, 1))).unwrap_err();
            assert!(matches!(error, ApiError::Form(_)), "{to}: {error}");
        }
    }

    #[test]
    fn what_is_no_answer_of_etcd_is_an_error() {
        for (code, stdout, said) in [
            (0, "{}", "does not answer as etcd does"),
            (0, "[]\n200", "no JSON object"),
            (0, "<html>\n200", "no JSON object"),
            (0, "{}\n200", "no status of a member"),
            (0, "{\"error\":\"etcdserver: no\\n leader\"}\n503", "answers 503: etcdserver: no; leader"),
            (
                0,
                "{\"code\":14,\"message\":\"etcdserver: no leader\",\"details\":[]}\n503",
                "answers 503: etcdserver: no leader",
            ),
            (0, "404 page not found\n404", "answers 404: 404 page not found"),
            (7, "", "connection refused"),
            (28, "", "in time"),
            (35, "", "client certificate"),
            (55, "", "client certificate"),
            (56, "", "client certificate"),
            (58, "", "its key"),
            (60, "", "not accepted"),
            (77, "", "CA certificate"),
            (52, "", "over HTTP"),
        ] {
            let error = ask_status(code, stdout).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(error.is_other_protocol(), code == 52 || stdout.ends_with("404"), "{error}");
        }
        let long = format!("{{\"error\":\"{}\"}}\n500", "x".repeat(5000));
        assert!(ask_status(0, &long).unwrap_err().to_string().chars().count() < 200);
    }

    #[test]
    fn a_list_of_members_is_read_and_a_strange_one_is_not() {
        let one = r#"{"ID":"7","name":"a","clientURLs":["http://10.0.0.1:2379"],"isLearner":true}"#;
        let found = ask_list(&format!("{{\"members\":[{one},{{\"ID\":\"8\"}}]}}")).unwrap();
        let expected = [
            ListedMember {
                id: 7,
                name: "a".into(),
                learner: true,
                urls: vec!["http://10.0.0.1:2379".into()],
            },
            ListedMember { id: 8, name: String::new(), learner: false, urls: Vec::new() },
        ];
        assert_eq!(found, expected);
        let many = |count: usize| {
            let members: Vec<_> = (1..=count).map(|id| format!("{{\"ID\":\"{id}\"}}")).collect();
            format!("{{\"members\":[{}]}}", members.join(","))
        };
        assert_eq!(ask_list(&many(50)).unwrap().len(), 50);
        for body in [
            many(0),
            many(51),
            "{}".into(),
            "{\"members\":{}}".into(),
            "{\"members\":[7]}".into(),
            "{\"members\":[{\"ID\":\"0\"}]}".into(),
            format!("{{\"members\":[{one},{one}]}}"),
            format!("{{\"members\":[{}]}}", one.replace("true", "\"true\"")),
            format!("{{\"members\":[{}]}}", one.replace("\"a\"", "[]")),
            format!("{{\"members\":[{}]}}", one.replace("[\"http://10.0.0.1:2379\"]", "\"x\"")),
            format!(
                "{{\"members\":[{}]}}",
                one.replace("[\"http://10.0.0.1:2379\"]", &format!("[{}\"x\"]", "\"x\",".repeat(8)))
            ),
        ] {
            assert!(matches!(ask_list(&body), Err(ApiError::Form(_))), "{body}");
        }
    }

    #[test]
    fn certificates_are_named_only_over_tls() {
        let path = |name: &str| name.parse::<AbsPath>().unwrap();
        let with =
            Certificates { authority: Some(path("/a/ca")), client: Some((path("/a/crt"), path("/a/key"))) };
        let tls = "--cacert /a/ca --cert /a/crt --key /a/key";
        let line = format!("{LINE} {tls} {}", asks("https://[::1]:2379", "cluster/member/list"));
        let plain = format!("{LINE} {}", asks("http://127.0.0.1:2379", "cluster/member/list"));
        let curl = Transcript::default().on(&line, 7, "", "curl: (7) no").on(&plain, 7, "", "curl: (7) no");
        let calls = curl.calls();
        let host = Host::fixture(Root::new("/"), Box::new(curl)).unwrap();
        for url in ["https://[::1]:2379".parse().unwrap(), url()] {
            members(&host, &url, false, &with).unwrap_err();
        }
        assert_eq!(calls.borrow().len(), 2);
    }
}
