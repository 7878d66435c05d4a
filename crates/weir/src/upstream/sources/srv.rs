//! Services in DNS: SRV records (RFC 2782) to targets.
//!
//! A record gives host, port, weight and priority. Its host is a name like any other: resolved, and followed, by `resolve`. The records are looked up
//! again when their TTL ends, within the bounds that hold for addresses. A failure of any kind, "no such name" and a response without a record included,
//! keeps the records that were known; only the target `.`, by which the domain says that there is no such service, removes them all.
//!
//! - Priorities are compared within one service: its lowest value is the first tier, the next one the second, and so on. See `set` for what that means.
//! - A weight of 0 counts as 1, the least there is. That is the chance which the algorithm of RFC 2782 gives such a record: 1 in (sum of weights + 1).

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_resolver::proto::rr::rdata::SRV;
use hickory_resolver::proto::rr::{Name, RData};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Status;
use crate::config;
use crate::upstream::resolve::Resolved;
use crate::upstream::{Resolver, Upstreams, lock};

/// Records of one service. Each may have a look-up of its own, and a response over TCP has room for three times as many.
const MAX_RECORDS: usize = 1_000;

/// How long a response waits for the addresses of hosts that are new, so that no priority is passed over only because it has none yet.
const HOSTS: Duration = Duration::from_secs(1);

/// What is known of a service.
#[derive(Debug)]
pub(in crate::upstream) struct Service {
    /// `srv:NAME`.
    pub(in crate::upstream) label: Arc<str>,
    /// By tier, host and port; `None` until there was a response.
    pub(in crate::upstream) records: Option<Vec<Record>>,
    pub(in crate::upstream) status: Status,
}

impl Service {
    fn new(name: &str) -> Service {
        Service { label: format!("srv:{name}").into(), records: None, status: Status::default() }
    }
}

/// A record, as targets need it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::upstream) struct Record {
    /// 0 for the lowest priority value of the response, 1 for the next one.
    pub(in crate::upstream) tier: u16,
    /// In lower case, with a final dot: no search domain is tried for it.
    pub(in crate::upstream) host: Arc<str>,
    pub(in crate::upstream) port: u16,
    pub(in crate::upstream) weight: NonZeroU32,
}

/// A response.
#[derive(Debug)]
pub(in crate::upstream) struct SrvRecords {
    pub(in crate::upstream) records: Vec<Record>,
    /// When to look again.
    pub(in crate::upstream) valid_for: Duration,
    /// Hosts that had no address, with what was found for them.
    pub(in crate::upstream) hosts: Vec<(Arc<str>, Result<Resolved, String>)>,
}

/// Looks a service up, and those of its hosts that are not known.
pub(in crate::upstream) async fn look_up(
    name: &str,
    resolver: &Resolver,
    is_known: impl Fn(&str) -> bool,
) -> Result<SrvRecords, String> {
    let dns = resolver.dns()?;
    // Relaxed: labels of services begin with an underscore.
    let name = Name::from_str_relaxed(name).map_err(|error| error.to_string())?;
    let found = dns.srv_lookup(name).await.map_err(|error| error.to_string())?;
    let pace = resolver.pace();
    let valid_for = found.valid_until().saturating_duration_since(Instant::now()).clamp(pace.min, pace.max);
    let records = records(found.answers().iter().filter_map(|record| match &record.data {
        RData::SRV(record) => Some(record),
        _ => None,
    }))?;
    let new: HashSet<Arc<str>> =
        records.iter().map(|record| record.host.clone()).filter(|host| !is_known(host)).collect();
    let mut look_ups = JoinSet::new();
    for host in new {
        let resolver = resolver.clone();
        look_ups.spawn(async move {
            let result = resolver.look_up(&host, &[]).await;
            (host, result)
        });
    }
    let mut hosts = Vec::new();
    let all = async {
        while let Some(done) = look_ups.join_next().await {
            hosts.extend(done.ok());
        }
    };
    // Those that take longer are resolved as other names are.
    let _ = tokio::time::timeout(HOSTS, all).await;
    Ok(SrvRecords { records, valid_for, hosts })
}

/// The records of a response in order, each host and port once. Empty: the domain says that there is no such service.
fn records<'r>(response: impl Iterator<Item = &'r SRV>) -> Result<Vec<Record>, String> {
    let mut found: Vec<(u16, String, u16, u16)> = Vec::new();
    let (mut is_unavailable, mut unusable) = (false, None);
    for record in response {
        if record.target.is_root() {
            is_unavailable = true;
            continue;
        }
        let host = record.target.to_ascii().to_ascii_lowercase();
        if record.port == 0 || !config::is_host_name(&host) {
            unusable = Some(format!("no target is at `{host}`, port {}", record.port));
            continue;
        }
        found.push((record.priority, host, record.port, record.weight));
    }
    if found.len() > MAX_RECORDS {
        return Err(format!("the DNS response has {} SRV records; at most {MAX_RECORDS} are taken", found.len()));
    }
    match unusable {
        Some(why) if found.is_empty() => return Err(format!("no SRV record of the DNS response can be used: {why}")),
        Some(why) => tracing::warn!(why, "SRV record left out"),
        None if found.is_empty() && !is_unavailable => return Err("the DNS response holds no SRV record".into()),
        None => {}
    }
    found.sort_unstable();
    let mut seen = HashSet::new();
    let mut priorities: Vec<u16> = Vec::new();
    let mut records = Vec::with_capacity(found.len());
    for (priority, host, port, weight) in found {
        // Named with two priorities, a host has the better one.
        if !seen.insert((host.clone(), port)) {
            continue;
        }
        if priorities.last() != Some(&priority) {
            priorities.push(priority);
        }
        records.push(Record {
            tier: (priorities.len() - 1) as u16,
            host: host.into(),
            port,
            weight: NonZeroU32::new(u32::from(weight)).unwrap_or(NonZeroU32::MIN),
        });
    }
    Ok(records)
}

impl Upstreams {
    /// Takes in a response for a service. A failure keeps the records that are known.
    pub(in crate::upstream) fn set_service(&self, name: &Arc<str>, response: Result<SrvRecords, String>) {
        self.note_service(name, response);
        self.refresh();
    }

    /// The same without a new set of targets yet.
    pub(in crate::upstream) fn note_service(&self, name: &Arc<str>, response: Result<SrvRecords, String>) {
        let response = response.map(|found| {
            // Before the records: they are of use with addresses.
            for (host, resolved) in found.hosts {
                self.note_addresses(&host, resolved.map(|resolved| resolved.addresses));
            }
            found.records
        });
        let mut services = lock(&self.common.services);
        let service = services.entry(name.clone()).or_insert_with(|| Service::new(name));
        match response {
            Ok(records) => {
                let had_failed = service.status.succeed();
                if had_failed || service.records.as_ref() != Some(&records) {
                    tracing::info!(service = %name, records = records.len(), "service looked up");
                }
                if records.is_empty() && service.records.as_ref().is_none_or(|before| !before.is_empty()) {
                    tracing::warn!(service = %name, "the domain says that there is no such service (RFC 2782): no targets");
                }
                service.records = Some(records);
            }
            Err(why) => {
                let kept = service.records.as_ref().map_or(0, Vec::len);
                if service.status.error.is_none() {
                    tracing::warn!(service = %name, why, kept, "service not looked up, the last good records stay");
                }
                service.status.fail(why);
            }
        }
    }
}

/// Looks one service up, and again whenever the response expires, until no configuration uses it.
pub(in crate::upstream) async fn follow(name: Arc<str>, newest: watch::Receiver<Arc<Upstreams>>, resolver: Resolver) {
    let mut failures = 0;
    loop {
        let current = newest.borrow().clone();
        let is_known = |host: &str| !current.addresses_of(host).is_empty();
        let result = look_up(&name, &resolver, is_known).await;
        drop(current);
        let pause = match &result {
            Ok(found) => {
                failures = 0;
                found.valid_for
            }
            Err(_) => {
                failures += 1;
                resolver.pace().after_failures(failures)
            }
        };
        let upstreams = newest.borrow().clone();
        upstreams.set_service(&name, result);
        drop(upstreams);
        tokio::time::sleep(pause).await;
    }
}

#[cfg(test)]
mod tests;
