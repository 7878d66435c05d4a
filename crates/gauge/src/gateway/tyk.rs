//! Tyk 5: a gateway without dashboard and its applications as files. It keeps its state in a Redis, which has to be there.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use apidoc::Method;
use serde_json::{Map, Value, json};

use super::paths::pattern;
use super::text::{decoded, json as pretty, regex};
use super::{Command, File, Gateway, Locator, Model, PathEntry, Placement, Program, Ready, Unsupported, Written};

pub(super) struct Tyk;

impl Gateway for Tyk {
    fn name(&self) -> &'static str {
        "tyk"
    }

    fn title(&self) -> &'static str {
        "Tyk"
    }

    fn locator(&self) -> Locator {
        Locator {
            variable: "GAUGE_TYK",
            names: &["tyk"],
            hint: "Tyk Gateway 5: https://tyk.io/docs/apim/open-source/installation",
        }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let mut files = vec![
            File::new("tyk.conf", pretty(&conf(place))),
            // It does not start without templates of errors.
            File::new("templates/error.json", "{\n    \"error\": \"{{.Message}}\"\n}\n".to_owned()),
            File::new(
                "templates/error.xml",
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<error>{{.Message}}</error>\n".to_owned(),
            ),
        ];
        for (listen_path, paths) in applications(model) {
            let name = listen_path.trim_matches('/').to_owned();
            let id = if name.is_empty() { "api".to_owned() } else { format!("api-{}", plain(&name)) };
            files.push(File::new(&format!("apps/{id}.json"), pretty(&application(model, &id, &listen_path, &paths))));
        }
        let mut notes = vec![
            "it needs a Redis, by default at 127.0.0.1:6379; TYK_GW_STORAGE_HOST and TYK_GW_STORAGE_PORT say where else"
                .to_owned(),
        ];
        for (listen_path, paths) in applications(model) {
            if listen_path != "/" && paths.iter().any(|path| path.literal().as_deref() == Some(&listen_path)) {
                notes.push(format!("{listen_path}/ is forwarded like {listen_path}"));
            }
        }
        for path in &model.paths {
            let first = path.segments[0].literal().map(decoded);
            let template = path.template();
            if first.as_deref() == Some("tyk") || template == "/hello" {
                notes.push(format!("{template} does not reach the upstream: Tyk serves it itself"));
            }
        }
        notes.push(
            "a path with a dot segment, and a parameter with %2F, are refused with 403; other escapes may reach the upstream decoded"
                .to_owned(),
        );
        Ok(Written { files, notes, left_out: 0 })
    }

    fn command(&self, program: &Program, place: &Placement) -> Command {
        super::go(Command::new(program, &["start", "--conf", "tyk.conf"]), place)
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["version"])
    }

    fn ready(&self, place: &Placement) -> Ready {
        Ready::Http { address: place.listen, path: "/hello".to_owned(), status: 200 }
    }
}

fn conf(place: &Placement) -> Value {
    json!({
        "listen_address": place.listen.ip().to_string(),
        "listen_port": place.listen.port(),
        // Of the control API, which is on the same port: whoever knows it may change everything, and an empty one lets everybody in.
        "secret": secret(),
        "template_path": "templates",
        "app_path": "apps",
        "use_db_app_configs": false,
        "storage": {"type": "redis", "host": "127.0.0.1", "port": 6379, "optimisation_max_idle": 2000, "optimisation_max_active": 4000},
        "enable_analytics": false,
        "log_level": "error",
        "hash_keys": true,
        "close_connections": false,
        "proxy_enable_http2": false,
        "proxy_default_timeout": 60,
        "proxy_close_connections": false,
        "max_idle_connections_per_host": 256,
        "max_conn_time": 0,
        "http_server_options": {
            "read_timeout": 60,
            "write_timeout": 60,
            "enable_strict_routes": false,
            "skip_url_cleaning": true,
            "max_request_body_size": super::BODY_BYTES
        },
        "health_check_endpoint_name": "hello",
        "enable_http_profiler": false
    })
}

/// The paths by their first segment: an application has one address behind it, and where all paths of a segment go to one upstream none of
/// them has to be rewritten. Paths that begin with a parameter, and the root, make one application of all.
fn applications(model: &Model) -> Vec<(String, Vec<&PathEntry>)> {
    let first = |path: &PathEntry| path.segments.first().and_then(|segment| segment.literal()).map(str::to_owned);
    let separate = model.upstreams.len() > 1
        && model
            .paths
            .iter()
            .all(|path| first(path).is_some_and(|literal| !literal.is_empty() && !literal.contains('%')));
    if !separate {
        return vec![("/".to_owned(), model.paths.iter().collect())];
    }
    let mut by_first: BTreeMap<String, Vec<&PathEntry>> = BTreeMap::new();
    for path in &model.paths {
        by_first.entry(format!("/{}", first(path).unwrap_or_default())).or_default().push(path);
    }
    by_first.into_iter().collect()
}

fn application(model: &Model, id: &str, listen_path: &str, paths: &[&PathEntry]) -> Value {
    // The upstream of most paths needs no rewriting.
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for target in paths.iter().flat_map(|path| &path.targets) {
        *counts.entry(target.upstream).or_default() += target.routes.len();
    }
    let main = counts
        .iter()
        .max_by_key(|(upstream, count)| (**count, std::cmp::Reverse(**upstream)))
        .map_or(0, |(upstream, _)| *upstream);
    let mut allowed = Vec::new();
    let mut rewrites = Vec::new();
    for path in paths {
        let expression = expression(listen_path, path);
        let mut actions = Map::new();
        for target in &path.targets {
            for method in &target.methods {
                actions
                    .insert(method.to_string(), json!({"action": "no_action", "code": 200, "data": "", "headers": {}}));
                if target.upstream != main {
                    rewrites.push(json!({
                        "path": expression,
                        "method": method.as_str(),
                        "match_pattern": "^(.*)$",
                        "rewrite_to": format!("{}$1", model.upstreams[target.upstream].base_url())
                    }));
                }
            }
        }
        allowed.push(json!({"path": expression, "method_actions": actions}));
    }
    // Paths are compared decoded and passed on as they came: a dot segment would be taken for a parameter.
    let action = json!({"action": "no_action", "code": 200, "data": "", "headers": {}});
    let every: Map<String, Value> = Method::ALL.iter().map(|method| (method.to_string(), action.clone())).collect();
    let refused = json!([{"path": "/\\.{1,2}(?:/|$)", "method_actions": every}]);
    json!({
        "name": if model.title.is_empty() { id.to_owned() } else { format!("{} {listen_path}", model.title) },
        "api_id": id,
        "slug": id,
        "org_id": "default",
        "active": true,
        "use_keyless": true,
        "do_not_track": true,
        "disable_rate_limit": true,
        "disable_quota": true,
        "definition": {"location": "header", "key": "x-api-version"},
        "version_data": {
            "not_versioned": true,
            "default_version": "",
            "versions": {
                "Default": {
                    "name": "Default",
                    "use_extended_paths": true,
                    "extended_paths": {"black_list": refused, "white_list": allowed, "url_rewrites": rewrites}
                }
            }
        },
        "proxy": {
            "listen_path": listen_path,
            "target_url": model.upstreams[main].base_url(),
            "strip_listen_path": false,
            "preserve_host_header": false,
            "disable_strip_slash": true
        }
    })
}

/// What decoded paths are compared with: with the whole one in one place, and without the listen path in another, as versions differ.
fn expression(listen_path: &str, path: &PathEntry) -> String {
    let whole = pattern(&path.segments, |text| regex(&decoded(text)));
    let prefix = regex(listen_path);
    match whole.strip_prefix(&prefix) {
        Some("") => format!("^(?:{prefix}|/)$"),
        Some(rest) if rest.starts_with('/') && listen_path != "/" => format!("^(?:{prefix})?{rest}$"),
        _ => format!("^{whole}$"),
    }
}

/// 128 bits from the operating system's source of random numbers, which keys every `RandomState`.
fn secret() -> String {
    let half = || RandomState::new().hash_one(std::time::SystemTime::now());
    format!("{:016x}{:016x}", half(), half())
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}
