//! A member's place in the cluster: its name, its address, and the settings of its etcd.

use super::certificates::{BUNDLE, Purpose, file};
use super::client::Endpoint;
use crate::etcd::PLAIN;

/// A member's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seat {
    /// The member's name, which is also the node's.
    pub name: String,
    /// Its address on the control network.
    pub address: String,
}

impl Seat {
    /// A place.
    pub fn new(name: &str, address: &str) -> Self {
        Self { name: name.into(), address: address.into() }
    }

    /// The URL for peers.
    pub fn peer_url(&self) -> String {
        format!("https://{}:2380", self.address)
    }

    /// The URL for clients that have a certificate.
    pub fn client_url(&self) -> String {
        format!("https://{}:2379", self.address)
    }

    /// The address for the bed's own client.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint { member: self.name.clone(), address: format!("{}:{PLAIN}", self.address) }
    }

    /// The environment of the member's etcd, with certificates below `certificates`. `first` lists the
    /// members of the cluster at this etcd's first start. `state` says whether that cluster is `new` or
    /// `existing`.
    pub fn environment(&self, certificates: &str, first: &[Seat], state: &str) -> Vec<(String, String)> {
        let pem = |purpose, ending| format!("{certificates}/{}", file(purpose, &self.name, ending));
        let members: Vec<String> =
            first.iter().map(|seat| format!("{}={}", seat.name, seat.peer_url())).collect();
        let bundle = format!("{certificates}/{BUNDLE}");
        // The tools on a node use the loopback interface. etcd does not ask for certificates there. Port 2381 is OpenShift's for HTTP.
        let Self { name, address } = self;
        let listen = format!(
            "http://127.0.0.1:2379,http://{address}:{PLAIN},https://{address}:2381,https://{address}:2379"
        );
        [
            ("NAME", name.clone()),
            ("INITIAL_CLUSTER", members.join(",")),
            ("INITIAL_CLUSTER_STATE", state.into()),
            ("LISTEN_CLIENT_URLS", listen),
            ("ADVERTISE_CLIENT_URLS", self.client_url()),
            ("LISTEN_PEER_URLS", self.peer_url()),
            ("INITIAL_ADVERTISE_PEER_URLS", self.peer_url()),
            ("CLIENT_CERT_AUTH", "true".into()),
            ("TRUSTED_CA_FILE", bundle.clone()),
            ("CERT_FILE", pem(Purpose::Serving, "crt")),
            ("KEY_FILE", pem(Purpose::Serving, "key")),
            ("PEER_CLIENT_CERT_AUTH", "true".into()),
            ("PEER_TRUSTED_CA_FILE", bundle),
            ("PEER_CERT_FILE", pem(Purpose::Peer, "crt")),
            ("PEER_KEY_FILE", pem(Purpose::Peer, "key")),
            // OpenShift's values for slow hardware. An emulated node is slow.
            ("HEARTBEAT_INTERVAL", "500".into()),
            ("ELECTION_TIMEOUT", "2500".into()),
            // A LUN of the bed has room for it.
            ("QUOTA_BACKEND_BYTES", "268435456".into()),
        ]
        .into_iter()
        .map(|(key, value)| (format!("ETCD_{key}"), value))
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_name_every_member_and_the_files_of_the_own_one() {
        let seats = [Seat::new("master-0", "192.0.2.1"), Seat::new("master-1", "192.0.2.2")];
        let all = seats[1].environment("/certs", &seats, "existing");
        let get = |key: &str| all.iter().find(|(name, _)| name == key).unwrap().1.as_str();
        assert_eq!(
            get("ETCD_INITIAL_CLUSTER"),
            "master-0=https://192.0.2.1:2380,master-1=https://192.0.2.2:2380"
        );
        assert_eq!(get("ETCD_PEER_KEY_FILE"), "/certs/secrets/etcd-all-certs/etcd-peer-master-1.key");
        assert!(get("ETCD_LISTEN_CLIENT_URLS").ends_with(",https://192.0.2.2:2379"));
    }
}
