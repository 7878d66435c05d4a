//! The cookie that keeps a client at one target.

use h1::Known;

use super::Exchange;
use crate::route::split;
use crate::upstream::{Lease, Token};

/// The target that the request's cookie names.
pub(super) fn wanted(x: &Exchange<'_>, cookie: &str) -> Option<Token> {
    let (fields, buf) = (&x.scratch.request.fields, x.down.buffer.whole());
    let mut lines = fields.iter().filter(|field| field.known == Known::Cookie).map(|field| field.value.of_buf(buf));
    lines.find_map(|line| split::cookie(line, cookie.as_bytes()))?.try_into().ok()
}

/// The cookie for the head of the response, unless the request had it: a session cookie that scripts cannot read, and that other sites cannot have sent
/// along with what they post.
pub(super) fn set_cookie(x: &Exchange<'_>, cookie: &str, lease: &Lease) -> Option<Vec<u8>> {
    let token = lease.target().token().filter(|token| wanted(x, cookie).as_ref() != Some(token))?;
    let mut value = Vec::with_capacity(96);
    value.extend_from_slice(cookie.as_bytes());
    value.push(b'=');
    value.extend_from_slice(token);
    value.extend_from_slice(b"; Path=/; HttpOnly; SameSite=Lax");
    if x.down.client.tls.is_some() {
        value.extend_from_slice(b"; Secure");
    }
    Some(value)
}
