use super::super::policies::{claim, keys, origin};
use super::super::*;
use super::api;
use crate::profile::token::{Algorithm, Jwt, PUBLIC_PEM};

const SERVER: &str = "{url: 'http://127.0.0.1:9000'}";
const KEY: &str = "3f1c9a7d2b8e4f60a5c1";

#[test]
fn a_rate_is_a_number_per_second_or_minute() {
    assert_eq!(Rate::parse("100/s"), Ok(Rate { requests: 100, seconds: 1 }));
    assert_eq!(Rate::parse("1000/min"), Ok(Rate { requests: 1000, seconds: 60 }));
    for wrong in
        ["", "100", "/s", "0/s", "-1/s", "+1/s", "1.5/s", "100/h", "100 /s", "100/s ", "100001/s", "9999999999/s"]
    {
        assert!(Rate::parse(wrong).is_err_and(|why| why.contains("such as 100/s or 1000/min")), "{wrong}");
    }
}

#[test]
fn an_origin_is_what_browsers_send() {
    for right in [
        "*",
        "https://app.example.com",
        "http://localhost:3000",
        "http://[::1]:8080",
        "http://[::1]",
        "capacitor://localhost",
    ] {
        assert_eq!(origin(right).as_deref(), Ok(right));
    }
    for wrong in [
        "",
        "null",
        "app.example.com",
        "https://",
        "https://app.example.com/",
        "https://App.example.com",
        "HTTPS://app.example.com",
        "https://app.example.com:443",
        "http://app.example.com:80",
        "https://app.example.com:0",
        "https://app.example.com:x",
        "https://*.example.com",
        "https://a.example.com https://b.example.com",
        "https://a\"b",
        "https://[::1",
        "https://[0::1]",
        "https://user@a.example.com",
        "https://a..example.com",
        "https://.example.com",
        "https://-a.example.com",
        "1https://a.example.com",
    ] {
        assert!(origin(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_file_of_keys_has_a_key_and_a_consumer_in_each_line() {
    let text = format!("# of the shop\n{KEY} shop\n\n  {KEY}/+=  shop \n");
    let read = keys(&text).unwrap();
    assert_eq!(read, [(KEY.to_owned(), "shop".to_owned()), (format!("{KEY}/+="), "shop".to_owned())]);
    let upper = KEY.to_ascii_uppercase();
    for (wrong, why) in [
        (String::new(), "it has no key"),
        ("# none\n".to_owned(), "it has no key"),
        (KEY.to_owned(), "line 1: want KEY CONSUMER"),
        (format!("# a\n{KEY} a b"), "line 2: want KEY CONSUMER"),
        ("short shop".to_owned(), "line 1: a key has 20 to 256"),
        (format!("~{KEY} shop"), "line 1: a key has 20 to 256"),
        (format!("-{KEY} shop"), "line 1: a key has 20 to 256"),
        (format!("{KEY}\" shop"), "line 1: a key has 20 to 256"),
        (format!("ä{KEY} shop"), "line 1: a key has 20 to 256"),
        (format!("{} shop", KEY.repeat(13)), "line 1: a key has 20 to 256"),
        (format!("{KEY} 10.0.0.1"), "line 1: a consumer has up to 64"),
        (format!("{KEY} a;b"), "line 1: a consumer has up to 64"),
        (format!("{KEY} shop\n{KEY} stock"), "line 2: the key of line 1 is the same"),
        (format!("{KEY} shop\n{upper} stock"), "line 2: the key of line 1 is the same"),
    ] {
        let said = keys(&wrong).unwrap_err();
        assert!(said.starts_with(why), "{wrong}: {said}");
        assert!(!said.contains(&KEY[..8]), "a message has a key in it: {said}");
    }
}

#[test]
fn a_claim_means_nothing_to_a_configuration() {
    assert!(claim("https://id.example.com/").is_ok() && claim("api://orders").is_ok());
    for wrong in ["", "a b", "a\"", "a'", "${a}", "a;b", "a\nb", "%[src]", "a#b"] {
        assert!(claim(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_key_of_a_set_is_the_same_in_pem() {
    let set = Jwt { algorithm: Algorithm::RS256, tokens: 1 }.key_set();
    let tokens = Tokens::new(&set, "https://id.example.com/", "orders").unwrap();
    let [key] = tokens.keys.as_slice() else { panic!("{tokens:?}") };
    assert_eq!((key.id.as_deref(), key.algorithm.as_str()), (Some("gauge"), "RS256"));
    assert_eq!(key.pem.trim(), PUBLIC_PEM.trim());
    // RFC 7517, appendix A.1, with its key for encryption, and one of a kind that not every gateway takes.
    let set = r#"{"keys": [
        {"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "kid": "1"},
        {"kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4", "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM", "use": "enc"},
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let tokens = Tokens::new(set, "a", "b").unwrap();
    assert_eq!((tokens.keys.len(), tokens.others), (1, 2));
    assert!(
        tokens.keys[0].pem.starts_with(
            "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEMKBCTNIcKUSDii11ySs3526iDZ8A\n"
        ),
        "{}",
        tokens.keys[0].pem
    );
    assert!(!tokens.key_set.contains("Ed25519") && !tokens.key_set.contains('\n'));
}

#[test]
fn a_set_with_secrets_or_without_keys_is_refused() {
    let shared = Jwt { algorithm: Algorithm::HS256, tokens: 1 }.key_set();
    for (set, why) in [
        ("", "it is not JSON"),
        ("{}", "it is not a JSON Web Key Set"),
        (r#"{"keys": []}"#, "it has no key of RS256"),
        (r#"{"keys": [{"kty": "RSA", "n": "!", "e": "AQAB"}]}"#, "an RSA key has no `n`"),
        (r#"{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "a b"}]}"#, "an RSA key has less than 2048 bits"),
        (r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "AQAB"}]}"#, "it has no key of RS256"),
        (r#"{"keys": [{"kty": "RSA", "n": "AQAB", "e": "AQAB", "d": "AQAB"}]}"#, "it has a private or shared key"),
        (&shared, "it has a private or shared key"),
    ] {
        let said = Tokens::new(set, "a", "b").unwrap_err();
        assert!(said.starts_with(why), "{set}: {said}");
    }
}

fn policies() -> Policies {
    Policies { keys: Some(vec![(KEY.to_owned(), "shop".to_owned())]), ..Policies::default() }
}

fn with(policies: Policies, paths: &str) -> Result<Model, ModelError> {
    let settings = Settings { policies, ..Settings::default() };
    Model::new(&api(SERVER, paths), &Options { settings, ..Options::default() })
}

const SCHEMES: &str = "components: {securitySchemes: {key: {type: apiKey, in: header, name: X-API-Key}, other: {type: apiKey, in: header, name: X-App}, \
    token: {type: http, scheme: bearer}, sid: {type: apiKey, in: cookie, name: sid}}}\n";

fn operation(path: &str, security: &str) -> String {
    let id = path.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("  '{path}': {{get: {{operationId: get{id}, security: {security}, responses: {{}}}}}}\n")
}

#[test]
fn operations_are_guarded_as_the_description_says() {
    let set = Jwt::default().key_set();
    let all = Policies { tokens: Some(Tokens::new(&set, "a", "b").unwrap()), ..policies() };
    for (security, both, keys) in [
        ("[]", Guard::Open, Guard::Open),
        ("[{}]", Guard::Open, Guard::Open),
        ("[{key: []}]", Guard::Key, Guard::Key),
        ("[{token: []}]", Guard::Token, Guard::Open),
        ("[{key: []}, {token: []}]", Guard::Either, Guard::Key),
        ("[{key: [], token: []}]", Guard::Both, Guard::Key),
        ("[{sid: []}]", Guard::Open, Guard::Open),
        // Without a check of the cookie everyone would pass.
        ("[{sid: []}, {key: []}]", Guard::Key, Guard::Key),
        ("[{key: []}, {}]", Guard::Open, Guard::Open),
        ("[{sid: [], key: []}]", Guard::Key, Guard::Key),
        ("[{other: []}]", Guard::Open, Guard::Open),
    ] {
        // Other operations, so that every option is used, and `X-API-Key` is the most frequent.
        let more = operation("/a", "[{key: []}]") + &operation("/b", "[{key: []}]") + &operation("/c", "[{token: []}]");
        let paths = operation("/x", security) + &more + SCHEMES;
        let guard = |policies: Policies| with(policies, &paths).unwrap().routes[0].guard;
        assert_eq!(guard(all.clone()), both, "{security}");
        assert_eq!(guard(all.clone()).within(true, false), keys, "{security}");
        assert_eq!(guard(policies()), keys, "{security}: no key set");
        assert_eq!(guard(Policies::default()), Guard::Open, "{security}");
    }
}

#[test]
fn what_passes_without_a_check_is_said() {
    let paths = operation("/a", "[{key: []}]")
        + &operation("/b", "[{token: []}]")
        + &operation("/c", "[{sid: []}]")
        + &operation("/d", "[{sid: []}, {key: []}]")
        + &operation("/e", "[{sid: [], key: []}]")
        + &operation("/f", "[]")
        + SCHEMES;
    let notes = |gateway: &str, policies: Policies| {
        let model = with(policies, &paths).unwrap();
        let gateway = by_name(gateway).unwrap();
        let written = written(gateway, &model, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv")).unwrap();
        (written.notes.join("\n"), model.notes.join("\n"))
    };
    let (said, _) = notes("weir", policies());
    for line in [
        "without a check pass 1 operation (get_b), which needs `token`, a bearer token (--jwks is not given): the upstream has to check them",
        "without a check pass 1 operation (get_c), which needs `sid`, an API key in a cookie: the upstream has to check them",
        "1 operation (get_d) is refused with `sid`, an API key in a cookie alone, which the description allows",
        "credentials of 1 operation (get_e) are checked, but not `sid`, an API key in a cookie: the upstream has to check that",
    ] {
        assert!(said.lines().any(|note| note == line), "{line}\n{said}");
    }
    assert!(!said.contains("get_f") && !said.contains("get_a"), "{said}");
    let (said, _) = notes("traefik", policies());
    assert!(said.contains("get_a") && said.contains("--api-keys: "), "nothing is checked: {said}");
    let (said, model) = notes("weir", Policies::default());
    assert!(!said.contains("get_"), "{said}");
    assert!(model.contains("5 operations (get_a, get_b, get_c, get_d, get_e) need credentials"), "{model}");
}

#[test]
fn credentials_that_no_operation_needs_are_an_error() {
    let open = operation("/a", "[{token: []}]") + SCHEMES;
    let said = with(policies(), &open).unwrap_err().to_string();
    assert!(said.contains("--api-keys: no operation needs an API key in a header"), "{said}");
    let tokens =
        Policies { tokens: Some(Tokens::new(&Jwt::default().key_set(), "a", "b").unwrap()), ..Policies::default() };
    let key = operation("/a", "[{key: []}]") + SCHEMES;
    let said = with(tokens, &key).unwrap_err().to_string();
    assert!(said.contains("--jwks: no operation needs a bearer token"), "{said}");
}

/// A gateway that cannot tell two paths apart would let the one pass with the check of the other.
#[test]
fn paths_that_become_one_have_one_check() {
    let paths = operation("/f/{name}.json", "[{key: []}]") + &operation("/f/{name}.xml", "[]") + SCHEMES;
    let paths = paths.replace("security:", "parameters: [{name: name, in: path, required: true}], security:");
    let model = with(policies(), &paths).unwrap();
    let weir = by_name("weir").unwrap();
    let refused = weir.files(&model, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/srv")).unwrap_err();
    assert!(refused.why.ends_with("are one to it, and they need different credentials"), "{}", refused.why);
}

#[test]
fn keys_of_a_set_are_made_anew_of_what_is_known() {
    let mut key = serde_json::from_str::<serde_json::Value>(&Jwt::default().key_set()).unwrap()["keys"][0].take();
    let set = |key: &serde_json::Value, times: usize| serde_json::json!({"keys": vec![key; times]}).to_string();
    let mut odd = key.clone();
    odd["kid"] = "a b".into();
    assert!(Tokens::new(&set(&odd, 1), "a", "b").unwrap_err().starts_with("it has no key of RS256"));
    key["name"] = "Bob's".into();
    key["x5u"] = "https://evil.example.com".into();
    let tokens = Tokens::new(&set(&key, 1), "a", "b").unwrap();
    for absent in ["Bob", "x5u", "evil"] {
        assert!(!tokens.key_set.contains(absent), "{}", tokens.key_set);
    }
    assert_eq!(tokens.keys.len(), 1);
    assert!(Tokens::new(&set(&key, 101), "a", "b").unwrap_err().contains("more than 100"));
    for (name, value, why) in [
        ("n", "AQAB", "less than 2048 bits"),
        ("n", "AQAB==", "base64url"),
        ("e", "AQ", "exponent"),
        ("e", "AQAA", "exponent"),
        ("p", "AQAB", "private"),
    ] {
        let mut wrong = key.clone();
        wrong[name] = value.into();
        let said = Tokens::new(&set(&wrong, 1), "a", "b").unwrap_err();
        assert!(said.contains(why), "{name} {value}: {said}");
    }
}

#[test]
fn a_field_that_means_something_else_has_no_keys() {
    for name in [
        "Host",
        "connection",
        "Content-Length",
        "X-Forwarded-For",
        "X-Request-Id",
        "X-Consumer-Username",
        "X_API_Key",
        "a b",
        "",
    ] {
        let text = format!(
            "openapi: 3.1.0\ninfo: {{title: T, version: '1'}}\nservers: [{SERVER}]\ncomponents: {{securitySchemes: {{key: {{type: apiKey, in: header, name: '{name}'}}}}}}\npaths:\n  /a: {{get: {{operationId: a, security: [{{key: []}}], responses: {{}}}}}}\n"
        );
        let Ok(read) = apidoc::read_bytes("t.yaml", text.as_bytes()) else { continue };
        let keys = Some(keys(&format!("{KEY} shop")).unwrap());
        let settings = Settings { policies: Policies { keys, ..Policies::default() }, ..Settings::default() };
        let error = Model::new(&read.api, &Options { settings, ..Options::default() }).unwrap_err();
        assert!(error.reasons[0].contains("cannot have keys"), "{name}: {error}");
    }
}

#[test]
fn origins_are_taken_once() {
    let cors = vec!["https://a.example".to_owned(), "https://b.example".to_owned(), "https://a.example".to_owned()];
    let model = with(Policies { cors, ..Policies::default() }, &operation("/a", "[]")).unwrap();
    assert_eq!(model.settings.policies.cors, ["https://a.example", "https://b.example"]);
}

#[test]
fn a_checked_path_is_matched_in_every_encoding() {
    use super::super::paths::{Contested, checked_pattern, contested};
    let paths = operation("/a/{id}", "[]")
        + &operation("/a/b", "[{key: []}]")
        + &operation("/b/{id}", "[{key: []}]")
        + &operation("/b/open", "[]")
        + &operation("/c/d", "[{key: []}]")
        + SCHEMES;
    let policies = Policies { keys: Some(keys(&format!("{KEY} shop")).unwrap()), ..Policies::default() };
    let model = with(policies, &paths).unwrap();
    for (path, contested) in model.paths.iter().zip(contested(&model.paths)) {
        let expected = if path.template() == "/a/b" { Contested::Segment } else { Contested::No };
        assert_eq!(contested, expected, "{}", path.template());
    }
    let path = |template: &str| model.paths.iter().find(|path| path.template() == template).unwrap().segments.clone();
    assert_eq!(checked_pattern(&path("/a/b"), Contested::Segment, false), "/(a|%61)/(b|%62)");
    assert_eq!(checked_pattern(&path("/a/b"), Contested::Segment, true), "/a/b");
    assert_eq!(checked_pattern(&path("/a/{id}"), Contested::Slashes, true), "/a(/|%2[Ff])+[^/]+");
}
