//! Requests: OpenAI chat to Gemini.

use super::super::{
    NO_EQUIVALENT, Refused, Translated, UNKNOWN, WRONG_TYPE, array, chat, drop_hint, object, refuse, string,
};
use super::request::{Request, inline_data};
use serde_json::{Value, json};

/// Translates a request. `model`: the candidate's, which the path names; it decides how thinking is requested.
///
/// # Errors
/// The member that has no equivalent.
pub fn chat_to_gemini(request: &Value, model: &str) -> Result<Translated, Refused> {
    let mut out = Request::new(model);
    for (name, value) in object(request, "body")? {
        if value.is_null() {
            continue;
        }
        match name.as_str() {
            // the path says the first two, the second pair is read below, the stream's translator adds usage
            "model" | "stream" | "max_tokens" | "max_completion_tokens" | "stream_options" => {}
            "messages" => messages(value, &mut out)?,
            "temperature" | "seed" => {
                out.config.insert(name.clone(), value.clone());
            }
            "top_p" => {
                out.config.insert("topP".into(), value.clone());
            }
            "frequency_penalty" => {
                out.config.insert("frequencyPenalty".into(), value.clone());
            }
            "presence_penalty" => {
                out.config.insert("presencePenalty".into(), value.clone());
            }
            "stop" => {
                let stop = if value.is_string() { json!([value]) } else { value.clone() };
                out.config.insert("stopSequences".into(), stop);
            }
            "n" if value == 1 => {}
            "n" if request["stream"] == true => return refuse(name, "several choices cannot be streamed"),
            "n" => {
                out.config.insert("candidateCount".into(), value.clone());
            }
            "tools" => {
                for (i, tool) in array(value, name)?.iter().enumerate() {
                    let function = function(tool, i, &mut out.dropped)?;
                    out.functions.push(function);
                }
            }
            "tool_choice" => out.calling = Some(choice(value)?),
            "parallel_tool_calls" if value == true => {}
            // OpenAI's API refuses it too where there are no tools
            "parallel_tool_calls" if !request["tools"].is_array() => {}
            "response_format" => match value["type"].as_str() {
                Some("text") => {}
                Some("json_object") => out.respond_as(None),
                Some("json_schema") if value["json_schema"]["schema"].is_object() => {
                    if !value["json_schema"]["description"].is_null() {
                        drop_hint(&mut out.dropped, "json_schema.description");
                    }
                    out.respond_as(Some(&value["json_schema"]["schema"]));
                }
                _ => return refuse(name, NO_EQUIVALENT),
            },
            "reasoning_effort" => out.think(value, name)?,
            "user" | "safety_identifier" => drop_hint(&mut out.dropped, name),
            "parallel_tool_calls" => return refuse(name, NO_EQUIVALENT),
            _ => chat::other_member(name, value, &mut out.dropped)?,
        }
    }
    let limits = [&request["max_completion_tokens"], &request["max_tokens"]];
    if let Some(limit) = limits.into_iter().find(|value| !value.is_null()) {
        out.config.insert("maxOutputTokens".into(), limit.clone());
    }
    Ok(out.finish())
}

fn function(tool: &Value, i: usize, dropped: &mut Vec<String>) -> Result<Value, Refused> {
    let at = format!("tools[{i}]");
    if tool["type"] != "function" {
        return refuse(format!("{at}.type"), NO_EQUIVALENT);
    }
    let mut out = json!({});
    for (name, value) in object(&tool["function"], &format!("{at}.function"))? {
        match name.as_str() {
            _ if value.is_null() => {}
            "name" | "description" => out[name] = value.clone(),
            "parameters" => out["parametersJsonSchema"] = value.clone(),
            "strict" if value == false => {}
            "strict" => drop_hint(dropped, name),
            _ => return refuse(format!("{at}.function.{name}"), UNKNOWN),
        }
    }
    Ok(out)
}

fn choice(value: &Value) -> Result<Value, Refused> {
    Ok(match (value.as_str(), value["type"].as_str()) {
        (Some("none"), _) => json!({"mode": "NONE"}),
        (Some("auto"), _) => json!({"mode": "AUTO"}),
        (Some("required"), _) => json!({"mode": "ANY"}),
        (None, Some("function")) => {
            let name = string(&value["function"]["name"], "tool_choice.function.name")?;
            json!({"mode": "ANY", "allowedFunctionNames": [name]})
        }
        _ => return refuse("tool_choice", NO_EQUIVALENT),
    })
}

fn messages(value: &Value, out: &mut Request<'_>) -> Result<(), Refused> {
    let mut has_begun = false;
    for (i, message) in array(value, "messages")?.iter().enumerate() {
        let at = format!("messages[{i}]");
        let role = string(&message["role"], &format!("{at}.role"))?;
        for (name, value) in object(message, &at)? {
            let known = match name.as_str() {
                "role" | "content" => true,
                "tool_calls" | "reasoning" | "reasoning_content" | "annotations" => role == "assistant",
                "tool_call_id" => role == "tool",
                _ => false,
            };
            match name.as_str() {
                _ if value.is_null() => {}
                // Clients send back what they got, empty lists included.
                "annotations" if known && value.as_array().is_some_and(Vec::is_empty) => {}
                "reasoning" | "reasoning_content" | "annotations" if known => drop_hint(&mut out.dropped, name),
                _ if known => {}
                _ => return refuse(format!("{at}.{name}"), NO_EQUIVALENT),
            }
        }
        let parts = content(&message["content"], &at, &mut out.dropped)?;
        match role {
            "system" | "developer" if has_begun => {
                return refuse(format!("{at}.role"), "instructions stand at the start only");
            }
            "system" | "developer" => {
                if parts.iter().any(|part| part["text"].is_null()) {
                    return refuse(format!("{at}.content"), "only text is possible here");
                }
                out.system.extend(parts);
                continue;
            }
            "user" => out.push("user", parts),
            "assistant" => {
                let mut parts = parts;
                for (n, call) in message["tool_calls"].as_array().into_iter().flatten().enumerate() {
                    parts.push(function_call(call, &format!("{at}.tool_calls[{n}]"), out)?);
                }
                out.push("model", parts);
            }
            "tool" => {
                let member = format!("{at}.tool_call_id");
                let id = string(&message["tool_call_id"], &member)?;
                let result = function_result(&message["content"], &parts, &at)?;
                let part = out.result(id, json!({"result": result}), &member)?;
                out.push("user", vec![part]);
            }
            _ => return refuse(format!("{at}.role"), NO_EQUIVALENT),
        }
        has_begun = true;
    }
    Ok(())
}

fn function_call(call: &Value, at: &str, out: &mut Request<'_>) -> Result<Value, Refused> {
    let function = &call["function"];
    let arguments = string(&function["arguments"], &format!("{at}.function.arguments"))?;
    let args = match serde_json::from_str::<Value>(if arguments.trim().is_empty() { "{}" } else { arguments }) {
        Ok(args @ Value::Object(_)) => args,
        _ => return refuse(format!("{at}.function.arguments"), "not a JSON object"),
    };
    let name = string(&function["name"], &format!("{at}.function.name"))?;
    Ok(out.call(string(&call["id"], &format!("{at}.id"))?, name, &args))
}

/// What a tool says: a text, or a list of several.
fn function_result(content: &Value, parts: &[Value], at: &str) -> Result<Value, Refused> {
    if parts.iter().any(|part| part["text"].is_null()) {
        return refuse(format!("{at}.content"), "only text is possible here");
    }
    Ok(match (content, parts) {
        (Value::String(_), _) => content.clone(),
        (_, []) => "".into(),
        (_, [part]) => part["text"].clone(),
        (_, parts) => parts.iter().map(|part| part["text"].clone()).collect(),
    })
}

/// The parts of a message's content. Empty texts are left out.
fn content(value: &Value, at: &str, dropped: &mut Vec<String>) -> Result<Vec<Value>, Refused> {
    let at = format!("{at}.content");
    let text = |text: &str| (!text.is_empty()).then(|| json!({"text": text}));
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(whole) => Ok(text(whole).into_iter().collect()),
        Value::Array(parts) => {
            let mut out = Vec::new();
            for (n, part) in parts.iter().enumerate() {
                let at = format!("{at}[{n}]");
                match part["type"].as_str() {
                    Some("text") => out.extend(text(string(&part["text"], &format!("{at}.text"))?)),
                    Some("image_url") => {
                        if !part["image_url"]["detail"].is_null() {
                            drop_hint(dropped, "detail");
                        }
                        let member = format!("{at}.image_url.url");
                        let url = string(&part["image_url"]["url"], &member)?;
                        match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
                            Some((kind, data)) if kind.starts_with("image/") => out.push(inline_data(kind, data)),
                            _ => return refuse(member, "only images as base64: the gateway fetches nothing"),
                        }
                    }
                    _ => return refuse(format!("{at}.type"), NO_EQUIVALENT),
                }
            }
            Ok(out)
        }
        _ => refuse(at, WRONG_TYPE),
    }
}
