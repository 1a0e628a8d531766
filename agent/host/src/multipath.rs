//! What multipathd does on request, and what device-mapper says of its maps.

use super::{ExecError, Host, Invocation, Tool};
use crate::exec::one_line;

/// Has multipathd give a map (kernel name) the size that its paths have now (multipathd(8), `resize map`).
pub fn resize(host: &Host, map: &str) -> Result<(), ExecError> {
    ask(host, ["resize", "map", map])
}

/// Tells multipathd to take a path (kernel name) out of its map, and forget it (multipathd(8), `del path`). It gives the map a new
/// table, and the kernel sends what was waiting for that path over the others.
pub fn remove_path(host: &Host, path: &str) -> Result<(), ExecError> {
    ask(host, ["del", "path", path])
}

/// Tells multipathd to take a path (kernel name) into the map of its WWID, also one that it was made to forget (multipathd(8), `add
/// path`).
pub fn add_path(host: &Host, path: &str) -> Result<(), ExecError> {
    ask(host, ["add", "path", path])
}

/// Some versions answer `fail` with exit code 0.
fn ask(host: &Host, request: [&str; 3]) -> Result<(), ExecError> {
    let what = Invocation::new(Tool::Multipathd, request);
    let output = host.run(&what)?.success(&what)?;
    match output.stdout.trim() {
        "ok" => Ok(()),
        said => Err(ExecError::Failed { what: what.to_string(), code: output.code, said: one_line(said) }),
    }
}

/// Has a map fail commands while no path works, instead of keeping them until one does (kernel `drivers/md/dm-mpath.c`,
/// `multipath_message`). multipathd may set it to queue again when it changes the map.
pub fn stop_queueing(host: &Host, name: &str) -> Result<(), ExecError> {
    let what = Invocation::new(Tool::Dmsetup, ["message", name, "0", "fail_if_no_path"]);
    host.run(&what)?.success(&what).map(drop)
}

/// True if the kernel uses this path (device number) of a map: its state is `A`, and not `F` (kernel
/// `drivers/md/dm-mpath.c`, `multipath_status`).
pub fn is_active(host: &Host, map: (u32, u32), path: (u32, u32)) -> Result<bool, ExecError> {
    let (major, minor) = (map.0.to_string(), map.1.to_string());
    let what = Invocation::new(Tool::Dmsetup, ["status", "--major", &major, "--minor", &minor]);
    let output = host.run(&what)?.success(&what)?;
    let path = format!("{}:{}", path.0, path.1);
    Ok(output.stdout.split_whitespace().skip_while(|word| *word != path).nth(1) == Some("A"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::Transcript};

    #[test]
    fn only_ok_is_success() {
        for (answer, is_done) in [("ok\n", true), ("fail\n", false), ("timeout\n", false), ("", false)] {
            let line = "multipathd resize map dm-0";
            let host = Host::fixture(Root::new("/"), Box::new(Transcript::default().on(line, 0, answer, "")))
                .unwrap();
            assert_eq!(resize(&host, "dm-0").is_ok(), is_done, "{answer}");
        }
    }

    #[test]
    fn the_kernels_state_of_a_path() {
        let line = "dmsetup status --major 253 --minor 0";
        let answer = "0 2097152 multipath 2 0 0 0 2 1 A 0 1 2 8:16 A 0 0 1 E 0 1 2 8:32 F 1 0 1 \n";
        for (minor, is_used) in [(16, true), (32, false), (3, false)] {
            let transcript = Transcript::default().on(line, 0, answer, "");
            let host = Host::fixture(Root::new("/"), Box::new(transcript)).unwrap();
            assert_eq!(is_active(&host, (253, 0), (8, minor)).unwrap(), is_used, "{minor}");
        }
    }
}
