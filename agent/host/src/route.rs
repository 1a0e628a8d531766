//! The interface for packets to an address, and how large they may be; and whether somebody listens there.

use super::Host;
use nix::{
    errno::Errno,
    ifaddrs::getifaddrs,
    sys::socket::{self, AddressFamily, SockFlag, SockType, SockaddrStorage},
};
use std::{
    io,
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _, UdpSocket},
    os::fd::AsRawFd as _,
    time::Duration,
};
use terms::Portal;

/// Where packets to an address leave this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The interface.
    pub interface: String,
    /// The most bytes that a packet over the interface may have (MTU).
    pub mtu: Option<u32>,
}

/// Returns where packets to an address leave this machine; none if there is no route.
///
/// The kernel decides as it would for a packet of this process: by its rules first (`ip rule`), then by the tables that
/// these name. It chooses the address from which a socket sends, and the interface is the one that has this address.
pub fn outgoing(host: &Host, address: IpAddr) -> io::Result<Option<Outgoing>> {
    let failed = |error| io::Error::other(format!("asking the kernel for the route to {address}: {error}"));
    let Some(from) = source(address.to_canonical()).map_err(failed)? else { return Ok(None) };
    let mut interfaces = getifaddrs().map_err(|errno| failed(errno.into()))?;
    let has = |at: &SockaddrStorage| match from {
        IpAddr::V4(from) => at.as_sockaddr_in().is_some_and(|at| at.ip() == from),
        IpAddr::V6(from) => at.as_sockaddr_in6().is_some_and(|at| at.ip() == from),
    };
    let Some(found) = interfaces.find(|one| one.address.as_ref().is_some_and(has)) else { return Ok(None) };
    let interface = found.interface_name;
    let mtu = host.root.read_opt(format!("/sys/class/net/{interface}/mtu"))?;
    Ok(Some(Outgoing { mtu: mtu.and_then(|text| text.trim().parse().ok()), interface }))
}

/// Returns the address from which a packet to this one is sent. Nothing is sent to find it.
fn source(to: IpAddr) -> io::Result<Option<IpAddr>> {
    let family = if to.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let asking = socket::socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // The port does not matter for the route.
    match socket::connect(asking.as_raw_fd(), &SockaddrStorage::from(SocketAddr::new(to, 9))) {
        Ok(()) => Ok(Some(UdpSocket::from(asking).local_addr()?.ip())),
        Err(errno) if leads_nowhere(errno) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// True if the kernel drops such a packet: no route, or an `unreachable`, `prohibit` or `blackhole` one (ip-route(8)). Any
/// other error says nothing about the route.
fn leads_nowhere(errno: Errno) -> bool {
    [Errno::ENETUNREACH, Errno::EHOSTUNREACH, Errno::EACCES, Errno::EINVAL, Errno::EADDRNOTAVAIL]
        .contains(&errno)
}

/// Returns true if all addresses of this name, or this address itself, are this machine's own. Only such an address can
/// be bound.
pub fn is_own(name: &str) -> io::Result<bool> {
    for address in (name, 0).to_socket_addrs()? {
        match UdpSocket::bind(address) {
            Ok(_) => {}
            // `localhost` may have an address of IPv6 where the kernel has none.
            Err(_) if address.ip().is_loopback() => {}
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// How long a portal may take to accept a connection. A live one takes milliseconds.
const CONNECT: Duration = Duration::from_secs(2);

/// True if a portal accepts a connection within [`CONNECT`]. It ends at once.
pub fn accepts(portal: &Portal) -> bool {
    let addresses = (portal.host(), portal.port()).to_socket_addrs();
    let connects = |address| TcpStream::connect_timeout(&address, CONNECT).is_ok();
    addresses.is_ok_and(|mut addresses| addresses.any(connects))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Root, transcript::NoTools};
    use nix::{sched::CloneFlags, unistd::Uid};
    use std::process::Command;

    fn out(to: &str) -> Option<Outgoing> {
        let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
        outgoing(&host, to.parse().unwrap()).unwrap()
    }

    fn leads(to: &str) -> Option<String> {
        out(to).map(|out| out.interface)
    }

    #[test]
    fn to_this_machine() {
        let host = Host::fixture(Root::new("/"), Box::new(NoTools)).unwrap();
        let mtu = host.root.read_opt("/sys/class/net/lo/mtu").unwrap().unwrap().trim().parse().unwrap();
        assert_eq!(out("127.0.0.1"), Some(Outgoing { interface: "lo".into(), mtu: Some(mtu) }));
    }

    /// Needs root: it makes a network namespace for its thread.
    #[test]
    fn rules_count() {
        if !Uid::effective().is_root() {
            eprintln!("skipped: not root");
            return;
        }
        nix::sched::unshare(CloneFlags::CLONE_NEWNET).unwrap();
        assert_eq!((leads("10.9.0.5"), leads("2001:db8::5")), (None, None));
        for line in [
            "link set lo up",
            "link add ens4 type veth peer name far4",
            "link add ens5 type veth peer name far5",
            "link set ens4 up",
            "link set far4 up",
            "link set ens5 up",
            "link set far5 up",
            "address add 10.8.0.1/24 dev ens4",
            "address add 10.7.0.1/24 dev ens5",
            "route add 10.9.0.0/16 via 10.8.0.2",
            "route add 10.9.0.0/16 dev ens5 metric 100",
            "route add 10.9.0.0/24 dev ens5 table 100",
            "rule add to 10.9.0.5 lookup 100",
            "route add unreachable 10.9.1.0/24",
            "route add prohibit 10.9.2.0/24",
            "route add blackhole 10.9.3.0/24",
            "address add 2001:db8::1/64 dev ens4 nodad",
            "address add 2001:db8:7::1/64 dev ens5 nodad",
            "route add unreachable 2001:db8:1::/64",
            "route add 2001:db8:2::/64 dev ens5 table 100",
            "-6 rule add to 2001:db8:2::/64 lookup 100",
        ] {
            let family = if line.contains("2001:") { "-6" } else { "-4" };
            let status = Command::new("ip").arg(family).args(line.split(' ')).status().unwrap();
            assert!(status.success(), "ip {line}");
        }
        for (to, by) in [
            ("10.8.0.7", Some("ens4")),
            ("10.9.0.6", Some("ens4")),
            ("10.9.0.5", Some("ens5")),
            ("::ffff:10.9.0.5", Some("ens5")),
            ("10.9.1.1", None),
            ("10.9.2.1", None),
            ("10.9.3.1", None),
            ("10.10.0.1", None),
            ("2001:db8::5", Some("ens4")),
            ("2001:db8:1::5", None),
            ("2001:db8:2::5", Some("ens5")),
            ("2001:db8:3::5", None),
        ] {
            assert_eq!(leads(to).as_deref(), by, "{to}");
        }
    }
}
