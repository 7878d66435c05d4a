use super::*;
use crate::{Action, CacheMode, LimitAlgorithm, Mode, Route as ResolvedRoute, load_environment, load_text};

/// Loads the mode with the variables given.
fn load(variables: &[(&str, &str)]) -> Result<crate::Loaded, crate::problem::Problems> {
    let variables: std::collections::HashMap<String, String> =
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    load_environment(&|name| variables.get(name).cloned())
}

/// The raw form with every feature, whether it is built yet or not, and resolved.
fn everything(
    variables: &[(&str, &str)],
) -> (Option<Map<raw::Limit>>, Option<raw::Cache>, Option<Spanned<raw::Redis>>) {
    let environment =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string());
    let mut variables = Variables { environment: &environment, problems: Vec::new() };
    let limits = variables.limits();
    let redis = variables.redis();
    let cache = variables.cache(redis.is_some());
    assert_eq!(variables.problems, []);
    (limits, cache, redis)
}

#[test]
fn without_any_variable_the_demo_runs_on_the_documented_port() {
    let config = load(&[]).unwrap().config;
    assert_eq!(config.mode, Mode::Environment);
    assert_eq!(config.listen[0].bind.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin, None);
    let proxies: Vec<String> = config.trusted_proxies.networks.iter().map(ToString::to_string).collect();
    assert_eq!(proxies, ["127.0.0.0/8", "::1/128"]);
    let targets: Vec<_> = config.upstreams.iter().map(|upstream| upstream.targets[0].address.clone()).collect();
    let demos = [DemoService::InferencePython, DemoService::InferenceNode, DemoService::Plain];
    assert_eq!(targets, demos.map(crate::TargetAddress::Demo));
}

#[test]
fn every_route_of_the_contract_is_there() {
    let config = load(&[]).unwrap().config;
    let routes: Vec<String> = config
        .routes
        .iter()
        .map(|route| format!("{} {}", route.matcher.methods.join(","), route.matcher.path))
        .collect();
    assert_eq!(
        routes,
        [
            "POST /infer/python",
            "POST /infer/node",
            " /v1/*",
            "GET,HEAD /slow",
            "GET,HEAD /limited",
            "GET,HEAD /gates",
            "GET,HEAD /healthz",
            "GET,HEAD /cachez",
            "GET,HEAD /",
        ]
    );
    let Action::Proxy(python) = &config.routes[0].action else { panic!() };
    assert_eq!(python.rewrite, crate::Rewrite::Path("/infer".into()));
    assert_eq!(&*config.upstreams[python.fallback[0].0].name, "node");
    assert!(
        config.upstreams[python.upstream.0].health.is_some() && config.upstreams[python.upstream.0].breaker.is_some()
    );
    let Action::Respond(gates) = &config.routes[5].action else { panic!() };
    assert_eq!((gates.content_type.as_deref(), &*gates.body), (Some("application/json"), GATES.as_bytes()));
    let exempt = |route: &ResolvedRoute| route.limits.is_empty() && route.cache.is_none();
    assert!(config.routes[5..8].iter().all(exempt));
}

#[test]
fn slow_and_limited_stay_when_both_services_are_real() {
    let variables = [("PY_SERVICE_URL", "http://127.0.0.1:8001"), ("NODE_SERVICE_URL", "http://node:8002/v1/")];
    let config = load(&variables).unwrap().config;
    assert_eq!(config.upstreams[1].targets[0].authority.as_deref(), Some("node:8002"));
    assert_eq!(&*config.upstreams[1].targets[0].base_path, "/v1");
    assert_eq!(config.routes.len(), 9);
    assert_eq!(config.upstreams[2].targets[0].address, crate::TargetAddress::Demo(DemoService::Plain));
}

#[test]
fn addresses_and_networks_are_taken_from_variables() {
    let config = load(&[
        ("HOST", "::"),
        ("PORT", "0"),
        ("ADMIN_ADDR", "127.0.0.1:9901"),
        ("TRUSTED_PROXIES", "10.0.0.0/8, 192.168.1.1 ,"),
    ])
    .unwrap()
    .config;
    assert_eq!(config.listen[0].bind.to_string(), "[::]:0");
    assert_eq!(config.admin, Some("127.0.0.1:9901".parse().unwrap()));
    assert_eq!(config.trusted_proxies.networks.len(), 4);
    let empty = load(&[("HOST", ""), ("PORT", ""), ("ADMIN_ADDR", "none"), ("TRUSTED_PROXIES", "")]).unwrap().config;
    assert_eq!(empty, load(&[]).unwrap().config, "an empty variable is as good as not set");
}

#[test]
fn every_variable_that_cannot_be_understood_is_named() {
    for (name, value) in [
        ("HOST", "localhost"),
        ("PORT", "80a"),
        ("PORT", "70000"),
        ("ADMIN_ADDR", ":9901"),
        ("PY_SERVICE_URL", "127.0.0.1:8001"),
        ("NODE_SERVICE_URL", "http://a b"),
        ("RATE_LIMIT_ENABLED", "maybe"),
        ("GLOBAL_RPS", "-1"),
        ("GLOBAL_BURST", "1.5"),
        ("CLIENT_RPS", "0"),
        ("CLIENT_BURST", "0"),
        ("RL_CLEANUP_MINUTES", "x"),
        ("CACHE_ENABLED", "2"),
        ("CACHE_TTL_SECONDS", "5s"),
        ("CACHE_MAX_ENTRIES", "none"),
        ("CACHE_MAX_BODY_BYTES", "1MiB"),
        ("CACHE_BACKEND", "disk"),
        ("REDIS_ADDR", "redis:6379/../x@y"),
        ("REDIS_DB", "-1"),
        ("TRUSTED_PROXIES", "10.0.0.0/8,x"),
    ] {
        let problems = load(&[(name, value)]).unwrap_err();
        assert_eq!(problems.list().len(), 1, "{problems}");
        assert!(problems.to_string().starts_with(&format!("{name}: ")), "{problems}");
    }
    let both = load(&[("PORT", "x"), ("CACHE_ENABLED", "x")]).unwrap_err();
    assert_eq!(both.list().len(), 2, "all at once: {both}");
    let clash = load(&[("PORT", "9901"), ("ADMIN_ADDR", "127.0.0.1:9901")]).unwrap_err();
    assert!(clash.to_string().starts_with("ADMIN_ADDR: "), "{clash}");
}

#[test]
fn limits_and_cache_are_those_of_the_contract() {
    let (limits, cache, redis) = everything(&[]);
    let file = File {
        listen: Spanned::from(OneOrMany(vec![
            raw::Listen::from("127.0.0.1:0".parse::<raw::BindText>().unwrap()).into(),
        ])),
        limits: limits.unwrap(),
        caches: Map::from_iter([("c".to_owned(), cache.unwrap())]),
        routes: Spanned::from(vec![
            Route { respond: Some(raw::Respond::default().into()), ..Route::at("/".parse().unwrap()) }.into(),
        ]),
        ..File::default()
    };
    let config = crate::resolve::resolve(
        &file,
        Mode::Environment,
        std::path::Path::new(""),
        &|path| std::fs::read(path),
        &|_| None,
    )
    .unwrap();
    let [client, global] = config.limits.as_slice() else { panic!() };
    assert_eq!((&*client.name, &*client.key), ("client", &[LimitKey::ClientIp][..]), "asked first");
    assert_eq!((&*global.name, &*global.key), ("global", &[LimitKey::Global][..]));
    assert_eq!(client.algorithm, LimitAlgorithm::TokenBucket { rate_per_second: 20.0, burst: 40 });
    assert_eq!(global.algorithm, LimitAlgorithm::TokenBucket { rate_per_second: 200.0, burst: 100 });
    let cache = &config.caches[0];
    assert_eq!(cache.mode, CacheMode::Ttl(Duration::from_secs(300)));
    assert_eq!((cache.max_entries, cache.max_body_bytes), (10_000, 1_048_576));
    assert!(redis.is_none());
}

#[test]
fn limits_and_cache_can_be_changed_and_switched_off() {
    let (limits, cache, redis) = everything(&[
        ("CLIENT_RPS", "2.5"),
        ("GLOBAL_BURST", "7"),
        ("CACHE_TTL_SECONDS", "60"),
        ("CACHE_MAX_ENTRIES", "5"),
        ("CACHE_MAX_BODY_BYTES", "2048"),
        ("CACHE_BACKEND", "redis"),
        ("REDIS_ADDR", "cache.internal:6380"),
        ("REDIS_DB", "3"),
        ("REDIS_PASSWORD", "p@ss:w/rd %"),
    ]);
    let limits = limits.unwrap();
    assert_eq!(limits.0[0].1.rate.unwrap().value, Rate { count: 2.5, seconds: 1 });
    assert_eq!(limits.0[1].1.burst.unwrap().get(), 7);
    let cache = cache.unwrap();
    assert_eq!((cache.ttl.unwrap().0, cache.max_entries.get(), cache.max_body.0), (Duration::from_secs(60), 5, 2048));
    assert_eq!(cache.store.0, [raw::CacheStore::Redis]);
    assert_eq!(redis.unwrap().url.value, "redis://:p%40ss%3Aw%2Frd%20%25@cache.internal:6380/3");

    let (limits, cache, _) = everything(&[("RATE_LIMIT_ENABLED", "false"), ("CACHE_ENABLED", "0")]);
    assert!(limits.is_none() && cache.is_none());
}

#[test]
fn what_is_printed_means_the_same_as_a_file() {
    for variables in
        [&[][..], &[("PY_SERVICE_URL", "http://127.0.0.1:8001"), ("HOST", "0.0.0.0"), ("TRUSTED_PROXIES", "fd00::/8")]]
    {
        let loaded = load(variables).unwrap();
        let printed = loaded.file.to_yaml();
        let again =
            load_text("printed", &printed, &|_| None).unwrap_or_else(|problems| panic!("{problems}\n{printed}"));
        assert_eq!(again.file, loaded.file);
        assert_eq!(crate::Config { mode: Mode::Environment, ..again.config }, loaded.config);
    }
}
