//! A network namespace of the run's own, with one tap per network of the node.
//!
//! Nothing that the bed sends leaves this namespace: it has no route out and no link to the host's network.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::host;
use crate::ledger::Run;

const LIMIT: Duration = Duration::from_secs(20);

/// One of the node's networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// For the bed's own ssh, so that a cut storage network doesn't cut the test's control.
    Management,
    /// The first storage network.
    A,
    /// The second storage network.
    B,
}

impl Path {
    /// All of them, in the order of the node's interfaces eth0, eth1, eth2.
    pub const ALL: [Path; 3] = [Path::Management, Path::A, Path::B];

    fn subnet(self) -> &'static str {
        match self {
            Path::Management => "10.79.0",
            Path::A => "10.77.0",
            Path::B => "10.78.0",
        }
    }

    /// The address on the bed's side: where the target listens.
    pub fn target(self) -> String {
        format!("{}.1", self.subnet())
    }

    /// The node's address.
    pub fn node(self) -> String {
        format!("{}.2", self.subnet())
    }

    /// The node's IPv6 address.
    pub fn node_v6(self) -> String {
        format!("{}::2", self.prefix_v6())
    }

    /// The target's IPv6 address.
    pub fn target_v6(self) -> String {
        format!("{}::1", self.prefix_v6())
    }

    /// The IPv6 portal as a config names it.
    pub fn portal_v6(self) -> String {
        format!("[{}]:3260", self.target_v6())
    }

    fn prefix_v6(self) -> &'static str {
        match self {
            Path::Management => "fd79",
            Path::A => "fd77",
            Path::B => "fd78",
        }
    }

    /// The portal as a config names it.
    pub fn portal(self) -> String {
        format!("{}:3260", self.target())
    }

    /// The tap device on the bed's side.
    pub fn tap(self) -> &'static str {
        match self {
            Path::Management => "tap-mgmt",
            Path::A => "tap-a",
            Path::B => "tap-b",
        }
    }

    /// The hardware address of the node's end.
    pub fn mac(self) -> &'static str {
        match self {
            Path::Management => "52:54:00:4f:00:02",
            Path::A => "52:54:00:4d:00:02",
            Path::B => "52:54:00:4e:00:02",
        }
    }
}

/// What happens to packets for a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// They vanish: a connection times out.
    Drop,
    /// They are answered with a reset: a connection is refused.
    Reject,
}

/// The namespace.
#[derive(Debug)]
pub struct Net {
    namespace: String,
}

impl Net {
    /// Makes the namespace and its taps. It goes with the run.
    pub fn create(run: &Run) -> Result<Self> {
        let net = Self { namespace: run.namespace() };
        host::ok(Command::new("ip").args(["netns", "add", &net.namespace]), LIMIT)?;
        net.ip(&["link", "set", "lo", "up"])?;
        for path in Path::ALL {
            let address = format!("{}/24", path.target());
            net.ip(&["tuntap", "add", "dev", path.tap(), "mode", "tap"])?;
            net.ip(&["address", "add", &address, "dev", path.tap()])?;
            net.link(path, true)?;
        }
        Ok(net)
    }

    /// A command that will run inside the namespace, as the very process that is started.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]);
        command
    }

    /// Takes the link of a path down, or up again.
    pub fn link(&self, path: Path, up: bool) -> Result<()> {
        self.ip(&["link", "set", path.tap(), if up { "up" } else { "down" }])?;
        if up {
            // A link that goes down keeps its IPv4 address and loses its IPv6 address.
            let address = format!("{}/64", path.target_v6());
            self.ip(&["address", "replace", &address, "dev", path.tap(), "nodad"])?;
        }
        Ok(())
    }

    /// Cuts a portal off. Connections that exist already stall (`Drop`) or end (`Reject`).
    pub fn cut(&self, path: Path, how: Cut) -> Result<()> {
        let mut rule = self.command("iptables");
        rule.args(["-w", "-A", "INPUT", "-d", &path.target(), "-p", "tcp", "--dport", "3260"]);
        match how {
            Cut::Drop => rule.args(["-j", "DROP"]),
            Cut::Reject => rule.args(["-j", "REJECT", "--reject-with", "tcp-reset"]),
        };
        host::ok(&mut rule, LIMIT).map(drop)
    }

    /// Ends all cuts and raises all links.
    pub fn mend(&self) -> Result<()> {
        host::ok(self.command("iptables").args(["-w", "-F", "INPUT"]), LIMIT)?;
        Path::ALL.iter().try_for_each(|path| self.link(*path, true))
    }

    fn ip(&self, arguments: &[&str]) -> Result<()> {
        let mut ip = Command::new("ip");
        host::ok(ip.args(["-n", &self.namespace]).args(arguments), LIMIT).map(drop)
    }
}
