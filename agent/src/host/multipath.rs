//! What multipathd does on request.

use super::{ExecError, Host, Invocation, Tool};
use crate::host::exec::one_line;

/// Has multipathd give a map (kernel name) the size that its paths have now (multipathd(8), `resize map`). Some
/// versions answer `fail` with exit code 0.
pub fn resize(host: &Host, map: &str) -> Result<(), ExecError> {
    let what = Invocation::new(Tool::Multipathd, ["resize", "map", map]);
    let output = host.run(&what)?.success(&what)?;
    match output.stdout.trim() {
        "ok" => Ok(()),
        said => Err(ExecError::Failed { what: what.to_string(), code: output.code, said: one_line(said) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Root, transcript::Transcript};

    #[test]
    fn only_ok_is_success() {
        for (answer, is_done) in [("ok\n", true), ("fail\n", false), ("timeout\n", false), ("", false)] {
            let line = "multipathd resize map dm-0";
            let host = Host::fixture(Root::new("/"), Box::new(Transcript::default().on(line, 0, answer, "")))
                .unwrap();
            assert_eq!(resize(&host, "dm-0").is_ok(), is_done, "{answer}");
        }
    }
}
