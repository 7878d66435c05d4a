//! `weir keys` on Redis.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::pipe;
use std::process::{Command, Stdio};
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
    let long = format!("a={}", "x".repeat(64 << 10));
    for (arguments, code, message) in [
        (vec!["revoke", "nobody", "--store", &url], 64, "no key has the id `nobody`"),
        (vec!["rotate", "nobody", "--store", &url], 64, "no key has the id `nobody`"),
        (vec!["create", "shop", "--store", &url, "--scope", "a b"], 64, "`a b` in `scopes` is not one word"),
        (vec!["create", "shop", "--store", &url, "--expires", "soon"], 64, "`soon` is not a time"),
        (vec!["create", "", "--store", &url], 64, "must not be empty"),
        // A gateway could not read these entries, or would not look there.
        (vec!["create", "shop", "--store", &url, "--meta", "=x"], 64, "the field `meta.` is not known"),
        (vec!["create", "shop", "--store", &url, "--meta", &long], 64, "it has more than 64 KiB"),
        (vec!["create", "shop", "--store", &url, "--namespace", "a b"], 64, "`namespace` is 1 to 32 letters"),
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

/// Somebody may have seen the old key: a rotation must not give it more time than it had, in a file or in Redis.
#[test]
fn a_rotation_gives_the_old_key_no_more_time() {
    let redis = Redis::start();
    let dir = builder();
    let file = dir.dir().join("keys.yaml").display().to_string();
    for place in [["--store", &redis.url()], ["--file", &file]] {
        let keys = |arguments: &[&str]| weir_keys(&[arguments, &place].concat());
        let key = good(&keys(&["create", "shop", "--expires", "2031-01-01"]));
        let expires = |key: &str| {
            let listed = good(&keys(&["list"]));
            let row = listed.lines().find(|line| line.starts_with(id(key))).unwrap().to_owned();
            row.split_whitespace().nth(3).unwrap().to_owned()
        };
        let rotated = keys(&["rotate", id(&key), "--overlap", "1h"]);
        let next = good(&rotated);
        assert!(*expires(&key) < *"2031", "it was valid for longer than the overlap");
        assert_eq!(expires(&next), "2031-01-01");
        assert!(rotated.stderr.contains("the new key expires 2031-01-01"), "{}", rotated.stderr);
        let before = expires(&key);
        good(&keys(&["rotate", id(&key), "--overlap", "300d"]));
        assert_eq!(expires(&key), before, "it is not valid for longer now");
        let gone = good(&keys(&["create", "shop", "--expires", "2020-01-01"]));
        let refused = keys(&["rotate", id(&gone)]);
        assert_eq!(refused.code, Some(64));
        assert!(refused.stdout.is_empty() && refused.stderr.contains("has expired"), "{}", refused.stderr);
        assert_eq!(expires(&gone), "2020-01-01", "an expired key stays so");
    }
}

/// Its entry is made, and the key is nowhere: whoever called must hear of it.
#[test]
fn a_key_that_cannot_be_handed_out_is_a_failure() {
    let redis = Redis::start();
    let url = redis.url();
    let old = create(&url, "shop", &[]);
    let (reader, gone) = pipe().unwrap();
    drop(reader);
    let full = || File::options().write(true).open("/dev/full").unwrap();
    for (arguments, stdout) in [
        (["create", "shop"], Stdio::from(full())),
        (["create", "shop"], Stdio::from(gone.try_clone().unwrap())),
        (["rotate", id(&old)], Stdio::from(full())),
        (["rotate", id(&old)], Stdio::from(gone)),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("keys").args(arguments).args(["--store", &url]).stdout(stdout).stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        // The id leads to the entry, which is of no use to anybody.
        let made = said.split("revoke `").nth(1).unwrap().split('`').next().unwrap();
        good(&weir_keys(&["revoke", made, "--store", &url]));
    }
    assert_eq!(good(&weir_keys(&["list", "--store", &url])).matches("revoked").count(), 4);
}

#[test]
fn a_list_writes_no_control_characters_to_the_terminal() {
    let redis = Redis::start();
    let key = create(&redis.url(), "a\nb \u{1b}[31mred \u{9b}2J", &[]);
    redis.cli(["HSET", "weir:keys", "\u{1b}[2J", "nonsense"]);
    let listed = good(&weir_keys(&["list", "--store", &redis.url()]));
    assert!(listed.lines().all(|line| !line.contains(char::is_control)), "{listed:?}");
    assert_eq!(listed.lines().count(), 3, "{listed}");
    assert!(listed.contains(id(&key)), "{listed}");
}
