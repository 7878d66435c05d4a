//! Requests that request another protocol, and the tunnel after the upstream agreed.

use h1::{BodyKind, Known, Method};

use super::super::forward::write_upgrade_head;
use super::super::upstream_exchange::UpstreamSide;
use super::super::{Exchange, SendState, tunnel};
use super::failed::Failed;
use super::{Plan, moment};
use crate::config::Proxy;
use crate::error::{Error, Reason};
use crate::http::websocket;
use crate::upstream::Lease;

/// The protocol to request, if the client wants one that the route allows.
pub(super) fn wanted_upgrade(x: &Exchange<'_>, action: &Proxy) -> Option<usize> {
    let request = &x.scratch.request;
    if !request.upgrade || action.upgrade.is_empty() || request.body != BodyKind::None {
        return None;
    }
    let wanted = request.fields.first(Known::Upgrade, x.down.buffer.whole())?;
    action.upgrade_to(wanted)
}

/// The same towards a target of HTTP/2, which knows only extended CONNECT: a WebSocket, whose handshake the gateway completes in place of the target
/// (RFC 8441 section 5). Another upgrade is an ordinary request there.
///
/// # Errors
/// When it is not a handshake (RFC 6455 section 4.2.1).
pub(super) fn upgrade_over_http2(
    x: &Exchange<'_>,
    action: &Proxy,
    requested: Option<usize>,
) -> Result<Option<usize>, Error> {
    let Some(index) = requested.filter(|index| action.upgrade[*index].as_bytes() == websocket::NAME) else {
        return Ok(None);
    };
    let request = &x.scratch.request;
    let mut keys = request.fields.values(Known::SecWebSocketKey, x.down.buffer.whole());
    let is_handshake = keys.next().is_some_and(websocket::is_key) && keys.next().is_none();
    if !is_handshake || request.method != Method::Get {
        return Err(Error::new(
            Reason::BadRequest,
            "no handshake of WebSocket: GET with one Sec-WebSocket-Key of 16 bytes",
        ));
    }
    Ok(Some(index))
}

/// Whether the 101 names the requested protocol, and no other (RFC 9110 section 7.8). The route allows the client this one; the bytes of a
/// tunnel in any other would reach the target unseen.
fn agrees_to(x: &Exchange<'_>, up: &UpstreamSide, requested: &str) -> bool {
    let lines = x.scratch.response.fields.iter().filter(|field| field.known == Known::Upgrade);
    let mut protocols = lines.map(|line| line.value.of_buf(up.buffer.whole()));
    protocols.next().is_some_and(|protocol| protocol.eq_ignore_ascii_case(requested.as_bytes()))
        && protocols.next().is_none()
}

/// Whether the target read the key of the handshake, which over HTTP/2 no client can check.
fn is_accepted(x: &Exchange<'_>, up: &UpstreamSide) -> bool {
    let key = x.scratch.request.fields.first(Known::SecWebSocketKey, x.down.buffer.whole()).unwrap_or_default();
    let accept = x.scratch.response.fields.first(Known::SecWebSocketAccept, up.buffer.whole()).unwrap_or_default();
    websocket::accepts(key, accept)
}

/// The upstream agreed to another protocol: from here on the connection is a tunnel, and never again HTTP.
pub(super) async fn switch_protocols(
    x: &mut Exchange<'_>,
    plan: &Plan<'_>,
    lease: &mut Lease,
    up: &mut UpstreamSide,
    requested: Option<usize>,
) -> Result<(), Failed> {
    let Some(requested) = requested else {
        return Err(Failed::new(Error::new(Reason::BadResponse, "101 without an upgrade"), true, true));
    };
    if !agrees_to(x, up, &plan.action.upgrade[requested]) {
        let error = Error::new(Reason::BadResponse, "101 to a protocol that was not requested");
        return Err(Failed::new(error, true, true));
    }
    if x.down.stream.is_tunnel() && !is_accepted(x, up) {
        let error = Error::new(Reason::BadResponse, "the target's Sec-WebSocket-Accept does not match");
        return Err(Failed::new(error, true, true));
    }
    let protocol = x.scratch.response.fields.first(Known::Upgrade, up.buffer.whole()).unwrap_or_default();
    let out = &mut x.down.out.bytes;
    let own = plan.own_field().map(|name| (name, &*x.scratch.request_id));
    write_upgrade_head(out, up.buffer.whole(), &x.scratch.response, protocol, own);
    x.log.response_bytes += out.len() as u64;
    x.start_response();
    x.log.status = 101;
    x.close = true;
    x.down.flush().await.map_err(|_| Failed::new(Reason::ClientDisconnected.into(), true, true))?;
    lease.success(moment());
    let keep = x.scratch.request.end;
    let moved = tunnel::run(x.down, up, keep, &x.worker.buffers, plan.choice.timeouts.tunnel_idle).await;
    x.log.tunnelled_bytes += moved.up;
    x.log.response_bytes += moved.down;
    x.send_state = SendState::Complete;
    Ok(())
}
