//! What a file says becomes what it means. No socket, no clock; files that the configuration names are read through [`ReadFile`].
//!
//! Everything that is wrong is collected; a value that could not be understood is replaced by something harmless, so that the rest is
//! looked at too. If there was any problem the result is thrown away.

mod ai;
mod ambiguity;
pub(super) mod api;
mod auth;
mod authorizer;
mod budget;
mod compress;
mod errors;
mod headers;
mod identity;
mod inference;
mod limit;
mod listen;
mod mirror;
mod mtls;
mod policy;
mod registry;
mod route;
mod server;
pub(crate) mod targets;
pub(crate) mod telemetry;
mod tls;
mod upstream;
mod windows;

use super::problem::{Origin, Problem};
use super::raw::shape::{Map, OrNone, Spanned};
use super::raw::units::Time;
use super::raw::{self, text};
use super::yaml::Environment;
use super::{Api, Budget, CacheId, Config, LimitId, Mode, ServerTiming, Upstream, UpstreamId};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How a file that the configuration names, a certificate say, is read.
pub(super) type ReadFile<'a> = &'a dyn Fn(&std::path::Path) -> std::io::Result<Vec<u8>>;

/// Turns the raw form into the resolved one. Descriptions of APIs are looked for from `folder`.
///
/// # Errors
/// Every problem with the meaning of the file.
pub(super) fn resolve(
    file: &raw::File,
    mode: Mode,
    folder: &Path,
    read_file: ReadFile<'_>,
    environment: Environment<'_>,
) -> Result<Config, Vec<Problem>> {
    let mut resolver = Resolver {
        mode,
        file,
        folder,
        read_file,
        environment,
        limit_spans: Vec::new(),
        budgets: Vec::new(),
        budget_spans: Vec::new(),
        prices: None,
        services: Vec::new(),
        first_authorities: Vec::new(),
        problems: Vec::new(),
        apis: Vec::new(),
        tls_files: Vec::new(),
    };
    let mut config = resolver.config(mode);
    config.tls_files = std::mem::take(&mut resolver.tls_files);
    // What an API says once is looked at for each of its operations.
    let mut seen = HashSet::new();
    resolver.problems.retain(|problem| seen.insert(problem.clone()));
    if resolver.problems.is_empty() { Ok(config) } else { Err(resolver.problems) }
}

struct Resolver<'f> {
    mode: Mode,
    file: &'f raw::File,
    folder: &'f Path,
    read_file: ReadFile<'f>,
    /// Variables that the configuration names in place of a file.
    environment: Environment<'f>,
    /// By position of a limit in the file: the limits that it became.
    limit_spans: Vec<std::ops::Range<usize>>,
    /// Limits of tokens and money.
    budgets: Vec<Budget>,
    /// By position of a limit in the file: those of `budgets` that it became.
    budget_spans: Vec<std::ops::Range<usize>>,
    /// The file of prices.
    prices: Option<raw::Prices>,
    /// Upstreams of services that have a URL: authorizers, then guards; they follow those of the file.
    services: Vec<Upstream>,
    /// By position of an upstream: `Host` of its first target.
    first_authorities: Vec<Option<Arc<str>>>,
    /// Those that TLS needs, as they are read.
    tls_files: Vec<PathBuf>,
    problems: Vec<Problem>,
    /// Found while routes are made.
    apis: Vec<Api>,
}

impl Resolver<'_> {
    fn config(&mut self, mode: Mode) -> Config {
        let file = self.file;
        let upstreams = self.upstreams();
        let auth = self.auth();
        self.identity_fields(&auth);
        self.prices = self.price_file();
        let limits = self.limits();
        let models = self.models();
        let mut config = Config {
            mode,
            listen: self.listen(),
            tls_files: Vec::new(),
            admin: self.admin(),
            console: self.console(),
            takeover: self.takeover(),
            workers: match file.workers {
                raw::Workers::Auto => None,
                raw::Workers::Number(number) => Some(number),
            },
            trusted_proxies: self.trusted_proxies(),
            untrusted_headers: self.untrusted_headers(),
            request_id: self.request_id(),
            server_timing: match file.server_timing {
                raw::ServerTiming::None => ServerTiming::None,
                raw::ServerTiming::Trusted => ServerTiming::Trusted,
                raw::ServerTiming::All => ServerTiming::All,
            },
            access_log: self.access_log(),
            telemetry: self.telemetry(),
            redaction: self.redaction(),
            server: self.server(),
            redis: self.redis(),
            upstreams,
            auth,
            gateway_auth: self.route_auth(None),
            limits,
            budgets: self.budgets.clone(),
            currency: self.prices.as_ref().map(|prices| prices.currency.as_str().into()),
            caches: self.caches(),
            providers: self.providers(),
            models,
            ai: self.ai(),
            gateway_limits: self.limit_ids(&file.defaults.limits),
            gateway_errors: self.default_errors(),
            routes: self.routes(),
            apis: std::mem::take(&mut self.apis),
        };
        config.upstreams.append(&mut self.services);
        self.logged_credentials(&config);
        config
    }

    fn is_managed(&self) -> bool {
        self.mode == Mode::Managed
    }

    fn problem(&mut self, origin: Origin, message: impl Into<String>) {
        self.problems.push(Problem::new(origin, message));
    }

    /// Notes a problem if there is one.
    fn check(&mut self, origin: Origin, result: Result<(), String>) {
        if let Err(message) = result {
            self.problem(origin, message);
        }
    }

    /// Notes a name that cannot be one.
    fn check_name(&mut self, name: &Spanned<String>) {
        self.check(name.origin, text::check_name(name));
    }

    fn upstream_id(&mut self, name: &Spanned<String>) -> UpstreamId {
        let file = self.file;
        UpstreamId(self.position(&file.upstreams, name, "upstream"))
    }

    fn limit_ids(&mut self, names: &[Spanned<String>]) -> Vec<LimitId> {
        let file = self.file;
        let mut ids: Vec<LimitId> = Vec::with_capacity(names.len());
        for name in names {
            let position = self.position(&file.limits, name, "limit");
            if names.iter().take_while(|other| !std::ptr::eq(*other, name)).any(|other| other == name) {
                self.problem(name.origin, format!("the limit `{}` is named twice", name.value));
            }
            ids.extend(self.limit_span(position));
        }
        ids
    }

    fn cache_id(&mut self, name: &OrNone<Spanned<String>>) -> Option<CacheId> {
        let file = self.file;
        name.as_option().map(|name| CacheId(self.position(&file.caches, name, "cache")))
    }

    /// Index of the entry that a name stands for.
    fn position<T>(&mut self, map: &Map<T>, name: &Spanned<String>, what: &str) -> usize {
        if let Some(position) = map.position(name) {
            return position;
        }
        let known: Vec<&str> = map.iter().map(|(key, _)| key.as_str()).collect();
        let hint = match super::yaml::nearest(name, &known) {
            Some(near) => format!("; did you mean `{near}`?"),
            None if known.is_empty() => format!("; the file defines no {what}"),
            None => format!("; there are {}", known.join(", ")),
        };
        self.problem(name.origin, format!("there is no {what} `{}`{hint}", name.value));
        0
    }
}

/// `none` as no deadline.
fn time(time: &OrNone<Time>) -> Option<Duration> {
    time.as_option().map(|time| time.0)
}

#[cfg(test)]
mod tests;
