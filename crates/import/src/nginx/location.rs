//! Locations: which paths, and what happens there.

use super::action::Part;
use super::http::{Importer, Rank};
use super::parse::Directive;
use super::settings::Settings;
use crate::document::{Route, map, text, word};
use crate::expression;
use crate::pattern::Path;
use crate::template::{self, Anchor};

/// Levels of locations in locations.
const MAX_DEPTH: usize = 8;

/// Methods, and the variables that hold for them.
type MethodVariant = (Vec<String>, Vec<(String, String)>);

/// How a location is compared.
struct Matched {
    paths: Vec<(Path, Part, Rank)>,
    /// The location's text, for the exchange of its prefix.
    text: String,
}

impl<'d> Importer<'d> {
    /// The routes of a location and of those in it.
    pub(super) fn location_routes(
        &mut self,
        directive: &'d Directive,
        settings: &Settings<'d>,
        siblings: &[&'d Directive],
        host: Option<&str>,
        out: &mut Vec<Route>,
        depth: usize,
    ) {
        let block = directive.block.as_deref().unwrap_or_default();
        let settings = settings.inside(block);
        self.unknown_directives(block);
        for inner in block.iter().filter(|inner| inner.name == "set") {
            self.variable(inner);
        }
        let nested: Vec<&Directive> = block.iter().filter(|inner| inner.name == "location").collect();
        if depth > MAX_DEPTH {
            self.doc.report.left_out(&directive.place, directive.shown(), "locations are nested too deeply");
            return;
        }
        for inner in &nested {
            self.location_routes(inner, &settings, &nested, host, out, depth + 1);
        }
        let matched = match self.matched(directive, siblings) {
            Ok(matched) => matched,
            Err(why) => {
                let how = format!("{why}; its requests go to whatever other route matches them, or get 404");
                self.doc.report.left_out(&directive.place, directive.shown(), how);
                return;
            }
        };
        if settings.one("internal").is_some_and(|inner| block.iter().any(|own| std::ptr::eq(own, inner))) {
            for (path, _, rank) in matched.paths {
                let mut route = Route::new(&directive.place, directive.shown(), path);
                route.set("respond", map([("status", word(404))]));
                route.rank = self.rank(rank);
                out.push(route);
            }
            if directive.args.last().is_some_and(|path| self.authorizations.contains(path.as_str())) {
                let how = "requests get 404, as in nginx; `auth_request` calls the service itself";
                self.doc.report.exact(&directive.place, directive.shown(), how);
            } else {
                let how = "requests get 404, as in nginx; what is sent here from inside nginx has no equivalent";
                self.doc.report.differs(&directive.place, directive.shown(), how);
            }
            return;
        }
        let note = directive.shown();
        let mut open = true;
        let (methods, refusal) = self.methods(block);
        // `map $request_method $target` sends each method elsewhere: a route for each target.
        let variants = self.method_variants(block).unwrap_or_else(|| vec![(methods.clone(), Vec::new())]);
        let first = out.len();
        for (path, part, rank) in matched.paths {
            for (only, variables) in &variants {
                let mut route = Route::new(&directive.place, note.clone(), path.clone());
                route.methods =
                    only.iter().filter(|method| methods.is_empty() || methods.contains(method)).cloned().collect();
                route.host = host.map(str::to_owned);
                route.rank = self.rank(rank);
                self.variables.extend(variables.iter().cloned());
                open &= self.fill(&mut route, part, &matched.text, directive, block, &settings);
                out.push(route);
            }
        }
        if !methods.is_empty() {
            // Without this, requests with other methods would go on to wider routes.
            let paths: Vec<Route> = out[first..].to_vec();
            for known in paths {
                let mut route = Route::new(&directive.place, format!("{note}, other methods"), known.path);
                route.host = known.host;
                route.rank = known.rank;
                route.set("respond", map([("status", word(refusal))]));
                if refusal == 405 {
                    route.edit_header("response", "set", "Allow", text(methods.join(", ")));
                }
                if !out[first..].iter().any(|other| other.methods.is_empty() && other.path.same(&route.path)) {
                    out.push(route);
                }
            }
        }
        if self.needs_redirect(directive, block, siblings) {
            let bare = matched.text.trim_end_matches('/');
            if let Ok(path) = Path::exact(bare) {
                let mut route = Route::new(&directive.place, format!("{note}, without its slash"), path);
                let to = crate::pattern::encode(&matched.text).unwrap_or_default();
                route.set("redirect", map([("to", text(to)), ("status", word(301))]));
                route.rank = self.rank(Rank::Exact);
                out.push(route);
            }
        }
        if open {
            self.doc.report.exact(&directive.place, note, "");
        }
    }

    /// nginx redirects `/a` to `/a/` where a location `/a/` forwards requests and no location is `/a`.
    fn needs_redirect(&self, directive: &Directive, block: &[Directive], siblings: &[&Directive]) -> bool {
        let (modifier, name) = match directive.args.as_slice() {
            [name] => ("", name.as_str()),
            [modifier, name] => (modifier.as_str(), name.as_str()),
            _ => return false,
        };
        let bare = name.trim_end_matches('/');
        let forwards = block.iter().any(|inner| inner.name == "proxy_pass");
        let taken = siblings.iter().any(|other| other.args.last().is_some_and(|name| name == bare));
        matches!(modifier, "" | "^~" | "=") && name.ends_with('/') && !bare.is_empty() && forwards && !taken
    }

    fn matched(&mut self, directive: &Directive, siblings: &[&Directive]) -> Result<Matched, String> {
        let (modifier, name) = match directive.args.as_slice() {
            [name] => match name.strip_prefix('=').filter(|rest| rest.starts_with('/')) {
                Some(rest) => ("=", rest),
                None => ("", name.as_str()),
            },
            [modifier, name] => (modifier.as_str(), name.as_str()),
            _ => return Err("a location needs a path".to_owned()),
        };
        let paths = match modifier {
            _ if name.starts_with('@') => return Err("named locations have no equivalent".to_owned()),
            "=" => vec![(Path::exact(name)?, Part::Whole, Rank::Exact)],
            "" | "^~" => {
                let rank = Rank::Prefix { length: name.len(), stop: modifier == "^~" };
                if name.ends_with('/') {
                    vec![(Path::below(name)?, Part::Below, rank)]
                } else {
                    let exact =
                        siblings.iter().any(|other| matches!(other.args.as_slice(), [m, n] if m == "=" && n == name));
                    let how = format!(
                        "nginx takes `{name}` for the beginning of any name, `{name}x` too; Weir for `{name}` and all below `{name}/`"
                    );
                    self.doc.report.differs(&directive.place, directive.shown(), how);
                    let slash = format!("{name}/");
                    let below = siblings.iter().any(|other| {
                        other.args.last().is_some_and(|other| *other == slash)
                            && other.args.first().is_some_and(|m| m != "=")
                    });
                    let mut paths = Vec::new();
                    if !exact {
                        paths.push((Path::exact(name)?, Part::Whole, rank));
                    }
                    if !below {
                        paths.push((Path::below(&slash)?, Part::Below, rank));
                    }
                    paths
                }
            }
            "~" | "~*" => {
                let paths = if modifier == "~*" && name.chars().any(|c| c.is_ascii_alphabetic()) {
                    vec![Path::matching(expression::searched(name, true)?)?]
                } else {
                    template::paths(name, Anchor::None, true)?
                };
                if paths.iter().any(|path| path.expression.is_some()) {
                    let how = "the expression is compared with the path as it is forwarded, percent-encoded; nginx compares the decoded one";
                    self.doc.report.differs(&directive.place, directive.shown(), how);
                }
                self.regexes += 1;
                let rank = Rank::Regex(self.regexes);
                paths.into_iter().map(|path| (path, Part::Template, rank)).collect()
            }
            other => return Err(format!("`{other}` is not a kind of location")),
        };
        Ok(Matched { paths, text: name.to_owned() })
    }

    /// The methods that the location takes (`limit_except`, or an `if` that refuses the others), and the status of the others.
    fn methods(&mut self, block: &'d [Directive]) -> (Vec<String>, u16) {
        let mut methods = Vec::new();
        let mut refusal = 405;
        for directive in block {
            match directive.name.as_str() {
                "if" => match refused_methods(directive) {
                    Some((only, status)) => {
                        (methods, refusal) = (only, status);
                        self.doc.report.exact(&directive.place, directive.shown(), "`methods` of the route");
                    }
                    None => self.condition(directive),
                },
                "limit_except" => {
                    let all_denied = directive
                        .block
                        .as_deref()
                        .unwrap_or_default()
                        .iter()
                        .all(|inner| inner.name == "deny" && inner.arg(0) == "all");
                    if all_denied {
                        (methods, refusal) = (directive.args.clone(), 403);
                        self.doc.report.exact(&directive.place, directive.shown(), "`methods` of the route");
                    } else {
                        // Nothing else protects the other methods.
                        (methods, refusal) = (directive.args.clone(), 501);
                        let how = "only `deny all` has an equivalent; other methods get 501, so that no other route takes them";
                        self.doc.report.left_out(&directive.place, directive.shown(), how);
                    }
                }
                _ => {}
            }
        }
        methods.iter_mut().for_each(|method| method.make_ascii_uppercase());
        methods.dedup();
        let without_head =
            methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD");
        if let Some(directive) = block.iter().find(|inner| inner.name == "if" && without_head && refusal != 403) {
            self.doc.report.differs(&directive.place, directive.shown(), "with GET, Weir takes HEAD");
        }
        (methods, refusal)
    }

    /// For a target that a `map` of the method decides: methods, and the variables that they make.
    fn method_variants(&self, block: &[Directive]) -> Option<Vec<MethodVariant>> {
        let pass = block.iter().find(|inner| inner.name == "proxy_pass")?.arg(0);
        let name = pass.split('$').nth(1)?;
        let name = name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
        let deciding = self.maps.get(name).filter(|map| map.arg(0) == "$request_method")?;
        let value = |map: &Directive, method: &str| -> Option<String> {
            let entries = map.block.as_deref()?;
            entries.iter().find(|entry| entry.name == method).map(|entry| entry.arg(0).to_owned())
        };
        let mut variants: Vec<(String, Vec<String>)> = Vec::new();
        for entry in deciding.block.as_deref()?.iter().take(64) {
            if entry.name == "default" || !entry.name.bytes().all(|b| b.is_ascii_uppercase() || b == b'-') {
                return None;
            }
            match variants.iter_mut().find(|(target, _)| target == entry.arg(0)) {
                Some((_, methods)) => methods.push(entry.name.clone()),
                None => variants.push((entry.arg(0).to_owned(), vec![entry.name.clone()])),
            }
        }
        let variants = variants.into_iter().map(|(_, methods)| {
            let maps = self.maps.iter().filter(|(_, map)| map.arg(0) == "$request_method");
            let variables = maps.filter_map(|(name, map)| Some(((*name).to_owned(), value(map, methods.first()?)?)));
            let variables = variables.collect();
            (methods, variables)
        });
        Some(variants.collect())
    }

    /// What the route does; `false` if it had to be closed.
    fn fill(
        &mut self,
        route: &mut Route,
        part: Part,
        name: &str,
        directive: &'d Directive,
        block: &'d [Directive],
        settings: &Settings<'d>,
    ) -> bool {
        let find = |name: &str| block.iter().find(|inner| inner.name == name);
        // `return` is decided before who may send requests.
        if let Some(inner) = find("return") {
            if let Err(why) = self.returns(route, inner, settings) {
                self.closed(route, &inner.place, &inner.shown(), &why);
                return false;
            }
            self.response_fields(route, settings);
            return true;
        }
        let rewrites: Vec<&Directive> = block.iter().filter(|inner| inner.name == "rewrite").collect();
        let forwards = block.iter().any(|inner| inner.name == "proxy_pass" || is_handler(&inner.name));
        if let ([one], false) = (rewrites.as_slice(), forwards) {
            // `permanent` or `redirect` of the location's own prefix; `return` would come before who may send requests too.
            let redirects = self.rewrite_redirect(one).unwrap_or_default();
            if let Some(same) = redirects.into_iter().find(|redirect| redirect.path.same(&route.path)) {
                route.keys = same.keys;
                self.response_fields(route, settings);
                return true;
            }
        }
        let done = match find("proxy_pass") {
            Some(pass) => self.proxy(route, part, name, pass, &rewrites, settings).map_err(|why| (pass, why)),
            None => {
                let what = block.iter().find(|inner| is_handler(&inner.name));
                if let Some(stub) = what.filter(|inner| inner.name == "stub_status") {
                    Err((stub, "metrics are on the admin listener (`admin`)".to_owned()))
                } else {
                    Err(match what.or_else(|| find("rewrite")).or_else(|| settings.one("root")) {
                        Some(inner) => (inner, handler_reason(&inner.name)),
                        None => (directive, "the location forwards nothing: Weir serves no files".to_owned()),
                    })
                }
            }
        };
        if let Err((inner, why)) = done {
            self.closed(route, &inner.place, &inner.shown(), &why);
            return false;
        }
        if let Err(unprotected) = self.protect(route, settings) {
            self.closed(route, &unprotected.place, &unprotected.what, &unprotected.why);
            return false;
        }
        self.body(route, settings);
        true
    }
}

pub(super) fn is_handler(name: &str) -> bool {
    matches!(
        name,
        "root"
            | "alias"
            | "try_files"
            | "fastcgi_pass"
            | "uwsgi_pass"
            | "scgi_pass"
            | "grpc_pass"
            | "memcached_pass"
            | "stub_status"
            | "empty_gif"
            | "autoindex"
            | "index"
            | "perl"
            | "js_content"
            | "mirror"
    ) || name.starts_with("content_by_lua")
}

fn handler_reason(name: &str) -> String {
    match name {
        "root" | "alias" | "try_files" | "index" | "autoindex" => "Weir serves no files".to_owned(),
        "grpc_pass" => "gRPC upstreams have no equivalent".to_owned(),
        "rewrite" => "a rewrite to another location has no equivalent".to_owned(),
        name => format!("`{name}` has no equivalent"),
    }
}

/// The methods of `if ($request_method !~ ^(GET|POST)$) { return 405; }`, with `limit_except`-like statuses.
fn refused_methods(directive: &Directive) -> Option<(Vec<String>, u16)> {
    let (variable, operator, pattern) = match directive.args.as_slice() {
        [variable, operator, pattern] => (variable, operator, pattern.strip_suffix(')')?),
        // Behind a quote the parenthesis is a word.
        [variable, operator, pattern, end] if end == ")" => (variable, operator, pattern.as_str()),
        _ => return None,
    };
    let variable = variable.strip_prefix('(')?;
    if variable != "$request_method" {
        return None;
    }
    let body = directive.block.as_deref()?;
    let status = body.iter().find(|inner| inner.name == "return").map(|inner| inner.arg(0))?;
    let status = match status {
        "403" | "405" => status.parse().ok()?,
        "444" => 400,
        _ => return None,
    };
    if !body.iter().all(|inner| matches!(inner.name.as_str(), "return" | "add_header")) {
        return None;
    }
    let token = |method: &str| !method.is_empty() && method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    let methods: Vec<String> = match operator.as_str() {
        "!=" => vec![pattern.to_owned()],
        "!~" | "!~*" => {
            let inner = pattern.trim_start_matches('^').trim_end_matches('$');
            let inner = inner
                .strip_prefix("(?:")
                .or_else(|| inner.strip_prefix('('))
                .map_or(Some(inner), |rest| rest.strip_suffix(')'))?;
            inner.split('|').map(str::to_ascii_uppercase).collect()
        }
        _ => return None,
    };
    methods.iter().all(|method| token(method)).then_some((methods, status))
}
