//! Writes the config for a person.

use super::page::Page;
use config::{
    Backing, Certificates, ClusterConfig, Config, Digests, Discovery, Gate, NodeRow, Runtime, SecretSource,
    Target,
};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt::Write as _;
use terms::{AbsPath, ChapAlg, Wwid};

/// A file in the directory of fragments that is not read.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Skipped {
    /// The file.
    pub path: String,
    /// Why it is not read.
    pub why: &'static str,
}

/// The files of the config.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Files {
    /// The files that were read, in this order.
    pub read: Vec<String>,
    /// The files in the directory of fragments that were not read.
    pub not_read: Vec<Skipped>,
}

/// `config check`
pub(super) fn config(config: &Config, whose: &str, found: &Files) -> String {
    let mut page = Page::default();
    files(&mut page, found);
    page.line("host", whose);
    page.line("node entry", &config.node.chosen_by);
    if !config.node.migrate {
        page.line(
            "NOT YET",
            "`migrate = false`: etcd stays on the local disk if it is there; without that line it moves",
        );
    }
    let wwid = match (&config.node.wwid, config.node.wwids.as_slice()) {
        (Some(wwid), _) => wwid.to_string(),
        (None, []) => "any WWID".into(),
        (None, listed) => format!("one of {}", wwids(listed)),
    };
    let least = format!("{wwid}, at least {}", config.lun.min_size);
    match &config.backing {
        Backing::Iscsi(iscsi) => {
            page.line("initiator", iscsi.initiator.as_str());
            let number = iscsi.lun.number.map_or("any number".into(), |number| format!("number {number}"));
            page.line("LUN", format!("{number}, {least}"));
            target(&mut page, &iscsi.target);
        }
        Backing::Device(device) => {
            page.line("device", device.path.to_string());
            page.line("LUN", format!("this disk, {least}"));
        }
    }
    let runtime = match &config.etcd.runtime {
        Runtime::Systemd { unit } => unit.clone(),
        Runtime::StaticPod { manifest } => format!("static pod of {manifest}"),
    };
    page.line("etcd", format!("{runtime}, data in {}", config.etcd.data_dir));
    page.line("XFS label", config.lun.label.to_string());
    page.line("mount options", config.lun.unit_options(config.backing.iscsi().is_some()).join(","));
    page.line(
        "gate",
        match config.boot.gate {
            Gate::Etcd => "etcd: without the LUN etcd stays down, the kubelet starts",
            Gate::Kubelet => "kubelet: without the LUN CRI-O and the kubelet stay down",
        },
    );
    page.line("attach timeout", config.boot.attach_timeout.to_string());
    page.line(
        "limit",
        format!("etcd is not stopped while its last blocks take more than {}", config.lun.max_switch),
    );
    page.line("old local data", format!("kept for {} at least", config.lun.keep_retired));
    if let Some(limit) = config.lun.require_fsync_p99 {
        page.line("required speed", format!("99 of 100 fdatasync calls within {limit}"));
    }
    page.line(
        "etcd's metrics",
        config.etcd.metrics.as_ref().map_or("not configured".into(), ToString::to_string),
    );
    cluster(&mut page, &config.cluster);
    page.line(
        "health",
        format!(
            "every {}, metrics written to {} if its directory exists",
            config.health.interval, config.health.textfile
        ),
    );
    page.0
}

fn files(page: &mut Page, found: &Files) {
    page.line("read", found.read.join("\n"));
    let skipped: Vec<_> = found.not_read.iter().map(|file| format!("{}: {}", file.path, file.why)).collect();
    page.line("NOT read", skipped.join("\n"));
}

/// `config check` on a machine that is no node.
pub(super) fn nodes(rows: &[NodeRow], whose: &str, found: &Files) -> String {
    let mut page = Page::default();
    files(&mut page, found);
    page.line("host", format!("{whose}: no node of this config; secrets were not read"));
    let cells = rows.iter().map(|row| {
        let own = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        [
            row.name.clone(),
            own(row.initiator.as_ref().map(ToString::to_string)),
            row.place.to_string(),
            match (&row.wwid, row.wwids.as_slice()) {
                (Some(wwid), _) => wwid.to_string(),
                (None, []) => "any".into(),
                (None, listed) => format!("one of {}", wwids(listed)),
            } + if row.migrate { "" } else { "  (not yet: `migrate = false`)" },
        ]
    });
    let head = ["NODE", "INITIATOR", "LUN", "WWID"].map(str::to_owned);
    let table: Vec<_> = std::iter::once(head).chain(cells).collect();
    let width = |at: usize| table.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths = [width(0), width(1), width(2)];
    page.0.push('\n');
    for [name, initiator, place, wwid] in &table {
        let [one, two, three] = widths;
        let _ = writeln!(page.0, "{name:<one$}  {initiator:<two$}  {place:<three$}  {wwid}");
    }
    page.0
}

fn wwids(listed: &[Wwid]) -> String {
    listed.iter().map(Wwid::as_str).collect::<Vec<_>>().join(", ")
}

fn cluster(page: &mut Page, cluster: &ClusterConfig) {
    let port = cluster.http_port.map(|port| format!(", HTTP at port {port}")).unwrap_or_default();
    page.line("cluster", format!("asked at {}{port}", cluster.client_url));
    if cluster.client_url.is_tls() {
        let Certificates { authority, certificate, key } = &cluster.certificates;
        let own = |path: &Option<AbsPath>| path.as_ref().map_or("by default".into(), ToString::to_string);
        page.line("", format!("CA {}, certificate {}, key {}", own(authority), own(certificate), own(key)));
    }
    let quorum = if cluster.without_quorum {
        "WITHOUT A QUORUM: by hand etcd is stopped whatever the other members do (`cluster.without_quorum`)"
            .into()
    } else {
        format!(
            "by hand etcd is stopped only while the others are a quorum, and must serve again within {}",
            cluster.serve_timeout
        )
    };
    page.line("", quorum);
}

fn target(page: &mut Page, target: &Target) {
    page.line("target", target.iqn.as_str());
    page.line("portals", target.portals.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "));
    let discovery = match target.discovery {
        Discovery::SendTargets => "sendtargets",
        Discovery::Static => "static",
    };
    page.line("discovery", discovery);
    let timeouts = &target.timeouts;
    page.line("writes wait for", timeouts.replacement.to_string());
    let pings = |multipathd| {
        let [interval, timeout] = timeouts.pings(target.has_paths(multipathd));
        format!("every {interval}, answered within {timeout}")
    };
    let [without, with] = [false, true].map(pings);
    page.line("pings", if with == without { with } else { format!("{without}; with multipathd {with}") });
    let digests = target.digests.map_or("as iscsid.conf says", |digests| match digests {
        Digests::None => "none: only TCP's checksum",
        Digests::Crc32c => "CRC32C, of headers and data",
    });
    page.line("digests", digests);
    if target.multipath {
        page.line("multipath", "required: a LUN without a map is not used");
    }
    for (label, chap) in [("CHAP", &target.chap), ("discovery CHAP", &target.discovery_chap)] {
        page.line(
            label,
            match chap {
                None => "none".into(),
                Some(chap) => {
                    let mutual = chap
                        .mutual
                        .as_ref()
                        .map(|(name, secret)| format!(", mutual: {name}, secret {}", source(secret)));
                    let algs = match ChapAlg::list(&chap.algs) {
                        algs if algs.is_empty() => algs,
                        algs => format!(", by {algs}"),
                    };
                    format!(
                        "{}, secret {}{}{algs}",
                        chap.username,
                        source(&chap.password),
                        mutual.unwrap_or_default()
                    )
                }
            },
        );
    }
}

fn source(secret: &SecretSource) -> String {
    match secret {
        SecretSource::Inline(_) => "in the config".into(),
        SecretSource::File(path) => format!("in {path}"),
        SecretSource::Credential(name) => format!("in the credential {name}"),
    }
}
