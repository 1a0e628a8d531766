//! `luns`

use super::{
    config::{self, credentials},
    document::Document,
    exit::Exit,
    output::{OutputFormat, print_json, print_out},
    page::Page,
};
use apply::luns::{self, PortalLuns, VisibleLun};
use hands::Door;
use observe::secrets;
use std::path::Path;
use terms::{Bytes, fail};

/// What `luns` prints: the portals, in the order of the config.
pub const LUNS: Document<Vec<PortalLuns>> = Document::under("portals", "luns", "etcd-lun luns --json");

/// Prints what each portal shows this node.
pub(super) fn run(file: Option<&Path>, output: OutputFormat) -> Result<(), Exit> {
    let (host, identity, config) = config::TO_CHANGE.load(file)?;
    let secrets = secrets::load(&host, &config, credentials().as_deref())?;
    config::hold(&host)?;
    let portals = luns::luns(&Door::of(&host, &config)?, &config, &secrets, &identity)?;
    if output.json {
        print_json(&LUNS, &portals)?;
    } else {
        print_out(&page(&portals, config.lun.min_size));
    }
    if portals.iter().all(|at| at.luns.is_empty() && at.problem.is_some()) {
        fail!(NoSession, "no portal has shown its LUNs; the reason stands beside each");
    }
    Ok(())
}

fn page(portals: &[PortalLuns], least: Bytes) -> String {
    let mut page = Page::default();
    for PortalLuns { portal, luns, problem } in portals {
        page.line("portal", portal.to_string());
        for lun in luns {
            page.line("", line(lun, least));
        }
        match (problem, luns.is_empty()) {
            (Some(problem), _) => page.line("", problem),
            (None, true) => page.line("", "no LUN: map one to this node's initiator name there"),
            (None, false) => {}
        }
    }
    page.0
}

fn line(lun: &VisibleLun, least: Bytes) -> String {
    let number = match lun.number {
        Some(number) if u64::from(number.0) == lun.address => format!("LUN {number}"),
        Some(number) => format!("LUN {number} ({}, {} in the kernel)", lun.method, lun.address),
        None => format!("no number ({}, {} in the kernel)", lun.method, lun.address),
    };
    let wwid = lun.wwid.as_ref().map_or("no WWID".to_owned(), |wwid| format!("wwid = \"{wwid}\""));
    let size = lun.size.map_or("size unknown".to_owned(), |size| size.to_string());
    let wanted = match lun.size {
        _ if !lun.is_wanted => String::new(),
        Some(size) if size < least => {
            format!("; the config names it, and it is TOO SMALL: `lun.min_size` is {least}")
        }
        Some(_) | None => "; the config names it".into(),
    };
    format!("{number}, {wwid}, {size}, {}{wanted}", lun.content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::LunNumber;

    #[test]
    fn a_person_can_copy_the_wwid() {
        let lun = |number, address, method| VisibleLun {
            number: Some(LunNumber(number)),
            address,
            method,
            wwid: Some("naa.60000000000000000bed000000000300".parse().unwrap()),
            size: Some(Bytes(1 << 30)),
            content: "blank".into(),
            is_wanted: address == 16_684,
        };
        let portals = [
            PortalLuns {
                portal: "10.77.0.1".parse().unwrap(),
                luns: vec![lun(44, 44, "peripheral"), lun(300, 16_684, "flat")],
                problem: None,
            },
            PortalLuns { portal: "10.78.0.1".parse().unwrap(), luns: vec![], problem: None },
            PortalLuns {
                portal: "10.79.0.1".parse().unwrap(),
                luns: vec![],
                problem: Some("no answer".into()),
            },
        ];
        assert_eq!(
            page(&portals, Bytes(1 << 30)),
            "portal          10.77.0.1:3260\n\
                \x20               LUN 44, wwid = \"naa.60000000000000000bed000000000300\", 1GiB, blank\n\
                \x20               LUN 300 (flat, 16684 in the kernel), wwid = \"naa.60000000000000000bed000000000300\", 1GiB, blank; the config names it\n\
             portal          10.78.0.1:3260\n\
                \x20               no LUN: map one to this node's initiator name there\n\
             portal          10.79.0.1:3260\n\
                \x20               no answer\n"
        );
        let small = page(&portals[..1], Bytes(8 << 30));
        assert_eq!(small.matches("TOO SMALL: `lun.min_size` is 8GiB").count(), 1, "{small}");
    }
}
