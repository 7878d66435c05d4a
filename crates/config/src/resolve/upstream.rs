//! Upstreams.

use proxy_protocol::Version;

use super::server::STREAMS;
use super::targets::{Rules, resolve_targets};
use super::{Resolver, time};
use crate::problem::Origin;
use crate::raw;
use crate::raw::shape::Spanned;
use crate::target_file::TargetFile;
use crate::{
    Affinity, Balance, Breaker, ConnectionUse, Eject, FairQueue, GrpcStatuses, Health, LimitKey, Queue, Retry, RetryOn,
    Target, Timeouts, TlsPolicy, Upstream, UpstreamHttp2, UpstreamKeepAlive, UpstreamProtocol,
};
use message::path;

/// Attempts beyond the first: more only add load to what fails.
const MAX_EXTRA_ATTEMPTS: u32 = 10;

impl Resolver<'_> {
    pub(super) fn upstreams(&mut self) -> Vec<Upstream> {
        let file = self.file;
        let upstreams: Vec<Upstream> =
            file.upstreams.iter().map(|(name, upstream)| self.upstream(name, upstream)).collect();
        let first = |upstream: &Upstream| upstream.targets.first().and_then(|target| target.authority.clone());
        self.first_authorities = upstreams.iter().map(first).collect();
        upstreams
    }

    fn upstream(&mut self, name: &Spanned<String>, raw: &raw::Upstream) -> Upstream {
        self.check_name(name);
        self.upstream_named(name, raw)
    }

    pub(super) fn upstream_named(&mut self, name: &Spanned<String>, raw: &raw::Upstream) -> Upstream {
        if raw.targets.listed().is_empty() && raw.targets.source().is_none() && !self.is_managed() {
            let message = format!("the upstream `{}` needs at least one target", name.value);
            self.problem(raw.targets.origin, message);
        }
        if let (Some(queue), None) = (raw.queue.as_option(), raw.max_in_flight.as_option()) {
            let message = "`queue` has nothing to wait for: without `max_in_flight` every request goes out at once";
            self.problem(queue.origin, message);
        }
        let tls = self.upstream_tls(raw);
        let protocol = match raw.protocol {
            raw::UpstreamProtocol::Http1 => UpstreamProtocol::Http1,
            raw::UpstreamProtocol::Http2 => UpstreamProtocol::Http2,
            raw::UpstreamProtocol::Auto => UpstreamProtocol::Auto,
        };
        Upstream {
            name: name.as_str().into(),
            targets: self.targets(raw, tls.as_deref()),
            targets_file: raw.targets.file().map(|file| self.folder.join(file.as_str()).into()),
            tls,
            protocol,
            http2: self.upstream_http2(raw),
            balance: match &raw.balance {
                raw::Balance::RoundRobin => Balance::RoundRobin,
                raw::Balance::LeastRequest => Balance::LeastRequest,
                raw::Balance::Ewma => Balance::Ewma,
                raw::Balance::Hash(key) => Balance::Hash(key.0.clone()),
                raw::Balance::Cookie(affinity) => Balance::Cookie(self.affinity(affinity)),
                raw::Balance::Inference(inference) => Balance::Inference(self.inference(&inference.0, raw).into()),
            },
            health: raw.health.as_option().map(|health| self.health(health, protocol, raw)),
            eject: raw.eject.as_option().map(|eject| Eject {
                after: eject.after.get(),
                period: eject.period.0,
                max_share: eject.max.fraction(),
            }),
            slow_start: time(&raw.slow_start),
            breaker: raw.breaker.as_option().map(|breaker| Breaker {
                failures: breaker.failures.fraction(),
                of_last: breaker.of_last.get(),
                open_for: breaker.open_for.0,
            }),
            timeouts: Timeouts {
                connect: time(&raw.timeouts.connect),
                per_try: time(&raw.timeouts.per_try),
                first_byte: time(&raw.timeouts.first_byte),
                idle: time(&raw.timeouts.idle),
                total: time(&raw.timeouts.total),
                tunnel_idle: time(&raw.timeouts.tunnel_idle),
            },
            retry: self.retry(name, raw.retry.as_option(), protocol),
            keep_alive: match raw.keep_alive.as_option() {
                Some(keep) => UpstreamKeepAlive {
                    idle: keep.idle.0,
                    max_idle: keep.max_idle,
                    used_for: self.connection_use(&keep.max_requests, &keep.max_age),
                },
                // Nothing is kept, so for how long does not matter.
                None => UpstreamKeepAlive {
                    idle: std::time::Duration::ZERO,
                    max_idle: 0,
                    used_for: ConnectionUse::default(),
                },
            },
            proxy_protocol: self.sent_proxy_protocol(raw),
            tcp: self.tcp(&raw.tcp),
            max_in_flight: raw.max_in_flight.as_option().copied(),
            queue: raw.queue.as_option().map(|queue| self.queue(queue)),
        }
    }

    /// Those of the list, or of the file; a service in a registry is one.
    fn targets(&mut self, raw: &raw::Upstream, tls: Option<&TlsPolicy>) -> Vec<Target> {
        let is_inference = matches!(raw.balance, raw::Balance::Inference(_));
        let rules = Rules { tls, is_inference, is_managed: self.is_managed() };
        let Some(source) = raw.targets.source() else {
            return resolve_targets(raw.targets.listed(), &rules).unwrap_or_else(|mut problems| {
                self.problems.append(&mut problems);
                Vec::new()
            });
        };
        self.check_source(source, raw.targets.origin);
        let Some(file) = &source.file else {
            return self.registry_target(source, tls).into_iter().collect();
        };
        let path = self.folder.join(file.as_str());
        TargetFile::read(&path).targets(&rules).unwrap_or_else(|problems| {
            for problem in problems.list() {
                let place = match problem.origin {
                    Origin::File { line, column } => format!("{}:{line}:{column}", path.display()),
                    Origin::Variable(_) | Origin::Nowhere => path.display().to_string(),
                };
                self.problem(file.origin, format!("{place}: {}", problem.message));
            }
            Vec::new()
        })
    }

    fn affinity(&mut self, affinity: &raw::Affinity) -> Affinity {
        if let Some(short) = affinity.secret.as_ref().filter(|secret| secret.len() < 16) {
            self.problem(short.origin, "`secret` has at least 16 bytes; `openssl rand -base64 32` makes one");
        }
        Affinity {
            cookie: affinity.name.0.as_str().into(),
            secret: affinity.secret.as_ref().map(|secret| secret.as_str().into()),
        }
    }

    fn sent_proxy_protocol(&mut self, upstream: &raw::Upstream) -> Option<Version> {
        let version = sent_version(upstream.proxy_protocol.value)?;
        if upstream.protocol != raw::UpstreamProtocol::Http1 {
            let message = "`proxy_protocol` needs `protocol: http1`: over HTTP/2 clients share a connection, and its header names one of them";
            self.problem(upstream.proxy_protocol.origin, message);
        }
        Some(version)
    }

    fn upstream_http2(&mut self, upstream: &raw::Upstream) -> UpstreamHttp2 {
        let Some(raw) = &upstream.http2 else { return UpstreamHttp2::default() };
        if upstream.protocol == raw::UpstreamProtocol::Http1 {
            self.problem(raw.origin, "`http2` has no effect without `protocol: http2` or `protocol: auto`");
        }
        for (key, count) in
            [("max_concurrent_streams", &raw.max_concurrent_streams), ("max_connections", &raw.max_connections)]
        {
            if !STREAMS.contains(&count.value) {
                let message = format!("`{key}` is from {} to {}", STREAMS.start(), STREAMS.end());
                self.problem(count.origin, message);
            }
        }
        UpstreamHttp2 {
            max_concurrent_streams: raw.max_concurrent_streams.value,
            max_connections: raw.max_connections.value,
            stream_window: self.window(&raw.stream_window, "stream_window"),
            connection_window: self.window(&raw.connection_window, "connection_window"),
        }
    }

    fn health(
        &mut self,
        health: &Spanned<raw::Health>,
        protocol: UpstreamProtocol,
        upstream: &raw::Upstream,
    ) -> Health {
        if let Some(grpc) = health.grpc.as_ref().filter(|_| protocol != UpstreamProtocol::Http2) {
            self.problem(grpc.origin, "`grpc` needs `protocol: http2` of the upstream");
        }
        let path = &health.path;
        let mut scratch = Vec::new();
        match path::normalise(path.as_bytes(), &mut scratch) {
            Ok(_) => {}
            Err(refusal) => self.problem(path.origin, format!("`{}`: {refusal}", path.value)),
        }
        Health {
            protocol,
            proxy_protocol: sent_version(upstream.proxy_protocol.value),
            grpc: health.grpc.as_ref().map(|service| service.as_str().into()),
            path: path.as_str().into(),
            interval: health.interval.0,
            timeout: health.timeout.0,
            healthy_after: health.healthy_after.get(),
            unhealthy_after: health.unhealthy_after.get(),
            status: (health.status.0, health.status.1),
        }
    }

    fn retry(&mut self, name: &Spanned<String>, retry: Option<&raw::Retry>, protocol: UpstreamProtocol) -> Retry {
        let Some(retry) = retry else {
            return Retry { extra_attempts: 0, budget: 0.0, on: RetryOn::default() };
        };
        if retry.extra_attempts > MAX_EXTRA_ATTEMPTS {
            let message = format!("`extra_attempts` of the upstream `{}` is at most {MAX_EXTRA_ATTEMPTS}", name.value);
            self.problem(name.origin, message);
        }
        let has = |cause| retry.on.contains(&cause);
        let grpc: GrpcStatuses = retry.on.iter().filter_map(|cause| cause.grpc_status()).collect();
        if grpc != GrpcStatuses::default() && protocol == UpstreamProtocol::Http1 {
            let message = format!(
                "`retry.on` of the upstream `{}` names a status of gRPC, which needs `protocol: http2`",
                name.value
            );
            self.problem(name.origin, message);
        }
        Retry {
            extra_attempts: retry.extra_attempts,
            budget: retry.budget.fraction(),
            on: RetryOn {
                connect: has(raw::RetryCause::Connect),
                reset: has(raw::RetryCause::Reset),
                try_timeout: has(raw::RetryCause::TryTimeout),
                status_502: has(raw::RetryCause::BadGateway),
                status_503: has(raw::RetryCause::Unavailable),
                status_504: has(raw::RetryCause::GatewayTimeout),
                grpc,
            },
        }
    }

    fn queue(&mut self, queue: &Spanned<raw::Queue>) -> Queue {
        if *queue.size == 0 {
            self.problem(queue.size.origin, "a queue of 0 has no room; `queue: none` switches it off");
        }
        let fair = match (queue.order, &queue.key) {
            (raw::QueueOrder::Fair, None) => Some(vec![LimitKey::Consumer]),
            (raw::QueueOrder::Fair, Some(key)) => Some(self.key_parts(key.origin, "a fair queue", key)),
            (raw::QueueOrder::Fifo, Some(key)) => {
                self.problem(key.origin, "`key` of a queue says who takes turns; it needs `order: fair`");
                None
            }
            (raw::QueueOrder::Fifo, None) => None,
        };
        let fair = fair.map(|key| FairQueue { key: key.into() });
        Queue { size: *queue.size, timeout: queue.timeout.0, fair }
    }
}

fn sent_version(sent: raw::SentProxyProtocol) -> Option<Version> {
    match sent {
        raw::SentProxyProtocol::None => None,
        raw::SentProxyProtocol::V1 => Some(Version::V1),
        raw::SentProxyProtocol::V2 => Some(Version::V2),
    }
}
