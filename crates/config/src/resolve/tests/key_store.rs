use super::*;

const KEYS: &str =
    r#"- {"id":"k7","sha256":"abababababababababababababababababababababababababababababababab","consumer":"shop"}"#;

fn with_store(store: &str, more: &str) -> String {
    file(&format!("{more}auth: {{keys: {{api_key: {{store: {store}}}}}}}\n{ROUTE}"))
}

/// Resolves a file with one variable, `KEYS`.
fn resolved(text: &str, keys: &str) -> Result<Config, Vec<Problem>> {
    let file: raw::File = yaml::parse(text, &|_| None).unwrap_or_else(|problems| panic!("{problems:#?}"));
    let environment = |name: &str| (name == "KEYS").then(|| keys.to_owned());
    resolve(&file, Mode::File, std::path::Path::new(""), &|_| Err(std::io::ErrorKind::NotFound.into()), &environment)
}

fn store(config: &Config) -> &KeyStore {
    let AuthMethod::ApiKey(keys) = &config.auth[0].method else { panic!("{:?}", config.auth) };
    &keys.store
}

#[test]
fn keys_come_from_an_environment_variable() {
    let config = resolved(&with_store("{env: KEYS}", ""), KEYS).unwrap();
    let KeyStore::Variable(name, table) = store(&config) else { panic!("{:?}", config.auth) };
    assert_eq!((&**name, table.len()), ("KEYS", 1));
    let shown = format!("{config:?}");
    assert!(!shown.contains("abababab"), "{shown}");

    let text = with_store("{env: KEYS}", "");
    let messages = |keys: &str| resolved(&text, keys).unwrap_err().remove(0).message;
    assert_eq!(messages(""), "the environment variable `KEYS` is not set or is empty");
    assert!(messages("- {\"id\": \"secret-text\"}").starts_with("$KEYS: line 1: "), "{}", messages("- {\"id\": 1}"));
    assert_eq!(wrong(&text), ["the environment variable `KEYS` is not set or is empty"]);
}

#[test]
fn keys_in_redis_need_a_redis_and_hold_for_five_minutes_without_it() {
    let redis = "redis: {url: redis://127.0.0.1}\n";
    for (form, stale) in
        [("redis", 300), ("{redis: {}}", 300), ("{redis: {stale: 1h}}", 3600), ("{redis: {stale: none}}", 0)]
    {
        let config = good(&with_store(form, redis));
        assert_eq!(store(&config), &KeyStore::Redis(RedisKeys { stale: Duration::from_secs(stale) }), "{form}");
        // What is printed means the same.
        let file: raw::File = yaml::parse(&with_store(form, redis), &|_| None).unwrap();
        assert_eq!(yaml::parse::<raw::File>(&file.to_yaml(), &|_| None).unwrap(), file);
    }
    assert_eq!(wrong(&with_store("redis", "")), ["`store: redis` needs a `redis` section"]);
}

#[test]
fn a_store_is_exactly_one() {
    for form in ["{}", "{file: a, env: KEYS}", "{env: KEYS, redis: {}}"] {
        assert_eq!(wrong(&with_store(form, "")), ["`store` needs exactly one of `file`, `env` and `redis`"], "{form}");
    }
}
