use super::*;

fn workload(yaml: &str) -> Workload {
    serde_saphyr::from_str(yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"))
}

const PLAIN: &str = "base: http://127.0.0.1:1234/api\noperations: [{id: get, path: '/a?b=1'}]\nload: {closed: {users: 4, duration: 2s}}\n";

const VALUES: &str = r#"
base: http://127.0.0.1:1234/api
timeout: 5s
operations:
  - {id: list, weight: 3, path: "/list/{page}", params: {page: {int: [1, 9]}}}
  - {id: bid, method: POST, path: "/bid", headers: {Content-Type: application/json, X-A: "q\"{n}"}, body: {text: '{"n":{n}}'}, params: {n: {int: [1, 3], order: sequence}}}
load: {closed: {users: 4, duration: 2s}}
"#;

fn args(tool: Tool, yaml: &str) -> (Vec<String>, tempfile::TempDir) {
    let folder = folder().expect("a folder");
    let invocation = tool.invocation(&workload(yaml), &Options::default(), folder.path()).expect("it can");
    let args = invocation.args.iter().map(|arg| arg.to_string_lossy().into_owned());
    // A JMeter that is started through java has two more.
    let args = args.skip_while(|arg| arg == "-jar" || arg.ends_with(".jar")).collect();
    (args, folder)
}

fn cannot(tool: Tool, yaml: &str) -> String {
    let folder = folder().expect("a folder");
    tool.invocation(&workload(yaml), &Options::default(), folder.path()).expect_err(yaml).to_string()
}

#[test]
fn wrk_is_told_with_options_or_with_a_script() {
    let (plain, _) = args(Tool::Wrk, PLAIN);
    assert_eq!(
        plain,
        ["--latency", "-t", "2", "-c", "4", "-d", "2s", "--timeout", "30s", "http://127.0.0.1:1234/api/a?b=1"]
    );
    let (_, folder) = args(Tool::Wrk, VALUES);
    let lua = std::fs::read_to_string(folder.path().join("wrk.lua")).expect("a script");
    assert!(lua.contains("v[\"page\"] = string.format('%d', math.random(1, 9))"), "{lua}");
    assert!(lua.contains("wrk.format(\"GET\", \"/api/list/\" .. percent(v[\"page\"]), {}, nil)"), "{lua}");
    assert!(lua.contains("[\"X-A\"] = \"q\\\"\" .. tostring(v[\"n\"])"), "{lua}");
    for (yaml, expected) in [
        (PLAIN.replace("closed: {users: 4, duration: 2s}", "open: {rate: 5, duration: 2s}"), "an open loop"),
        (PLAIN.replace("duration: 2s", "iterations: 4"), "anything but a fixed number of users"),
        (VALUES.replace("{int: [1, 9]}", "{counter: 1}"), "a counter"),
    ] {
        let error = cannot(Tool::Wrk, &yaml);
        assert!(error.contains(expected) && error.contains("gauge's own generator"), "{error}");
    }
}

#[test]
fn no_tool_is_given_tls_or_connections_that_end() {
    for (yaml, expected) in [
        (PLAIN.replace("http://", "https://"), "https"),
        (format!("{PLAIN}new_connections: true\n"), "a connection for each request"),
    ] {
        for tool in [Tool::Wrk, Tool::Hey, Tool::K6, Tool::Jmeter] {
            let error = cannot(tool, &yaml);
            assert!(error.contains(expected) && error.contains("gauge's own generator"), "{error}");
        }
    }
}

#[test]
fn hey_is_told_with_options() {
    let (plain, _) = args(Tool::Hey, &PLAIN.replace("duration: 2s", "iterations: 8"));
    assert_eq!(plain, ["-n", "8", "-c", "4", "-t", "30", "-m", "GET", "http://127.0.0.1:1234/api/a?b=1"]);
    let (open, _) = args(
        Tool::Hey,
        &PLAIN.replace("closed: {users: 4, duration: 2s}", "open: {rate: 100/s, duration: 2s, connections: 8}"),
    );
    assert_eq!(open[..6], ["-z", "2s", "-c", "8", "-q", "12.5"]);
    assert!(cannot(Tool::Hey, VALUES).contains("more than one operation"));
    assert!(cannot(Tool::Hey, &PLAIN.replace("duration: 2s", "iterations: 9")).contains("share evenly"));
}

#[test]
fn k6_gets_a_script() {
    let (args, folder) = args(Tool::K6, VALUES);
    assert_eq!(args[..3], ["run", "--quiet", "--no-color"]);
    let js = std::fs::read_to_string(folder.path().join("k6.js")).expect("a script");
    assert!(js.contains("executor: 'constant-vus', vus: 4, duration: '2s'"), "{js}");
    assert!(js.contains("\"http://127.0.0.1:1234\" + \"/api/list/\" + encodeURIComponent(v[\"page\"])"), "{js}");
    assert!(js.contains("1 + step() % 3"), "{js}");
    let (_, folder) =
        self::args(Tool::K6, &PLAIN.replace("closed: {users: 4, duration: 2s}", "open: {rate: 2.5/s, duration: 2s}"));
    let js = std::fs::read_to_string(folder.path().join("k6.js")).expect("a script");
    assert!(js.contains("rate: 25, timeUnit: '10s'"), "{js}");
}

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/k6");

/// The script of a golden workload, without its fixed parts and with `FOLDER` for its folder.
fn golden_script(name: &str) -> String {
    let yaml = std::fs::read_to_string(format!("{GOLDEN}/{name}.yaml")).expect("a workload");
    let (_, folder) = args(Tool::K6, &yaml.replace("PROTO", &format!("{GOLDEN}/lab.proto")));
    let mut js = std::fs::read_to_string(folder.path().join("k6.js")).expect("a script");
    for (fixed, part) in [("begin", k6::BEGIN), ("http", k6::HTTP), ("grpc", k6::GRPC)] {
        js = js.replace(part, &format!("// {fixed}.js\n"));
    }
    js.replace(&*folder.path().to_string_lossy(), "FOLDER")
}

/// `WEIR_UPDATE=1` writes them anew.
#[test]
fn scripts_for_k6_are_those_of_the_golden_files() {
    for name in ["phases", "grpc"] {
        let (js, file) = (golden_script(name), format!("{GOLDEN}/{name}.js"));
        if std::env::var_os("WEIR_UPDATE").is_some() {
            std::fs::write(&file, &js).expect("a file");
        }
        let expected = std::fs::read_to_string(&file).expect("a script");
        assert!(js == expected, "{file} differs; WEIR_UPDATE=1 writes it anew. It would be:\n{js}");
    }
}

#[test]
fn k6_gets_the_descriptors_of_its_calls() {
    let yaml = std::fs::read_to_string(format!("{GOLDEN}/grpc.yaml")).expect("a workload");
    let (_, folder) = args(Tool::K6, &yaml.replace("PROTO", &format!("{GOLDEN}/lab.proto")));
    let bytes = std::fs::read(folder.path().join("descriptors0.binpb")).expect("descriptors");
    let pool = prost_reflect::DescriptorPool::decode(&bytes[..]).expect("descriptors");
    assert!(pool.get_message_by_name("lab.Part").is_some());
    assert!(!folder.path().join("descriptors1.binpb").exists(), "both calls are of one file");
}

#[test]
fn what_k6_cannot_do_is_refused_with_its_phase_and_key() {
    let with = |phases: &str| PLAIN.replace("closed: {users: 4, duration: 2s}", &format!("phases: [{phases}]"));
    let last = "{name: end, closed: {users: 1, duration: 1s}}";
    for (phases, named) in [
        (
            format!("{{name: some, closed: {{users: 2, iterations: 4}}}}, {last}"),
            "phase `some`: `closed.iterations` without `closed.duration`",
        ),
        (
            format!("{{name: some, open: {{rate: 5, duration: 2s, arrivals: poisson}}}}, {last}"),
            "phase `some`: `open.arrivals: poisson`",
        ),
        ("{name: some, closed: {users: 2, duration: 500ms}}".to_owned(), "phase `some`: a `duration` below 1 s"),
        ("{name: some, open: {rate: 0.000001/s, duration: 2s}}".to_owned(), "phase `some`: an `open.rate` this low"),
    ] {
        let error = cannot(Tool::K6, &with(&phases));
        assert!(error.contains(named) && error.contains("gauge's own generator"), "{error}");
    }
    for (phases, named) in [
        (format!("{last}, {last}"), "two phases are called `end`"),
        ("{name: some, warmup: true, closed: {users: 1, duration: 1s}}".to_owned(), "no phase is measured"),
        (
            "{name: some, closed: {users: {from: 1, to: 2}, iterations: 4}}".to_owned(),
            "phase `some`: a changing number",
        ),
    ] {
        let error = cannot(Tool::K6, &with(&phases));
        assert!(error.contains(named), "{error}");
    }
    for tool in [Tool::Wrk, Tool::Hey, Tool::Jmeter] {
        assert!(cannot(tool, &with(&format!("{last}, {}", last.replace("end", "more")))).contains("several phases"));
    }
    let (one, _) = args(Tool::Hey, &with("{name: end, closed: {users: 2, iterations: 4}}"));
    assert_eq!(one[..4], ["-n", "4", "-c", "2"], "a single phase is a load like any other");
}

#[test]
fn calls_that_k6_cannot_make_are_refused() {
    let yaml = std::fs::read_to_string(format!("{GOLDEN}/grpc.yaml")).expect("a workload");
    let yaml = yaml.replace("PROTO", &format!("{GOLDEN}/lab.proto"));
    for (from, to, named) in [
        ("lab.Lab/Store", "lab.Lab/Down", "operation `fixed`: `lab.Lab/Down` takes or returns a stream"),
        ("X-Tier", "User-Agent", "operation `get`: the field `User-Agent` as metadata"),
        ("http://", "https://", "https"),
        ("lab.Lab/Store", "lab.Lab/None", "there is no method `lab.Lab/None`"),
        ("\"count\":7", "\"count\":seven", "no message of lab.Word"),
    ] {
        let error = cannot(Tool::K6, &yaml.replace(from, to));
        assert!(error.contains(named), "{named}: {error}");
    }
    for tool in [Tool::Wrk, Tool::Hey, Tool::Jmeter] {
        assert!(cannot(tool, &yaml).contains("calls of gRPC"), "{tool:?}");
    }
}

/// What a script of k6 says at the end: of each metric its figures, `count` being all that counters have.
fn summary(metrics: &[(&str, &str)]) -> String {
    let metrics: Vec<String> =
        metrics.iter().map(|(name, values)| format!("\"{name}\": {{\"values\": {{{values}}}}}")).collect();
    format!("{{\"state\": {{}}, \"metrics\": {{{}}}}}", metrics.join(", "))
}

fn ended(code: i32) -> ExitStatus {
    std::os::unix::process::ExitStatusExt::from_raw(code << 8)
}

const PHASES: &[(&str, &str)] = &[
    ("gauge_began{scenario:p0}", "\"min\": 1790000000000, \"max\": 1790000000001"),
    ("gauge_began{scenario:p1}", "\"min\": 1790000001002, \"max\": 1790000001009"),
    ("gauge_began{scenario:p2}", "\"min\": 1790000003000, \"max\": 1790000003000"),
    ("gauge_began{scenario:p3}", "\"min\": 0, \"max\": 0"),
    ("gauge_ended{scenario:p1}", "\"max\": 1790000002502"),
    ("gauge_ended{scenario:p2}", "\"max\": 1790000003004"),
    ("gauge_status_200{scenario:p0}", "\"count\": 7"),
    ("gauge_status_200{scenario:p1}", "\"count\": 90"),
    ("gauge_status_503{scenario:p1}", "\"count\": 10"),
    ("gauge_unexpected{scenario:p1}", "\"count\": 10"),
    ("gauge_connect{scenario:p1}", "\"count\": 3"),
    ("gauge_timeout{scenario:p1}", "\"count\": 2"),
    ("gauge_late{scenario:p1}", "\"count\": 4"),
    ("dropped_iterations{scenario:p1}", "\"count\": 5"),
    ("gauge_status_200{scenario:p2}", "\"count\": 4"),
    ("iteration_duration{scenario:p2}", "\"avg\": 4.5, \"count\": 4"),
    ("data_sent{scenario:p1}", "\"count\": 1000"),
    (
        "gauge_took{scenario:p1}",
        "\"count\": 100, \"min\": 1, \"avg\": 2, \"med\": 2, \"max\": 9, \"p(95)\": 7, \"p(99)\": 8, \"p(99.9)\": 8.5",
    ),
    ("gauge_took{measured:yes}", "\"count\": 104, \"avg\": 2.5"),
];

fn phased() -> Workload {
    workload(&PLAIN.replace(
        "closed: {users: 4, duration: 2s}",
        "phases: [{name: up, warmup: true, closed: {users: 1, duration: 1s}}, {name: rate, open: {rate: 60, duration: 2s, connections: 8}}, \
         {name: few, closed: {users: 2, iterations: 4, duration: 3s}}, {name: never, closed: {users: 2, duration: 3s}}]",
    ))
}

#[test]
fn phases_of_k6_are_read_one_by_one() {
    let report = k6::read(&summary(PHASES), &phased(), ended(0)).expect("a report");
    assert_eq!((report.generator.name.as_str(), report.started_unix_ms), ("k6", Some(1_790_000_000_000)));
    let names: Vec<(&str, bool)> = report.phases.iter().map(|phase| (phase.name.as_str(), phase.measured)).collect();
    assert_eq!(names, [("up", false), ("rate", true), ("few", true)], "the last one was never reached");
    let rate = &report.phases[1];
    assert_eq!((rate.start_s, rate.total.duration_s, rate.total.concurrency), (1.002, Some(2.0), Some(8.0)));
    let requests = rate.total.requests;
    assert_eq!((requests.responses, requests.late_responses, requests.dropped), (Some(100), Some(4), Some(5)));
    assert_eq!((requests.sent, requests.scheduled), (Some(102), Some(110)));
    assert_eq!((rate.total.rate.requested, rate.total.rate.achieved), (Some(60.0), Some(48.0)));
    assert_eq!(rate.total.statuses, Some([(200, 90), (503, 10)].into()));
    let errors = rate.total.errors;
    assert_eq!((errors.status, errors.connect, errors.timeout, errors.total), (Some(10), Some(3), Some(2), Some(15)));
    let latency = rate.total.latency.as_ref().expect("latency");
    assert_eq!((latency.count, latency.p50_ms, latency.p999_ms), (Some(100), Some(2.0), Some(8.5)));
    let few = &report.phases[2].total;
    assert_eq!(few.duration_s, Some(0.009), "finer than its clock: two users, four times 4.5 ms");
    assert_eq!(report.total.requests.responses, Some(104), "without the warm-up");
    assert_eq!(report.total.latency.as_ref().and_then(|latency| latency.mean_ms), Some(2.5));
    assert_eq!((report.truncated, report.total.duration_s), (None, Some(2.009)));
}

#[test]
fn a_k6_that_was_stopped_is_cut_short() {
    let report = k6::read(&summary(PHASES), &phased(), ended(105)).expect("a report");
    assert_eq!(report.truncated.as_deref(), Some("k6 ended with exit status: 105"));
    assert_eq!(report.phases[1].total.duration_s, Some(1.5), "until its last iteration");
}

#[test]
fn what_is_no_summary_of_the_script_is_refused() {
    for text in ["", "{", "{\"metrics\": {}}", "[]", "{\"metrics\": {\"gauge_began{scenario:p0}\": 7}}"] {
        let error = k6::read(text, &phased(), ended(0)).expect_err(text).to_string();
        assert!(error.contains("k6 summary"), "{error}");
    }
    // A status that the script has no counter for leaves the statuses unknown, and not the responses.
    let more = [PHASES, &[("gauge_status_other{scenario:p1}", "\"count\": 6")]].concat();
    let total = &k6::read(&summary(&more), &phased(), ended(0)).expect("a report").phases[1].total;
    assert_eq!((&total.statuses, total.requests.responses), (&None, Some(106)));
}

#[test]
fn jmeter_gets_a_plan() {
    let (args, folder) = args(Tool::Jmeter, VALUES);
    assert!(args.contains(&"-JPORT=1234".to_owned()), "{args:?}");
    let plan = std::fs::read_to_string(folder.path().join("plan.jmx")).expect("a plan");
    assert!(
        plan.contains("<stringProp name=\"HTTPSampler.path\">/api/list/${__urlencode(${list__page})}</stringProp>"),
        "{plan}"
    );
    assert!(plan.contains("${__RandomFromMultipleVars(pick0|pick0|pick0|pick1)}"), "{plan}");
    assert!(plan.contains("&quot;n&quot;:${bid__n}"), "{plan}");
    assert_eq!(plan.matches("<hashTree>").count(), plan.matches("</hashTree>").count());
}

#[test]
fn a_script_of_the_users_own_gets_the_address() {
    let folder = folder().expect("a folder");
    let script = folder.path().join("mine.jmx");
    std::fs::write(&script, "<x>@HOST@:@PORT@ @URL@</x>").expect("a file");
    let options = Options { script: Some(script), ..Options::default() };
    Tool::Jmeter.invocation(&workload(PLAIN), &options, folder.path()).expect("it can");
    let plan = std::fs::read_to_string(folder.path().join("plan.jmx")).expect("a plan");
    assert_eq!(plan, "<x>127.0.0.1:1234 http://127.0.0.1:1234/api</x>");
    let invocation = Tool::K6.invocation(&workload(PLAIN), &options, folder.path()).expect("it can");
    assert!(invocation.env.contains(&("PORT".to_owned(), "1234".to_owned())), "{:?}", invocation.env);
}

#[test]
fn only_the_end_of_a_long_output_is_kept() {
    let text: Vec<u8> = (0..1_000_000_u32).map(|number| number as u8).collect();
    let kept = last(&text[..], 1000);
    assert!((1000..=2000 + (16 << 10)).contains(&kept.len()) && text.ends_with(&kept), "{}", kept.len());
    assert_eq!(last(&text[..], usize::MAX), text);
}

#[test]
fn what_no_tool_can_do_is_refused() {
    let setup = format!("{PLAIN}setup: [{{id: login, path: /}}]\n");
    let http2 = format!("{PLAIN}protocol: {{http2: {{streams: 2}}}}\n");
    for tool in [Tool::Wrk, Tool::Hey, Tool::K6, Tool::Jmeter] {
        assert!(cannot(tool, &setup).contains("setup"), "{tool:?}");
        assert!(cannot(tool, &http2).contains("HTTP/2"), "{tool:?}");
    }
}
