//! Campaigns that are killed at any moment. `GAUGE_KILLS` says how often (`make kills`: 50).

use std::time::{Duration, Instant};

use gauge::history::{Filter, History, Target};

use super::campaign::Campaign;

/// Two services in two rounds, as short as they can be.
const SERVICES: &str = "name: killed
api: api.yaml
systems:
  - {name: one, command: &demo ['{gauge}', demo, --listen, '{address}:{http}'], ports: &ports {http: 'http://127.0.0.1:8090'}, ready: &ready 'http://{address}:{http}/healthz'}
  - {name: two, command: *demo, ports: *ports, ready: *ready}
control: false
repeats: 2
warmup: 0s
workloads:
  - {name: write, operations: [{id: addItem}], load: {closed: {users: 2, duration: 100ms}}}
  - {name: read, operations: [{id: echo}], load: {closed: {users: 2, duration: 100ms}}}
";

/// Two services, two rounds, two workloads.
const TRIALS: usize = 8;

/// What the history has: the state of the campaign and how many trials; that it can be opened, listed and loaded is part of what is tested.
fn stored(campaign: &Campaign) -> Option<(String, usize)> {
    let file = campaign.path("data/gauge/history.db");
    if !file.exists() {
        return None;
    }
    let target = Target::find(Some(&file.to_string_lossy())).expect("a store").expect("not none");
    let history = History::open(&target).unwrap_or_else(|error| panic!("{error}"));
    let groups = history.list(&Filter::default()).unwrap_or_else(|error| panic!("{error}"));
    let mut ids: Vec<String> = groups.into_iter().map(|group| group.campaign).collect();
    ids.dedup();
    assert!(ids.len() < 2, "the same campaign goes on: {ids:?}");
    let stored = history.load(ids.first()?).unwrap_or_else(|error| panic!("{error}"));
    Some((stored.status, stored.results.trials.len()))
}

/// What holds whenever it was killed: no file is half written, and nothing is taken for what still runs.
fn is_consistent(campaign: &Campaign) {
    campaign.everything_ends();
    let trials = campaign.trials();
    assert!(trials.len() <= TRIALS, "{trials:?}");
    if let Some((status, count)) = stored(campaign) {
        assert!(count <= TRIALS && (status == "aborted" || (status == "done" && count == TRIALS)), "{status}, {count}");
    }
}

fn is_complete(campaign: &Campaign) {
    let trials = campaign.trials();
    assert_eq!(trials.len(), TRIALS, "{trials:?}");
    assert!(trials.iter().all(|trial| trial["state"] == "done"), "{trials:?}");
    assert_eq!(stored(campaign), Some(("done".to_owned(), TRIALS)));
    campaign.nothing_runs();
}

#[test]
fn a_campaign_that_is_killed_at_any_moment_is_completed_by_resume() {
    let kills: u32 = std::env::var("GAUGE_KILLS").map_or(4, |text| text.parse().expect("a number"));
    let whole = Campaign::new(SERVICES);
    let begun = Instant::now();
    let finished = whole.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    let takes = begun.elapsed();
    is_complete(&whole);
    let (mut killed, mut completed) = (0, 0);
    while killed < kills {
        let campaign = Campaign::new(SERVICES);
        let mut more: &[&str] = &[];
        // Also while it is resumed, at times.
        loop {
            let process = campaign.start_with(more);
            // This is what is tested: any moment.
            std::thread::sleep(Duration::from_secs_f64(takes.as_secs_f64() * fastrand::f64()));
            process.kill();
            killed += 1;
            is_consistent(&campaign);
            // Before that there is nothing.
            more = if campaign.out.join("lock").exists() { &["--resume"] } else { &[] };
            if killed >= kills || fastrand::bool() {
                break;
            }
        }
        let kept = campaign.raw();
        let finished = campaign.run(more);
        assert_eq!(finished.code, 0, "{}", finished.text());
        is_complete(&campaign);
        completed += 1;
        // The trials of a system in a round are kept together as they are, here two of them.
        let done =
            |name: &str| kept.iter().filter(|(own, text)| own.starts_with(name) && text.contains("\"done\"")).count();
        for round in ["r01-one.", "r01-two.", "r02-one.", "r02-two."].into_iter().filter(|round| done(round) == 2) {
            let now = campaign.raw();
            assert!(kept.iter().filter(|(name, _)| name.starts_with(round)).all(|file| now.contains(file)), "{round}");
        }
    }
    println!("killed {killed} times, completed {completed} times");
}

#[test]
fn resume_needs_something_to_go_on_with() {
    let campaign = Campaign::new(SERVICES);
    let refused = campaign.run(&["--resume"]);
    assert!(refused.code == 64 && refused.stderr.contains("nothing to resume in out"), "{}", refused.text());
    assert!(!campaign.out.exists(), "nothing was made");
    assert_eq!(campaign.run(&["--resume", "--fresh"]).code, 64, "one or the other");
}
