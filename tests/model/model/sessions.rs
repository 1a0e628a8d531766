//! What the steps before and after the protocol's do to the world: those of sessions, disks and the member. On a node they run
//! tools and ask the kernel, and decide nothing about which copy is the truth.

use crate::run::{Run, Stop};
use plan::{NodeStep, Step};

impl Run<'_> {
    pub fn fail<T>(why: &str) -> Result<T, Stop> {
        Err(Stop::Failed(why.into()))
    }

    pub fn step(&mut self, step: &Step) -> Result<(), Stop> {
        // An event may also come before a step's first effect.
        self.step_begins = true;
        self.effect(|_| ())?;
        self.step_begins = false;
        match step {
            Step::Protocol(step) => self.protocol(step),
            Step::Node(step) => self.node_step(step),
        }
    }

    fn node_step(&mut self, step: &NodeStep) -> Result<(), Stop> {
        match step {
            NodeStep::SetInitiatorName { .. }
            | NodeStep::SetTimeout { .. }
            | NodeStep::ResizeMap { .. }
            | NodeStep::RemovePath(_)
            | NodeStep::AddPath(_) => Ok(()),
            // The size of a filesystem is no part of the world: no write depends on it.
            NodeStep::Grow(_) => self.data_is_on_lun().map(drop),
            // It leaves nothing behind.
            NodeStep::Preflight(_) => Ok(()),
            NodeStep::LogOut { .. } => self.effect(|world| world.session = false),
            NodeStep::LogIn(_) if !self.world.reachable => Self::fail("no portal answers"),
            NodeStep::LogIn(_) => self.effect(|world| world.session = true),
            NodeStep::AttachLun(_) | NodeStep::AwaitDisk { .. } if !self.world.reachable => {
                Self::fail("the LUN has gone")
            }
            NodeStep::AttachLun(_) | NodeStep::AwaitDisk { .. } => Ok(()),
            // This step reads and writes only a file without a name.
            NodeStep::Measure { .. } => Ok(()),
            NodeStep::AwaitMember(_) => {
                self.happen()?;
                if self.world.is_running() { Ok(()) } else { Self::fail("the member does not serve") }
            }
        }
    }
}
