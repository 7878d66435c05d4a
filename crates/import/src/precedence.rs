//! Which of two routes Weir tries first, and where that is not what the source does.

use std::cmp::Ordering;

use crate::document::{Document, Route};
use crate::pattern::Segment;

/// Pairs of routes that are compared at most; a source with more is told of as a whole.
const MAX_PAIRS: usize = 2_000_000;

/// `Less`: Weir tries `a` before `b`. It is called only for routes that overlap.
fn weir(a: &Route, b: &Route) -> Ordering {
    let host = |route: &Route| match route.host.as_deref() {
        None => (2, 0),
        Some(host) if host.starts_with("*.") => (1, usize::MAX - host.len()),
        Some(_) => (0, 0),
    };
    let class = |route: &Route| match (route.path.wildcard, route.path.has_param()) {
        _ if route.path.expression.is_some() => 2,
        (false, false) => 0,
        (false, true) => 1,
        (true, _) => 3,
    };
    let segments = || {
        let differ = a.path.segments.iter().zip(&b.path.segments).find_map(|pair| match pair {
            (Segment::Literal(_), Segment::Param(_)) => Some(Ordering::Less),
            (Segment::Param(_), Segment::Literal(_)) => Some(Ordering::Greater),
            _ => None,
        });
        differ.unwrap_or(Ordering::Equal)
    };
    host(a)
        .cmp(&host(b))
        .then_with(|| class(a).cmp(&class(b)))
        .then_with(|| b.path.segments.len().cmp(&a.path.segments.len()))
        .then_with(segments)
        .then_with(|| (b.headers.len() + b.query.len()).cmp(&(a.headers.len() + a.query.len())))
}

fn overlaps(a: &Route, b: &Route) -> bool {
    hosts_overlap(a.host.as_deref(), b.host.as_deref())
        && (a.methods.is_empty() || b.methods.is_empty() || a.methods.iter().any(|method| b.methods.contains(method)))
        && a.path.overlaps(&b.path)
}

fn hosts_overlap(a: Option<&str>, b: Option<&str>) -> bool {
    let (Some(a), Some(b)) = (a, b) else { return true };
    match (a.strip_prefix('*'), b.strip_prefix('*')) {
        (None, None) => a == b,
        (Some(suffix), None) => b.ends_with(suffix),
        (None, Some(suffix)) => a.ends_with(suffix),
        (Some(a), Some(b)) => a.ends_with(b) || b.ends_with(a),
    }
}

/// Whether every request of `b` is one of `a`.
fn covers(a: &Route, b: &Route) -> bool {
    let host = match (a.host.as_deref(), b.host.as_deref()) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(a), Some(b)) => a == b || a.strip_prefix('*').is_some_and(|suffix| b.ends_with(suffix)),
    };
    let methods = a.methods.is_empty() || (!b.methods.is_empty() && b.methods.iter().all(|m| a.methods.contains(m)));
    let headers = a.headers.iter().all(|field| b.headers.contains(field));
    host && methods && headers && a.query.iter().all(|one| b.query.contains(one)) && a.path.covers(&b.path)
}

/// Puts the routes into the order of the source's precedence (`first` says whether it tries its first argument before the second), drops what
/// no request can reach, and reports the pairs that Weir tries in another order.
pub(crate) fn check(document: &mut Document, first: impl Fn(&Route, &Route) -> bool) {
    let count = document.routes.len();
    if count.saturating_mul(count) > MAX_PAIRS {
        if let Some(route) = document.routes.first() {
            let how = "so many routes are not compared in pairs; `weir routes FILE 'GET host/path'` says which route takes a request";
            document.report.differs(&route.place, format!("precedence of {count} routes"), how);
        }
        return;
    }
    order_expressions(&mut document.routes, &first);
    let routes = &document.routes;
    let mut unreachable = vec![None; count];
    for (j, route) in routes.iter().enumerate() {
        let better = (0..count).find(|&i| i != j && first(&routes[i], route) && covers(&routes[i], route));
        // Two that cover each other keep one.
        unreachable[j] = better.filter(|&i| unreachable[i].is_none());
    }
    let mut findings = Vec::new();
    for i in 0..count {
        for j in 0..count {
            let (a, b) = (&routes[i], &routes[j]);
            let reached = unreachable[i].is_none() && unreachable[j].is_none();
            if i != j && reached && first(a, b) && overlaps(a, b) && weir(b, a) == Ordering::Less {
                let how = format!(
                    "the source tries it before {} ({}), Weir after: a request that both match goes to the latter",
                    b.note, b.place
                );
                findings.push((a.place.clone(), a.note.clone(), how));
            }
        }
    }
    for (j, better) in unreachable.iter().enumerate() {
        if let Some(better) = better {
            let how = format!("no request reaches it: {} ({}) takes all", routes[*better].note, routes[*better].place);
            findings.push((routes[j].place.clone(), routes[j].note.clone(), how));
        }
    }
    for (place, note, how) in findings {
        document.report.differs(&place, note, how);
    }
    let mut kept = unreachable.iter().map(Option::is_none);
    document.routes.retain(|_| kept.next().unwrap_or(true));
}

/// Weir tries expressions in the order of the file: it becomes that of the source.
fn order_expressions(routes: &mut [Route], first: &impl Fn(&Route, &Route) -> bool) {
    let places: Vec<usize> = (0..routes.len()).filter(|&at| routes[at].path.expression.is_some()).collect();
    let mut ordered: Vec<Route> = Vec::with_capacity(places.len());
    for &at in &places {
        // Behind all that come first: the source's order may leave pairs open.
        let position = ordered.iter().rposition(|other| !first(&routes[at], other)).map_or(0, |last| last + 1);
        ordered.insert(position, routes[at].clone());
    }
    for (at, route) in places.into_iter().zip(ordered) {
        routes[at] = route;
    }
}
