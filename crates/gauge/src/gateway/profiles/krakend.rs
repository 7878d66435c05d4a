//! KrakenD: what its Community Edition cannot do.

use super::{Adapted, NOT_YET, nothing_more};
use crate::profile::Profile;

pub(in crate::gateway) fn additions(profile: &Profile) -> Adapted {
    match profile {
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies => nothing_more(),
        Profile::KeyAuth(_) => Err("API keys are a part of KrakenD Enterprise, not of the Community Edition"),
        Profile::WebSocket(_) => Err("WebSocket is a part of KrakenD Enterprise, not of the Community Edition"),
        Profile::Streams => Err("streams are a part of KrakenD Enterprise, not of the Community Edition"),
        Profile::Headers(_)
        | Profile::RateLimit(_)
        | Profile::Cache
        | Profile::Jwt(_)
        | Profile::Http2(_)
        | Profile::Tls(_)
        | Profile::Grpc(_) => Err(NOT_YET),
    }
}
