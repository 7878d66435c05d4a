//! Chat calls in an evaluation: the same calls for a model server and for a gateway in front of it, and what became of each.

use super::campaign::Campaign;

const API: &str = "openapi: 3.1.0
info: {title: chat, version: '1'}
servers: [{url: 'http://127.0.0.1:8090'}]
paths:
  /v1/chat/completions:
    post: {operationId: chat, responses: {'200': {description: chat}}}
  /other/{name}:
    get: {operationId: other, parameters: [{name: name, in: path, required: true, schema: {type: string}}], responses: {'200': {description: other}}}
";

/// A model server of [`serves`], and one whose streams `MODEL` decides; a third is on no machine.
const SYSTEMS: &str = "name: chat
api: chat.yaml
systems:
  - name: one
    command: ['PROGRAM', --exact, 'run::llm::serves', --ignored]
    env: {LLM_LISTEN: '{address}:{port}'}
    ports: {port: 'http://127.0.0.1:8090'}
    ready: 'http://{address}:{port}/v1/models'
  - name: absent
    command: [no-such-program-on-path, '{port}']
    ports: {port: 'http://127.0.0.1:8090'}
control: false
repeats: 1
warmup: 0s
workloads:
  - name: talk
    llm: {id: chat, model: MODEL, prompt: [5, 9], shared: {share: 0.5, words: 20}, slo: {ttft: 1h}}
    load: {closed: {users: 2, iterations: 40}}
";

fn campaign(model: &str) -> Campaign {
    let program = std::env::current_exe().expect("this program").to_string_lossy().into_owned();
    let campaign = Campaign::new(&SYSTEMS.replace("PROGRAM", &program).replace("MODEL", model));
    campaign.file("chat.yaml", API);
    campaign
}

/// The simulated providers, in a process of their own.
#[test]
#[ignore = "a model server that the evaluations of other tests start"]
fn serves() {
    let Ok(listen) = std::env::var("LLM_LISTEN") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async move {
        let listener = tokio::net::TcpListener::bind(listen).await.expect("the port");
        simulator::serve(listener, Default::default()).await.expect("it serves");
    });
}

#[test]
fn calls_are_counted_by_their_ends_and_a_missing_program_is_said() {
    let campaign = campaign("sim-tokens9-gap1");
    let finished = campaign.run(&[]);
    assert_eq!(finished.code, 0, "{}", finished.text());
    assert!(finished.stdout.contains("configured, not run here (`no-such-program-on-path` is not on PATH)"));
    let trials = campaign.trials();
    let chat = &trials[0]["report"]["total"]["chat"];
    assert_eq!((&chat["complete"], &chat["good"], &chat["output_tokens"]), (&40.into(), &40.into(), &360.into()));
    assert_eq!((&chat["ttft"]["count"], &chat["inter_token"]["count"]), (&40.into(), &320.into()));
    let csv = std::fs::read_to_string(campaign.out.join("results.csv")).expect("the table");
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    for criterion in ["tokens_per_s", "goodput_per_s"] {
        let column = lines[0].iter().position(|name| *name == criterion).expect("a column");
        assert!(lines[1][column].parse::<f64>().is_ok_and(|value| value > 0.0), "{criterion}: {csv}");
    }
    assert!(lines[0].contains(&"ttft_ms") && lines[0].contains(&"inter_token_ms"), "{csv}");
}

#[test]
fn streams_that_end_in_an_error_are_failures_though_their_status_is_200() {
    let campaign = campaign("sim-f22");
    let finished = campaign.run(&[]);
    let total = campaign.trials()[0]["report"]["total"].clone();
    assert_eq!(
        (&total["chat"]["error_events"], &total["errors"]["total"]),
        (&40.into(), &40.into()),
        "{}",
        finished.text()
    );
}

#[test]
fn what_is_no_chat_call_is_refused_with_its_line() {
    let campaign = campaign("sim");
    let good = std::fs::read_to_string(campaign.path("e.yaml")).expect("the evaluation");
    for (from, to, named) in [
        ("id: chat", "id: none", "the API has no operation `none`"),
        ("id: chat", "id: other", "`other` cannot be a chat call"),
        ("share: 0.5", "share: 5", "`shared` has a share of 5"),
        ("    llm:", "    operations: [{id: chat}]\n    llm:", "`llm` replaces `operations`"),
        ("    load:", "    generator: hey\n    load:", "by gauge's own generator, not by hey"),
        ("slo: {ttft: 1h}", "stream: false, slo: {ttft: 1h}", "`slo` is about tokens"),
    ] {
        campaign.rewrite(&good.replace(from, to));
        let finished = campaign.gauge(&["run", "--check"]);
        assert!(finished.code == 64 && finished.stderr.contains(named), "{named}: {}", finished.text());
        assert!(finished.stderr.contains("e.yaml:"), "its line: {}", finished.text());
    }
    campaign.rewrite(&good);
    assert_eq!(campaign.gauge(&["run", "--check"]).code, 0);
}
