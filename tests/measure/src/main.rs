//! `measure`: measurements on nodes in virtual machines.
#![allow(clippy::disallowed_methods, reason = "as in the library")]

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use measure::{compare, desk, faults, roll, switch};
use nodes::bed::Bed;
use nodes::exit;

/// Measures etcd-lun on real nodes in virtual machines. No test of the suite depends on it.
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Compare etcd-lun with two other ways to move an etcd, and print a table of the results.
    Compare {
        /// The static etcd-lun binary.
        #[arg(long)]
        agent: PathBuf,
        /// Play only situations whose name contains this text, such as `etcd-lun/move`. Separate several
        /// texts with commas; one match is enough.
        #[arg(long, default_value = "")]
        only: String,
        /// How often each reboot and each move is measured. The table has medians.
        #[arg(long, default_value_t = 1)]
        times: usize,
    },
    /// Boot three nodes whose etcds are one cluster, and give an administrator's machine in front of them to whoever wants
    /// to try a rollout by hand.
    Desk {
        /// The static etcd-lun binary. It is in the release directory of the desk, and its image in the registry after a push.
        #[arg(long)]
        agent: PathBuf,
    },
    /// Take the storage from an etcd again and again while a client writes, and measure how soon writes are acknowledged again.
    Faults {
        /// The static etcd-lun binary.
        #[arg(long)]
        agent: PathBuf,
        #[command(flatten)]
        options: faults::Options,
    },
    /// Print the Ignition config of a MachineConfig. The desk's stand-in for `oc` runs this.
    #[command(hide = true)]
    Ignition {
        /// The object, as YAML.
        object: PathBuf,
    },
    /// Boot three nodes whose etcds are one cluster, and move one etcd after the other to its LUN while a
    /// client writes. Print how long the cluster and each member did not answer.
    Roll {
        /// The static etcd-lun binary.
        #[arg(long)]
        agent: PathBuf,
        /// Move all etcds back to the local disks afterwards, one after the other.
        #[arg(long)]
        rollback: bool,
        /// Write into docs/tour.md what the commands of its desk print. Without this they must print what the page says.
        #[arg(long)]
        write_tour: bool,
    },
    /// Move an etcd with databases of these sizes while a client writes, and measure how long it gets no answer: in a plain
    /// restart, in a move by hand, and in etcd-lun's. Print the tables.
    Switch {
        /// The static etcd-lun binary.
        #[arg(long)]
        agent: PathBuf,
        /// The sizes in MiB, separated by commas.
        #[arg(long, value_delimiter = ',', default_value = "100,2048")]
        sizes: Vec<u64>,
        /// What runs etcd: a unit, the stand-in of a static pod, or one after the other.
        #[arg(long, value_enum, value_delimiter = ',', default_value = "systemd,static-pod")]
        runtimes: Vec<switch::Runtime>,
        /// Only these ways.
        #[arg(long, value_enum, value_delimiter = ',', default_values_t = switch::Way::ALL)]
        ways: Vec<switch::Way>,
        /// How often a plain restart and `etcd-lun apply` are measured. The tables have medians.
        #[arg(long, default_value_t = 5)]
        times: usize,
        /// Where the LUN's file lies, such as /dev/shm. Without this it is on the disk that has the node's disk too, so the node's
        /// own writes wait for those of the copy.
        #[arg(long)]
        lun: Option<PathBuf>,
    },
}

fn main() -> ExitCode {
    exit::code(play(Cli::parse().verb).map(|()| ExitCode::SUCCESS))
}

fn play(verb: Verb) -> Result<()> {
    match verb {
        Verb::Ignition { object } => desk::ignition(&object),
        Verb::Desk { agent } => desk::serve(&Bed::make()?, &agent),
        Verb::Compare { agent, only, times } => compare::play(&Bed::make()?, &agent, &only, times),
        Verb::Faults { agent, options } => faults::play(&Bed::make()?, &agent, options),
        Verb::Roll { agent, rollback, write_tour } => roll::play(&Bed::make()?, &agent, rollback, write_tour),
        Verb::Switch { agent, sizes, runtimes, ways, times, lun } => {
            switch::play(&Bed::make()?, &agent, &sizes, &runtimes, &ways, times, lun.as_deref())
        }
    }
}
