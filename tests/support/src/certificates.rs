//! Certificates for a real etcd, made with openssl.

use host::http::Certificates;
use std::{fs, path::Path, process::Command};

/// Makes a certificate authority in a directory, and one certificate for servers and clients on loopback, as OpenShift gives
/// each member: `ca.crt`, `member.crt`, `member.key`.
pub fn certificates(dir: &Path) -> Certificates {
    let script = "
        openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.crt
        openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=member -keyout member.key -out member.csr
        printf 'subjectAltName=IP:127.0.0.1\\nextendedKeyUsage=serverAuth,clientAuth\\n' >extensions
        openssl x509 -req -days 2 -in member.csr -CA ca.crt -CAkey ca.key -CAcreateserial -extfile extensions -out member.crt";
    fs::create_dir_all(dir).unwrap();
    let output = Command::new("sh").args(["-ec", script]).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = |name: &str| dir.join(name).to_str().unwrap().parse().unwrap();
    Certificates { authority: Some(path("ca.crt")), client: Some((path("member.crt"), path("member.key"))) }
}
