use std::collections::BTreeMap;

use super::*;
use crate::load::Prepared;
use crate::plan::Plan;

fn plan(load: &str, more: &str) -> Plan {
    let folder = tempfile::tempdir().expect("a folder");
    let api = "openapi: 3.1.0\ninfo: {title: A, version: '1'}\nservers: [{url: 'http://127.0.0.1:9001'}]\npaths:\n  \
        /items/{id}:\n    parameters: [{name: id, in: path, required: true}]\n    get: {operationId: item, responses: {}}\n  \
        /other:\n    servers: [{url: 'http://127.0.0.1:9002/v1'}]\n    get: {operationId: other, responses: {}}\n";
    std::fs::write(folder.path().join("api.yaml"), api).expect("a file");
    let text = format!(
        "name: t\napi: api.yaml\ngateways: [nginx]\nworkloads:\n  - name: w\n    operations:\n      \
         - {{id: item, params: {{id: {{int: [3, 9]}}}}, weight: 0}}\n      - {{id: other}}\n    load: {load}\n{more}"
    );
    let file = folder.path().join("e.yaml");
    std::fs::write(&file, text).expect("a file");
    Plan::read(&file).unwrap_or_else(|error| panic!("{error}"))
}

fn gateway() -> Addressed {
    Addressed::Gateway("127.0.0.1:5000".parse().expect("an address"), Box::default())
}

fn load(plan: &Plan) -> &Load {
    match &plan.workloads[0].load {
        PlannedLoad::Fixed(load) => load,
        PlannedLoad::Search(_) => panic!("no search"),
    }
}

#[test]
fn direct_goes_to_each_upstream_and_a_gateway_gets_everything() {
    let plan = plan("{closed: {users: 2, duration: 1s}}", "");
    let origins = BTreeMap::from([("http://127.0.0.1:9001".to_owned(), "http://127.0.0.1:4000".to_owned())]);
    let bases = |addressed: &Addressed| -> Vec<(String, String)> {
        let workload = measured(&plan.workloads[0], addressed, &Made::new(), load(&plan));
        workload.operations.into_iter().map(|one| (one.base.unwrap_or_default(), one.path)).collect()
    };
    let pairs = |list: [(&str, &str); 2]| list.map(|(base, path)| (base.to_owned(), path.to_owned())).to_vec();
    assert_eq!(
        bases(&Addressed::Direct(origins, Box::default())),
        pairs([("http://127.0.0.1:4000", "/items/{id}"), ("http://127.0.0.1:9002", "/v1/other")]),
        "an origin without a port of ours is asked where it is"
    );
    assert_eq!(
        bases(&gateway()),
        pairs([("http://127.0.0.1:5000", "/items/{id}"), ("http://127.0.0.1:5000", "/v1/other")])
    );
}

#[test]
fn the_warm_up_is_the_same_load_and_does_not_count() {
    let of = |load_text: &str, more: &str| -> Vec<(String, bool, Load)> {
        let plan = plan(load_text, more);
        let addressed = gateway();
        let workload = measured(&plan.workloads[0], &addressed, &Made::new(), load(&plan));
        Prepared::new(&workload).expect("the generator takes it");
        match workload.load {
            Load::Phases(phases) => phases
                .into_iter()
                .map(|phase| {
                    let load = phase.closed.map(Load::Closed).or(phase.open.map(Load::Open));
                    (phase.name, phase.warmup, load.expect("one of both"))
                })
                .collect(),
            single => vec![("only".to_owned(), false, single)],
        }
    };
    let closed = of("{closed: {users: 7, duration: 3s}}", "");
    assert_eq!(closed.len(), 2);
    assert_eq!((closed[0].0.as_str(), closed[0].1), ("warm-up", true));
    let Load::Closed(warm) = &closed[0].2 else { panic!("closed as the load") };
    assert_eq!((warm.users, warm.duration, warm.iterations), (Span::Constant(7), Some(Duration::from_secs(2)), None));
    // Requests that are counted leave traces: none more than were requested.
    assert_eq!(of("{closed: {users: 7, iterations: 50}}", "").len(), 1);
    let some = of("{closed: {users: 7, iterations: 50}}", "    warmup: {iterations: 14}\n");
    let Load::Closed(warm) = &some[0].2 else { panic!("closed as the load") };
    assert_eq!((warm.iterations, warm.duration), (Some(14), None));
    let ramp = of("{open: {rate: {from: 10/s, to: 90/s}, duration: 3s}}", "    warmup: 500ms\n");
    let Load::Open(warm) = &ramp[0].2 else { panic!("open as the load") };
    assert_eq!((warm.rate, warm.duration), (Rates::Constant(10.0), Duration::from_millis(500)));
    assert_eq!(of("{closed: {users: 7, duration: 3s}}", "    warmup: 0s\n").len(), 1);
    let own = "{phases: [{name: up, warmup: true, closed: {users: 1, duration: 1s}}, {name: a, closed: {users: 2, duration: 1s}}]}";
    assert_eq!(of(own, "").len(), 2, "phases with a warm-up of their own get no other");
}

#[test]
fn generators_of_others_get_the_load_without_its_first_warm_ups() {
    let phases = "{phases: [{name: up, warmup: true, closed: {users: 1, duration: 1s}}, {name: a, closed: {users: 2, duration: 1s}}, \
        {name: again, warmup: true, closed: {users: 1, duration: 1s}}, {name: b, closed: {users: 2, duration: 1s}}]}";
    for (more, warm_ups) in [("", 1), ("    warmup: 500ms\n", 2)] {
        let plan = plan(phases, more);
        let names = |workload: workload::Workload| -> Vec<(String, bool)> {
            Prepared::new(&workload).expect("the generator takes it");
            let Load::Phases(phases) = workload.load else { panic!("phases") };
            phases.into_iter().map(|phase| (phase.name, phase.warmup)).collect()
        };
        let (addressed, made) = (gateway(), Made::new());
        let left = names(plain(&plan.workloads[0], &addressed, &made, load(&plan)));
        assert_eq!(left, [("a", false), ("again", true), ("b", false)].map(|(name, warmup)| (name.to_owned(), warmup)));
        let before = warmup_only(&plan.workloads[0], &addressed, &made, load(&plan)).expect("there is one");
        assert_eq!(names(before).len(), warm_ups);
    }
    let none = plan("{phases: [{name: a, closed: {users: 2, iterations: 4}}]}", "");
    assert!(warmup_only(&none.workloads[0], &gateway(), &Made::new(), load(&none)).is_none());
}

#[test]
fn both_systems_are_sent_the_same_before_the_load() {
    let plan = plan("{closed: {users: 2, duration: 1s}}", "");
    let addressed = gateway();
    let workload = for_conformance(&plan.workloads[0], &addressed, &Made::new());
    assert_eq!(workload.operations[0].params["id"], Source::Fixed("3".to_owned()), "the first value, not any");
    assert_eq!(workload.operations[0].weight, 1.0, "also what the load never asks");
}

#[test]
fn a_load_in_words_and_figures() {
    let of = |text: &str| {
        let plan = plan(text, "");
        (describe(&plan.workloads[0].load), figures(&plan.workloads[0].load))
    };
    let (words, planned) = of("{closed: {users: 1, iterations: 400}}");
    assert_eq!(words, "closed, 1 user, 400 requests");
    assert_eq!((planned.concurrency, planned.requests, planned.duration_s), (Some(1.0), Some(400), None));
    let (words, planned) = of("{open: {rate: 500/s, duration: 15s}}");
    assert_eq!(words, "open, 500/s, 15s");
    assert_eq!((planned.rate, planned.duration_s, planned.requests), (Some(500.0), Some(15.0), None));
}
