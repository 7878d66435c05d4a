//! The map: what happens to a request, step by step, in order, with the reason for the order.
//!
//! Nothing else composes the steps. Each is a call by name; a step that answers the request ends the pipeline.

use crate::admin::{Cachez, write_cachez};
use crate::config::{Action, Builtin, RouteId};
use crate::error::{Error, Reason};
use crate::exchange::downstream::{ClientIo, Downstream};
use crate::exchange::{Exchange, Next, cached, proxy, reply};
use crate::policy::cors;
use crate::route::path::Target;
use crate::route::rewrite::location as location_of;
use crate::route::{Found, Lookup};
use crate::server::worker::{Scratch, Worker};

/// Methods that routes may take by their own names; others pass too where a route names them, or none.
const METHODS: &[u8] = b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r\n";

/// Serves the request whose head is in `scratch`, and says what becomes of the connection.
pub async fn run<C: ClientIo>(worker: &Worker, down: &mut Downstream<C>, scratch: &mut Scratch) -> Next {
    let mut x = Exchange::begin(worker, down, scratch);
    if let Err(error) = steps(&mut x).await {
        x.fail(error).await;
    }
    x.finish()
}

async fn steps<C: ClientIo>(x: &mut Exchange<'_, C>) -> Result<(), Error> {
    // Who asks decides who is limited, and what is logged even if all else fails.
    x.identify_client();
    // About the gateway itself, not about a resource (RFC 9110 section 9.3.7): no route can match it.
    if x.is_about_the_gateway() {
        let snapshot = x.snapshot.clone();
        return match x.check_limits(&snapshot).await? {
            Some(refusal) => x.refuse(&refusal).await,
            None => x.answer(&reply::Prepared::new(204, None, METHODS, b"")).await,
        };
    }
    // One form of the path: routes, limits, cache and upstream must all see the same (rule 23 of the safety rules).
    x.normalise_path()?;

    // The route says which policies apply, so it comes before all of them. A preflight belongs to the route that it asks about
    // and ends here: browsers send it without credentials, so it must not reach authentication.
    let found = find_route(x).map(|found| x.enter_route(found));
    if let (Ok(route), true) = (found, x.is_preflight) {
        return answer_preflight(x, route).await;
    }

    // Before anything is spent on the request. A request without a route is limited by the gateway's own limits, so that guessing
    // paths is no way around them.
    let snapshot = x.snapshot.clone();
    if let Some(refusal) = x.check_limits(&snapshot).await? {
        return x.refuse(&refusal).await;
    }
    let route = found?;

    // What can be refused without reading the body is refused before anything is spent on it.
    x.check_expectation()?;
    x.check_body_length()?;

    match &snapshot.config().routes[route.0].action {
        // Behind the limits, which count every request; before the upstream, which a stored answer spares.
        Action::Proxy(action) => match &snapshot.routes[route.0].cache {
            Some(cache) => cached::run(x, &snapshot, route, action, cache).await,
            None => proxy::run(x, &snapshot, route, action).await,
        },
        Action::Respond(_) => respond(x, route).await,
        Action::Redirect(redirect) => {
            let mut location = Vec::new();
            let target = Target { path: &x.scratch.path, query: x.query() };
            location_of(&mut location, redirect, x.found, target);
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

fn find_route<C: ClientIo>(x: &mut Exchange<'_, C>) -> Result<Found, Reason> {
    let buf = x.down.buffer.whole();
    let head = &x.scratch.request;
    let host = head.authority.map_or(&b""[..], |authority| authority.of_buf(buf));
    let table = &x.snapshot.generation.table;
    // A preflight asks about a route of another method. If that route has no cross-origin rules, it is an ordinary OPTIONS.
    if let Some(method) = cors::requested_method(head, buf)
        && let Some(found) = table.lookup_preflight(host, &x.scratch.path, method)
    {
        x.is_preflight = true;
        return Ok(found);
    }
    let has_field = |name: &str, value: &[u8]| {
        head.fields.iter().any(|field| {
            field.value.of_buf(buf) == value && field.name.of_buf(buf).eq_ignore_ascii_case(name.as_bytes())
        })
    };
    match table.lookup(host, &x.scratch.path, head.method_name.of_buf(buf), has_field) {
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

async fn answer_preflight<C: ClientIo>(x: &mut Exchange<'_, C>, route: RouteId) -> Result<(), Error> {
    let snapshot = x.snapshot.clone();
    let fields = match &snapshot.config().routes[route.0].cors {
        Some(cors) => cors::preflight_fields(cors, &x.scratch.request, x.down.buffer.whole()),
        None => Vec::new(),
    };
    x.scratch.answer_lines.clear();
    x.answer(&reply::Prepared::new(204, None, &fields, b"")).await
}

async fn respond<C: ClientIo>(x: &mut Exchange<'_, C>, route: RouteId) -> Result<(), Error> {
    let snapshot = x.snapshot.clone();
    match &snapshot.routes[route.0].prepared {
        Some(prepared) => x.answer(prepared).await,
        None => Err(Reason::Panic.into()),
    }
}
