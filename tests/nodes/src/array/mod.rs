//! An iSCSI array for tests, whose faults the scenario chooses while it runs: what neither tgt nor LIO can show.
//!
//! It is a stand-in for an array. It has one target at one portal, without CHAP and digests, one connection for each session, and
//! the commands that Linux sends to a disk. Of libiscsi's `iscsi-test-cu` it passes the tests of reading, writing, capacity and
//! INQUIRY; it does not look at command numbers, and has neither the control mode page nor the block limits page.

mod disk;
mod session;

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use nix::sys::socket;

use crate::bed::Bed;
use crate::{cluster, gateway};

/// What the array offers, and how it misbehaves.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The volumes, by the number of their LUN.
    pub luns: BTreeMap<u8, Volume>,
    /// Status class and detail of each log-in (RFC 7143, 11.13.5), if it is refused.
    pub refusal: Option<[u8; 2]>,
    /// The portal to which each log-in is sent, such as `10.77.0.2:3260`.
    pub redirect: Option<String>,
    /// ASC and ASCQ of a unit attention, which each session gets once when the number before them changes.
    pub attention: (u32, [u8; 2]),
}

/// A volume.
#[derive(Debug, Clone)]
pub struct Volume {
    /// Its backing file.
    pub file: PathBuf,
    /// The size of its sectors, in bytes.
    pub sector: u32,
    /// The 32 digits of its NAA name.
    pub naa: String,
    /// A SCSI name string beside that.
    pub name: Option<String>,
    /// Whether this controller is a standby one: it does not read or write (02/04/0B).
    pub standby: bool,
}

/// The array, until it is dropped.
#[derive(Debug)]
pub struct Array {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What the connections share.
#[derive(Debug, Default)]
struct Shared {
    faults: Mutex<Faults>,
    connections: Mutex<Vec<TcpStream>>,
}

impl Array {
    /// Starts the array at a portal. No other target may listen there.
    pub fn start(bed: &Bed, portal: &str, faults: Faults) -> Result<Self> {
        // The socket stays in the namespace of the thread that makes it.
        Self::at(gateway::within(&cluster::namespace(bed), || Ok(TcpListener::bind(portal)?))?, faults)
    }

    /// Serves at this socket.
    pub fn at(listener: TcpListener, faults: Faults) -> Result<Self> {
        let shared = Arc::new(Shared { faults: Mutex::new(faults), ..Shared::default() });
        let (accepts, with) = (listener.try_clone()?, Arc::clone(&shared));
        std::thread::spawn(move || {
            for stream in accepts.incoming() {
                let Ok(stream) = stream else { return };
                let (Ok(copy), with) = (stream.try_clone(), Arc::clone(&with)) else { return };
                lock(&with.connections).push(copy);
                std::thread::spawn(move || {
                    // A connection ends when either side has enough.
                    let ended = session::serve(&stream, &with.faults);
                    stream.shutdown(Shutdown::Both).ok();
                    ended
                });
            }
        });
        Ok(Self { listener, shared })
    }

    /// Changes what the array does. Sessions stay.
    pub fn set(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut lock(&self.shared.faults));
    }

    /// Announces a change to each session: once, by ASC and ASCQ.
    pub fn announce(&self, code: [u8; 2]) {
        self.set(|faults| faults.attention = (faults.attention.0 + 1, code));
    }

    /// Ends all connections, as a log-in of another initiator with the same name and ISID does (RFC 7143, 6.3.5).
    pub fn cut(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            connection.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        use std::os::fd::AsRawFd as _;
        socket::shutdown(self.listener.as_raw_fd(), socket::Shutdown::Both).ok();
        self.cut();
    }
}

/// A panic elsewhere leaves nothing half done here.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
