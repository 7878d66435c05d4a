//! Copies of requests for another upstream. A copy is an exchange of its own whose client has no socket: the request that it is made of waits for
//! nothing, and its response is thrown away.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use auth::Identity;
use h1::{BodyKind, Expect};
use tokio::task::spawn_local;

use super::Exchange;
use super::changed::Changed;
use super::fault::happens;
use super::proxy::{self, Leg};
use crate::client::downstream::Downstream;
use crate::client::identity::Client;
use crate::config::{Mirror, RouteId};
use crate::io::buffer::Buffer;
use crate::io::life::Life;
use crate::io::stream::{Outgoing, Stream};
use crate::route::RouteMatch;
use crate::worker::Worker;
use crate::worker::snapshot::{Snapshot, choice};

/// Copies in flight, over all workers; further requests are not copied.
const MOST: usize = 100;
/// Bytes of a copy's response that are read, so that its connection can be used again; a longer one ends there.
pub(super) const MOST_RESPONSE: u64 = 1 << 20;

/// A copy before it is sent. Its place among those in flight is taken from the first byte of its body on, so that bodies are bounded too.
pub(super) struct Copy {
    place: MirrorSlot,
    body: Vec<u8>,
    most: usize,
    is_too_large: bool,
}

impl std::fmt::Debug for Copy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Copy").field("bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// One of the copies in flight.
struct MirrorSlot(Arc<AtomicUsize>);

impl MirrorSlot {
    fn take(count: &Arc<AtomicUsize>) -> Option<MirrorSlot> {
        let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| (n < MOST).then_some(n + 1));
        taken.ok().map(|_| MirrorSlot(count.clone()))
    }
}

impl Drop for MirrorSlot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a copy is made of.
struct Parts {
    snapshot: Rc<Snapshot>,
    route: RouteId,
    found: RouteMatch,
    client: Client,
    head: Vec<u8>,
    head_length: usize,
    body: BodyKind,
    identity: Option<Arc<Identity>>,
    identity_lines: Vec<u8>,
    request_id: Vec<u8>,
    /// What authorizers changed of it.
    changed: Option<Box<Changed>>,
    place: MirrorSlot,
}

impl Copy {
    /// Takes a piece of the body.
    pub(super) fn push(&mut self, piece: &[u8]) {
        self.is_too_large |= self.body.len() + piece.len() > self.most;
        if self.is_too_large { self.body = Vec::new() } else { self.body.extend_from_slice(piece) }
    }

    /// The body begins anew.
    pub(super) fn restart(&mut self) {
        self.body.clear();
        self.is_too_large = false;
    }
}

impl Exchange<'_> {
    /// Copies the request if it is one of the share that is copied. One with a body is sent when its body has passed.
    pub fn begin_mirror(&mut self, snapshot: &Rc<Snapshot>, route: RouteId, mirror: &Mirror) {
        let method = self.scratch.request.method_name.of_buf(self.down.buffer.whole());
        let is_meant = mirror.methods.iter().any(|meant| meant.as_bytes() == method)
            && !self.scratch.request.upgrade
            && happens(mirror.share, self.worker.random());
        if !is_meant {
            return;
        }
        let kind = self.scratch.request.body;
        let is_too_large = matches!(kind, BodyKind::Length(length) if length > mirror.body_bytes as u64);
        let place = if self.worker.draining.get() || is_too_large {
            None
        } else {
            MirrorSlot::take(&self.worker.shared.mirrors)
        };
        match place {
            None => count(snapshot, route, Outcome::Skipped),
            Some(place) if kind == BodyKind::None => self.send_copy(snapshot.clone(), route, place, Vec::new()),
            Some(place) => {
                let copy = Copy { place, body: Vec::new(), most: mirror.body_bytes, is_too_large: false };
                self.body.copy_to(Box::new(copy));
            }
        }
    }

    /// Sends the copy of a request with a body, now that all of it was read; otherwise there is none.
    #[inline]
    pub fn end_mirror(&mut self) {
        if self.body.has_copy() {
            self.end_copy();
        }
    }

    #[cold]
    fn end_copy(&mut self) {
        let (Some(copy), Some(route)) = (self.body.take_copy(), self.route) else { return };
        let snapshot = self.snapshot.clone();
        if copy.is_too_large || !self.body.has_read_all() || copy.body.len() as u64 != self.body.bytes {
            return count(&snapshot, route, Outcome::Skipped);
        }
        let Copy { place, body, .. } = *copy;
        self.send_copy(snapshot, route, place, body);
    }

    fn send_copy(&mut self, snapshot: Rc<Snapshot>, route: RouteId, place: MirrorSlot, body: Vec<u8>) {
        let Some(worker) = self.worker.rc() else { return };
        self.ensure_request_id();
        let request = &self.scratch.request;
        let mut head = self.down.buffer.whole()[request.method_name.range().start..request.end].to_vec();
        let head_length = head.len();
        head.extend_from_slice(&body);
        let parts = Parts {
            snapshot,
            route,
            found: self.found,
            client: self.down.client.clone(),
            head,
            head_length,
            body: if body.is_empty() { BodyKind::None } else { BodyKind::Length(body.len() as u64) },
            identity: self.identity.clone(),
            identity_lines: self.scratch.identity_lines.clone(),
            request_id: self.scratch.request_id.clone(),
            changed: self.changed.clone(),
            place,
        };
        spawn_local(run(worker, parts));
    }
}

async fn run(worker: Rc<Worker>, parts: Parts) {
    let Some(mirror) = parts.snapshot.config().routes[parts.route.0].mirror.clone() else { return };
    let Parts { snapshot, route, found, client, head, head_length, body, place, .. } = parts;
    let mut scratch = worker.lend_scratch();
    let buffer = Buffer::of(&head);
    // It was parsed once; a head that is not parsed again alike is not sent.
    let mut outcome = Outcome::Skipped;
    if scratch.request.parse(buffer.whole(), 0, head_length, &snapshot.head_limits).is_ok() {
        scratch.request.body = body;
        scratch.request.expect = Expect::None;
        let mut down = Downstream {
            stream: Stream::Subrequest,
            buffer,
            out: Outgoing::default(),
            deadline: worker.deadlines.add(),
            client,
            origin: Arc::default(),
            life: Life::ENDLESS,
        };
        let mut x = Exchange::begin(&worker, &mut down, &mut scratch);
        x.identify_client();
        x.leave_trace();
        x.identity = parts.identity;
        x.scratch.identity_lines.extend_from_slice(&parts.identity_lines);
        x.scratch.request_id.clone_from(&parts.request_id);
        x.changed = parts.changed;
        x.apply_changes();
        if x.normalise_path().is_ok() {
            x.snapshot = snapshot.clone();
            x.route = Some(route);
            x.found = found;
            let choices = [choice(snapshot.config(), mirror.action.upstream, mirror.action.timeouts)];
            let auth_edits = &snapshot.routes[route.0].auth_edits;
            // Not the route's own way: nothing that its cache or its pages know of.
            let leg = Leg { route: None, choices: &choices, edits: &mirror.edits, auth_edits };
            let result = proxy::run_leg(&mut x, &snapshot, &leg, &mirror.action).await;
            outcome = if result.is_ok() { Outcome::Sent } else { Outcome::Failed };
        }
    }
    worker.take_scratch(scratch);
    count(&snapshot, route, outcome);
    drop(place);
}

/// What became of a copy.
#[derive(Debug)]
enum Outcome {
    Sent,
    Failed,
    Skipped,
}

fn count(snapshot: &Snapshot, route: RouteId, outcome: Outcome) {
    if let Some(counts) = &snapshot.routes[route.0].mirror {
        match outcome {
            Outcome::Sent => counts.sent(),
            Outcome::Failed => counts.failed(),
            Outcome::Skipped => counts.skipped(),
        }
    }
}
