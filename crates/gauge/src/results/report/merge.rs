//! Several runs, or several generators of one run, as one.

use std::collections::BTreeMap;

use super::{
    Bytes, Chat, Cpu, Errors, Events, Grpc, Latency, Measurement, Operation, Phase, Rate, Report, Requests, Second,
    Streams, Tls, WebSocket,
};

impl Report {
    /// Adds another generator of the same run: counts and rates add up, histograms merge, operations and phases are matched by
    /// name, seconds by number.
    pub fn merge(&mut self, other: &Report) {
        let threads = (self.generator.threads, other.generator.threads);
        self.generator.threads = both(threads.0, threads.1, |a, b| a + b);
        self.generator.cpu = both(self.generator.cpu, other.generator.cpu, |a, b| Cpu {
            user_s: a.user_s + b.user_s,
            system_s: a.system_s + b.system_s,
        });
        self.started_unix_ms = both(self.started_unix_ms, other.started_unix_ms, u64::min);
        if self.truncated.is_none() {
            self.truncated.clone_from(&other.truncated);
        }
        self.total.merge(&other.total);
        merge_operations(&mut self.operations, &other.operations);
        for phase in &other.phases {
            match self.phases.iter_mut().find(|own| own.name == phase.name) {
                Some(own) => own.merge(phase),
                None => self.phases.push(phase.clone()),
            }
        }
        for second in &other.seconds {
            match self.seconds.binary_search_by_key(&second.at_s, |own| own.at_s) {
                Ok(index) => self.seconds[index].merge(second),
                Err(index) => self.seconds.insert(index, second.clone()),
            }
        }
    }
}

impl Phase {
    fn merge(&mut self, other: &Phase) {
        self.start_s = self.start_s.min(other.start_s);
        self.total.merge(&other.total);
        merge_operations(&mut self.operations, &other.operations);
    }
}

fn merge_operations(own: &mut Vec<Operation>, added: &[Operation]) {
    for operation in added {
        match own.iter_mut().find(|own| own.name == operation.name) {
            Some(own) => own.total.merge(&operation.total),
            None => own.push(operation.clone()),
        }
    }
}

impl Measurement {
    /// Adds what another generator measured at the same time: counts, requested rates and concurrency add up, the duration is the longer one, which is
    /// that of the achieved rate too, histograms merge. What one of them does not have, the sum does not have.
    pub fn merge(&mut self, other: &Measurement) {
        // Where requests end the load, a generator may end before the other: it has no rate any more.
        let during = |one: &Measurement| {
            let duration = one.duration_s.unwrap_or(1.0);
            Some((one.rate.achieved? * duration, duration))
        };
        let achieved = during(self).zip(during(other)).map(|(a, b)| (a.0 + b.0) / a.1.max(b.1).max(f64::MIN_POSITIVE));
        self.duration_s = both(self.duration_s, other.duration_s, f64::max);
        self.concurrency = both(self.concurrency, other.concurrency, |a, b| a + b);
        self.rate = Rate { requested: both(self.rate.requested, other.rate.requested, |a, b| a + b), achieved };
        self.add_counts(other);
    }

    /// Adds everything that is the same for measurements made at once and one after the other.
    pub(crate) fn add_counts(&mut self, other: &Measurement) {
        let (a, b) = (&self.requests, &other.requests);
        self.requests = Requests {
            scheduled: sum(a.scheduled, b.scheduled),
            sent: sum(a.sent, b.sent),
            responses: sum(a.responses, b.responses),
            late_responses: sum(a.late_responses, b.late_responses),
            dropped: sum(a.dropped, b.dropped),
            dropped_free: sum(a.dropped_free, b.dropped_free),
            no_response: sum(a.no_response, b.no_response),
        };
        self.statuses = match (self.statuses.take(), &other.statuses) {
            (Some(mut own), Some(added)) => {
                add_statuses(&mut own, added);
                Some(own)
            }
            _ => None,
        };
        let (a, b) = (&self.errors, &other.errors);
        self.errors = Errors {
            connect: sum(a.connect, b.connect),
            reset: sum(a.reset, b.reset),
            timeout: sum(a.timeout, b.timeout),
            status: sum(a.status, b.status),
            invalid_response: sum(a.invalid_response, b.invalid_response),
            tls: sum(a.tls, b.tls),
            closed: sum(a.closed, b.closed),
            unsent: sum(a.unsent, b.unsent),
            total: sum(a.total, b.total),
        };
        self.bytes = Bytes {
            sent: sum(self.bytes.sent, other.bytes.sent),
            received: sum(self.bytes.received, other.bytes.received),
            sent_bodies: sum(self.bytes.sent_bodies, other.bytes.sent_bodies),
        };
        self.connections_opened = sum(self.connections_opened, other.connections_opened);
        self.marked = sum(self.marked, other.marked);
        self.events = both(self.events, other.events, |a, b| Events {
            received: a.received + b.received,
            arrivals: a.arrivals + b.arrivals,
        });
        self.tls = match (self.tls.take(), &other.tls) {
            (Some(mut own), Some(added)) => {
                own.add(added);
                Some(own)
            }
            (own, added) => own.or_else(|| added.clone()),
        };
        self.websocket = match (self.websocket.take(), &other.websocket) {
            (Some(mut own), Some(added)) => {
                own.add(added);
                Some(own)
            }
            (own, added) => own.or_else(|| added.clone()),
        };
        self.chat = match (self.chat.take(), &other.chat) {
            (Some(mut own), Some(added)) => {
                own.add(added);
                Some(own)
            }
            (own, added) => own.or_else(|| added.clone()),
        };
        self.grpc = match (self.grpc.take(), &other.grpc) {
            (Some(mut own), Some(added)) => {
                own.add(added);
                Some(own)
            }
            (own, added) => own.or_else(|| added.clone()),
        };
        for (own, added) in [
            (&mut self.latency, &other.latency),
            (&mut self.corrected, &other.corrected),
            (&mut self.lag, &other.lag),
            (&mut self.generator_lag, &other.generator_lag),
            (&mut self.connect, &other.connect),
            (&mut self.first_byte, &other.first_byte),
        ] {
            *own = merged(own.take(), added.as_ref());
        }
    }
}

impl Tls {
    fn add(&mut self, other: &Tls) {
        self.verified &= other.verified;
        self.full += other.full;
        self.resumed += other.resumed;
        for (own, added) in [(&mut self.versions, &other.versions), (&mut self.ciphers, &other.ciphers)] {
            for (name, count) in added {
                *own.entry(name.clone()).or_default() += count;
            }
        }
        self.handshake = merged(self.handshake.take(), other.handshake.as_ref());
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }
}

impl WebSocket {
    fn add(&mut self, other: &WebSocket) {
        self.handshakes += other.handshakes;
        self.handshake = merged(self.handshake.take(), other.handshake.as_ref());
        self.pings += other.pings;
        for (code, count) in &other.closes {
            *self.closes.entry(*code).or_default() += count;
        }
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }
}

impl Chat {
    fn add(&mut self, other: &Chat) {
        self.complete += other.complete;
        self.error_events += other.error_events;
        self.cut += other.cut;
        self.good = sum(self.good, other.good);
        self.output_tokens += other.output_tokens;
        self.uncounted += other.uncounted;
        self.ttft = merged(self.ttft.take(), other.ttft.as_ref());
        self.inter_token = merged(self.inter_token.take(), other.inter_token.as_ref());
    }
}

impl Grpc {
    fn add(&mut self, other: &Grpc) {
        self.streams = match (self.streams.take(), &other.streams) {
            (Some(mut own), Some(added)) => {
                own.add(added);
                Some(own)
            }
            (own, added) => own.or_else(|| added.clone()),
        };
        if self.first_error.is_none() {
            self.first_error.clone_from(&other.first_error);
        }
    }
}

impl Streams {
    fn add(&mut self, other: &Streams) {
        self.sent += other.sent;
        self.received += other.received;
        self.short += other.short;
        self.first_message = merged(self.first_message.take(), other.first_message.as_ref());
        self.round_trip = merged(self.round_trip.take(), other.round_trip.as_ref());
    }
}

impl Second {
    pub(crate) fn merge(&mut self, other: &Second) {
        self.sent = sum(self.sent, other.sent);
        self.responses = sum(self.responses, other.responses);
        self.succeeded = sum(self.succeeded, other.succeeded);
        self.errors = sum(self.errors, other.errors);
        self.dropped = sum(self.dropped, other.dropped);
        self.received_bytes = sum(self.received_bytes, other.received_bytes);
        self.latency = merged(self.latency.take(), other.latency.as_ref());
    }
}

/// An absent distribution is an empty one here: an operation that one generator never reached.
fn merged(own: Option<Latency>, added: Option<&Latency>) -> Option<Latency> {
    match (own, added) {
        (Some(own), Some(added)) => own.merge(added),
        (Some(own), None) => Some(own),
        (None, added) => added.cloned(),
    }
}

fn add_statuses(own: &mut BTreeMap<u16, u64>, added: &BTreeMap<u16, u64>) {
    for (status, count) in added {
        *own.entry(*status).or_default() += count;
    }
}

fn sum(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    both(a, b, |a, b| a + b)
}

fn both<T>(a: Option<T>, b: Option<T>, combine: impl FnOnce(T, T) -> T) -> Option<T> {
    Some(combine(a?, b?))
}
