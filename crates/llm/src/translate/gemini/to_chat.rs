//! Requests: Gemini to OpenAI chat, and by way of it to Anthropic messages.

use super::super::messages_to_chat::flat;
use super::super::{
    NO_EQUIVALENT, Refused, Translated, UNKNOWN, WRONG_TYPE, array, chat_to_messages, drop_hint, object, refuse, string,
};
use super::schema::to_json_schema;
use serde_json::{Map, Value, json};

/// Translates a request. `model`: the candidate's. `streams`: what the path says.
///
/// # Errors
/// The member that has no equivalent.
pub fn gemini_to_chat(request: &Value, model: &str, streams: bool) -> Result<Translated, Refused> {
    let mut body = Map::new();
    let mut dropped = Vec::new();
    let mut messages = Vec::new();
    body.insert("model".into(), model.into());
    if streams {
        body.insert("stream".into(), true.into());
        // the last event reports usage
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    let instruction = member(request, "systemInstruction");
    if !instruction.is_null() {
        let mut parts = Vec::new();
        for (n, part) in array(&instruction["parts"], "systemInstruction.parts")?.iter().enumerate() {
            let at = format!("systemInstruction.parts[{n}]");
            only(part, &at, &["text"], &mut dropped)?;
            parts.push(json!({"type": "text", "text": string(&part["text"], &format!("{at}.text"))?}));
        }
        // One message: templates of many models refuse a second one.
        if !parts.is_empty() {
            messages.push(json!({"role": "system", "content": flat(parts)}));
        }
    }
    for (name, value) in object(request, "body")? {
        if value.is_null() {
            continue;
        }
        match camel(name).as_str() {
            // the path has the model, and the instruction was read above
            "model" | "contents" | "systemInstruction" => {}
            "generationConfig" => config(value, name, streams, &mut body, &mut dropped)?,
            "tools" => {
                let mut tools = Vec::new();
                for (i, tool) in array(value, name)?.iter().enumerate() {
                    functions(tool, &format!("tools[{i}]"), &mut tools, &mut dropped)?;
                }
                if !tools.is_empty() {
                    body.insert("tools".into(), tools.into());
                }
            }
            "toolConfig" => {
                for (part, value) in object(value, name)? {
                    match camel(part).as_str() {
                        _ if value.is_null() => {}
                        "functionCallingConfig" => {
                            let choice = choice(value, &format!("{name}.{part}"))?;
                            body.insert("tool_choice".into(), choice);
                        }
                        _ => return refuse(format!("{name}.{part}"), NO_EQUIVALENT),
                    }
                }
            }
            "labels" => drop_hint(&mut dropped, name),
            "store" if value == false => {}
            "safetySettings" | "cachedContent" | "serviceTier" | "continuationToken" | "store" => {
                return refuse(name, NO_EQUIVALENT);
            }
            _ => return refuse(name, UNKNOWN),
        }
    }
    let mut calls = Calls::default();
    for (i, content) in array(&request["contents"], "contents")?.iter().enumerate() {
        let at = format!("contents[{i}]");
        let parts = array(&content["parts"], &format!("{at}.parts"))?;
        match content["role"].as_str() {
            Some("user" | "function") | None => user(parts, &at, &mut calls, &mut messages, &mut dropped)?,
            Some("model") => messages.extend(assistant(parts, &at, &mut calls, &mut dropped)?),
            _ => return refuse(format!("{at}.role"), NO_EQUIVALENT),
        }
    }
    body.insert("messages".into(), messages.into());
    Ok(Translated { body: body.into(), dropped })
}

/// Translates a request for Anthropic's API. `max_output`: the candidate's limit, for requests without one.
///
/// # Errors
/// The member that has no equivalent.
pub fn gemini_to_messages(
    request: &Value,
    model: &str,
    streams: bool,
    max_output: Option<u64>,
) -> Result<Translated, Refused> {
    let chat = gemini_to_chat(request, model, streams)?;
    let mut out = chat_to_messages(&chat.body, model, max_output)
        .map_err(|why| Refused { member: own_name(&why.member), reason: why.reason })?;
    chat.dropped.iter().for_each(|name| drop_hint(&mut out.dropped, name));
    Ok(out)
}

/// Gemini's name for a member of chat.
fn own_name(chat: &str) -> String {
    let name = match chat {
        "max_completion_tokens" => "maxOutputTokens",
        "temperature" | "seed" => chat,
        "presence_penalty" => "presencePenalty",
        "frequency_penalty" => "frequencyPenalty",
        "n" => "candidateCount",
        "response_format" => "responseMimeType",
        "reasoning_effort" => "thinkingConfig",
        _ if chat.starts_with("messages") => return "contents".into(),
        _ => return chat.into(),
    };
    format!("generationConfig.{name}")
}

/// A member in either of the spellings that protocol-buffer JSON permits.
fn member<'v>(value: &'v Value, name: &str) -> &'v Value {
    let own = &value[name];
    if !own.is_null() {
        return own;
    }
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    &value[snake.as_str()]
}

/// The first spelling of a name.
pub(super) fn camel(name: &str) -> String {
    let mut out = String::new();
    let mut is_start = false;
    for letter in name.chars() {
        match letter {
            '_' => is_start = true,
            letter if std::mem::take(&mut is_start) => out.push(letter.to_ascii_uppercase()),
            letter => out.push(letter),
        }
    }
    out
}

/// A part has members of these names only, and hints.
fn only(part: &Value, at: &str, names: &[&str], dropped: &mut Vec<String>) -> Result<(), Refused> {
    for (name, value) in object(part, at)? {
        match camel(name).as_str() {
            _ if value.is_null() => {}
            "thoughtSignature" | "partMetadata" | "mediaResolution" => drop_hint(dropped, &camel(name)),
            name if names.contains(&name) => {}
            _ => return refuse(format!("{at}.{name}"), NO_EQUIVALENT),
        }
    }
    Ok(())
}

fn config(
    value: &Value,
    at: &str,
    streams: bool,
    body: &mut Map<String, Value>,
    dropped: &mut Vec<String>,
) -> Result<(), Refused> {
    for (name, value) in object(value, at)? {
        let at = format!("{at}.{name}");
        let to = match camel(name).as_str() {
            _ if value.is_null() => continue,
            "maxOutputTokens" => "max_completion_tokens",
            "temperature" => "temperature",
            "topP" => "top_p",
            "stopSequences" => "stop",
            "seed" => "seed",
            "presencePenalty" => "presence_penalty",
            "frequencyPenalty" => "frequency_penalty",
            "candidateCount" if value == 1 => continue,
            "candidateCount" if streams => return refuse(at, "several choices cannot be streamed"),
            "candidateCount" => "n",
            // both are read with the type
            "responseSchema" | "responseJsonSchema" => continue,
            "responseMimeType" => match value.as_str() {
                Some("text/plain" | "application/json") => continue,
                _ => return refuse(at, NO_EQUIVALENT),
            },
            "responseLogprobs" if value == false => continue,
            "responseModalities" if *value == json!(["TEXT"]) => continue,
            "thinkingConfig" => {
                thinking(value, &at, body, dropped)?;
                continue;
            }
            "mediaResolution" => {
                drop_hint(dropped, name);
                continue;
            }
            "topK"
            | "logprobs"
            | "responseLogprobs"
            | "responseModalities"
            | "speechConfig"
            | "imageConfig"
            | "enableEnhancedCivicAnswers"
            | "audioTranscriptionConfig" => return refuse(at, NO_EQUIVALENT),
            _ => return refuse(at, UNKNOWN),
        };
        body.insert(to.into(), value.clone());
    }
    let schema = match (member(value, "responseJsonSchema"), member(value, "responseSchema")) {
        (Value::Null, Value::Null) => None,
        (Value::Null, schema) => Some(to_json_schema(schema, dropped)),
        (schema, _) => Some(schema.clone()),
    };
    let is_json = member(value, "responseMimeType") == "application/json";
    let format = match schema {
        Some(schema) if is_json => {
            json!({"type": "json_schema", "json_schema": {"name": "response", "schema": schema, "strict": true}})
        }
        Some(_) => return refuse(format!("{at}.responseMimeType"), "a schema needs `application/json`"),
        None if is_json => json!({"type": "json_object"}),
        None => return Ok(()),
    };
    body.insert("response_format".into(), format);
    Ok(())
}

fn thinking(value: &Value, at: &str, body: &mut Map<String, Value>, dropped: &mut Vec<String>) -> Result<(), Refused> {
    for (name, value) in object(value, at)? {
        let at = format!("{at}.{name}");
        let effort = match camel(name).as_str() {
            _ if value.is_null() => continue,
            "thinkingLevel" => match string(value, &at)?.to_ascii_lowercase() {
                level if ["minimal", "low", "medium", "high", "xhigh"].contains(&level.as_str()) => level,
                _ => return refuse(at, NO_EQUIVALENT),
            },
            // Google's own budgets for `reasoning_effort`; the others are hints.
            "thinkingBudget" => match value.as_i64() {
                Some(0) => "none".into(),
                Some(1024) => "low".into(),
                Some(8192) => "medium".into(),
                Some(24576) => "high".into(),
                _ => {
                    drop_hint(dropped, "thinkingBudget");
                    continue;
                }
            },
            "includeThoughts" => {
                if value == true {
                    drop_hint(dropped, "includeThoughts");
                }
                continue;
            }
            _ => return refuse(at, UNKNOWN),
        };
        body.insert("reasoning_effort".into(), effort.into());
    }
    Ok(())
}

fn functions(tool: &Value, at: &str, tools: &mut Vec<Value>, dropped: &mut Vec<String>) -> Result<(), Refused> {
    for (name, value) in object(tool, at)? {
        if value.is_null() {
            continue;
        }
        // Others are run by Google.
        if camel(name) != "functionDeclarations" {
            return refuse(format!("{at}.{name}"), NO_EQUIVALENT);
        }
        for (n, declaration) in array(value, &format!("{at}.{name}"))?.iter().enumerate() {
            let at = format!("{at}.{name}[{n}]");
            let mut function = Map::new();
            for (name, value) in object(declaration, &at)? {
                match camel(name).as_str() {
                    _ if value.is_null() => {}
                    "name" | "description" => {
                        function.insert(name.clone(), value.clone());
                    }
                    "parametersJsonSchema" => {
                        function.insert("parameters".into(), value.clone());
                    }
                    "parameters" => {
                        function.insert("parameters".into(), to_json_schema(value, dropped));
                    }
                    // What a function returns is for the one who writes it.
                    "response" | "responseJsonSchema" => drop_hint(dropped, name),
                    _ => return refuse(format!("{at}.{name}"), NO_EQUIVALENT),
                }
            }
            tools.push(json!({"type": "function", "function": function}));
        }
    }
    Ok(())
}

fn choice(value: &Value, at: &str) -> Result<Value, Refused> {
    for name in object(value, at)?.keys() {
        if !["mode", "allowedFunctionNames"].contains(&camel(name).as_str()) {
            return refuse(format!("{at}.{name}"), NO_EQUIVALENT);
        }
    }
    let names = member(value, "allowedFunctionNames").as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(match (value["mode"].as_str(), names) {
        (None | Some("MODE_UNSPECIFIED" | "AUTO"), []) => "auto".into(),
        (Some("NONE"), []) => "none".into(),
        (Some("ANY"), []) => "required".into(),
        (Some("ANY"), [name]) => json!({"type": "function", "function": {"name": name}}),
        (_, [_, ..]) => return refuse(format!("{at}.allowedFunctionNames"), NO_EQUIVALENT),
        _ => return refuse(format!("{at}.mode"), NO_EQUIVALENT),
    })
}

/// Calls that wait for their results.
#[derive(Debug, Default)]
struct Calls {
    open: Vec<(String, String)>,
    made: u64,
}

impl Calls {
    /// The id of a call; the API lets clients leave it out.
    fn begin(&mut self, id: &Value, name: &str) -> String {
        self.made += 1;
        let id = id.as_str().filter(|id| !id.is_empty()).map_or_else(|| format!("call_{}", self.made), str::to_owned);
        self.open.push((id.clone(), name.to_owned()));
        id
    }

    /// The id of the call that a result belongs to: by its own, else the first open call of this name.
    fn end(&mut self, id: &Value, name: &str) -> Option<String> {
        let by_id = self.open.iter().position(|call| id.as_str() == Some(&call.0));
        let position = by_id.or_else(|| self.open.iter().position(|call| call.1 == name))?;
        Some(self.open.remove(position).0)
    }
}

fn user(
    parts: &[Value],
    at: &str,
    calls: &mut Calls,
    messages: &mut Vec<Value>,
    dropped: &mut Vec<String>,
) -> Result<(), Refused> {
    let mut out = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        let at = format!("{at}.parts[{n}]");
        only(part, &at, &["text", "inlineData", "functionResponse"], dropped)?;
        let (result, data) = (member(part, "functionResponse"), member(part, "inlineData"));
        if !result.is_null() {
            if !out.is_empty() {
                return refuse(at, "results of tools stand before other content");
            }
            messages.push(tool(result, &format!("{at}.functionResponse"), calls)?);
        } else if !data.is_null() {
            let kind = string(member(data, "mimeType"), &format!("{at}.inlineData.mimeType"))?;
            if !kind.starts_with("image/") {
                return refuse(format!("{at}.inlineData.mimeType"), "only images are possible here");
            }
            let data = string(&data["data"], &format!("{at}.inlineData.data"))?;
            out.push(
                json!({"type": "image_url", "image_url": {"url": format!("data:{kind};base64,{}", standard(data))}}),
            );
        } else if !part["text"].is_null() {
            out.push(json!({"type": "text", "text": string(&part["text"], &format!("{at}.text"))?}));
        }
    }
    if !out.is_empty() {
        messages.push(json!({"role": "user", "content": flat(out)}));
    }
    Ok(())
}

/// Base64 as data URLs have it: Google's client writes `-` and `_`.
fn standard(data: &str) -> String {
    data.replace('-', "+").replace('_', "/")
}

fn tool(result: &Value, at: &str, calls: &mut Calls) -> Result<Value, Refused> {
    for name in object(result, at)?.keys() {
        if !["id", "name", "response"].contains(&name.as_str()) {
            return refuse(format!("{at}.{name}"), NO_EQUIVALENT);
        }
    }
    let name = string(&result["name"], &format!("{at}.name"))?;
    let Some(id) = calls.end(&result["id"], name) else {
        return refuse(at, "no call of this id or name comes before");
    };
    let response = object(&result["response"], &format!("{at}.response"))?;
    // `output` is the API's name for what a function returns; clients use `result` as often.
    let content = match (response.len(), response.get("output").or_else(|| response.get("result"))) {
        (1, Some(Value::String(text))) => text.clone(),
        (1, Some(value)) => value.to_string(),
        _ => result["response"].to_string(),
    };
    Ok(json!({"role": "tool", "tool_call_id": id, "content": content}))
}

fn assistant(
    parts: &[Value],
    at: &str,
    calls: &mut Calls,
    dropped: &mut Vec<String>,
) -> Result<Option<Value>, Refused> {
    let (mut texts, mut made) = (Vec::new(), Vec::new());
    for (n, part) in parts.iter().enumerate() {
        let at = format!("{at}.parts[{n}]");
        only(part, &at, &["text", "functionCall", "thought"], dropped)?;
        let call = member(part, "functionCall");
        if part["thought"] == true {
            drop_hint(dropped, "thought");
        } else if !call.is_null() {
            let at = format!("{at}.functionCall");
            for name in object(call, &at)?.keys() {
                if !["id", "name", "args"].contains(&name.as_str()) {
                    return refuse(format!("{at}.{name}"), NO_EQUIVALENT);
                }
            }
            let name = string(&call["name"], &format!("{at}.name"))?;
            let arguments = match &call["args"] {
                Value::Null => "{}".to_owned(),
                args @ Value::Object(_) => args.to_string(),
                _ => return refuse(format!("{at}.args"), WRONG_TYPE),
            };
            let id = calls.begin(&call["id"], name);
            made.push(json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}));
        } else if !part["text"].is_null() {
            texts.push(json!({"type": "text", "text": string(&part["text"], &format!("{at}.text"))?}));
        }
    }
    if texts.is_empty() && made.is_empty() {
        return Ok(None);
    }
    let mut message = json!({"role": "assistant", "content": if texts.is_empty() { Value::Null } else { flat(texts) }});
    if !made.is_empty() {
        message["tool_calls"] = made.into();
    }
    Ok(Some(message))
}
