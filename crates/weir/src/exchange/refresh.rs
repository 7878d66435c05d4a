//! A fetch behind the client's back: the stored answer was given, stale as it may be, and is fetched again for those who come later
//! (RFC 5861 section 3).

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::spawn_local;

use super::buffer::Buffer;
use super::downstream::{ClientIo, Downstream};
use super::identity::Client;
use super::stream::Outgoing;
use super::{Exchange, proxy};
use crate::config::{Action, RouteId};
use crate::policy::cache::RouteCache;
use crate::policy::cache::entry::Entry;
use crate::policy::cache::lead::Lead;
use crate::policy::cache::rules::{Asked, Fwd, coalesce};
use crate::route::Found;
use crate::server::snapshot::Snapshot;
use crate::server::worker::Worker;

/// The client of such a fetch: takes everything, says nothing.
struct Nobody;

impl AsyncRead for Nobody {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Nobody {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl ClientIo for Nobody {
    fn abort(&self) {}

    fn socket(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// What a fetch needs of the request that caused it.
struct Refetch {
    snapshot: Rc<Snapshot>,
    route: RouteId,
    found: Found,
    client: Client,
    /// The request's head, as it came.
    head: Vec<u8>,
    lead: Box<Lead>,
}

/// Begins to fetch a stale answer again on this worker, unless somebody does so already.
pub(super) fn begin<C: ClientIo>(
    x: &Exchange<'_, C>,
    snapshot: &Rc<Snapshot>,
    route: RouteId,
    cache: &RouteCache,
    asked: &Asked,
    stale: &Entry,
) {
    if !coalesce::may_refresh(asked) || x.worker.draining.get() {
        return;
    }
    let (Some(worker), Ok(mut lead)) = (x.worker.rc(), Lead::join(&cache.cache, &x.scratch.key, *asked, Fwd::Stale))
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
        lead,
    };
    spawn_local(run(worker, refetch));
}

async fn run(worker: Rc<Worker>, refetch: Refetch) {
    let Refetch { snapshot, route, found, client, head, lead } = refetch;
    let Action::Proxy(action) = &snapshot.config().routes[route.0].action else { return };
    let mut scratch = worker.lend_scratch();
    // It was parsed once; a head that is not parsed again alike is not sent.
    let buffer = Buffer::of(&head);
    if scratch.request.parse(buffer.whole(), 0, head.len(), &snapshot.head_limits).is_ok() {
        let deadline = worker.deadlines.add();
        let mut down = Downstream { stream: Nobody, buffer, out: Outgoing::default(), deadline, client };
        let mut x = Exchange::begin(&worker, &mut down, &mut scratch);
        x.identify_client();
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
