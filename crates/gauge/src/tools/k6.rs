//! k6: a script with one scenario, and its end-of-test summary.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use super::{ExternalError, Invocation, Options, Single, Tool, absolute, expression, full_path, quoted, write};
use crate::load::workload::{
    Arrivals, Body, Capture, Closed, Open, Operation, Order, Pick, Rates, Scope, Source, Span, Statuses, Vary, Workload,
};

pub(super) fn invocation(workload: &Workload, options: &Options, folder: &Path) -> Result<Invocation, ExternalError> {
    let tool = Tool::K6;
    let summary = absolute(&folder.join("k6-summary.json"))?;
    let mut args: Vec<std::ffi::OsString> = vec!["run".into(), "--quiet".into(), "--no-color".into()];
    let url = tool.authority(workload)?;
    let base = Url::of(workload, &url.authority);
    let mut env = vec![("K6_NO_USAGE_REPORT".to_owned(), "true".to_owned())];
    match &options.script {
        Some(script) => {
            args.extend([
                "--summary-trend-stats".into(),
                "avg,min,med,max,p(75),p(90),p(95),p(99),p(99.9),count".into(),
            ]);
            args.extend(["--summary-export".into(), summary.clone().into(), absolute(script)?.into()]);
            let host = url.authority.rsplit_once(':').map_or(url.authority.as_str(), |(host, _)| host);
            env.push(("URL".to_owned(), base));
            env.push(("HOST".to_owned(), host.to_owned()));
            env.push(("PORT".to_owned(), url.port.to_string()));
        }
        None => args.push(absolute(&write(folder, "k6.js", &script(workload, &summary)?)?)?.into()),
    }
    Ok(Invocation { program: tool.name().into(), args, env, result: Some(summary) })
}

/// The base URL that a user's own script is given.
struct Url;

impl Url {
    fn of(workload: &Workload, authority: &str) -> String {
        if workload.base.is_empty() {
            format!("http://{authority}")
        } else {
            workload.base.trim_end_matches('/').to_owned()
        }
    }
}

fn script(workload: &Workload, summary: &Path) -> Result<String, ExternalError> {
    let tool = Tool::K6;
    let mut think = None;
    let scenario = match tool.single(workload)? {
        Single::Closed(closed) => {
            think = closed.think;
            closed_scenario(closed)?
        }
        Single::Open(open) => open_scenario(open)?,
    };
    let captures = workload.operations.iter().any(|operation| !operation.capture.is_empty());
    let mut js = String::from(
        "// Made by gauge from a workload.\nimport http from 'k6/http';\nimport { sleep } from 'k6';\nimport exec from 'k6/execution';\n",
    );
    // Writing to a string cannot fail, here and below.
    let _ = writeln!(
        js,
        "export const options = {{\n  discardResponseBodies: {},\n  summaryTrendStats: ['avg', 'min', 'med', 'max', 'p(75)', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)', 'count'],\n  \
         scenarios: {{ load: {{ gracefulStop: '{}s', {scenario} }} }},\n}};",
        !captures,
        workload.timeout.as_secs_f64()
    );
    js.push_str(
        "const captured = {};\n\
         const random = (from, to) => from + Math.floor(Math.random() * (to - from + 1));\n\
         const json = (value) => JSON.stringify(String(value)).slice(1, -1);\n\
         // Over all users: the number of the iteration in the test.\nconst step = () => exec.scenario.iterationInTest;\n\
         const at = (value, path) => path.reduce((value, key) => (value === null || value === undefined ? undefined : value[key]), value);\n",
    );
    let timeout = workload.timeout.as_millis();
    js.push_str("const operations = [\n");
    let mut bodies = String::new();
    let mut sum = 0.0;
    for (index, operation) in workload.operations.iter().enumerate() {
        sum += operation.weight;
        let _ = writeln!(js, "  {{ upto: {sum}, run: () => {{\n    const v = {{}};");
        for (name, source) in &operation.params {
            let _ = writeln!(js, "    v[{}] = {};", quoted(name), value(source)?);
        }
        let headers: Vec<String> = operation
            .headers
            .iter()
            .map(|(name, value)| format!("{}: {}", quoted(name), filled(value, operation, "String")))
            .collect();
        let body = match &operation.body {
            None => "null".to_owned(),
            Some(Body::Text(text)) => filled(text, operation, "json"),
            Some(Body::File(file)) => {
                let _ =
                    writeln!(bodies, "const body{index} = open({}, 'b');", quoted(&absolute(file)?.to_string_lossy()));
                format!("body{index}")
            }
            Some(Body::Base64(_)) => return Err(tool.cannot("a body of bytes; put them into a file")),
            Some(Body::Lines(_)) => {
                return Err(tool.cannot("bodies that differ, such as events; use gauge's own generator"));
            }
        };
        let base = operation.base.as_deref().unwrap_or(&workload.base);
        let authority = crate::load::Url::parse(base)?.authority;
        let path = full_path(workload, operation)?;
        let expected = expected(&operation.expect);
        let response_type = if operation.capture.is_empty() { "none" } else { "text" };
        let _ = writeln!(
            js,
            "    const r = http.request({}, {} + {}, {body}, {{ headers: {{ {} }}, timeout: {timeout}, redirects: 0, \
             responseType: '{response_type}', tags: {{ name: {} }}, responseCallback: http.expectedStatuses({expected}) }});",
            quoted(&operation.method),
            quoted(&format!("http://{authority}")),
            filled(&path, operation, "encodeURIComponent"),
            headers.join(", "),
            quoted(&operation.id),
        );
        for capture in &operation.capture {
            js.push_str(&keep(capture)?);
        }
        js.push_str("  } },\n");
    }
    js.push_str("];\n");
    js.push_str(&bodies);
    js.push_str(&match workload.order {
        Order::Sequence => "let mine = 0;\nexport default function () {\n  operations[mine++ % operations.length].run();\n".to_owned(),
        Order::Weighted => format!(
            "export default function () {{\n  const point = Math.random() * {sum};\n  operations.find((operation) => point < operation.upto).run();\n"
        ),
    });
    if let Some(think) = think {
        let mean = think.mean.as_secs_f64();
        let _ = writeln!(
            js,
            "  sleep({});",
            match think.vary {
                Vary::None => mean.to_string(),
                Vary::Uniform => format!("Math.random() * {}", 2.0 * mean),
                Vary::Exponential => format!("-Math.log(1 - Math.random()) * {mean}"),
            }
        );
    }
    let _ = writeln!(
        js,
        "}}\nexport function handleSummary(data) {{\n  return {{ {}: JSON.stringify(data) }};\n}}",
        quoted(&summary.to_string_lossy())
    );
    Ok(js)
}

fn seconds(duration: Duration) -> String {
    format!("'{}s'", duration.as_secs_f64())
}

fn closed_scenario(closed: &Closed) -> Result<String, ExternalError> {
    Ok(match (closed.users, closed.iterations, closed.duration) {
        (Span::Constant(users), None, Some(duration)) => {
            format!("executor: 'constant-vus', vus: {users}, duration: {}", seconds(duration))
        }
        (Span::Constant(users), Some(requests), duration) => {
            // A day: it wants a limit.
            let limit = seconds(duration.unwrap_or(Duration::from_secs(86_400)));
            let all = u64::from(users);
            if requests % all == 0 {
                let each = requests / all;
                format!("executor: 'per-vu-iterations', vus: {users}, iterations: {each}, maxDuration: {limit}")
            } else {
                let users = all.min(requests);
                format!("executor: 'shared-iterations', vus: {users}, iterations: {requests}, maxDuration: {limit}")
            }
        }
        (Span::Ramp { from, to }, None, Some(duration)) => format!(
            "executor: 'ramping-vus', startVUs: {from}, stages: [{{ target: {to}, duration: {} }}], gracefulRampDown: '30s'",
            seconds(duration)
        ),
        _ => return Err(Tool::K6.cannot("a changing number of users with a number of iterations")),
    })
}

fn open_scenario(open: &Open) -> Result<String, ExternalError> {
    if open.arrivals == Arrivals::Poisson {
        return Err(Tool::K6.cannot("Poisson arrivals"));
    }
    let users = open.connections;
    // Rates are whole numbers there: a broken one is given per 1,000 seconds.
    let whole = |rate: f64| rate.fract() == 0.0;
    let unit = |rates: &[f64]| if rates.iter().all(|rate| whole(*rate)) { (1.0, "1s") } else { (1000.0, "1000s") };
    Ok(match open.rate {
        Rates::Constant(rate) => {
            let (scale, per) = unit(&[rate]);
            format!(
                "executor: 'constant-arrival-rate', rate: {}, timeUnit: '{per}', duration: {}, preAllocatedVUs: {users}, maxVUs: {users}",
                (rate * scale).round(),
                seconds(open.duration)
            )
        }
        Rates::Ramp { from, to } => {
            let (scale, per) = unit(&[from, to]);
            format!(
                "executor: 'ramping-arrival-rate', startRate: {}, timeUnit: '{per}', stages: [{{ target: {}, duration: {} }}], \
                 preAllocatedVUs: {users}, maxVUs: {users}",
                (from * scale).round(),
                (to * scale).round(),
                seconds(open.duration)
            )
        }
    })
}

fn value(source: &Source) -> Result<String, ExternalError> {
    Ok(match source {
        Source::Fixed(value) => quoted(value),
        Source::Int { from, to, pick: Pick::Random } => format!("random({from}, {to})"),
        Source::Int { from, to, pick: Pick::Sequence } => {
            format!("{from} + step() % {}", i128::from(*to) - i128::from(*from) + 1)
        }
        Source::List { values, pick } => {
            let list: Vec<String> = values.iter().map(|value| quoted(value)).collect();
            let index = match pick {
                Pick::Random => format!("random(0, {})", values.len() - 1),
                Pick::Sequence => format!("step() % {}", values.len()),
            };
            format!("[{}][{index}]", list.join(", "))
        }
        Source::Csv { .. } => return Err(Tool::K6.cannot("values from a CSV file")),
        Source::Counter(first) => format!("{first} + step()"),
        Source::Captured { name, or } => {
            format!("captured[{}] ?? {}", quoted(name), quoted(or.as_deref().unwrap_or_default()))
        }
    })
}

fn expected(statuses: &[Statuses]) -> String {
    if statuses.is_empty() {
        return "{ min: 200, max: 399 }".to_owned();
    }
    let one = |status: &Statuses| match status {
        Statuses::One(status) => status.to_string(),
        Statuses::Class(class) => format!("{{ min: {}, max: {} }}", class * 100, class * 100 + 99),
    };
    statuses.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Each user (VU) keeps what it captured.
fn keep(capture: &Capture) -> Result<String, ExternalError> {
    if capture.scope == Scope::Run {
        return Err(Tool::K6.cannot("values from responses that all users share"));
    }
    let found = match (&capture.json, &capture.header) {
        (Some(pointer), _) => {
            let keys: Vec<String> =
                pointer.split('/').skip(1).map(|key| quoted(&key.replace("~1", "/").replace("~0", "~"))).collect();
            format!(
                "(() => {{ try {{ return at(JSON.parse(r.body), [{}]); }} catch (_) {{ return undefined; }} }})()",
                keys.join(", ")
            )
        }
        (None, Some(header)) => {
            format!(
                "(Object.entries(r.headers).find(([name]) => name.toLowerCase() === {}) ?? [])[1]",
                quoted(&header.to_ascii_lowercase())
            )
        }
        (None, None) => return Err(Tool::K6.cannot("a capture without json or header")),
    };
    let plus = capture.plus.map_or(String::new(), |plus| format!("Number(found) + {plus}"));
    let value = if plus.is_empty() { "found" } else { &plus };
    Ok(format!(
        "    {{ const found = {found}; if (found !== undefined) captured[{}] = {value}; }}\n",
        quoted(&capture.name)
    ))
}

/// A JavaScript expression for a text with values.
fn filled(text: &str, operation: &Operation, escape: &str) -> String {
    expression(text, operation, escape, " + ")
}
