//! Chat calls against the simulated providers: how each call ended is counted exactly.

use std::sync::mpsc;

use gauge::load::{Generator, Options, Prepared, Workload};
use gauge::results::report::{Chat, Measurement};

/// Simulated providers on a thread of their own until the test process ends.
fn simulator() -> String {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
            tell.send(listener.local_addr().expect("an address")).expect("the test waits");
            simulator::serve(listener, Default::default()).await.expect("it serves");
        });
    });
    format!("http://{}", told.recv().expect("an address"))
}

fn run(base: &str, llm: &str, rest: &str) -> Measurement {
    let yaml = format!("base: {base}\nllm: {llm}\n{rest}\n");
    let workload: Workload = serde_saphyr::from_str(&yaml).unwrap_or_else(|error| panic!("{yaml}\n{error}"));
    let prepared = Prepared::new(&workload).expect("it makes sense");
    Generator::new(prepared, Options { threads: Some(2), ..Options::default() }).run().expect("a report").total
}

const CLOSED: &str = "load: {closed: {users: 4, iterations: 40}}";

fn ends(total: &Measurement) -> (u64, u64, u64) {
    let chat: &Chat = total.chat.as_ref().expect("chat calls");
    (chat.complete, chat.error_events, chat.cut)
}

#[test]
fn complete_streams_are_counted_with_their_tokens() {
    let base = simulator();
    let total = run(
        &base,
        "{model: sim-tokens9-gap1, prompt: [5, 50], shared: {share: 0.5, words: 20}, slo: {ttft: 1h}}",
        CLOSED,
    );
    let chat = total.chat.as_ref().expect("chat calls");
    assert_eq!((ends(&total), chat.good, total.errors.total), ((40, 0, 0), Some(40), Some(0)), "{total:?}");
    let count = |latency: &Option<gauge::results::report::Latency>| latency.as_ref().and_then(|latency| latency.count);
    assert_eq!(count(&chat.ttft), Some(40));
    assert_eq!(count(&chat.inter_token), Some(40 * 8), "nine tokens have eight gaps");
    assert_eq!((chat.output_tokens, chat.uncounted), (40 * 9, 0));
}

#[test]
fn a_missed_objective_is_a_complete_call_that_is_not_good() {
    let total = run(&simulator(), "{model: sim-first2, slo: {ttft: 1ms}}", CLOSED);
    assert_eq!((ends(&total), total.chat.as_ref().and_then(|chat| chat.good)), ((40, 0, 0), Some(0)));
}

#[test]
fn whole_responses_have_an_end_and_no_time_to_the_first_token() {
    let total = run(&simulator(), "{model: sim, stream: false}", CLOSED);
    let chat = total.chat.as_ref().expect("chat calls");
    assert_eq!((ends(&total), chat.ttft.is_none(), chat.output_tokens), ((40, 0, 0), true, 40 * 8));
}

#[test]
fn a_cut_stream_is_a_failure() {
    for model in ["sim-f10", "sim-f10-done"] {
        let total = run(&simulator(), &format!("{{model: {model}}}"), CLOSED);
        assert_eq!((ends(&total), total.errors.total), ((0, 0, 40), Some(40)), "{model}: {total:?}");
        assert_eq!(total.requests.responses, Some(0));
    }
}

#[test]
fn an_error_event_is_a_failure_whatever_follows_it() {
    for model in ["sim-f21", "sim-f22"] {
        let total = run(&simulator(), &format!("{{model: {model}}}"), CLOSED);
        assert_eq!((ends(&total), total.errors.total), ((0, 40, 0), Some(40)), "{model}: {total:?}");
    }
}

#[test]
fn a_refused_call_has_an_unexpected_status_and_no_end() {
    let total = run(&simulator(), "{model: sim-f2}", CLOSED);
    assert_eq!((ends(&total), total.errors.status, total.errors.total), ((0, 0, 0), Some(40), Some(40)));
}

#[test]
fn a_stall_is_a_timeout_and_a_missing_count_is_marked() {
    let base = simulator();
    let total = run(&base, "{model: sim-first60000}", "timeout: 200ms\nload: {closed: {users: 4, iterations: 4}}");
    assert_eq!((total.errors.timeout, total.errors.total), (Some(4), Some(4)), "{total:?}");
    let total = run(&base, "{model: sim-f27}", CLOSED);
    let chat = total.chat.as_ref().expect("chat calls");
    assert_eq!((chat.complete, chat.uncounted, chat.output_tokens), (40, 40, 40 * 8));
}
