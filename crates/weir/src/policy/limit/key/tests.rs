//! Tests of keys.

use super::*;

fn shared(bytes: &KeyBytes) -> Key {
    Key::shared(1, bytes, &KeyedHash::new(b"a secret of some bytes"))
}

fn bytes(write: impl FnOnce(&mut KeyBytes)) -> KeyBytes {
    let mut bytes = KeyBytes::default();
    write(&mut bytes);
    bytes
}

#[test]
fn what_differs_has_another_key() {
    let keys = [
        bytes(|_| {}),
        bytes(KeyBytes::missing),
        bytes(|key| key.value(b"")),
        bytes(|key| key.value(b"a")),
        bytes(|key| key.value(b"b")),
        bytes(|key| key.value(b"ab")),
        bytes(|key| (key.value(b"a"), key.value(b"b")).1),
        bytes(|key| (key.value(b"ab"), key.value(b"")).1),
        bytes(|key| (key.missing(), key.value(b"a")).1),
        bytes(|key| (key.value(b"a"), key.missing()).1),
        bytes(|key| key.address("192.0.2.1".parse().unwrap())),
        bytes(|key| key.address("2001:db8:1:2::".parse().unwrap())),
        bytes(|key| key.address("2001:db8:1:3::".parse().unwrap())),
    ];
    let secret = KeySecret::random();
    for (index, one) in keys.iter().enumerate() {
        for other in &keys[..index] {
            assert_ne!(Key::local(one, &secret), Key::local(other, &secret));
            assert_ne!(shared(one), shared(other));
        }
    }
}

#[test]
fn addresses_of_one_subscriber_have_one_key() {
    let one = bytes(|key| key.address("2001:db8:1:2:3:4:5:6".parse().unwrap()));
    let other = bytes(|key| key.address("2001:db8:1:2::9".parse().unwrap()));
    assert_eq!(one, other);
}

#[test]
fn a_key_of_this_process_is_of_no_use_elsewhere() {
    let key = bytes(|key| key.value(b"secret"));
    assert_ne!(Key::local(&key, &KeySecret::random()), Key::local(&key, &KeySecret::random()));
    assert_eq!(shared(&key), shared(&key.clone()));
}

#[test]
fn a_query_has_one_reading() {
    let find = |query: &str| query_parameter(query.as_bytes(), b"key").map(|value| bytes(|key| key.query_value(value)));
    let plain = bytes(|key| key.value(b"a b"));
    for same in ["key=a%20b", "key=a+b", "x=1&k%65y=%61%20b", "key=a b&y", "%6b%65%79=a+b&keys=2"] {
        assert_eq!(find(same), Some(plain.clone()), "{same}");
    }
    for none in ["", "x=key", "key=1&key=1", "key=1&k%65y=2", "Key=1"] {
        assert_eq!(find(none), None, "{none}");
    }
    assert_eq!(find("key"), Some(bytes(|key| key.value(b""))));
    assert_eq!(find("key=%zz%4"), Some(bytes(|key| key.value(b"%zz%4"))));
}

#[test]
fn a_key_in_redis_depends_on_limit_and_secret() {
    let mut key = KeyBytes::default();
    key.address("203.0.113.9".parse().unwrap());
    let hash = |identity, secret: &str| Key::shared(identity, &key, &KeyedHash::new(secret.as_bytes()));
    assert_ne!(hash(1, "one"), hash(2, "one"));
    assert_ne!(hash(1, "one"), hash(1, "two"));
    // Golden: what replicas of other versions have to find as well.
    assert_eq!(format!("{:032x}", hash(1, "weir").0), "f0bec59eac1a7f8f4f2a6f9c703cc1b9");
}
