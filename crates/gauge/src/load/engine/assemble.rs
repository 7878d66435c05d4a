//! From what the threads counted to the report.

use std::collections::BTreeMap;

use super::recorder::{Cell, ChatCell, Failure, PhaseCells, Recorder, SentBytes, StreamCell, TlsCells, WebSocketCells};
use crate::load::prepare::{Kind, Prepared};
use crate::load::workload::Protocol;
use crate::observe::process::Stat;
use crate::results::report::{
    Bytes, Chat, Cpu, Errors, Events, Grpc, Histogram, Latency, LatencyFrom, Measurement, Operation, Phase, Rate,
    Report, Requests, SAMPLES, Second, Streams, Tls, WebSocket,
};

/// User and system time of this process in ticks of the kernel.
pub(super) fn cpu_times() -> (u64, u64) {
    Stat::of(std::process::id()).map_or((0, 0), |stat| (stat.user_ticks, stat.system_ticks))
}

/// CPU time since then: the sum is `total_ns`, which is exact; the ticks say how it divides.
pub(super) fn cpu_since(before: (u64, u64), total_ns: u64) -> Cpu {
    let after = cpu_times();
    let (user, system) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    let total_s = total_ns as f64 / 1e9;
    let share = if user + system == 0 { 0.5 } else { user as f64 / (user + system) as f64 };
    Cpu { user_s: total_s * share, system_s: total_s * (1.0 - share) }
}

/// Adds the threads up.
pub(super) fn report(prepared: &Prepared, recorders: Vec<Recorder<'_>>, start: u64) -> Report {
    let mut report = Report::of("gauge");
    report.generator.protocol = Some(match prepared.protocol {
        Protocol::Http1 if prepared.websocket.is_some() => "WebSocket".to_owned(),
        Protocol::Http1 => "HTTP/1.1".to_owned(),
        Protocol::Http2 { .. } if prepared.operations.iter().all(|operation| operation.grpc.is_some()) => {
            "gRPC".to_owned()
        }
        Protocol::Http2 { .. } => "HTTP/2".to_owned(),
    });
    report.generator.latency_from = Some(LatencyFrom::Due);
    let mut threads: Vec<std::vec::IntoIter<PhaseCells>> = Vec::new();
    for recorder in recorders {
        for second in recorder.seconds {
            add_second(&mut report.seconds, second);
        }
        threads.push(recorder.phases.into_iter());
    }
    for phase in &prepared.phases {
        let parts: Vec<PhaseCells> = threads.iter_mut().filter_map(Iterator::next).collect();
        // One that was never reached is not part of the report.
        if parts.iter().any(|part| part.start > 0) {
            report.phases.push(assemble_phase(prepared, phase, parts, start));
        }
    }
    let measured: Vec<&Phase> = report.phases.iter().filter(|phase| phase.measured).collect();
    if let Some((total, operations)) = add_phases(&measured) {
        (report.total, report.operations) = (total, operations);
    }
    report
}

fn add_second(seconds: &mut Vec<Second>, cells: super::recorder::SecondCells) {
    let mut histogram = Histogram::with_digits(2);
    for (value, count) in cells.latency {
        histogram.record_n(value, count);
    }
    let second = Second {
        at_s: cells.at,
        sent: Some(cells.sent),
        responses: Some(cells.responses),
        succeeded: Some(cells.succeeded),
        errors: Some(cells.errors),
        dropped: Some(cells.dropped),
        received_bytes: Some(cells.received_bytes),
        latency: Latency::of(histogram),
    };
    match seconds.binary_search_by_key(&second.at_s, |known| known.at_s) {
        Ok(index) => seconds[index].merge(&second),
        Err(index) => seconds.insert(index, second),
    }
}

fn assemble_phase(
    prepared: &Prepared,
    phase: &crate::load::prepare::Phase,
    mut parts: Vec<PhaseCells>,
    run_start: u64,
) -> Phase {
    let reached = || parts.iter().filter(|part| part.start > 0);
    let start = reached().map(|part| part.start).min().unwrap_or(run_start);
    let end = reached().map(|part| part.end).max().unwrap_or(start);
    let duration_s = end.saturating_sub(start) as f64 / 1e9;
    let (concurrency, requested) = match &phase.kind {
        Kind::Closed(closed) => (closed.users.mean_of(prepared.share), None),
        Kind::Setup => (f64::from(prepared.slots()), None),
        Kind::Open(open) => (f64::from(open.connections), Some(open.rate.mean())),
    };
    let closed = matches!(phase.kind, Kind::Closed(_));
    let connections = parts.iter().map(|part| part.connections).sum();
    let (mut connect, mut tls) = (Histogram::default(), TlsCells::default());
    let mut websocket = WebSocketCells::default();
    let mut grpc_error = None;
    let mut hidden: Vec<Hidden> = Vec::new();
    let threads = parts.len() as f64;
    for part in &mut parts {
        connect.add(&part.connect);
        tls.add(std::mem::take(&mut part.tls));
        websocket.add(std::mem::take(&mut part.websocket));
        grpc_error = grpc_error.or(part.grpc_error.take());
        if closed {
            hidden.push(Hidden::of(part, concurrency / threads, duration_s));
        }
    }
    let mut threads: Vec<std::vec::IntoIter<Cell>> = parts.into_iter().map(|part| part.cells.into_iter()).collect();
    let mut operations = Vec::new();
    let mut total: Option<Measurement> = None;
    for (index, operation) in prepared.operations.iter().enumerate() {
        let cells: Vec<Cell> = threads.iter_mut().filter_map(Iterator::next).collect();
        if !phase.choice.iter().any(|(chosen, _)| *chosen == index) {
            continue;
        }
        let mut measurement = measure(cells, duration_s);
        measurement.marked = measurement.marked.filter(|_| prepared.mark.is_some());
        measurement.events = measurement.events.filter(|_| prepared.event_streams);
        measurement.errors.tls = measurement.errors.tls.filter(|_| prepared.has_tls());
        measurement.errors.closed = measurement.errors.closed.filter(|_| prepared.websocket.is_some());
        measurement.errors.unsent = measurement.errors.unsent.filter(|_| prepared.has_grpc());
        measurement.chat = measurement.chat.filter(|_| prepared.llm.is_some());
        if let Some(chat) = &mut measurement.chat {
            chat.good = chat.good.filter(|_| prepared.llm.is_some_and(|calls| calls.slo.is_some()));
        }
        if closed {
            measurement.corrected = corrected(&measurement, &hidden);
        }
        if requested.is_some() && duration_s > 0.0 {
            measurement.rate.requested = measurement.requests.scheduled.map(|count| count as f64 / duration_s);
        }
        match &mut total {
            Some(total) => total.add_counts(&measurement),
            None => total = Some(measurement.clone()),
        }
        // Operations of one name are one in the report: many targets of a file.
        match operations.iter_mut().find(|known: &&mut Operation| known.name == operation.id) {
            Some(known) => {
                let requested = sum(known.total.rate.requested, measurement.rate.requested);
                known.total.add_counts(&measurement);
                known.total.rate = Rate { requested, achieved: achieved(&known.total.requests, duration_s) };
            }
            None => operations.push(Operation { name: operation.id.clone(), total: measurement }),
        }
    }
    let mut total = total.unwrap_or_default();
    total.duration_s = Some(duration_s);
    total.concurrency = Some(concurrency);
    total.rate = Rate { requested, achieved: achieved(&total.requests, duration_s) };
    total.connections_opened = Some(connections);
    total.connect = Latency::of(connect);
    total.tls = prepared.has_tls().then(|| tls_of(prepared, tls));
    total.websocket = prepared.websocket.is_some().then(|| websocket_of(websocket));
    if grpc_error.is_some() {
        total.grpc.get_or_insert_default().first_error = grpc_error;
    }
    Phase {
        name: phase.name.clone(),
        start_s: start.saturating_sub(run_start) as f64 / 1e9,
        measured: phase.measured,
        total,
        operations,
    }
}

fn websocket_of(cells: WebSocketCells) -> WebSocket {
    WebSocket {
        handshakes: cells.handshakes,
        handshake: Latency::of(cells.handshake),
        pings: cells.pings,
        closes: cells.closes,
        first_error: cells.first_error,
    }
}

fn tls_of(prepared: &Prepared, cells: TlsCells) -> Tls {
    let mut tls = Tls {
        verified: !prepared
            .authorities
            .iter()
            .filter_map(|authority| authority.secure.as_ref())
            .any(|one| one.insecure),
        full: cells.full,
        resumed: cells.resumed,
        versions: BTreeMap::new(),
        ciphers: BTreeMap::new(),
        handshake: Latency::of(cells.handshake),
        first_error: cells.first_error,
    };
    for ((version, cipher), count) in cells.sessions {
        *tls.versions.entry(version.to_owned()).or_default() += count;
        *tls.ciphers.entry(cipher.to_owned()).or_default() += count;
    }
    tls
}

fn sum(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    Some(a? + b?)
}

fn achieved(requests: &Requests, duration_s: f64) -> Option<f64> {
    let in_time = requests.responses? - requests.late_responses.unwrap_or(0);
    (duration_s > 0.0).then(|| in_time as f64 / duration_s)
}

fn measure(cells: Vec<Cell>, duration_s: f64) -> Measurement {
    let mut requests = [0; 7];
    let mut failures = [0; super::recorder::FAILURES];
    let mut statuses = BTreeMap::new();
    let (mut sent_bytes, mut received_bytes, mut marked) = (SentBytes::default(), 0, 0);
    let (mut first_byte, mut events) = (Histogram::default(), Events::default());
    let (mut latency, mut lag, mut generator_lag) = (Histogram::default(), Histogram::default(), Histogram::default());
    let mut samples = Some(Vec::new());
    let mut chat = ChatCell::default();
    let mut streams: Option<StreamCell> = None;
    for cell in cells {
        let counts = [
            cell.scheduled,
            cell.requests,
            cell.responses,
            cell.late,
            cell.dropped,
            cell.dropped_free,
            cell.no_response,
        ];
        requests.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        failures.iter_mut().zip(cell.failures).for_each(|(sum, count)| *sum += count);
        for (status, count) in cell.statuses {
            *statuses.entry(status).or_default() += count;
        }
        sent_bytes.all += cell.sent.all;
        sent_bytes.bodies += cell.sent.bodies;
        events.received += cell.events;
        events.arrivals += cell.arrivals;
        first_byte.add(&cell.first_byte);
        cell.chat.iter().for_each(|cell| chat.add(cell));
        cell.streams.iter().for_each(|cell| streams.get_or_insert_default().add(cell));
        received_bytes += cell.received_bytes;
        marked += cell.marked;
        latency.add(&cell.latency);
        lag.add(&cell.lag);
        generator_lag.add(&cell.generator_lag);
        samples = samples.filter(|_| cell.responses <= SAMPLES as u64).map(|mut all: Vec<u64>| {
            all.extend(cell.samples);
            all
        });
    }
    let [scheduled, sent, responses, late_responses, dropped, dropped_free, no_response] = requests.map(Some);
    let requests = Requests { scheduled, sent, responses, late_responses, dropped, dropped_free, no_response };
    let failure = |failure: Failure| Some(failures[failure as usize]);
    Measurement {
        duration_s: Some(duration_s),
        concurrency: None,
        requests,
        rate: Rate { requested: None, achieved: achieved(&requests, duration_s) },
        statuses: Some(statuses),
        errors: Errors {
            connect: failure(Failure::Connect),
            reset: failure(Failure::Reset),
            timeout: failure(Failure::Timeout),
            status: failure(Failure::Status),
            invalid_response: failure(Failure::InvalidResponse),
            tls: failure(Failure::Tls),
            closed: failure(Failure::Closed),
            unsent: failure(Failure::Unsent),
            total: Some(failures.iter().sum()),
        },
        bytes: Bytes {
            sent: Some(sent_bytes.all),
            received: Some(received_bytes),
            sent_bodies: Some(sent_bytes.bodies),
        },
        connections_opened: None,
        latency: samples
            .filter(|samples| samples.len() <= SAMPLES)
            .map_or_else(|| Latency::of(latency), Latency::of_samples),
        corrected: None,
        lag: Latency::of(lag),
        generator_lag: Latency::of(generator_lag),
        connect: None,
        marked: Some(marked),
        tls: None,
        websocket: None,
        first_byte: Latency::of(first_byte),
        events: Some(events),
        grpc: streams.map(|streams| Grpc {
            streams: Some(Streams {
                sent: streams.sent,
                received: streams.received,
                short: streams.short,
                first_message: Latency::of(streams.first_message),
                round_trip: Latency::of(streams.round_trip),
            }),
            first_error: None,
        }),
        chat: Some(Chat {
            complete: chat.complete,
            error_events: chat.error_events,
            cut: chat.cut,
            good: Some(chat.good),
            output_tokens: chat.output_tokens,
            uncounted: chat.uncounted,
            ttft: Latency::of(chat.ttft),
            inter_token: Latency::of(chat.inter_token),
        }),
    }
}

/// What the silences of one thread hid in a closed loop; see [`Measurement::corrected`].
struct Hidden {
    responses: u64,
    /// (length of the gap in nanoseconds, requests that were not sent in it).
    gaps: Vec<(u64, u64)>,
}

impl Hidden {
    fn of(part: &PhaseCells, users: f64, duration_s: f64) -> Self {
        let responses: u64 = part.cells.iter().map(|cell| cell.responses).sum();
        let rate_per_ns = if duration_s > 0.0 { responses as f64 / (duration_s * 1e9) } else { 0.0 };
        let hidden = |gap: &u64| {
            let missing = (*gap as f64 * rate_per_ns - users.max(1.0)).floor();
            (missing >= 1.0).then_some((*gap, missing as u64))
        };
        Hidden { responses, gaps: part.gaps.iter().filter_map(hidden).collect() }
    }
}

/// The measured latencies and those of the hidden requests, evenly spread over each gap. An operation gets its share of them.
fn corrected(measurement: &Measurement, hidden: &[Hidden]) -> Option<Latency> {
    let latency = measurement.latency.as_ref()?;
    let responses: u64 = hidden.iter().map(|hidden| hidden.responses).sum();
    let share = latency.count? as f64 / responses.max(1) as f64;
    let mut histogram = latency.histogram.clone()?;
    let mut owed = 0.0;
    for (gap, missing) in hidden.iter().flat_map(|hidden| &hidden.gaps) {
        for number in 1..=*missing {
            owed += share;
            if owed >= 1.0 {
                owed -= 1.0;
                histogram.record((*gap as f64 * number as f64 / (*missing + 1) as f64) as u64);
            }
        }
    }
    Latency::of(histogram)
}

/// Phases one after the other as one.
pub(crate) fn add_phases(phases: &[&Phase]) -> Option<(Measurement, Vec<Operation>)> {
    let (first, rest) = phases.split_first()?;
    let mut total = first.total.clone();
    let mut operations = first.operations.clone();
    for phase in rest {
        total.add_counts(&phase.total);
        for (own, other) in operations.iter_mut().zip(&phase.operations) {
            own.total.add_counts(&other.total);
        }
    }
    let seconds = |phase: &Phase| phase.total.duration_s.unwrap_or(0.0);
    let duration_s: f64 = phases.iter().map(|phase| seconds(phase)).sum();
    let mean = |of: fn(&Measurement) -> Option<f64>| {
        let sum: Option<f64> = phases.iter().map(|phase| Some(of(&phase.total)? * seconds(phase))).sum();
        sum.filter(|_| duration_s > 0.0).map(|sum| sum / duration_s)
    };
    total.concurrency = mean(|total| total.concurrency);
    total.rate =
        Rate { requested: mean(|total| total.rate.requested), achieved: achieved(&total.requests, duration_s) };
    total.duration_s = Some(duration_s);
    for operation in &mut operations {
        let total = &mut operation.total;
        total.duration_s = Some(duration_s);
        total.rate.achieved = achieved(&total.requests, duration_s);
        total.rate.requested = match total.rate.requested {
            Some(_) if duration_s > 0.0 => total.requests.scheduled.map(|count| count as f64 / duration_s),
            _ => None,
        };
    }
    Some((total, operations))
}
