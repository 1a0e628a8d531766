//! The policy store and the labels on disk: semodule and restorecon.

use crate::{
    host::{ExecError, Host, Invocation, Tool},
    terms::AbsPath,
};
use std::time::Duration;

/// A rebuild of the policy takes 8 to 17 s of processor time on a server, and emulated servers are slower.
const REBUILD_LIMIT: Duration = Duration::from_secs(600);
/// etcd's tree has some dozen files, and each tree of retired data has about as many.
const RELABEL_LIMIT: Duration = Duration::from_secs(300);

/// Installs a module in the store, where it replaces one with the same name and priority, and loads the new policy.
pub fn install(host: &Host, file: &AbsPath, priority: u32) -> Result<(), ExecError> {
    let priority = priority.to_string();
    semodule(host, ["--priority", &priority, "--install", file.as_str()])
}

/// Removes a module from the store, and loads the new policy.
pub fn remove(host: &Host, module: &str, priority: u32) -> Result<(), ExecError> {
    let priority = priority.to_string();
    semodule(host, ["--priority", &priority, "--remove", module])
}

fn semodule<'a>(host: &Host, args: impl IntoIterator<Item = &'a str>) -> Result<(), ExecError> {
    let what = Invocation::new(Tool::Semodule, args).limit(REBUILD_LIMIT);
    host.run(&what)?.success(&what).map(drop)
}

/// Gives paths, and everything below them, the labels of the policy where they differ. Paths that don't exist are
/// skipped. Returns a line for each change, `Relabeled PATH from LABEL to LABEL`. With `dry` nothing is changed, and
/// the lines say what would be.
pub fn relabel<'a>(
    host: &Host,
    paths: impl IntoIterator<Item = &'a str>,
    dry: bool,
) -> Result<Vec<String>, ExecError> {
    let mode = if dry { "-Rivn" } else { "-Riv" };
    let what = Invocation::new(Tool::Restorecon, [mode].into_iter().chain(paths)).limit(RELABEL_LIMIT);
    let output = host.run(&what)?.success(&what)?;
    Ok(output.stdout.lines().filter(|line| line.contains(" from ")).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Root, transcript::Transcript};

    #[test]
    fn command_lines_and_answers() {
        let would = "Would relabel /a from u:r:x_t:s0 to u:r:y_t:s0";
        let runs = Transcript::default()
            .on("semodule --priority 350 --install /run/etcd-lun/etcd_lun.cil", 0, "", "")
            .on("semodule --priority 350 --remove etcd_lun", 1, "", "no")
            .on("restorecon -Rivn /a /b", 0, &format!("{would}\n\n"), "");
        let host = Host::fixture(Root::new("/nowhere"), Box::new(runs)).unwrap();
        install(&host, &"/run/etcd-lun/etcd_lun.cil".parse().unwrap(), 350).unwrap();
        assert!(remove(&host, "etcd_lun", 350).unwrap_err().to_string().contains("exited with 1: no"));
        let lines = relabel(&host, ["/a", "/b"], true).unwrap();
        assert_eq!(lines, [would]);
    }
}
