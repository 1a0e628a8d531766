//! `hands`: internal, run by PID 1 for a connection to the hands' socket.

use super::exit::Exit;
use anyhow::Context as _;
use clap::Args;
use config::Runtime;
use hands::{Direct, Requester, serve, serve_portals};
use host::Host;
use std::io::Read as _;
use terms::{AbsPath, Iqn, TargetName};

/// A longer request is none of ours, in bytes.
const REQUEST_MAX: u64 = 4096;

/// What the unit says of this node.
#[derive(Debug, Args)]
pub(super) struct Options {
    /// Ask a portal, in place of the other requests
    #[arg(long)]
    pub portals: bool,
    /// The data directory
    #[arg(long, value_name = "DIR", required_unless_present = "portals", conflicts_with = "portals")]
    pub data_dir: Option<AbsPath>,
    /// The manifest of etcd's static pod
    #[arg(long, value_name = "FILE", required_unless_present_any = ["unit", "portals"], conflicts_with = "unit")]
    pub manifest: Option<AbsPath>,
    /// The unit of etcd
    #[arg(long, value_name = "UNIT")]
    pub unit: Option<String>,
    /// The target; once for each of its names
    #[arg(long, value_name = "IQN")]
    pub target: Vec<Iqn>,
    /// An option of the LUN's mount; may be given more than once
    #[arg(long, value_name = "OPTION")]
    pub mount_option: Vec<String>,
}

/// Reads a request from standard input, does it, and answers over standard output, which is a socket. Both are one line.
pub(super) fn run(options: &Options) -> Result<(), Exit> {
    let host = Host::machine().context("preparing to work on this machine")?;
    let mut request = String::new();
    std::io::stdin().take(REQUEST_MAX).read_to_string(&mut request).context("reading the request")?;
    host.hold_signals().context("setting up signals")?;
    let answering = "answering over standard output: only a socket of etcd-lun runs this";
    let Options { portals: _, data_dir, manifest, unit, target, mount_option } = options;
    let Some(data_dir) = data_dir else {
        serve_portals(&host, &request, std::io::stdout()).context(answering)?;
        return Ok(());
    };
    let runtime = match (manifest, unit) {
        (Some(manifest), _) => Runtime::StaticPod { manifest: manifest.clone() },
        (None, unit) => Runtime::Systemd { unit: unit.clone().unwrap_or_default() },
    };
    let direct = Direct {
        requester: Requester::Service,
        target: target.split_first().map(|(name, more)| TargetName::any_of(name.clone(), more.to_vec())),
        data_dir: data_dir.clone(),
        mount_options: mount_option.clone(),
        runtime,
    };
    serve(&host, &direct, &request, std::io::stdout()).context(answering)?;
    Ok(())
}
