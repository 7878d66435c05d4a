//! Requests: Anthropic messages to Gemini. Not by way of chat, which has no order of texts and calls and no failed results.

use super::super::{NO_EQUIVALENT, Refused, Translated, UNKNOWN, WRONG_TYPE, array, drop_hint, object, refuse, string};
use super::request::{Request, inline_data};
use serde_json::{Value, json};

/// Translates a request. `model`: the candidate's, which the path names; it decides how thinking is requested.
///
/// # Errors
/// The member that has no equivalent.
pub fn messages_to_gemini(request: &Value, model: &str) -> Result<Translated, Refused> {
    let mut out = Request::new(model);
    for (name, value) in object(request, "body")? {
        if value.is_null() {
            continue;
        }
        match name.as_str() {
            // the path says the first two
            "model" | "stream" | "messages" => {}
            "system" => system(value, &mut out)?,
            "max_tokens" => {
                out.config.insert("maxOutputTokens".into(), value.clone());
            }
            "temperature" => {
                out.config.insert(name.clone(), value.clone());
            }
            "top_p" => {
                out.config.insert("topP".into(), value.clone());
            }
            "stop_sequences" => {
                out.config.insert("stopSequences".into(), value.clone());
            }
            "metadata" => {
                for (name, value) in object(value, name)? {
                    match name.as_str() {
                        _ if value.is_null() => {}
                        "user_id" => drop_hint(&mut out.dropped, "metadata.user_id"),
                        _ => return refuse(format!("metadata.{name}"), UNKNOWN),
                    }
                }
            }
            "tools" => {
                for (i, tool) in array(value, name)?.iter().enumerate() {
                    let function = function(tool, i, &mut out.dropped)?;
                    out.functions.push(function);
                }
            }
            "tool_choice" => {
                out.calling = Some(match value["type"].as_str() {
                    Some("none") => json!({"mode": "NONE"}),
                    Some("auto") => json!({"mode": "AUTO"}),
                    Some("any") => json!({"mode": "ANY"}),
                    Some("tool") => {
                        let name = string(&value["name"], "tool_choice.name")?;
                        json!({"mode": "ANY", "allowedFunctionNames": [name]})
                    }
                    _ => return refuse("tool_choice.type", NO_EQUIVALENT),
                });
                if value["disable_parallel_tool_use"] == true {
                    return refuse("tool_choice.disable_parallel_tool_use", NO_EQUIVALENT);
                }
            }
            "output_config" => {
                for (name, value) in object(value, name)? {
                    match name.as_str() {
                        _ if value.is_null() => {}
                        "format" if value["type"] == "json_schema" && value["schema"].is_object() => {
                            out.respond_as(Some(&value["schema"]));
                        }
                        "effort" => out.think(value, "output_config.effort")?,
                        _ => return refuse(format!("output_config.{name}"), NO_EQUIVALENT),
                    }
                }
            }
            "thinking" if value["type"] == "disabled" => out.think(&"none".into(), name)?,
            "thinking" | "cache_control" => drop_hint(&mut out.dropped, name),
            "service_tier" if value == "auto" => drop_hint(&mut out.dropped, name),
            "top_k" | "container" | "mcp_servers" | "service_tier" => return refuse(name, NO_EQUIVALENT),
            _ => return refuse(name, UNKNOWN),
        }
    }
    for (i, message) in array(&request["messages"], "messages")?.iter().enumerate() {
        let at = format!("messages[{i}]");
        let role = match message["role"].as_str() {
            Some("user") => "user",
            Some("assistant") => "model",
            _ => return refuse(format!("{at}.role"), NO_EQUIVALENT),
        };
        blocks(&message["content"], role, &format!("{at}.content"), &mut out)?;
    }
    Ok(out.finish())
}

fn system(value: &Value, out: &mut Request<'_>) -> Result<(), Refused> {
    if let Value::String(text) = value {
        out.system.push(json!({"text": text}));
        return Ok(());
    }
    for (i, block) in array(value, "system")?.iter().enumerate() {
        let at = format!("system[{i}]");
        match part(block, &at, &mut out.dropped)? {
            Some(part) if part["text"].is_null() => return refuse(format!("{at}.type"), NO_EQUIVALENT),
            part => out.system.extend(part),
        }
    }
    Ok(())
}

fn function(tool: &Value, i: usize, dropped: &mut Vec<String>) -> Result<Value, Refused> {
    let at = format!("tools[{i}]");
    let mut function = json!({});
    for (name, value) in object(tool, &at)? {
        match name.as_str() {
            _ if value.is_null() => {}
            "type" if value == "custom" => {}
            "name" | "description" => function[name] = value.clone(),
            "input_schema" => function["parametersJsonSchema"] = value.clone(),
            "strict" if value == false => {}
            "strict" | "cache_control" => drop_hint(dropped, name),
            _ => return refuse(format!("{at}.{name}"), NO_EQUIVALENT),
        }
    }
    Ok(function)
}

fn blocks(content: &Value, role: &'static str, at: &str, out: &mut Request<'_>) -> Result<(), Refused> {
    if let Value::String(text) = content {
        if !text.is_empty() {
            out.push(role, vec![json!({"text": text})]);
        }
        return Ok(());
    }
    for (n, block) in array(content, at)?.iter().enumerate() {
        let at = format!("{at}[{n}]");
        let part = match (block["type"].as_str(), role) {
            (Some("thinking" | "redacted_thinking"), "model") => {
                drop_hint(&mut out.dropped, "thinking");
                continue;
            }
            (Some("tool_use"), "model") => {
                let input = &block["input"];
                object(input, &format!("{at}.input"))?;
                let name = string(&block["name"], &format!("{at}.name"))?;
                Some(out.call(string(&block["id"], &format!("{at}.id"))?, name, input))
            }
            (Some("tool_result"), "user") => Some(tool_result(block, &at, out)?),
            (Some("image"), "model") => return refuse(format!("{at}.type"), NO_EQUIVALENT),
            _ => self::part(block, &at, &mut out.dropped)?,
        };
        out.push(role, part.into_iter().collect());
    }
    Ok(())
}

fn tool_result(block: &Value, at: &str, out: &mut Request<'_>) -> Result<Value, Refused> {
    let mut texts = Vec::new();
    match &block["content"] {
        Value::Null => {}
        Value::String(_) => texts.push(block["content"].clone()),
        blocks => {
            for (n, block) in array(blocks, &format!("{at}.content"))?.iter().enumerate() {
                let at = format!("{at}.content[{n}]");
                match part(block, &at, &mut out.dropped)? {
                    None => {}
                    Some(part) if part["text"].is_string() => texts.push(part["text"].clone()),
                    Some(_) => return refuse(format!("{at}.type"), NO_EQUIVALENT),
                }
            }
        }
    }
    let result: Value = match texts.as_slice() {
        [] => "".into(),
        [text] => text.clone(),
        _ => texts.into(),
    };
    // `error` is the API's name for what went wrong; a response without `output` and `error` is the result as a whole.
    let response = if block["is_error"] == true { json!({"error": result}) } else { json!({"result": result}) };
    let member = format!("{at}.tool_use_id");
    out.result(string(&block["tool_use_id"], &member)?, response, &member)
}

/// A text or an image; `None` for an empty text.
fn part(block: &Value, at: &str, dropped: &mut Vec<String>) -> Result<Option<Value>, Refused> {
    for name in ["cache_control", "citations"] {
        if !block[name].is_null() {
            drop_hint(dropped, name);
        }
    }
    match block["type"].as_str() {
        Some("text") => {
            let text = string(&block["text"], &format!("{at}.text"))?;
            Ok((!text.is_empty()).then(|| json!({"text": text})))
        }
        Some("image") => {
            let source = &block["source"];
            match source["type"].as_str() {
                Some("base64") => Ok(Some(inline_data(
                    string(&source["media_type"], &format!("{at}.source.media_type"))?,
                    string(&source["data"], &format!("{at}.source.data"))?,
                ))),
                Some("url") => refuse(format!("{at}.source.url"), "only images as base64: the gateway fetches nothing"),
                _ => refuse(format!("{at}.source.type"), NO_EQUIVALENT),
            }
        }
        Some(_) => refuse(format!("{at}.type"), NO_EQUIVALENT),
        None => refuse(format!("{at}.type"), WRONG_TYPE),
    }
}
