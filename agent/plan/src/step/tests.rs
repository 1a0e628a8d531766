//! The form of steps in JSON, which `plan --json` promises: the name, and beside it what the step carries.

use super::*;
use config::{Discovery, Runtime};
use node::authority::{Authority, LunUse};
use std::time::Duration;
use terms::{Bytes, LunNumber, Nonce, WantedLun};

fn term<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

#[test]
fn json_of_a_step_is_flat() {
    let at: AbsPath = term("/var/lib/etcd");
    let (wwid, uuid) = (
        term::<Wwid>("naa.60014050123456789abcdef012345678"),
        term::<FsUuid>("0b8d7a5e-9a4c-4b7e-8f0e-3f1c2d4e5a6b"),
    );
    let limit = Span(Duration::from_secs(5));
    let runtime = Runtime::StaticPod { manifest: term("/etc/kubernetes/manifests/etcd-pod.yaml") };
    let copy = Copy {
        from: at.clone(),
        way: Way::ToLocal { generation: 2 },
        size: Some(Bytes(4096)),
        onto_empty: true,
        provisional: true,
    };
    let record = Record::begin(1, uuid, wwid.clone(), at.clone(), Nonce([1; 16]));
    let stamp =
        Stamp::new(1, "cafe".into(), "node-1".into(), LunUse { activations: 3, nonce: Nonce([3; 16]) });
    let steps = [
        Step::Node(NodeStep::LogOut { sid: 4 }),
        Step::Node(NodeStep::LogIn(LogIn {
            target: term("iqn.2024-01.com.example:etcd"),
            initiator: term("iqn.2024-01.com.example:node-1"),
            portals: vec![term("10.0.0.1:3260")],
            discovery: Discovery::SendTargets,
            all: true,
            noop_interval: limit,
            noop_timeout: limit,
            digests: None,
            limit,
        })),
        Step::Node(NodeStep::AttachLun(AttachLun {
            target: term("iqn.2024-01.com.example:etcd"),
            initiator: term("iqn.2024-01.com.example:node-1"),
            lun: WantedLun { number: Some(LunNumber(0)), wwid: None },
            everywhere: false,
            elsewhere: None,
            limit,
        })),
        Step::Protocol(ProtocolStep::Format(Format { wwid: wwid.clone(), uuid, label: term("etcd") })),
        Step::Protocol(ProtocolStep::Unstamp),
        Step::Protocol(ProtocolStep::PreCopy(copy.clone())),
        Step::Protocol(ProtocolStep::Copy(Copy { way: Way::ToLun, size: None, ..copy.clone() })),
        Step::Protocol(ProtocolStep::Prove {
            from: at.clone(),
            way: Way::ToLun,
            provisional: false,
            afresh: true,
        }),
        Step::Protocol(ProtocolStep::CatchUp(CatchUp { from: at.clone(), way: Way::ToLun, limit })),
        Step::Protocol(ProtocolStep::AwaitPodEnd {
            manifest: term("/etc/kubernetes/manifests/etcd-pod.yaml"),
        }),
        Step::Protocol(ProtocolStep::Confirm(Copy {
            way: Way::ToLun,
            size: None,
            provisional: false,
            ..copy
        })),
        Step::Protocol(ProtocolStep::Retire(Retire { from: at.clone(), generation: 1, fingerprint: None })),
        Step::Protocol(ProtocolStep::Mark(Mark { at: at.clone(), stamp, record })),
        Step::Protocol(ProtocolStep::MountData(MountData {
            at: at.clone(),
            wwid,
            uuid,
            options: vec!["_netdev".into()],
        })),
        Step::Protocol(ProtocolStep::StopEtcd(StopEtcd {
            runtime: runtime.clone(),
            needs_quorum: true,
            whole_pod: false,
        })),
        Step::Protocol(ProtocolStep::StartEtcd(StartEtcd {
            runtime,
            data_dir: at,
            on: Authority::Lun,
            wait: false,
        })),
        Step::Node(NodeStep::AwaitMember(AwaitMember {
            url: term("https://localhost:2379"),
            limit,
            may_be_learner: false,
        })),
    ];
    let lines: Vec<_> = steps.iter().map(|step| serde_json::to_string(step).unwrap()).collect();
    assert_eq!(lines.join("\n"), include_str!("tests.jsonl").trim_end());
}
