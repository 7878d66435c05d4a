use super::*;

#[test]
fn a_generator_has_time_for_the_setup_of_its_users() {
    let limit = |setup: &str, load: &str| {
        let yaml =
            format!("base: http://127.0.0.1:9\noperations: [{{id: a, path: /}}]\n{setup}timeout: 30s\nload: {load}\n");
        limit(&serde_saphyr::from_str(&yaml).expect("a workload"))
    };
    let closed = "{closed: {users: 2, duration: 10s}}";
    assert_eq!(limit("", closed), Duration::from_secs(10 + 30) + SLACK);
    let setup = "setup: [{id: login, path: /login}, {id: cart, path: /cart}, {id: fill, path: /fill}]\n";
    assert_eq!(limit(setup, closed), Duration::from_secs(10 + 30 + 3 * 30) + SLACK);
    assert_eq!(limit(setup, "{closed: {users: 2, iterations: 9}}"), LONGEST);
}
