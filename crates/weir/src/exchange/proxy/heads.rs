//! The head of the request as the target gets it, and that of the response as the client does.

use h1::{BodyKind, encode};

use super::super::coded::Coder;
use super::super::forward::{ToClient, ToUpstream};
use super::super::upstream_exchange::UpstreamSide;
use super::super::{Exchange, affinity, cached, changed, grpc};
use super::Plan;
use crate::config::{Compression, Edits, Rewrite};
use crate::http::edits::is_edited;
use crate::policy::cache::rules::LiveLines;
use crate::policy::compress;
use crate::route::path::Target;
use crate::route::rewrite::upstream_target;
use crate::runtime::clock;
use crate::upstream::Lease;

pub(super) fn write_request_head(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    lease: &Lease,
    up: &mut UpstreamSide,
    upgrade: Option<usize>,
) {
    x.ensure_request_id();
    x.write_variable_lines(&plan.edits.request.templates);
    let buf = x.down.buffer.whole();
    let head = &x.scratch.request;
    let target = lease.target();
    let query = changed::query(x.changed.as_deref(), head, buf);
    let conditions = x.cache.lead.as_mut().and_then(|lead| lead.conditions());
    let trace = x.scratch.trace.lines();
    let is_as_routed = query.is_none() && plan.action.rewrite == Rewrite::None && target.base_path().is_empty();
    if !is_as_routed {
        x.scratch.target.clear();
        let forwarded = Target { path: &x.scratch.path, query };
        upstream_target(&mut x.scratch.target, target.base_path(), &plan.action.rewrite, x.found, forwarded);
    }
    let host = match (&plan.action.host, head.authority, target.authority()) {
        (Some(host), _, _) => host.as_bytes(),
        (None, Some(authority), _) => authority.of_buf(buf),
        // Only HTTP/1.0 comes without a host.
        (None, None, Some(authority)) => authority.as_bytes(),
        (None, None, None) => b"localhost",
    };
    ToUpstream {
        buf,
        head,
        target: if is_as_routed { &x.scratch.path } else { &x.scratch.target },
        host,
        client: &x.down.client,
        request_id: (&plan.snapshot.config().request_id, &x.scratch.request_id),
        trace,
        auth: (plan.auth_edits, &plan.snapshot.auth.shared().forged),
        identity: &x.scratch.identity_lines,
        variables: &x.scratch.variable_lines,
        edits: &plan.edits.request,
        upgrade: upgrade.map(|index| plan.action.upgrade[index].as_bytes()),
        body: head.body,
        forwards_trailers: plan.forwards_trailers,
        accepts_trailers: plan.accepts_trailers,
        grpc_timeout: plan.grpc_due.map(|due| due.saturating_sub(clock::loop_ns())),
        previous_attempts: match &x.spared {
            None => 0,
            Some(spared) => spared.calls.saturating_add(grpc::previous_attempts(head, buf)),
        },
        conditions: conditions.as_deref(),
    }
    .write(&mut up.out.bytes);
}

/// Writes the reply's head for the client; returns how the body goes out, and what codes it.
pub(super) fn write_response_head(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    up: &UpstreamSide,
    lease: &Lease,
) -> (BodyKind, Option<Box<Coder>>) {
    let compression = plan.route.and_then(|route| plan.snapshot.config().routes[route.0].compress.as_deref());
    let (coding, coder) = match compression {
        None => (compress::Plan::Plain, None),
        Some(rules) => plan_coding(x, rules, up),
    };
    let cookie = plan.choice.cookie.as_deref().and_then(|cookie| affinity::set_cookie(x, cookie, lease));
    let timing = x.server_timing();
    let version = x.scratch.request.version;
    let mut head = ToClient {
        buf: up.buffer.whole(),
        head: &x.scratch.response,
        edits: &plan.edits.response,
        own_field: plan.own_field(),
        version,
        close: false,
        is_coded: coding.is_coded(),
        forwards_trailers: plan.accepts_trailers,
    };
    let framing = head.framing();
    x.close |= framing == BodyKind::UntilClose;
    head.close = x.close;
    let out = &mut x.down.out.bytes;
    if coding == compress::Plan::Plain {
        head.write(out);
    } else {
        head.write_without(out, |field| coding.drops(field.known, field.name.of_buf(head.buf)));
        let edits = &plan.edits.response;
        let is_edited = |name: &[u8]| *edits != Edits::default() && is_edited(edits, name);
        coding.write(out, LiveLines::new(&x.scratch.response.fields, head.buf), is_edited);
    }
    if x.log.fell_back {
        encode::field(out, b"X-Fallback", lease.spec().name.as_bytes());
    }
    x.log.status = x.scratch.response.status;
    out.extend_from_slice(&x.scratch.response_lines);
    out.extend_from_slice(&timing);
    // Another client would get a page for it.
    if x.log.status >= 400 && plan.route.is_some() && x.replaces_error(x.log.status) {
        encode::field(&mut x.down.out.bytes, b"Vary", b"Accept");
    }
    let out = &mut x.down.out.bytes;
    if let Some(cookie) = &cookie {
        encode::field(out, b"Set-Cookie", cookie);
    }
    if let Some(route) = plan.route {
        cached::tell(out, x.cache.told, plan.snapshot, route);
    }
    head.end(out);
    x.frame_by_close(framing);
    (framing, coder)
}

/// Decides whether the response is compressed.
#[cold]
fn plan_coding(x: &Exchange<'_>, rules: &Compression, up: &UpstreamSide) -> (compress::Plan, Option<Box<Coder>>) {
    let (request, response) = (&x.scratch.request, &x.scratch.response);
    let plan = compress::Plan::new(rules, (request, x.down.buffer.whole()), (response, up.buffer.whole()));
    let compress::Plan::Coded(coding) = plan else { return (plan, None) };
    let length = match response.body {
        BodyKind::None => return (plan, None),
        BodyKind::Length(length) => Some(length),
        BodyKind::Chunked | BodyKind::UntilClose => None,
    };
    match x.worker.coding_memory.encoder(rules, coding, length) {
        Some(encoder) => (plan, Some(Box::new(Coder::new(encoder)))),
        None => {
            x.worker.metrics.not_compressed();
            (compress::Plan::Varies, None)
        }
    }
}
