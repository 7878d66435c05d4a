//! The map: what happens to a request, step by step, in order, with the reason for the order.
//!
//! Nothing else composes the steps. Each is a call by name; a step that responds to the request ends the pipeline.

use h1::RequestHead;

use crate::client::downstream::Downstream;
use crate::config::{Action, Builtin, Condition, RouteId};
use crate::error::{Error, Reason};
use crate::exchange::{Exchange, Next, Recorded, ai, cached, contract, proxy};
use crate::http::{reply, websocket};
use crate::policy::cors;
use crate::policy::limit::Stage;
use crate::route::path::Target;
use crate::route::rewrite::{Asked, changed_location, location as location_of};
use crate::route::{Found, Lookup};
use crate::worker::healthz::{Cachez, write_cachez};
use crate::worker::{Scratch, Worker};

/// Methods that routes may take by their own names; others pass too where a route names them, or none.
const METHODS: &[u8] = b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n";

/// Serves the request whose head is in `scratch`, and says what happens to the connection.
pub async fn run(worker: &Worker, down: &mut Downstream, scratch: &mut Scratch) -> Next {
    let mut x = Recorded::begin(worker, down, scratch);
    if let Err(error) = steps(&mut x).await {
        x.fail(error).await;
    }
    x.end_mirror();
    x.finish()
}

async fn steps(x: &mut Exchange<'_>) -> Result<(), Error> {
    // The client decides who is limited, and what is logged even if all else fails.
    x.identify_client();
    x.begin_trace();
    // Also on what is refused: whoever reports an error can name the request.
    x.begin_answer_lines();
    // Before anything is said about what is behind a host: its clients may have to show a certificate.
    x.check_host()?;
    // About the gateway itself, not about a resource (RFC 9110 section 9.3.7): no route can match it.
    if x.is_about_the_gateway() {
        let snapshot = x.snapshot.clone();
        return match x.check_limits(&snapshot, Stage::All).await? {
            Some(refusal) => x.refuse(&refusal).await,
            None => x.answer(&reply::Prepared::new(204, None, METHODS, b"")).await,
        };
    }
    // One form of the path: routes, limits, cache and upstream must all see the same (rule 23 of the safety rules).
    x.normalise_path()?;
    // A listener that only redirects knows no routes.
    if let Some(hosts) = x.down.origin.redirects() {
        return x.redirect_to_https(&hosts).await;
    }

    // The route says which policies apply, so it comes before all of them. A preflight belongs to the route of the request that it announces
    // and ends here: browsers send it without credentials, so it must not reach authentication.
    let found = find_route(x).map(|found| x.enter_route(found));
    if let (Ok(route), true) = (found, x.is_preflight) {
        return answer_preflight(x, route).await;
    }

    // Before anything is spent on the request. A request without a route is limited by the gateway's own limits, so that guessing
    // paths is no way around them.
    let snapshot = x.snapshot.clone();
    x.check_address(&snapshot)?;
    let demanded = x.demanded(&snapshot);
    let stage = if demanded.is_open() { Stage::All } else { Stage::Early };
    if x.has_limits(&snapshot)
        && let Some(refusal) = x.check_limits(&snapshot, stage).await?
    {
        return x.refuse(&refusal).await;
    }
    // Before it is said whether there is such a route: paths cannot be mapped by who is not known.
    if !demanded.is_open() {
        let known = x.authenticate(&snapshot, demanded).await;
        // Limits by identity, and those in a shared store: all of them in one call. Failed attempts count too.
        let stage = if known.is_ok() { Stage::Late } else { Stage::Refused };
        if let Some(refusal) = x.check_limits(&snapshot, stage).await? {
            return x.refuse(&refusal).await;
        }
        known?;
        // Behind the limits, which count what the client sent; before all that is for the upstream.
        x.apply_changes();
    }
    let route = found?;
    x.check_trace(route)?;

    if x.down.stream.is_tunnel() && !snapshot.config().routes[route.0].action.allows_upgrade(websocket::NAME) {
        return Err(Error::new(Reason::NoTunnel, "the route has no `upgrade: [websocket]`"));
    }

    // What can be refused without reading the body is refused before anything is spent on it.
    x.check_expectation()?;
    x.check_body_length()?;
    // Behind the limits: a request that is refused here has cost more than most. Boxed, so that routes without a description pay nothing.
    if let Some(rules) = &snapshot.config().routes[route.0].contract {
        Box::pin(contract::check(x, &snapshot, route, rules)).await?;
    }

    // Behind everything that refuses a request: only what is served is copied, or broken on purpose.
    let rules = &snapshot.config().routes[route.0];
    if let Some(mirror) = &rules.mirror {
        x.begin_mirror(&snapshot, route, mirror);
    }
    if let Some(fault) = &rules.fault
        && Box::pin(x.inject(&snapshot, route, fault)).await?
    {
        return Ok(());
    }

    match &snapshot.config().routes[route.0].action {
        // Behind the limits, which count every request; before the upstream, which a stored response spares.
        Action::Proxy(action) => match &snapshot.routes[route.0].cache {
            Some(cache) => cached::run(x, &snapshot, route, action, cache).await,
            None => proxy::run(x, &snapshot, route, action).await,
        },
        // Boxed, so that only calls of models carry its state.
        Action::Ai(action) => Box::pin(ai::run(x, &snapshot, route, action)).await,
        Action::Respond(_) => respond(x, route).await,
        Action::Redirect(redirect) => {
            let mut location = Vec::new();
            let target = Target { path: &x.scratch.path, query: x.query() };
            match &redirect.parts {
                None => location_of(&mut location, redirect, x.found, target),
                Some(parts) => {
                    let authority = x.scratch.request.authority.map(|one| one.of_buf(x.down.buffer.whole()));
                    let asked = Asked { scheme: x.down.client.scheme(), authority: authority.unwrap_or_default() };
                    changed_location(&mut location, parts, asked, x.found, target);
                }
            }
            let edits = &snapshot.config().routes[route.0].headers.response;
            let fields = [("Location", &*location)];
            x.answer(&reply::Prepared::edited(redirect.status, None, &fields, b"", edits)).await
        }
        Action::Builtin(builtin) => {
            let shared = &x.worker.shared;
            let (status, body) = match builtin {
                Builtin::Healthz => (if shared.is_ready() { 200 } else { 503 }, shared.healthz()),
                Builtin::Cachez => match shared.cachez() {
                    Some(counts) => (200, cachez(&counts)),
                    None => return Err(Error::new(Reason::NotFound, "no cache is configured")),
                },
            };
            let edits = &snapshot.config().routes[route.0].headers.response;
            x.answer(&reply::Prepared::edited(status, Some("application/json"), &[], &body, edits)).await
        }
    }
}

fn cachez(counts: &Cachez) -> Vec<u8> {
    let mut document = Vec::new();
    write_cachez(&mut document, counts);
    document
}

fn find_route(x: &mut Exchange<'_>) -> Result<Found, Reason> {
    let buf = x.down.buffer.whole();
    let head = &x.scratch.request;
    let host = head.authority.map_or(&b""[..], |authority| authority.of_buf(buf));
    let table = x.snapshot.generation.table_of(&x.down.origin);
    let target = Target { path: &x.scratch.path, query: head.query.map(|query| query.of_buf(buf)) };
    // A preflight is about a route of another method. If that route has no cross-origin rules, it is an ordinary OPTIONS.
    if let Some(method) = cors::requested_method(head, buf)
        && let Some(found) = table.lookup_preflight(host, target, method)
    {
        x.is_preflight = true;
        return Ok(found);
    }
    table.check_lengths(target, |name| values(head, buf, name).map(<[u8]>::len).max().unwrap_or(0))?;
    let field_holds = |name: &str, condition: &Condition| condition.holds(values(head, buf, name));
    match table.lookup(host, target, head.method_name.of_buf(buf), field_holds) {
        Lookup::Found(found) => Ok(found),
        Lookup::NotFound => Err(Reason::NotFound),
        Lookup::MethodNotAllowed(allow) => {
            let mut methods = Vec::new();
            allow.write(&mut methods);
            x.allow = Some(methods);
            Err(Reason::MethodNotAllowed)
        }
    }
}

/// The values of a field.
fn values<'v>(head: &'v RequestHead, buf: &'v [u8], name: &'v str) -> impl Iterator<Item = &'v [u8]> {
    let is_named = move |found: &[u8]| found.eq_ignore_ascii_case(name.as_bytes());
    let named = head.fields.iter().filter(move |field| is_named(field.name.of_buf(buf)));
    named.map(|field| field.value.of_buf(buf))
}

async fn answer_preflight(x: &mut Exchange<'_>, route: RouteId) -> Result<(), Error> {
    let snapshot = x.snapshot.clone();
    let fields = match &snapshot.config().routes[route.0].cors {
        Some(cors) => cors::preflight_fields(cors, &x.scratch.request, x.down.buffer.whole()),
        None => Vec::new(),
    };
    // A preflight has nothing of what the responses of its route have, but for the id.
    x.begin_answer_lines();
    x.answer(&reply::Prepared::new(204, None, &fields, b"")).await
}

async fn respond(x: &mut Exchange<'_>, route: RouteId) -> Result<(), Error> {
    let snapshot = x.snapshot.clone();
    match &snapshot.routes[route.0].prepared {
        Some(prepared) => x.answer(prepared).await,
        None => Err(Reason::Panic.into()),
    }
}
