//! LiteLLM's `config.yaml`: its deployments become providers, its `model_list` models with candidates, on one AI route.

mod deployment;

use std::collections::{HashMap, HashSet};

use self::deployment::{Deployment, Served, is_model_name};
use crate::document::{Document, Entry, Listen, Map, Route, Value, map, text, texts, time, word};
use crate::pattern::Path;
use crate::report::{Report, SourceLocation};
use crate::source::{ImportError, Source};
use crate::tree::{self, Fields, Node};

/// LiteLLM's retries of a failed call where the file says nothing.
const RETRIES: u64 = 2;
/// Its deadline where the file says nothing, as its router has it, in milliseconds.
const TIMEOUT: u64 = 600_000;
/// Fallbacks of fallbacks that it follows.
const MAX_FALLBACKS: usize = 5;

/// The deployments that have one name.
struct Group {
    name: String,
    deployments: Vec<Deployment>,
    place: SourceLocation,
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
        if let Some(deployment) = deployment::read(source, &mut doc.report, node, &name) {
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.deployments.push(deployment),
                None => {
                    groups.push(Group { name, place: deployment.place.clone(), deployments: vec![deployment] });
                }
            }
        }
    }
    let settings = Settings::of(source, &root, &mut doc, &groups);

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

    let mut providers = Providers::default();
    for group in &groups {
        providers.write(&mut doc, group);
    }
    for group in &groups {
        model(&mut doc, group, &groups, &settings, &providers);
    }
    let path = Path::below("/v1/").map_err(|why| ImportError::new(&whole, why))?;
    let mut route = Route::new(&whole, "model_list", path);
    if groups.is_empty() {
        route.close();
        doc.report.left_out(&whole, "model_list", "no model of it can be served: the route responds with 501");
    } else {
        route.set("ai", Value::Map(Map::new()));
        if let Some(auth) = auth {
            route.set("auth", texts([auth]));
        }
        let limits = limits(&mut doc, &groups);
        if !limits.is_empty() {
            route.set("limits", texts(limits));
        }
    }
    doc.routes.push(route);
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
        "`/v1/*` is served; LiteLLM takes the same paths without /v1 too, and its own pages (/key, /ui, /health)",
    ),
    (
        "retries",
        "Weir tries a candidate at most twice, tells faults of a request from faults of a provider, and goes on to a fallback only for the latter; LiteLLM for any failed call",
    ),
    ("bodies", "no parameter is dropped, renamed or added but `model` and the count of tokens; no cost is counted"),
];

/// `litellm_settings`, `router_settings` and `general_settings`.
struct Settings {
    retries: u64,
    /// In milliseconds.
    timeout: u64,
    /// Names that stand for a model.
    aliases: HashMap<String, Vec<String>>,
    /// Models that are tried where one failed, in order.
    fallbacks: HashMap<String, Vec<String>>,
    /// Those of all models.
    default_fallbacks: Vec<String>,
}

impl Settings {
    fn of(source: &Source, root: &Node, doc: &mut Document, groups: &[Group]) -> Self {
        let mut out = Self {
            retries: RETRIES,
            timeout: TIMEOUT,
            aliases: HashMap::new(),
            fallbacks: HashMap::new(),
            default_fallbacks: Vec::new(),
        };
        // The router's own settings win.
        for name in ["general_settings", "litellm_settings", "router_settings"] {
            let Some(node) = root.get(name) else { continue };
            let fields = Fields::of(node);
            fields.skip(&["master_key", "set_verbose", "json_logs"]);
            if let Some(retries) = fields.whole("num_retries") {
                out.retries = retries.min(10);
            }
            if let Some(timeout) = fields.get("request_timeout").or_else(|| fields.get("timeout")).and_then(seconds) {
                out.timeout = timeout;
            }
            if let Some(strategy) = fields.text("routing_strategy").filter(|strategy| *strategy != "simple-shuffle") {
                let how = "candidates are drawn by weight, as `simple-shuffle` does; targets of one upstream are picked by `balance`";
                doc.report.differs(&source.at(node.line), format!("routing_strategy {strategy}"), how);
            }
            let read = Section { source, fields: &fields, groups };
            out.read_aliases(&read, &mut doc.report);
            out.read_fallbacks(&read, &mut doc.report);
            read.name_other_fallbacks(&mut doc.report);
            fields.name_rest(source, &mut doc.report, name);
        }
        let fields = Fields::of(root);
        fields.skip(&["model_list", "litellm_settings", "router_settings", "general_settings"]);
        fields.name_rest(source, &mut doc.report, "the file");
        out
    }

    fn read_aliases(&mut self, read: &Section<'_, '_>, report: &mut Report) {
        let mut known: HashSet<&str> = read.groups.iter().map(|group| group.name.as_str()).collect();
        for key in ["model_group_alias", "model_alias_map"] {
            let Some(aliases) = read.fields.get(key) else { continue };
            for (alias, line, target) in aliases.entries() {
                let (place, label) = (read.source.at(*line), format!("{key} {alias}"));
                let target = target.get("model").unwrap_or(target).text().unwrap_or_default();
                if !known.contains(target) {
                    report.left_out(&place, label, format!("{target} is not a model that was imported"));
                } else if !is_model_name(alias) || !known.insert(alias) {
                    report.left_out(&place, label, "not a valid name, or the name of a model");
                } else {
                    self.aliases.entry(target.to_owned()).or_default().push(alias.clone());
                    report.exact(&place, label, format!("`aliases` of {target}"));
                }
            }
        }
    }

    fn read_fallbacks(&mut self, read: &Section<'_, '_>, report: &mut Report) {
        for fallback in read.fields.get("fallbacks").map(Node::items).unwrap_or_default() {
            for (model, line, others) in fallback.entries() {
                let place = read.source.at(*line);
                let kept = read.imported(others, &place, &format!("fallback of {model}"), report);
                let label = format!("fallbacks of {model}");
                if read.is_model(model) {
                    report.exact(&place, label, "candidates of higher tiers");
                } else {
                    report.left_out(&place, label, NOT_IMPORTED);
                }
                self.fallbacks.entry(model.clone()).or_default().extend(kept);
            }
        }
        if let Some(defaults) = read.fields.get("default_fallbacks") {
            let place = tree::place(read.source, defaults);
            for other in read.imported(defaults, &place, "default_fallbacks", report) {
                report.exact(&place, format!("default_fallbacks: {other}"), "candidates of the last tiers");
                self.default_fallbacks.push(other);
            }
        }
    }

    /// The model, its fallbacks and the fallbacks of those, each once, in the order in which LiteLLM tries them.
    fn chain<'s>(&'s self, name: &'s str) -> Vec<&'s str> {
        let mut chain = vec![name];
        self.follow(name, 0, &mut chain);
        if chain.len() == 1 {
            for other in &self.default_fallbacks {
                if !chain.contains(&other.as_str()) {
                    chain.push(other);
                }
            }
        }
        chain
    }

    fn follow<'s>(&'s self, name: &str, depth: usize, chain: &mut Vec<&'s str>) {
        for other in self.fallbacks.get(name).into_iter().flatten() {
            if depth < MAX_FALLBACKS && !chain.contains(&other.as_str()) {
                chain.push(other);
                self.follow(other, depth + 1, chain);
            }
        }
    }
}

/// Why a name is not followed.
const NOT_IMPORTED: &str = "it is not a model that was imported";

/// One of the sections of settings.
struct Section<'r, 'n> {
    source: &'r Source,
    fields: &'r Fields<'n>,
    groups: &'r [Group],
}

impl Section<'_, '_> {
    fn is_model(&self, name: &str) -> bool {
        self.groups.iter().any(|group| group.name == name)
    }

    /// Those of the names that are models; the report has the others.
    fn imported(&self, names: &Node, place: &SourceLocation, what: &str, report: &mut Report) -> Vec<String> {
        let (kept, others): (Vec<String>, Vec<String>) =
            names.texts().into_iter().partition(|name| self.is_model(name));
        for other in others {
            report.left_out(place, format!("{what}: {other}"), NOT_IMPORTED);
        }
        kept
    }

    /// Kinds of fallbacks that Weir does in another way.
    fn name_other_fallbacks(&self, report: &mut Report) {
        let kinds = [
            (
                "context_window_fallbacks",
                "add those models as candidates, each with its `context`: Weir passes over what is too small",
            ),
            ("content_policy_fallbacks", "a request that a provider refuses for its content is not sent to another"),
        ];
        for (key, how) in kinds {
            if let Some(node) = self.fields.get(key).filter(|node| !node.items().is_empty()) {
                report.left_out(&tree::place(self.source, node), key, how);
            }
        }
    }
}

/// Providers that were written, and their upstreams.
#[derive(Default)]
struct Providers {
    names: HashMap<Served, String>,
    upstreams: HashMap<String, String>,
}

impl Providers {
    fn write(&mut self, doc: &mut Document, group: &Group) {
        for deployment in &group.deployments {
            let served = &deployment.served;
            if self.names.contains_key(served) {
                continue;
            }
            let note = format!("model {}", group.name);
            let upstream = match self.upstreams.get(&served.origin) {
                Some(upstream) => upstream.clone(),
                None => {
                    let variable = served.origin.starts_with("${");
                    let host = served.origin.split_once("://").map_or(served.origin.as_str(), |(_, host)| host);
                    let name = doc.name("upstreams", host.trim_matches(['$', '{', '}']));
                    let origin = if variable { Value::Variable } else { Value::Text };
                    let value = vec![("targets".to_owned(), Value::List(vec![origin(served.origin.clone())]))];
                    doc.upstreams.push(Entry {
                        name: name.clone(),
                        place: deployment.place.clone(),
                        note: note.clone(),
                        value,
                    });
                    self.upstreams.insert(served.origin.clone(), name.clone());
                    name
                }
            };
            let mut value: Map = vec![("api".to_owned(), word(served.api)), ("upstream".to_owned(), text(upstream))];
            if let Some(key) = &served.key {
                value.push(("keys".to_owned(), Value::List(vec![Value::Variable(format!("${{{key}}}"))])));
            }
            if served.base != "/v1" {
                let base = if served.base.is_empty() { "/" } else { &served.base };
                value.push(("base".to_owned(), text(base)));
            }
            let name = doc.name("providers", &served.provider);
            doc.providers.push(Entry { name: name.clone(), place: deployment.place.clone(), note, value });
            self.names.insert(served.clone(), name);
        }
    }
}

/// Writes a model: its deployments, then those of its fallbacks.
fn model(doc: &mut Document, group: &Group, groups: &[Group], settings: &Settings, providers: &Providers) {
    let chain = settings.chain(&group.name);
    let mut candidates: Vec<Map> = Vec::new();
    let mut known: HashSet<(&Served, &str)> = HashSet::new();
    let mut tier = 0;
    for name in &chain {
        let Some(one) = groups.iter().find(|other| other.name == *name) else { continue };
        // The same twice in a group is drawn twice as often; in a later group it was tried already.
        let mut drawn: Vec<(&Deployment, u64)> = Vec::new();
        for deployment in &one.deployments {
            let key = (&deployment.served, deployment.model.as_str());
            let same = drawn.iter_mut().find(|(other, _)| (&other.served, other.model.as_str()) == key);
            match same {
                Some((_, weight)) => *weight = weight.saturating_add(deployment.weight).min(u32::MAX.into()),
                None if known.insert(key) => drawn.push((deployment, deployment.weight)),
                None => {}
            }
        }
        tier += u32::from(!drawn.is_empty());
        let is_even = drawn.windows(2).all(|pair| pair[0].1 == pair[1].1);
        for (deployment, weight) in drawn {
            let Some(provider) = providers.names.get(&deployment.served) else { continue };
            let mut value: Map =
                vec![("provider".to_owned(), text(provider)), ("model".to_owned(), text(&deployment.model))];
            if tier > 1 {
                value.push(("tier".to_owned(), word(tier)));
            }
            if !is_even {
                value.push(("weight".to_owned(), word(weight)));
            }
            if let Some(tokens) = deployment.max_output {
                value.push(("max_output".to_owned(), word(tokens)));
            }
            candidates.push(value);
        }
    }
    let written: Vec<Value> = candidates.into_iter().map(Value::Map).collect();
    let attempts = (settings.retries + 1).saturating_mul(chain.len() as u64).min(written.len() as u64 * 2).max(1);
    let timeout = group.deployments.iter().find_map(|one| one.timeout).unwrap_or(settings.timeout);
    let mut value = Map::new();
    if let Some(aliases) = settings.aliases.get(&group.name) {
        value.push(("aliases".to_owned(), texts(aliases)));
    }
    let how = format!("a model with {} candidate{}", written.len(), if written.len() == 1 { "" } else { "s" });
    value.push(("candidates".to_owned(), Value::List(written)));
    value.push(("attempts".to_owned(), word(attempts)));
    let total = time(timeout.max(TIMEOUT));
    let deadlines = map([("first_token", time(timeout)), ("token_idle", time(timeout)), ("total", total)]);
    value.push(("timeouts".to_owned(), deadlines));
    let label = format!("model {}", group.name);
    doc.report.exact(&group.place, label.clone(), how);
    if group.deployments.windows(2).any(|pair| pair[0].timeout != pair[1].timeout) {
        let how = format!("one deadline for all candidates, {}", crate::units::duration(timeout));
        doc.report.differs(&group.place, format!("{label}: timeout"), how);
    }
    doc.models.push(Entry { name: group.name.clone(), place: group.place.clone(), note: label, value });
}

/// Limits of requests and tokens. A limit has one number, and a route serves all models.
fn limits(doc: &mut Document, groups: &[Group]) -> Vec<String> {
    let mut names = Vec::new();
    for what in ["rpm", "tpm"] {
        let of = |one: &Deployment| if what == "rpm" { one.rpm } else { one.tpm };
        let sums: Vec<(&Group, u64)> = groups
            .iter()
            .map(|group| (group, group.deployments.iter().filter_map(of).fold(0, u64::saturating_add)))
            .collect();
        let Some((first, number)) = sums.iter().find(|(_, sum)| *sum > 0).copied() else { continue };
        // Weir's own bound of a quota.
        let is_one = match what {
            "rpm" => groups.len() == 1,
            _ => sums.iter().all(|(_, sum)| *sum == number),
        } && number < 1 << 50;
        if !is_one {
            for (group, _) in sums.iter().filter(|(_, sum)| *sum > 0) {
                let how = match what {
                    "rpm" => {
                        "it is a weight; requests are counted before the model is known, and the route serves several"
                    }
                    _ => "it is a weight; a limit has one number for all models, and those of the models differ",
                };
                doc.report.left_out(&group.place, format!("model {}: {what}", group.name), how);
            }
            continue;
        }
        let name = doc.name("limits", what);
        let mut value = Map::new();
        if what == "tpm" {
            value.push(("unit".to_owned(), word("tokens")));
        }
        value.push(("algorithm".to_owned(), text("fixed_window")));
        value.push(("key".to_owned(), text(if what == "tpm" { "model" } else { "global" })));
        value.push(("quota".to_owned(), word(number)));
        value.push(("window".to_owned(), word("1m")));
        let note = format!("{what} of its deployments");
        doc.limits.push(Entry { name: name.clone(), place: first.place.clone(), note, value });
        let how = "one limit for all deployments of a model together, in each Weir; LiteLLM may only draw by it";
        for (group, _) in &sums {
            doc.report.differs(&group.place, format!("model {}: {what}", group.name), how);
        }
        names.push(name);
    }
    names
}

/// A number of seconds, in milliseconds.
fn seconds(node: &Node) -> Option<u64> {
    node.number().filter(|seconds| (0.0..1e9).contains(seconds)).map(|seconds| (seconds * 1000.0) as u64)
}
