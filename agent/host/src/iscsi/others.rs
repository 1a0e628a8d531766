//! Node records of a target in the node's own database.
//!
//! This program leaves none there ([`super::use_own_database`]). With a record, commands of others reach the session:
//! `--logoutall` and `--loginall` skip a session without one, and `-o update` changes none (usr/iscsiadm.c,
//! `__logout_by_startup`).

use super::database::directories;
use crate::Host;
use std::io;
use terms::{Iqn, Portal};

/// The portals that there are node records of, of any interface. A name that is no portal's is passed over.
pub fn recorded(host: &Host, target: &Iqn) -> io::Result<Vec<Portal>> {
    let mut portals = Vec::new();
    for nodes in directories(host, "nodes")? {
        let dir = nodes.join(target.as_str());
        for name in host.root.list_opt(dir.as_path())?.unwrap_or_default() {
            let mut parts = name.split(',');
            let (address, port) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
            let host = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
            portals.extend(format!("{host}:{port}").parse::<Portal>());
        }
    }
    Ok(portals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::iscsi::{database::DATABASES, tests::Fixture};

    #[test]
    fn of_each_form_in_each_database() {
        let target: Iqn = "iqn.2024-02.com.example:etcd".parse().unwrap();
        for database in DATABASES {
            let fixture = Fixture::new("recorded");
            assert_eq!(recorded(&fixture.host, &target).unwrap(), []);
            for name in
                ["10.0.0.1,3260,1/default", "fd00::5,3261,2/default", "san.example,3260", "no portal,x"]
            {
                fixture.file(&format!("{database}/nodes/{target}/{name}"), "");
            }
            fixture.file(&format!("{database}/nodes/iqn.2024-02.com.example:other/10.0.0.2,3260"), "");
            let found = recorded(&fixture.host, &target).unwrap();
            let found: Vec<_> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, ["10.0.0.1:3260", "[fd00::5]:3261", "san.example:3260"]);
        }
    }
}
