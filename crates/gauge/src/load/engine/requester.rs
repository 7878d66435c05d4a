//! Which request is next, and its values.

use std::sync::{Arc, Mutex, PoisonError};

use crate::load::prepare::{Capture, CaptureFrom, Operation, Phase, Prepared, Value};
use crate::load::template::plain;
use crate::load::workload::{Order, Scope};

/// Values that any response may set for everybody.
#[derive(Debug)]
pub(crate) struct Shared(Vec<Mutex<Option<Arc<[u8]>>>>);

impl Shared {
    pub(crate) fn new(prepared: &Prepared) -> Self {
        Shared((0..prepared.captures).map(|_| Mutex::new(None)).collect())
    }

    fn get(&self, index: usize) -> Option<Arc<[u8]>> {
        self.0[index].lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, index: usize, value: Arc<[u8]>) {
        *self.0[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
    }
}

/// A user of a closed loop, or a connection of an open one.
#[derive(Debug)]
pub(crate) struct User {
    captured: Box<[Option<Arc<[u8]>>]>,
    /// Requests begun in this phase.
    pub(crate) step: u64,
}

impl User {
    pub(crate) fn new(prepared: &Prepared) -> Self {
        User { captured: vec![None; prepared.captures].into(), step: 0 }
    }
}

/// Makes the requests of one thread.
#[derive(Debug)]
pub(crate) struct Requester<'p> {
    prepared: &'p Prepared,
    shared: &'p Shared,
    pub(crate) random: fastrand::Rng,
    /// How often each cursor was used by this thread; threads interleave.
    cursors: Vec<u64>,
    thread: u64,
    threads: u64,
    values: Vec<Vec<u8>>,
    /// The line of each table in this request.
    lines: Vec<Option<usize>>,
    scratch: Vec<u8>,
}

impl<'p> Requester<'p> {
    pub(crate) fn new(prepared: &'p Prepared, shared: &'p Shared, thread: u32, threads: u32) -> Self {
        let most = prepared.operations.iter().map(|operation| operation.values.len()).max().unwrap_or(0);
        let seed = prepared.seed ^ (u64::from(thread) + 1).wrapping_mul(0x2545_F491_4F6C_DD1D);
        Requester {
            prepared,
            shared,
            random: fastrand::Rng::with_seed(seed),
            cursors: vec![0; prepared.cursors],
            thread: u64::from(thread),
            threads: u64::from(threads),
            values: vec![Vec::new(); most],
            lines: vec![None; prepared.tables.len()],
            scratch: Vec::new(),
        }
    }

    /// Index of the next operation; `number` is the request's number, of its user or of the phase.
    #[inline]
    pub(crate) fn choose(&mut self, phase: &Phase, number: u64) -> usize {
        if let [only] = phase.choice[..] {
            return only.0;
        }
        match phase.order {
            Order::Sequence => phase.choice[(number % phase.choice.len() as u64) as usize].0,
            Order::Weighted => {
                let sum = phase.choice.last().map_or(0.0, |last| last.1);
                let point = self.random.f64() * sum;
                let index = phase.choice.partition_point(|(_, upto)| *upto <= point);
                phase.choice[index.min(phase.choice.len() - 1)].0
            }
        }
    }

    /// Draws the values of a request.
    pub(crate) fn draw(&mut self, operation: &Operation, user: &User) {
        self.lines.fill(None);
        for (index, value) in operation.values.iter().enumerate() {
            let mut out = std::mem::take(&mut self.values[index]);
            out.clear();
            self.draw_one(value, user, &mut out);
            self.values[index] = out;
        }
    }

    fn draw_one(&mut self, value: &Value, user: &User, out: &mut Vec<u8>) {
        match value {
            Value::Fixed(bytes) => out.extend_from_slice(bytes),
            Value::Int { from, to, cursor } => {
                let number = match cursor {
                    None => self.random.i64(*from..=*to),
                    Some(cursor) => {
                        let size = i128::from(*to) - i128::from(*from) + 1;
                        (i128::from(*from) + i128::from(self.next(*cursor)) % size) as i64
                    }
                };
                push_number(out, number);
            }
            Value::List { values, cursor } => {
                let index = self.index(values.len(), *cursor);
                out.extend_from_slice(&values[index]);
            }
            Value::Csv { table, column } => {
                let prepared = self.prepared;
                let lines = &prepared.tables[*table].lines;
                let line = match self.lines[*table] {
                    Some(line) => line,
                    None => self.index(lines.len(), prepared.tables[*table].cursor),
                };
                self.lines[*table] = Some(line);
                out.extend_from_slice(&lines[line][*column]);
            }
            Value::Counter { first, cursor } => {
                let number = first.wrapping_add_unsigned(self.next(*cursor));
                push_number(out, number);
            }
            Value::Captured { index, or, .. } => {
                let own = user.captured[*index].clone();
                if let Some(bytes) = own.or_else(|| self.shared.get(*index)).or_else(|| or.clone()) {
                    out.extend_from_slice(&bytes);
                }
            }
        }
    }

    fn index(&mut self, length: usize, cursor: Option<usize>) -> usize {
        match cursor {
            None => self.random.usize(..length),
            Some(cursor) => (self.next(cursor) % length as u64) as usize,
        }
    }

    /// Of all the numbers from 0 on, thread i of T takes every T-th.
    fn next(&mut self, cursor: usize) -> u64 {
        let round = self.cursors[cursor];
        self.cursors[cursor] += 1;
        self.thread + round * self.threads
    }

    /// Appends the HTTP/1.1 request with fresh values: head, and body unless that is a file. How many bytes the body has.
    pub(crate) fn write_http1(&mut self, operation: &Operation, user: &User, out: &mut Vec<u8>) -> u64 {
        self.draw(operation, user);
        let host = &self.prepared.authorities[operation.authority].name;
        operation.write_http1(out, host, &self.values, &mut self.scratch)
    }

    /// The values of the last [`Requester::draw`].
    pub(crate) fn values(&self) -> &[Vec<u8>] {
        &self.values
    }

    /// Keeps what the operation wants of a response. What is not in the response leaves the last value.
    pub(crate) fn capture<'a>(
        &self,
        operation: &Operation,
        user: &mut User,
        header: impl Fn(&str) -> Option<&'a [u8]>,
        body: &[u8],
    ) {
        // One parse for all pointers.
        let json: Option<serde_json::Value> = match &operation.grpc {
            _ if !operation.wants_json => None,
            Some(method) => method.json(body),
            None => serde_json::from_slice(body).ok(),
        };
        for capture in &operation.captures {
            let found = match &capture.from {
                CaptureFrom::Json(pointer) => json.as_ref().and_then(|json| json.pointer(pointer)).map(plain),
                CaptureFrom::Header(name) => header(name).map(|value| String::from_utf8_lossy(value).into_owned()),
            };
            let Some(value) = found.and_then(|text| add(capture, text)) else { continue };
            let value: Arc<[u8]> = value.into_bytes().into();
            match capture.scope {
                Scope::User => user.captured[capture.index] = Some(value),
                Scope::Run => self.shared.set(capture.index, value),
            }
        }
    }
}

/// Adds what the capture adds; text that is not a number then captures nothing.
fn add(capture: &Capture, text: String) -> Option<String> {
    match capture.plus {
        None => Some(text),
        Some(plus) => {
            let sum = text.trim().parse::<f64>().ok()? + plus;
            sum.is_finite().then(|| sum.to_string())
        }
    }
}

fn push_number(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    h1::encode::decimal(out, number.unsigned_abs());
}
