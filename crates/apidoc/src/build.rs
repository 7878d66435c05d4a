//! What all formats share when operations become the model: templates, names, servers, and the checks across operations.

use crate::diagnostic::{Code, Diagnostic, Report};
use crate::model::{Api, Body, Method, Operation, Parameter, Security, SecurityScheme, Server, Type};
use crate::source::Limits;
use crate::template::{self, Template};
use crate::tree::Node;
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Where an operation is in its document, for diagnostics.
#[derive(Clone, Debug)]
pub(crate) enum Origin<'a> {
    Node(Node<'a>),
    Line(&'a str, u32),
}

impl Origin<'_> {
    fn place(&self) -> Option<(u32, u32)> {
        match self {
            Origin::Node(node) => Some(node.place()),
            Origin::Line(..) => None,
        }
    }

    pub(crate) fn diagnostic(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        match self {
            Origin::Node(node) => node.diagnostic(code, message),
            Origin::Line(file, line) => Diagnostic::at_line(code, file, *line, None, message),
        }
    }
}

/// Parameters by place.
#[derive(Clone, Debug, Default)]
pub(crate) struct Params {
    pub(crate) path: BTreeMap<String, Parameter>,
    pub(crate) query: BTreeMap<String, Parameter>,
    pub(crate) header: BTreeMap<String, Parameter>,
    pub(crate) cookie: BTreeMap<String, Parameter>,
}

/// An operation as a reader found it.
pub(crate) struct Draft<'a> {
    pub(crate) origin: Origin<'a>,
    pub(crate) id: Option<String>,
    pub(crate) method: Method,
    pub(crate) template: Template,
    pub(crate) servers: Vec<Server>,
    pub(crate) params: Params,
    pub(crate) body: Option<Body>,
    pub(crate) security: Security,
}

impl Draft<'_> {
    /// How many values the operation adds to the model; long text counts as many.
    fn weight(&self) -> u64 {
        let params = &self.params;
        let all = params
            .path
            .values()
            .chain(params.query.values())
            .chain(params.header.values())
            .chain(params.cookie.values());
        let body = self.body.as_ref();
        let fields = body.map(|b| b.params.values()).into_iter().flatten();
        let example = body.and_then(|b| b.example.as_ref()).map_or(0, json_weight);
        all.chain(fields).map(parameter_weight).fold(1 + example, u64::saturating_add)
    }
}

fn text_weight(text: &str) -> u64 {
    1 + text.len() as u64 / 64
}

fn parameter_weight(parameter: &Parameter) -> u64 {
    let values = parameter.values.iter().chain(&parameter.example).chain(&parameter.default).map(json_weight);
    let texts = parameter.pattern.iter().chain(&parameter.format).map(|text| text_weight(text));
    values.chain(texts).fold(1, u64::saturating_add)
}

fn json_weight(json: &Json) -> u64 {
    match json {
        Json::String(text) => text_weight(text),
        Json::Array(items) => items.iter().map(json_weight).fold(1, u64::saturating_add),
        Json::Object(map) => {
            map.iter().map(|(key, value)| text_weight(key) + json_weight(value)).fold(1, u64::saturating_add)
        }
        _ => 1,
    }
}

/// Collects operations and makes the model of them.
pub(crate) struct Builder<'a, 'r> {
    pub(crate) api: Api,
    pub(crate) report: &'r mut Report,
    pub(crate) limits: &'a Limits,
    origins: Vec<Origin<'a>>,
    /// Values in the model so far.
    weight: u64,
    /// A limit was passed: what follows is not worth reading.
    full: bool,
}

impl<'a, 'r> Builder<'a, 'r> {
    pub(crate) fn new(limits: &'a Limits, report: &'r mut Report) -> Self {
        Self { api: Api::default(), report, limits, origins: Vec::new(), weight: 0, full: false }
    }

    /// Whether a limit was passed, so that reading more is of no use.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// Reads the template `path`; a fault is reported at `origin`.
    pub(crate) fn template(&mut self, path: &str, origin: &Origin<'a>) -> Option<Template> {
        match template::parse(path) {
            Ok(template) => {
                for remark in &template.remarks {
                    self.report.warn(origin.diagnostic(Code::PassedOver, remark));
                }
                Some(template)
            }
            Err(why) => {
                self.report.error(origin.diagnostic(Code::Invalid, why));
                None
            }
        }
    }

    /// Adds an operation. Path parameters are made to be those of the template.
    pub(crate) fn push(&mut self, draft: Draft<'a>) {
        self.weight = self.weight.saturating_add(draft.weight());
        let too_many = self.api.operations.len() >= self.limits.operations;
        if self.full || too_many || self.weight > self.limits.model_values {
            if !self.full {
                let limits = self.limits;
                let text = match too_many {
                    true => format!("the description has more than {} operations", limits.operations),
                    false => format!("the model would have more than {} values", limits.model_values),
                };
                self.report.error(draft.origin.diagnostic(Code::TooLarge, text));
            }
            self.full = true;
            return;
        }
        let Draft { origin, id, method, template, servers, mut params, body, security } = draft;
        let path_params = self.path_params(&template, &mut params, method, &origin);
        for (name, exploded) in &template.query {
            let list = exploded.then_some(crate::model::ListFormat::Multi);
            let kind = if *exploded { Type::Array } else { Type::String };
            params.query.entry(name.clone()).or_insert(Parameter { list, ..Parameter::of(kind) });
        }
        for (name, value) in &template.fixed_query {
            let fixed =
                Parameter { required: true, values: vec![value.as_str().into()], ..Parameter::of(Type::String) };
            params.query.entry(name.clone()).or_insert(fixed);
        }
        if body.is_some() && matches!(method, Method::Get | Method::Head | Method::Trace) {
            let text = format!("a body with {method} has no meaning (RFC 9110, section 9.3.1), but it is kept");
            self.report.warn(origin.diagnostic(Code::Assumed, text));
        }
        self.api.operations.push(Operation {
            id: id.unwrap_or_default(),
            method,
            base_path: String::new(),
            endpoint_path: template.path,
            servers,
            path_params,
            query_params: params.query,
            header_params: params.header,
            cookie_params: params.cookie,
            body,
            security,
        });
        self.origins.push(origin);
    }

    fn path_params(
        &mut self,
        template: &Template,
        params: &mut Params,
        method: Method,
        origin: &Origin<'a>,
    ) -> BTreeMap<String, Parameter> {
        let mut found = BTreeMap::new();
        for name in &template.names {
            let mut parameter = params.path.remove(name).unwrap_or_else(|| {
                let text =
                    format!("the variable '{name}' of the path is not described for {method}; it is taken to be text");
                self.report.warn(origin.diagnostic(Code::Assumed, text));
                Parameter::of(Type::String)
            });
            parameter.required = true;
            if let Some((_, pattern)) = template.patterns.iter().find(|(n, _)| n == name) {
                parameter.pattern.get_or_insert_with(|| pattern.clone());
            }
            found.insert(name.clone(), parameter);
        }
        for name in params.path.keys() {
            let text = format!(
                "the path parameter '{name}' of {method} is not in the path {}; it is passed over",
                template.path
            );
            self.report.warn(origin.diagnostic(Code::PassedOver, text));
        }
        found
    }

    /// The model: identifiers made and made unique, base paths filled in, operations that clash reported.
    pub(crate) fn finish(mut self) -> Api {
        self.identify();
        self.report.places = self.origins.iter().map(Origin::place).collect();
        let mut seen: HashMap<(Method, String, String), usize> = HashMap::new();
        let mut clashes = Vec::new();
        let mut urls = HashSet::new();
        self.api.servers.retain(|s| urls.insert(s.url.clone()));
        for (i, operation) in self.api.operations.iter_mut().enumerate() {
            let servers = if operation.servers.is_empty() { &self.api.servers } else { &operation.servers };
            operation.base_path = servers.first().map(|s| s.url.clone()).unwrap_or_default();
            let key = (operation.method, operation.base_path.clone(), template::anonymous(&operation.endpoint_path));
            if let Some(first) = seen.insert(key, i) {
                clashes.push((first, i));
            }
        }
        for (first, second) in clashes {
            let (a, b) = (&self.api.operations[first], &self.api.operations[second]);
            if a.endpoint_path == b.endpoint_path {
                let text = format!("{} {} is described twice", b.method, b.endpoint_path);
                self.report.error(self.origins[second].diagnostic(Code::Invalid, text));
            } else {
                let text = format!("{} {} matches the same requests as {}", b.method, b.endpoint_path, a.endpoint_path);
                self.report.warn(self.origins[second].diagnostic(Code::Assumed, text));
            }
        }
        self.api
    }

    fn identify(&mut self) {
        let mut taken = UsedNames::new();
        // given identifiers first, so that a made one never takes the name of a given one
        for (operation, origin) in self.api.operations.iter_mut().zip(&self.origins) {
            if operation.id.is_empty() {
                continue;
            }
            let unique = unique(&operation.id, &mut taken);
            if unique != operation.id {
                let text =
                    format!("the identifier '{}' is used before; this operation is called '{unique}'", operation.id);
                self.report.warn(origin.diagnostic(Code::Assumed, text));
                operation.id = unique;
            }
        }
        for operation in &mut self.api.operations {
            if operation.id.is_empty() {
                operation.id = unique(&made_id(operation.method, &operation.endpoint_path), &mut taken);
            }
        }
    }
}

/// `get_active_auctionID` of GET and `/active/{auctionID}`.
pub(crate) fn made_id(method: Method, path: &str) -> String {
    let mut id = method.lower().to_owned();
    for word in path.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()) {
        id.push('_');
        id.push_str(word);
    }
    id
}

/// Names in use, each with the number that was last put behind it.
type UsedNames = HashMap<String, u32>;

fn unique(id: &str, taken: &mut UsedNames) -> String {
    let mut name = id.to_owned();
    let mut n = taken.get(id).copied().unwrap_or(1);
    while taken.contains_key(&name) {
        n += 1;
        name = format!("{id}_{n}");
    }
    taken.insert(id.to_owned(), n);
    taken.entry(name.clone()).or_insert(1);
    name
}

/// Whether a title such as RAML's `displayName` can serve as an identifier.
pub(crate) fn is_identifier(text: &str) -> bool {
    !text.is_empty() && text.len() <= 100 && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// A server from a URL that may be relative: `v1`, `./v1` and `/v1/` are `/v1`. Query and fragment are dropped with a warning.
pub(crate) fn server(url: &str, description: Option<&str>, origin: &Origin<'_>, report: &mut Report) -> Server {
    let mut url = url.trim();
    if let Some(end) = url.find(['?', '#']) {
        report.warn(origin.diagnostic(Code::PassedOver, "query and fragment of the server's URL are dropped"));
        url = &url[..end];
    }
    let mut server = Server::new(url);
    if let Some(rest) = server.url.strip_prefix("//") {
        report.warn(origin.diagnostic(Code::Assumed, "the server's URL has no scheme; http is assumed"));
        server.url = format!("http://{rest}");
    } else if !server.url.contains("://") && !server.url.is_empty() && !server.url.starts_with('/') {
        server.url = format!("/{}", server.url.trim_start_matches("./")).trim_end_matches(['/', '.']).to_owned();
    }
    server.description = description.map(|d| d.trim().to_owned()).filter(|d| !d.is_empty());
    server
}

/// Replaces `{name}` in a URL by what `value` gives; names for which it gives nothing stay and are returned.
pub(crate) fn substitute(url: &str, mut value: impl FnMut(&str) -> Option<String>) -> (String, Vec<String>) {
    let mut out = String::with_capacity(url.len());
    let mut open = Vec::new();
    let mut rest = url;
    while let Some(start) = rest.find('{') {
        let Some(end) = rest[start..].find('}').map(|e| start + e) else {
            break;
        };
        out.push_str(&rest[..start]);
        let name = &rest[start + 1..end];
        match value(name) {
            Some(value) => out.push_str(&value),
            None => {
                out.push_str(&rest[start..=end]);
                open.push(name.to_owned());
            }
        }
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    (out, open)
}

/// Which of several media types is sent: JSON, then a form, then the first.
pub(crate) fn preferred<'m>(types: &[&'m str]) -> Option<&'m str> {
    let rank = |m: &&str| {
        let bare = bare(m);
        match bare.as_str() {
            "application/json" => 0,
            m if is_json(m) => 1,
            "*/*" | "application/*" => 2,
            "application/x-www-form-urlencoded" => 3,
            "multipart/form-data" => 4,
            _ => 5,
        }
    };
    types.iter().copied().min_by_key(|m| rank(m))
}

/// A media type without parameters, lower case.
pub(crate) fn bare(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// Whether a media type is JSON (RFC 8259, RFC 6839).
pub(crate) fn is_json(media_type: &str) -> bool {
    let bare = bare(media_type);
    bare == "application/json" || bare == "text/json" || bare.ends_with("+json")
}

/// Whether a media type is one of the two that HTML forms send.
pub(crate) fn is_form(media_type: &str) -> bool {
    matches!(bare(media_type).as_str(), "application/x-www-form-urlencoded" | "multipart/form-data")
}

/// Whether an instance of a schema can be sent as that media type.
pub(crate) fn takes_instances(media_type: &str) -> bool {
    let bare = bare(media_type);
    is_json(&bare)
        || matches!(
            bare.as_str(),
            "application/x-www-form-urlencoded" | "multipart/form-data" | "*/*" | "application/*" | "text/plain"
        )
}

/// Warns of schemes that operations name and nothing defines; gives them the meaning that the name suggests, so that the
/// model is whole.
pub(crate) fn assumed_scheme(name: &str) -> SecurityScheme {
    let lower = name.to_ascii_lowercase();
    if lower.contains("basic") {
        SecurityScheme::basic()
    } else if lower.contains("key") {
        SecurityScheme::ApiKey { location: crate::model::KeyLocation::Header, name: "X-API-Key".to_owned() }
    } else {
        SecurityScheme::bearer()
    }
}
