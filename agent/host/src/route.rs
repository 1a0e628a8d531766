//! The interface that has an address, and how large its packets may be; and whether somebody listens at a portal.

use super::Host;
use nix::{ifaddrs::getifaddrs, sys::socket::SockaddrStorage};
use std::{
    io,
    net::{IpAddr, TcpStream, ToSocketAddrs as _, UdpSocket},
    time::Duration,
};
use terms::Portal;

/// Where a connection's packets leave this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The interface.
    pub interface: String,
    /// The most bytes that a packet over the interface may have (MTU).
    pub mtu: Option<u32>,
}

/// Returns the interface that has an address of this machine; none if no interface has it.
pub fn outgoing(host: &Host, from: IpAddr) -> io::Result<Option<Outgoing>> {
    let has = |at: &SockaddrStorage| match from.to_canonical() {
        IpAddr::V4(from) => at.as_sockaddr_in().is_some_and(|at| at.ip() == from),
        IpAddr::V6(from) => at.as_sockaddr_in6().is_some_and(|at| at.ip() == from),
    };
    let Some(found) = getifaddrs()?.find(|one| one.address.as_ref().is_some_and(has)) else {
        return Ok(None);
    };
    let interface = found.interface_name;
    let mtu = host.root.read_opt(format!("/sys/class/net/{interface}/mtu"))?;
    Ok(Some(Outgoing { mtu: mtu.and_then(|text| text.trim().parse().ok()), interface }))
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
