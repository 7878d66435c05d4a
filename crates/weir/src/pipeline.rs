//! The map: what happens to a request, step by step, in order, with the reason for the order.
//!
//! Nothing else composes the steps. Each is a call by name; a step that responds to the request ends the pipeline.

use crate::client::downstream::Downstream;
use crate::config::Action;
use crate::error::Error;
use crate::exchange::{Exchange, Next, Recorded, ai, cached, contract, proxy};
use crate::policy::limit::Stage;
use crate::worker::{Scratch, Worker};

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
    x.begin_response_lines();
    // Before anything is said about what is behind a host: its clients may have to show a certificate.
    x.check_host()?;
    // About the gateway itself, not about a resource (RFC 9110 section 9.3.7): no route can match it.
    if x.is_about_the_gateway() {
        let snapshot = x.snapshot();
        return match x.check_limits(&snapshot, Stage::All).await? {
            Some(refusal) => x.refuse(&refusal).await,
            None => x.serve_methods().await,
        };
    }
    // One form of the path: routes, limits, cache and upstream must all see the same (rule 23 of the safety rules).
    x.normalise_path()?;
    // A listener that only redirects knows no routes.
    if let Some(hosts) = x.https_hosts() {
        return x.redirect_to_https(&hosts).await;
    }

    // The route says which policies apply, so it comes before all of them. A preflight belongs to the route of the request that it announces
    // and ends here: browsers send it without credentials, so it must not reach authentication.
    let found = x.find_route();
    if let (Ok(route), true) = (found, x.is_preflight()) {
        return x.serve_preflight(route).await;
    }

    // Before anything is spent on the request. A request without a route is limited by the gateway's own limits, so that guessing
    // paths is no way around them.
    let snapshot = x.snapshot();
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
    x.check_tunnel(route)?;

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
        Action::Respond(_) => x.serve_fixed(route).await,
        Action::Redirect(redirect) => x.redirect(redirect, route).await,
        Action::Builtin(builtin) => x.serve_builtin(*builtin, route).await,
    }
}
