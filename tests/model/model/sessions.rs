//! What the steps before and after the protocol's do to the world: those of sessions, disks and the member. On a node they run
//! tools and ask the kernel, and decide nothing about which copy is the truth.

use crate::run::{Run, Stop};
use plan::Step;

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
            Step::SetInitiatorName { .. }
            | Step::SetTimeout { .. }
            | Step::ResizeMap { .. }
            | Step::DeleteRecord { .. }
            | Step::RemovePath(_)
            | Step::AddPath(_) => Ok(()),
            // The size of a filesystem is no part of the world: no write depends on it.
            Step::Grow(_) => self.data_is_on_lun().map(drop),
            // It leaves nothing behind.
            Step::Preflight(_) => Ok(()),
            Step::LogOut { .. } => self.effect(|world| world.session = false),
            Step::LogIn(_) if !self.world.reachable => Self::fail("no portal answers"),
            Step::LogIn(_) => self.effect(|world| world.session = true),
            Step::AttachLun(_) | Step::AwaitDisk { .. } if !self.world.reachable => {
                Self::fail("the LUN has gone")
            }
            Step::AttachLun(_) | Step::AwaitDisk { .. } => Ok(()),
            // This step reads and writes only a file without a name.
            Step::Measure { .. } => Ok(()),
            Step::AwaitMember(_) => {
                self.happen()?;
                if self.world.is_running() { Ok(()) } else { Self::fail("the member does not serve") }
            }
            step => self.protocol(step),
        }
    }
}
