//! What to do where etcd does not answer at `etcd.metrics`.

/// The cure of an exit code of curl (curl(1), "EXIT CODES").
pub fn cure(code: i32) -> &'static str {
    match code {
        1 | 8 | 52 => {
            "see that `etcd.metrics` names etcd's own address and port, and `https` where etcd uses TLS"
        }
        6 => "see that the host in `etcd.metrics` can be resolved on this node",
        7 => {
            "see that etcd runs, and that `etcd.metrics` is one of its `--listen-metrics-urls` or `--listen-client-urls`"
        }
        28 => "etcd did not answer within 10 s: see the log of etcd, and `etcd-lun bench` for its disk",
        35 => {
            "see that etcd uses TLS at this port, and that it accepts the certificate in `etcd.metrics_cert`"
        }
        // etcd closes a connection after the handshake if the addresses in the client certificate (subjectAltName) are not
        // those of the client (`checkCertSAN` in etcd's `client/pkg/transport/listener_tls.go`). With HTTP/2 curl reports
        // 16, and with HTTP/1.1 56.
        16 | 56 => {
            "etcd closed the connection: look for `rejected connection` in the log of etcd. It accepts the certificate in \
             `etcd.metrics_cert` only if a CA that it trusts has signed it, and only from an address that the certificate \
             names, if it names any. Set `etcd.metrics` to that address (`openssl x509 -noout -ext subjectAltName -in` the \
             certificate)"
        }
        58 => "see that `etcd.metrics_cert` and `etcd.metrics_key` can be read and belong together",
        60 => {
            "see that `etcd.metrics_ca` has signed the certificate of etcd, and that it is valid for the host in `etcd.metrics`"
        }
        63 => "more than 8 MiB are not metrics of etcd: see that `etcd.metrics` names its address and port",
        77 => "see that `etcd.metrics_ca` can be read and holds certificates",
        _ => "see `man curl`, \"EXIT CODES\"",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_cure() {
        for (code, word) in [
            (6, "resolved"),
            (7, "listen-metrics-urls"),
            (16, "subjectAltName"),
            (28, "within 10 s"),
            (35, "TLS"),
            (52, "https"),
            (56, "metrics_cert"),
            (58, "metrics_key"),
            (60, "metrics_ca"),
            (63, "8 MiB"),
            (77, "metrics_ca"),
            (99, "man curl"),
        ] {
            let cure = cure(code);
            assert!(cure.contains(word) && !cure.contains('\n'), "{cure}");
        }
    }
}
