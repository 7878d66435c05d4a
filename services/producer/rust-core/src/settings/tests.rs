use super::*;

fn read(pairs: &[(&str, &str)]) -> Result<Settings, BadVariable> {
    let get = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
    Settings::read(get, "SERVER_PORT", 8082, 0)
}

#[test]
fn defaults_are_those_of_the_contract() {
    let settings = read(&[]).expect("defaults");
    assert_eq!(settings.database_url, "postgresql://postgres:password@localhost:5432/car_entities");
    assert_eq!((settings.port, settings.pool_size, settings.max_body_bytes), (8082, 10, 1_048_576));
    assert_eq!(settings.log, "info");
    let timeouts = [settings.head_timeout, settings.body_timeout, settings.idle_timeout, settings.request_timeout];
    assert_eq!(timeouts.map(|t| t.as_secs()), [10, 30, 60, 60]);
}

#[test]
fn a_bad_value_names_its_variable() {
    for (name, value) in [
        ("SERVER_PORT", "http"),
        ("SERVER_PORT", "65536"),
        ("DATABASE_POOL_SIZE", "0"),
        ("DATABASE_POOL_SIZE", "-1"),
        ("MAX_BODY_BYTES", "1MiB"),
        ("SHUTDOWN_TIMEOUT_MS", "0"),
        ("HEAD_TIMEOUT_MS", "0"),
        ("BODY_TIMEOUT_MS", "3600001"),
        ("IDLE_TIMEOUT_MS", "60s"),
        ("REQUEST_TIMEOUT_MS", "-1"),
        ("HOST", "localhost:80"),
    ] {
        let message = read(&[(name, value)]).expect_err(name).to_string();
        assert!(message.contains(name) && message.contains(value), "{message}");
    }
}

#[test]
fn a_database_url_is_not_shown() {
    let message = read(&[("DATABASE_URL", "mysql://u:secret@x")]).expect_err("another scheme").to_string();
    assert!(message.contains("DATABASE_URL") && !message.contains("secret"), "{message}");
}

#[test]
fn rust_log_goes_before_log_level() {
    assert_eq!(read(&[("LOG_LEVEL", "warn")]).expect("settings").log, "warn");
    assert_eq!(read(&[("LOG_LEVEL", "warn"), ("RUST_LOG", "debug")]).expect("settings").log, "debug");
}
