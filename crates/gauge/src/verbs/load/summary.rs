//! A report in a few lines.

use std::collections::BTreeMap;
use std::fmt::Write;

use gauge::load::workload::{Load, Workload};
use gauge::results::report::{Chat, Latency, Measurement, Report, Streams, Tls, WebSocket};

/// The report as text; the last line holds "N requests in S".
pub(super) fn text(workload: &Workload, report: &Report) -> String {
    let mut text = String::new();
    let total = &report.total;
    let kind = match &workload.load {
        Load::Closed(_) => "closed loop",
        Load::Open(_) => "open loop",
        Load::Phases(_) => "phases",
    };
    let mut head = vec![report.generator.name.clone()];
    head.extend(report.generator.protocol.clone());
    head.extend(total.connections_opened.map(|count| format!("{count} connections opened")));
    head.extend(report.generator.threads.map(|count| format!("{count} thread{}", if count == 1 { "" } else { "s" })));
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(text, "{}, {kind}", head.join(", "));
    if report.operations.len() > 1 {
        for operation in &report.operations {
            let _ = writeln!(text, "  {}: {}", operation.name, brief(&operation.total));
        }
    }
    if report.phases.iter().filter(|phase| phase.measured).count() > 1 {
        for phase in report.phases.iter().filter(|phase| phase.measured) {
            let _ = writeln!(text, "  phase {}: {}", phase.name, brief(&phase.total));
        }
    }
    if let Some(latency) = &total.latency {
        line(&mut text, "latency", &distribution(latency));
        if let Some(corrected) = total.corrected.as_ref().filter(|corrected| corrected.count > latency.count) {
            line(&mut text, "corrected", &distribution(corrected));
        }
    }
    if workload.new_connections
        && let Some(connect) = &total.connect
    {
        line(&mut text, "connect", &distribution(connect));
    }
    if let Some(tls) = &total.tls {
        self::tls(&mut text, tls);
    }
    if let Some(websocket) = &total.websocket {
        self::websocket(&mut text, websocket);
    }
    if let Some(first) = &total.first_byte {
        line(&mut text, "first byte", &distribution(first));
    }
    if let Some(events) = total.events {
        let (received, arrivals) = (events.received, events.arrivals);
        line(&mut text, "events", &format!("{received} in {arrivals} reads"));
    }
    if let Some(chat) = &total.chat {
        self::chat(&mut text, chat, total);
    }
    if let Some(streams) = total.grpc.as_ref().and_then(|grpc| grpc.streams.as_ref()) {
        self::streams(&mut text, streams);
    }
    if let (Some(lag), Some(generator)) = (&total.lag, &total.generator_lag) {
        let own = if lag.p99_ms == generator.p99_ms {
            String::new()
        } else {
            format!("; the generator's own: {}", distribution(generator))
        };
        line(&mut text, "lag", &format!("{}{own}", distribution(lag)));
    }
    if let Some(statuses) = &total.statuses {
        let statuses: Vec<String> = statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        line(&mut text, "status", &if statuses.is_empty() { "none".to_owned() } else { statuses.join(", ") });
    }
    line(&mut text, "errors", &errors(total));
    if let Some(reason) = total.tls.as_ref().and_then(|tls| tls.first_error.as_ref()) {
        line(&mut text, "tls error", reason);
    }
    if let Some(reason) = total.websocket.as_ref().and_then(|websocket| websocket.first_error.as_ref()) {
        line(&mut text, "first", reason);
    }
    if let Some(reason) = total.grpc.as_ref().and_then(|grpc| grpc.first_error.as_ref()) {
        line(&mut text, "first", reason);
    }
    if let Some(dropped @ 1..) = total.requests.dropped {
        let share = total.drop_rate().unwrap_or(0.0) * 100.0;
        line(
            &mut text,
            "dropped",
            &format!("{dropped} requests ({share:.2} %) were due and found no free connection before the timeout"),
        );
    }
    if let (Some(cpu), Some(ended @ 1..)) = (&report.generator.cpu, total.ended()) {
        let us = (cpu.user_s + cpu.system_s) * 1e6 / ended as f64;
        line(
            &mut text,
            "own cpu",
            &format!("{us:.1} us/request ({:.2} s user, {:.2} s system)", cpu.user_s, cpu.system_s),
        );
    }
    if let Some(reason) = &report.truncated {
        line(&mut text, "truncated", &format!("{reason}: this is the part that ran"));
    }
    text.push_str(&last(total));
    text
}

fn tls(text: &mut String, tls: &Tls) {
    if let Some(handshake) = &tls.handshake {
        line(text, "handshake", &distribution(handshake));
    }
    let names = |counts: &BTreeMap<String, u64>| counts.keys().cloned().collect::<Vec<_>>().join(", ");
    let seen =
        [names(&tls.versions), names(&tls.ciphers), format!("{} full handshakes, {} resumed", tls.full, tls.resumed)];
    let seen: Vec<String> = seen.into_iter().filter(|part| !part.is_empty()).collect();
    let unverified = if tls.verified { "" } else { "; certificates NOT verified (insecure)" };
    line(text, "tls", &format!("{}{unverified}", seen.join(", ")));
}

fn websocket(text: &mut String, websocket: &WebSocket) {
    if let Some(handshake) = &websocket.handshake {
        line(text, "upgrade", &distribution(handshake));
    }
    let mut parts = vec![format!("{} upgrades", websocket.handshakes)];
    if websocket.pings > 0 {
        parts.push(format!("{} pings of the server", websocket.pings));
    }
    parts.extend(websocket.closes.iter().map(|(code, count)| format!("{count} closed with {code}")));
    line(text, "websocket", &parts.join(", "));
}

fn streams(text: &mut String, streams: &Streams) {
    for (name, latency) in [("first msg", &streams.first_message), ("round trip", &streams.round_trip)] {
        if let Some(latency) = latency {
            line(text, name, &distribution(latency));
        }
    }
    let short = if streams.short == 0 { String::new() } else { format!("; {} calls with too few", streams.short) };
    line(text, "messages", &format!("{} sent, {} received{short}", streams.sent, streams.received));
}

fn chat(text: &mut String, chat: &Chat, total: &Measurement) {
    for (name, latency) in [("ttft", &chat.ttft), ("inter-token", &chat.inter_token)] {
        if let Some(latency) = latency {
            line(text, name, &distribution(latency));
        }
    }
    let note = match chat.uncounted {
        0 => String::new(),
        calls => format!("; {calls} calls without the server's count: their events were counted"),
    };
    if let Some(rate) = total.tokens_per_second() {
        line(text, "tokens", &format!("{}, {rate:.1}/s{note}", chat.output_tokens));
    }
    let (complete, errors, cut) = (chat.complete, chat.error_events, chat.cut);
    line(text, "ends", &format!("{complete} complete, {errors} with an error event, {cut} cut"));
    if let (Some(good), Some(rate)) = (chat.good, total.goodput()) {
        line(text, "goodput", &format!("{good} calls within the objective, {rate:.1}/s"));
    }
}

fn line(text: &mut String, name: &str, what: &str) {
    let _ = writeln!(text, "  {name:<10} {what}");
}

fn last(total: &Measurement) -> String {
    let requested = total.rate.requested.map_or(String::new(), |rate| format!(" (requested {rate:.1}/s)"));
    let received = total.bytes.received.map_or(String::new(), |bytes| format!(", {} read", size(bytes)));
    format!(
        "{} requests in {:.2}s, {:.1}/s{requested}{received}\n",
        total.requests.responses.unwrap_or(0),
        total.duration_s.unwrap_or(0.0),
        total.rate.achieved.unwrap_or(0.0),
    )
}

fn brief(measurement: &Measurement) -> String {
    let latency = measurement.latency.as_ref().map_or(String::new(), |latency| format!(", {}", distribution(latency)));
    let errors = match measurement.errors.total {
        Some(0) | None => String::new(),
        Some(errors) => format!(", {errors} errors"),
    };
    format!(
        "{} requests, {:.1}/s{latency}{errors}",
        measurement.requests.responses.unwrap_or(0),
        measurement.rate.achieved.unwrap_or(0.0)
    )
}

/// Percentiles only as far as there are samples for them.
fn distribution(latency: &Latency) -> String {
    let mut parts = Vec::new();
    let mut part = |name: &str, value: Option<f64>, shown: bool| {
        if let Some(value) = value.filter(|_| shown) {
            parts.push(format!("{name} {}", time(value)));
        }
    };
    part("p50", latency.p50_ms, true);
    part("p90", latency.p90_ms, latency.count >= Some(100));
    part("p99", latency.p99_ms, latency.p99_suffices());
    part("p99.9", latency.p999_ms, latency.p999_suffices());
    part("max", latency.max_ms, true);
    part("mean", latency.mean_ms, true);
    parts.join("  ")
}

fn errors(total: &Measurement) -> String {
    let errors = &total.errors;
    let kinds = [
        ("not connected", errors.connect),
        ("reset", errors.reset),
        ("timed out", errors.timeout),
        ("unexpected status", errors.status),
        ("bad reply", errors.invalid_response),
        ("of TLS", errors.tls),
        ("closed", errors.closed),
        ("not sent", errors.unsent),
    ];
    let seen: Vec<String> = kinds
        .iter()
        .filter_map(|(name, count)| Some(format!("{} {name}", count.filter(|count| *count > 0)?)))
        .collect();
    match (seen.is_empty(), errors.total) {
        (false, _) => seen.join(", "),
        (true, Some(0)) => "none".to_owned(),
        (true, Some(total)) => format!("{total} of unknown kind"),
        (true, None) => "not counted".to_owned(),
    }
}

fn time(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.0}us", ms * 1e3),
        ms if ms < 1e3 => format!("{ms:.2}ms"),
        ms => format!("{:.2}s", ms / 1e3),
    }
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        bytes if bytes < 1024.0 => format!("{bytes} B"),
        bytes if bytes < 1024.0 * 1024.0 => format!("{:.1} KiB", bytes / 1024.0),
        bytes if bytes < 1024.0 * 1024.0 * 1024.0 => format!("{:.1} MiB", bytes / 1024.0 / 1024.0),
        bytes => format!("{:.2} GiB", bytes / 1024.0 / 1024.0 / 1024.0),
    }
}
