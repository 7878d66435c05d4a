//! The environment-only mode: an inference gateway made from variables, without a file.
//!
//! It builds the same raw form that a file would, so that nothing behind it differs, and `weir check --print` can show it as the file to
//! go on from.

mod ai;

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;
use std::time::Duration;

use ipnet::{Ipv4Net, Ipv6Net};

use super::DemoService;
use super::LimitKey;
use super::problem::{Origin, Problem};
use super::raw::shape::{Map, OneOrMany, OrNone, Spanned};
use super::raw::target::{LimitKeyText, TargetUrl};
use super::raw::text::{Address, FieldValue, Method, Network};
use super::raw::units::{Rate, Size, Time};
use super::raw::{self, BindText, File, Route, TrustedProxy};
use super::yaml::Environment;

const PYTHON: &str = "python";
const NODE: &str = "node";
const DEMO: &str = "demo";
const CLIENT_LIMIT: &str = "client";
const GLOBAL_LIMIT: &str = "global";
const CACHE: &str = "answers";

const GATES: &str = r#"{"ok":true,"service":"weir"}"#;
const WELCOME: &str = "\
weir: an API gateway

POST /infer/python   to the Python inference service, or to Node while that is down
POST /infer/node     to the Node inference service
POST /v1/chat/completions, /v1/messages   an AI route: both services are model servers, for clients of OpenAI and Anthropic
GET  /v1/models      its models
GET  /slow           a response after 120 ms
GET  /limited        a response at once
GET  /gates          a response of the gateway itself
GET  /healthz        health of the gateway and its targets
GET  /cachez         counts of the cache
";

/// Builds the configuration.
///
/// # Errors
/// Every variable that cannot be understood, by name.
pub(super) fn file(environment: Environment<'_>) -> Result<File, Vec<Problem>> {
    let mut variables = Variables { environment, problems: Vec::new() };
    let file = variables.file();
    if variables.problems.is_empty() { Ok(file) } else { Err(variables.problems) }
}

struct Variables<'e> {
    environment: Environment<'e>,
    problems: Vec<Problem>,
}

impl Variables<'_> {
    fn file(&mut self) -> File {
        let limits = self.limits();
        let redis = self.redis();
        let cache = self.cache(redis.is_some());
        let mut file = File {
            listen: Spanned::from(OneOrMany(vec![self.listen()])),
            admin: self.admin(),
            console: self.console(),
            trusted_proxies: self.trusted_proxies(),
            upstreams: Map::from_iter([
                (PYTHON.to_owned(), self.service("PY_SERVICE_URL", DemoService::InferencePython)),
                (NODE.to_owned(), self.service("NODE_SERVICE_URL", DemoService::InferenceNode)),
                (DEMO.to_owned(), upstream(raw::Target::from(demo(DemoService::Plain)).into())),
            ]),
            providers: ai::providers(),
            models: ai::models(),
            routes: Spanned::from(routes()),
            ..File::default()
        };
        if let Some(limits) = limits {
            file.defaults.limits = limits.iter().map(|(name, _)| name.clone()).collect();
            file.limits = limits;
        }
        if let Some(cache) = cache {
            file.defaults.cache = OrNone::Some(CACHE.to_owned().into());
            file.caches = Map::from_iter([(CACHE.to_owned(), cache)]);
            file.redis = redis;
        }
        file
    }

    fn listen(&mut self) -> Spanned<raw::Listen> {
        let host = self.parse("HOST", IpAddr::from([127, 0, 0, 1]), |text| {
            let address = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            address
                .unwrap_or(text)
                .parse()
                .map_err(|_| format!("`{text}` is not an IP address; write `127.0.0.1`, or `0.0.0.0` for all"))
        });
        let port = self
            .parse("PORT", 8080, |text| text.parse().map_err(|_| format!("`{text}` is not a port; write 0 to 65535")));
        Spanned::new(BindText::from(SocketAddr::new(host, port)).into(), Origin::Variable("PORT"))
    }

    fn admin(&mut self) -> OrNone<Spanned<Address>> {
        let admin = self.parse("ADMIN_ADDR", None, |text| match text {
            "none" => Ok(None),
            _ => Address::from_str(text).map(Some),
        });
        admin.map(|address| Spanned::new(address, Origin::Variable("ADMIN_ADDR"))).into()
    }

    fn console(&mut self) -> Option<Spanned<raw::Console>> {
        let origin = Origin::Variable("CONSOLE_TOKEN");
        let token = Spanned::new(self.get("CONSOLE_TOKEN")?, origin);
        Some(Spanned::new(raw::Console { token: Some(token), read_only: false }, origin))
    }

    fn trusted_proxies(&mut self) -> Vec<TrustedProxy> {
        let networks = [
            Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8).into(),
            Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128).into(),
        ];
        let mut networks: Vec<_> = networks.map(|network| TrustedProxy::Network(Network(network))).into();
        let more = self.parse("TRUSTED_PROXIES", Vec::new(), |text| {
            let list = text.split(',').map(str::trim).filter(|network| !network.is_empty());
            list.map(TrustedProxy::from_str).collect()
        });
        networks.extend(more);
        networks
    }

    /// An inference service with active health checks and a breaker, so that its fallback knows when to step in.
    fn service(&mut self, variable: &'static str, play: DemoService) -> raw::Upstream {
        let url = self.parse(variable, None, |text| TargetUrl::from_str(text).map(Some));
        let target = raw::Target::from(url.unwrap_or_else(|| demo(play)));
        raw::Upstream {
            health: OrNone::Some(raw::Health::default().into()),
            breaker: OrNone::Some(raw::Breaker::default()),
            ..upstream(Spanned::new(target, Origin::Variable(variable)))
        }
    }

    /// The client's limit first: a request that it refuses takes no global token.
    fn limits(&mut self) -> Option<Map<raw::Limit>> {
        let enabled = self.flag("RATE_LIMIT_ENABLED");
        // Accepted for those who set it: idle keys are forgotten by themselves, as soon as their bucket is full again.
        self.parse("RL_CLEANUP_MINUTES", NonZeroU64::MIN, whole);
        let limits = [
            (CLIENT_LIMIT, LimitKey::ClientIp, self.bucket("CLIENT_RPS", 20.0, "CLIENT_BURST", 40)),
            (GLOBAL_LIMIT, LimitKey::Global, self.bucket("GLOBAL_RPS", 200.0, "GLOBAL_BURST", 100)),
        ];
        let limits = limits.map(|(name, key, (rate, burst))| {
            let limit = raw::Limit {
                key: OneOrMany(vec![LimitKeyText(key)]),
                rate: Some(rate),
                burst: Some(burst),
                headers: vec![raw::LimitHeader::Ietf, raw::LimitHeader::Legacy, raw::LimitHeader::Scope],
                ..raw::Limit::default()
            };
            (name.to_owned(), limit)
        });
        enabled.then(|| Map::from_iter(limits))
    }

    fn bucket(
        &mut self,
        rate: &'static str,
        default_rate: f64,
        burst: &'static str,
        default_burst: u64,
    ) -> (Spanned<Rate>, Spanned<NonZeroU64>) {
        let default_rate = Rate { count: default_rate, seconds: 1 };
        let tokens = self.parse(rate, default_rate, |text| {
            format!("{text}/s").parse().map_err(|_| {
                format!("`{text}` is not a number of requests per second above 0; RATE_LIMIT_ENABLED=false switches limits off")
            })
        });
        let default_burst = NonZeroU64::new(default_burst).unwrap_or(NonZeroU64::MIN);
        let most = self.parse(burst, default_burst, whole);
        (Spanned::new(tokens, Origin::Variable(rate)), Spanned::new(most, Origin::Variable(burst)))
    }

    fn cache(&mut self, redis: bool) -> Option<raw::Cache> {
        let enabled = self.flag("CACHE_ENABLED");
        let ttl = self.parse("CACHE_TTL_SECONDS", Time(Duration::from_secs(300)), |text| {
            format!("{text}s").parse().map_err(|_| {
                format!("`{text}` is not a number of seconds from 1; CACHE_ENABLED=false switches the cache off")
            })
        });
        let max_entries = self.parse("CACHE_MAX_ENTRIES", None, |text| whole(text).map(Some));
        let max_body = self.parse("CACHE_MAX_BODY_BYTES", Size(1 << 20), |text| {
            format!("{text}B").parse().map_err(|_| format!("`{text}` is not a number of bytes"))
        });
        let mut cache = raw::Cache::of_mode(raw::CacheMode::Ttl);
        cache.ttl = Some(Spanned::new(ttl, Origin::Variable("CACHE_TTL_SECONDS")));
        if let Some(entries) = max_entries.and_then(|n: NonZeroU64| usize::try_from(n.get()).ok()) {
            cache.max_entries = NonZeroUsize::new(entries).unwrap_or(cache.max_entries);
        }
        cache.max_body = Spanned::new(max_body, Origin::Variable("CACHE_MAX_BODY_BYTES"));
        if redis {
            cache.store = OneOrMany(vec![raw::CacheStore::Redis]).into();
        }
        enabled.then_some(cache)
    }

    /// The Redis of the cache, if that is where it is kept.
    fn redis(&mut self) -> Option<Spanned<raw::Redis>> {
        let used = self.parse("CACHE_BACKEND", false, |text| match text {
            "memory" => Ok(false),
            "redis" => Ok(true),
            _ => Err(format!("expected `memory` or `redis`, found `{text}`")),
        });
        let address = self.parse("REDIS_ADDR", "redis:6379".to_owned(), |text| {
            let valid = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
            valid
                .then(|| text.to_owned())
                .ok_or_else(|| format!("`{text}` is not a host with a port, such as `redis:6379`"))
        });
        let database = self.parse("REDIS_DB", 0, |text| {
            text.parse::<u32>().map_err(|_| format!("`{text}` is not the number of a database"))
        });
        let mut url = "redis://".to_owned();
        if let Some(password) = self.get("REDIS_PASSWORD") {
            url.push(':');
            escape_into(&mut url, &password);
            url.push('@');
        }
        url.push_str(&address);
        url.push('/');
        url.push_str(&database.to_string());
        let url = Spanned::new(url, Origin::Variable("REDIS_ADDR"));
        let namespace = "weir".to_owned().into();
        let redis = raw::Redis { url, timeout: Time(Duration::from_millis(5)), namespace, secret: None };
        used.then(|| Spanned::new(redis, Origin::Variable("REDIS_ADDR")))
    }

    /// A variable; an empty one is as good as not set.
    fn get(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    fn parse<T>(&mut self, name: &'static str, default: T, parse: impl FnOnce(&str) -> Result<T, String>) -> T {
        match self.get(name).map(|text| parse(text.trim())) {
            None => default,
            Some(Ok(value)) => value,
            Some(Err(message)) => {
                self.problems.push(Problem::new(Origin::Variable(name), message));
                default
            }
        }
    }

    /// A switch that is on unless it is switched off.
    fn flag(&mut self, name: &'static str) -> bool {
        self.parse(name, true, |text| match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(format!("expected `true` or `false`, found `{text}`")),
        })
    }
}

fn whole(text: &str) -> Result<NonZeroU64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number above 0"))
}

fn demo(service: DemoService) -> TargetUrl {
    TargetUrl::demo(service)
}

fn upstream(target: Spanned<raw::Target>) -> raw::Upstream {
    raw::Upstream { targets: raw::Targets::List(vec![target]).into(), ..raw::Upstream::default() }
}

/// Password in a URL (RFC 3986 §2.1).
fn escape_into(url: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

fn routes() -> Vec<Spanned<Route>> {
    let infer = |name: &str, upstream: &str| Route {
        upstream: Some(upstream.to_owned().into()),
        rewrite: Some(raw::Rewrite { path: Some("/infer".to_owned().into()), ..Default::default() }.into()),
        ..route(name, "POST", &format!("/infer/{upstream}"))
    };
    let forward = |path: &str| Route {
        upstream: Some(DEMO.to_owned().into()),
        ..route(path.trim_start_matches('/'), "GET", path)
    };
    // Served here, whatever the limits and cache of the others.
    let exempt = |path: &str, respond: raw::Respond| Route {
        respond: Some(respond.into()),
        limits: Some(Vec::new()),
        ..route(path.trim_start_matches('/'), "GET", path)
    };
    let builtin = |builtin| raw::Respond { builtin: Some(builtin), ..Default::default() };
    let text = |content_type: &str, body: &str| raw::Respond {
        content_type: Some(FieldValue(content_type.to_owned()).into()),
        body: Some(body.to_owned().into()),
        ..Default::default()
    };
    let welcome = text("text/plain; charset=utf-8", WELCOME);
    let routes = vec![
        Route { fallback: vec![NODE.to_owned().into()], ..infer("infer-python", PYTHON) },
        infer("infer-node", NODE),
        ai::route(),
        forward("/slow"),
        forward("/limited"),
        exempt("/gates", text("application/json", GATES)),
        exempt("/healthz", builtin(raw::Builtin::Healthz)),
        exempt("/cachez", builtin(raw::Builtin::Cachez)),
        Route { respond: Some(welcome.into()), ..route("welcome", "GET", "/") },
    ];
    routes.into_iter().map(Spanned::from).collect()
}

fn route(name: &str, method: &str, path: &str) -> Route {
    let path = raw::Path(super::PathPattern::Exact(path.into()));
    let mut route = Route::at(path);
    route.name = Some(raw::text::Name(name.to_owned()).into());
    route.matcher.methods = vec![Method(method.to_owned())];
    route
}

#[cfg(test)]
mod tests;
