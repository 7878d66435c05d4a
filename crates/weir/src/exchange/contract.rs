//! Requests on routes of a description, checked against what it says.

use ::openapi::{BodyCheck, BodyLength, Head, Violations};
use h1::BodyKind;

use super::{Exchange, ahead};
use crate::config::{RouteContract, RouteId};
use crate::error::{Error, Reason};
use crate::worker::snapshot::Snapshot;

/// Checks a request, its body included where that is described: the body is then read as a whole, and lies in memory until the
/// exchange ends.
///
/// # Errors
/// 400 or 415 with what is wrong, where the contract is enforced; and why the body cannot be read.
pub async fn check(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    route: RouteId,
    rules: &RouteContract,
) -> Result<(), Error> {
    let (mut violations, body) = check_head(x, rules);
    // What is refused anyway is not read first.
    if let Some(check) = body.filter(|_| violations.is_empty() || !rules.enforces) {
        violations.extend(check_body(x, snapshot, route, rules, &check).await?);
    }
    if violations.is_empty() {
        return Ok(());
    }
    if let Some(metrics) = &snapshot.routes[route.0].contract {
        violations.list().iter().for_each(|violation| metrics.violated(violation.rule));
    }
    violations.write_json(&mut x.violations);
    match (rules.enforces, violations.is_media_type()) {
        (false, _) => Ok(()),
        (true, true) => Err(Reason::UnsupportedMediaType.into()),
        (true, false) => Err(Reason::InvalidRequest.into()),
    }
}

fn check_head(x: &Exchange<'_>, rules: &RouteContract) -> (Violations, Option<BodyCheck>) {
    let buf = x.down.buffer.whole();
    let request = &x.scratch.request;
    rules.contract.check_head(&Head {
        path: &x.scratch.path,
        query: x.query(),
        fields: &|each| {
            for field in request.fields.iter() {
                each(field.name.of_buf(buf), field.value.of_buf(buf));
            }
        },
        body: match request.body {
            BodyKind::None | BodyKind::Length(0) => BodyLength::None,
            BodyKind::Length(_) => BodyLength::Some,
            _ => BodyLength::Unknown,
        },
    })
}

async fn check_body(
    x: &mut Exchange<'_>,
    snapshot: &Snapshot,
    route: RouteId,
    rules: &RouteContract,
    check: &BodyCheck,
) -> Result<Violations, Error> {
    // Every route whose bodies are checked has a limit.
    let limit = x.body_limit().unwrap_or(0);
    let total = snapshot.routes[route.0].total();
    let body = ahead::read(x, limit, total).await?;
    Ok(rules.contract.check_body(check, body.bytes(x)))
}
