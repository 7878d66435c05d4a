//! Who takes the response to a request that the gateway makes for several clients.

use std::fmt::Debug;
use std::task::{Context, Poll};

/// The clients that one request is for.
pub trait Audience: Debug + Send + Sync {
    /// Ready when none of them waits any more.
    fn poll_disconnect(&self, cx: &mut Context<'_>) -> Poll<()>;
}
