use std::collections::BTreeMap;

use super::*;

fn request(method: &str, target: &str, fields: &[(&str, &str)]) -> Request {
    let headers: BTreeMap<String, String> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Request::made(method, target, headers)
}

const GOOD: [(&str, &str); 3] =
    [("upgrade", "websocket"), ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="), ("sec-websocket-version", "13")];

#[test]
fn an_upgrade_to_the_echo_is_accepted_and_others_are_refused() {
    let accepted = Upgrade::Accepted("s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned());
    assert_eq!(upgrade(&request("GET", "/echo-ws?a=1", &GOOD), true, false), accepted);
    assert_eq!(upgrade(&request("GET", "/items", &GOOD), true, false), Upgrade::None);
    let refused = |request: Request, is_upgrade| match upgrade(&request, is_upgrade, false) {
        Upgrade::Refused(status, _) => status,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(request("GET", "/echo-ws", &GOOD), false), 426, "without Connection: Upgrade");
    assert_eq!(refused(request("GET", "/echo-ws", &GOOD[1..]), true), 426);
    assert_eq!(refused(request("POST", "/echo-ws", &GOOD), true), 405);
    assert_eq!(refused(request("GET", "/echo-ws", &GOOD[..2]), true), 426, "without a version");
    assert_eq!(refused(request("GET", "/echo-ws", &[GOOD[0], GOOD[2]]), true), 400, "without a key");
    assert_eq!(refused(request("GET", "/echo-ws", &[GOOD[0], GOOD[2], ("sec-websocket-key", "short")]), true), 400);
}

#[test]
fn the_upstream_of_checks_has_it_on_every_path_and_refuses_when_it_is_told_to() {
    assert!(matches!(upgrade(&request("GET", "/any", &GOOD), true, true), Upgrade::Accepted(_)));
    assert_eq!(upgrade(&request("GET", "/any", &GOOD), false, true), Upgrade::None);
    let told = [GOOD.as_slice(), &[("x-probe-status", "403")]].concat();
    assert_eq!(upgrade(&request("GET", "/any", &told), true, true), Upgrade::None);
}
