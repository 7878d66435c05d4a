//! What requests to Gemini have in common, whatever API they come from.

use super::super::{NO_EQUIVALENT, Refused, Translated, refuse};
use super::{call_id, version};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// In place of a signature, for calls that another model has made: Gemini 3 refuses a call of the current turn without any
/// (<https://ai.google.dev/gemini-api/docs/thought-signatures>, "transferring a trace from a different model").
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// A request that is being written.
#[derive(Debug)]
pub(super) struct Request<'a> {
    /// The candidate's model.
    model: &'a str,
    /// Texts of `systemInstruction`.
    pub system: Vec<Value>,
    contents: Vec<(&'static str, Vec<Value>)>,
    /// `functionDeclarations`.
    pub functions: Vec<Value>,
    /// `functionCallingConfig`.
    pub calling: Option<Value>,
    /// `generationConfig`.
    pub config: Map<String, Value>,
    /// Names of functions by the client's ids of calls.
    names: HashMap<String, String>,
    /// Hints that were left out.
    pub dropped: Vec<String>,
}

impl<'a> Request<'a> {
    pub(super) fn new(model: &'a str) -> Self {
        Request {
            model,
            system: Vec::new(),
            contents: Vec::new(),
            functions: Vec::new(),
            calling: None,
            config: Map::new(),
            names: HashMap::new(),
            dropped: Vec::new(),
        }
    }

    /// Appends parts. Neighbours of one role are joined, but results of calls stay apart from what a user says: Gemini takes a text for the
    /// start of a new turn.
    pub(super) fn push(&mut self, role: &'static str, parts: Vec<Value>) {
        let Some(first) = parts.first() else { return };
        let is_result = |part: &Value| !part["functionResponse"].is_null();
        match self.contents.last_mut() {
            Some((last, joined))
                if *last == role && joined.last().is_some_and(|last| is_result(last) == is_result(first)) =>
            {
                joined.extend(parts);
            }
            _ => self.contents.push((role, parts)),
        }
    }

    /// A call of the model, with the signature that its id carries.
    pub(super) fn call(&mut self, id: &str, name: &str, args: &Value) -> Value {
        self.names.insert(id.to_owned(), name.to_owned());
        let (id, signature) = call_id::split(id);
        let mut part = json!({"functionCall": {"id": id, "name": name, "args": args}});
        if let Some(signature) = signature {
            part["thoughtSignature"] = signature.into();
        }
        part
    }

    /// The result of a call, to which Gemini wants the function's name.
    ///
    /// # Errors
    /// There was no such call; `member` is the one with the id.
    pub(super) fn result(&self, id: &str, response: Value, member: &str) -> Result<Value, Refused> {
        let Some(name) = self.names.get(id) else { return refuse(member, "no call with this id comes before") };
        let (id, _) = call_id::split(id);
        Ok(json!({"functionResponse": {"id": id, "name": name, "response": response}}))
    }

    /// Takes over how much the model thinks.
    ///
    /// # Errors
    /// The level has no equivalent; `member` is the one with it.
    pub(super) fn think(&mut self, effort: &Value, member: &str) -> Result<(), Refused> {
        // Models before Gemini 3 know budgets only. The numbers are Google's own for `reasoning_effort`
        // (<https://ai.google.dev/gemini-api/docs/openai>).
        let is_old = version(self.model).is_some_and(|version| version < 3);
        let config = match effort.as_str() {
            Some("none") => json!({"thinkingBudget": 0}),
            Some("minimal" | "low") if is_old => json!({"thinkingBudget": 1024}),
            Some("medium") if is_old => json!({"thinkingBudget": 8192}),
            Some("high") if is_old => json!({"thinkingBudget": 24576}),
            Some(level @ ("minimal" | "low" | "medium" | "high" | "xhigh")) if !is_old => {
                json!({"thinkingLevel": level.to_ascii_uppercase()})
            }
            _ => return refuse(member, NO_EQUIVALENT),
        };
        self.config.insert("thinkingConfig".into(), config);
        Ok(())
    }

    /// Takes over the schema of the response.
    pub(super) fn respond_as(&mut self, schema: Option<&Value>) {
        self.config.insert("responseMimeType".into(), "application/json".into());
        if let Some(schema) = schema {
            self.config.insert("responseJsonSchema".into(), schema.clone());
        }
    }

    /// The whole request.
    pub(super) fn finish(mut self) -> Translated {
        if version(self.model).is_some_and(|version| version >= 3) {
            for (_, parts) in &mut self.contents {
                if let Some(first) = parts.iter_mut().find(|part| !part["functionCall"].is_null())
                    && first["thoughtSignature"].is_null()
                {
                    first["thoughtSignature"] = NO_SIGNATURE.into();
                }
            }
        }
        let contents = self.contents.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts}));
        let mut body = json!({"contents": contents.collect::<Vec<_>>()});
        if !self.system.is_empty() {
            body["systemInstruction"] = json!({"parts": self.system});
        }
        if !self.functions.is_empty() {
            body["tools"] = json!([{"functionDeclarations": self.functions}]);
        }
        if let Some(calling) = self.calling {
            body["toolConfig"] = json!({"functionCallingConfig": calling});
        }
        if !self.config.is_empty() {
            body["generationConfig"] = self.config.into();
        }
        Translated { body, dropped: self.dropped }
    }
}

/// An image as base64.
pub(super) fn inline_data(mime_type: &str, data: &str) -> Value {
    json!({"inlineData": {"mimeType": mime_type, "data": data}})
}
