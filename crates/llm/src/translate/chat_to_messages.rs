//! Requests: OpenAI chat to Anthropic messages.

use super::{
    NO_EQUIVALENT, Refused, Translated, UNKNOWN, WRONG_TYPE, array, chat, drop_hint, object, push_message, refuse,
    string,
};
use serde_json::{Map, Value, json};

/// Translates a request. `model`: the candidate's; `max_output`: its limit, for requests without one, as Anthropic requires one.
///
/// # Errors
/// The member that has no equivalent.
pub fn chat_to_messages(request: &Value, model: &str, max_output: Option<u64>) -> Result<Translated, Refused> {
    let mut body = Map::new();
    let mut dropped = Vec::new();
    let mut tool_choice = None;
    let mut one_tool = false;
    let mut output_config = Map::new();
    body.insert("model".into(), model.into());
    for (name, value) in object(request, "body")? {
        if value.is_null() {
            continue;
        }
        match name.as_str() {
            // the second pair wins, read below; the stream's translator adds usage
            "model" | "max_tokens" | "max_completion_tokens" | "stream_options" => {}
            "messages" => messages(value, &mut body, &mut dropped)?,
            "stream" | "top_p" => {
                body.insert(name.clone(), value.clone());
            }
            "temperature" => {
                if value.as_f64().is_none_or(|temperature| temperature > 1.0) {
                    return refuse(name, "the largest value of the provider is 1");
                }
                body.insert(name.clone(), value.clone());
            }
            "stop" => {
                let stop = if value.is_string() { json!([value]) } else { value.clone() };
                body.insert("stop_sequences".into(), stop);
            }
            "tools" => {
                let tools = array(value, name)?.iter().enumerate().map(|(i, tool)| tool_definition(tool, i));
                body.insert("tools".into(), tools.collect::<Result<Vec<_>, _>>()?.into());
            }
            "tool_choice" => tool_choice = Some(choice(value)?),
            "parallel_tool_calls" => one_tool = value == false,
            "response_format" => match value["type"].as_str() {
                Some("text") => {}
                Some("json_schema") if value["json_schema"]["schema"].is_object() => {
                    let format = json!({"type": "json_schema", "schema": value["json_schema"]["schema"]});
                    output_config.insert("format".into(), format);
                }
                _ => return refuse(name, NO_EQUIVALENT),
            },
            "reasoning_effort" => match value.as_str() {
                Some("none") => {
                    body.insert("thinking".into(), json!({"type": "disabled"}));
                }
                Some("low" | "medium" | "high" | "xhigh" | "max") => {
                    output_config.insert("effort".into(), value.clone());
                }
                _ => return refuse(name, NO_EQUIVALENT),
            },
            "user" | "safety_identifier" => {
                body.entry("metadata").or_insert_with(|| json!({"user_id": value}));
            }
            "n" if value == 1 => {}
            "frequency_penalty" | "presence_penalty" if value.as_f64() == Some(0.0) => {}
            "n" | "seed" | "frequency_penalty" | "presence_penalty" => return refuse(name, NO_EQUIVALENT),
            _ => chat::other_member(name, value, &mut dropped)?,
        }
    }
    let requested =
        [&request["max_completion_tokens"], &request["max_tokens"]].into_iter().find(|value| !value.is_null());
    let Some(max_tokens) = requested.cloned().or_else(|| max_output.map(Value::from)) else {
        return refuse("max_completion_tokens", "the provider requires a limit, and the candidate has no max_output");
    };
    body.insert("max_tokens".into(), max_tokens);
    if one_tool && request["tools"].is_array() {
        let choice = tool_choice.get_or_insert_with(|| json!({"type": "auto"}));
        // a call that cannot happen needs no limit, and `none` has no such member
        if choice["type"] != "none" {
            choice["disable_parallel_tool_use"] = true.into();
        }
    }
    if let Some(choice) = tool_choice {
        body.insert("tool_choice".into(), choice);
    }
    if !output_config.is_empty() {
        body.insert("output_config".into(), output_config.into());
    }
    Ok(Translated { body: body.into(), dropped })
}

fn tool_definition(tool: &Value, i: usize) -> Result<Value, Refused> {
    let at = format!("tools[{i}]");
    if tool["type"] != "function" {
        return refuse(format!("{at}.type"), NO_EQUIVALENT);
    }
    let mut out = json!({"input_schema": {"type": "object", "properties": {}}});
    for (name, value) in object(&tool["function"], &format!("{at}.function"))? {
        match name.as_str() {
            _ if value.is_null() => {}
            "name" | "description" | "strict" => out[name] = value.clone(),
            "parameters" => out["input_schema"] = value.clone(),
            _ => return refuse(format!("{at}.function.{name}"), UNKNOWN),
        }
    }
    Ok(out)
}

fn choice(value: &Value) -> Result<Value, Refused> {
    Ok(match (value.as_str(), value["type"].as_str()) {
        (Some("none"), _) => json!({"type": "none"}),
        (Some("auto"), _) => json!({"type": "auto"}),
        (Some("required"), _) => json!({"type": "any"}),
        (None, Some("function")) => {
            json!({"type": "tool", "name": string(&value["function"]["name"], "tool_choice.function.name")?})
        }
        _ => return refuse("tool_choice", NO_EQUIVALENT),
    })
}

fn messages(value: &Value, body: &mut Map<String, Value>, dropped: &mut Vec<String>) -> Result<(), Refused> {
    let mut system = Vec::new();
    let mut out: Vec<(String, Vec<Value>)> = Vec::new();
    for (i, message) in array(value, "messages")?.iter().enumerate() {
        let at = format!("messages[{i}]");
        let role = string(&message["role"], &format!("{at}.role"))?;
        for (name, value) in object(message, &at)? {
            let known = match name.as_str() {
                "role" | "content" => true,
                "tool_calls" | "refusal" | "reasoning" | "reasoning_content" | "annotations" => role == "assistant",
                "tool_call_id" => role == "tool",
                _ => false,
            };
            match name.as_str() {
                _ if value.is_null() => {}
                // Clients send back what they got, empty lists included.
                "annotations" if known && value.as_array().is_some_and(Vec::is_empty) => {}
                "reasoning" | "reasoning_content" | "annotations" if known => drop_hint(dropped, name),
                "refusal" => return refuse(format!("{at}.refusal"), NO_EQUIVALENT),
                _ if known => {}
                _ => return refuse(format!("{at}.{name}"), NO_EQUIVALENT),
            }
        }
        match role {
            "system" | "developer" if out.is_empty() => {
                for block in content(&message["content"], &at, dropped)? {
                    if block["type"] != "text" {
                        return refuse(format!("{at}.content"), "only text is possible here");
                    }
                    system.push(block);
                }
            }
            "system" | "developer" => return refuse(format!("{at}.role"), "instructions stand at the start only"),
            "user" => push_message(&mut out, "user", content(&message["content"], &at, dropped)?),
            "assistant" => {
                let mut blocks = content(&message["content"], &at, dropped)?;
                for (n, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
                    blocks.push(tool_use(call, &format!("{at}.tool_calls[{n}]"))?);
                }
                push_message(&mut out, "assistant", blocks);
            }
            "tool" => {
                let id = string(&message["tool_call_id"], &format!("{at}.tool_call_id"))?;
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": content(&message["content"], &at, dropped)?});
                push_message(&mut out, "user", vec![result]);
            }
            _ => return refuse(format!("{at}.role"), NO_EQUIVALENT),
        }
    }
    if !system.is_empty() {
        body.insert("system".into(), system.into());
    }
    let messages = out.into_iter().map(|(role, content)| json!({"role": role, "content": content}));
    body.insert("messages".into(), messages.collect());
    Ok(())
}

fn tool_use(call: &Value, at: &str) -> Result<Value, Refused> {
    let function = &call["function"];
    let arguments = string(&function["arguments"], &format!("{at}.function.arguments"))?;
    let input = match serde_json::from_str::<Value>(if arguments.trim().is_empty() { "{}" } else { arguments }) {
        Ok(input @ Value::Object(_)) => input,
        _ => return refuse(format!("{at}.function.arguments"), "not a JSON object"),
    };
    let id = string(&call["id"], &format!("{at}.id"))?;
    Ok(
        json!({"type": "tool_use", "id": id, "name": string(&function["name"], &format!("{at}.function.name"))?, "input": input}),
    )
}

/// The blocks of a message's content. Empty texts are left out, as Anthropic refuses them.
fn content(value: &Value, at: &str, dropped: &mut Vec<String>) -> Result<Vec<Value>, Refused> {
    let at = format!("{at}.content");
    let text = |text: &str| (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(whole) => Ok(text(whole).into_iter().collect()),
        Value::Array(parts) => {
            let mut blocks = Vec::new();
            for (n, part) in parts.iter().enumerate() {
                let at = format!("{at}[{n}]");
                match part["type"].as_str() {
                    Some("text") => blocks.extend(text(string(&part["text"], &format!("{at}.text"))?)),
                    Some("image_url") => {
                        if !part["image_url"]["detail"].is_null() {
                            drop_hint(dropped, "detail");
                        }
                        let url = string(&part["image_url"]["url"], &format!("{at}.image_url.url"))?;
                        blocks.push(json!({"type": "image", "source": image(url, &at)?}));
                    }
                    _ => return refuse(format!("{at}.type"), NO_EQUIVALENT),
                }
            }
            Ok(blocks)
        }
        _ => refuse(at, WRONG_TYPE),
    }
}

fn image(url: &str, at: &str) -> Result<Value, Refused> {
    if url.starts_with("https://") || url.starts_with("http://") {
        return Ok(json!({"type": "url", "url": url}));
    }
    let parts = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match parts {
        Some((media_type @ ("image/jpeg" | "image/png" | "image/gif" | "image/webp"), data)) => {
            Ok(json!({"type": "base64", "media_type": media_type, "data": data}))
        }
        _ => refuse(format!("{at}.image_url.url"), "only https and http URLs, and JPEG, PNG, GIF and WebP as base64"),
    }
}
