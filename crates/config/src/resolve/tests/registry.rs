use super::*;
use crate::{ConsulService, EndpointPort, KubernetesService, Registry};

fn of(targets: &str) -> String {
    format!(
        "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: {{{targets}}}}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n"
    )
}

fn target(targets: &str) -> Target {
    let mut config = good(&of(targets));
    assert_eq!(config.upstreams[0].targets.len(), 1, "{targets}");
    config.upstreams.remove(0).targets.remove(0)
}

/// What is wrong, with places.
fn problems(targets: &str) -> Vec<String> {
    let text = of(targets);
    let read = yaml::parse::<raw::File>(&text, &|_| None).and_then(|_| config(&text));
    let problems = read.expect_err(targets);
    let place = |origin: Origin| match origin {
        Origin::File { line, column } => format!("{line}:{column}"),
        other => format!("{other:?}"),
    };
    problems.into_iter().map(|problem| format!("{}: {}", place(problem.origin), problem.message)).collect()
}

fn registry(targets: &str) -> Registry {
    match target(targets).address {
        TargetAddress::Registry(registry) => Registry::clone(&registry),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_service_of_kubernetes_has_a_namespace_and_a_port() {
    for (text, port) in [
        ("shop/orders:http", EndpointPort::Name("http".into())),
        ("shop/orders:8080", EndpointPort::Number(8080)),
        ("shop/orders:8080-tls", EndpointPort::Name("8080-tls".into())),
    ] {
        let expected = KubernetesService { namespace: "shop".into(), name: "orders".into(), port };
        assert_eq!(registry(&format!("kubernetes: {text}")), Registry::Kubernetes(expected));
    }
    let target = target("kubernetes: shop/orders:http, path: /v1/");
    assert_eq!((target.authority.as_deref(), &*target.base_path), (Some("orders.shop.svc"), "/v1"));
    assert_eq!(target.tls_name, None);
}

#[test]
fn a_service_of_consul_has_an_agent() {
    let expected = ConsulService {
        name: "orders".into(),
        address: "http://127.0.0.1:8500".into(),
        tag: None,
        datacenter: None,
        token: None,
    };
    assert_eq!(registry("consul: orders"), Registry::Consul(expected.clone()));
    let all = "consul: orders, address: 'https://Consul.internal:8501/', tag: v2, datacenter: dc2, token: t0ken";
    let every = ConsulService {
        address: "https://consul.internal:8501".into(),
        tag: Some("v2".into()),
        datacenter: Some("dc2".into()),
        token: Some("t0ken".into()),
        ..expected.clone()
    };
    assert!(!format!("{every:?}").contains("t0ken"));
    assert_eq!(registry(all), Registry::Consul(every));
    // A variable that is set to nothing.
    assert_eq!(registry("consul: orders, token: ''"), Registry::Consul(expected));
    assert_eq!(target("consul: orders").authority.as_deref(), Some("orders.service.consul"));
}

#[test]
fn certificates_are_for_the_name_of_the_service_or_the_one_that_was_configured() {
    let named = |targets: &str, tls: &str| {
        let text = of(targets).replace("}}}\nroutes", &format!("}}, {tls}}}}}\nroutes"));
        good(&text).upstreams[0].targets[0].tls_name.as_deref().map(str::to_owned)
    };
    let host = "tls: {verify: false, insecure: true}";
    assert_eq!(named("kubernetes: shop/orders:https, scheme: https", host).as_deref(), Some("orders.shop.svc"));
    assert_eq!(named("consul: orders, scheme: https", host).as_deref(), Some("orders.service.consul"));
    let other = "tls: {verify: false, insecure: true, server_name: a.test}";
    assert_eq!(named("consul: orders, scheme: https", other).as_deref(), Some("a.test"));
}

#[test]
fn what_does_not_belong_together_is_refused_where_it_stands() {
    for (text, words) in [
        ("", "needs `file`, `kubernetes` or `consul`"),
        ("scheme: http", "needs `file`, `kubernetes` or `consul`"),
        ("kubernetes: shop/orders:http, consul: orders", "2:65: `consul` beside `kubernetes`"),
        ("kubernetes: shop/orders:http, tag: v2", "2:62: `tag` has no effect with `kubernetes`"),
        ("kubernetes: shop/orders:http, token: hidden", "`token` has no effect with `kubernetes`"),
        ("kubernetes: shop/orders:http, path: a/../b", "2:63: `a/../b`: "),
        ("kubernetes: orders:http", "2:39: `orders:http`: the namespace is missing"),
        ("kubernetes: shop/orders", "the port is missing; write `NAMESPACE/SERVICE:PORT`"),
        ("kubernetes: shop/orders:0", "`0` is not a port"),
        ("kubernetes: shop/orders:65536", "`65536` is not a port"),
        ("kubernetes: Shop/orders:http", "`Shop` is not the name of a namespace"),
        ("kubernetes: shop/:http", "`` is not the name of a Service"),
        ("kubernetes: 'shop/orders:'", "neither a number nor the name of a port"),
        ("kubernetes: shop/orders:http, scheme: h2", "h2"),
        ("consul: 'a/b'", "2:35: `a/b` is not the name of a service"),
        ("consul: orders, address: 'http://user:hidden@consul:8500'", "2:52: `address` is not the URL of an agent"),
        ("consul: orders, address: 'http://consul:8500/prefix'", "`address` is not the URL of an agent"),
        ("consul: orders, address: unix:/run/consul.sock", "`address` is not the URL of an agent"),
        ("consul: orders, tag: ''", "2:48: `tag` is empty"),
        ("consul: orders, datacentre: a", "did you mean `datacenter`?"),
    ] {
        let problems = problems(text);
        assert!(problems.iter().any(|problem| problem.contains(words)), "{text}: {problems:?}");
        assert!(!problems.iter().any(|problem| problem.contains("hidden")), "{text}: {problems:?}");
    }
}
