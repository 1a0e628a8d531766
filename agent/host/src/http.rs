//! HTTP requests to a server on this node, with the node's curl.

use super::{ExecError, Host, Invocation, Output, Tool};
use std::time::Duration;
use terms::AbsPath;

/// How long an answer may take, in seconds. etcd itself gives a request 5 s and two election time-outs (`ReqTimeout` in
/// server/config/config.go), which is 10 s with OpenShift's profile for slow hardware (2.5 s).
const LIMIT: &str = "10";
/// curl ends by its own limit. This one is for a curl that hangs.
const CURL_LIMIT: Duration = Duration::from_secs(20);
/// 8 MiB. etcd's metrics are some 100 KiB.
const ANSWER_MAX: &str = "8388608";

/// The answer of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status, such as 200.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Why a request failed.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// curl could not be run.
    #[error(transparent)]
    Curl(#[from] ExecError),
    /// curl was not run, or its output has no status.
    #[error("asking {url}: {said}")]
    NoAnswer {
        /// The URL that was asked.
        url: String,
        /// The reason.
        said: String,
    },
    /// curl ran and got no answer.
    #[error("asking {url}: {said}; {cure}")]
    Failed {
        /// The URL.
        url: String,
        /// The error message of curl.
        said: String,
        /// The cure for its exit code.
        cure: &'static str,
    },
}

/// The certificates for requests over TLS. Plain HTTP uses none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Certificates {
    /// CA certificate of the server. Without it curl uses the system's.
    pub authority: Option<AbsPath>,
    /// Client certificate and its key.
    pub client: Option<(AbsPath, AbsPath)>,
}

/// Sends a GET request. curl is on every node of Red Hat CoreOS.
/// `cure` says what to do about an exit code of curl (curl(1), "EXIT CODES").
pub fn get(
    host: &Host,
    url: &str,
    with: &Certificates,
    cure: fn(i32) -> &'static str,
) -> Result<Answer, HttpError> {
    let output = host.run(&request(url, with, None))?;
    if output.code != 0 {
        let said = output.stderr.trim().trim_start_matches("curl: ").to_owned();
        return Err(HttpError::Failed { url: url.to_owned(), said, cure: cure(output.code) });
    }
    answer(&output).ok_or_else(|| HttpError::NoAnswer { url: url.to_owned(), said: "no status".into() })
}

/// curl's command line for a request: a POST if there is a body, otherwise a GET. Certificates and key are passed as file names
/// only.
pub(super) fn request(url: &str, with: &Certificates, body: Option<&str>) -> Invocation {
    // `--disable` must be the first argument. Otherwise root's `.curlrc` could set a proxy, or write the answer to a
    // file.
    let mut args =
        vec!["--disable", "--silent", "--show-error", "--proto", "=http,https", "--max-time", LIMIT];
    args.extend(["--max-filesize", ANSWER_MAX]);
    if url.starts_with("https:") {
        args.extend(with.authority.iter().flat_map(|path| ["--cacert", path.as_str()]));
        let client = with.client.iter();
        args.extend(client.flat_map(|(crt, key)| ["--cert", crt.as_str(), "--key", key.as_str()]));
    }
    // Brackets in a URL are those of an IPv6 address, not a pattern. The body is not read from a file.
    args.extend(body.iter().flat_map(|body| ["--globoff", "--data-raw", body]));
    args.extend(["--write-out", "\n%{http_code}", url]);
    Invocation::new(Tool::Curl, args).limit(CURL_LIMIT)
}

/// The answer in curl's output: the last line is the status.
pub(super) fn answer(output: &Output) -> Option<Answer> {
    let (body, status) = output.stdout.rsplit_once('\n')?;
    Some(Answer { status: status.parse().ok()?, body: body.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::Transcript};

    const URL: &str = "http://127.0.0.1:2381/metrics";
    const PLAIN: &str = "curl --disable --silent --show-error --proto =http,https --max-time 10 --max-filesize 8388608 \
                         --write-out '\n%{http_code}' http://127.0.0.1:2381/metrics";

    fn ask(code: i32, stdout: &str, stderr: &str) -> Result<Answer, HttpError> {
        let curl = Transcript::default().on(PLAIN, code, stdout, stderr);
        get(
            &Host::fixture(Root::new("/"), Box::new(curl)).unwrap(),
            URL,
            &Certificates::default(),
            |_| "a cure",
        )
    }

    #[test]
    fn the_last_line_is_the_status() {
        let answer = ask(0, "a\r\n\r\nb\n503", "").unwrap();
        assert_eq!(answer, Answer { status: 503, body: "a\r\n\r\nb".into() });
        assert_eq!(ask(0, "\n200", "").unwrap().body, "");
        for said in ["", "200", "a\nb"] {
            let error = ask(0, said, "").unwrap_err().to_string();
            assert_eq!(error, format!("asking {URL}: no status"));
        }
    }

    #[test]
    fn a_failure_says_what_curl_says_and_its_cure() {
        let error = ask(7, "", "curl: (7) It did not work\n").unwrap_err().to_string();
        assert_eq!(error, format!("asking {URL}: (7) It did not work; a cure"));
    }
}
