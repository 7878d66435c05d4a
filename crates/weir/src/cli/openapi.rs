//! `weir openapi`

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};
use weir::config::raw::shape::Map;
use weir::config::{
    Action, Config, Loaded, PathPattern, Route, Segment, described_path, load_description, load_file,
    process_environment,
};

use super::{BAD_CONFIGURATION, print, refuse};

/// Something was found that a pipeline should stop at.
const FOUND: u8 = 3;

/// Compares descriptions of APIs.
#[derive(Args)]
pub(super) struct Openapi {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Say what changed between two descriptions. Exit code 3 when a client of the old one may fail.
    Diff {
        /// The older description.
        old: PathBuf,
        /// The newer one.
        new: PathBuf,
    },
    /// Say what is routed and not described, and the reverse. Exit code 3 when there is a difference.
    Drift {
        /// Configuration file.
        file: PathBuf,
        /// A description to compare all routes with, in place of those of `apis`.
        #[arg(long)]
        spec: Option<PathBuf>,
    },
}

impl Openapi {
    pub(super) fn run(self) -> ExitCode {
        match self.verb {
            Verb::Diff { old, new } => diff(&old, &new),
            Verb::Drift { file, spec } => match load_file(&file, &process_environment) {
                Ok(loaded) => drift(&file, &loaded, spec.as_deref()),
                Err(error) => refuse(&error),
            },
        }
    }
}

fn wrong(problems: &[String]) -> ExitCode {
    problems.iter().for_each(|problem| eprintln!("{problem}"));
    ExitCode::from(BAD_CONFIGURATION)
}

fn found(text: &str, is_found: bool) -> ExitCode {
    match print(text) {
        ExitCode::SUCCESS if is_found => ExitCode::from(FOUND),
        code => code,
    }
}

fn diff(old: &Path, new: &Path) -> ExitCode {
    let source = apidoc::Files::anywhere();
    let changes = match openapi::diff((&source, &old.to_string_lossy()), (&source, &new.to_string_lossy())) {
        Ok(changes) => changes,
        Err(problems) => return wrong(&problems),
    };
    let mut text = String::new();
    for change in &changes {
        let kind = if change.is_breaking { "breaking" } else { "change" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{kind:8}  {}: {}", change.operation, change.what);
    }
    let breaking = changes.iter().filter(|change| change.is_breaking).count();
    let _ = writeln!(text, "{} changes, {breaking} of them breaking", changes.len());
    found(&text, breaking > 0)
}

/// An API, and the routes that are to be its own.
struct Compared<'c> {
    name: &'c str,
    spec: PathBuf,
    base: Option<String>,
    /// Upstreams whose routes are the API's; none: all routes are.
    upstreams: Option<Vec<&'c str>>,
}

fn drift(file: &Path, loaded: &Loaded, spec: Option<&Path>) -> ExitCode {
    let folder = file.parent().unwrap_or(Path::new(""));
    let apis: Vec<Compared<'_>> = match spec {
        Some(spec) => vec![Compared { name: "description", spec: spec.to_owned(), base: None, upstreams: None }],
        None => of_file(&loaded.file.apis, folder),
    };
    if apis.is_empty() {
        eprintln!("weir: {} has no `apis`; name a description with --spec", file.display());
        return ExitCode::from(BAD_CONFIGURATION);
    }
    let mut text = String::new();
    for api in apis {
        match compare(&loaded.config, &api) {
            Ok(lines) => lines.iter().for_each(|line| text.push_str(&format!("{}: {line}\n", api.name))),
            Err(problems) => return wrong(&problems),
        }
    }
    let is_found = !text.is_empty();
    if !is_found {
        text.push_str("every route is described, and every described operation has a route\n");
    }
    found(&text, is_found)
}

fn of_file<'f>(apis: &'f Map<weir::config::raw::Api>, folder: &Path) -> Vec<Compared<'f>> {
    let base = |base: &str| (base != "from_spec").then(|| base.trim_end_matches('/').to_owned());
    apis.iter()
        .map(|(name, api)| Compared {
            name,
            spec: folder.join(&api.spec.value),
            base: base(&api.base),
            upstreams: Some(upstreams(api)),
        })
        .collect()
}

fn upstreams(api: &weir::config::raw::Api) -> Vec<&str> {
    let one = api.upstream.iter().map(|name| name.value.as_str());
    let split = api.split.iter().flat_map(|split| split.upstreams.iter().map(|(name, _)| name.value.as_str()));
    one.chain(split).collect()
}

fn compare(config: &Config, api: &Compared<'_>) -> Result<Vec<String>, Vec<String>> {
    let options = openapi::Options { base: api.base.clone(), ..openapi::Options::default() };
    let described = load_description(&api.spec, &options)?;
    let mut lines = Vec::new();
    let mut known: Vec<(PathPattern, &str)> = Vec::new();
    for operation in &described.operations {
        let title = format!("{} {}{} (`{}`)", operation.method, operation.base, operation.path, operation.id);
        let Ok(pattern) = described_path(operation) else {
            lines.push(format!("described, and no route can have its path: {title}"));
            continue;
        };
        let pattern = anonymous(&pattern);
        let takes = |route: &&Route| anonymous(&route.matcher.path) == pattern && has_method(route, operation.method);
        match config.routes.iter().find(takes) {
            None => lines.push(format!("described, not routed: {title}")),
            Some(route) if route.api.is_none() && api.upstreams.is_some() => {
                lines.push(format!("described, and taken by the route `{}` of the file: {title}", route.name));
            }
            Some(_) => {}
        }
        known.push((pattern, operation.method));
    }
    for route in config.routes.iter().filter(|route| is_meant(config, route, api)) {
        let pattern = anonymous(&route.matcher.path);
        let mut methods: Vec<&str> = route.matcher.methods.iter().map(|method| &**method).collect();
        // HEAD comes with GET, and is rarely described.
        methods.retain(|method| *method != "HEAD");
        let described: Vec<&str> = known.iter().filter(|(one, _)| *one == pattern).map(|(_, method)| *method).collect();
        let path = &route.matcher.path;
        match (described.is_empty(), methods.is_empty()) {
            (true, _) => lines.push(format!("routed, not described: {path} (`{}`)", route.name)),
            (false, true) => lines.push(format!(
                "routed with any method, described with {}: {path} (`{}`)",
                described.join(", "),
                route.name
            )),
            (false, false) => {
                for method in methods.into_iter().filter(|method| !described.contains(method)) {
                    lines.push(format!("routed, not described: {method} {path} (`{}`)", route.name));
                }
            }
        }
    }
    Ok(lines)
}

/// Whether a route of the file is one of the API's: it leads to its upstream.
fn is_meant(config: &Config, route: &Route, api: &Compared<'_>) -> bool {
    let Action::Proxy(proxy) = &route.action else { return false };
    let leads_there = api
        .upstreams
        .as_ref()
        .is_none_or(|names| proxy.first_choices().any(|id| names.contains(&&*config.upstreams[id.0].name)));
    route.api.is_none() && leads_there
}

fn has_method(route: &Route, method: &str) -> bool {
    route.matcher.methods.is_empty() || route.matcher.methods.iter().any(|own| &**own == method)
}

/// The pattern without the names of its parameters.
fn anonymous(pattern: &PathPattern) -> PathPattern {
    match pattern {
        PathPattern::Template { segments, wildcard } => PathPattern::Template {
            segments: segments
                .iter()
                .map(|segment| match segment {
                    Segment::Param(_) => Segment::Param("".into()),
                    literal => literal.clone(),
                })
                .collect(),
            wildcard: *wildcard,
        },
        other => other.clone(),
    }
}
