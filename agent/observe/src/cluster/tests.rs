use super::*;

fn status() -> Status {
    Status {
        cluster: 1,
        member: 2,
        leader: 3,
        committed: 20_000,
        applied: 20_000,
        learner: false,
        errors: Vec::new(),
    }
}

#[test]
fn an_election_is_no_agreement() {
    let led_by = |leader| Status { leader, ..status() };
    for (own, others, agreed) in [
        (3, vec![3, 3], true),
        (3, vec![3], true),
        (3, vec![], true),
        (3, vec![4, 4], false),
        (3, vec![3, 0], false),
        (0, vec![0, 0], false),
        (0, vec![], false),
    ] {
        let others: Vec<_> = others.into_iter().map(led_by).collect();
        assert_eq!(agree(&led_by(own), others.iter()), agreed, "{own} {others:?}");
    }
}

fn of_cluster(healthy: [bool; 2], learner: bool) -> Cluster {
    let member = |name: &str, is_healthy: bool| {
        let health = if is_healthy { MemberHealth::Healthy } else { MemberHealth::NotHealthy("late".into()) };
        Member { name: name.into(), learner: false, health }
    };
    let own = Member { learner, ..member("a", true) };
    Cluster { own, leader: Some("a".into()), others: vec![member("b", healthy[0]), member("c", healthy[1])] }
}

/// A member that was just started answers late. The others are asked again before a stop is refused, and only for a stop.
#[test]
fn a_late_member_is_asked_again_before_a_stop() {
    let (late, whole) = (of_cluster([true, false], false), of_cluster([true, true], false));
    for (looks, patient, asked, found) in [
        (vec![(&late, true), (&whole, true)], true, 2, &whole),
        (vec![(&late, true), (&late, true), (&late, false), (&whole, true)], true, 4, &whole),
        (vec![(&late, true); 5], true, LOOKS, &late),
        (vec![(&late, true), (&whole, true)], false, 1, &late),
        (vec![(&whole, false), (&whole, true)], false, 2, &whole),
        // Nobody needs the one that is late.
        (vec![(&of_cluster([true, false], true), true); 2], true, 1, &of_cluster([true, false], true)),
    ] {
        let count = std::cell::Cell::new(0);
        let ask = || {
            let (cluster, agreed) = looks[count.replace(count.get() + 1)];
            Ok((cluster.clone(), agreed))
        };
        assert_eq!(settled(ask, patient, || true).as_ref(), Ok(found), "{looks:?}");
        assert_eq!(count.get(), asked, "{looks:?}");
    }
    assert_eq!(settled(|| Ok((late.clone(), true)), true, || false), Ok(late.clone()));
}

fn config(runtime: &str) -> Config {
    let text = format!("[device]\npath = \"/dev/disk/by-id/x\"\n[etcd]\nruntime = \"{runtime}\"\n");
    Config::load(&[config::Source { path: "config.toml".into(), text }], "m", "a").unwrap()
}

const GRPC: &str = "curl: (1) Received HTTP/0.9 when not allowed";

/// Where etcd answers HTTP at a port of its own, its client port is no place to ask, whatever happens at the other one.
#[test]
fn a_port_of_grpc_is_no_finding_about_an_etcd_that_starts() {
    let failed = |code| Err(ApiError::Failed { code, said: String::new() });
    let (no, late, grpc, tls) = (failed(7), failed(28), failed(1), failed(60));
    let url: ClientUrl = "https://10.0.0.1:2379".parse().unwrap();
    for (at_http, at_own, found) in [
        (vec![Ok(())], vec![], (Some(2381), Ok(()))),
        // It has begun to listen at both ports between the first two questions.
        (vec![no.clone(), Ok(())], vec![grpc.clone()], (Some(2381), Ok(()))),
        (vec![no.clone(), late.clone()], vec![grpc.clone()], (Some(2381), late.clone())),
        (vec![late.clone(), late.clone()], vec![grpc.clone()], (Some(2381), late.clone())),
        (vec![tls.clone()], vec![grpc.clone()], (Some(2381), tls.clone())),
        // Nobody has that port.
        (vec![no.clone(), no.clone()], vec![grpc.clone()], (None, grpc.clone())),
        (vec![no.clone()], vec![Ok(())], (None, Ok(()))),
        (vec![late.clone()], vec![no.clone()], (None, no.clone())),
    ] {
        let left = std::cell::RefCell::new([at_http.into_iter(), at_own.into_iter()]);
        let ask = |url: &ClientUrl| {
            let [http, own] = &mut *left.borrow_mut();
            if url.to_string().ends_with(":2381") { http.next() } else { own.next() }.unwrap()
        };
        assert_eq!(over_http(&config("static-pod"), &url, ask), found);
        assert!(left.into_inner().iter_mut().all(|left| left.next().is_none()), "{found:?}");
    }
}

/// A member whose pod has the older manifest answers HTTP at its client port, where the newer one answers gRPC only.
#[test]
fn each_member_is_asked_where_it_answers_http() {
    let line = |at: &str| {
        format!(
            "curl --disable --silent --show-error --proto =http,https --max-time 10 --max-filesize 8388608 --http1.1 \
             --no-buffer --fail-early --output - --output /dev/full --globoff --data-raw '{{}}' --write-out '\n%{{http_code}}' \
             http://{at}/v3/maintenance/status http://{at}/version"
        )
    };
    let [newer, older]: [ClientUrl; 2] =
        ["http://10.0.0.1:2379", "http://10.0.0.2:2379"].map(|url| url.parse().unwrap());
    let answer = "{\"header\":{\"member_id\":\"7\"}}\n200\n405";
    let curl = host::transcript::Transcript::default()
        .on(&line("10.0.0.1:2379"), 1, "", GRPC)
        .on(&line("10.0.0.1:2381"), 23, answer, "")
        .on(&line("10.0.0.2:2379"), 23, answer, "")
        .on(&line("10.0.0.2:2381"), 7, "", "curl: (7) Connection refused");
    let host = Host::fixture(host::Root::new("/"), Box::new(curl)).unwrap();
    let with = Certificates::default();
    for port in [None, Some(OPENSHIFT_HTTP_PORT)] {
        let urls = [newer.clone(), older.clone()];
        let found = statuses(&host, &config("static-pod"), &urls, port, &with);
        let at: Vec<_> = found.iter().map(|(at, answer)| (at.to_string(), answer.is_ok())).collect();
        assert_eq!(at, [("http://10.0.0.1:2381".into(), true), ("http://10.0.0.2:2379".into(), true)]);
    }
    let found = statuses(&host, &config("systemd"), &[newer], None, &with);
    let said = found[0].1.as_ref().unwrap_err().to_string();
    assert!(said.starts_with("it does not answer as etcd does") && !said.contains("HTTP/0.9"), "{said}");
}

#[test]
fn each_fault_of_a_member_that_answers_is_found() {
    let member = ListedMember { id: 2, name: "b".into(), learner: false, urls: Vec::new() };
    let own = Status { member: 9, ..status() };
    let found = |change: fn(&mut Status)| {
        let mut status = status();
        change(&mut status);
        fault(&member, &status, &own, 20_000).unwrap_or_default()
    };
    for (change, said) in [
        ((|_| ()) as fn(&mut Status), ""),
        (|status| status.applied = 15_000, ""),
        (|status| status.applied = 14_999, "5001 entries"),
        (|status| status.leader = 0, "no leader"),
        (|status| status.leader = 4, "another leader"),
        (|status| status.cluster = 8, "another cluster"),
        (|status| status.errors = vec!["memberID:2 alarm:NOSPACE".into()], "NOSPACE"),
        (|status| status.learner = true, "promoted"),
    ] {
        let found = found(change);
        assert_eq!(found.is_empty(), said.is_empty(), "{found}");
        assert!(found.contains(said), "{found}");
    }
}

/// A member that reads its log is nothing to cure.
#[test]
fn a_member_that_starts_is_not_alarming() {
    let failed = |code| NotServing::Unanswered {
        url: "http://127.0.0.1:2379".parse().unwrap(),
        error: ApiError::Failed { code, said: "curl: …".into() },
    };
    for silent in [7, 28] {
        assert_eq!(failed(silent).so_far(), "the member at http://127.0.0.1:2379 has not answered yet");
        assert!(failed(silent).to_string().contains("`cluster.client_url`"));
    }
    for code in [7, 28, 35, 55, 56, 58, 60, 77, 52, 6] {
        assert!(failed(code).to_string().contains("check `cluster."), "{code}");
    }
    assert!(failed(60).to_string().contains("has expired"));
    let wrong = failed(60).so_far();
    assert!(wrong.contains("has not answered yet: ") && wrong.contains("certificate"), "{wrong}");
}
