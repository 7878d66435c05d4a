//! From a description to operations.

use std::sync::Arc;

use apidoc::{Description, Kind, Limits, Security, Server, Source, View};
use serde_json::Value as Json;

use crate::compile::{self, Input};
use crate::contract::Contract;
use crate::schema::Schemas;

/// Values of an `x-weir` extension, at most.
const EXTENSION_VALUES: usize = 1000;
/// What `jsonSchemaDialect` may be: JSON Schema 2020-12, with OpenAPI's own words or without.
const DIALECTS: [&str; 2] =
    ["https://spec.openapis.org/oas/3.1/dialect/base", "https://json-schema.org/draft/2020-12/schema"];

/// How a description is read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Path under which the API is published, without a slash at its end; `None`: that of each operation's first server.
    pub base: Option<String>,
    /// Whether requests are to be checked: without, no schema is compiled.
    pub validates: bool,
    /// Query parameters that are not described are violations.
    pub refuses_unknown_query: bool,
    /// What happens to patterns that the linear engine does not have.
    pub patterns: Patterns,
    /// Identifiers of operations that are left out.
    pub skip: Vec<String>,
}

/// What happens to patterns with look-around or back references, which cannot run in linear time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Patterns {
    /// The description is refused.
    #[default]
    Refuse,
    /// They are not checked, and a note says so.
    Skip,
}

/// A description that was read.
#[derive(Debug)]
pub struct Api {
    /// Title and version, for people.
    pub title: String,
    /// All operations but those that were skipped, in the order of the description.
    pub operations: Vec<Operation>,
    /// What was left out or taken for granted, a sentence each.
    pub notes: Vec<String>,
}

/// One operation.
#[derive(Debug)]
pub struct Operation {
    /// `operationId`, or a name that was made from method and path.
    pub id: String,
    /// Method, in upper case.
    pub method: &'static str,
    /// Path under which it is published, without a slash at its end: empty, or `/v1`.
    pub base: String,
    /// Path template below `base`.
    pub path: String,
    /// Names of the template's parameters whose values may hold slashes.
    pub multi_segment: Vec<String>,
    /// Who may call it.
    pub security: Security,
    /// Its `x-weir`, or that of its path.
    pub extension: Option<Json>,
    /// What it demands of requests; none where nothing is checked.
    pub contract: Option<Arc<Contract>>,
    /// `file:line:column` of the operation.
    pub place: String,
}

/// Reads the description `name` from `source`.
///
/// # Errors
/// Everything that is wrong with it, one sentence each with its place.
pub fn load(source: &dyn Source, name: &str, options: &Options) -> Result<Api, Vec<String>> {
    let description = Description::load(source, name, &Limits::default())
        .map_err(|problems| problems.errors.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    let model = &description.read().api;
    let mut problems = Vec::new();
    let mut operations = Vec::new();
    let unknown = options.skip.iter().filter(|id| model.operation(id).is_none());
    problems.extend(unknown.map(|id| format!("{name}: there is no operation `{id}` to skip")));
    let root = description.root();
    let is_swagger2 = description.read().kind == Kind::Swagger2;
    let version = root.get("openapi").and_then(View::text).unwrap_or_default();
    let mut schemas = Schemas::new(compile::dialect(is_swagger2, version), options.patterns);
    if options.validates
        && let Some(dialect) =
            root.get("jsonSchemaDialect").filter(|dialect| !DIALECTS.contains(&dialect.str().unwrap_or_default()))
    {
        schemas.problem(dialect, "only schemas of JSON Schema 2020-12 are compiled");
    }
    for (index, operation) in model.operations.iter().enumerate() {
        if options.skip.contains(&operation.id) {
            continue;
        }
        let Some(node) = description.operation(index) else { continue };
        let extension = match extension(&description, node) {
            Ok(extension) => extension,
            Err(problem) => {
                problems.push(problem);
                None
            }
        };
        let base = match &options.base {
            Some(base) => base.clone(),
            None => model.servers_of(operation).first().map_or(String::new(), prefix),
        };
        let contract = options.validates.then(|| {
            let input = Input {
                operation: node,
                items: description.path_items(node),
                root,
                is_swagger2,
                model: operation,
                api: model,
                refuses_unknown_query: options.refuses_unknown_query,
            };
            compile::contract(&input, &base, &mut schemas)
        });
        let multi = operation.path_params.iter().filter(|(_, parameter)| parameter.multi_segment);
        operations.push(Operation {
            id: operation.id.clone(),
            method: operation.method.as_str(),
            base,
            contract: contract.filter(|contract| !contract.is_empty()).map(Arc::new),
            path: operation.endpoint_path.clone(),
            multi_segment: multi.map(|(name, _)| name.clone()).collect(),
            security: operation.security.clone(),
            extension,
            place: node.place(),
        });
    }
    problems.append(&mut schemas.problems);
    if problems.is_empty() {
        Ok(Api { title: format!("{} {}", model.title, model.version), operations, notes: schemas.notes })
    } else {
        Err(problems)
    }
}

fn prefix(server: &Server) -> String {
    server.prefix().trim_end_matches('/').to_owned()
}

/// The `x-weir` of an operation; without one, that of its path.
fn extension(description: &Description, operation: View<'_>) -> Result<Option<Json>, String> {
    let found = std::iter::once(operation).chain(description.path_items(operation)).find_map(|view| view.get("x-weir"));
    let Some(found) = found else { return Ok(None) };
    match found.json(EXTENSION_VALUES) {
        Some(json) => Ok(Some(json)),
        None => Err(format!("{}: `x-weir` has more than {EXTENSION_VALUES} values", found.place())),
    }
}
