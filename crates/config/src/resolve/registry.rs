//! Sources of targets beside a list: which one it is, and services in registries.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::Resolver;
use crate::problem::Origin;
use crate::raw::shape::Spanned;
use crate::raw::target::{TargetUrl, parse_base_path};
use crate::raw::{TargetScheme, TargetSource};
use crate::{ConsulService, Registry, Target, TargetAddress, TlsPolicy};

/// Where an agent of Consul listens by default.
const AGENT: &str = "http://127.0.0.1:8500";

/// Bytes of the name of a service in Consul.
const MAX_NAME: usize = 128;

impl Resolver<'_> {
    /// Notes what is wrong with the keys of a source, taken together.
    pub(super) fn check_source(&mut self, source: &TargetSource, origin: Origin) {
        fn place<T>(value: &Option<Spanned<T>>) -> Option<Origin> {
            value.as_ref().map(|value| value.origin)
        }
        let kinds = [
            ("file", place(&source.file)),
            ("kubernetes", place(&source.kubernetes)),
            ("consul", place(&source.consul)),
        ];
        let mut given = kinds.into_iter().filter_map(|(name, place)| Some((name, place?)));
        let Some((kind, _)) = given.next() else {
            return self.problem(origin, "a mapping of targets needs `file`, `kubernetes` or `consul`");
        };
        for (other, place) in given {
            self.problem(place, format!("`{other}` beside `{kind}`: an upstream has one source of targets"));
        }
        if kind == "file" {
            for (key, place) in [("scheme", place(&source.scheme)), ("path", place(&source.path))] {
                if let Some(place) = place {
                    self.problem(place, format!("`{key}` has no effect with `file`: the URLs in the file say it"));
                }
            }
        }
        if kind != "consul" {
            let of_consul = [
                ("address", place(&source.address)),
                ("tag", place(&source.tag)),
                ("datacenter", place(&source.datacenter)),
                ("token", place(&source.token)),
            ];
            for (key, place) in of_consul.into_iter().filter_map(|(key, place)| Some((key, place?))) {
                self.problem(place, format!("`{key}` has no effect with `{kind}`; it belongs to `consul`"));
            }
        }
    }

    /// The target that stands for the endpoints of a service in a registry.
    pub(super) fn registry_target(&mut self, source: &TargetSource, tls: Option<&TlsPolicy>) -> Option<Target> {
        let registry = match (&source.kubernetes, &source.consul) {
            (Some(service), _) => Registry::Kubernetes(service.0.clone()),
            (None, Some(name)) => Registry::Consul(self.consul(name, source)),
            (None, None) => return None,
        };
        let host: Arc<str> = registry.host().into();
        let is_tls = source.scheme.as_ref().is_some_and(|scheme| scheme.value == TargetScheme::Https);
        let base_path = source.path.as_ref().map_or_else(String::new, |path| match parse_base_path(path) {
            Ok(parsed) => parsed,
            Err(why) => {
                self.problem(path.origin, format!("`{}`: {why}", path.value));
                String::new()
            }
        });
        Some(Target {
            address: TargetAddress::Registry(Arc::new(registry)),
            // Never what the registry says: whoever changes an entry could choose it.
            tls_name: tls.filter(|_| is_tls).map(|tls| tls.server_name.clone().unwrap_or_else(|| host.clone())),
            authority: Some(host),
            base_path: base_path.into(),
            weight: NonZeroU32::MIN,
        })
    }

    fn consul(&mut self, name: &Spanned<String>, source: &TargetSource) -> ConsulService {
        let is_name = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            // A path would lose it.
            && !matches!(&*name.value, "." | "..");
        if !is_name {
            let message = format!(
                "`{}` is not the name of a service; it has up to {MAX_NAME} letters, digits, `-`, `_` and `.`",
                name.value
            );
            self.problem(name.origin, message);
        }
        for (key, value) in [("tag", &source.tag), ("datacenter", &source.datacenter)] {
            if let Some(empty) = value.as_ref().filter(|value| value.is_empty()) {
                self.problem(empty.origin, format!("`{key}` is empty; leave it out"));
            }
        }
        let address = source.address.as_ref().map_or_else(|| AGENT.into(), |address| self.agent(address));
        let shared = |value: &Option<Spanned<String>>| value.as_ref().map(|value| value.as_str().into());
        ConsulService {
            name: name.as_str().into(),
            address,
            tag: shared(&source.tag),
            datacenter: shared(&source.datacenter),
            // A variable may be set to nothing where access is not controlled.
            token: source.token.as_ref().filter(|token| !token.0.is_empty()).map(|token| token.0.as_str().into()),
        }
    }

    /// `http://HOST:PORT` of an agent.
    fn agent(&mut self, address: &Spanned<String>) -> Arc<str> {
        // Not shown: there may be a password in it.
        let wrong = "`address` is not the URL of an agent of Consul; write `http://HOST:PORT` or `https://HOST:PORT`, without a path";
        let parsed = address.parse::<TargetUrl>().ok().filter(|url| {
            let is_host = matches!(url.address, TargetAddress::Ip(_) | TargetAddress::Name { .. });
            is_host && url.base_path.is_empty()
        });
        match parsed.and_then(|url| Some((url.tls, url.authority?))) {
            Some((is_tls, authority)) => format!("{}://{authority}", if is_tls { "https" } else { "http" }).into(),
            None => {
                self.problem(address.origin, wrong);
                AGENT.into()
            }
        }
    }
}
