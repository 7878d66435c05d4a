use crate::redis::address::{Address, Host, Servers};

fn parse(url: &str) -> Address {
    Address::parse(url).unwrap_or_else(|bad| panic!("{url}: {bad}"))
}

fn host(name: &str, port: u16) -> Host {
    Host { name: name.into(), port }
}

#[test]
fn every_form_is_read() {
    let plain = parse("redis://localhost");
    assert_eq!((&plain.servers, plain.database, plain.tls), (&Servers::One(host("localhost", 6379)), 0, false));
    assert_eq!((plain.user, plain.password), (None, None));

    let full = parse("rediss://us%40er:p%3Aa%2Fss,%20%25@[::1]:7000/12");
    assert_eq!((full.servers, full.database, full.tls), (Servers::One(host("::1", 7000)), 12, true));
    assert_eq!((full.user.as_deref(), full.password.as_deref()), (Some("us@er"), Some("p:a/ss, %")));
    assert_eq!(parse("redis://:a@b@c:1/").password.as_deref(), Some("a@b"));

    let cluster = parse("redis+cluster://:secret@a,b:7001,c?tls=true");
    assert_eq!(cluster.servers, Servers::Cluster(vec![host("a", 6379), host("b", 7001), host("c", 6379)]));
    assert_eq!((cluster.tls, cluster.password.as_deref()), (true, Some("secret")));

    let sentinel = parse("redis+sentinel://u:p@a,b:5000/my%20service/3?sentinel_password=w%26d");
    let sentinels = vec![host("a", 26379), host("b", 5000)];
    let expected = Servers::Sentinel { sentinels, service: "my service".into(), password: Some("w&d".into()) };
    assert_eq!((sentinel.servers, sentinel.database), (expected, 3));
}

#[test]
fn what_is_wrong_is_said_and_secrets_are_not() {
    for (url, says) in [
        ("http://s3cr3t", "scheme"),
        ("s3cr3t", "scheme"),
        ("redis://", "host is missing"),
        ("redis://a b:s3cr3t@c", "space"),
        ("redis://a#s3cr3t", "#"),
        ("redis://s3cr3t@host", "user without a password"),
        ("redis://:s3cr3t%@host", "hexadecimal"),
        ("redis://:s3cr3t%+1@host", "hexadecimal"),
        ("redis://:s3cr3t%ff@host", "UTF-8"),
        ("redis://:s3cr3t@a,b", "several hosts"),
        ("redis://a:0", "port"),
        ("redis://a:65536", "port"),
        ("redis://[::1", "without `]`"),
        ("redis://[s3cr3t]", "IPv6"),
        ("redis://a/s3cr3t", "database"),
        ("redis://a?tls=true", "query"),
        ("redis+cluster://a/1", "only the database 0"),
        ("redis+cluster://a,,b", "host is missing"),
        ("redis+sentinel://a", "service"),
        ("redis+sentinel://a/b?s3cr3t", "query"),
    ] {
        let message = Address::parse(url).expect_err(url).to_string();
        assert!(message.contains(says) && !message.contains("s3cr3t"), "{url}: {message}");
    }
    let shown = format!("{0} {0:?}", parse("redis+sentinel://us3r:s3cr3t@[::1],b/name?sentinel_password=s3cr3t"));
    assert!(
        shown.contains("[::1]:26379,b:26379/name") && !shown.contains("s3cr3t") && !shown.contains("us3r"),
        "{shown}"
    );
}
