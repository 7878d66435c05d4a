//! wrk: a closed loop with a fixed number of connections; what is not one plain GET becomes a Lua script.

use std::fmt::Write;
use std::path::Path;

use super::{ExternalError, Invocation, Options, Single, Tool, absolute, expression, full_path, quoted, write};
use crate::load::workload::{Body, Operation, Order, Pick, Source, Span, Workload};

pub(super) fn invocation(workload: &Workload, options: &Options, folder: &Path) -> Result<Invocation, ExternalError> {
    let tool = Tool::Wrk;
    let Single::Closed(closed) = tool.single(workload)? else { return Err(tool.cannot("an open loop")) };
    let (Span::Constant(users), Some(duration), None, None) =
        (closed.users, closed.duration, closed.iterations, closed.think)
    else {
        return Err(tool.cannot("anything but a fixed number of users for a fixed time, without think time"));
    };
    let threads = options.threads.unwrap_or(2).clamp(1, users);
    // It knows whole seconds.
    let mut args: Vec<std::ffi::OsString> = vec!["--latency".into()];
    let mut arg = |name: &str, value: String| args.extend([name.into(), value.into()]);
    arg("-t", threads.to_string());
    arg("-c", users.to_string());
    arg("-d", format!("{}s", duration.as_secs_f64().ceil().max(1.0)));
    arg("--timeout", format!("{}s", workload.timeout.as_secs().max(1)));
    let plain = match &workload.operations[..] {
        [operation] => {
            *operation
                == Operation {
                    base: operation.base.clone(),
                    weight: operation.weight,
                    ..Operation::get(&operation.id, &operation.path)
                }
        }
        _ => false,
    };
    let path = if plain { full_path(workload, &workload.operations[0])? } else { "/".to_owned() };
    if let Some(script) = &options.script {
        args.extend(["-s".into(), absolute(script)?.into()]);
    } else if !plain {
        let script = write(folder, "wrk.lua", &script(workload)?)?;
        args.extend(["-s".into(), absolute(&script)?.into()]);
    }
    args.push(format!("http://{}{path}", tool.authority(workload)?.authority).into());
    Ok(Invocation { program: tool.name().into(), args, env: Vec::new(), result: None })
}

const LUA: &str = r#"-- Made by gauge from a workload.
local thread_number = 0
function setup(thread)
  thread:set("number", thread_number)
  thread_number = thread_number + 1
end
function init(args)
  math.randomseed(SEED + number)
end
local function percent(value)
  return (tostring(value):gsub("[^%w%-%._~]", function(c) return string.format("%%%02X", string.byte(c)) end))
end
local function json(value)
  return (tostring(value):gsub('[\\"]', "\\%0"))
end
local function read(name)
  local file = assert(io.open(name, "rb"))
  local bytes = file:read("*a")
  file:close()
  return bytes
end
local turn = {}
local function step(cursor)
  local now = turn[cursor] or 0
  turn[cursor] = now + 1
  return now
end
local operations, sum = {}, 0
local function add(weight, make)
  sum = sum + weight
  operations[#operations + 1] = { upto = sum, make = make }
end
"#;

fn script(workload: &Workload) -> Result<String, ExternalError> {
    let tool = Tool::Wrk;
    let mut lua = LUA.replace("SEED", &workload.seed.to_string());
    let mut cursor = 0;
    for operation in &workload.operations {
        if !operation.capture.is_empty() || !operation.expect.is_empty() {
            return Err(tool.cannot("captures and expected statuses"));
        }
        let body = match &operation.body {
            None => "nil".to_owned(),
            Some(Body::Text(text)) => filled(text, operation, "json"),
            Some(Body::File(file)) => {
                let _ = writeln!(lua, "local file{cursor} = read({})", quoted(&absolute(file)?.to_string_lossy()));
                format!("file{cursor}")
            }
            Some(Body::Base64(_)) => return Err(tool.cannot("a body of bytes; put them into a file")),
            Some(Body::Lines(_)) => {
                return Err(tool.cannot("bodies that differ, such as events; use gauge's own generator"));
            }
        };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(lua, "add({}, function()\n  local v = {{}}", operation.weight);
        for (name, source) in &operation.params {
            cursor += 1;
            let value = match source {
                Source::Fixed(value) => quoted(value),
                Source::Int { from, to, pick: Pick::Random } => {
                    format!("string.format('%d', math.random({from}, {to}))")
                }
                Source::Int { from, to, pick: Pick::Sequence } => {
                    format!(
                        "string.format('%d', {from} + step({cursor}) % {})",
                        i128::from(*to) - i128::from(*from) + 1
                    )
                }
                Source::List { values, pick } => {
                    let list: Vec<String> = values.iter().map(|value| quoted(value)).collect();
                    let index = match pick {
                        Pick::Random => format!("math.random(1, {})", values.len()),
                        Pick::Sequence => format!("step({cursor}) % {} + 1", values.len()),
                    };
                    format!("({{{}}})[{index}]", list.join(", "))
                }
                Source::Csv { .. } => return Err(tool.cannot("values from a CSV file")),
                Source::Counter(_) => return Err(tool.cannot("a counter over all of its threads")),
                Source::Captured { .. } => return Err(tool.cannot("values from responses")),
            };
            let _ = writeln!(lua, "  v[{}] = {value}", quoted(name));
        }
        let headers: Vec<String> = operation
            .headers
            .iter()
            .map(|(name, value)| format!("[{}] = {}", quoted(name), filled(value, operation, "tostring")))
            .collect();
        let path = full_path(workload, operation)?;
        let _ = writeln!(
            lua,
            "  return wrk.format({}, {}, {{{}}}, {body})\nend)",
            quoted(&operation.method),
            filled(&path, operation, "percent"),
            headers.join(", ")
        );
    }
    lua.push_str(match workload.order {
        Order::Sequence => "function request()\n  return operations[step(0) % #operations + 1].make()\nend\n",
        Order::Weighted => {
            "function request()\n  local point = math.random() * sum\n  for _, operation in ipairs(operations) do\n    \
             if point < operation.upto then return operation.make() end\n  end\n  return operations[#operations].make()\nend\n"
        }
    });
    Ok(lua)
}

/// A Lua expression for a text with values.
fn filled(text: &str, operation: &Operation, escape: &str) -> String {
    expression(text, operation, escape, " .. ")
}
