//! The opening handshake (RFC 6455, section 4).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::prelude::{BASE64_STANDARD, Engine};

/// The version of the protocol.
pub(crate) const VERSION: &str = "13";
/// What the accepting side appends to the key (section 1.3).
const SUFFIX: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A value of `Sec-WebSocket-Key`: 16 bytes, which are other ones each time. It protects no secret: it shows that the other side speaks WebSocket.
pub(crate) fn key(random: &mut fastrand::Rng) -> String {
    BASE64_STANDARD.encode(random.u128(..).to_be_bytes())
}

/// Whether this is a value of `Sec-WebSocket-Key`: 16 bytes in base64.
pub(crate) fn is_key(value: &str) -> bool {
    BASE64_STANDARD.decode(value).is_ok_and(|bytes| bytes.len() == 16)
}

/// The value of `Sec-WebSocket-Accept` for a key.
pub(crate) fn accept(key: &str) -> String {
    BASE64_STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{key}{SUFFIX}").as_bytes()).as_ref())
}

/// What is wrong with the fields of a 101, in words (section 4.1). `offered` is the request's list of subprotocols, if it has one.
pub(crate) fn problem<'f>(
    key: &str,
    offered: Option<&str>,
    field: impl Fn(&str) -> Option<&'f str>,
) -> Result<(), String> {
    let has = |name: &str, token: &str| {
        field(name).is_some_and(|value| value.split(',').any(|one| one.trim().eq_ignore_ascii_case(token)))
    };
    if !has("upgrade", "websocket") {
        return Err("the response has no `Upgrade: websocket`".to_owned());
    }
    if !has("connection", "upgrade") {
        return Err("the response has no `Connection: Upgrade`".to_owned());
    }
    match field("sec-websocket-accept") {
        None => return Err("the response has no Sec-WebSocket-Accept".to_owned()),
        Some(value) if value != accept(key) => {
            return Err(format!("Sec-WebSocket-Accept is `{value}`, and `{}` is right for the key", accept(key)));
        }
        Some(_) => {}
    }
    if let Some(extensions) = field("sec-websocket-extensions").filter(|value| !value.is_empty()) {
        return Err(format!("the response selects the extension `{extensions}`, which was not offered"));
    }
    match field("sec-websocket-protocol") {
        Some(chosen) if !offered.is_some_and(|list| list.split(',').any(|one| one.trim() == chosen)) => {
            Err(format!("the response selects the subprotocol `{chosen}`, which was not offered"))
        }
        _ => Ok(()),
    }
}
