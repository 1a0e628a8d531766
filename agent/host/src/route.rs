//! The interface for packets to an address, as the kernel's rules and routes have it (rtnetlink(7)), and how large they may be.
//! And whether somebody listens there.

use super::Host;
use futures_util::TryStreamExt as _;
use nix::errno::Errno;
use rtnetlink::{
    Error, Handle, RouteMessageBuilder,
    packet_route::{
        link::LinkAttribute,
        route::{RouteAttribute, RouteMetric},
    },
};
use std::{
    io,
    net::{IpAddr, TcpStream, ToSocketAddrs as _, UdpSocket},
    time::Duration,
};
use terms::Portal;

/// How long the kernel may take for an answer. It answers at once; this only keeps a defect from blocking forever.
const LIMIT: Duration = Duration::from_secs(5);

/// Where packets to an address leave this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The interface.
    pub interface: String,
    /// The most bytes that a packet may have (MTU): the route's own limit, else the interface's.
    pub mtu: Option<u32>,
}

/// Where packets to an address leave this machine; none if there is no route.
///
/// The kernel decides as it would for a packet of this process: by its rules first (`ip rule`), then by the tables that
/// these name. Not considered are rules for a mark, because iscsid sets none.
pub fn outgoing(host: &Host, address: IpAddr) -> io::Result<Option<Outgoing>> {
    let failed =
        |what: String| io::Error::other(format!("asking the kernel for the route to {address}: {what}"));
    host.wait(async {
        let (connection, handle, _unasked) = rtnetlink::new_connection()?;
        // In this task and not in one of its own, so that nothing is left when the answer is here.
        tokio::select! {
            () = connection => Err(failed("the connection ended".into())),
            () = tokio::time::sleep(LIMIT) => Err(failed(format!("no answer within {} s", LIMIT.as_secs()))),
            found = ask(&handle, address.to_canonical()) => found.map_err(|error| failed(error.to_string())),
        }
    })
}

async fn ask(handle: &Handle, address: IpAddr) -> Result<Option<Outgoing>, Error> {
    let prefix = if address.is_ipv4() { 32 } else { 128 };
    let wanted = RouteMessageBuilder::<IpAddr>::new().destination_prefix(address, prefix);
    let wanted = wanted.map_err(|error| Error::InvalidNla(error.to_string()))?.build();
    let route = match handle.route().get(wanted).execute().try_next().await {
        Ok(route) => route,
        Err(Error::NetlinkError(error)) if leads_nowhere(error.raw_code()) => return Ok(None),
        Err(error) => return Err(error),
    };
    let attributes = route.map(|route| route.attributes).unwrap_or_default();
    let leaves_by = |attribute: &RouteAttribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    };
    let Some(index) = attributes.iter().find_map(leaves_by) else { return Ok(None) };
    let Some(link) = handle.link().get().match_index(index).execute().try_next().await? else {
        return Ok(None);
    };
    let (mut interface, mut mtu) = (None, attributes.iter().find_map(own_limit));
    for attribute in link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface = Some(name),
            LinkAttribute::Mtu(bytes) => mtu = mtu.or(Some(bytes)),
            _ => {}
        }
    }
    Ok(interface.map(|interface| Outgoing { interface, mtu }))
}

/// The limit of the route itself: one that was configured, or that the kernel has learnt from a router on the way.
fn own_limit(attribute: &RouteAttribute) -> Option<u32> {
    let RouteAttribute::Metrics(metrics) = attribute else { return None };
    metrics.iter().find_map(|metric| match metric {
        RouteMetric::Mtu(bytes) => Some(*bytes),
        _ => None,
    })
}

/// Whether the kernel's answer means that it drops such a packet: no route, or an `unreachable`, `prohibit` or `blackhole`
/// one (ip-route(8)). Any other error says nothing about the route.
fn leads_nowhere(code: i32) -> bool {
    let nowhere = [Errno::ENETUNREACH, Errno::EHOSTUNREACH, Errno::EACCES, Errno::EINVAL];
    nowhere.contains(&Errno::from_raw(-code))
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

/// How long a portal may take to accept a connection. A live one takes milliseconds.
pub const CONNECT: Duration = Duration::from_secs(2);

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
        assert_eq!(leads("127.0.0.1").as_deref(), Some("lo"));
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
            "route add 10.9.0.0/16 via 10.8.0.2",
            "route add 10.9.0.0/16 dev ens5 metric 100",
            "route add 10.9.0.0/24 dev ens5 table 100",
            "rule add to 10.9.0.5 lookup 100",
            "link set ens5 mtu 9000",
            "route add 10.11.0.0/16 dev ens5",
            "route add 10.12.0.0/16 dev ens5 mtu 1400",
            "route add unreachable 10.9.1.0/24",
            "route add prohibit 10.9.2.0/24",
            "route add blackhole 10.9.3.0/24",
            "address add 2001:db8::1/64 dev ens4 nodad",
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
        let limit = |to: &str| out(to).and_then(|out| out.mtu);
        assert_eq!(["10.8.0.7", "10.11.0.1", "10.12.0.1"].map(limit), [1500, 9000, 1400].map(Some));
    }
}
