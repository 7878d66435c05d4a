use proptest::prelude::*;

use super::*;
use crate::config::{Action, Builtin, Cors, Matcher};

mod precedence;

/// Conditions from texts: `~REGEX`, `+` for any value, `-` for none, or the value.
fn conditions(all: &[(&str, &str)], name_of: fn(&str) -> Option<&str>) -> Vec<(Arc<str>, Condition)> {
    let condition = |text: &str| match (text, text.strip_prefix('~')) {
        (_, Some(pattern)) => Condition::Matches(Pattern::new(pattern).unwrap()),
        ("+", _) => Condition::Present,
        ("-", _) => Condition::Absent,
        _ => Condition::Exact(text.into()),
    };
    all.iter().filter_map(|&(name, text)| Some((name_of(name)?.into(), condition(text)))).collect()
}

/// A route from texts as a file holds them: host or nothing, path, methods, header matches, and query matches, whose names begin with `?`.
fn route(host: &str, path: &str, methods: &[&str], headers: &[(&str, &str)]) -> Route {
    let host = match host {
        "" => HostPattern::Any,
        host => host.parse::<crate::config::raw::Host>().unwrap().0,
    };
    Route {
        auth: crate::config::RouteAuth::default(),
        allow: crate::config::RouteAllow::default(),
        name: "".into(),
        matcher: Matcher {
            listener: None,
            host,
            path: path.parse::<crate::config::raw::Path>().unwrap().0,
            methods: methods.iter().map(|&method| method.into()).collect(),
            headers: conditions(headers, |name| (!name.starts_with('?')).then_some(name)),
            query: conditions(headers, |name| name.strip_prefix('?')),
        },
        action: Action::Builtin(Builtin::Healthz),
        budgets: vec![],
        limits: Vec::new(),
        cache: None,
        compress: None,
        errors: None,
        mirror: None,
        fault: None,
        body_bytes: None,
        headers: Default::default(),
        cors: None,
        api: None,
        contract: None,
    }
}

fn with_cors(mut route: Route) -> Route {
    route.cors = Some(Cors {
        origins: vec!["*".into()],
        methods: Vec::new(),
        headers: Vec::new(),
        max_age: Default::default(),
        credentials: false,
    });
    route
}

/// What a lookup says, without borrowing the table.
#[derive(Debug, PartialEq)]
enum Matched {
    Route(RouteMatch),
    Allow(Vec<String>),
    Nothing,
}

fn get(table: &Table, host: &str, path: &str, method: &str, fields: &[(&str, &str)]) -> Matched {
    let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query.as_bytes())));
    let target = Target { path: path.as_bytes(), query };
    let has = |name: &str, condition: &Condition| {
        condition.holds(fields.iter().filter(|field| field.0 == name).map(|field| field.1))
    };
    match table.lookup(host.as_bytes(), target, method.as_bytes(), has) {
        Lookup::RouteMatch(found) => Matched::Route(found),
        Lookup::MethodNotAllowed(allow) => {
            let mut names: Vec<String> = allow.methods().map(str::to_owned).collect();
            names.sort();
            Matched::Allow(names)
        }
        Lookup::NotFound => Matched::Nothing,
    }
}

/// Whether a pattern matches, and where its wildcard begins, segment by segment.
fn model_path(pattern: &PathPattern, path: &str) -> Option<usize> {
    if let PathPattern::Matches(pattern) = pattern {
        return pattern.matches(path.as_bytes()).then_some(path.len());
    }
    let text = pattern.to_string();
    let (fixed, wildcard) = match text.strip_suffix('*') {
        Some(fixed) => (fixed, true),
        None => (text.as_str(), false),
    };
    let mut at = 1;
    let mut rest = Some(&path[1..]);
    let segments: Vec<&str> = fixed[1..].split('/').collect();
    // The pattern of a wildcard ends in a slash, and what would come behind it is not a segment of it.
    let segments = if wildcard { &segments[..segments.len() - 1] } else { &segments[..] };
    for segment in segments {
        let text = rest?;
        let (first, next) = text.split_once('/').map_or((text, None), |(first, next)| (first, Some(next)));
        if !(*segment == first || segment.starts_with('{') && !first.is_empty()) {
            return None;
        }
        at += first.len() + 1;
        rest = next;
    }
    match (wildcard, rest) {
        (true, Some(_)) => Some(at),
        (false, None) => Some(path.len()),
        _ => None,
    }
}

/// The rule of the documentation, read literally: rank every route that matches, take the best.
fn model(routes: &[Route], host: &str, path: &str, method: &str, fields: &[(&str, &str)]) -> Matched {
    let lower = host.to_ascii_lowercase();
    let host = lower.split(':').next().unwrap();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let mut ranked = Vec::new();
    for (index, route) in routes.iter().enumerate() {
        let matcher = &route.matcher;
        let host_rank = match &matcher.host {
            HostPattern::Exact(exact) if **exact == *host => (0, 0),
            HostPattern::Suffix(suffix) if host.ends_with(&format!(".{suffix}")) => (1, usize::MAX - suffix.len()),
            HostPattern::Any => (2, 0),
            _ => continue,
        };
        let Some(rest_at) = model_path(&matcher.path, path) else { continue };
        let has = |(name, condition): &(Arc<str>, Condition)| {
            condition.holds(fields.iter().filter(|field| field.0 == &**name).map(|field| field.1))
        };
        let requests = |(name, condition): &(Arc<str>, Condition)| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            condition.holds(pairs.filter(|pair| pair.0 == &**name).map(|pair| pair.1))
        };
        if !(matcher.headers.iter().all(has) && matcher.query.iter().all(requests)) {
            continue;
        }
        let text = matcher.path.to_string();
        let shape: Vec<bool> = text.split('/').map(|segment| segment.starts_with('{')).collect();
        let is_regex = matches!(matcher.path, PathPattern::Matches(_));
        let shape = if is_regex { Vec::new() } else { shape };
        // The first of the file with this expression.
        let first =
            routes.iter().position(|other| other.matcher.host == matcher.host && other.matcher.path == matcher.path);
        let path_rank = match (text.contains('{'), text.ends_with('*')) {
            _ if is_regex => (2, first.unwrap()),
            (false, false) => (0, 0),
            (true, false) => (1, 0),
            (_, true) => (3, usize::MAX - shape.len()),
        };
        let fixed = text.split(['{', '*']).next().unwrap();
        let fixed_len = if is_regex {
            0
        } else if fixed.len() == text.len() {
            fixed.len()
        } else {
            fixed.len() - 1
        };
        let found = RouteMatch { route: RouteId(index), fixed_len, rest_at };
        ranked.push((
            (host_rank, path_rank, shape, usize::MAX - matcher.headers.len() - matcher.query.len(), index),
            matcher,
            found,
        ));
    }
    ranked.sort_by(|a, b| a.0.cmp(&b.0));
    let takes = |matcher: &Matcher| matcher.methods.is_empty() || matcher.methods.iter().any(|m| **m == *method);
    if let Some((_, _, found)) = ranked.iter().find(|(_, matcher, _)| takes(matcher)) {
        return Matched::Route(*found);
    }
    if ranked.is_empty() {
        return Matched::Nothing;
    }
    let mut allow: Vec<String> = ranked.iter().flat_map(|(_, m, _)| m.methods.iter().map(|m| m.to_string())).collect();
    allow.sort();
    allow.dedup();
    Matched::Allow(allow)
}

const HOSTS: [&str; 7] = ["", "", "", "b.a", "*.a", "*.b.a", "c.b.a"];
const REQUEST_HOSTS: [&str; 7] = ["a", "b.a", "B.A:80", "c.b.a", "d.c.b.a", "other", ""];
const METHODS: [&str; 5] = ["GET", "HEAD", "POST", "PURGE", "X"];
const FIELDS: [(&str, &str); 3] = [("x", "1"), ("x", "2"), ("y", "1")];
const WANTED: [(&str, &str); 5] = [("x", "1"), ("x", "~[23]"), ("y", "-"), ("?q", "1"), ("?q", "+")];
const REGEXES: [&str; 4] = ["~/a(/.*)?", "~/[ab]/b", "~.*c", "~/a/b/c|/b"];

fn some_routes() -> impl Strategy<Value = Vec<Route>> {
    let segment = prop::sample::select(vec!["a", "b", "c", "{p}", "{p}"]);
    let path = (prop::collection::vec(segment, 0..4), prop::sample::select(vec!["", "", "/*", "/"])).prop_map(
        |(segments, end)| {
            let mut path = String::new();
            for (index, segment) in segments.iter().enumerate() {
                // Parameters need names of their own.
                path.push_str(&format!("/{}", segment.replace('p', &format!("p{index}"))));
            }
            path.push_str(if path.is_empty() && end.is_empty() { "/" } else { end });
            path
        },
    );
    let methods = prop_oneof![
        2 => Just(Vec::new()),
        3 => prop::sample::subsequence(METHODS[..4].to_vec(), 1..3),
    ];
    let headers = prop_oneof![3 => Just(Vec::new()), 1 => prop::sample::subsequence(WANTED.to_vec(), 1..3)];
    let path = prop_oneof![4 => path, 1 => prop::sample::select(REGEXES.to_vec()).prop_map(str::to_owned)];
    let one = (prop::sample::select(HOSTS.to_vec()), path, methods, headers)
        .prop_map(|(host, path, methods, headers)| route(host, &path, &methods, &headers));
    prop::collection::vec(one, 0..24)
}

fn some_path() -> impl Strategy<Value = String> {
    (
        prop::collection::vec(prop::sample::select(vec!["a", "b", "c", "d"]), 0..5),
        any::<bool>(),
        prop::sample::select(vec!["", "?q=1", "?q=2&q=1", "?z=1"]),
    )
        .prop_map(|(segments, slash, query)| {
            let path = segments.iter().map(|segment| format!("/{segment}")).collect::<String>();
            let path = if slash || path.is_empty() { path + "/" } else { path };
            path + query
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]

    #[test]
    fn agrees_with_the_plain_model(
        routes in some_routes(),
        requests in prop::collection::vec(
            (
                prop::sample::select(REQUEST_HOSTS.to_vec()),
                some_path(),
                prop::sample::select(METHODS.to_vec()),
                prop::sample::subsequence(FIELDS.to_vec(), 0..=3),
            ),
            1..16,
        ),
    ) {
        let table = Table::new(&routes);
        for (host, path, method, fields) in requests {
            prop_assert_eq!(
                get(&table, host, &path, method, &fields),
                model(&routes, host, &path, method, &fields),
                "{} {}{} {:?}", method, host, path, fields
            );
        }
    }
}
