use super::*;

fn url(text: &str) -> TargetUrl {
    text.parse().unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

#[test]
fn a_target_has_an_address_an_authority_and_a_base_path() {
    let name = |host: &str, port| TargetAddress::Name { host: host.into(), port };
    let ip = |text: &str| TargetAddress::Ip(text.parse().unwrap());
    for (text, address, authority, base) in [
        ("http://127.0.0.1:8001", ip("127.0.0.1:8001"), "127.0.0.1:8001", ""),
        ("http://127.0.0.1", ip("127.0.0.1:80"), "127.0.0.1", ""),
        ("http://127.0.0.1:80/", ip("127.0.0.1:80"), "127.0.0.1", ""),
        ("http://[::1]:8001/v1/", ip("[::1]:8001"), "[::1]:8001", "/v1"),
        ("http://[::1]", ip("[::1]:80"), "[::1]", ""),
        ("http://Model.Internal:8003/a/b", name("model.internal", 8003), "model.internal:8003", "/a/b"),
        ("http://my_service", name("my_service", 80), "my_service", ""),
        ("https://a.example", name("a.example", 443), "a.example", ""),
        ("https://a.example:80", name("a.example", 80), "a.example:80", ""),
    ] {
        let url = url(text);
        assert_eq!(url.address, address, "{text}");
        assert_eq!(url.authority.as_deref(), Some(authority), "{text}");
        assert_eq!(url.base_path, base, "{text}");
        assert_eq!(url.tls, text.starts_with("https"), "{text}");
        assert_eq!(url.to_string(), text);
    }
}

#[test]
fn sockets_and_demo_services_have_no_authority() {
    for (text, address) in [
        ("unix:/run/app.sock", TargetAddress::Unix("/run/app.sock".into())),
        ("unix:///run/app.sock", TargetAddress::Unix("/run/app.sock".into())),
        ("demo:inference-python", TargetAddress::Demo(DemoService::InferencePython)),
        ("demo:inference-node", TargetAddress::Demo(DemoService::InferenceNode)),
        ("demo:plain", TargetAddress::Demo(DemoService::Plain)),
    ] {
        let url = url(text);
        assert_eq!((&url.address, &url.authority), (&address, &None), "{text}");
        assert_eq!(url.to_string(), text);
    }
    for service in DemoService::ALL {
        assert_eq!(url(&TargetUrl::demo(service).to_string()), TargetUrl::demo(service));
    }
}

#[test]
fn what_is_no_target_is_refused() {
    let long = format!("unix:/{}", "a".repeat(107));
    for text in [
        "",
        "a",
        "http:/a",
        "http://",
        "http:///a",
        "http://a:",
        "http://a:0",
        "http://a:+80",
        "http://a:65536",
        "http://a b",
        "http://-a",
        "http://a..b",
        "http://[::1]a",
        "http://[1.2.3.4]",
        "http://::1",
        "http://1.2.3",
        "http://a//b",
        "http://a/%2f",
        "http://a/b;c",
        "http://a?b",
        "http://a#b",
        "http://u@a",
        "HTTP://a",
        "unix:",
        "unix:a",
        "demo:",
        "demo:x",
        &long,
    ] {
        assert!(text.parse::<TargetUrl>().is_err(), "{text}");
    }
}

#[test]
fn keys_of_hashes_and_limits_are_written_as_they_are_read() {
    for text in ["client_ip", "path", "header:x-user"] {
        assert_eq!(text.parse::<HashKeyText>().unwrap().to_string(), text);
    }
    for text in ["client_ip", "route", "global", "header:x-api-key", "query:Key"] {
        assert_eq!(text.parse::<LimitKeyText>().unwrap().to_string(), text);
    }
    assert_eq!("header:X-API-KEY".parse::<LimitKeyText>().unwrap().0, LimitKey::Header("x-api-key".into()));
    for text in ["", "ip", "header:", "header:a b", "query:", "cookie:a", "global:"] {
        assert!(text.parse::<LimitKeyText>().is_err(), "{text}");
    }
}

#[test]
fn a_service_has_its_domain_as_authority_and_no_port() {
    for (text, service, authority, base, tls) in [
        ("srv+http://_api._tcp.example.com", "_api._tcp.example.com", "example.com", "", false),
        ("srv+https://_API._tcp.Example.com/v1/", "_api._tcp.example.com", "example.com", "/v1", true),
        (
            "srv+http://_http._tcp.app.shop.svc.cluster.local.",
            "_http._tcp.app.shop.svc.cluster.local.",
            "app.shop.svc.cluster.local",
            "",
            false,
        ),
        ("srv+http://web.service.consul", "web.service.consul", "web.service.consul", "", false),
        ("srv+http://_api._tcp.a._b.test", "_api._tcp.a._b.test", "a._b.test", "", false),
    ] {
        let url = url(text);
        assert_eq!(url.address, TargetAddress::Service(service.into()), "{text}");
        assert_eq!((url.authority.as_deref(), &*url.base_path, url.tls), (Some(authority), base, tls), "{text}");
        assert_eq!(url.to_string(), text);
    }
    for (text, words) in [
        ("srv+http://_api._tcp.example.com:80", "SRV records say the port"),
        ("srv+http://_api._tcp", "has no domain"),
        ("srv+http://10.0.0.1", "not a name in DNS"),
        ("srv+http://[::1]", "SRV records say the port"),
        ("srv+http://", "not a name in DNS"),
        ("srv+http://a b", "not a name in DNS"),
        ("srv+unix:/run/a", "is not a target"),
        ("srv+srv+http://a", "is not a target"),
        ("srv+http://user@a", "takes no user"),
    ] {
        let problem = text.parse::<TargetUrl>().expect_err(text);
        assert!(problem.contains(words), "{text}: {problem}");
    }
}
