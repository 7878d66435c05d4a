//! Calls of gRPC in a script: their descriptors, messages and metadata.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::{ExternalError, Tool, absolute, pieces, quoted, write};
use super::{filled, next_line};
use crate::load::grpc::Method;
use crate::load::workload::{Body, Operation, Workload};
use crate::load::{Piece, PrepareError, Prepared};

/// Messages longer than this are in a file that all users share.
const INLINE: usize = 4096;
/// Fields that are those of a call itself.
const OWN: [&str; 3] = ["content-type", "te", "grpc-timeout"];

/// The calls of a workload.
pub(super) struct Calls {
    /// That of each operation, by its place.
    methods: Vec<Arc<Method>>,
    /// Files of descriptors.
    descriptors: Vec<PathBuf>,
    folder: PathBuf,
}

impl Calls {
    /// Writes descriptors into `folder`.
    pub(super) fn of(workload: &Workload, prepared: &Prepared, folder: &Path) -> Result<Self, ExternalError> {
        let mut methods = Vec::new();
        let mut known: Vec<(Vec<u8>, PathBuf)> = Vec::new();
        for (operation, prepared) in workload.operations.iter().zip(&prepared.operations) {
            let Some(method) = &prepared.grpc else {
                return Err(
                    Tool::K6.cannot(format!("operation `{}`: a request other than a call of gRPC", operation.id))
                );
            };
            if method.is_stream() {
                let what = format!(
                    "operation `{}`: `{}` takes or returns a stream, and it calls unary methods only",
                    operation.id,
                    method.name()
                );
                return Err(Tool::K6.cannot(what));
            }
            let number = known.len();
            let descriptors = method.descriptors();
            if !known.iter().any(|(other, _)| *other == descriptors) {
                let file = folder.join(format!("descriptors{number}.binpb"));
                std::fs::write(&file, &descriptors)
                    .map_err(|error| ExternalError::File { file: file.clone(), error })?;
                known.push((descriptors, absolute(&file)?));
            }
            methods.push(Arc::clone(method));
        }
        Ok(Calls { methods, descriptors: known.into_iter().map(|(_, file)| file).collect(), folder: folder.to_owned() })
    }

    /// What the fixed part of the script needs.
    pub(super) fn begin(&self, address: &str) -> String {
        let files: Vec<String> = self.descriptors.iter().map(|file| quoted(&file.to_string_lossy())).collect();
        let mut messages = Map::new();
        for method in &self.methods {
            if let Value::Object(known) = method.fields() {
                messages.extend(known);
            }
        }
        format!(
            "const address = {};\nconst descriptors = [{}];\nconst messages = {};\n",
            quoted(address),
            files.join(", "),
            Value::Object(messages)
        )
    }

    /// A call. `before` gets what is defined before the operations.
    pub(super) fn operation(
        &self,
        index: usize,
        workload: &Workload,
        operation: &Operation,
        before: &mut String,
        list: &mut String,
    ) -> Result<(), ExternalError> {
        let method = &self.methods[index];
        let message = self.message(index, operation, before)?;
        let refused = match method.success() {
            Some(name) => format!("(message) => message[{}] !== true", quoted(&name)),
            None => "() => false".to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            list,
            "    const r = call({}, () => {message}, {{ metadata: {{ {} }}, timeout: {}, tags: {{ name: {} }} }}, {refused});",
            quoted(method.name()),
            metadata(operation)?,
            workload.timeout.as_millis(),
            quoted(&operation.id),
        );
        Ok(())
    }

    /// The message as an expression.
    fn message(&self, index: usize, operation: &Operation, before: &mut String) -> Result<String, ExternalError> {
        let method = &self.methods[index];
        if let Some(Body::Text(text)) = &operation.body
            && pieces(text, operation).iter().any(|piece| matches!(piece, Piece::Value(_)))
        {
            return Ok(format!("fitted(parsed({}), {})", filled(text, operation, "json"), quoted(method.input_name())));
        }
        let made = method.normalized_messages(operation);
        let mut made = made.map_err(|problem| PrepareError::Operation { operation: operation.id.clone(), problem })?;
        if let [only] = &mut made[..]
            && only.len() <= INLINE
        {
            // Each user has it as an object of its own.
            let _ = writeln!(before, "const message{index} = JSON.parse({});", text(only));
            return Ok(format!("message{index}"));
        }
        let file = absolute(&write(&self.folder, &format!("messages{index}.txt"), &made.join("\n"))?)?;
        Ok(format!("JSON.parse({})", next_line(index, &file, before)))
    }
}

/// A JSON text as JavaScript writes texts. What JSON escapes is in the text already, except for these two.
fn text(json: &str) -> String {
    let json = json.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029");
    Value::String(json).to_string()
}

/// Fields of an operation as metadata.
fn metadata(operation: &Operation) -> Result<String, ExternalError> {
    let own = |name: &str| OWN.iter().any(|own| name.eq_ignore_ascii_case(own));
    let mut all = Vec::new();
    for (name, value) in operation.headers.iter().filter(|(name, _)| !own(name)) {
        let lower = name.to_ascii_lowercase();
        // It leaves those out, or writes its own; the values of `-bin` fields are bytes.
        if lower == "user-agent" || lower == "host" || lower.starts_with("grpc-") || lower.ends_with("-bin") {
            return Err(Tool::K6.cannot(format!("operation `{}`: the field `{name}` as metadata", operation.id)));
        }
        all.push(format!("{}: {}", quoted(&lower), filled(value, operation, "String")));
    }
    Ok(all.join(", "))
}
