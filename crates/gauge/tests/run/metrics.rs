//! `gauge run --metrics`: a scrape while it runs.

use std::io::{BufRead, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::wait;

use super::campaign::Campaign;

const LONG: Duration = Duration::from_secs(120);

/// Two services of gauge's own; a load that lasts long enough to be seen, in two phases.
const SERVICES: &str = "name: scraped
api: api.yaml
systems:
  - name: one
    command: ['{gauge}', demo, --listen, '{address}:{http}']
    ports: {http: 'http://127.0.0.1:8090'}
    ready: 'http://{address}:{http}/healthz'
control: false
repeats: 1
warmup: 100ms
workloads:
  - {name: write, operations: [{id: addItem}], load: {phases: [{name: few, closed: {users: 2, duration: 3s}}, {name: many, closed: {users: 4, duration: 3s}}]}}
";

/// `name{labels} value` of a page.
fn samples<'p>(page: &'p str, name: &str) -> Vec<(&'p str, f64)> {
    let own = page.lines().filter_map(|line| line.strip_prefix(name)).filter(|rest| rest.starts_with(['{', ' ']));
    own.filter_map(|rest| rest.rsplit_once(' '))
        .map(|(labels, value)| (labels, value.parse().expect("a number")))
        .collect()
}

fn scrape(address: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("text/plain; version=0.0.4"), "{head}");
    Some(body.to_owned())
}

#[test]
fn a_run_is_scraped_while_it_goes_on() {
    let campaign = Campaign::new(SERVICES);
    let mut running = campaign.start_with(&["--metrics", "0"]);
    let mut said = running.stderr().lines();
    let line = said.by_ref().map_while(Result::ok).find(|line| line.starts_with("metrics on http://127.0.0.1:"));
    let line = line.expect("the address is said");
    let address = line.trim_start_matches("metrics on http://").trim_end_matches("/metrics").to_owned();
    // Whoever writes to a pipe that nobody reads waits.
    let rest = std::thread::spawn(move || said.map_while(Result::ok).last());
    let mut page = String::new();
    wait::until(LONG, "a load that is seen", || {
        page = scrape(&address).unwrap_or_default();
        !samples(&page, "gauge_latency_seconds").is_empty() && !samples(&page, "gauge_processors_used").is_empty()
    });
    let one = "{system=\"one\",workload=\"write\"}";
    let first = samples(&page, "gauge_responses_total");
    assert!(first.len() == 1 && first[0].0 == one && first[0].1 > 0.0, "{page}");
    assert!(page.contains("gauge_campaign_info{campaign=\"") && page.contains("name=\"scraped\""), "{page}");
    let trial = samples(&page, "gauge_trial_info");
    assert!(trial.len() == 1 && trial[0].0.contains("system=\"one\",workload=\"write\""), "{page}");
    for name in ["gauge_planned_users", "gauge_achieved_requests_per_second", "gauge_memory_bytes"] {
        assert!(samples(&page, name).iter().any(|(_, value)| *value > 0.0), "{name}: {page}");
    }
    assert!(samples(&page, "gauge_failures_total").iter().all(|(_, value)| *value == 0.0), "{page}");
    wait::until(LONG, "counters that rise", || {
        let later = samples(&scrape(&address).unwrap_or_default(), "gauge_responses_total").first().map(|own| own.1);
        later.is_some_and(|later| later > first[0].1)
    });
    // Prometheus' own check of names, types and help, where it is installed.
    if let Ok(mut promtool) = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        promtool.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("written");
        let output = promtool.wait_with_output().expect("it ends");
        assert!(
            output.status.success(),
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(running.wait(), 0, "{:?}", rest.join());
    assert_eq!(scrape(&address), None, "it ends with the run");
    campaign.nothing_runs();
}

#[test]
fn an_address_that_cannot_be_had_ends_the_run_before_it_begins() {
    let campaign = Campaign::new(SERVICES);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let finished = campaign.run(&["--metrics", &port]);
    assert_eq!(finished.code, 71, "{}", finished.text());
    assert!(finished.stderr.contains(&format!("cannot serve metrics on 127.0.0.1:{port}: ")), "{}", finished.text());
    assert!(!campaign.out.exists(), "nothing was measured");
    let wrong = campaign.run(&["--metrics", "nowhere"]);
    assert!(wrong.code != 0 && wrong.stderr.contains("expected ADDRESS:PORT or a port"), "{}", wrong.text());
}
