//! The routes of a configuration, arranged so that the one that takes a request is found without trying them all.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::FixedState;

use super::host;
use super::method::{Allow, MethodSet, Methods};
use super::path::Target;
use super::query;
use super::trie::{self, Trie};
use crate::config::{Condition, HostPattern, MAX_SEARCHED, PathPattern, Pattern, Route, RouteId, Segment};
use crate::error::Reason;

/// Keys are the file's own: a client cannot fill the table, so that hashing needs no secret.
type Map<V> = HashMap<Box<[u8]>, V, FixedState>;

/// The routes of a configuration.
///
/// Precedence: host exact, then the longest suffix, then any; path exact, then template, then the first regular expression of the file, then the
/// wildcard with the most segments, where a literal segment comes before a parameter; then more header and query matches; then the order of
/// the file. A route that does not match on method, header or query leaves the request to the next one.
#[derive(Debug)]
pub struct Table {
    methods: Methods,
    /// Routes for exactly one host.
    exact_hosts: Map<Paths>,
    /// Routes for the hosts below one.
    suffix_hosts: Map<Paths>,
    /// Routes for any host.
    any_host: Paths,
    /// What regular expressions search.
    searched: Searched,
    /// A route that takes another method leaves nothing: the request is not found.
    hides_methods: bool,
}

/// What the regular expressions of a configuration search.
#[derive(Debug, Default)]
struct Searched {
    path: bool,
    query: bool,
    /// Names in lower case.
    fields: Box<[Arc<str>]>,
}

/// Routes that share a host.
#[derive(Debug)]
struct Paths {
    exact: Map<Vec<Candidate>>,
    /// In the order of the file; routes with the same one lie together.
    regexes: Vec<(Pattern, Vec<Candidate>)>,
    patterns: Trie<Candidate>,
}

/// A route at its place in the table.
#[derive(Debug, Clone)]
struct Candidate {
    route: RouteId,
    methods: MethodSet,
    /// Fields that have to be there; names in lower case.
    headers: Box<[(Arc<str>, Condition)]>,
    query: Box<[(Arc<str>, Condition)]>,
    cors: bool,
    fixed_len: usize,
    /// Routes of one place are tried in the order of the configuration, whatever they match besides.
    is_ordered: bool,
}

/// The route that takes a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RouteMatch {
    /// Index into the routes that the table was built from.
    pub route: RouteId,
    /// Bytes of the path that the fixed part of the pattern matched: what stands before its first parameter or wildcard, without the slash
    /// at its end. A `rewrite.prefix` replaces them.
    pub fixed_len: usize,
    /// Where in the path that which the wildcard matched begins; the path's length without a wildcard. A redirect's `*` stands for it.
    pub rest_at: usize,
}

/// Outcome of a lookup.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Lookup<'t> {
    /// A route takes the request.
    RouteMatch(RouteMatch),
    /// Routes match the path, but none of them the method (405).
    MethodNotAllowed(Allow<'t>),
    /// No route matches (404).
    NotFound,
}

impl Table {
    /// Arranges routes; the index of each is its [`RouteId`].
    pub fn new(routes: &[Route]) -> Self {
        Table::of(routes, |_| true, false)
    }

    /// The routes of one listener: those that name it, and those that name none. In a managed configuration the routes of one place are in order
    /// already, and one of another method is as good as none.
    pub fn of_listener(routes: &[Route], name: Option<&str>, is_managed: bool) -> Self {
        let has = |route: &Route| route.matcher.listener.is_none() || route.matcher.listener.as_deref() == name;
        Table::of(routes, has, is_managed)
    }

    fn of(routes: &[Route], has: impl Fn(&Route) -> bool, is_managed: bool) -> Self {
        let methods = Methods::of(routes.iter().flat_map(|route| &route.matcher.methods));
        let mut exact_hosts: HashMap<&str, PathsBuilder> = HashMap::new();
        let mut suffix_hosts: HashMap<&str, PathsBuilder> = HashMap::new();
        let mut any_host = PathsBuilder::default();
        for (index, route) in routes.iter().enumerate().filter(|(_, route)| has(route)) {
            let candidate = Candidate {
                route: RouteId(index),
                methods: methods.set(&route.matcher.methods),
                headers: route.matcher.headers.as_slice().into(),
                query: route.matcher.query.as_slice().into(),
                cors: route.cors.is_some(),
                fixed_len: fixed_len(&route.matcher.path),
                is_ordered: is_managed,
            };
            let paths = match &route.matcher.host {
                HostPattern::Any => &mut any_host,
                HostPattern::Exact(host) => exact_hosts.entry(host).or_default(),
                HostPattern::Suffix(suffix) => suffix_hosts.entry(suffix).or_default(),
            };
            paths.insert(&route.matcher.path, candidate);
        }
        let build = |hosts: HashMap<&str, PathsBuilder>| {
            hosts.into_iter().map(|(host, paths)| (host.as_bytes().into(), paths.build())).collect()
        };
        let conditions = || routes.iter().flat_map(|route| &route.matcher.headers);
        let is_search = |(_, condition): &&(Arc<str>, Condition)| matches!(condition, Condition::Matches(_));
        let searched = Searched {
            path: routes.iter().any(|route| matches!(route.matcher.path, PathPattern::Matches(_))),
            query: routes.iter().flat_map(|route| &route.matcher.query).any(|one| is_search(&one)),
            fields: names(conditions().filter(is_search)),
        };
        Table {
            methods,
            exact_hosts: build(exact_hosts),
            suffix_hosts: build(suffix_hosts),
            any_host: any_host.build(),
            searched,
            hides_methods: is_managed,
        }
    }

    /// Whether a regular expression would have to search a text that is too long for it. Such a request is refused: to say that it does not
    /// match would leave it to another route. `longest` is the length of the longest value of a field.
    ///
    /// # Errors
    /// 414 or 431.
    #[inline]
    pub fn check_lengths(&self, target: Target<'_>, longest: impl Fn(&str) -> usize) -> Result<(), Reason> {
        let is_long = |text: &[u8]| text.len() > MAX_SEARCHED;
        if self.searched.path && is_long(target.path) || self.searched.query && target.query.is_some_and(is_long) {
            return Err(Reason::RequestLineTooLong);
        }
        let mut fields = self.searched.fields.iter();
        if fields.any(|name| longest(name) > MAX_SEARCHED) { Err(Reason::HeadTooLarge) } else { Ok(()) }
    }

    /// Finds the route for a request, without heap allocation.
    ///
    /// `host` is the value of the `Host` field (or the authority that stands for it), the path of `target` is normalised, and `field_holds`
    /// says whether the fields of a name (given in lower case) are what a route wants.
    pub fn lookup(
        &self,
        host: &[u8],
        target: Target<'_>,
        method: &[u8],
        mut field_holds: impl FnMut(&str, &Condition) -> bool,
    ) -> Lookup<'_> {
        let method = self.methods.one(method);
        let mut allow = MethodSet::NONE;
        let found = self.find(host, target.path, &mut |candidate: &Candidate| {
            let has_headers = candidate.headers.iter().all(|(name, condition)| field_holds(name, condition));
            if !(has_headers && candidate.takes_query(target.query)) {
                return false;
            }
            let takes = candidate.methods.holds(method);
            if !takes && !self.hides_methods {
                allow.add(candidate.methods);
            }
            takes
        });
        match found {
            Some(found) => Lookup::RouteMatch(found),
            None if allow == MethodSet::NONE => Lookup::NotFound,
            None => Lookup::MethodNotAllowed(Allow { methods: &self.methods, set: allow }),
        }
    }

    /// Finds the route whose `cors` responds to a preflight: the first, in the order of precedence, that has `cors` and takes the method that
    /// the page requests (`Access-Control-Request-Method`). Header matches do not count, as a browser does not send those fields yet.
    ///
    /// To be called first for an OPTIONS request with `Origin` and `Access-Control-Request-Method`; without a result the request is one
    /// like any other, for [`Table::lookup`].
    pub fn lookup_preflight(&self, host: &[u8], target: Target<'_>, requested_method: &[u8]) -> Option<RouteMatch> {
        let method = self.methods.one(requested_method);
        self.find(host, target.path, &mut |candidate: &Candidate| {
            candidate.cors && candidate.methods.holds(method) && candidate.takes_query(target.query)
        })
    }

    fn find(&self, host: &[u8], path: &[u8], accept: &mut impl FnMut(&Candidate) -> bool) -> Option<RouteMatch> {
        // Most files match no host; they pay nothing for it.
        if !(self.exact_hosts.is_empty() && self.suffix_hosts.is_empty()) {
            let mut scratch = [0; host::MAX_BYTES];
            if let Some(host) = host::normalise(host, &mut scratch)
                && let Some(found) = self.find_by_host(host, path, accept)
            {
                return Some(found);
            }
        }
        self.any_host.find(path, accept)
    }

    fn find_by_host(
        &self,
        host: &[u8],
        path: &[u8],
        accept: &mut impl FnMut(&Candidate) -> bool,
    ) -> Option<RouteMatch> {
        if let Some(found) = self.exact_hosts.get(host).and_then(|paths| paths.find(path, accept)) {
            return Some(found);
        }
        if self.suffix_hosts.is_empty() {
            return None;
        }
        // From the left, so that the longest suffix comes first; at least one label is in front of it.
        let dots = host.iter().enumerate().filter(|&(index, &byte)| byte == b'.' && index > 0);
        dots.filter_map(|(dot, _)| self.suffix_hosts.get(&host[dot + 1..])).find_map(|paths| paths.find(path, accept))
    }
}

impl Paths {
    fn find(&self, path: &[u8], accept: &mut impl FnMut(&Candidate) -> bool) -> Option<RouteMatch> {
        if let Some(candidates) = self.exact.get(path)
            && let Some(candidate) = candidates.iter().find(|candidate| accept(candidate))
        {
            return Some(candidate.found(path.len()));
        }
        if !self.regexes.is_empty()
            && let Some(found) = self.find_before_wildcards(path, accept)
        {
            return Some(found);
        }
        if self.patterns.is_empty() {
            return None;
        }
        self.patterns.find(path, accept).map(|hit| hit.value.found(hit.rest_at))
    }
}

impl Paths {
    /// Templates and regular expressions.
    #[cold]
    fn find_before_wildcards(&self, path: &[u8], accept: &mut impl FnMut(&Candidate) -> bool) -> Option<RouteMatch> {
        if let Some(hit) = self.patterns.find_template(path, accept) {
            return Some(hit.value.found(hit.rest_at));
        }
        let mut matching = self.regexes.iter().filter(|(pattern, _)| pattern.matches(path));
        let found = matching.find_map(|(_, candidates)| candidates.iter().find(|candidate| accept(candidate)));
        found.map(|candidate| candidate.found(path.len()))
    }
}

impl Candidate {
    fn takes_query(&self, query: Option<&[u8]>) -> bool {
        self.query.iter().all(|(name, condition)| condition.holds(query::values(query, name)))
    }

    fn found(&self, rest_at: usize) -> RouteMatch {
        RouteMatch { route: self.route, fixed_len: self.fixed_len, rest_at }
    }

    /// More header and query matches first, then the order of the file.
    fn order(&self) -> (std::cmp::Reverse<usize>, RouteId) {
        let conditions = if self.is_ordered { 0 } else { self.headers.len() + self.query.len() };
        (std::cmp::Reverse(conditions), self.route)
    }
}

/// Routes that share a host, while they are collected.
#[derive(Default)]
struct PathsBuilder {
    exact: Map<Vec<Candidate>>,
    regexes: Vec<(Pattern, Vec<Candidate>)>,
    patterns: trie::Builder<Candidate>,
}

impl PathsBuilder {
    fn insert(&mut self, path: &PathPattern, candidate: Candidate) {
        match path {
            PathPattern::Exact(path) => self.exact.entry(path.as_bytes().into()).or_default().push(candidate),
            PathPattern::Template { segments, wildcard } => {
                self.patterns.insert(segments.iter(), *wildcard, candidate);
            }
            PathPattern::Matches(pattern) => match self.regexes.iter_mut().find(|(known, _)| known == pattern) {
                Some((_, candidates)) => candidates.push(candidate),
                None => self.regexes.push((pattern.clone(), vec![candidate])),
            },
            PathPattern::Below(path) => {
                let segments: Vec<Segment> =
                    path.split('/').skip(1).map(|segment| Segment::Literal(segment.into())).collect();
                self.patterns.insert_below(segments.iter(), candidate);
            }
            PathPattern::Prefix(prefix) => {
                // `/a/` holds the segment `a`, `/` none.
                let segments: Vec<Segment> = prefix
                    .trim_end_matches('/')
                    .split('/')
                    .skip(1)
                    .map(|segment| Segment::Literal(segment.into()))
                    .collect();
                self.patterns.insert(segments.iter(), true, candidate);
            }
        }
    }

    fn build(mut self) -> Paths {
        let lists = self.exact.values_mut().chain(self.regexes.iter_mut().map(|(_, candidates)| candidates));
        for candidates in lists {
            candidates.sort_by_key(Candidate::order);
        }
        Paths { exact: self.exact, regexes: self.regexes, patterns: self.patterns.build(Candidate::order) }
    }
}

/// The names, each once.
fn names<'c>(conditions: impl Iterator<Item = &'c (Arc<str>, Condition)>) -> Box<[Arc<str>]> {
    let mut names: Vec<Arc<str>> = conditions.map(|(name, _)| name.clone()).collect();
    names.sort();
    names.dedup();
    names.into()
}

/// See [`RouteMatch::fixed_len`].
fn fixed_len(path: &PathPattern) -> usize {
    match path {
        PathPattern::Exact(path) | PathPattern::Below(path) => path.len(),
        PathPattern::Prefix(prefix) => prefix.len() - 1,
        PathPattern::Matches(_) => 0,
        PathPattern::Template { segments, .. } => segments
            .iter()
            .map_while(|segment| match segment {
                Segment::Literal(text) => Some(1 + text.len()),
                Segment::Param(_) => None,
            })
            .sum(),
    }
}

#[cfg(test)]
mod tests;
