//! A list of targets, of the configuration or of a file beside it.

use std::collections::HashSet;
use std::sync::Arc;

use llm::balance::MAX_REPLICAS;

use crate::problem::Problem;
use crate::raw;
use crate::raw::shape::Spanned;
use crate::{MAX_TARGETS, Target, TargetAddress, TlsPolicy};

/// What an upstream says of all of its targets.
pub(crate) struct Rules<'u> {
    /// How targets over TLS are connected to; none: there is nobody to trust.
    pub(crate) tls: Option<&'u TlsPolicy>,
    /// `balance: inference`.
    pub(crate) is_inference: bool,
    /// A controller made the list.
    pub(crate) is_managed: bool,
}

/// Turns the raw form into the resolved one.
///
/// # Errors
/// Everything that is wrong with the list.
pub(crate) fn resolve_targets(list: &[Spanned<raw::Target>], rules: &Rules<'_>) -> Result<Vec<Target>, Vec<Problem>> {
    let mut problems = Vec::new();
    let mut problem =
        |target: &Spanned<raw::Target>, message: String| problems.push(Problem::new(target.origin, message));
    if let Some(beyond) = list.get(MAX_TARGETS) {
        problem(beyond, format!("an upstream has at most {MAX_TARGETS} targets, and here are {}", list.len()));
        return Err(problems);
    }
    let mut seen = HashSet::with_capacity(list.len());
    for target in list {
        let url = &target.url;
        if matches!(url.address, TargetAddress::Endpoints(_)) && !rules.is_managed {
            problem(target, "`endpoints:` targets are those of a controller; write a URL".to_owned());
        }
        if !seen.insert(url.text()) {
            problem(target, format!("`{url}` is named twice; give it a `weight` instead"));
        }
        if matches!(url.address, TargetAddress::Service(_)) && target.weight.get() != 1 {
            problem(target, format!("`{url}` takes no `weight`: each SRV record has its own"));
        }
        if url.tls && rules.tls.is_none() {
            let message = format!(
                "`{url}` cannot be verified: this system trusts no authority; name them in `tls.roots` of the upstream"
            );
            problem(target, message);
        }
        if rules.is_inference && target.weight.get() != 1 {
            problem(target, "`weight` has no effect with `balance: inference`, which measures load".to_owned());
        }
    }
    if let Some(beyond) = list.get(MAX_REPLICAS).filter(|_| rules.is_inference) {
        problem(beyond, format!("`balance: inference` distinguishes at most {MAX_REPLICAS} targets"));
    }
    if problems.is_empty() {
        Ok(list.iter().map(|target| resolve_target(target, rules.tls)).collect())
    } else {
        Err(problems)
    }
}

fn resolve_target(target: &raw::Target, tls: Option<&TlsPolicy>) -> Target {
    let url = &target.url;
    let own_name = || -> Arc<str> {
        match &url.address {
            TargetAddress::Ip(address) => address.ip().to_string().into(),
            TargetAddress::Name { host, .. } => host.clone(),
            // Never the host of a record: whoever forges a response could choose it (RFC 9525 section 6.1).
            TargetAddress::Service(_) => url.authority.as_deref().unwrap_or("localhost").into(),
            TargetAddress::Registry(registry) => registry.host().into(),
            TargetAddress::Unix(_) | TargetAddress::Demo(_) | TargetAddress::Endpoints(_) => "localhost".into(),
        }
    };
    let tls = tls.filter(|_| url.tls);
    Target {
        address: url.address.clone(),
        tls_name: tls.map(|tls| tls.server_name.clone().unwrap_or_else(own_name)),
        authority: url.authority.as_deref().map(Into::into),
        base_path: url.base_path.as_str().into(),
        weight: target.weight,
    }
}
