//! Credentials of systemd that lie on this node: finding one, and decrypting it (systemd.exec(5), `LoadCredentialEncrypted=`).

use super::{Host, Invocation, Tool};
use std::io;
use terms::ENCRYPTED_NAME;

/// Where systemd looks for encrypted credentials, in this order.
const ENCRYPTED: [&str; 3] =
    ["/etc/credstore.encrypted", "/run/credstore.encrypted", "/usr/lib/credstore.encrypted"];
/// Where it looks for plain ones.
const PLAIN: [&str; 3] = ["/etc/credstore", "/run/credstore", "/usr/lib/credstore"];

/// Why a credential cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum CredentialError {
    /// No file of this name.
    #[error(
        "it is neither in {} nor in {}: make it with `{}`",
        ENCRYPTED[0],
        PLAIN[0],
        encrypt(name)
    )]
    Absent {
        /// The credential's name.
        name: String,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Unreadable(#[from] io::Error),
    /// `systemd-creds` did not decrypt it.
    #[error(
        "{path} cannot be decrypted here ({why}): a credential belongs to the node, and to the TPM, that it was encrypted on; encrypt it again with `{}`",
        encrypt(name)
    )]
    Sealed {
        /// The credential's name.
        name: String,
        /// The file.
        path: String,
        /// The output of the tool.
        why: String,
    },
}

/// The command that encrypts a credential on its node. It is bound to no PCR of the TPM: with PCR 7, the default, an update of
/// the firmware would make it unreadable at the next boot (systemd-creds(1), `--tpm2-pcrs=`).
pub fn encrypt(name: &str) -> String {
    let name = format!("{name}{ENCRYPTED_NAME}");
    format!("systemd-creds encrypt --tpm2-pcrs= --name={name} - {}/{name}", ENCRYPTED[0])
}

/// The content of a credential in the directory that PID 1 has made for a service, where it has that of an encrypted file too.
/// The service may open files there by their names, and not list them.
pub fn given(host: &Host, dir: &str, name: &str) -> io::Result<Vec<u8>> {
    match host.root.read_input(format!("{dir}/{name}{ENCRYPTED_NAME}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            host.root.read_input(format!("{dir}/{name}"))
        }
        read => read,
    }
}

/// The content of a credential, as PID 1 would give it to a service.
pub fn read(host: &Host, name: &str) -> Result<Vec<u8>, CredentialError> {
    if let Some(path) = find(host, &ENCRYPTED, &format!("{name}{ENCRYPTED_NAME}"))? {
        let name_of = format!("--name={name}{ENCRYPTED_NAME}");
        let what = Invocation::new(Tool::SystemdCreds, ["--newline=no", &name_of, "decrypt", &path, "-"]);
        let decrypted = host.run(&what).and_then(|output| output.success(&what));
        let sealed = |why: String| CredentialError::Sealed { name: name.into(), path: path.clone(), why };
        return decrypted.map(|output| output.stdout.into_bytes()).map_err(|error| sealed(error.to_string()));
    }
    match find(host, &PLAIN, name)? {
        Some(path) => Ok(host.root.read_input(&path)?),
        None => Err(CredentialError::Absent { name: name.into() }),
    }
}

/// The first file of this name in these directories.
fn find(host: &Host, places: &[&str], name: &str) -> io::Result<Option<String>> {
    for place in places {
        if host.root.list_opt(place)?.is_some_and(|names| names.iter().any(|found| found == name)) {
            return Ok(Some(format!("{place}/{name}")));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, files::Files, transcript::Transcript};

    const DECRYPT: &str =
        "systemd-creds --newline=no --name=chap.cred decrypt /etc/credstore.encrypted/chap.cred -";

    fn on(machine: &Files, transcript: Transcript) -> Host {
        Host::fixture(Root::new(&machine.0), Box::new(transcript)).unwrap()
    }

    #[test]
    fn an_encrypted_credential_comes_before_a_plain_one() {
        let machine = Files::new("credential");
        machine.put("etc/credstore/chap", "plain");
        let host = on(&machine, Transcript::default());
        assert_eq!(read(&host, "chap").unwrap(), b"plain");
        machine.put("etc/credstore.encrypted/chap.cred", "Whxqht+dQJax1aZeCGLxmiAAAAAB");
        let host = on(&machine, Transcript::default().on(DECRYPT, 0, "hunter2 hunter2", ""));
        assert_eq!(read(&host, "chap").unwrap(), b"hunter2 hunter2");
    }

    #[test]
    fn a_service_opens_what_it_was_given_by_name() {
        let machine = Files::new("given");
        machine.put("run/credentials/plain", "one");
        machine.put("run/credentials/sealed.cred", "two");
        let host = on(&machine, Transcript::default());
        assert_eq!(given(&host, "/run/credentials", "plain").unwrap(), b"one");
        assert_eq!(given(&host, "/run/credentials", "sealed").unwrap(), b"two");
        let absent = given(&host, "/run/credentials", "absent").unwrap_err();
        assert_eq!(absent.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn what_cannot_be_had_names_the_cure() {
        let machine = Files::new("credential");
        let host = on(&machine, Transcript::default());
        let absent = read(&host, "chap").unwrap_err().to_string();
        assert!(absent.contains("--name=chap.cred - /etc/credstore.encrypted/chap.cred"), "{absent}");
        machine.put("etc/credstore.encrypted/chap.cred", "of another node");
        let host = on(&machine, Transcript::default().on(DECRYPT, 1, "", "Failed to decrypt: Bad message\n"));
        let sealed = read(&host, "chap").unwrap_err().to_string();
        assert!(sealed.contains("Bad message") && sealed.contains("encrypt it again"), "{sealed}");
    }
}
