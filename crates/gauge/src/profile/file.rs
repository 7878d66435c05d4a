//! A profile as an evaluation writes it: a name, or a name with its keys.

use std::fmt;

use serde::de::{self, Deserializer, MapAccess, Visitor};

use super::Profile;

/// `key-auth`, or `{key-auth: {keys: 10}}`.
///
/// # Errors
/// What is wrong with it, with its place.
pub(crate) fn profile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Profile, D::Error> {
    struct Name;

    impl<'de> Visitor<'de> for Name {
        type Value = Profile;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a profile's name, such as key-auth, or the name with its keys: {key-auth: {keys: 10}}")
        }

        fn visit_str<E: de::Error>(self, name: &str) -> Result<Profile, E> {
            let profile = Profile::named(name).map_err(E::custom)?;
            let problems = profile.problems();
            if problems.is_empty() { Ok(profile) } else { Err(E::custom(problems.join("; "))) }
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Profile, A::Error> {
            let name: String = map.next_key()?.ok_or_else(|| de::Error::custom("expected a profile's name"))?;
            let profile = match Profile::named(&name).map_err(de::Error::custom)? {
                Profile::KeyAuth(_) => Profile::KeyAuth(map.next_value()?),
                Profile::Headers(_) => Profile::Headers(map.next_value()?),
                Profile::RateLimit(_) => Profile::RateLimit(map.next_value()?),
                Profile::Jwt(_) => Profile::Jwt(map.next_value()?),
                Profile::Life(_) => Profile::Life(map.next_value()?),
                Profile::Http2(_) => Profile::Http2(map.next_value()?),
                Profile::Tls(_) => Profile::Tls(map.next_value()?),
                Profile::Grpc(_) => Profile::Grpc(map.next_value()?),
                Profile::WebSocket(_) => Profile::WebSocket(map.next_value()?),
                without_keys @ (Profile::PassThrough | Profile::Cache | Profile::Streams | Profile::LargeBodies) => {
                    map.next_value::<Nothing>()?;
                    without_keys
                }
            };
            let problems = profile.problems();
            match map.next_key::<String>()? {
                _ if !problems.is_empty() => Err(de::Error::custom(problems.join("; "))),
                None => Ok(profile),
                Some(second) => Err(de::Error::custom(format!("one profile at a time: `{name}` or `{second}`"))),
            }
        }
    }

    deserializer.deserialize_any(Name)
}

/// The keys of a profile that has none.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}
