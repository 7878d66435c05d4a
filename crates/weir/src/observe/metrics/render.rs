//! What is exposed, family by family.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::PoisonError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::cells::{CacheCells, Counter, LimitCells, REDIS_FAILURES, RedisCells, RouteCells, Statuses, UpstreamCells};
use super::exemplars::Exemplars;
use super::exposition::{Exposition, Format};
use super::histogram::{EXCHANGE, OVERHEAD, Total};
use super::text::Text;
use super::{Process, http_durations, process};
use crate::error::Reason;

/// Every family.
fn collect(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    routes(p, out)?;
    upstreams(p, out)?;
    policies(p, out)?;
    redis(p, out)?;
    workers(p, out)?;
    process(p, out)?;
    p.access_log.collect(out)?;
    let sources = p.sources.lock().unwrap_or_else(PoisonError::into_inner).clone();
    sources.iter().try_for_each(|source| source.collect(out))
}

/// The same for a collector.
pub(super) fn otlp(process: &Process) -> telemetry::metrics::Metrics {
    let unix_ns = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mut metrics = telemetry::metrics::Metrics::new(unix_ns(process.started_at), unix_ns(SystemTime::now()));
    collect(process, &mut Exposition::otlp(&mut metrics)).expect("memory takes what is written");
    http_durations::write(&process.http_durations, &mut metrics);
    metrics
}

/// The whole exposition.
pub(super) fn render(process: &Process, format: Format) -> String {
    let mut text = Text::new(format);
    collect(process, &mut Exposition::text(&mut text)).expect("memory takes what is written");
    text.finish()
}

/// Sum of one cell over workers.
fn sum<C>(cells: &[Arc<C>], cell: impl Fn(&C) -> &Counter) -> u64 {
    cells.iter().map(|c| cell(c).get()).sum()
}

/// Sum of one histogram over workers.
fn total<'c, C: 'c>(
    cells: impl IntoIterator<Item = &'c Arc<C>>,
    histogram: impl Fn(&C) -> &super::histogram::Histogram,
) -> Total {
    let mut total = Total::default();
    cells.into_iter().for_each(|c| total.add(histogram(c)));
    total
}

fn routes(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let routes = p.routes.snapshot(Instant::now());
    let each = |cell: fn(&RouteCells) -> &Counter| {
        let routes = &routes;
        move |s: &mut super::Samples<'_>| {
            routes.iter().try_for_each(|(name, cells)| s.add(&[("route", name)], sum(cells, cell)))
        }
    };
    out.counter("http_requests", "Requests by route, upstream that responded (- is the gateway), and status", |s| {
        by_status(&routes, s, "status", |statuses| statuses.iter().collect())
    })?;
    out.counter(
        "grpc_responses",
        "gRPC calls by route, upstream that responded (- is the gateway), and grpc-status",
        |s| by_status(&routes, s, "code", |statuses| statuses.iter_grpc().collect()),
    )?;
    out.counter("http_request_bytes", "Bytes of requests, heads included", each(|c| &c.request_bytes))?;
    out.counter("http_response_bytes", "Bytes of responses, heads included", each(|c| &c.response_bytes))?;
    out.histogram(
        "request_duration_seconds",
        "From the first byte of a request to the last byte of its response",
        |s| {
            routes.iter().try_for_each(|(route, cells)| {
                let exemplars = Exemplars::newest(cells.iter().map(|cells| &cells.exemplars));
                s.add_traced(&[("route", route)], (&EXCHANGE, &total(cells, |c| &c.duration)), &exemplars)
            })
        },
    )?;
    out.histogram("upstream_duration_seconds", "From the start of the last attempt to the end of its response", |s| {
        routes
            .iter()
            .map(|(route, cells)| (route, total(cells, |c| &c.upstream_duration)))
            // Most routes without an upstream never have one.
            .filter(|(_, total)| total.count() > 0)
            .try_for_each(|(route, total)| s.add_histogram(&[("route", route)], &EXCHANGE, &total))
    })
}

/// Counts of each route by upstream and by what `of` gives, added up over workers.
fn by_status(
    routes: &[(Arc<str>, Vec<Arc<RouteCells>>)],
    s: &mut super::Samples<'_>,
    label: &'static str,
    of: impl Fn(&Statuses) -> Vec<(u16, u64)>,
) -> fmt::Result {
    for (route, cells) in routes {
        let mut merged: BTreeMap<(Arc<str>, u16), u64> = BTreeMap::new();
        for (upstream, statuses) in cells.iter().flat_map(|c| c.statuses()) {
            for (status, n) in of(&statuses) {
                *merged.entry((upstream.clone(), status)).or_default() += n;
            }
        }
        for ((upstream, status), n) in merged {
            s.add(&[("route", route), ("upstream", &upstream), (label, &status.to_string())], n)?;
        }
    }
    Ok(())
}

fn upstreams(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let upstreams = p.upstreams.snapshot(Instant::now());
    let each = |cell: fn(&UpstreamCells) -> &Counter| {
        let upstreams = &upstreams;
        move |s: &mut super::Samples<'_>| {
            upstreams.iter().try_for_each(|(name, cells)| s.add(&[("upstream", name)], sum(cells, cell)))
        }
    };
    out.counter("upstream_errors", "Attempts that failed, by reason", |s| {
        for (name, cells) in &upstreams {
            for reason in Reason::ALL {
                let n = cells.iter().map(|c| c.errors.get(*reason)).sum::<u64>();
                if n > 0 {
                    s.add(&[("upstream", name), ("reason", reason.label())], n)?;
                }
            }
        }
        Ok(())
    })?;
    out.counter("upstream_connections_opened", "Connections made", each(|c| &c.opened))?;
    out.counter(
        "upstream_connections_reused",
        "Requests that took an idle connection (pool hits)",
        each(|c| &c.reused),
    )?;
    out.counter("upstream_connections_discarded", "Connections closed instead of pooled", each(|c| &c.discarded))?;
    out.counter("upstream_retries", "Further attempts", each(|c| &c.retries))?;
    out.counter("upstream_fallbacks", "Requests that this upstream served as a fallback", each(|c| &c.fallbacks))
}

fn policies(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    auth(p, out)?;
    contracts(p, out)?;
    copies_and_faults(p, out)?;
    limits(p, out)?;
    let caches = p.caches.snapshot(Instant::now());
    let each = |cell: fn(&CacheCells) -> &Counter| {
        let caches = &caches;
        move |s: &mut super::Samples<'_>| {
            caches.iter().try_for_each(|(name, cells)| s.add(&[("cache", name)], sum(cells, cell)))
        }
    };
    out.counter("cache_hits", "Requests served from a cache", each(|c| &c.hits))?;
    out.counter("cache_misses", "Requests that a cache could have served and did not", each(|c| &c.misses))?;
    out.counter("cache_coalesced", "Misses served by another request's fetch", each(|c| &c.coalesced))?;
    out.counter("cache_stale", "Hits served with a stale response", each(|c| &c.stale))?;
    out.counter("cache_revalidated", "Stored responses that the origin confirmed", each(|c| &c.revalidated))?;
    out.counter("cache_bypassed", "Requests that bypassed a cache", each(|c| &c.bypassed))?;
    out.counter("cache_stored", "Responses stored", each(|c| &c.stored))?;
    out.counter("cache_uncacheable", "Responses to misses that could not be stored", each(|c| &c.uncacheable))?;
    out.counter("cache_store_errors", "Failed calls of an external store", each(|c| &c.store_errors))?;
    let help = "Responses that were not written to Redis because too many were being written";
    out.counter("cache_writes_dropped", help, each(|c| &c.writes_dropped))
}

fn redis(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let uses = p.redis.snapshot(Instant::now());
    if uses.is_empty() {
        return Ok(());
    }
    out.histogram("redis_call_duration_seconds", "Calls of Redis that succeeded, by use", |s| {
        uses.iter().try_for_each(|(name, cells)| {
            s.add_histogram(&[("use", name)], &OVERHEAD, &total(cells, |c: &RedisCells| &c.duration))
        })
    })?;
    out.counter("redis_failures", "Calls of Redis that failed or got no response within the timeout", |s| {
        for (name, cells) in &uses {
            for (index, label) in REDIS_FAILURES.iter().enumerate() {
                s.add(&[("use", name), ("reason", label)], sum(cells, |c| &c.failures[index]))?;
            }
        }
        Ok(())
    })?;
    out.counter("redis_connections_opened", "Connections to Redis made", |s| {
        uses.iter().try_for_each(|(name, cells)| s.add(&[("use", name)], sum(cells, |c| &c.connections)))
    })?;
    out.gauge("redis_breakers_open", "Connections to Redis with an open breaker, over all workers", |s| {
        uses.iter().try_for_each(|(name, cells)| {
            // Read before what it can never exceed.
            let closed = sum(cells, |c| &c.breakers_closed);
            s.add(&[("use", name)], sum(cells, |c| &c.breakers_opened).saturating_sub(closed))
        })
    })
}

fn auth(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let all = p.auth.snapshot(Instant::now());
    out.counter("auth_requests", "Requests by authenticator and outcome", |s| {
        all.iter().try_for_each(|(name, cells)| {
            super::policies::OUTCOMES.iter().enumerate().try_for_each(|(index, outcome)| {
                let count: u64 = cells.iter().map(|cells| cells.outcomes[index].get()).sum();
                if count == 0 { Ok(()) } else { s.add(&[("auth", name), ("outcome", outcome)], count) }
            })
        })
    })?;
    out.counter("auth_cache", "Look-ups in the caches of authorizers and of API keys in Redis, by result", |s| {
        all.iter().try_for_each(|(name, cells)| {
            let counts = [("hit", sum(cells, |c| &c.hits)), ("miss", sum(cells, |c| &c.misses))];
            counts
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .try_for_each(|(result, count)| s.add(&[("auth", name), ("result", result)], count))
        })
    })?;
    out.histogram("auth_duration_seconds", "Time that authorizers took to respond", |s| {
        all.iter()
            .map(|(name, cells)| (name, total(cells, |c| &c.duration)))
            .filter(|(_, total)| total.count() > 0)
            .try_for_each(|(name, total)| s.add_histogram(&[("auth", name)], &OVERHEAD, &total))
    })
}

fn copies_and_faults(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let copies = p.mirrors.snapshot(Instant::now());
    if !copies.is_empty() {
        out.counter(
            "mirrored_requests",
            "Requests that were to be copied to another upstream, by what became of the copy",
            |s| {
                copies.iter().try_for_each(|(route, cells)| {
                    let counts = [
                        ("sent", sum(cells, |c| &c.sent)),
                        ("failed", sum(cells, |c| &c.failed)),
                        ("skipped", sum(cells, |c| &c.skipped)),
                    ];
                    counts
                        .into_iter()
                        .try_for_each(|(outcome, count)| s.add(&[("route", route), ("outcome", outcome)], count))
                })
            },
        )?;
    }
    let faults = p.faults.snapshot(Instant::now());
    if faults.is_empty() {
        return Ok(());
    }
    out.counter("injected_faults", "Faults that were injected into requests, by kind", |s| {
        faults.iter().try_for_each(|(route, cells)| {
            let counts = [("delay", sum(cells, |c| &c.delayed)), ("status", sum(cells, |c| &c.refused))];
            counts.into_iter().try_for_each(|(kind, count)| s.add(&[("route", route), ("kind", kind)], count))
        })
    })
}

fn contracts(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let all = p.contracts.snapshot(Instant::now());
    if all.is_empty() {
        return Ok(());
    }
    out.counter("openapi_violations", "Requests that broke a rule of their description, by rule", |s| {
        all.iter().try_for_each(|(name, cells)| {
            let (api, operation) = name.split_once(super::policies::BETWEEN).unwrap_or((name, ""));
            openapi::RULES.iter().enumerate().try_for_each(|(index, rule)| {
                let count: u64 = cells.iter().map(|cells| cells.violations[index].get()).sum();
                let labels = [("api", api), ("operation", operation), ("rule", rule)];
                if count == 0 { Ok(()) } else { s.add(&labels, count) }
            })
        })
    })
}

fn limits(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let limits = p.limits.snapshot(Instant::now());
    let each = |cell: fn(&LimitCells) -> &Counter| {
        let limits = &limits;
        move |s: &mut super::Samples<'_>| {
            limits.iter().try_for_each(|(name, cells)| s.add(&[("limit", name)], sum(cells, cell)))
        }
    };
    out.counter("rate_limit_allowed", "Requests allowed by a rate limit", each(|c| &c.allowed))?;
    out.counter("rate_limit_dropped", "Requests refused by a rate limit", each(|c| &c.dropped))?;
    out.counter(
        "rate_limit_would_refuse",
        "Requests that a rate limit with `enforce: false` would have refused",
        each(|c| &c.would_refuse),
    )?;
    out.counter(
        "rate_limit_refused_locally",
        "Requests refused without a call to the shared store, because their key was known to be over its limit",
        each(|c| &c.refused_locally),
    )?;
    out.counter(
        "rate_limit_store_failures",
        "Calls to the shared store that failed or timed out",
        each(|c| &c.store_failures),
    )?;
    out.histogram("rate_limit_store_duration_seconds", "Response time of the shared store", |s| {
        limits
            .iter()
            .map(|(name, cells)| (name, total(cells, |c| &c.store_duration)))
            // Limits in memory call no store.
            .filter(|(_, total)| total.count() > 0)
            .try_for_each(|(name, total)| s.add_histogram(&[("limit", name)], &OVERHEAD, &total))
    })
}

fn workers(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    let workers = p.workers.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let numbered: Vec<_> = workers.iter().enumerate().map(|(i, cells)| (i.to_string(), cells)).collect();
    let each = |cell: fn(&super::WorkerCells) -> &Counter| {
        let numbered = &numbered;
        move |s: &mut super::Samples<'_>| {
            numbered.iter().try_for_each(|(i, cells)| s.add(&[("worker", i)], cell(cells).get()))
        }
    };
    super::handshakes::handshakes(workers.iter().map(|cells| &**cells), out)?;
    let about = "Client connections whose TLS ClientHello is not complete; a worker closes the oldest above 512";
    out.gauge("tls_hellos_pending", about, |s| {
        numbered.iter().try_for_each(|(i, cells)| {
            let ended = cells.hellos_ended.get();
            s.add(&[("worker", i)], cells.hellos_awaited.get().saturating_sub(ended))
        })
    })?;
    super::headers::headers(workers.iter().map(|cells| &**cells), out)?;
    out.counter("worker_requests", "Requests finished, by worker", each(|c| &c.requests))?;
    out.counter(
        "client_connections_accepted",
        "Client connections, by the worker that serves them",
        each(|c| &c.accepted),
    )?;
    out.counter("client_connections_handed_over", "Connections given to another worker", each(|c| &c.handed_over))?;
    out.counter(
        "worker_deadlines_fired_early",
        "Timeouts that came due early, or while bytes were unread, because the worker was late; those with unread bytes were postponed",
        each(|c| &c.deadlines_fired_early),
    )?;
    out.gauge("client_connections_open", "Client connections that are open", |s| {
        numbered.iter().try_for_each(|(i, cells)| {
            // Read before what it can never exceed.
            let closed = cells.closed.get();
            s.add(&[("worker", i)], cells.accepted.get().saturating_sub(closed))
        })
    })?;
    out.counter("http2_connections", "Client connections over HTTP/2", each(|c| &c.http2.opened))?;
    out.gauge("http2_connections_open", "Client connections over HTTP/2 that are open", |s| {
        numbered.iter().try_for_each(|(i, cells)| {
            let closed = cells.http2.closed.get();
            s.add(&[("worker", i)], cells.http2.opened.get().saturating_sub(closed))
        })
    })?;
    out.counter(
        "http2_connections_failed",
        "HTTP/2 connections that ended because the client broke a rule of the connection",
        each(|c| &c.http2.failed),
    )?;
    out.counter(
        "http2_connections_refused",
        "Connections that were closed at once, because those of their client address before have lost too many points of the abuse budget",
        each(|c| &c.http2.refused),
    )?;
    out.counter("http2_streams", "Requests that came in streams of HTTP/2 connections", each(|c| &c.http2.streams))?;
    out.counter(
        "http2_abuse",
        "Events that cost points of the abuse budget of HTTP/2, by kind; counted when the connection ends",
        |s| {
            for kind in http2::BudgetKind::ALL {
                let n = workers.iter().map(|c| c.http2.abuse[kind as usize].get()).sum::<u64>();
                if n > 0 {
                    s.add(&[("kind", kind.label())], n)?;
                }
            }
            Ok(())
        },
    )?;
    out.counter(
        "http2_upstream_connections",
        "Connections to targets over HTTP/2",
        each(|c| &c.http2.upstream_opened),
    )?;
    out.gauge("http2_upstream_connections_open", "Connections to targets over HTTP/2 that are open", |s| {
        numbered.iter().try_for_each(|(i, cells)| {
            let closed = cells.http2.upstream_closed.get();
            s.add(&[("worker", i)], cells.http2.upstream_opened.get().saturating_sub(closed))
        })
    })?;
    out.counter(
        "http2_upstream_streams",
        "Requests that were sent to targets in streams of HTTP/2 connections",
        each(|c| &c.http2.upstream_streams),
    )?;
    out.counter(
        "http2_upstream_streams_lost",
        "Streams to targets that ended before their response did: reset, refused, or lost with their connection",
        each(|c| &c.http2.upstream_streams_lost),
    )?;
    compression(&workers, out)?;
    out.counter("request_errors", "Requests that ended with an error of the gateway, by fault and reason", |s| {
        for reason in Reason::ALL {
            let n = workers.iter().map(|c| c.not_served.get(*reason)).sum::<u64>();
            if n > 0 {
                s.add(&[("fault", reason.fault().label()), ("reason", reason.label())], n)?;
            }
        }
        Ok(())
    })?;
    out.histogram("gateway_overhead_seconds", "Time that the gateway itself added to a request", |s| {
        s.add_histogram(&[], &OVERHEAD, &total(&workers, |c| &c.overhead))
    })?;
    out.counter("weir_panics", "Panics caught: each is a defect, please report it", |s| {
        s.add(&[], sum(&workers, |c| &c.panics))
    })
}

/// Only what happened: most gateways compress nothing.
fn compression(workers: &[Arc<super::WorkerCells>], out: &mut Exposition<'_>) -> fmt::Result {
    let each = |cells: fn(&super::WorkerCells, usize) -> u64| {
        move |s: &mut super::Samples<'_>| {
            compress::Coding::ALL.iter().try_for_each(|coding| {
                let count: u64 = workers.iter().map(|worker| cells(worker, coding.index())).sum();
                if count == 0 { Ok(()) } else { s.add(&[("coding", coding.name())], count) }
            })
        }
    };
    out.counter(
        "compressed_responses",
        "Responses that were compressed, by content coding",
        each(|c, i| c.compress.responses[i].get()),
    )?;
    out.counter("compressed_bytes_in", "Body bytes before compression", each(|c, i| c.compress.bytes_in[i].get()))?;
    out.counter("compressed_bytes_out", "Body bytes after compression", each(|c, i| c.compress.bytes_out[i].get()))?;
    out.counter(
        "compression_skipped",
        "Responses that were sent as they were, because the memory for compression was used up",
        |s| s.add(&[], sum(workers, |c| &c.compress.skipped)),
    )
}

fn process(p: &Process, out: &mut Exposition<'_>) -> fmt::Result {
    out.info("weir_build", "Version of this program", &[("version", env!("CARGO_PKG_VERSION"))])?;
    out.gauge("weir_uptime_seconds", "Time since the start", |s| s.add(&[], p.started.elapsed().as_secs_f64()))?;
    out.counter("weir_reloads", "Reloads since the start, by result", |s| {
        s.add(&[("result", "applied")], p.reloads_applied.load(Relaxed))?;
        s.add(&[("result", "refused")], p.reloads_refused.load(Relaxed))
    })?;
    out.gauge(
        "weir_last_reload_successful",
        "0 when the last reload was refused: the configuration in force is not the one in the file",
        |s| s.add(&[], !p.last_reload_refused.load(Relaxed)),
    )?;
    let last = p.last_reload.load(Relaxed) as f64 / 1e3;
    out.gauge(
        "weir_last_reload_success_timestamp_seconds",
        "Time at which the current configuration took effect, since the Unix epoch",
        |s| s.add(&[], last),
    )?;
    process::collect(out, p.started_at)
}
