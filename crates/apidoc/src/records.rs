//! The internal records: one per endpoint, complete in itself, in JSON or YAML.
//!
//! ```yaml
//! title: BIWI
//! version: "1"
//! security_schemes: {bearer: {type: http, scheme: bearer}}
//! endpoints:
//! - base_path: http://127.0.0.1:14000
//!   endpoint_path: /active/bid/{auctionID}
//!   method: POST
//!   query_params: {}
//!   path_params: {auctionID: {type: integer, required: true}}
//!   body_params: {value: {type: number, required: true}}
//!   security: [{bearer: []}]
//! ```
//!
//! A plain list of records is read too, and so are types in place of parameters (`page: integer`) and a scheme's name in
//! place of a requirement.

use crate::build;
use crate::diagnostic::{Code, Report};
use crate::model::{Api, Body, Method, Operation, Parameter, Security, SecurityScheme, Server, Type};
use crate::tree::{Node, decode};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// All records of an API, with what they share.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Records {
    /// See [`Api::title`].
    #[serde(default)]
    pub title: String,
    /// See [`Api::version`].
    #[serde(default)]
    pub version: String,
    /// See [`Api::servers`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// See [`Api::security_schemes`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub security_schemes: BTreeMap<String, SecurityScheme>,
    /// The records.
    pub endpoints: Vec<Record>,
}

/// One endpoint.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// See [`Operation::id`]; made from method and path when it is absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// See [`Operation::base_path`].
    #[serde(default)]
    pub base_path: String,
    /// See [`Operation::endpoint_path`].
    pub endpoint_path: String,
    /// The method.
    pub method: Method,
    /// Parameters in the query string.
    #[serde(default, deserialize_with = "loose")]
    pub query_params: BTreeMap<String, Parameter>,
    /// Parameters in the path.
    #[serde(default, deserialize_with = "loose")]
    pub path_params: BTreeMap<String, Parameter>,
    /// Request headers.
    #[serde(default, deserialize_with = "loose", skip_serializing_if = "BTreeMap::is_empty")]
    pub header_params: BTreeMap<String, Parameter>,
    /// Cookies.
    #[serde(default, deserialize_with = "loose", skip_serializing_if = "BTreeMap::is_empty")]
    pub cookie_params: BTreeMap<String, Parameter>,
    /// Fields of the body.
    #[serde(default, deserialize_with = "loose")]
    pub body_params: BTreeMap<String, Parameter>,
    /// What else there is to say of the body; when it is absent and there are fields, a JSON object of them is the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<RecordBody>,
    /// Servers of this endpoint alone, when there is more to say of them than `base_path` does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<Server>,
    /// `NONE`, or alternatives by the names of `security_schemes`.
    #[serde(default)]
    pub security: Security,
}

/// A body but for its fields; see [`Body`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordBody {
    /// The media type.
    pub media_type: String,
    /// The other media types allowed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub other_media_types: Vec<String>,
    /// Whether a request without body is wrong.
    #[serde(default)]
    pub required: bool,
    /// Type of the whole.
    #[serde(default = "object", rename = "type")]
    pub kind: Type,
    /// An instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<Json>,
    /// Whether the instance was made from the schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub generated: bool,
}

fn object() -> Type {
    Type::Object
}

/// Parameters by name, where a type's name may stand for a whole parameter.
fn loose<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Parameter>, D::Error> {
    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "a parameter is a type such as integer, or a mapping with 'type' (and format, required, example, default, enum, min, max, …)"
    )]
    enum Form {
        Name(Type),
        Whole(Box<Parameter>),
    }
    let read: Option<BTreeMap<String, Form>> = Option::deserialize(deserializer)?;
    let whole = |form| match form {
        Form::Name(kind) => Parameter { required: true, ..Parameter::of(kind) },
        Form::Whole(parameter) => *parameter,
    };
    Ok(read.unwrap_or_default().into_iter().map(|(name, form)| (name, whole(form))).collect())
}

impl From<&Api> for Records {
    fn from(api: &Api) -> Self {
        Records {
            title: api.title.clone(),
            version: api.version.clone(),
            servers: api.servers.clone(),
            security_schemes: api.security_schemes.clone(),
            endpoints: api.operations.iter().map(|operation| record(api, operation)).collect(),
        }
    }
}

fn record(api: &Api, operation: &Operation) -> Record {
    let body = operation.body.as_ref().map(|body| RecordBody {
        media_type: body.media_type.clone(),
        other_media_types: body.other_media_types.clone(),
        required: body.required,
        kind: body.kind,
        example: body.example.clone(),
        generated: body.generated,
    });
    // What reading `base_path` alone would give; most often that is all there is to say.
    let is_api_server = api.servers.first().is_some_and(|s| s.url == operation.base_path);
    let alone = if operation.base_path.is_empty() || is_api_server {
        Vec::new()
    } else {
        vec![Server::new(&operation.base_path)]
    };
    Record {
        id: operation.id.clone(),
        base_path: operation.base_path.clone(),
        endpoint_path: operation.endpoint_path.clone(),
        method: operation.method,
        query_params: operation.query_params.clone(),
        path_params: operation.path_params.clone(),
        header_params: operation.header_params.clone(),
        cookie_params: operation.cookie_params.clone(),
        body_params: operation.body.as_ref().map(|b| b.params.clone()).unwrap_or_default(),
        body,
        servers: if alone == operation.servers { Vec::new() } else { operation.servers.clone() },
        security: operation.security.clone(),
    }
}

/// Whether `root` holds records.
pub(crate) fn is_records(root: Node<'_>) -> bool {
    let first = |list: Node<'_>| list.items().next().is_none_or(|r| r.get("endpoint_path").is_some());
    root.given("endpoints").is_some_and(|e| e.is_list() && first(e))
        || (root.is_list() && root.items().len() > 0 && first(root))
}

/// Reads records; each is read for itself, so that one bad record does not hide faults of the others.
pub(crate) fn read<'a>(root: Node<'a>, mut builder: build::Builder<'a, '_>) -> Api {
    let list = root.given("endpoints").unwrap_or(root);
    if root.is_map() {
        shared(root, &mut builder);
    }
    for node in list.items() {
        let record: Record = match decode(node) {
            Ok(record) => record,
            Err(error) => {
                builder.report.error(error);
                continue;
            }
        };
        push(record, node, &mut builder);
    }
    builder.finish()
}

/// What the records share.
fn shared(root: Node<'_>, builder: &mut build::Builder<'_, '_>) {
    crate::openapi::unknown_keys(root, &["title", "version", "servers", "security_schemes", "endpoints"], builder);
    let text = |key: &str| root.given(key).and_then(Node::text).unwrap_or("").to_owned();
    (builder.api.title, builder.api.version) = (text("title"), text("version"));
    builder.api.servers = crate::openapi::servers(root, builder.report);
    for (name, node) in root.given("security_schemes").into_iter().flat_map(Node::entries) {
        match decode(node) {
            Ok(scheme) => {
                builder.api.security_schemes.insert(name.to_owned(), scheme);
            }
            Err(error) => builder.report.error(error),
        }
    }
}

fn push<'a>(record: Record, node: Node<'a>, builder: &mut build::Builder<'a, '_>) {
    let origin = build::Origin::Node(node);
    let Some(template) = builder.template(&record.endpoint_path, &origin) else {
        return;
    };
    let base = build::server(&record.base_path, None, &origin, builder.report);
    let is_api_server = builder.api.servers.first().is_some_and(|s| s.url == base.url);
    let servers = match record.servers {
        servers if !servers.is_empty() => servers
            .into_iter()
            .map(|s| build::server(&s.url, s.description.as_deref(), &origin, builder.report))
            .collect(),
        _ if base.url.is_empty() || is_api_server => Vec::new(),
        _ => vec![base],
    };
    for name in record.security.0.iter().flat_map(BTreeMap::keys) {
        if !builder.api.security_schemes.contains_key(name) {
            let text = format!(
                "the security scheme '{}' is not defined; what its name suggests is assumed",
                crate::tree::parse::short(name)
            );
            builder.report.warn(node.diagnostic_at_key("security", Code::Assumed, text));
            builder.api.security_schemes.insert(name.clone(), build::assumed_scheme(name));
        }
    }
    let body = match record.body {
        Some(b) => Some(Body {
            media_type: b.media_type,
            other_media_types: b.other_media_types,
            required: b.required,
            kind: b.kind,
            params: record.body_params,
            example: b.example,
            generated: b.generated,
        }),
        None if record.body_params.is_empty() => None,
        None => Some(body_of(record.body_params, true)),
    };
    let params = build::Params {
        path: record.path_params,
        query: record.query_params,
        header: record.header_params,
        cookie: record.cookie_params,
    };
    let id = Some(record.id).filter(|id| !id.is_empty());
    builder.push(build::Draft {
        origin,
        id,
        method: record.method,
        template,
        servers,
        params,
        body,
        security: record.security,
    });
}

/// A JSON object of those fields, with an instance made of the required ones, or of all when none is required.
pub(crate) fn body_of(params: BTreeMap<String, Parameter>, required: bool) -> Body {
    let none_required = !params.values().any(|p| p.required);
    let sent = params.iter().filter(|(_, p)| p.required || none_required);
    let example = Json::Object(sent.map(|(name, p)| (name.clone(), p.sample())).collect());
    Body {
        media_type: "application/json".to_owned(),
        required,
        kind: Type::Object,
        params,
        example: Some(example),
        generated: true,
        ..Body::default()
    }
}

/// The parameter that a type's name such as `integer` means.
pub(crate) fn type_named(node: Node<'_>, report: &mut Report) -> Parameter {
    let kind = node.str().and_then(|name| serde_json::from_value::<Type>(Json::String(name.to_ascii_lowercase())).ok());
    if kind.is_none() {
        let text = format!(
            "a type such as string, integer, number, boolean, array or object is expected, but this is {}",
            node.what()
        );
        report.error(node.diagnostic(Code::Invalid, text));
    }
    Parameter { required: true, ..Parameter::of(kind.unwrap_or_default()) }
}
