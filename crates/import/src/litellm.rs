//! LiteLLM's `config.yaml`.
//!
//! Weir's routes look at paths, hosts, methods and header fields; which model a request names is in its body. So one group of deployments that
//! speak OpenAI's API becomes a route for `/v1/*`; with several groups each becomes an upstream, and the route is closed, because any choice
//! among them would be a guess.

use crate::document::{self, Document, Entry, Listen, Map, Route, Value, map, text, texts, time, word};
use crate::pattern::{Path, encode};
use crate::report::Place;
use crate::source::{ImportError, Source};
use crate::tree::{self, Fields, Node};

/// Providers that speak OpenAI's API as it comes; the others need a translation.
const SAME_API: [&str; 9] = [
    "openai",
    "hosted_vllm",
    "vllm",
    "openai_like",
    "litellm_proxy",
    "llamafile",
    "lm_studio",
    "text-completion-openai",
    "xinference",
];

/// A deployment of a model.
struct Deployment {
    url: String,
    weight: u64,
    /// Name of the environment variable of its key.
    key: Option<String>,
    rpm: Option<u64>,
    timeout: Option<u64>,
    place: Place,
}

/// The deployments that have one name.
struct Group {
    name: String,
    deployments: Vec<Deployment>,
}

/// Reads a file.
pub(crate) fn read(source: &Source) -> Result<Document, ImportError> {
    let root = tree::yaml(source)?;
    let Some(models) = root.get("model_list").filter(|models| !models.items().is_empty()) else {
        return Err(ImportError::new(
            &source.at(0),
            "there is no `model_list` in it; is this a configuration of LiteLLM?",
        ));
    };
    let mut doc = Document::default();
    let whole = source.at(0);
    let mut groups: Vec<Group> = Vec::new();
    for node in models.items() {
        let name = node.get("model_name").and_then(Node::text).unwrap_or_default().to_owned();
        let fields = Fields::of(node);
        fields.skip(&["model_name", "litellm_params", "model_info"]);
        fields.name_rest(source, &mut doc.report, &format!("model {name}"));
        if let Some(deployment) = deployment(source, &mut doc, node, &name) {
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.deployments.push(deployment),
                None => groups.push(Group { name, deployments: vec![deployment] }),
            }
        }
    }
    let settings = ["litellm_settings", "router_settings"].map(|key| root.get(key));
    let setting = |key: &str| settings.iter().flatten().find_map(|node| node.get(key));
    let retries = setting("num_retries").and_then(Node::whole).unwrap_or(2).min(10);
    let total = setting("request_timeout").or_else(|| setting("timeout")).and_then(seconds).unwrap_or(600_000);
    for (name, node) in [
        ("litellm_settings", settings[0]),
        ("router_settings", settings[1]),
        ("general_settings", root.get("general_settings")),
    ] {
        let Some(node) = node else { continue };
        let fields = Fields::of(node);
        fields.skip(&["num_retries", "request_timeout", "timeout", "master_key", "set_verbose", "json_logs"]);
        if let Some(strategy) = fields.text("routing_strategy") {
            let how = "targets are picked in turn, by weight; `balance: least_request` or `ewma` may fit better";
            doc.report.differs(&source.at(node.line), format!("routing_strategy {strategy}"), how);
        }
        fields.name_rest(source, &mut doc.report, name);
    }
    let fields = Fields::of(&root);
    fields.skip(&["model_list", "litellm_settings", "router_settings", "general_settings"]);
    fields.name_rest(source, &mut doc.report, "the file");

    doc.report.differs(
        &whole,
        "listen",
        "LiteLLM's own 0.0.0.0:4000 was written: `--host` and `--port` are not in the file",
    );
    doc.listen.push(Listen { place: whole.clone(), value: text("0.0.0.0:4000") });
    let auth = root.get("general_settings").and_then(|node| node.get("master_key")).map(|key| {
        let place = tree::place(source, key);
        let how =
            "no key is copied: `weir keys create NAME --file keys.yaml` makes keys, looked for where Weir is started";
        doc.report.left_out(&place, "master_key", how);
        let name = doc.name("auth", "keys");
        let value = vec![(
            "api_key".to_owned(),
            map([("in", texts(["bearer", "header:x-api-key"])), ("store", map([("file", text("keys.yaml"))]))]),
        )];
        doc.auth.push(Entry { name: name.clone(), place, note: "master_key".to_owned(), value });
        name
    });
    // A name that was left out counts: its requests must not go to the deployments of another.
    let mut names: Vec<&str> =
        models.items().iter().filter_map(|node| node.get("model_name").and_then(Node::text)).collect();
    names.sort_unstable();
    names.dedup();
    let count = if groups.is_empty() { 0 } else { names.len() };
    for group in &groups {
        write(&mut doc, group, retries, total, auth.as_deref(), count == 1);
    }
    if count != 1 {
        let mut route =
            Route::new(&whole, "model_list", Path::below("/v1/").map_err(|why| ImportError::new(&whole, why))?);
        route.close();
        if count > 1 {
            let how = "the model that a request names is in its body, which Weir's routes do not look at: each group is an upstream, and the route responds with 501 until you choose one";
            doc.report.left_out(&whole, format!("choice among {}", names.join(", ")), how);
        }
        doc.routes.push(route);
    }
    for (what, how) in WHOLE {
        doc.report.differs(&whole, what, how);
    }
    doc.report.sort();
    Ok(doc)
}

/// What holds for every file.
const WHOLE: [(&str, &str); 3] = [
    (
        "paths",
        "`/v1/*` is forwarded; LiteLLM takes the same paths without /v1 too, and its own pages (/key, /ui, /health)",
    ),
    ("retries", "Weir sends a POST again only if nothing of it was sent; LiteLLM any failed call"),
    ("bodies", "they pass byte for byte: no parameter is dropped, renamed or added, no cost is counted"),
];

fn deployment(source: &Source, doc: &mut Document, node: &Node, name: &str) -> Option<Deployment> {
    let place = tree::place(source, node);
    let label = format!("model {name}");
    let params = node.get("litellm_params")?;
    let fields = Fields::of(params);
    let model = fields.text("model").unwrap_or_default();
    let (provider, plain) = model.split_once('/').unwrap_or(("openai", model));
    if !SAME_API.contains(&provider) {
        doc.report.left_out(&place, format!("{label}: {model}"), format!("the API of {provider} needs a translation"));
        return None;
    }
    if plain != name {
        let how = format!("requests name {name}, which the deployment knows as {plain}: Weir does not change the body");
        doc.report.left_out(&place, format!("{label}: name of the model"), how);
    }
    let base = fields.text("api_base").or_else(|| fields.text("base_url")).unwrap_or("https://api.openai.com/v1");
    let (scheme, rest) = base.split_once("://").unwrap_or(("", base));
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let valid = |c: char| c.is_ascii_alphanumeric() || "-_.:[]".contains(c);
    let path = encode(path.trim_end_matches('/')).ok().filter(|_| !path.contains('?'));
    let (Some(path), true) =
        (path, matches!(scheme, "http" | "https") && !authority.is_empty() && authority.chars().all(valid))
    else {
        doc.report.left_out(
            &place,
            format!("{label}: api_base {base}"),
            "is not a URL that Weir connects to; `os.environ/` is read for keys only",
        );
        return None;
    };
    let key = fields.text("api_key").and_then(|key| match key.strip_prefix("os.environ/") {
        Some(variable) if !variable.is_empty() && variable.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') => {
            Some(variable.to_owned())
        }
        _ => {
            if !matches!(key, "" | "none" | "None" | "EMPTY" | "dummy" | "fake-key") {
                doc.report.left_out(
                    &place,
                    format!("{label}: api_key"),
                    "no key is copied: put it into an environment variable and set `Authorization` with it",
                );
            }
            None
        }
    });
    if params.get("tpm").is_some() {
        fields.skip(&["tpm"]);
        doc.report.left_out(&place, format!("{label}: tpm"), "Weir's limits count requests, not tokens");
    }
    let deployment = Deployment {
        url: format!("{scheme}://{authority}{path}"),
        weight: fields.whole("weight").unwrap_or(1).clamp(1, 1_000_000),
        key,
        rpm: fields.whole("rpm").filter(|&rpm| rpm > 0),
        timeout: fields.get("timeout").and_then(seconds),
        place,
    };
    fields.name_rest(source, &mut doc.report, &label);
    Some(deployment)
}

fn write(doc: &mut Document, group: &Group, retries: u64, total: u64, auth: Option<&str>, only: bool) {
    let Some(first) = group.deployments.first() else { return };
    let place = first.place.clone();
    let label = format!("model {}", group.name);
    let name = doc.name("upstreams", &group.name);
    let equal = group.deployments.windows(2).all(|pair| pair[0].weight == pair[1].weight);
    let targets = group
        .deployments
        .iter()
        .map(|one| if equal { text(&one.url) } else { map([("url", text(&one.url)), ("weight", word(one.weight))]) });
    let retry = if retries == 0 {
        word("none")
    } else {
        map([
            ("extra_attempts", word(retries)),
            ("on", Value::List(["connect", "reset", "try_timeout"].map(word).into())),
        ])
    };
    let total = group.deployments.iter().find_map(|one| one.timeout).unwrap_or(total);
    let value: Map = vec![
        ("targets".to_owned(), Value::List(targets.collect())),
        ("balance".to_owned(), text("round_robin")),
        ("retry".to_owned(), retry),
        ("timeouts".to_owned(), map([("first_byte", time(total)), ("idle", time(total)), ("total", time(total))])),
    ];
    doc.upstreams.push(Entry { name: name.clone(), place: place.clone(), note: label.clone(), value });
    doc.report.exact(&place, label.clone(), format!("upstream {name}"));
    if !only {
        return;
    }
    let Ok(path) = Path::below("/v1/") else { return };
    let mut route = Route::new(&place, label.clone(), path);
    route.set("upstream", text(&name));
    route.set_in("rewrite", "prefix", text("/"));
    let host = first.url.split_once("://").map_or("", |(_, rest)| rest.split('/').next().unwrap_or_default());
    route.set_in("rewrite", "host", text(host));
    if let Some(auth) = auth {
        route.set("auth", texts([auth]));
    }
    let rpm: u64 = group.deployments.iter().filter_map(|one| one.rpm).sum();
    if rpm > 0 {
        let limit = doc.name("limits", "rpm");
        let value = vec![
            ("algorithm".to_owned(), text("fixed_window")),
            ("key".to_owned(), text("global")),
            ("quota".to_owned(), word(rpm)),
            ("window".to_owned(), word("1m")),
        ];
        doc.limits.push(Entry { name: limit.clone(), place: place.clone(), note: format!("{label}: rpm"), value });
        doc.report.differs(&place, format!("{label}: rpm"), "one limit for all deployments together, in each Weir");
        route.set("limits", texts([limit]));
    }
    let keys: Vec<&String> = group.deployments.iter().filter_map(|one| one.key.as_ref()).collect();
    match keys.as_slice() {
        [] => {}
        [key, rest @ ..] if keys.len() == group.deployments.len() && rest.iter().all(|other| other == key) => {
            route.edit_header("request", "set", "Authorization", Value::Variable(format!("Bearer ${{{key}}}")));
            doc.report.exact(
                &place,
                format!("{label}: api_key"),
                format!("`Authorization` with ${{{key}}}, which has to be set where Weir starts"),
            );
        }
        _ => doc.report.left_out(
            &place,
            format!("{label}: api_key"),
            "the deployments have different keys, and a route of Weir sends one",
        ),
    }
    doc.routes.push(route);
    document::set(&mut doc.top, "server", map([("body", text("32MiB"))]));
}

/// A number of seconds, in milliseconds.
fn seconds(node: &Node) -> Option<u64> {
    node.number().filter(|seconds| (0.0..1e9).contains(seconds)).map(|seconds| (seconds * 1000.0) as u64)
}
