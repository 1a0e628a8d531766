//! The policy store and the labels on disk: semodule and restorecon.

use crate::{
    ExecError, Host, Invocation, Tool, random,
    root::{absent_is_none, at},
};
use std::{fs, io, path::Path, time::Duration};
use terms::{AbsPath, ErrorName, Named};

/// A rebuild of the policy takes 8 to 17 s of processor time on a server, and emulated servers are slower.
const REBUILD_LIMIT: Duration = Duration::from_secs(600);
/// etcd's tree has some dozen files, and each tree of retired data has about as many.
const RELABEL_LIMIT: Duration = Duration::from_secs(300);

/// Why a module was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Its text could not be handed over, or not be read back.
    #[error("handing the policy module over to semodule")]
    Io(#[from] io::Error),
    /// semodule failed.
    #[error(transparent)]
    Exec(#[from] ExecError),
    /// The store has another text.
    #[error(
        "the policy store has another text of module {0} than was given to semodule: somebody else has installed one; find out who, then run this again"
    )]
    Other(String),
}

impl Named for InstallError {
    fn name(&self) -> Option<ErrorName> {
        Some(match self {
            Self::Other(_) => ErrorName::PolicyNotInstalled,
            Self::Exec(error) => return error.name(),
            Self::Io(_) => return None,
        })
    }
}

/// Installs a module in the store, where it replaces one with the same name and priority, and loads the new policy. Then the
/// store must have this text.
///
/// The text is handed over in a directory of a name that nobody knows. The service's domain may not list `/run`, and not
/// replace anything there that it has not made.
pub fn install(host: &Host, module: &str, text: &str, priority: u32) -> Result<(), InstallError> {
    let dir = format!("/run/{module}-{}", random::nonce()?);
    let installed = install_from(host, &dir, module, text, priority);
    let removed = absent_is_none(fs::remove_dir_all(host.root.locate(&dir)));
    installed?;
    removed.map(drop).map_err(|error| at(Path::new(&dir), &error).into())
}

fn install_from(host: &Host, dir: &str, module: &str, text: &str, priority: u32) -> Result<(), InstallError> {
    let path = |name: String| name.parse::<AbsPath>().map_err(io::Error::other);
    let priority = priority.to_string();
    host.root.make_dir(dir, 0o700)?;
    let given = path(format!("{dir}/{module}.cil"))?;
    host.root.write_durably(&given, text, 0o600)?;
    semodule(host, ["--priority", &priority, "--install", given.as_str()])?;
    // semodule writes into its own directory, and replaces no file.
    let back = path(format!("{dir}/store"))?;
    host.root.make_dir(back.as_path(), 0o700)?;
    let args = ["--priority", &priority, "--cil", "--extract", module];
    let what = Invocation::new(Tool::Semodule, args).within(back.clone());
    host.run(&what)?.success(&what)?;
    match host.root.read(format!("{back}/{module}.cil"))? == text {
        true => Ok(()),
        false => Err(InstallError::Other(module.into())),
    }
}

/// Removes a module from the store, at each priority that it has there, and loads the new policy if `load` is true. Returns false if
/// the store has no such module.
pub fn remove(host: &Host, module: &str, load: bool) -> Result<bool, ExecError> {
    let what = Invocation::new(Tool::Semodule, ["--list-modules=full"]);
    let listed = host.run(&what)?.success(&what)?.stdout;
    // A line is `350 etcd_lun cil`.
    let words = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let found =
        words.filter(|words| words.get(1) == Some(&module)).filter_map(|words| words.first().copied());
    let removals: Vec<_> = found.flat_map(|priority| ["--priority", priority, "--remove", module]).collect();
    if removals.is_empty() {
        return Ok(false);
    }
    semodule(host, (!load).then_some("--noreload").into_iter().chain(removals))?;
    Ok(true)
}

/// Loads the store's policy into the kernel.
pub fn load(host: &Host) -> Result<(), ExecError> {
    semodule(host, ["--reload"])
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
    use crate::{
        Root,
        files::Files,
        transcript::{NoTools, Transcript},
    };

    const LIST: &str = "semodule --list-modules=full";

    #[test]
    fn command_lines_and_answers() {
        let would = "Would relabel /a from u:r:x_t:s0 to u:r:y_t:s0";
        let runs = Transcript::default()
            .on(LIST, 0, "350 etcd_lun        cil         \n", "")
            .on("semodule --priority 350 --remove etcd_lun", 1, "", "no")
            .on("restorecon -Rivn /a /b", 0, &format!("{would}\n\n"), "");
        let host = Host::fixture(Root::new("/nowhere"), Box::new(runs)).unwrap();
        assert!(remove(&host, "etcd_lun", true).unwrap_err().to_string().contains("exited with 1: no"));
        let lines = relabel(&host, ["/a", "/b"], true).unwrap();
        assert_eq!(lines, [would]);
    }

    #[test]
    fn a_replacement_is_removed_too() {
        const REMOVE: &str =
            "semodule --noreload --priority 400 --remove etcd_lun --priority 350 --remove etcd_lun";
        let removed = |listed| {
            let runs = Transcript::default().on(LIST, 0, listed, "").on(REMOVE, 0, "", "");
            remove(&Host::fixture(Root::new("/nowhere"), Box::new(runs)).unwrap(), "etcd_lun", false).unwrap()
        };
        assert!(removed("400 etcd_lun cil\n400 etcd_lun_more pp disabled\n350 etcd_lun cil\n100 base pp\n"));
        assert!(!removed("400 etcd_lun_more cil\n100 base pp\n"));
    }

    #[test]
    fn the_store_must_have_what_was_given() {
        const DIR: &str = "/run/etcd_lun-0";
        const INSTALL: &str = "semodule --priority 350 --install /run/etcd_lun-0/etcd_lun.cil";
        const BACK: &str = "cd /run/etcd_lun-0/store && semodule --priority 350 --cil --extract etcd_lun";
        let files = Files::new("store");
        let installed = |stored: &str| {
            let extracted = files.0.join("run/etcd_lun-0/store/etcd_lun.cil");
            let runs = Transcript::default().on(INSTALL, 0, "", "").writing(BACK, extracted, stored);
            let host = Host::fixture(Root::new(&files.0), Box::new(runs)).unwrap();
            install_from(&host, DIR, "etcd_lun", "(type mine_t)\n", 350).map_err(|error| error.to_string())
        };
        assert_eq!(installed("(type mine_t)\n"), Ok(()));
        assert_eq!(
            fs::read_to_string(files.0.join("run/etcd_lun-0/etcd_lun.cil")).unwrap(),
            "(type mine_t)\n"
        );
        let error = installed("(type mine_t)\n(typepermissive mine_t)\n").unwrap_err();
        assert!(error.contains("has another text of module etcd_lun"), "{error}");
    }

    #[test]
    fn nothing_is_left_of_the_text() {
        let files = Files::new("store-left");
        let host = Host::fixture(Root::new(&files.0), Box::new(NoTools)).unwrap();
        install(&host, "etcd_lun", "(type mine_t)\n", 350).unwrap_err();
        assert_eq!(host.root.list("/run").unwrap(), Vec::<String>::new());
    }
}
