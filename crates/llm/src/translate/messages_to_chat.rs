//! Requests: Anthropic messages to OpenAI chat.

use super::{NO_EQUIVALENT, Refused, Translated, UNKNOWN, WRONG_TYPE, array, drop_hint, object, refuse, string};
use serde_json::{Map, Value, json};

/// Translates a request. `model`: the candidate's.
///
/// # Errors
/// The member that has no equivalent.
pub fn messages_to_chat(request: &Value, model: &str) -> Result<Translated, Refused> {
    let mut body = Map::new();
    let mut dropped = Vec::new();
    let mut messages = Vec::new();
    body.insert("model".into(), model.into());
    for (name, value) in object(request, "body")? {
        if value.is_null() {
            continue;
        }
        match name.as_str() {
            "model" | "messages" | "system" => {}
            "max_tokens" => {
                body.insert("max_completion_tokens".into(), value.clone());
            }
            "temperature" | "top_p" => {
                body.insert(name.clone(), value.clone());
            }
            "stop_sequences" => {
                body.insert("stop".into(), value.clone());
            }
            "stream" => {
                body.insert(name.clone(), value.clone());
                if value == true {
                    // message_delta reports usage
                    body.insert("stream_options".into(), json!({"include_usage": true}));
                }
            }
            "metadata" => {
                for (name, value) in object(value, name)? {
                    match name.as_str() {
                        _ if value.is_null() => {}
                        "user_id" => {
                            body.insert("user".into(), value.clone());
                        }
                        _ => return refuse(format!("metadata.{name}"), UNKNOWN),
                    }
                }
            }
            "tools" => {
                let tools =
                    array(value, name)?.iter().enumerate().map(|(i, tool)| tool_definition(tool, i, &mut dropped));
                body.insert("tools".into(), tools.collect::<Result<Vec<_>, _>>()?.into());
            }
            "tool_choice" => {
                let choice = match value["type"].as_str() {
                    Some(kind @ ("none" | "auto")) => kind.into(),
                    Some("any") => "required".into(),
                    Some("tool") => {
                        json!({"type": "function", "function": {"name": string(&value["name"], "tool_choice.name")?}})
                    }
                    _ => return refuse("tool_choice.type", NO_EQUIVALENT),
                };
                body.insert(name.clone(), choice);
                if value["disable_parallel_tool_use"] == true {
                    body.insert("parallel_tool_calls".into(), false.into());
                }
            }
            "output_config" => {
                for (name, value) in object(value, name)? {
                    match name.as_str() {
                        _ if value.is_null() => {}
                        "format" if value["type"] == "json_schema" => {
                            let schema = json!({"name": "response", "schema": value["schema"], "strict": true});
                            body.insert(
                                "response_format".into(),
                                json!({"type": "json_schema", "json_schema": schema}),
                            );
                        }
                        "effort" => {
                            body.insert("reasoning_effort".into(), value.clone());
                        }
                        _ => return refuse(format!("output_config.{name}"), NO_EQUIVALENT),
                    }
                }
            }
            "thinking" if value["type"] == "disabled" => {
                body.insert("reasoning_effort".into(), "none".into());
            }
            "thinking" | "cache_control" => drop_hint(&mut dropped, name),
            "service_tier" if value == "auto" => drop_hint(&mut dropped, name),
            "top_k" | "container" | "mcp_servers" | "service_tier" => return refuse(name, NO_EQUIVALENT),
            _ => return refuse(name, UNKNOWN),
        }
    }
    match &request["system"] {
        Value::Null => {}
        Value::String(text) => messages.push(json!({"role": "system", "content": text})),
        blocks => {
            // One message: templates of many models refuse a second one.
            let mut parts = Vec::new();
            for (i, block) in array(blocks, "system")?.iter().enumerate() {
                let at = format!("system[{i}]");
                match part(block, &at, &mut dropped)? {
                    text if text["type"] == "text" => parts.push(text),
                    _ => return refuse(format!("{at}.type"), NO_EQUIVALENT),
                }
            }
            if !parts.is_empty() {
                messages.push(json!({"role": "system", "content": flat(parts)}));
            }
        }
    }
    for (i, message) in array(&request["messages"], "messages")?.iter().enumerate() {
        let at = format!("messages[{i}]");
        let content = &message["content"];
        match message["role"].as_str() {
            Some("user") => user(content, &at, &mut messages, &mut dropped)?,
            Some("assistant") => messages.push(assistant(content, &at, &mut dropped)?),
            _ => return refuse(format!("{at}.role"), NO_EQUIVALENT),
        }
    }
    body.insert("messages".into(), messages.into());
    Ok(Translated { body: body.into(), dropped })
}

fn tool_definition(tool: &Value, i: usize, dropped: &mut Vec<String>) -> Result<Value, Refused> {
    let at = format!("tools[{i}]");
    let mut function = Map::new();
    for (name, value) in object(tool, &at)? {
        match name.as_str() {
            _ if value.is_null() => {}
            "type" if value == "custom" => {}
            "name" | "description" | "strict" => {
                function.insert(name.clone(), value.clone());
            }
            "input_schema" => {
                function.insert("parameters".into(), value.clone());
            }
            "cache_control" => drop_hint(dropped, name),
            _ => return refuse(format!("{at}.{name}"), NO_EQUIVALENT),
        }
    }
    Ok(json!({"type": "function", "function": function}))
}

/// Results of tools are messages of their own and come first.
fn user(content: &Value, at: &str, messages: &mut Vec<Value>, dropped: &mut Vec<String>) -> Result<(), Refused> {
    if content.is_string() {
        messages.push(json!({"role": "user", "content": content}));
        return Ok(());
    }
    let mut parts = Vec::new();
    for (n, block) in array(content, &format!("{at}.content"))?.iter().enumerate() {
        let at = format!("{at}.content[{n}]");
        if block["type"] != "tool_result" {
            parts.push(part(block, &at, dropped)?);
            continue;
        }
        if !parts.is_empty() {
            return refuse(at, "results of tools stand before other content");
        }
        let text = match &block["content"] {
            Value::Null => "".into(),
            Value::String(_) => block["content"].clone(),
            blocks => {
                let blocks = array(blocks, &format!("{at}.content"))?.iter().enumerate();
                let texts = blocks.map(|(n, block)| match part(block, &format!("{at}.content[{n}]"), dropped)? {
                    text if text["type"] == "text" => Ok(text),
                    _ => refuse(format!("{at}.content[{n}].type"), NO_EQUIVALENT),
                });
                texts.collect::<Result<Vec<_>, _>>().map(flat)?
            }
        };
        let id = string(&block["tool_use_id"], &format!("{at}.tool_use_id"))?;
        if block["is_error"] == true {
            drop_hint(dropped, "is_error");
        }
        messages.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
    }
    if !parts.is_empty() {
        messages.push(json!({"role": "user", "content": flat(parts)}));
    }
    Ok(())
}

fn assistant(content: &Value, at: &str, dropped: &mut Vec<String>) -> Result<Value, Refused> {
    if content.is_string() {
        return Ok(json!({"role": "assistant", "content": content}));
    }
    let (mut parts, mut calls) = (Vec::new(), Vec::new());
    for (n, block) in array(content, &format!("{at}.content"))?.iter().enumerate() {
        let at = format!("{at}.content[{n}]");
        match block["type"].as_str() {
            Some("thinking" | "redacted_thinking") => drop_hint(dropped, "thinking"),
            Some("tool_use") => {
                let name = string(&block["name"], &format!("{at}.name"))?;
                let function = json!({"name": name, "arguments": object(&block["input"], &format!("{at}.input")).map(|_| block["input"].to_string())?});
                calls.push(
                    json!({"id": string(&block["id"], &format!("{at}.id"))?, "type": "function", "function": function}),
                );
            }
            Some("text") => parts.push(part(block, &at, dropped)?),
            _ => return refuse(format!("{at}.type"), NO_EQUIVALENT),
        }
    }
    let mut message = json!({"role": "assistant", "content": if parts.is_empty() { Value::Null } else { flat(parts) }});
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    Ok(message)
}

/// One text is a string; that is what every server reads.
pub(super) fn flat(parts: Vec<Value>) -> Value {
    match parts.as_slice() {
        [] => "".into(),
        [part] if part["type"] == "text" => part["text"].clone(),
        _ => parts.into(),
    }
}

fn part(block: &Value, at: &str, dropped: &mut Vec<String>) -> Result<Value, Refused> {
    for name in ["cache_control", "citations"] {
        if !block[name].is_null() {
            drop_hint(dropped, name);
        }
    }
    match block["type"].as_str() {
        Some("text") => Ok(json!({"type": "text", "text": string(&block["text"], &format!("{at}.text"))?})),
        Some("image") => {
            let source = &block["source"];
            let url = match source["type"].as_str() {
                Some("url") => string(&source["url"], &format!("{at}.source.url"))?.to_owned(),
                Some("base64") => format!(
                    "data:{};base64,{}",
                    string(&source["media_type"], &format!("{at}.source.media_type"))?,
                    string(&source["data"], &format!("{at}.source.data"))?
                ),
                _ => return refuse(format!("{at}.source.type"), NO_EQUIVALENT),
            };
            Ok(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        Some(_) => refuse(format!("{at}.type"), NO_EQUIVALENT),
        None => refuse(format!("{at}.type"), WRONG_TYPE),
    }
}
