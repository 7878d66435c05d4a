//! APIs: the operations of a description become routes.

use std::path::Path;
use std::sync::Arc;

use openapi::{Operation, Options, Patterns};

use super::Resolver;
use crate::problem::{Origin, Problem};
use crate::raw::shape::{OneOrMany, OrNone, Spanned};
use crate::raw::text::FieldValue;
use crate::raw::{self, Validation};
use crate::{Api, Matcher, PathPattern, RouteContract, Segment, yaml};

/// A route that a description makes.
pub(super) struct Described {
    /// The route as a file would have it.
    pub(super) route: Spanned<raw::Route>,
    /// `operationId`.
    pub(super) id: Arc<str>,
    /// Name of its API.
    pub(super) api: Arc<str>,
    /// What it demands of requests.
    pub(super) contract: Option<RouteContract>,
    /// Where the description has it.
    pub(super) place: String,
}

impl Resolver<'_> {
    /// The routes of all APIs, in the order of the file and of the descriptions.
    pub(super) fn described(&mut self) -> Vec<Described> {
        let file = self.file;
        file.apis.iter().flat_map(|(name, api)| self.api(name, api)).collect()
    }

    fn api(&mut self, name: &Spanned<String>, raw: &raw::Api) -> Vec<Described> {
        self.check_name(name);
        match (&raw.upstream, &raw.split) {
            (Some(upstream), None) => {
                self.upstream_id(upstream);
            }
            (None, Some(_)) => {}
            (Some(_), Some(split)) => self.problem(split.origin, "an API has `upstream` or `split`, not both"),
            (None, None) => {
                self.problem(name.origin, format!("`{}` needs `upstream` or `split`", name.value));
                return Vec::new();
            }
        }
        for (_, authenticator) in raw.auth.iter() {
            self.position(&self.file.auth, authenticator, "authenticator");
        }
        let base = match raw.base.as_str() {
            "from_spec" => None,
            base => Some(self.base_path(&raw.base, base)),
        };
        let upstream_base = raw.upstream_base.as_ref().map(|base| self.base_path(base, base));
        if raw.validate.response.value != Validation::None {
            let message = "`response` is not supported yet; leave it out or write `none`";
            self.problem(raw.validate.response.origin, message);
        }
        let spec = self.folder.join(&raw.spec.value);
        let options = Options {
            base,
            validates: raw.validate.request != Validation::None,
            refuses_unknown_query: raw.validate.unknown_query == raw::UnknownQuery::Refuse,
            patterns: match raw.validate.patterns {
                raw::Patterns::Refuse => Patterns::Refuse,
                raw::Patterns::Skip => Patterns::Skip,
            },
            skip: raw.skip.iter().map(|id| id.value.clone()).collect(),
        };
        let loaded = match load(&spec, &options) {
            Ok(loaded) => loaded,
            Err(problems) => {
                // All of them: they are in another file, which has no other check.
                self.problems.extend(problems.into_iter().map(|problem| Problem::new(raw.spec.origin, problem)));
                return Vec::new();
            }
        };
        if loaded.operations.is_empty() {
            self.problem(raw.spec.origin, format!("{} describes no operation", raw.spec.value));
        }
        let api: Arc<str> = name.as_str().into();
        self.apis.push(Api { name: api.clone(), spec, operations: loaded.operations.len(), notes: loaded.notes });
        let mut described = Vec::with_capacity(loaded.operations.len());
        for operation in loaded.operations {
            let mut problems = Vec::new();
            let route = self.described_route(raw, &operation, upstream_base.as_deref(), &mut problems);
            for problem in problems {
                let message = format!("{}: operation `{}`: {problem}", operation.place, operation.id);
                self.problem(raw.spec.origin, message);
            }
            if let Some(route) = route {
                let id: Arc<str> = printable(&operation.id).into();
                described.push(Described {
                    route: Spanned::new(route, name.origin),
                    id: id.clone(),
                    contract: operation.contract.map(|contract| RouteContract {
                        api: api.clone(),
                        operation: id,
                        contract,
                        enforces: raw.validate.request == Validation::Enforce,
                    }),
                    api: api.clone(),
                    place: operation.place,
                });
            }
        }
        described
    }

    /// The same with the place of the API: positions in the text of an extension are none in the file.
    fn placed(&self, found: raw::OperationExtension, origin: Origin) -> Result<raw::OperationExtension, Vec<String>> {
        let file = self.file;
        let mut problems = Vec::new();
        for limit in found.limits.iter().flatten().filter(|name| file.limits.position(name).is_none()) {
            problems.push(format!("`x-weir`: there is no limit `{}`", limit.value));
        }
        let cache = found.cache.map(|cache| match cache.value {
            OrNone::None => OrNone::None,
            OrNone::Some(name) => {
                if file.caches.position(&name).is_none() {
                    problems.push(format!("`x-weir`: there is no cache `{}`", name.value));
                }
                OrNone::Some(Spanned::new(name.value, origin))
            }
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(raw::OperationExtension {
            limits: found.limits.map(|names| names.into_iter().map(|name| Spanned::new(name.value, origin)).collect()),
            cache: cache.map(|cache| Spanned::new(cache, origin)),
            timeouts: found.timeouts.map(|timeouts| Spanned::new(timeouts.value, origin)),
        })
    }

    fn base_path(&mut self, at: &Spanned<String>, base: &str) -> String {
        let valid = base.starts_with('/') && !base.contains(['{', '}', '*']) && base.parse::<raw::Path>().is_ok();
        if !valid {
            let message = format!("`{base}` is not a path; expected `from_spec` or a path such as `/v1`");
            self.problem(at.origin, message);
        }
        base.trim_end_matches('/').to_owned()
    }

    fn described_route(
        &mut self,
        raw: &raw::Api,
        operation: &Operation,
        upstream_base: Option<&str>,
        problems: &mut Vec<String>,
    ) -> Option<raw::Route> {
        let pattern = match pattern(operation) {
            Ok(pattern) => pattern,
            Err(problem) => {
                problems.push(problem);
                return None;
            }
        };
        let extension = extension(operation)
            .and_then(|extension| self.placed(extension, raw.spec.origin))
            .unwrap_or_else(|found| {
                problems.extend(found);
                raw::OperationExtension::default()
            });
        let (auth, allow) = match security(raw, operation) {
            Ok(demanded) => demanded,
            Err(problem) => {
                problems.push(problem);
                (None, None)
            }
        };
        let mut route = raw::Route::at(raw::Path(pattern));
        route.matcher.host = raw.host.clone();
        route.matcher.methods = vec![raw::text::Method(operation.method.to_owned())];
        route.upstream.clone_from(&raw.upstream);
        route.split = raw.split.clone().filter(|_| raw.upstream.is_none());
        route.fallback = raw.fallback.clone();
        route.rewrite = upstream_base.map(|upstream_base| rewrite(upstream_base, &operation.path, raw.spec.origin));
        route.auth = auth;
        route.allow = allow;
        route.limits = extension.limits.or_else(|| raw.limits.clone());
        route.cache = extension.cache.or_else(|| raw.cache.clone());
        route.timeouts = extension.timeouts.or_else(|| raw.timeouts.clone());
        route.headers = raw.headers.clone();
        route.cors = raw.cors.clone();
        if operation.contract.as_ref().is_some_and(|contract| contract.checks_bodies()) {
            route.body = Some(OrNone::Some(raw.validate.body));
        }
        Some(route)
    }
}

/// Reads a description. What it refers to lies in its folder or below.
///
/// # Errors
/// Everything that is wrong with it.
pub fn load(spec: &Path, options: &Options) -> Result<openapi::Api, Vec<String>> {
    let folder = match spec.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let unreadable = |error: std::io::Error| vec![format!("cannot read {}: {error}", spec.display())];
    // A reference must not lead out of the folder: descriptions come from elsewhere.
    let source = apidoc::Files::under(folder).map_err(unreadable)?;
    openapi::load(&source, &spec.to_string_lossy(), options)
}

/// Names in logs and metrics hold no control character.
fn printable(id: &str) -> String {
    id.chars().map(|letter| if letter.is_control() { '_' } else { letter }).take(128).collect()
}

/// The path that an operation's requests have.
///
/// # Errors
/// Why no route can have it.
pub fn pattern(operation: &Operation) -> Result<PathPattern, String> {
    let mut text = String::new();
    let mut names: Vec<&str> = Vec::new();
    let segments: Vec<&str> = operation.path.split('/').skip(1).collect();
    text.push_str(&operation.base);
    for (index, segment) in segments.iter().enumerate() {
        text.push('/');
        match segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(name) if !name.contains(['{', '}']) => {
                let is_last = index + 1 == segments.len();
                if operation.multi_segment.iter().any(|multi| multi == name) {
                    if !is_last {
                        return Err(format!(
                            "`{}`: `{{{name}}}` may hold slashes, which only the last parameter of a path can; put the operation into `skip`",
                            operation.path
                        ));
                    }
                    text.push('*');
                    continue;
                }
                // Any name is a name in a description; here they are numbered first and named afterwards.
                text.push_str(&format!("{{p{}}}", names.len()));
                names.push(name);
            }
            _ if segment.contains(['{', '}']) => {
                return Err(format!(
                    "`{}`: a parameter that is a part of a segment is not supported; put the operation into `skip`",
                    operation.path
                ));
            }
            _ => text.push_str(segment),
        }
    }
    let parsed: raw::Path = text.parse()?;
    let mut pattern = parsed.0;
    if let PathPattern::Template { segments, .. } = &mut pattern {
        let mut names = names.into_iter();
        for segment in segments {
            if let Segment::Param(name) = segment {
                *name = names.next().unwrap_or_default().into();
            }
        }
    }
    Ok(pattern)
}

/// The fixed part of the path as the upstream has it.
fn rewrite(base: &str, path: &str, origin: Origin) -> Spanned<raw::Rewrite> {
    let fixed = path.find('{').map_or(path, |brace| &path[..brace]);
    let prefix = format!("{base}{}", fixed.trim_end_matches('/'));
    let prefix = if prefix.is_empty() { "/".to_owned() } else { prefix };
    Spanned::new(raw::Rewrite { prefix: Some(Spanned::new(prefix, origin)), ..raw::Rewrite::default() }, origin)
}

fn extension(operation: &Operation) -> Result<raw::OperationExtension, Vec<String>> {
    let Some(json) = &operation.extension else { return Ok(raw::OperationExtension::default()) };
    // JSON is YAML; positions in it have no effect on the reader.
    let parsed = yaml::parse(&json.to_string(), &|_| None);
    parsed.map_err(|problems| problems.into_iter().map(|problem| format!("`x-weir`: {}", problem.message)).collect())
}

type Demanded = (Option<Spanned<raw::RouteAuth>>, Option<Spanned<raw::Allow>>);

/// What an operation's `security` demands. It only ever adds to what the file demands.
fn security(raw: &raw::Api, operation: &Operation) -> Result<Demanded, String> {
    let alternatives = &operation.security.0;
    if !operation.security.is_required() {
        // One that may be called without credentials, too.
        return Ok((None, None));
    }
    let mut named = Vec::with_capacity(alternatives.len());
    let mut scopes: Option<Vec<&String>> = None;
    for alternative in alternatives {
        let mut all = Vec::with_capacity(alternative.len());
        for scheme in alternative.keys() {
            let Some(position) = raw.auth.position(scheme) else {
                return Err(format!(
                    "it requires `{scheme}`, which has no authenticator; add `{scheme}: NAME` to `auth` of the API"
                ));
            };
            all.push(raw.auth.0[position].1.clone());
        }
        named.push(OneOrMany(all));
        let mut wanted: Vec<&String> = alternative.values().flatten().collect();
        wanted.sort();
        wanted.dedup();
        match &scopes {
            None => scopes = Some(wanted),
            Some(same) if *same == wanted => {}
            Some(_) => {
                return Err(
                    "its alternatives require different scopes, which one route cannot check; use `skip` and a route for each"
                        .to_owned(),
                );
            }
        }
    }
    let origin = raw.spec.origin;
    let allow = scopes.filter(|scopes| !scopes.is_empty()).map(|scopes| {
        let scopes = scopes.into_iter().map(|scope| Spanned::new(FieldValue(scope.clone()), origin)).collect();
        Spanned::new(raw::Allow { scopes, ..raw::Allow::default() }, origin)
    });
    Ok((Some(Spanned::new(OrNone::Some(OneOrMany(named)), origin)), allow))
}

/// Takes from routes of descriptions what a route of the file takes already: those come first. A matcher that is left with no method
/// no longer exists; the result says which.
pub(super) fn yield_to_file(matchers: &mut [Matcher], own: usize) -> Vec<bool> {
    use super::ambiguity::MatchedSpace;
    use std::collections::HashMap;
    let (file, described) = matchers.split_at_mut(own);
    #[expect(
        clippy::mutable_key_type,
        reason = "an expression is compared by its text, never by what its search keeps"
    )]
    let mut taken: HashMap<MatchedSpace, Vec<&Matcher>> = HashMap::new();
    for matcher in file.iter() {
        taken.entry(MatchedSpace::of(matcher)).or_default().push(matcher);
    }
    let mut stays = vec![true; own];
    for matcher in described {
        let rivals = taken.get(&MatchedSpace::of(matcher)).map_or(&[][..], Vec::as_slice);
        let takes = |method: &Arc<str>| rivals.iter().any(|one| one.methods.is_empty() || one.methods.contains(method));
        matcher.methods.retain(|method| !takes(method));
        stays.push(!matcher.methods.is_empty());
    }
    stays
}
