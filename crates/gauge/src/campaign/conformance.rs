//! Is a gateway one that may be compared at all? Each operation of each workload once, to `direct` and to the gateway: same status, same
//! body but for what differs by nature, same required headers; an unknown path refused; forwarded headers where the upstream echoes them.

use std::net::SocketAddr;

use serde_json::Value;

use super::addressed::{self, Addressed};
use super::start::Running;
use super::{Campaign, CampaignError};
use crate::foreign;
use crate::load::workload::Operation;
use crate::load::{Exchange, Fetched, Prepared};
use crate::plan;
use crate::profile::Clients;
use crate::results::{Conformance, Difference};

/// Differences that are listed for one body; one more says how many there are.
const LISTED: usize = 5;
/// A path that no API has.
const UNKNOWN: &str = "/gauge-asks-for-a-path-that-nobody-has";

/// What `direct` responded, workload by workload.
#[derive(Debug, Default)]
pub(super) struct Expected(Vec<Vec<Exchange>>);

fn exchanges(
    campaign: &Campaign<'_>,
    workload: &plan::Workload,
    addressed: &Addressed,
) -> Result<Vec<Exchange>, CampaignError> {
    let request = addressed::for_conformance(workload, addressed, &campaign.generate.made);
    let prepared = Prepared::new(&request).map_err(|error| CampaignError::Backend(error.to_string()))?;
    Ok(prepared.once())
}

/// Calls the upstreams themselves. What they respond must be what the workload expects of everybody.
pub(super) fn expected(campaign: &mut Campaign<'_>) -> Result<Expected, CampaignError> {
    campaign.backends.new_round();
    campaign.backends.fresh(campaign.there.upstream())?;
    let origins = campaign.backends.for_generator(campaign.there.upstream())?;
    let addressed = Addressed::Direct(origins, Box::new(campaign.plan.profile.baseline()));
    let mut all = Vec::new();
    for workload in &campaign.plan.workloads {
        let responses = exchanges(campaign, workload, &addressed)?;
        if let Some(exchange) = responses.iter().find(|exchange| !exchange.expected) {
            let what = outcome(exchange);
            let ended = campaign.backends.ended(campaign.there.upstream()).map(|ended| format!("\n{ended}"));
            return Err(CampaignError::Backend(format!(
                "workload `{}`, operation `{}`: the upstream itself, without a gateway, {what}; nothing can be compared \
                 with that. Fix the request, or list the statuses that are right in `expect`{}",
                workload.name,
                exchange.operation,
                ended.unwrap_or_default()
            )));
        }
        all.push(responses);
    }
    Ok(Expected(all))
}

/// `direct` is what it is compared with.
pub(super) fn of_direct(expected: &Expected) -> Conformance {
    let names = expected.0.iter().flatten().map(|exchange| exchange.operation.clone());
    let mut operations: Vec<String> = Vec::new();
    for name in names {
        if !operations.contains(&name) {
            operations.push(name);
        }
    }
    Conformance { operations, differences: Vec::new() }
}

/// Calls a gateway, whose upstreams are as fresh as they were for `direct`.
pub(super) fn compare(
    campaign: &Campaign<'_>,
    expected: &Expected,
    running: &Running,
) -> Result<Conformance, CampaignError> {
    let required = &campaign.plan.conformance;
    let mut differences = Vec::new();
    for (workload, baseline) in campaign.plan.workloads.iter().zip(&expected.0) {
        let own = exchanges(campaign, workload, &running.addressed)?;
        for (baseline, own) in baseline.iter().zip(&own) {
            let list = if baseline.setup { &workload.setup } else { &workload.operations };
            let planned = list.iter().find(|planned| planned.operation.id == baseline.operation);
            let described = planned.map_or(baseline.operation.as_str(), |planned| planned.described.as_str());
            let differs: Vec<&str> = ["*", described]
                .iter()
                .filter_map(|key| required.differs.get(*key))
                .flatten()
                .map(String::as_str)
                .collect();
            let forwarded = required.forwarded.as_ref().filter(|forwarded| forwarded.operation == described);
            let mut found = Comparison { operation: &baseline.operation, differences: &mut differences };
            match (&baseline.response, &own.response) {
                (Ok(baseline), Ok(own)) => {
                    let echoed: Vec<&str> =
                        forwarded.iter().flat_map(|forwarded| forwarded.headers.values()).map(String::as_str).collect();
                    let ignored: Vec<&str> = differs.iter().copied().chain(echoed).collect();
                    found.responses(baseline, own, &required.headers, &ignored);
                    if let Some(forwarded) = forwarded {
                        found.forwarded(own, forwarded);
                    }
                }
                (Ok(baseline), Err(error)) => {
                    found.add("status", &baseline.status.to_string(), &format!("no response: {error}"));
                }
                (Err(_), _) => {}
            }
        }
    }
    if required.unknown_path
        && let Addressed::Gateway(address, clients) = &running.addressed
    {
        let (wanted, found) = ("a status from 400 to 499", unknown_path(*address, clients));
        if !matches!(found, Ok(400..=499)) {
            let found = found.map_or_else(|error| format!("no response: {error}"), |status| status.to_string());
            let operation = "unknown path".to_owned();
            differences.push(Difference { operation, what: "status".to_owned(), expected: wanted.to_owned(), found });
        }
    }
    Ok(Conformance { operations: of_direct(expected).operations, differences })
}

fn unknown_path(gateway: SocketAddr, clients: &Clients) -> Result<u16, String> {
    let operation = Operation { base: Some(clients.base(gateway)), ..Operation::get("unknown path", UNKNOWN) };
    let workload = clients.single(operation, std::time::Duration::from_secs(10));
    let prepared = Prepared::new(&workload).map_err(|error| error.to_string())?;
    let exchange = prepared.once().pop().ok_or("no request was sent")?;
    exchange.response.map(|response| response.status)
}

/// Collects what differs in an operation.
struct Comparison<'f> {
    operation: &'f str,
    differences: &'f mut Vec<Difference>,
}

impl Comparison<'_> {
    fn add(&mut self, what: &str, expected: &str, found: &str) {
        let difference = Difference {
            operation: self.operation.to_owned(),
            what: what.to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        // Two workloads may send the same request.
        if !self.differences.contains(&difference) {
            self.differences.push(difference);
        }
    }

    fn responses(&mut self, baseline: &Fetched, own: &Fetched, headers: &[String], differs: &[&str]) {
        if baseline.status != own.status {
            let found = format!("{} ({})", own.status, shown(&own.body));
            self.add("status", &baseline.status.to_string(), &found);
            // The body of another status is another one.
            return;
        }
        for name in headers {
            let (expected, found) = (baseline.header(name), own.header(name));
            if expected.is_some() && !same_value(expected, found) {
                self.add(&format!("header {name}"), expected.unwrap_or_default(), found.unwrap_or("absent"));
            }
        }
        let json = |body: &[u8]| serde_json::from_slice::<Value>(body).ok();
        match (json(&baseline.body), json(&own.body)) {
            (Some(baseline), Some(own)) => {
                let mut list = Vec::new();
                walk("", Some(&baseline), Some(&own), differs, &mut list);
                for (pointer, expected, found) in list.iter().take(LISTED) {
                    let pointer = if pointer.is_empty() { "/" } else { pointer };
                    self.add(&format!("body {pointer}"), expected, found);
                }
                if list.len() > LISTED {
                    self.add("body", "the same", &format!("{} more values differ", list.len() - LISTED));
                }
            }
            _ if baseline.body != own.body => self.add("body", &shown(&baseline.body), &shown(&own.body)),
            _ => {}
        }
    }

    fn forwarded(&mut self, own: &Fetched, forwarded: &plan::Forwarded) {
        let body: Option<Value> = serde_json::from_slice(&own.body).ok();
        for (header, pointer) in &forwarded.headers {
            let found = body.as_ref().and_then(|body| body.pointer(pointer));
            if found.is_none_or(|value| value.is_null() || value.as_str() == Some("")) {
                self.add(&format!("forwarded {header}"), "it reaches the upstream", "it does not");
            }
        }
    }
}

/// Media types are compared without regard to case and blanks: `application/json;charset=UTF-8`.
fn same_value(left: Option<&str>, right: Option<&str>) -> bool {
    let plain = |text: Option<&str>| text.map(|text| text.to_ascii_lowercase().replace([' ', '"'], ""));
    plain(left) == plain(right)
}

/// Collects the pointers at which two values differ, and how. What is not there is `None`, which null is not: a gateway that leaves members with null
/// out changes the response.
fn walk(
    at: &str,
    baseline: Option<&Value>,
    own: Option<&Value>,
    differs: &[&str],
    list: &mut Vec<(String, String, String)>,
) {
    if differs.iter().any(|pointer| covers(pointer, at)) {
        return;
    }
    match (baseline, own) {
        (Some(Value::Object(baseline)), Some(Value::Object(own))) => {
            let more = own.keys().filter(|name| !baseline.contains_key(*name));
            for name in baseline.keys().chain(more) {
                let at = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
                walk(&at, baseline.get(name), own.get(name), differs, list);
            }
        }
        (Some(Value::Array(baseline)), Some(Value::Array(own))) if baseline.len() == own.len() => {
            for (index, (baseline, own)) in baseline.iter().zip(own).enumerate() {
                walk(&format!("{at}/{index}"), Some(baseline), Some(own), differs, list);
            }
        }
        _ if baseline != own => {
            let text = |value: Option<&Value>| {
                value.map_or_else(|| "absent".to_owned(), |value| shown(value.to_string().as_bytes()))
            };
            list.push((at.to_owned(), text(baseline), text(own)));
        }
        _ => {}
    }
}

/// Whether a pointer of the evaluation, in which a step may be `*`, names this place.
fn covers(pointer: &str, at: &str) -> bool {
    let (mut wanted, mut found) = (pointer.split('/'), at.split('/'));
    loop {
        match (wanted.next(), found.next()) {
            (None, None) => return true,
            (Some(wanted), Some(found)) if wanted == "*" || wanted == found => {}
            _ => return false,
        }
    }
}

/// What became of a request, in words.
pub(super) fn outcome(exchange: &Exchange) -> String {
    match &exchange.response {
        Ok(response) => {
            let status = match response.header("grpc-status") {
                Some(code) => format!("gRPC status {}", foreign::shown(code)),
                None => response.status.to_string(),
            };
            let said = response.header("grpc-message").map_or_else(|| shown(&response.body), foreign::shown);
            format!("responded with {status} ({said})")
        }
        Err(error) => format!("sent no response: {}", foreign::shown(error)),
    }
}

/// The begin of a body, on one line.
pub(super) fn shown(body: &[u8]) -> String {
    const MOST: usize = 120;
    let text: String = String::from_utf8_lossy(&body[..body.len().min(4 * MOST)])
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if body.len() <= MOST {
        return text;
    }
    let begin: String = text.chars().take(MOST).collect();
    format!("{begin}... ({} bytes)", body.len())
}

#[cfg(test)]
mod tests;
