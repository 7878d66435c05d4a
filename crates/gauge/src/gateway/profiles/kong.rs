//! Kong: `global` are plugins of all services, and sections.

use std::fmt::Write as _;

use super::super::text::quoted;
use super::{Additions, Answer, NOT_YET, nothing_more};
use crate::profile::{KeyAuth, Profile, RateLimit};

pub(in crate::gateway) fn additions(profile: &Profile) -> Answer {
    match profile {
        // A route of the protocols `http` and `https` passes upgrades on of itself; `ws` and `wss` are of Kong Gateway Enterprise.
        Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies | Profile::WebSocket(_) => nothing_more(),
        Profile::KeyAuth(auth) => Ok(key_auth(auth)),
        Profile::RateLimit(limit) => Ok(rate_limit(limit)),
        Profile::Jwt(_) => Err("its plugin jwt knows tokens by their issuer, and tells the upstream no subject"),
        Profile::Headers(_)
        | Profile::Cache
        | Profile::Streams
        | Profile::Http2(_)
        | Profile::Tls(_)
        | Profile::Grpc(_) => Err(NOT_YET),
    }
}

fn key_auth(auth: &KeyAuth) -> Additions {
    let mut global = format!(
        "  - name: key-auth\n    config: {{key_names: [{}], key_in_query: false, hide_credentials: true}}\n\nconsumers:\n",
        quoted(&auth.header)
    );
    for (key, consumer) in auth.credentials() {
        let _ = writeln!(global, "  - {{username: {consumer}, keyauth_credentials: [{{key: {key}}}]}}");
    }
    Additions { global, ..Additions::default() }
}

fn rate_limit(limit: &RateLimit) -> Additions {
    let global = format!(
        "  - name: rate-limiting\n    config: {{second: {}, policy: local, limit_by: header, header_name: {}}}\n",
        limit.rate,
        quoted(&limit.header)
    );
    let notes = vec!["Kong counts requests in each second of the clock, and allows no burst above the rate".to_owned()];
    Additions { global, notes, ..Additions::default() }
}
