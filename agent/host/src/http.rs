//! HTTP requests to a server on this node, with the node's curl.

use super::{Invocation, Output, Tool};
use std::time::Duration;
use terms::{AbsPath, ClientUrl};

/// How long an answer may take, in seconds. etcd itself gives a request 5 s and two election time-outs (`ReqTimeout` in
/// server/config/config.go), which is 10 s with OpenShift's profile for slow hardware (2.5 s).
const LIMIT: &str = "10";
/// curl ends by its own limit, of each of two requests. This one is for a curl that hangs.
const CURL_LIMIT: Duration = Duration::from_secs(25);
/// 8 MiB, many times as much as a member list.
const ANSWER_MAX: &str = "8388608";

/// The answer of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// The certificates for requests over TLS. Plain HTTP uses none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Certificates {
    /// CA certificate of the server. Without it curl uses the system's.
    pub authority: Option<AbsPath>,
    /// Client certificate and its key.
    pub client: Option<(AbsPath, AbsPath)>,
}

/// curl's command line for a POST request to `path` of a server. Certificates and key are passed as file names only.
///
/// No socket of the server's port may be left in TIME-WAIT: OpenShift's etcd waits for the end of each before it starts
/// (openshift/cluster-etcd-operator `bindata/etcd/pod.gotpl.yaml`). It is left to the side that closes first, and a newer curl
/// sends TLS's `close_notify`, on which the server may close first. After an error curl just closes the connection. So a
/// second answer on the same connection is written to /dev/full.
pub(super) fn request(server: &ClientUrl, path: &str, with: &Certificates, body: &str) -> Invocation {
    // `--disable` must be the first argument. Otherwise root's `.curlrc` could set a proxy, or write the answer to a
    // file.
    let mut args =
        vec!["--disable", "--silent", "--show-error", "--proto", "=http,https", "--max-time", LIMIT];
    args.extend(["--max-filesize", ANSWER_MAX]);
    if server.is_tls() {
        args.extend(with.authority.iter().flat_map(|path| ["--cacert", path.as_str()]));
        let client = with.client.iter();
        args.extend(client.flat_map(|(crt, key)| ["--cert", crt.as_str(), "--key", key.as_str()]));
    }
    let (asked, closing) = (server.with(path), server.with("/version"));
    args.extend(["--http1.1", "--no-buffer", "--fail-early", "--output", "-", "--output", "/dev/full"]);
    // Brackets in a URL are those of an IPv6 address, not a pattern. The body is not read from a file.
    args.extend(["--globoff", "--data-raw", body, "--write-out", "\n%{http_code}", &asked, &closing]);
    Invocation::new(Tool::Curl, args).limit(CURL_LIMIT)
}

/// The answer in curl's output: its last line but one is the status, and the last that of the second request. None if the
/// first request got no answer: curl gives up then, with its only status 000.
pub(super) fn answer(output: &Output) -> Option<Answer> {
    let (first, _) = output.stdout.rsplit_once('\n')?;
    let (body, status) = first.rsplit_once('\n')?;
    Some(Answer { status: status.parse().ok()?, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_but_one_is_the_status() {
        let of = |stdout: &str| answer(&Output { stdout: stdout.into(), ..Output::default() });
        assert_eq!(of("a\r\n\r\nb\n503\n405"), Some(Answer { status: 503, body: "a\r\n\r\nb".into() }));
        assert_eq!(of("\n200\n000").unwrap().body, "");
        for said in ["", "200", "\n000", "a\nb\n405"] {
            assert_eq!(of(said), None);
        }
    }
}
