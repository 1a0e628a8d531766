//! The interface for packets to an address: the kernel's main routing tables in /proc/net (proc_pid_net(5)). And whether
//! somebody listens there.

use super::Host;
use crate::terms::Portal;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpStream, ToSocketAddrs as _, UdpSocket},
    time::Duration,
};

/// A route of IPv4 or IPv6.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    to: IpAddr,
    prefix: u32,
    metric: u32,
    interface: String,
}

/// The interface for packets to an address; none if there is no route.
///
/// Only the main table is read, because network tools put the routes to storage there. A rule that uses another table
/// is not considered.
pub fn interface_to(host: &Host, address: IpAddr) -> io::Result<Option<String>> {
    let address = address.to_canonical();
    let routes = match address {
        IpAddr::V4(_) => parse_v4(&host.root.read_opt("/proc/net/route")?.unwrap_or_default()),
        IpAddr::V6(_) => parse_v6(&host.root.read_opt("/proc/net/ipv6_route")?.unwrap_or_default()),
    };
    Ok(best(&routes, address).map(|route| route.interface.clone()))
}

/// Whether all addresses of this name, or this address itself, are this machine's own. Only such an address can be bound.
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

/// True if a portal accepts a connection, which ends at once.
pub fn accepts(portal: &Portal, limit: Duration) -> bool {
    let addresses = (portal.host(), portal.port()).to_socket_addrs();
    let connects = |address| TcpStream::connect_timeout(&address, limit).is_ok();
    addresses.is_ok_and(|mut addresses| addresses.any(connects))
}

/// The route with the longest prefix; if there are several, the one with the smallest metric.
fn best(routes: &[Route], address: IpAddr) -> Option<&Route> {
    let fitting = routes.iter().filter(|route| shares(route.to, address, route.prefix));
    fitting.min_by_key(|route| (u32::MAX - route.prefix, route.metric))
}

fn shares(one: IpAddr, other: IpAddr, prefix: u32) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (one.to_bits() ^ other.to_bits()).checked_shr(32 - prefix).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            (one.to_bits() ^ other.to_bits()).checked_shr(128 - prefix).unwrap_or(0) == 0
        }
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

/// `RTF_UP`, and `RTF_REJECT` (kernel `include/uapi/linux/route.h`).
const UP: u32 = 1;
const REJECT: u32 = 0x200;

/// `Iface Destination Gateway Flags RefCnt Use Metric Mask ...`; addresses in the processor's byte order.
fn parse_v4(text: &str) -> Vec<Route> {
    let route = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let flags = hex(3)?;
        (flags & UP != 0 && flags & REJECT == 0).then_some(())?;
        Some(Route {
            to: Ipv4Addr::from(hex(1)?.to_ne_bytes()).into(),
            prefix: hex(7)?.count_ones(),
            metric: words.get(6)?.parse().ok()?,
            interface: (*words.first()?).to_owned(),
        })
    };
    text.lines().skip(1).filter_map(route).collect()
}

/// `DESTINATION PREFIX SOURCE PREFIX NEXTHOP METRIC REFCNT USE FLAGS INTERFACE`, in hexadecimal.
fn parse_v6(text: &str) -> Vec<Route> {
    let route = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let hex = |at: usize| u32::from_str_radix(words.get(at)?, 16).ok();
        let flags = hex(8)?;
        (flags & UP != 0 && flags & REJECT == 0).then_some(())?;
        Some(Route {
            to: Ipv6Addr::from_bits(u128::from_str_radix(words.first()?, 16).ok()?).into(),
            prefix: hex(1).filter(|prefix| *prefix <= 128)?,
            metric: hex(5)?,
            interface: (*words.get(9)?).to_owned(),
        })
    };
    text.lines().filter_map(route).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    const V4: &str = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
        br-ex\t00000000\t0100A8C0\t0003\t0\t0\t48\t00000000\t0\t0\t0\n\
        ens4\t000A4D0A\t00000000\t0001\t0\t0\t101\t00FFFFFF\t0\t0\t0\n\
        ens5\t000A4D0A\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n\
        ens6\t00004D0A\t00000000\t0000\t0\t0\t1\t0000FFFF\t0\t0\t0\n";

    #[cfg(target_endian = "little")]
    #[test]
    fn the_nearest_route_of_ipv4() {
        let routes = parse_v4(V4);
        let leads = |to: &str| best(&routes, to.parse().unwrap()).map(|route| route.interface.as_str());
        assert_eq!(leads("10.77.10.5"), Some("ens5"), "the lesser metric");
        assert_eq!(leads("10.77.11.5"), Some("br-ex"), "one that is down doesn't count");
        assert_eq!(best(&routes[1..], "8.8.8.8".parse().unwrap()), None);
        assert_eq!(best(&routes, "::1".parse().unwrap()), None);
    }

    #[test]
    fn the_nearest_route_of_ipv6() {
        let text = "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 00000000000000000000000000000000 00000100 00000001 00000000 00000001     ens4\n\
            00000000000000000000000000000000 00 00000000000000000000000000000000 00 fe800000000000000000000000000001 00000400 00000001 00000000 00000003    br-ex\n\
            00000000000000000000000000000000 00 00000000000000000000000000000000 00 00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";
        let routes = parse_v6(text);
        let leads = |to: &str| best(&routes, to.parse().unwrap()).map(|route| route.interface.as_str());
        assert_eq!(leads("2001:db8::5"), Some("ens4"));
        assert_eq!(leads("2001:db8:1::5"), Some("br-ex"));
        assert_eq!(routes.len(), 2, "a route that rejects leads nowhere");
    }
}
