//! udevd's messages. udevd sends them to a netlink group after it has run the rules for an event.
//!
//! A message is a header, `"libudev\0"`, 0xfeedcafe (big-endian), the header's size and the offset
//! and length of the properties (native order), then `KEY=value` strings that end in NUL (systemd
//! `src/libsystemd/sd-device/device-monitor.c`, `monitor_netlink_header`).

use super::Host;
use nix::{
    cmsg_space,
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::socket::{
        AddressFamily, ControlMessageOwned, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType,
        UnixCredentials, bind, recvmsg, setsockopt, socket, sockopt,
    },
};
use std::{
    io::{self, IoSliceMut},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    time::{Duration, Instant},
};

/// The group to which udevd sends. Group 1 is the kernel's: its messages come before udevd has run any rule.
const UDEV_GROUP: u32 = 2;
/// Identifies udevd's messages; big-endian.
const MAGIC: [u8; 4] = 0xfeed_cafe_u32.to_be_bytes();
/// Enough for the thousands of events of a login to a large array.
const RECEIVE_BUFFER: usize = 8 << 20;
/// The longest message that udev's own library accepts.
const LONGEST: usize = 8 << 10;
/// The longest time between two evaluations of the condition.
///
/// Usually an event ends a wait. But the request to stop arrives in another thread and doesn't interrupt poll. And
/// udevd's messages don't cross network namespaces, and don't come at all without udevd. So the condition is evaluated
/// again after this time.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A subscription to udevd's messages.
#[derive(Debug)]
pub struct Monitor {
    socket: OwnedFd,
}

impl Monitor {
    /// Subscribes. After this no event is missed.
    pub fn open(_host: &Host) -> io::Result<Self> {
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let protocol = SockProtocol::NetlinkKObjectUEvent;
        let socket = socket(AddressFamily::Netlink, SockType::Raw, flags, protocol)?;
        // The system limits the size (`net.core.rmem_max`). Exceeding that limit needs CAP_NET_ADMIN, and would only
        // lower the number of lost events.
        setsockopt(&socket, sockopt::RcvBuf, &RECEIVE_BUFFER)?;
        setsockopt(&socket, sockopt::PassCred, &true)?;
        bind(socket.as_raw_fd(), &NetlinkAddr::new(0, UDEV_GROUP))?;
        Ok(Self { socket })
    }

    /// Evaluates `condition` at once and after every event of a block device, until it returns a value. Returns none if
    /// the deadline comes first, and [`io::ErrorKind::Interrupted`] if this process is asked to stop.
    pub fn wait_until<T>(
        &self,
        host: &Host,
        deadline: Instant,
        mut condition: impl FnMut() -> io::Result<Option<T>>,
    ) -> io::Result<Option<T>> {
        loop {
            if let Some(value) = condition()? {
                return Ok(Some(value));
            }
            let look_again = deadline.min(Instant::now() + RECHECK_INTERVAL);
            while Instant::now() < look_again {
                if host.interrupt.is_requested() {
                    return Err(io::Error::new(
                        io::ErrorKind::Interrupted,
                        "interrupted while waiting for udev",
                    ));
                }
                if self.wait_for_event(look_again)? {
                    break;
                }
            }
            if Instant::now() >= deadline {
                // The last event, or a change without an event, may have made the condition true.
                return condition();
            }
        }
    }

    /// True if a block device has changed, or may have, before `until`. Returns false early after a signal and after
    /// messages about other things.
    fn wait_for_event(&self, until: Instant) -> io::Result<bool> {
        let left = until.saturating_duration_since(Instant::now());
        // Rounded up, because waits of 0 ms would be a busy loop during the last millisecond.
        let millis = u16::try_from(left.as_micros().div_ceil(1000)).unwrap_or(u16::MAX);
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::from(millis)) {
            Ok(0) | Err(Errno::EINTR) => Ok(false),
            Ok(_) => self.drain(),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all messages that have arrived. Several messages cause only one evaluation.
    fn drain(&self) -> io::Result<bool> {
        let mut changed = false;
        let mut buffer = vec![0; LONGEST];
        let mut control = cmsg_space!(UnixCredentials);
        loop {
            let mut pieces = [IoSliceMut::new(&mut buffer)];
            let flags = MsgFlags::MSG_DONTWAIT;
            match recvmsg::<NetlinkAddr>(self.socket.as_raw_fd(), &mut pieces, Some(&mut control), flags) {
                Ok(message) => {
                    let cut = message.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC);
                    // Any process may send to the group, but udevd runs as root.
                    let from_root = message.cmsgs().is_ok_and(|mut all| {
                        all.any(
                            |one| matches!(one, ControlMessageOwned::ScmCredentials(from) if from.uid() == 0),
                        )
                    });
                    let bytes = message.iovs().next().unwrap_or_default();
                    changed |= from_root && (cut || is_block_event(bytes));
                }
                Err(Errno::EAGAIN) => return Ok(changed),
                Err(Errno::EINTR) => {}
                // The buffer was full, so events were lost, and anything may have changed.
                Err(Errno::ENOBUFS) => changed = true,
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// True if this is a message of udevd about a block device.
fn is_block_event(message: &[u8]) -> bool {
    let number = |at: usize| {
        let bytes = message.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(bytes)).ok()
    };
    let properties = || {
        (message.get(..8)? == b"libudev\0" && message.get(8..12)? == MAGIC).then_some(())?;
        let (start, length) = (number(16)?, number(20)?);
        message.get(start..start.checked_add(length)?)
    };
    properties().is_some_and(|all| all.split(|byte| *byte == 0).any(|one| one == b"SUBSYSTEM=block"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::NoTools};

    fn message(properties: &[u8]) -> Vec<u8> {
        let mut message = b"libudev\0\xfe\xed\xca\xfe".to_vec();
        let length = u32::try_from(properties.len()).unwrap();
        // Header size, offset, length, then four words of filters, which only the kernel reads.
        for word in [40, 40, length, 0, 0, 0, 0] {
            message.extend_from_slice(&word.to_ne_bytes());
        }
        message.extend_from_slice(properties);
        message
    }

    #[test]
    fn only_block_events_of_udev() {
        let block = message(b"ACTION=change\0DEVNAME=/dev/loop0\0SUBSYSTEM=block\0DEVTYPE=disk\0");
        assert!(is_block_event(&block));
        assert!(!is_block_event(&message(b"ACTION=add\0SUBSYSTEM=net\0")));
        assert!(!is_block_event(&message(b"ACTION=add\0XSUBSYSTEM=block\0")));
        // The kernel's own format, and messages that are cut or wrong.
        assert!(!is_block_event(b"change@/devices/virtual/block/loop0\0ACTION=change\0SUBSYSTEM=block\0"));
        for end in 0..block.len() {
            assert!(!is_block_event(&block[..end]), "{end}");
        }
        for (at, byte) in [(0, b'L'), (8, 0), (19, 0xff), (23, 0xff), (16, 0xff)] {
            let mut wrong = block.clone();
            wrong[at] = byte;
            assert!(!is_block_event(&wrong), "{at}");
        }
    }

    #[test]
    fn waits_without_events() {
        let host = Host::fixture(Root::new("/nonexistent"), Box::new(NoTools)).unwrap();
        let monitor = Monitor::open(&host).unwrap();
        let start = Instant::now();
        let after = |span: Duration| move || Ok((start.elapsed() >= span).then_some(()));
        let late = start + Duration::from_secs(60);
        assert!(monitor.wait_until(&host, late, || Ok(Some(()))).unwrap().is_some());
        assert!(monitor.wait_until(&host, late, after(Duration::from_millis(100))).unwrap().is_some());
        assert!(start.elapsed() < Duration::from_secs(30));
        let soon = Instant::now() + Duration::from_millis(50);
        assert_eq!(monitor.wait_until::<()>(&host, soon, || Ok(None)).unwrap(), None);
        assert!(Instant::now() >= soon);
        let wrong = || Err::<Option<()>, _>(io::Error::other("gone"));
        assert_eq!(monitor.wait_until(&host, late, wrong).unwrap_err().to_string(), "gone");
    }
}
