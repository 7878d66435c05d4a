//! What a new configuration takes over.

use super::*;
use crate::config::load_text;

fn config(limits: &str) -> Config {
    let yaml =
        format!("listen: 127.0.0.1:0\nlimits:\n{limits}routes: [{{match: {{path: /}}, respond: {{body: x}}}}]\n");
    load_text("test", &yaml, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config
}

#[test]
fn counts_stay_with_what_is_counted_the_same_way() {
    let before = Limits::new(&config("  a: {rate: 1/s, burst: 5}\n  b: {rate: 1/s}\n"), None);
    let keeps = |limits: &str| {
        let after = Limits::new(&config(limits), Some(&before));
        let (_, limit) = after.iter().last().unwrap();
        before.iter().any(|(_, old)| old.memory.shares(&limit.memory))
    };
    for same in [
        "  a: {rate: 1/s, burst: 5}\n",
        "  a: {rate: 60/min, burst: 5}\n",
        "  new: {rate: 1/s}\n  a: {rate: 1/s, burst: 5, headers: [], on_limit: {status: 503}, cost: 2, max_keys: 7, missing_key: skip}\n",
    ] {
        assert!(keeps(same), "{same}");
    }
    for other in [
        "  a: {rate: 2/s, burst: 5}\n",
        "  a: {rate: 1/s, burst: 6}\n",
        "  a: {rate: 1/s, burst: 5, key: global}\n",
        "  c: {rate: 1/s, burst: 5}\n",
        "  a: {algorithm: concurrency, quota: 5}\n",
    ] {
        assert!(!keeps(other), "{other}");
    }
    let after = Limits::new(&config("  a: {rate: 1/s, burst: 5, max_keys: 7}\n"), Some(&before));
    assert_eq!(after.get(0).unwrap().memory.max_keys(), 7);
}

#[test]
fn a_key_is_the_same_before_and_after_a_reload() {
    let before = Limits::new(&config("  a: {rate: 1/s}\n"), None);
    let after = Limits::new(&config("  a: {rate: 1/s}\n"), Some(&before));
    let mut bytes = KeyBytes::default();
    bytes.value(b"x");
    assert_eq!(before.key(before.get(0).unwrap(), &bytes), after.key(after.get(0).unwrap(), &bytes));
}

/// Golden: another text would have replicas of two versions count apart.
#[test]
fn the_identity_of_a_limit_is_a_documented_text() {
    let limits = "  a: {rate: 20/s, burst: 5, key: [client_ip, 'header:X-API-KEY', 'query:q']}\n  \
                  b: {algorithm: fixed_window, quota: 3, window: 5s, key: global, aligned: true}\n";
    let limits = Limits::new(&config(limits), None);
    let text = |index: usize| definition_text(&limits.get(index).unwrap().spec);
    assert_eq!(
        text(0),
        "weir-limit=1\nname=1:a\nalgorithm=token_bucket rate=4034000000000000 burst=5\nstore=memory\n\
         key=client_ip\nkey=header 9:x-api-key\nkey=query 1:q\n"
    );
    let second = "weir-limit=1\nname=1:b\nalgorithm=fixed_window quota=3 window=5000000000 aligned=1\nstore=memory\nkey=global\n";
    assert_eq!(text(1), second);
    assert_eq!(format!("{:032x}", limits.get(1).unwrap().identity), "e469974ac605739d72a7842d408f5eb5");
}
