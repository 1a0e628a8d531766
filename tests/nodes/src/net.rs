//! The network namespace of a run. It has one bridge per network, and on each bridge one tap for every
//! machine.
//!
//! No packet leaves the namespace: it has no route out and no link to the host's network.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use crate::host;
use crate::ledger::Run;

const LIMIT: Duration = Duration::from_secs(20);

/// A machine on the networks. The host has address `.1` on each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// The node.
    Node,
    /// A second machine that is a LIO target, besides the bed's tgtd.
    Lio,
    /// A second node.
    Second,
    /// A third node.
    Third,
}

impl Machine {
    /// All machines.
    pub const ALL: [Machine; 4] = [Machine::Node, Machine::Lio, Machine::Second, Machine::Third];
    /// The machines whose addresses are in the image. `roll` writes those of the others.
    pub const IN_IMAGE: [Machine; 2] = [Machine::Node, Machine::Lio];
    /// The nodes of a cluster of three.
    pub const NODES: [Machine; 3] = [Machine::Node, Machine::Second, Machine::Third];

    /// The name of the machine in files and interfaces.
    pub fn name(self) -> &'static str {
        match self {
            Machine::Node => "node",
            Machine::Lio => "lio",
            Machine::Second => "second",
            Machine::Third => "third",
        }
    }

    fn number(self) -> u8 {
        match self {
            Machine::Node => 2,
            Machine::Lio => 3,
            Machine::Second => 4,
            Machine::Third => 5,
        }
    }
}

/// One of a machine's networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// The control network for the bed's ssh. It keeps working when a storage network is cut.
    Management,
    /// The first storage network.
    A,
    /// The second storage network.
    B,
}

impl Path {
    /// All of them, in the order of a machine's interfaces eth0, eth1, eth2.
    pub const ALL: [Path; 3] = [Path::Management, Path::A, Path::B];

    /// The storage networks.
    pub const STORAGE: [Path; 2] = [Path::A, Path::B];

    fn subnet(self) -> &'static str {
        match self {
            Path::Management => "10.79.0",
            Path::A => "10.77.0",
            Path::B => "10.78.0",
        }
    }

    /// The host's address, where tgtd listens.
    pub fn target(self) -> String {
        format!("{}.1", self.subnet())
    }

    /// A machine's address.
    pub fn address(self, machine: Machine) -> String {
        format!("{}.{}", self.subnet(), machine.number())
    }

    /// A machine's IPv6 address.
    pub fn address_v6(self, machine: Machine) -> String {
        format!("{}::{}", self.prefix_v6(), machine.number())
    }

    /// tgtd's IPv6 address.
    pub fn target_v6(self) -> String {
        format!("{}::1", self.prefix_v6())
    }

    /// The IPv6 portal, as a config writes it.
    pub fn portal_v6(self) -> String {
        format!("[{}]:3260", self.target_v6())
    }

    /// A second IPv6 portal, with another port.
    pub fn other_portal_v6(self) -> String {
        format!("[{}]:13260", self.target_v6())
    }

    fn prefix_v6(self) -> &'static str {
        match self {
            Path::Management => "fd79",
            Path::A => "fd77",
            Path::B => "fd78",
        }
    }

    /// The portal, as a config writes it.
    pub fn portal(self) -> String {
        format!("{}:3260", self.target())
    }

    /// The tap device at the host's end of a machine's link.
    pub fn tap(self, machine: Machine) -> String {
        format!("tap-{}-{}", self.letter(), machine.name())
    }

    /// The MAC address at the machine's end.
    pub fn mac(self, machine: Machine) -> String {
        self.mac_of(machine.number())
    }

    fn mac_of(self, number: u8) -> String {
        let network = match self {
            Path::Management => "4f",
            Path::A => "4d",
            Path::B => "4e",
        };
        format!("52:54:00:{network}:00:{number:02x}")
    }

    /// The bridge of all machines on this network.
    pub fn bridge(self) -> String {
        format!("br-{}", self.letter())
    }

    fn letter(self) -> char {
        match self {
            Path::Management => 'm',
            Path::A => 'a',
            Path::B => 'b',
        }
    }
}

/// What happens to packets that are sent to a portal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// They are dropped, so a connection times out.
    Drop,
    /// Half of them are dropped.
    Half,
    /// They are answered with a TCP reset, so a connection is refused.
    Reject,
}

/// The run's network namespace.
#[derive(Debug)]
pub struct Net {
    namespace: String,
}

impl Net {
    /// Makes the namespace, its bridges and its taps. They end with the run.
    pub fn create(run: &Run) -> Result<Self> {
        let net = Self { namespace: run.namespace() };
        host::ok(Command::new("ip").args(["netns", "add", &net.namespace]), LIMIT)?;
        net.ip(&["link", "set", "lo", "up"])?;
        for path in Path::ALL {
            let bridge = path.bridge();
            // The bridge gets a fixed MAC address. Otherwise it takes the lowest one of its ports, which
            // differs between runs, and a snapshot would remember another address.
            net.ip(&["link", "add", &bridge, "address", &path.mac_of(1), "type", "bridge"])?;
            net.ip(&["link", "set", &bridge, "up"])?;
            net.ip(&["address", "add", &format!("{}/24", path.target()), "dev", &bridge])?;
            net.ip(&["address", "add", &format!("{}/64", path.target_v6()), "dev", &bridge, "nodad"])?;
            for machine in Machine::ALL {
                let tap = path.tap(machine);
                net.ip(&["tuntap", "add", "dev", &tap, "mode", "tap"])?;
                net.ip(&["link", "set", &tap, "master", &bridge, "up"])?;
            }
        }
        Ok(net)
    }

    /// A command that runs a program inside the namespace. `ip` becomes the program, so the process number
    /// stays the same.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace, program]);
        command
    }

    /// Takes the node's link of a path down or up.
    pub fn link(&self, path: Path, up: bool) -> Result<()> {
        self.link_of(Machine::Node, path, up)
    }

    /// Takes a machine's link of a path down or up.
    pub fn link_of(&self, machine: Machine, path: Path, up: bool) -> Result<()> {
        self.ip(&["link", "set", &path.tap(machine), if up { "up" } else { "down" }])
    }

    /// Cuts a portal off. Existing connections stall (`Drop`) or end (`Reject`).
    pub fn cut(&self, path: Path, how: Cut) -> Result<()> {
        let mut rule = self.command("iptables");
        rule.args(["-w", "-A", "INPUT", "-d", &path.target(), "-p", "tcp", "--dport", "3260"]);
        match how {
            Cut::Drop => rule.args(["-j", "DROP"]),
            Cut::Half => rule.args("-m statistic --mode random --probability 0.5 -j DROP".split(' ')),
            Cut::Reject => rule.args(["-j", "REJECT", "--reject-with", "tcp-reset"]),
        };
        host::ok(&mut rule, LIMIT).map(drop)
    }

    /// Takes packets of this many bytes to and from a machine, as a network for jumbo frames does.
    pub fn take_packets_of(&self, bytes: u32, machine: Machine, path: Path) -> Result<()> {
        for link in [path.tap(machine), path.bridge()] {
            self.ip(&["link", "set", &link, "mtu", &bytes.to_string()])?;
        }
        Ok(())
    }

    /// Loses the packets of a portal that are larger than Ethernet's, and says so to nobody, as a switch does that is not
    /// configured for them.
    pub fn lose_large_packets(&self, path: Path) -> Result<()> {
        let large = ["-p", "tcp", "--sport", "3260", "-m", "length", "--length", "1501:65535", "-j", "DROP"];
        let rule = |chain: &str, end: [&str; 2]| {
            host::ok(self.command("iptables").args(["-w", "-A", chain]).args(end).args(large), LIMIT)
                .map(drop)
        };
        rule("OUTPUT", ["-s", &path.target()])
    }

    /// Ends all cuts and takes all links up.
    pub fn repair(&self) -> Result<()> {
        for chain in ["INPUT", "OUTPUT"] {
            host::ok(self.command("iptables").args(["-w", "-F", chain]), LIMIT)?;
        }
        self.link_of(Machine::Lio, Path::A, true)?;
        Path::ALL.iter().try_for_each(|path| self.link(*path, true))
    }

    /// Runs `ip` for this namespace.
    pub fn ip(&self, arguments: &[&str]) -> Result<()> {
        let mut ip = Command::new("ip");
        host::ok(ip.args(["-n", &self.namespace]).args(arguments), LIMIT).map(drop)
    }
}
