//! Services that decide whether a request may pass.

use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::Resolver;
use super::headers::may_edit;
use crate::problem::Origin;
use crate::raw::shape::Spanned;
use crate::raw::target::TargetUrl;
use crate::raw::text::FieldName;
use crate::raw::{self, OnAuthorizerFailure};
use crate::{Authorizer, AuthorizerForm, Proxy, Rewrite, TimeoutOverrides, UpstreamId, VerdictCache, VerdictKey};
use message::path;

/// Where a service is: at a URL, or an upstream of the file and a path.
pub(super) struct ServiceAddress<'a> {
    pub(super) origin: Origin,
    pub(super) url: Option<&'a Spanned<String>>,
    pub(super) upstream: Option<&'a Spanned<String>>,
    pub(super) path: Option<&'a Spanned<String>>,
}

/// What both kinds of authorizer have.
struct Common<'a> {
    url: Option<&'a Spanned<String>>,
    upstream: Option<&'a Spanned<String>>,
    path: Option<&'a Spanned<String>>,
    send: Option<&'a [Spanned<FieldName>]>,
    copy: &'a [Spanned<FieldName>],
    copy_to_response: &'a [Spanned<FieldName>],
    consumer: Option<&'a Spanned<FieldName>>,
    tier: Option<&'a Spanned<FieldName>>,
    timeout: Duration,
    on_failure: OnAuthorizerFailure,
}

impl Resolver<'_> {
    pub(super) fn forward_auth(
        &mut self,
        name: &Spanned<String>,
        raw: &Spanned<raw::ForwardAuth>,
    ) -> Option<Authorizer> {
        let common = Common {
            url: raw.url.as_ref(),
            upstream: raw.upstream.as_ref(),
            path: raw.path.as_ref(),
            send: raw.send.as_deref(),
            copy: &raw.copy,
            copy_to_response: &raw.copy_to_response,
            consumer: raw.consumer.as_option(),
            tier: raw.tier.as_option(),
            timeout: raw.timeout.0.0,
            on_failure: raw.on_failure,
        };
        let form = match raw.mode {
            raw::ForwardMode::Traefik => AuthorizerForm::Traefik,
            raw::ForwardMode::Nginx => AuthorizerForm::Nginx,
        };
        let mut authorizer = self.authorizer(name, raw.origin, &common, form)?;
        authorizer.cache = raw.cache.as_option().map(|cache| self.verdict_cache(cache, &authorizer.send));
        Some(authorizer)
    }

    pub(super) fn ext_authz(&mut self, name: &Spanned<String>, raw: &Spanned<raw::ExtAuthz>) -> Option<Authorizer> {
        let common = Common {
            url: raw.url.as_ref(),
            upstream: raw.upstream.as_ref(),
            path: None,
            send: raw.send.as_deref(),
            copy: &raw.copy,
            copy_to_response: &raw.copy_to_response,
            consumer: raw.consumer.as_option(),
            tier: raw.tier.as_option(),
            timeout: raw.timeout.0.0,
            on_failure: raw.on_failure,
        };
        if self.is_grpc(raw) {
            let mut authorizer = self.authorizer(name, raw.origin, &common, AuthorizerForm::EnvoyGrpc)?;
            if raw.url.is_some() && &*authorizer.path != "/" {
                self.problem(raw.origin, "a `grpc://` URL must have no path: the path is that of Envoy's gRPC method");
            }
            if let Some(name) = raw.copy_to_response.first() {
                self.problem(
                    name.origin,
                    "`copy_to_response` is for HTTP: over gRPC the service says what the client gets",
                );
            }
            authorizer.path = crate::CHECK_PATH.into();
            return Some(authorizer);
        }
        let mut authorizer = self.authorizer(name, raw.origin, &common, AuthorizerForm::Envoy)?;
        if authorizer.path.contains('?') {
            self.problem(raw.origin, "the URL of `ext_authz` takes no query: the path of the request is put behind it");
        }
        authorizer.path = authorizer.path.trim_end_matches('/').into();
        Some(authorizer)
    }

    /// Whether the service is called by gRPC.
    fn is_grpc(&mut self, raw: &Spanned<raw::ExtAuthz>) -> bool {
        if let Some(url) = &raw.url {
            if let Some(mode) = &raw.mode {
                self.problem(mode.origin, "`mode` belongs to an `upstream`; the scheme of a `url` says it");
            }
            return url.starts_with("grpc://") || url.starts_with("grpcs://");
        }
        let Some(mode) = raw.mode.as_ref().filter(|mode| mode.value == raw::ExtAuthzMode::Grpc) else { return false };
        let upstream = raw.upstream.as_ref().and_then(|name| self.file.upstreams.position(name));
        let protocol = upstream.map(|position| self.file.upstreams.0[position].1.protocol);
        if protocol.is_some_and(|protocol| protocol != raw::UpstreamProtocol::Http2) {
            self.problem(mode.origin, "`grpc` needs `protocol: http2` of the upstream");
        }
        true
    }

    fn authorizer(
        &mut self,
        name: &Spanned<String>,
        origin: Origin,
        raw: &Common<'_>,
        form: AuthorizerForm,
    ) -> Option<Authorizer> {
        // No name of the file has a colon.
        let own = format!("auth:{}", name.value);
        let place = ServiceAddress { origin, url: raw.url, upstream: raw.upstream, path: raw.path };
        let (action, path) = self.service((&own, &format!("`{}`", name.value)), &place, form, raw.timeout)?;
        let lower = |name: &Spanned<FieldName>| -> Arc<str> { name.0.to_ascii_lowercase().into() };
        let send = match raw.send {
            Some(names) => {
                for name in names {
                    self.check(name.origin, may_edit(&name.0));
                    if name.0.to_ascii_lowercase().starts_with("x-forwarded-") {
                        self.problem(name.origin, format!("`{}` is written by the gateway", name.0));
                    }
                }
                names.iter().map(lower).collect()
            }
            None => vec!["authorization".into(), "cookie".into()],
        };
        for name in raw.copy {
            self.check(name.origin, may_edit(&name.0));
            let is_known = ["authorization", "cookie"].iter().any(|known| name.0.eq_ignore_ascii_case(known));
            if is_known || name.0.eq_ignore_ascii_case(&self.file.request_id.0) {
                let message = format!(
                    "`{0}` cannot be in `copy`: Weir would remove the clients' own `{0}` on every route",
                    name.0
                );
                self.problem(name.origin, message);
            }
        }
        for name in raw.copy_to_response {
            self.check(name.origin, may_edit(&name.0));
            if name.0.eq_ignore_ascii_case("content-encoding") {
                let message = "`Content-Encoding` belongs to the body, and the body is not copied";
                self.problem(name.origin, message);
            }
        }
        let name_of = |name: Option<&Spanned<FieldName>>| name.map(|name| name.0.as_str().into());
        Some(Authorizer {
            form,
            action,
            path,
            send,
            copy: raw.copy.iter().map(|name| name.0.as_str().into()).collect(),
            copy_to_response: raw.copy_to_response.iter().map(|name| name.0.as_str().into()).collect(),
            consumer: name_of(raw.consumer),
            tier: name_of(raw.tier),
            fails_open: raw.on_failure == OnAuthorizerFailure::Allow,
            cache: None,
        })
    }

    /// The way to a service, and its path. `own`: the name of its upstream, where it has one of its own; `what`: what problems call it.
    pub(super) fn service(
        &mut self,
        (own, what): (&str, &str),
        place: &ServiceAddress<'_>,
        form: AuthorizerForm,
        timeout: Duration,
    ) -> Option<(Proxy, Arc<str>)> {
        if let (Some(path), None) = (place.path, place.upstream) {
            self.problem(path.origin, "`path` needs an `upstream`; a `url` has its own path");
        }
        let (upstream, host, mut path) = match (place.url, place.upstream) {
            (Some(url), None) => self.service_upstream(own, url, form)?,
            (None, Some(upstream)) => {
                let id = self.upstream_id(upstream);
                let host = self.first_authorities.get(id.0).cloned().flatten();
                (id, host.unwrap_or_else(|| "localhost".into()), "/".into())
            }
            _ => {
                self.problem(place.origin, format!("{what} needs either `url` or `upstream`"));
                return None;
            }
        };
        if let Some(given) = place.path {
            self.check(given.origin, check_path(given));
            path = given.as_str().into();
        }
        let action = Proxy {
            upstream,
            split: None,
            fallback: Vec::new(),
            rewrite: Rewrite::None,
            host: Some(host),
            timeouts: TimeoutOverrides { total: Some(Some(timeout)), ..TimeoutOverrides::default() },
            upgrade: Vec::new(),
            forwards_trailers: false,
        };
        Some((action, path))
    }

    /// An upstream of its own for the service at a URL.
    fn service_upstream(
        &mut self,
        name: &str,
        url: &Spanned<String>,
        form: AuthorizerForm,
    ) -> Option<(UpstreamId, Arc<str>, Arc<str>)> {
        let parsed: Option<Uri> = url.parse().ok();
        let parts = parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?.as_str(), uri)));
        let (scheme, authority, uri) = match (parts, form) {
            (Some((scheme @ ("http" | "https"), authority, uri)), _) => (scheme, authority, uri),
            (Some(("grpc", authority, uri)), AuthorizerForm::EnvoyGrpc) => ("http", authority, uri),
            (Some(("grpcs", authority, uri)), AuthorizerForm::EnvoyGrpc) => ("https", authority, uri),
            _ => {
                self.problem(url.origin, format!("`{}` is not an `http://` or `https://` URL", url.value));
                return None;
            }
        };
        if url.contains('#') {
            self.problem(url.origin, "a URL of a service has no fragment: nothing behind `#` is sent");
        }
        let target: TargetUrl = match format!("{scheme}://{authority}").parse() {
            Ok(target) => target,
            Err(why) => {
                self.problem(url.origin, why);
                return None;
            }
        };
        if let Err(why) = check_path(uri.path()) {
            self.problem(url.origin, why);
        }
        let host = target.authority.as_deref().unwrap_or(authority).into();
        let upstream = raw::Upstream {
            targets: Spanned::new(
                raw::Targets::List(vec![Spanned::new(raw::Target::from(target), url.origin)]),
                url.origin,
            ),
            protocol: match form {
                AuthorizerForm::EnvoyGrpc => raw::UpstreamProtocol::Http2,
                _ => raw::UpstreamProtocol::default(),
            },
            ..raw::Upstream::default()
        };
        let upstream = self.upstream_named(&Spanned::new(name.to_owned(), url.origin), &upstream);
        let id = UpstreamId(self.file.upstreams.0.len() + self.services.len());
        self.services.push(upstream);
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Some((id, host, path.into()))
    }

    fn verdict_cache(&mut self, raw: &Spanned<raw::VerdictCache>, send: &[Arc<str>]) -> VerdictCache {
        let ttl = raw.ttl.0;
        let headers = send.iter().cloned().map(VerdictKey::Header);
        if raw.key.is_empty() {
            let all = headers.chain([VerdictKey::Method, VerdictKey::Host, VerdictKey::Uri, VerdictKey::ClientIp]);
            return VerdictCache { key: all.collect(), ttl };
        }
        let key: Vec<VerdictKey> = raw.key.iter().map(|part| part.0.clone()).collect();
        for header in headers {
            if let VerdictKey::Header(name) = &header
                && !key.contains(&header)
            {
                let message = format!(
                    "the service sees `{name}`, so its verdict depends on it: add `header:{name}` to `key`, or leave it out of `send`"
                );
                self.problem(raw.origin, message);
            }
        }
        VerdictCache { key, ttl }
    }
}

fn check_path(text: &str) -> Result<(), String> {
    let path = text.split('?').next().unwrap_or_default();
    let mut scratch = Vec::new();
    path::normalise(path.as_bytes(), &mut scratch).map(drop).map_err(|why| format!("`{text}`: {why}"))
}
