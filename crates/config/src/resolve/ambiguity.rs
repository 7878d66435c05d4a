//! Routes that cannot be distinguished, and which route responds to HEAD.

use std::collections::HashMap;
use std::sync::Arc;

use super::Resolver;
use super::route::Planned;
use crate::problem::Origin;
use crate::{Condition, HostPattern, Matcher, PathPattern, Segment};

/// What two routes share when only their methods can tell them apart.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct MatchedSpace {
    listener: Option<Arc<str>>,
    host: HostPattern,
    /// With the names of parameters left out: they match the same.
    path: PathPattern,
    /// Sorted.
    headers: Vec<(Arc<str>, Condition)>,
    /// Sorted.
    query: Vec<(Arc<str>, Condition)>,
}

impl MatchedSpace {
    pub(super) fn of(matcher: &Matcher) -> Self {
        let mut headers = matcher.headers.clone();
        headers.sort_by(|a, b| a.0.cmp(&b.0));
        let mut query = matcher.query.clone();
        query.sort_by(|a, b| a.0.cmp(&b.0));
        let path = match &matcher.path {
            PathPattern::Template { segments, wildcard } => PathPattern::Template {
                segments: segments
                    .iter()
                    .map(|segment| match segment {
                        Segment::Param(_) => Segment::Param("".into()),
                        Segment::Literal(text) => Segment::Literal(text.clone()),
                    })
                    .collect(),
                wildcard: *wildcard,
            },
            path => path.clone(),
        };
        MatchedSpace { listener: matcher.listener.clone(), host: matcher.host.clone(), path, headers, query }
    }
}

impl Resolver<'_> {
    /// Reports every route whose requests an earlier one takes, and gives HEAD to the routes for GET.
    ///
    /// A route for any method may follow routes with a method: it takes what is left. The other way round it would leave nothing.
    pub(super) fn make_unambiguous(&mut self, matchers: &mut [Matcher], routes: &[Planned<'_>]) {
        let all = routes;
        #[expect(
            clippy::mutable_key_type,
            reason = "an expression is compared by its text, never by what its search keeps"
        )]
        let mut places: HashMap<MatchedSpace, Vec<usize>> = HashMap::new();
        for (index, matcher) in matchers.iter().enumerate() {
            places.entry(MatchedSpace::of(matcher)).or_default().push(index);
        }
        let mut problems: Vec<(usize, String)> = Vec::new();
        for routes in places.values() {
            // Which route takes a method; the empty name stands for any.
            let mut taken: HashMap<Arc<str>, usize> = HashMap::new();
            for &index in routes {
                let methods = &matchers[index].methods;
                let first = match methods.as_slice() {
                    [] => taken.get("").map(|&first| (first, String::new())),
                    _ => methods.iter().find_map(|method| {
                        let any = taken.get("").map(|&first| (first, String::new()));
                        let same = taken.get(method).map(|&first| (first, format!("{method} ")));
                        any.or(same)
                    }),
                };
                if let Some((first, method)) = first {
                    let whose = all[first].whose(first);
                    let path = &matchers[index].path;
                    problems.push((
                        index,
                        format!(
                            "this route and the one {whose} match the same requests: both match {method}`{path}` with the same host, headers and query"
                        ),
                    ));
                    continue;
                }
                if methods.is_empty() {
                    taken.insert("".into(), index);
                }
                taken.extend(methods.iter().map(|method| (method.clone(), index)));
            }
            if !taken.contains_key("HEAD") {
                // At most one route here names GET, as the check above saw to.
                if let Some(&get) = taken.get("GET") {
                    matchers[get].methods.push("HEAD".into());
                }
            }
        }
        problems.sort();
        for (index, message) in problems {
            let origin = all[index].raw.origin;
            let message = match all[index].described {
                Some(described) => format!("{}: operation `{}`: {message}", described.place, described.id),
                None => message,
            };
            self.problem(origin, message);
        }
    }
}

impl Planned<'_> {
    /// Where it stands, in a message about another route.
    fn whose(&self, index: usize) -> String {
        match (self.described, self.raw.origin) {
            (Some(described), _) => format!("of operation `{}` ({})", described.id, described.place),
            (None, Origin::File { line, .. }) => format!("in line {line}"),
            (None, Origin::Variable(_) | Origin::Nowhere) => format!("at place {}", index + 1),
        }
    }
}
