//! `weir keys` on Redis.

use std::collections::BTreeSet;
use std::thread;

use testkit::{Redis, ports::Port};

use super::{builder, create, good, id, name, weir_keys};

#[test]
fn entries_have_the_fields_of_the_file() {
    let redis = Redis::start();
    let more =
        ["--tier", "gold", "--scope", "a:r", "--scope", "a:w", "--route", "orders", "--meta", "team=search engine"];
    let times = ["--not-before", "2026-01-01", "--expires", "2031-01-01T12:00:00Z"];
    let key = create(&redis.url(), "shop", &[&more[..], &times].concat());
    let fields = redis.cli(["HGETALL", &name(&key)]);
    let lines: Vec<&str> = fields.lines().collect();
    let pairs: BTreeSet<(&str, &str)> = lines.chunks(2).map(|pair| (pair[0], pair[1])).collect();
    let expected = [
        ("id", id(&key)),
        ("consumer", "shop"),
        ("tier", "gold"),
        ("scopes", "a:r a:w"),
        ("routes", "orders"),
        ("not_before", "2026-01-01"),
        ("expires", "2031-01-01T12:00:00Z"),
        ("meta.team", "search engine"),
    ];
    assert_eq!(pairs, BTreeSet::from(expected));
    assert!(!fields.contains(&key));
    let listed = good(&weir_keys(&["list", "--store", &redis.url()]));
    assert!(listed.contains("shop                 gold       2031-01-01T12:00:00Z"), "{listed}");
}

#[test]
fn what_cannot_be_done_is_said_with_its_reason() {
    let redis = Redis::start();
    let url = redis.url();
    let port = Port::free();
    let away = format!("redis://:secret@{}", port.address());
    for (arguments, code, message) in [
        (vec!["revoke", "nobody", "--store", &url], 64, "no key has the id `nobody`"),
        (vec!["rotate", "nobody", "--store", &url], 64, "no key has the id `nobody`"),
        (vec!["create", "shop", "--store", &url, "--scope", "a b"], 64, "`a b` in `scopes` is not one word"),
        (vec!["create", "shop", "--store", &url, "--expires", "soon"], 64, "`soon` is not a time"),
        (vec!["create", "", "--store", &url], 64, "must not be empty"),
        (vec!["list", "--store", "http://x"], 64, "a Redis URL is"),
        (vec!["list", "--store", &away], 69, "Redis does not serve"),
        (vec!["list"], 64, "--file <FILE>|--store <URL>|--config <FILE>"),
        (vec!["list", "--file", "a", "--store", &url], 64, "cannot be used with"),
    ] {
        let failed = weir_keys(&arguments);
        assert_eq!(failed.code, Some(code), "{arguments:?}: {}", failed.stderr);
        assert!(failed.stderr.contains(message), "{arguments:?}: {}", failed.stderr);
        assert!(!failed.stderr.contains("secret"), "{}", failed.stderr);
    }
    assert_eq!(redis.cli(["DBSIZE"]), "0", "nothing was written");
    // An id whose entry somebody deleted, and one that leads nowhere.
    redis.cli(["HSET", "weir:keys", "gone", &"ab".repeat(32), "odd", "nonsense"]);
    let failed = weir_keys(&["revoke", "gone", "--store", &url]);
    assert!(failed.code == Some(64) && failed.stderr.contains("no key has the id `gone`"), "{}", failed.stderr);
    assert_eq!(redis.cli(["EXISTS", &format!("weir:key:{}", "ab".repeat(32))]), "0", "no half of an entry is made");
    let listed = good(&weir_keys(&["list", "--store", &url]));
    assert!(listed.contains("`odd`") && !listed.contains("gone"), "{listed}");
}

#[test]
fn a_configuration_says_which_store_is_meant() {
    let redis = Redis::start();
    let dir = builder();
    let path = |name: &str| dir.dir().join(name).display().to_string();
    let (file, config) = (path("keys.yaml"), path("weir.yaml"));
    std::fs::write(&file, "").unwrap();
    let text = |auth: &str| {
        format!(
            "listen: 127.0.0.1:0\nredis: {{url: '{}', namespace: shop}}\nauth: {{{auth}}}\nroutes: [{{match: {{path: /*}}, respond: {{body: a}}}}]\n",
            redis.url()
        )
    };
    let two = format!("staff: {{api_key: {{store: {{file: '{file}'}}}}}}, partners: {{api_key: {{store: redis}}}}");
    std::fs::write(&config, text(&two)).unwrap();
    let refused = weir_keys(&["create", "a", "--config", &config]);
    assert!(
        refused.code == Some(64) && refused.stderr.contains("choose one by --auth: staff, partners"),
        "{}",
        refused.stderr
    );
    let refused = weir_keys(&["create", "a", "--config", &config, "--auth", "guests"]);
    assert!(refused.code == Some(64) && refused.stderr.contains("there are: staff, partners"), "{}", refused.stderr);
    let staff = good(&weir_keys(&["create", "ali", "--config", &config, "--auth", "staff"]));
    let partner = good(&weir_keys(&["create", "bo", "--config", &config, "--auth", "partners"]));
    assert!(std::fs::read_to_string(&file).unwrap().contains(id(&staff)));
    assert_eq!(redis.cli(["HKEYS", "shop:keys"]), id(&partner));
    std::fs::write(&config, text("")).unwrap();
    let refused = weir_keys(&["list", "--config", &config]);
    assert!(refused.code == Some(64) && refused.stderr.contains("no authenticator has API keys"), "{}", refused.stderr);
    assert_eq!(weir_keys(&["list", "--config", "/nonexistent.yaml"]).code, Some(66));
}

#[test]
fn a_list_of_many_keys_has_each_of_them_once() {
    let redis = Redis::start();
    let url = redis.url();
    let made: BTreeSet<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| create(&url, "shop", &[]))).collect();
        threads.into_iter().map(|thread| id(&thread.join().unwrap()).to_owned()).collect()
    });
    // More than one reading of the list of ids has.
    let script = "for i = 1, 1500 do local d = string.format('%064x', i) redis.call('HSET', 'weir:keys', 'id' .. i, d) \
                  redis.call('HSET', 'weir:key:' .. d, 'id', 'id' .. i, 'consumer', 'many') end";
    redis.cli(["EVAL", script, "0"]);
    let listed = good(&weir_keys(&["list", "--store", &url]));
    let ids: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(ids.len(), 1504);
    assert!(made.iter().all(|id| ids.contains(&&**id)));
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 1504);
}
