//! How the values of options are read.

use clap::builder::{PathBufValueParser, TypedValueParser};
use std::{
    io,
    path::{self, Path, PathBuf},
};

/// Reads a path, relative to the working directory. The program itself has another base (`host::root`). No option here has standard
/// output in the place of a file, so `-` would be a file that nobody means.
pub(super) fn absolute() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if path == Path::new("-") {
            let why = "this would be a file of the name -: leave the option out, or name a file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        path::absolute(path)
    })
}

/// A command line that names the control-plane nodes of a cluster.
pub(super) const FROM_CLUSTER: &str =
    "`--node \"$(oc get nodes -l node-role.kubernetes.io/master -o name)\"`";

/// The names in the values of `--node`. A value may hold several, with the `node/` that `oc get nodes -o name` prints.
pub(super) fn node_names(values: &[String]) -> Vec<String> {
    let names = values.iter().flat_map(|value| value.split([',', ' ', '\t', '\n']));
    let names = names.map(|name| name.strip_prefix("node/").unwrap_or(name));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::node_names;

    #[test]
    fn names_as_people_and_oc_write_them() {
        let values = ["master-0", "node/master-1\nnode/master-2.example\n", "a, b"].map(str::to_owned);
        assert_eq!(node_names(&values), ["master-0", "master-1", "master-2.example", "a", "b"]);
        assert_eq!(node_names(&["".to_owned()]), [""; 0]);
    }
}
