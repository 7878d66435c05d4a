//! The time that a call may take from its head on, its message included, which Tonic reads only inside of the call.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use http::{Request, Response};
use tonic::{body::Body, server::NamedService};
use tower::Service;

use crate::service::{Arrival, out_of_time};

/// A service whose calls end with DEADLINE_EXCEEDED when they take longer.
#[derive(Clone, Debug)]
pub(crate) struct Limited<S> {
    pub(crate) service: S,
    pub(crate) request_timeout: Duration,
}

impl<S: NamedService> NamedService for Limited<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<B>> for Limited<S>
where
    S: Service<Request<B>, Response = Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(Arrival(Instant::now()));
        let work = tokio::time::timeout(self.request_timeout, self.service.call(request));
        Box::pin(async move { work.await.unwrap_or_else(|_| Ok(out_of_time().into_http())) })
    }
}
