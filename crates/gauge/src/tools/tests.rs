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
    assert!(js.contains("rate: 2500, timeUnit: '1000s'"), "{js}");
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
fn what_no_tool_can_do_is_refused() {
    let setup = format!("{PLAIN}setup: [{{id: login, path: /}}]\n");
    let http2 = format!("{PLAIN}protocol: {{http2: {{streams: 2}}}}\n");
    for tool in [Tool::Wrk, Tool::Hey, Tool::K6, Tool::Jmeter] {
        assert!(cannot(tool, &setup).contains("setup"), "{tool:?}");
        assert!(cannot(tool, &http2).contains("HTTP/2"), "{tool:?}");
    }
}
