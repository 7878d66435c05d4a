//! What an operator may read about a key, and do about it: `/limits` of the admin listener.

use std::fmt;

use serde_json::{Value, json};

use super::{Algorithm, Key, KeyBytes, Limit, Limits, Now};
use crate::config::ClientAddress;
use crate::config::{LimitKey, LimitStore, LimitTiers};
use crate::observe::metrics::Exposition;
use message::form::decoded;

/// Which keys of which limits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Question {
    /// Name of a limit; all when there is none.
    pub limit: Option<String>,
    /// A value for each part of a limit's key, in its order; an empty one stands for a request without it.
    pub key: Vec<String>,
}

/// What is wrong with a question, for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuestion(String);

impl From<String> for BadQuestion {
    fn from(text: String) -> Self {
        BadQuestion(text)
    }
}

impl Question {
    /// Reads `key=203.0.113.9&limit=per_client`; `key` comes once for each part of the limit's key.
    ///
    /// # Errors
    /// What else is there.
    pub fn parse(query: &str) -> Result<Self, BadQuestion> {
        let mut question = Question::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = String::from_utf8(decoded(value.as_bytes()).collect())
                .map_err(|_| BadQuestion(format!("`{name}` is not text")))?;
            match name {
                "limit" => question.limit = Some(value),
                "key" => question.key.push(value),
                _ => {
                    return Err(BadQuestion(format!(
                        "`{name}` is not a parameter of this page; expected `key` or `limit`"
                    )));
                }
            }
        }
        Ok(question)
    }
}

impl Question {
    /// Whether it is about this limit; the name in the file stands for all of its windows.
    pub(super) fn names(&self, name: &str, group: &str) -> bool {
        self.limit.as_ref().is_none_or(|input| [name, group].contains(&input.as_str()))
    }
}

impl Limits {
    /// All limits that a question is about, with what is known of the key where it names one.
    ///
    /// # Errors
    /// When no limit has that name, or the key is not one of it.
    pub fn explain(&self, question: &Question) -> Result<Value, BadQuestion> {
        let now = self.now();
        let mut list = Vec::new();
        for limit in self.input(question)? {
            let mut entry = describe(limit);
            match self.key_of(limit, &question.key) {
                Ok(Some(key)) => {
                    entry["state"] = state(limit, key, now);
                    // As the console shows keys that are refused.
                    entry["hash"] = key.short().into();
                }
                Ok(None) => {}
                // Another limit may be meant.
                Err(error) if question.limit.is_some() => return Err(error),
                Err(BadQuestion(why)) => entry["note"] = why.into(),
            }
            list.push(entry);
        }
        self.explain_budgets(question, &mut list)?;
        Ok(json!({ "limits": list }))
    }

    /// Forgets what was charged to a key. Returns the names of the limits that had something to forget.
    ///
    /// # Errors
    /// When no limit has that name, or the key is not one of any.
    pub fn reset(&self, question: &Question) -> Result<Vec<String>, BadQuestion> {
        let now = self.now();
        let mut names = Vec::new();
        let mut fitting = 0;
        for limit in self.input(question)? {
            match self.key_of(limit, &question.key) {
                Ok(Some(key)) => {
                    fitting += 1;
                    if limit.memory.reset(key, now) {
                        names.push(limit.spec.name.to_string());
                    }
                }
                Ok(None) => {}
                Err(error) if question.limit.is_some() => return Err(error),
                Err(_) => {}
            }
        }
        fitting += self.reset_budgets(question, &mut names)?;
        if fitting == 0 {
            return Err(BadQuestion(
                "say which key: `DELETE /limits?key=203.0.113.9`, and `&limit=NAME` for one limit only".into(),
            ));
        }
        Ok(names)
    }

    /// Keys that are held, for the metrics.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn collect(&self, out: &mut Exposition<'_>) -> fmt::Result {
        out.gauge("rate_limit_keys", "Keys that a rate limit holds in memory", |s| {
            self.sums(|limit| limit.memory.keys() as u64)
                .into_iter()
                .try_for_each(|(name, sum)| s.add(&[("limit", name)], sum))
        })?;
        out.counter(
            "rate_limit_overflowed",
            "Requests counted in the shared bucket because `max_keys` were held",
            |s| {
                let sums = self.sums(|limit| limit.memory.overflowed());
                sums.into_iter().try_for_each(|(name, sum)| s.add(&[("limit", name)], sum))
            },
        )?;
        self.collect_budgets(out)
    }

    /// By name: windows of several tiers may have the same one.
    fn sums(&self, of: impl Fn(&Limit) -> u64) -> Vec<(&str, u64)> {
        let mut sums: Vec<(&str, u64)> = Vec::new();
        for limit in self.each_memory() {
            match sums.iter_mut().find(|(name, _)| **name == *limit.spec.name) {
                Some((_, sum)) => *sum += of(limit),
                None => sums.push((&limit.spec.name, of(limit))),
            }
        }
        sums
    }

    fn input<'a>(&'a self, question: &'a Question) -> Result<impl Iterator<Item = &'a Limit>, BadQuestion> {
        let fits = |limit: &Limit| question.names(&limit.spec.name, &limit.spec.group);
        let is_known = self.iter().any(|(_, limit)| fits(limit)) || self.has_budget(question);
        if let (Some(name), false) = (&question.limit, is_known) {
            return Err(BadQuestion(format!("there is no limit `{name}`, or it is switched off")));
        }
        Ok(self.iter().map(|(_, limit)| &**limit).filter(move |limit| fits(limit)))
    }

    /// The key that these values are for a limit; `None` when there are none and it needs some.
    pub(super) fn key_of(&self, limit: &Limit, values: &[String]) -> Result<Option<Key>, BadQuestion> {
        let bytes = key_bytes(&limit.spec.name, &limit.spec.key, values)?;
        Ok(bytes.map(|bytes| self.key(limit, &bytes)))
    }
}

/// The bytes of the key that these values are; `None` when there are none and it needs some.
pub(super) fn key_bytes(name: &str, key: &[LimitKey], values: &[String]) -> Result<Option<KeyBytes>, BadQuestion> {
    let mut bytes = KeyBytes::default();
    let mut rest = values.iter();
    for part in key.iter().filter(|part| **part != LimitKey::Global) {
        let Some(value) = rest.next() else {
            if values.is_empty() {
                return Ok(None);
            }
            return Err(wrong_count(name, key, values));
        };
        match part {
            LimitKey::ClientIp => {
                let address = value
                    .parse::<ClientAddress>()
                    .map_err(|_| BadQuestion(format!("`{name}` counts by client address, and `{value}` is not one")))?;
                bytes.address(address.to_canonical());
            }
            _ if value.is_empty() => bytes.missing(),
            _ => bytes.value(value.as_bytes()),
        }
    }
    // The one count of everything needs no value; one that is given is about other limits.
    if rest.next().is_some() {
        return if key == [LimitKey::Global] && values.len() == 1 {
            Ok(None)
        } else {
            Err(wrong_count(name, key, values))
        };
    }
    Ok(Some(bytes))
}

fn wrong_count(name: &str, key: &[LimitKey], values: &[String]) -> BadQuestion {
    let parts: Vec<String> = key.iter().map(part_text).collect();
    BadQuestion(format!(
        "`{name}` counts by {}: give `key` {} times in this order, not {}",
        parts.join(" and "),
        parts.len(),
        values.len()
    ))
}

pub(super) fn part_text(part: &LimitKey) -> String {
    match part {
        LimitKey::ClientIp => "client_ip".into(),
        LimitKey::Header(name) => format!("header:{name}"),
        LimitKey::Query(name) => format!("query:{name}"),
        LimitKey::Consumer => "consumer".into(),
        LimitKey::VirtualKey => "virtual_key".into(),
        LimitKey::Team => "team".into(),
        LimitKey::Tier => "tier".into(),
        LimitKey::Model => "model".into(),
        LimitKey::Claim(path) => format!("claim:{path}"),
        LimitKey::Meta(name) => format!("meta:{name}"),
        LimitKey::Route => "route".into(),
        LimitKey::Global => "global".into(),
    }
}

fn describe(limit: &Limit) -> Value {
    let algorithm = match limit.algorithm {
        Algorithm::TokenBucket(_) => "token_bucket",
        Algorithm::FixedWindow(_) => "fixed_window",
        Algorithm::SlidingWindow(_) => "sliding_window",
        Algorithm::Concurrency(_) => "concurrency",
    };
    json!({
        "name": &*limit.spec.name,
        "algorithm": algorithm,
        "key": limit.spec.key.iter().map(part_text).collect::<Vec<_>>(),
        "limit": limit.algorithm.limit(),
        "window_seconds": limit.algorithm.window_ns().map(seconds),
        "store": match limit.spec.store {
            LimitStore::Memory => "memory",
            LimitStore::Redis => "redis",
        },
        "tiers": tiers(&limit.spec.tiers),
        "enforced": limit.spec.enforce,
        "keys": limit.memory.keys(),
        "max_keys": limit.memory.max_keys(),
        "overflowed": limit.memory.overflowed(),
    })
}

/// Whom a limit is about.
pub(super) fn tiers(tiers: &LimitTiers) -> Value {
    match tiers {
        LimitTiers::All => Value::Null,
        LimitTiers::Only(tier) => json!(&**tier),
        LimitTiers::Except(tiers) => json!({ "except": tiers.iter().map(|tier| &**tier).collect::<Vec<_>>() }),
    }
}

fn state(limit: &Limit, key: Key, now: Now) -> Value {
    let next = limit.memory.peek(key, 1, now);
    let remaining = if next.allowed { next.remaining + 1 } else { next.remaining };
    json!({
        "in_use": limit.memory.is_live(key, now),
        "remaining": remaining,
        "allowed": next.allowed,
        "retry_seconds": seconds(next.retry_ns),
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
