//! Against a name server of our own on a real socket: changing responses, wrong responses, no response.

use std::fs;
use std::str::FromStr;

use hickory_resolver::config::{ConnectionConfig, NameServerConfig};

use super::*;

pub(in crate::upstream) use testkit::NameServer;

/// Resolvers that use a name server, with short timeouts.
pub(in crate::upstream) trait ResolverOf {
    /// Without a hosts file.
    fn resolver(&self) -> Resolver {
        self.resolver_with("/nonexistent/hosts", &[], |_| true)
    }

    fn resolver_with(&self, hosts: &str, search: &[&str], is_routable: fn(IpAddr) -> bool) -> Resolver;
}

impl ResolverOf for NameServer {
    fn resolver_with(&self, hosts: &str, search: &[&str], is_routable: fn(IpAddr) -> bool) -> Resolver {
        let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
            connection.port = self.address().port();
            connection
        });
        let server = NameServerConfig::new(self.address().ip(), true, connections.into());
        let search = search.iter().map(|domain| Name::from_str(domain).unwrap()).collect();
        let config = ResolverConfig::from_parts(None, search, vec![server]);
        let mut options = ResolverOpts::default();
        options.timeout = Duration::from_millis(100);
        options.attempts = 1;
        Resolver(Arc::new(State {
            hosts: hosts.into(),
            servers: Servers::Fixed(client(config, options).unwrap()),
            pace: Pace {
                min: Duration::from_millis(10),
                max: Duration::from_secs(300),
                hosts: Duration::from_secs(10),
                retry: Duration::from_millis(10),
                retry_max: Duration::from_millis(40),
            },
            queries: Semaphore::new(4),
            is_routable,
        }))
    }
}

fn addresses(list: &[&str]) -> Vec<IpAddr> {
    list.iter().map(|address| address.parse().unwrap()).collect()
}

fn sorted(response: Result<Resolved, String>) -> Vec<IpAddr> {
    let mut addresses = response.expect("an answer").addresses;
    addresses.sort_unstable();
    addresses
}

#[tokio::test]
async fn every_address_of_both_families_is_found() {
    let server = NameServer::start();
    server.set("model.test", 60, &["10.0.0.2", "10.0.0.1", "fd00::1"]);
    let found = sorted(server.resolver().look_up("model.test", &[]).await);
    assert_eq!(found, addresses(&["10.0.0.1", "10.0.0.2", "fd00::1"]));
    server.set("six.test", 60, &["fd00::6"]);
    assert_eq!(sorted(server.resolver().look_up("six.test", &[]).await), addresses(&["fd00::6"]));
}

#[tokio::test]
async fn aliases_are_followed() {
    let server = NameServer::start();
    server.set("node-17.cluster.test", 60, &["10.0.0.17", "fd00::17"]);
    server.alias("model.test", "node-17.cluster.test");
    let found = sorted(server.resolver().look_up("model.test", &[]).await);
    assert_eq!(found, addresses(&["10.0.0.17", "fd00::17"]));
}

#[tokio::test]
async fn names_as_people_write_them_are_found() {
    let server = NameServer::start();
    for (written, requested) in [
        ("my_service.test", "my_service.test"), // Compose
        ("_model.test", "_model.test"),
        ("MODEL.test", "model.test"),
        ("model-7.a.b.c.test.", "model-7.a.b.c.test"),
        ("1model.test", "1model.test"),
    ] {
        server.set(requested, 60, &["10.0.0.1"]);
        assert_eq!(sorted(server.resolver().look_up(written, &[]).await), addresses(&["10.0.0.1"]), "{written}");
    }
}

#[tokio::test]
async fn what_is_no_name_is_an_error() {
    let server = NameServer::start();
    for name in ["", ".", "a..b", &"x".repeat(64), &"abcdefg.".repeat(40), "white space"] {
        assert!(server.resolver().look_up(name, &[]).await.is_err(), "{name:?}");
    }
}

#[tokio::test]
async fn a_response_is_believed_as_long_as_it_says_within_bounds() {
    let server = NameServer::start();
    let resolver = server.resolver();
    let valid_for = async |ttl| {
        server.set("model.test", ttl, &["10.0.0.1"]);
        resolver.look_up("model.test", &[]).await.expect("an answer").valid_for
    };
    assert_eq!(valid_for(0).await, resolver.pace().min);
    assert_eq!(valid_for(3_000_000).await, resolver.pace().max);
    let between = valid_for(60).await;
    assert!(between > resolver.pace().min && between <= Duration::from_secs(60), "{between:?}");
}

#[tokio::test]
async fn every_look_up_sends_a_query() {
    let server = NameServer::start();
    let resolver = server.resolver();
    server.set("model.test", 3600, &["10.0.0.1"]);
    assert_eq!(sorted(resolver.look_up("model.test", &[]).await), addresses(&["10.0.0.1"]));
    server.set("model.test", 3600, &["10.0.0.2"]);
    assert_eq!(sorted(resolver.look_up("model.test", &[]).await), addresses(&["10.0.0.2"]));
}

#[tokio::test]
async fn what_is_no_response_is_an_error_that_says_so() {
    let server = NameServer::start();
    let resolver = server.resolver();
    assert!(resolver.look_up("unknown.test", &[]).await.is_err(), "no such name");
    server.set("empty.test", 60, &[]);
    assert!(resolver.look_up("empty.test", &[]).await.is_err(), "a name without addresses");
    server.set("model.test", 60, &["10.0.0.1"]);
    server.fail(2);
    assert!(resolver.look_up("model.test", &[]).await.is_err(), "SERVFAIL");
    server.fail(0);
    server.die(true);
    let error = resolver.look_up("model.test", &[]).await.expect_err("nobody answers");
    assert!(!error.is_empty());
    server.die(false);
    assert_eq!(sorted(resolver.look_up("model.test", &[]).await), addresses(&["10.0.0.1"]));
}

#[tokio::test]
async fn short_names_are_looked_for_in_the_search_domains() {
    let server = NameServer::start();
    server.set("model.second.test", 60, &["10.0.0.7"]);
    let resolver = server.resolver_with("/nonexistent/hosts", &["first.test.", "second.test."], |_| true);
    assert_eq!(sorted(resolver.look_up("model", &[]).await), addresses(&["10.0.0.7"]));
    assert!(resolver.look_up("model.", &[]).await.is_err(), "the final dot makes it whole");
}

#[tokio::test]
async fn a_name_in_the_hosts_file_is_never_resolved() {
    let server = NameServer::start();
    server.set("model", 60, &["10.0.0.1", "fd00::1"]);
    let hosts = tempfile::NamedTempFile::new().unwrap();
    fs::write(
        hosts.path(),
        "127.0.0.1 localhost\n# 10.9.9.9 model\n10.2.0.1\tgpu Model # of the first rack\n10.2.0.2 model\nnonsense model\n",
    )
    .unwrap();
    let resolver = server.resolver_with(hosts.path().to_str().unwrap(), &[], |_| true);
    let response = resolver.look_up("model", &[]).await.expect("an answer");
    assert_eq!(response.addresses, addresses(&["10.2.0.1", "10.2.0.2"]));
    assert_eq!(response.valid_for, resolver.pace().hosts);
    assert_eq!(server.requested("model"), 0);
    // It is read again each time.
    fs::write(hosts.path(), "10.2.0.3 model\n").unwrap();
    assert_eq!(sorted(resolver.look_up("model.", &[]).await), addresses(&["10.2.0.3"]));
    fs::write(hosts.path(), "").unwrap();
    assert_eq!(sorted(resolver.look_up("model", &[]).await), addresses(&["10.0.0.1", "fd00::1"]));
}

#[tokio::test]
async fn addresses_without_a_route_are_left_out_unless_there_is_no_other() {
    let server = NameServer::start();
    server.set("model.test", 60, &["10.0.0.1", "fd00::1"]);
    server.set("six.test", 60, &["fd00::6"]);
    let without_ipv6 = server.resolver_with("/nonexistent/hosts", &[], |address| address.is_ipv4());
    assert_eq!(sorted(without_ipv6.look_up("model.test", &[]).await), addresses(&["10.0.0.1"]));
    assert_eq!(sorted(without_ipv6.look_up("six.test", &[]).await), addresses(&["fd00::6"]));
}

#[test]
fn loopback_has_a_route_and_a_foreign_link_has_none() {
    assert!(is_routable("127.0.0.1".parse().unwrap()));
    // Link-local without a zone: the kernel cannot know which link is meant.
    assert!(!is_routable("fe80::1".parse().unwrap()));
}

#[test]
fn localhost_is_known_without_any_server() {
    // RFC 6761 section 6.3, also where neither a hosts file nor a name server is at hand.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let server = NameServer::start();
    server.die(true);
    let found = runtime.block_on(server.resolver().look_up("localhost", &[]));
    assert_eq!(sorted(found), addresses(&["127.0.0.1", "::1"]));
    assert_eq!(server.requested("localhost"), 0);
}

#[tokio::test]
async fn the_file_of_name_servers_is_read_again_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("resolv.conf");
    let resolver = Resolver(Arc::new(State {
        hosts: "/nonexistent/hosts".into(),
        servers: Servers::File { path: path.clone(), current: Mutex::default() },
        pace: Pace::default(),
        queries: Semaphore::new(QUERIES),
        is_routable: |_| true,
    }));
    let error = resolver.look_up("model.test", &[]).await.expect_err("there is no file");
    assert!(error.contains("resolv.conf"), "{error}");
    let write = |text: &str, age_s: u64| {
        fs::write(&path, text).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age_s)).unwrap();
    };
    write("nameserver 127.0.0.1\noptions attempts:1\n", 30);
    assert_eq!(resolver.dns().expect("a client").options().attempts, 1);
    write("nameserver 127.0.0.1\noptions attempts:3\n", 20);
    assert_eq!(resolver.dns().expect("a client").options().attempts, 3);
    write("# nothing\n", 10);
    assert!(resolver.dns().is_err_and(|error| error.contains("resolv.conf")));
    write("nameserver 127.0.0.1\noptions attempts:4\n", 5);
    assert_eq!(resolver.dns().expect("a client").options().attempts, 4);
}
