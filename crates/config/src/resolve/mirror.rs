//! Copies of requests, and faults that are injected.

use std::sync::Arc;

use super::Resolver;
use crate::raw;
use crate::raw::shape::Spanned;
use crate::{Action, HeaderEdits, InjectedFault, Mirror};

/// Marks copies, so that whoever gets one can tell.
const MARK: &str = "X-Weir-Mirror";

impl Resolver<'_> {
    pub(super) fn mirror(
        &mut self,
        raw: &Spanned<raw::Mirror>,
        action: &Action,
        edits: &HeaderEdits,
        route: &str,
    ) -> Option<Arc<Mirror>> {
        let id = self.upstream_id(&raw.upstream);
        let Action::Proxy(proxy) = action else {
            self.problem(raw.origin, "`mirror` needs an `upstream` or a `split`: there is nothing else to copy");
            return None;
        };
        if proxy.first_choices().chain(proxy.fallback.iter().copied()).any(|own| own == id) {
            let message =
                format!("`{}` serves the route already: it would get these requests twice", raw.upstream.value);
            self.problem(raw.upstream.origin, message);
        }
        if raw.methods.is_empty() {
            self.problem(raw.origin, "`methods` is empty; `mirror: none` switches copies off");
        }
        let mut action = proxy.clone();
        action.upstream = id;
        action.split = None;
        action.fallback.clear();
        action.upgrade.clear();
        action.timeouts.total = Some(Some(raw.timeout.0));
        let mut edits = edits.clone();
        edits.request.set.push((MARK.into(), route.into()));
        Some(Arc::new(Mirror {
            action,
            edits,
            share: raw.share.fraction(),
            methods: raw.methods.iter().map(|method| method.0.as_str().into()).collect(),
            body_bytes: usize::try_from(raw.body.0).unwrap_or(usize::MAX),
        }))
    }

    pub(super) fn fault(&mut self, raw: &Spanned<raw::InjectedFault>) -> InjectedFault {
        if !self.file.server.faults {
            let message = "`fault` breaks requests on purpose; write `server: {faults: true}` if that is meant here";
            self.problem(raw.origin, message);
        }
        if raw.delay.is_none() && raw.status.is_none() {
            self.problem(raw.origin, "`fault` needs `delay`, `status` or both");
        }
        if let Some(status) = raw.status.as_ref().filter(|status| !(400..600).contains(&status.value)) {
            self.problem(status.origin, "an injected fault has a status from 400 to 599");
        }
        InjectedFault {
            delay: raw.delay.map(|delay| delay.0),
            status: raw.status.as_ref().map(|status| status.value),
            share: raw.share.fraction(),
        }
    }
}
