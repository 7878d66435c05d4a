//! What differs between two configurations, in words.

use std::collections::HashMap;

use crate::config::{Budget, Config, Limit, LimitTiers};

/// What differs, a line for each; what only a restart can change says so.
pub(super) fn changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let mut restart = |what: &str, differs: bool| {
        if differs {
            lines.push(format!("{what} changed: takes effect at the next start"));
        }
    };
    restart("admin", before.admin != after.admin);
    restart("workers", before.workers != after.workers);
    restart("takeover", before.takeover != after.takeover);
    restart("access_log", before.access_log != after.access_log);
    restart("telemetry", before.telemetry != after.telemetry);
    fn named<'a, T>(list: &'a [T], name: impl Fn(&T) -> &str + 'a) -> Vec<(&'a T, String)> {
        list.iter().map(|item| (item, name(item).to_owned())).collect()
    }
    /// Of several with one name the first counts. A map, because there may be thousands.
    fn by_name<'l, T>(list: &'l [(&'l T, String)]) -> HashMap<&'l str, &'l T> {
        list.iter().rev().map(|(item, name)| (&**name, *item)).collect()
    }
    fn compare<T: PartialEq>(lines: &mut Vec<String>, what: &str, before: &[(&T, String)], after: &[(&T, String)]) {
        let (old, new) = (by_name(before), by_name(after));
        for (item, name) in after {
            match old.get(&**name) {
                None => lines.push(format!("{what} {name} added")),
                Some(known) if known != item => lines.push(format!("{what} {name} changed")),
                Some(_) => {}
            }
        }
        for (_, name) in before {
            if !new.contains_key(&**name) {
                lines.push(format!("{what} {name} removed"));
            }
        }
    }
    /// Windows of different tiers may have one name.
    fn limit(name: &str, tiers: &LimitTiers) -> String {
        match tiers {
            LimitTiers::Only(tier) => format!("{name} of tier {tier}"),
            LimitTiers::All | LimitTiers::Except(_) => name.to_owned(),
        }
    }
    fn limits(list: &[Limit]) -> Vec<(&Limit, String)> {
        list.iter().map(|one| (one, limit(&one.name, &one.tiers))).collect()
    }
    fn budgets(list: &[Budget]) -> Vec<(&Budget, String)> {
        list.iter().map(|one| (one, limit(&one.name, &one.tiers))).collect()
    }
    compare(
        &mut lines,
        "route",
        &named(&before.routes, |route| &route.name),
        &named(&after.routes, |route| &route.name),
    );
    compare(
        &mut lines,
        "upstream",
        &named(&before.upstreams, |upstream| &upstream.name),
        &named(&after.upstreams, |upstream| &upstream.name),
    );
    compare(&mut lines, "auth", &named(&before.auth, |one| &one.name), &named(&after.auth, |one| &one.name));
    compare(&mut lines, "limit", &limits(&before.limits), &limits(&after.limits));
    compare(&mut lines, "limit", &budgets(&before.budgets), &budgets(&after.budgets));
    compare(
        &mut lines,
        "cache",
        &named(&before.caches, |cache| &cache.name),
        &named(&after.caches, |cache| &cache.name),
    );
    if before.gateway_auth != after.gateway_auth {
        lines.push("defaults.auth changed".into());
    }
    if before.console != after.console {
        lines.push("console changed".into());
    }
    if before.redis != after.redis {
        lines.push("redis changed".into());
    }
    if before.server != after.server {
        lines.push("server changed".into());
    }
    if before.trusted_proxies != after.trusted_proxies {
        lines.push("trusted_proxies changed".into());
    }
    if before.untrusted_headers != after.untrusted_headers {
        lines.push("untrusted_headers changed".into());
    }
    if before.request_id != after.request_id {
        lines.push("request_id changed".into());
    }
    lines
}
