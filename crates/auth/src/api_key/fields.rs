//! An entry as fields of a hash, which is what a store in Redis holds for each key.
//!
//! Fields have the names of the file's members. Lists are words with spaces between; each name of `meta` is a field `meta.NAME`. The
//! digest is no field: it is the name of the hash.

use std::collections::BTreeMap;

use super::entry::{Entry, shown};
use crate::Priority;

/// A hash with more fields is no entry.
pub const MOST_FIELDS: usize = 256;
/// Names and values together: parts of an entry go to upstreams and logs with each request.
const MOST_BYTES: usize = 64 << 10;

impl Entry {
    /// The fields of the hash.
    ///
    /// # Errors
    /// A scope, or the name of a route or model, that is not one word.
    pub fn to_fields(&self) -> Result<Vec<(String, String)>, String> {
        let words = |name: &str, list: &[String]| {
            let is_word = |word: &String| !word.is_empty() && !word.contains(char::is_whitespace);
            match list.iter().find(|word| !is_word(word)) {
                Some(word) => Err(format!("`{word}` in `{name}` is not one word")),
                None => Ok(list.join(" ")),
            }
        };
        let flag = |is_set: bool| is_set.then(|| "true".to_owned());
        let some = |text: String| (!text.is_empty()).then_some(text);
        let fields = [
            ("id", Some(self.id.clone())),
            ("consumer", Some(self.consumer.clone())),
            ("tier", self.tier.clone()),
            ("scopes", some(words("scopes", &self.scopes)?)),
            ("routes", some(words("routes", &self.routes)?)),
            ("models", some(words("models", &self.models)?)),
            ("priority", self.priority.map(|class| class.name().to_owned())),
            ("explain", flag(self.explain)),
            ("not_before", self.not_before.clone()),
            ("expires", self.expires.clone()),
            ("disabled", flag(self.disabled)),
            ("weak", flag(self.weak)),
        ];
        let meta = self.meta.iter().map(|(name, value)| (format!("meta.{name}"), value.clone()));
        Ok(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).chain(meta).collect())
    }

    /// The entry of a hash. `sha256` is the part of its name that is the digest.
    ///
    /// # Errors
    /// What is wrong, without any value: a field that is not known or occurs twice, text that is not UTF-8, a flag that is neither `true`
    /// nor `false`, no `id` or `consumer`.
    pub fn from_fields<'f>(
        sha256: &str,
        fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
    ) -> Result<Self, String> {
        let mut entry = Self { sha256: sha256.to_owned(), ..Self::default() };
        let mut seen = BTreeMap::new();
        let mut bytes = 0;
        for (count, (name, value)) in fields.into_iter().enumerate() {
            if count == MOST_FIELDS {
                return Err(format!("it has more than {MOST_FIELDS} fields"));
            }
            bytes += name.len() + value.len();
            if bytes > MOST_BYTES {
                return Err(format!("it has more than {} KiB", MOST_BYTES >> 10));
            }
            let name = std::str::from_utf8(name).map_err(|_| "the name of a field is not UTF-8".to_owned())?;
            let value = std::str::from_utf8(value).map_err(|_| format!("`{}` is not UTF-8", shown(name)))?;
            if seen.insert(name, ()).is_some() {
                return Err(format!("`{}` occurs twice", shown(name)));
            }
            let flag = || match value {
                "true" | "1" => Ok(true),
                "false" | "0" | "" => Ok(false),
                _ => Err(format!("`{name}` is neither `true` nor `false`")),
            };
            let words = || value.split_ascii_whitespace().map(str::to_owned).collect();
            let text = || (!value.is_empty()).then(|| value.to_owned());
            match name {
                "id" => value.clone_into(&mut entry.id),
                "consumer" => value.clone_into(&mut entry.consumer),
                "tier" => entry.tier = text(),
                "scopes" => entry.scopes = words(),
                "routes" => entry.routes = words(),
                "models" => entry.models = words(),
                "priority" => {
                    let class = Priority::of_name(value.as_bytes());
                    entry.priority = Some(class.ok_or("`priority` is none of interactive, standard, batch")?);
                }
                // As in the file: an empty text is no time, and must not make a key that never expires.
                "not_before" => entry.not_before = Some(value.to_owned()),
                "expires" => entry.expires = Some(value.to_owned()),
                "explain" => entry.explain = flag()?,
                "disabled" => entry.disabled = flag()?,
                "weak" => entry.weak = flag()?,
                _ => match name.strip_prefix("meta.").filter(|name| !name.is_empty()) {
                    Some(name) => drop(entry.meta.insert(name.to_owned(), value.to_owned())),
                    // As in the file: `expire` in place of `expires` must not make a key that never expires.
                    None => return Err(format!("the field `{}` is not known", shown(name))),
                },
            }
        }
        // No names would open every route, which is what a missing field says.
        if entry.routes.is_empty() && seen.contains_key("routes") {
            return Err("`routes` names no route; without the field the key opens all".to_owned());
        }
        if entry.models.is_empty() && seen.contains_key("models") {
            return Err("`models` names no model; without the field the key may use all".to_owned());
        }
        if entry.id.is_empty() || entry.consumer.is_empty() {
            return Err("`id` and `consumer` must not be empty".to_owned());
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::option::of;
    use proptest::prelude::*;

    use super::super::Record;
    use super::*;

    fn read(fields: &[(&str, &str)]) -> Result<Entry, String> {
        Entry::from_fields("ab", fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())))
    }

    #[test]
    fn fields_have_the_names_of_the_file() {
        let entry = read(&[
            ("id", "k7"),
            ("consumer", "shop"),
            ("tier", "gold"),
            ("scopes", "orders:read  orders:write"),
            ("routes", "orders"),
            ("models", "chat  gpt-4o"),
            ("priority", "batch"),
            ("explain", "true"),
            ("not_before", "2027-01-01"),
            ("expires", "2027-12-31"),
            ("disabled", "1"),
            ("meta.team", "search engine"),
        ]);
        let expected = Entry {
            id: "k7".into(),
            sha256: "ab".into(),
            consumer: "shop".into(),
            tier: Some("gold".into()),
            scopes: vec!["orders:read".into(), "orders:write".into()],
            routes: vec!["orders".into()],
            models: vec!["chat".into(), "gpt-4o".into()],
            priority: Some(Priority::Batch),
            explain: true,
            not_before: Some("2027-01-01".into()),
            expires: Some("2027-12-31".into()),
            disabled: true,
            meta: BTreeMap::from([("team".into(), "search engine".into())]),
            ..Entry::default()
        };
        assert_eq!(entry, Ok(expected));
    }

    #[test]
    fn what_is_not_an_entry_is_refused() {
        for (wrong, why) in [
            (&[("id", "k7")][..], "must not be empty"),
            (&[("consumer", "shop"), ("id", "")], "must not be empty"),
            (&[("id", "k7"), ("consumer", "shop"), ("expire", "2027-01-01")], "`expire` is not known"),
            (&[("id", "k7"), ("consumer", "shop"), ("disabled", "yes")], "neither `true` nor `false`"),
            (&[("id", "k7"), ("consumer", "shop"), ("id", "k8")], "occurs twice"),
            (&[("id", "k7"), ("consumer", "shop"), ("meta.", "x")], "not known"),
            (&[("id", "k7"), ("consumer", "shop"), ("routes", " ")], "names no route"),
            (&[("id", "k7"), ("consumer", "shop"), ("routes", "")], "names no route"),
            (&[("id", "k7"), ("consumer", "shop"), ("models", " ")], "names no model"),
            (&[("id", "k7"), ("consumer", "shop"), ("priority", "")], "none of interactive, standard, batch"),
        ] {
            let error = read(wrong).expect_err("no entry");
            assert!(error.contains(why), "{error}");
        }
        let fields = [(&b"id"[..], &b"\xff"[..])];
        assert!(Entry::from_fields("ab", fields).is_err());
        let many: Vec<String> = (0..=MOST_FIELDS).map(|number| format!("meta.{number}")).collect();
        let fields = many.iter().map(|name| (name.as_bytes(), &b"x"[..]));
        assert!(Entry::from_fields("ab", fields).expect_err("too many").contains("more than 256 fields"));
        let long = "x".repeat(MOST_BYTES);
        assert!(read(&[("id", "k7"), ("consumer", &long)]).expect_err("too long").contains("more than 64 KiB"));
        // What a time is says the record, which an entry of the file becomes too.
        for field in ["expires", "not_before"] {
            let entry = read(&[("id", "k7"), ("consumer", "shop"), (field, "")]).expect("an entry");
            assert!(Record::of(entry).expect_err("no time").contains("is not a time"));
        }
        let entry = Entry { id: "k".into(), consumer: "c".into(), scopes: vec!["a b".into()], ..Entry::default() };
        assert!(entry.to_fields().is_err());
    }

    proptest! {
        #[test]
        fn an_entry_is_the_same_after_a_hash(
            (id, consumer, tier) in ("[a-z0-9]{1,12}", "[^\\x00]{1,20}", of("[a-z]{1,8}")),
            (scopes, routes, models) in (vec("[a-z:]{1,8}", 0..4), vec("[a-z_-]{1,8}", 0..4), vec("[a-z0-9.:/-]{1,8}", 0..4)),
            priority in of(proptest::sample::select(&Priority::ALL[..])),
            explain in any::<bool>(),
            (not_before, expires) in (of("2027-0[1-9]-01"), of("2028-0[1-9]-01")),
            (disabled, weak) in (any::<bool>(), any::<bool>()),
            meta in btree_map("[a-zA-Z_.-]{1,8}", ".{0,20}", 0..4),
        ) {
            let entry = Entry {
                id, sha256: "ab".into(), consumer, tier, scopes, routes, models, priority, explain, not_before, expires, disabled, weak, meta
            };
            let fields = entry.to_fields().expect("words");
            let bytes = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            prop_assert_eq!(Entry::from_fields("ab", bytes), Ok(entry));
        }

        #[test]
        fn any_fields_are_read_or_refused(fields in vec((vec(any::<u8>(), 0..12), vec(any::<u8>(), 0..12)), 0..12)) {
            let _ = Entry::from_fields("ab", fields.iter().map(|(name, value)| (&name[..], &value[..])));
        }
    }
}
