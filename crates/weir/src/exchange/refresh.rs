//! A fetch in the background: the stored response was served, stale as it may be, and is fetched again for later requests
//! (RFC 5861 section 3).

use std::rc::Rc;
use std::sync::Arc;

use auth::Identity;
use tokio::task::spawn_local;

use super::changed::Changed;
use super::{Exchange, proxy};
use crate::client::downstream::Downstream;
use crate::client::identity::Client;
use crate::config::{Action, RouteId};
use crate::io::buffer::Buffer;
use crate::io::life::Life;
use crate::io::stream::{Outgoing, Stream};
use crate::policy::cache::RouteCache;
use crate::policy::cache::entry::Entry;
use crate::policy::cache::lead::Lead;
use crate::policy::cache::rules::{CacheRequest, Fwd, coalesce};
use crate::route::RouteMatch;
use crate::worker::Worker;
use crate::worker::snapshot::Snapshot;

/// What a fetch needs of the request that caused it.
struct Refetch {
    snapshot: Rc<Snapshot>,
    route: RouteId,
    found: RouteMatch,
    client: Client,
    /// The request's head, as it came.
    head: Vec<u8>,
    /// Who sent it: variables and splits go by it.
    identity: Option<Arc<Identity>>,
    /// What the upstream is told of the sender: the response is for the same consumer.
    identity_lines: Vec<u8>,
    /// What authorizers changed of it.
    changed: Option<Box<Changed>>,
    lead: Box<Lead>,
}

/// Begins to fetch a stale response again on this worker, unless somebody does so already.
pub(super) fn begin(
    x: &Exchange<'_>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    cache: &RouteCache,
    wanted: &CacheRequest,
    stale: &Entry,
) {
    if !coalesce::may_refresh(wanted) || x.worker.draining.get() {
        return;
    }
    let (Some(worker), Ok(mut lead)) = (x.worker.rc(), Lead::join(&cache.cache, &x.scratch.key, *wanted, Fwd::Stale))
    else {
        return;
    };
    lead.stored = Some(stale.clone());
    let request = &x.scratch.request;
    let refetch = Refetch {
        snapshot: snapshot.clone(),
        route,
        found: x.found,
        client: x.down.client.clone(),
        head: x.down.buffer.whole()[request.method_name.range().start..request.end].to_vec(),
        identity: x.identity.clone(),
        identity_lines: x.scratch.identity_lines.clone(),
        changed: x.changed.clone(),
        lead,
    };
    spawn_local(run(worker, refetch));
}

async fn run(worker: Rc<Worker>, refetch: Refetch) {
    let Refetch { snapshot, route, found, client, head, identity, identity_lines, changed, lead } = refetch;
    let Action::Proxy(action) = &snapshot.config().routes[route.0].action else { return };
    let mut scratch = worker.lend_scratch();
    // It was parsed once; a head that is not parsed again alike is not sent.
    let buffer = Buffer::of(&head);
    if scratch.request.parse(buffer.whole(), 0, head.len(), &snapshot.head_limits).is_ok() {
        let deadline = worker.deadlines.add();
        let mut down = Downstream {
            stream: Stream::Subrequest,
            buffer,
            out: Outgoing::default(),
            deadline,
            client,
            origin: Arc::default(),
            life: Life::ENDLESS,
        };
        let mut x = Exchange::begin(&worker, &mut down, &mut scratch);
        x.identify_client();
        x.leave_trace();
        x.identity = identity;
        x.scratch.identity_lines.extend_from_slice(&identity_lines);
        x.changed = changed;
        x.apply_changes();
        if x.normalise_path().is_ok() {
            x.snapshot = snapshot.clone();
            x.route = Some(route);
            x.found = found;
            x.cache.is_background = true;
            x.cache.lead = Some(lead);
            // What failed stays stale; the next request tries again.
            let _ = proxy::run(&mut x, &snapshot, route, action).await;
            if x.cache.must_fetch_whole {
                let _ = proxy::run(&mut x, &snapshot, route, action).await;
            }
        }
    }
    worker.take_scratch(scratch);
}
