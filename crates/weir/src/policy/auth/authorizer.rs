//! The request that an authorizer gets about a client's request, and what its response means.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use auth::Identity;
use h1::{Fields, Known, Method, RequestHead, encode};
use sha2::{Digest as _, Sha256};

use super::changes::{Action, Changes, ResponseField};
use super::ext_authz;
use crate::config::ClientAddress;
use crate::config::{Authorizer, AuthorizerForm, VerdictKey};

/// A request that the service is called about.
pub struct Subject<'a> {
    /// Its head.
    pub head: &'a RequestHead,
    /// What it was parsed from.
    pub buf: &'a [u8],
    /// Its path, in the form that routes see.
    pub path: &'a [u8],
    /// Whom it comes from.
    pub client: ClientAddress,
    /// Whether what proxies say is believed.
    pub peer_is_trusted: bool,
    /// Scheme of its connection.
    pub scheme: &'a str,
    /// Protocol of its connection, as `HTTP/1.1`.
    pub protocol: &'a str,
    /// Its id.
    pub request_id: &'a [u8],
}

/// What the service is sent.
pub struct Question {
    /// A request head. As HTTP/1.0, which has no chunks, so that the response is collected as it is; a call is in HTTP/1.1, for its trailers.
    pub head: Vec<u8>,
    /// The body of a call; else empty.
    pub body: Vec<u8>,
    /// Lines that only the gateway may write.
    pub lines: Vec<u8>,
    /// What the verdict is stored by.
    pub key: Option<[u8; 32]>,
}

impl Question {
    /// The question about a request.
    pub fn new(authorizer: &Authorizer, subject: &Subject<'_>) -> Self {
        if authorizer.form == AuthorizerForm::EnvoyGrpc {
            return Question::call(authorizer, subject);
        }
        let Subject { head, buf, .. } = *subject;
        let uri = uri_of(subject);
        let method = head.method_name.of_buf(buf);
        let mut text = Vec::with_capacity(512);
        let mut lines = Vec::new();
        match authorizer.form {
            AuthorizerForm::Envoy => {
                text.extend_from_slice(method);
                text.push(b' ');
                text.extend_from_slice(authorizer.path.as_bytes());
                text.extend_from_slice(&uri);
                if matches!(head.method, Method::Post | Method::Put | Method::Patch) {
                    encode::content_length(&mut lines, 0);
                }
            }
            AuthorizerForm::Traefik | AuthorizerForm::Nginx | AuthorizerForm::EnvoyGrpc => {
                encode::begin_request_line(&mut text, b"GET");
                text.extend_from_slice(authorizer.path.as_bytes());
                encode::field(&mut lines, b"X-Forwarded-Method", method);
                encode::field(&mut lines, b"X-Forwarded-Uri", &uri);
                if authorizer.form == AuthorizerForm::Nginx {
                    original(&mut lines, subject, method, &uri);
                }
            }
        }
        encode::end_request_line_1_0(&mut text);
        // The other three of the five fields are made of this where the request is forwarded.
        if let Some(authority) = head.authority {
            encode::field(&mut text, b"Host", authority.of_buf(buf));
        }
        for field in head.fields.iter() {
            let name = field.name.of_buf(buf);
            let is_of_proxies =
                matches!(field.known, Known::XForwardedFor | Known::XForwardedProto | Known::XForwardedHost);
            if authorizer.form == AuthorizerForm::Nginx && ORIGINAL.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                continue;
            }
            let is_sent = authorizer.send.iter().any(|sent| name.eq_ignore_ascii_case(sent.as_bytes()));
            if is_sent || (is_of_proxies && subject.peer_is_trusted) {
                encode::field(&mut text, name, field.value.of_buf(buf));
            }
        }
        encode::end_head(&mut text);
        let key = authorizer.cache.as_ref().map(|cache| digest(&cache.key, subject, &uri));
        Question { head: text, body: Vec::new(), lines, key }
    }

    /// The call of Envoy's interface.
    fn call(authorizer: &Authorizer, subject: &Subject<'_>) -> Self {
        let body = ext_authz::call(authorizer, subject);
        let mut head = Vec::with_capacity(256);
        encode::begin_request_line(&mut head, b"POST");
        head.extend_from_slice(authorizer.path.as_bytes());
        encode::end_request_line(&mut head, authorizer.action.host.as_deref().unwrap_or("localhost").as_bytes());
        encode::field(&mut head, b"Content-Type", b"application/grpc");
        encode::field(&mut head, b"TE", b"trailers");
        if let Some(Some(timeout)) = authorizer.action.timeouts.total {
            // What is left of it when the call goes out is written in its place.
            encode::field(&mut head, b"grpc-timeout", format!("{}m", timeout.as_millis().min(99_999_999)).as_bytes());
        }
        encode::content_length(&mut head, body.len() as u64);
        encode::end_head(&mut head);
        Question { head, body, lines: Vec::new(), key: None }
    }
}

/// What nginx' users write by `proxy_set_header` for the service of an `auth_request`.
const ORIGINAL: [&[u8]; 4] = [b"X-Original-Method", b"X-Original-URI", b"X-Original-URL", b"X-Real-IP"];

fn original(lines: &mut Vec<u8>, subject: &Subject<'_>, method: &[u8], uri: &[u8]) {
    encode::field(lines, ORIGINAL[0], method);
    encode::field(lines, ORIGINAL[1], uri);
    if let Some(authority) = subject.head.authority {
        let url = [subject.scheme.as_bytes(), b"://", authority.of_buf(subject.buf), uri].concat();
        encode::field(lines, ORIGINAL[2], &url);
    }
    encode::field(lines, ORIGINAL[3], subject.client.to_string().as_bytes());
}

/// Path and query, as the request is routed by.
pub(super) fn uri_of(subject: &Subject<'_>) -> Vec<u8> {
    let mut uri = subject.path.to_vec();
    if let Some(query) = subject.head.query {
        uri.push(b'?');
        uri.extend_from_slice(query.of_buf(subject.buf));
    }
    uri
}

fn digest(key: &[VerdictKey], subject: &Subject<'_>, uri: &[u8]) -> [u8; 32] {
    let Subject { head, buf, path, client, peer_is_trusted, scheme, .. } = *subject;
    let mut hash = Sha256::new();
    let mut add = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    for part in key {
        match part {
            VerdictKey::Method => add(head.method_name.of_buf(buf)),
            // With what the service is described in its place: the scheme, and what trusted proxies say of both.
            VerdictKey::Host => {
                add(head.authority.map_or(&b""[..], |authority| authority.of_buf(buf)));
                add(scheme.as_bytes());
                let told = |known| head.fields.values(known, buf).filter(|_| peer_is_trusted);
                for known in [Known::XForwardedHost, Known::XForwardedProto] {
                    told(known).for_each(&mut add);
                    add(&(told(known).count() as u64).to_le_bytes());
                }
            }
            VerdictKey::Path => add(path),
            VerdictKey::Uri => add(uri),
            VerdictKey::ClientIp => add(client.to_string().as_bytes()),
            VerdictKey::Header(name) => {
                let own = |field: &&h1::Field| field.name.of_buf(buf).eq_ignore_ascii_case(name.as_bytes());
                head.fields.iter().filter(own).for_each(|field| add(field.value.of_buf(buf)));
                // An absent one is no empty one, and one line with two values is not two lines.
                add(&(head.fields.iter().filter(own).count() as u64).to_le_bytes());
            }
        }
    }
    hash.finalize().into()
}

/// A response of the service.
pub struct Response<'a> {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: &'a Fields,
    /// What they were parsed from.
    pub buf: &'a [u8],
    /// Its body; empty if it was too large to be passed on.
    pub body: &'a [u8],
}

/// What a response means.
pub enum Verdict {
    /// The request passes.
    Allowed(Passed),
    /// The client gets this.
    Denied(Denied),
    /// The response is no verdict, and why.
    None(&'static str),
    /// The request may pass with a change that cannot be made: it does not pass without it.
    Unsupported(&'static str),
}

/// What a request that passes takes along.
#[derive(Clone)]
pub struct Passed {
    /// Lines for the upstream.
    pub lines: Arc<[u8]>,
    /// Who sends it.
    pub identity: Arc<Identity>,
    /// What is changed beside that; seldom anything.
    pub changes: Option<Box<Changes>>,
}

impl Passed {
    /// What a service said, by the values of its fields.
    pub(super) fn new<'v>(authorizer: &Authorizer, changes: Changes, values: &dyn Fn(&str) -> Vec<&'v [u8]>) -> Self {
        let mut lines = Vec::new();
        for name in &authorizer.copy {
            values(name).into_iter().for_each(|value| encode::field(&mut lines, name.as_bytes(), value));
        }
        // One that comes twice names nobody.
        let text = |name: &Option<Arc<str>>| match values(name.as_deref()?)[..] {
            [value] if !value.is_empty() => std::str::from_utf8(value).ok().map(Into::into),
            _ => None,
        };
        let identity =
            Identity { consumer: text(&authorizer.consumer), tier: text(&authorizer.tier), ..Identity::default() };
        let changes = (!changes.is_empty()).then(|| Box::new(changes));
        Passed { lines: lines.into(), identity: Arc::new(identity), changes }
    }

    /// Whether the same may be said of a request that comes later. A field of the response is for one client, once.
    pub fn may_be_cached(&self) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.response.is_empty())
    }
}

/// The response for a client that does not pass.
#[derive(Debug)]
pub struct Denied {
    /// Its status.
    pub status: u16,
    /// Its media type.
    pub content_type: String,
    /// Further lines.
    pub lines: Vec<u8>,
    /// Its body.
    pub body: Vec<u8>,
}

/// Envoy's name for the field that lists request fields which the upstream does not get.
const REMOVES: &str = "x-envoy-auth-headers-to-remove";

/// What of a denial goes to the client.
const TOLD: [&str; 3] = ["Location", "WWW-Authenticate", "Set-Cookie"];

impl Response<'_> {
    /// What it means.
    pub fn verdict(&self, authorizer: &Authorizer) -> Verdict {
        let passes = match authorizer.form {
            AuthorizerForm::Envoy | AuthorizerForm::EnvoyGrpc => self.status == 200,
            AuthorizerForm::Traefik | AuthorizerForm::Nginx => (200..300).contains(&self.status),
        };
        let is_verdict = match authorizer.form {
            AuthorizerForm::Traefik => true,
            AuthorizerForm::Nginx => passes || matches!(self.status, 401 | 403),
            AuthorizerForm::Envoy | AuthorizerForm::EnvoyGrpc => self.status < 500,
        };
        match (passes, is_verdict) {
            (true, _) => {
                Verdict::Allowed(Passed::new(authorizer, self.changes(authorizer), &|name| self.values(name).collect()))
            }
            (false, true) => Verdict::Denied(self.denied()),
            (false, false) => Verdict::None("the authorizer responded with an unexpected status"),
        }
    }

    fn values<'s>(&'s self, name: &str) -> impl Iterator<Item = &'s [u8]> {
        let own = move |field: &&h1::Field| field.name.of_buf(self.buf).eq_ignore_ascii_case(name.as_bytes());
        self.fields.iter().filter(own).map(|field| field.value.of_buf(self.buf))
    }

    /// What it changes of a request that passes, and of its response.
    fn changes(&self, authorizer: &Authorizer) -> Changes {
        let mut changes = Changes::default();
        for name in &authorizer.copy_to_response {
            let fields = self.values(name).filter_map(|value| ResponseField::new(name, value, Action::Append));
            changes.response.extend(fields);
        }
        if authorizer.form == AuthorizerForm::Envoy {
            let lists = self.values(REMOVES).map(String::from_utf8_lossy);
            for list in lists {
                let names = list.split(',').map(str::trim).filter(|name| !name.is_empty());
                changes.removes.extend(names.map(str::to_owned));
            }
        }
        changes
    }

    fn denied(&self) -> Denied {
        let mut lines = Vec::new();
        for name in TOLD {
            self.values(name).for_each(|value| encode::field(&mut lines, name.as_bytes(), value));
        }
        let content_type =
            self.fields.first(Known::ContentType, self.buf).and_then(|value| std::str::from_utf8(value).ok());
        Denied {
            // Envoy's form has 200 only for what passes.
            status: if self.status < 300 { 403 } else { self.status },
            content_type: content_type.unwrap_or("text/plain; charset=utf-8").to_owned(),
            lines,
            body: if self.status == 304 { Vec::new() } else { self.body.to_vec() },
        }
    }
}

/// Verdicts that one worker stores.
#[derive(Default)]
pub struct Verdicts(RefCell<HashMap<[u8; 32], (u64, Passed)>>);

/// Most of them.
const MOST: usize = 10_000;

impl Verdicts {
    /// A verdict that still holds.
    pub fn get(&self, key: &[u8; 32], now_ns: u64) -> Option<Passed> {
        self.0.borrow().get(key).filter(|(until_ns, _)| *until_ns > now_ns).map(|(_, passed)| passed.clone())
    }

    /// Stores that a request passes.
    pub fn insert(&self, key: [u8; 32], passed: Passed, until_ns: u64, now_ns: u64) {
        let mut verdicts = self.0.borrow_mut();
        if verdicts.len() >= MOST {
            verdicts.retain(|_, (until_ns, _)| *until_ns > now_ns);
            if verdicts.len() >= MOST {
                verdicts.clear();
            }
        }
        verdicts.insert(key, (until_ns, passed));
    }
}
