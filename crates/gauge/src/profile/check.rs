//! A gateway is held against its profile before any load: with an upstream that says what reached it, request by request. What each profile requires
//! is in [`cases`].

mod cases;
mod grpc;
mod secure;
mod websocket;

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use super::{CLIENT, Clients, Profile};
use crate::demo::COUNTS;
use crate::load::workload::{Operation, Source};
use crate::load::{Fetched, Prepared};
use crate::results::{Difference, Reached};

/// How long a response may take, also one of 24 MiB on a machine that does other things. Longer is a gateway that hangs.
const DEADLINE: Duration = Duration::from_secs(30);

/// Sends single requests to a gateway in front of the upstream of `gauge demo --probe`.
#[derive(Debug)]
pub(crate) struct Probe {
    /// Where the gateway listens.
    pub(crate) gateway: SocketAddr,
    /// Where its upstream listens.
    pub(crate) upstream: SocketAddr,
    /// How the gateway is reached.
    pub(crate) clients: Clients,
    /// An operation of the load, as the load sends it.
    pub(crate) operation: Operation,
    /// One with a body, if there is one.
    pub(crate) upload: Option<Operation>,
    pub(crate) differences: Vec<Difference>,
}

/// Why a check says nothing of the gateway.
pub(crate) type NotChecked = String;

/// What a gateway does otherwise than its profile says.
///
/// # Errors
/// When the upstream of the check did not respond, for which the gateway is not to blame.
pub(crate) fn check(profile: &Profile, mut probe: Probe) -> Result<Vec<Difference>, NotChecked> {
    match profile {
        Profile::PassThrough | Profile::Life(_) => {}
        Profile::KeyAuth(auth) => probe.key_auth(auth)?,
        Profile::Headers(headers) => probe.headers(headers)?,
        Profile::RateLimit(limit) => probe.rate_limit(limit)?,
        Profile::Cache => probe.cache()?,
        Profile::Jwt(jwt) => probe.jwt(*jwt)?,
        Profile::Streams => probe.streams()?,
        Profile::LargeBodies => probe.large_bodies()?,
        Profile::Http2(_) => probe.http2()?,
        Profile::Tls(tls) => probe.tls(tls)?,
        Profile::Grpc(_) => probe.grpc()?,
        Profile::WebSocket(_) => probe.websocket()?,
    }
    Ok(probe.differences)
}

impl Probe {
    /// One request on a connection of its own: the operation with these fields instead of its own of the name. The inner error is the gateway's.
    fn send(&self, fields: &[(&str, Option<&str>)]) -> Result<Result<Fetched, String>, NotChecked> {
        self.send_to("", fields)
    }

    /// The same with more in its query, so that no cache knows it.
    fn send_to(&self, query: &str, fields: &[(&str, Option<&str>)]) -> Result<Result<Fetched, String>, NotChecked> {
        let mut operation = self.operation.clone();
        operation.base = Some(self.clients.base(self.gateway));
        if !query.is_empty() {
            operation.path.push(if operation.path.contains('?') { '&' } else { '?' });
            operation.path.push_str(query);
        }
        for (name, value) in fields {
            operation.headers.retain(|own, _| !own.eq_ignore_ascii_case(name));
            operation.headers.extend(value.map(|value| ((*name).to_owned(), value.to_owned())));
        }
        once(operation, &self.clients)
    }

    /// How many requests have reached the upstream.
    fn seen(&self) -> Result<u64, NotChecked> {
        let mut operation = Operation::get("counts", COUNTS);
        operation.base = Some(format!("http://{}", self.upstream));
        let response =
            once(operation, &Clients::default())?.map_err(|error| format!("the upstream of the check: {error}"))?;
        let counts: Result<Reached, _> = serde_json::from_slice(&response.body);
        counts
            .map(|counts| counts.requests)
            .map_err(|error| format!("the counts of the upstream of the check: {error}"))
    }

    /// Notes what a check found, unless it is as required.
    fn require(&mut self, what: &str, required: &str, found: Result<(), String>) {
        if let Err(found) = found {
            let operation = format!("profile, {}", self.operation.id);
            let (what, expected) = (what.to_owned(), required.to_owned());
            self.differences.push(Difference { operation, what, expected, found });
        }
    }

    /// A request that has to be refused with one of these statuses before it reaches the upstream.
    fn refused(&mut self, what: &str, statuses: &[u16], fields: &[(&str, Option<&str>)]) -> Result<(), NotChecked> {
        let before = self.seen()?;
        let response = self.send(fields)?;
        let reached = self.seen()? - before;
        let found = match response {
            Err(error) => Err(format!("no response: {error}")),
            Ok(response) if !statuses.contains(&response.status) => Err(format!("status {}", response.status)),
            Ok(_) if reached > 0 => Err("it was refused, and reached the upstream".to_owned()),
            Ok(_) => Ok(()),
        };
        let list: Vec<String> = statuses.iter().map(u16::to_string).collect();
        self.require(what, &format!("status {}, and nothing reaches the upstream", list.join(" or ")), found);
        Ok(())
    }

    /// A request that has to pass; what reached the upstream.
    fn passes(&mut self, what: &str, fields: &[(&str, Option<&str>)]) -> Result<Option<Value>, NotChecked> {
        let found = match self.send(fields)? {
            Err(error) => Err(format!("no response: {error}")),
            Ok(response) if response.status != 200 => Err(format!("status {}", response.status)),
            Ok(response) => {
                serde_json::from_slice(&response.body).map_err(|_| "not the upstream's response".to_owned())
            }
        };
        Ok(match found {
            Ok(seen) => Some(seen),
            Err(found) => {
                self.require(what, "the upstream's response", Err(found));
                None
            }
        })
    }

    /// The value of a field that reached the upstream.
    fn field<'v>(seen: &'v Value, name: &str) -> Option<&'v str> {
        seen["headers"][name.to_ascii_lowercase()].as_str()
    }
}

/// Sends an operation once. The outer error is Gauge's, the inner one the server's.
fn once(operation: Operation, clients: &Clients) -> Result<Result<Fetched, String>, NotChecked> {
    let workload = clients.single(one_value(operation), DEADLINE);
    let prepared = Prepared::new(&workload).map_err(|error| error.to_string())?;
    Ok(prepared.once().pop().ok_or("nothing was sent")?.response)
}

/// The operation with one value for each param, and no captures.
fn one_value(mut operation: Operation) -> Operation {
    let carried = format!("{{{CLIENT}}}");
    if !operation.headers.values().any(|value| value.contains(&carried)) {
        operation.params.remove(CLIENT);
    }
    for source in operation.params.values_mut() {
        if let Source::List { values, .. } = source {
            *source = Source::Fixed(values.first().cloned().unwrap_or_default());
        }
    }
    operation.capture.clear();
    operation
}
