use super::*;

fn workload(load: &str) -> Workload {
    let yaml = format!(
        "base: http://127.0.0.1:4000\noperations: [{{id: a, path: '/{{n}}', params: {{n: {{counter: 7}}}}}}]\nload: {load}\n"
    );
    serde_saphyr::from_str(&yaml).expect("a workload")
}

#[test]
fn all_shares_together_are_the_load() {
    let shares = split(&workload("{closed: {users: 5, iterations: 100}}"), 3).expect("shares");
    let of = |share: &Workload| {
        let prepared = crate::load::Prepared::new(share).expect("it is prepared");
        (prepared.slots(), prepared.planned_requests())
    };
    // In proportion to the users, so that all end at about the same time.
    assert_eq!(shares.iter().map(of).collect::<Vec<_>>(), [(2, Some(40)), (2, Some(40)), (1, Some(20))]);
    let text = serde_json::to_string(&shares[1]).expect("JSON");
    assert_eq!(serde_json::from_str::<Workload>(&text).expect("a workload").share, Share { index: 1, of: 3 });
    let shares = split(&workload("{open: {rate: 100/s, duration: 1s, connections: 9}}"), 2).expect("shares");
    let of = |load: &Load| match load {
        Load::Open(Open { rate: Rates::Constant(rate), connections, .. }) => (*rate, *connections),
        other => panic!("{other:?}"),
    };
    assert_eq!(shares.iter().map(|share| of(&share.load)).collect::<Vec<_>>(), [(50.0, 5), (50.0, 4)]);
    let counters: Vec<&Source> = shares.iter().map(|share| &share.operations[0].params["n"]).collect();
    assert_eq!(counters, [&Source::Counter(7), &Source::Counter(100_000_007)]);
    assert_ne!(shares[0].seed, shares[1].seed);
}

#[test]
fn a_load_that_is_too_small_is_refused() {
    assert!(split(&workload("{closed: {users: 1, duration: 1s}}"), 2).is_err_and(|why| why.contains("1 users")));
    assert!(split(&workload("{closed: {users: 4, iterations: 3}}"), 2).is_err());
    assert!(split(&workload("{open: {rate: 9/s, duration: 1s, connections: 1}}"), 2).is_err());
    // A generator may have no user at one end of a ramp, and a warm-up gets the users that it needs.
    let phases = "{phases: [{name: warm-up, warmup: true, closed: {users: 1, iterations: 1}}, {name: load, closed: {users: {from: 1, to: 2}, duration: 1s}}]}";
    for share in split(&workload(phases), 2).expect("shares") {
        assert_eq!(crate::load::Prepared::new(&share).expect("it is prepared").slots(), 1);
    }
    let one = workload("{closed: {users: 1, duration: 1s}}");
    assert_eq!(split(&one, 1).expect("itself"), [one]);
}

#[test]
fn requests_go_where_the_other_machine_finds_the_gateway() {
    let mut one = workload("{closed: {users: 1, duration: 1s}}");
    one.operations[0].base = Some("https://127.0.0.1:40001/prefix".to_owned());
    let tunnel: SocketAddr = "127.0.0.1:40001".parse().expect("an address");
    seen_from(&mut one, |here| if here == tunnel { "10.0.0.5:8080".parse().expect("one") } else { here });
    assert_eq!(one.operations[0].base.as_deref(), Some("https://10.0.0.5:8080/prefix"));
    assert_eq!(one.base, "http://127.0.0.1:4000", "another port that begins alike");
}
