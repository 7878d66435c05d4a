//! k6: a script with a scenario for each phase of the load, and its end-of-test summary.

mod calls;
mod scenarios;
mod summary;
mod tables;

use std::fmt::Write;
use std::path::Path;

use super::{ExternalError, Invocation, Options, Single, Tool, absolute, expression, full_path, quoted, write};
use crate::load::Prepared;
use crate::load::workload::{Body, Capture, Operation, Order, Pick, Protocol, Scope, Source, Statuses, Workload};
use calls::Calls;
use scenarios::Scenario;
pub(super) use summary::read;
use tables::Tables;

/// What every script begins with, after its options.
pub(super) const BEGIN: &str = include_str!("k6/begin.js");
pub(super) const HTTP: &str = include_str!("k6/http.js");
pub(super) const GRPC: &str = include_str!("k6/grpc.js");
/// Statuses that are counted one by one: k6 has no counter that the script did not name before the load.
const HTTP_STATUSES: &[u16] = &[
    200, 201, 202, 203, 204, 205, 206, 207, 300, 301, 302, 303, 304, 307, 308, 400, 401, 402, 403, 404, 405, 406, 408,
    409, 410, 412, 413, 415, 422, 429, 500, 501, 502, 503, 504,
];
/// `OK` is 200, and 0 is `OK` with a message that says `success: false`.
const GRPC_STATUSES: &[u16] = &[200, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];

/// So many seeds are whole numbers in JavaScript, with room for users and phases.
const SEEDS: u64 = 1 << 50;

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
        None => {
            let text = script(workload, options, folder, &summary)?;
            args.push(absolute(&write(folder, "k6.js", &text)?)?.into());
        }
    }
    Ok(Invocation { program: tool.name().into(), args, env, result: Some(summary) })
}

/// Whether operations are calls of gRPC; all of them are, or none.
fn is_grpc(workload: &Workload) -> Result<bool, ExternalError> {
    let calls = workload.operations.iter().filter(|operation| operation.grpc.is_some()).count();
    match workload.protocol {
        Protocol::Http1 => Ok(false),
        Protocol::Http2 { .. } if calls > 0 && calls == workload.operations.len() => Ok(true),
        Protocol::Http2 { .. } => Err(Tool::K6.cannot("HTTP/2 without TLS, except for calls of gRPC")),
    }
}

/// Metrics of which the report needs one over all measured phases, beside those of each phase.
fn trend(grpc: bool) -> &'static str {
    if grpc { "grpc_req_duration" } else { "gauge_took" }
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

/// A script, and what is known of its load.
struct Script<'w> {
    workload: &'w Workload,
    scenarios: Vec<Scenario<'w>>,
    /// Of gRPC.
    calls: Option<Calls>,
    folder: &'w Path,
}

fn script(workload: &Workload, options: &Options, folder: &Path, summary: &Path) -> Result<String, ExternalError> {
    let scenarios = scenarios::all(workload)?;
    let grpc = is_grpc(workload)?;
    // What makes no sense is found as for gauge's own generator; of gRPC this has the methods.
    let prepared = Prepared::new(workload)?;
    let calls = if grpc { Some(Calls::of(workload, &prepared, folder)?) } else { None };
    Script { workload, scenarios, calls, folder }.text(options, summary)
}

impl Script<'_> {
    fn text(&self, options: &Options, summary: &Path) -> Result<String, ExternalError> {
        let workload = self.workload;
        let mut js = String::from("// Made by gauge from a workload.\nimport http from 'k6/http';\n");
        if self.calls.is_some() {
            js.push_str("import grpc from 'k6/net/grpc';\n");
        }
        js.push_str(
            "import { randomSeed, sleep } from 'k6';\nimport exec from 'k6/execution';\nimport { Counter, Gauge, Trend } from 'k6/metrics';\n\
             import { SharedArray } from 'k6/data';\n",
        );
        let names: Vec<String> = (0..self.scenarios.len()).map(|number| format!("'p{number}'")).collect();
        let known = if self.calls.is_some() { GRPC_STATUSES } else { HTTP_STATUSES };
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(
            js,
            "const scenarios = [{}];\nconst knownStatuses = {known:?};\nconst seed = {};",
            names.join(", "),
            workload.seed % SEEDS
        );
        js.push_str(BEGIN);
        let captures = workload.operations.iter().any(|operation| !operation.capture.is_empty());
        let _ = writeln!(
            js,
            "export const options = {{\n  discardResponseBodies: {},\n  thresholds,\n  setupTimeout: '1h',\n  teardownTimeout: '1h',\n  \
             summaryTrendStats: ['avg', 'min', 'med', 'max', 'p(75)', 'p(90)', 'p(95)', 'p(99)', 'p(99.9)', 'count'],\n  scenarios: {{",
            !captures,
        );
        for (number, scenario) in self.scenarios.iter().enumerate() {
            js.push_str(&scenario.option(number, workload.timeout)?);
        }
        js.push_str("  },\n};\n");
        match &self.calls {
            Some(calls) => {
                let base = crate::load::Url::parse(base_of(workload))?;
                js.push_str(&calls.begin(&base.authority));
                js.push_str(GRPC);
            }
            None => js.push_str(HTTP),
        }
        if self.scenarios.iter().filter(|scenario| scenario.measured).count() > 1 {
            let _ = writeln!(js, "thresholds['{}{{measured:yes}}'] = [];", trend(self.calls.is_some()));
        }
        self.operations(&mut js)?;
        self.functions(&mut js);
        if options.marks {
            // The load begins, and the summary is made, when whoever watches says so.
            js.push_str(
                "const mark = (boundary) => http.get(`${__ENV.GAUGE_MARKS}/${boundary}`, { timeout: 3600000 });\n\
                 export function setup() {\n  mark('begin');\n}\nexport function teardown() {\n  mark('end');\n}\n",
            );
        }
        let _ = writeln!(
            js,
            "export function handleSummary(data) {{\n  return {{ {}: JSON.stringify(data) }};\n}}",
            quoted(&summary.to_string_lossy())
        );
        Ok(js)
    }

    fn operations(&self, js: &mut String) -> Result<(), ExternalError> {
        let mut list = String::from("const operations = [\n");
        let (mut sum, mut tables) = (0.0, Tables::new(self.folder));
        // One without a weight is never chosen.
        let chosen = self.workload.operations.iter().enumerate().filter(|(_, operation)| operation.weight > 0.0);
        for (index, operation) in chosen {
            sum += operation.weight;
            let _ = writeln!(list, "  {{ upto: {sum}, run: () => {{\n    const v = {{}};");
            let mut drawn = Vec::new();
            for (name, source) in &operation.params {
                let Source::Csv { file, column, pick } = source else {
                    let _ = writeln!(list, "    v[{}] = {};", quoted(name), value(source));
                    continue;
                };
                let table = tables.of(file, js)?;
                let row = drawn.iter().position(|known| *known == (table, *pick)).unwrap_or_else(|| {
                    let _ = writeln!(list, "    const row{} = {};", drawn.len(), tables::row(table, *pick));
                    drawn.push((table, *pick));
                    drawn.len() - 1
                });
                let _ = writeln!(list, "    v[{}] = row{row}[{}];", quoted(name), quoted(column));
            }
            match &self.calls {
                Some(calls) => calls.operation(index, self.workload, operation, js, &mut list)?,
                None => request(index, self.workload, operation, js, &mut list)?,
            }
            for capture in &operation.capture {
                list.push_str(&keep(capture, self.calls.is_some())?);
            }
            list.push_str("  } },\n");
        }
        js.push_str(&list);
        js.push_str("];\n");
        Ok(())
    }

    /// A function for each scenario, which is an iteration of a user.
    fn functions(&self, js: &mut String) {
        for (number, scenario) in self.scenarios.iter().enumerate() {
            let most = scenario.most().map_or("undefined".to_owned(), |most| most.as_millis().to_string());
            let next = match (self.workload.order, &scenario.load) {
                (Order::Weighted, _) => "weighted",
                (Order::Sequence, Single::Closed(_)) => "own",
                (Order::Sequence, Single::Open(_)) => "together",
            };
            let _ = writeln!(js, "export function p{number}() {{\n  iteration({number}, {most}, {next});");
            if let Some(think) = scenario.think() {
                let _ = writeln!(js, "  sleep({});", scenarios::pause(think));
            }
            js.push_str("}\n");
        }
    }
}

/// The URL that the first operation goes to: all go to one server.
fn base_of(workload: &Workload) -> &str {
    workload.operations.first().and_then(|first| first.base.as_deref()).unwrap_or(&workload.base)
}

/// A request of HTTP. `before` gets what is defined before the operations.
fn request(
    index: usize,
    workload: &Workload,
    operation: &Operation,
    before: &mut String,
    list: &mut String,
) -> Result<(), ExternalError> {
    let tool = Tool::K6;
    let headers: Vec<String> = operation
        .headers
        .iter()
        .map(|(name, value)| format!("{}: {}", quoted(name), filled(value, operation, "String")))
        .collect();
    let body = match &operation.body {
        None => "null".to_owned(),
        Some(Body::Text(text)) => filled(text, operation, "json"),
        Some(Body::File(file)) => {
            let _ = writeln!(before, "const body{index} = open({}, 'b');", quoted(&absolute(file)?.to_string_lossy()));
            format!("body{index}")
        }
        Some(Body::Lines(file)) => next_line(index, &absolute(file)?, before),
        Some(Body::Base64(_)) => return Err(tool.cannot("a body of bytes; put them into a file")),
    };
    let base = operation.base.as_deref().unwrap_or(&workload.base);
    let authority = crate::load::Url::parse(base)?.authority;
    let path = full_path(workload, operation)?;
    let response_type = if operation.capture.is_empty() { "none" } else { "text" };
    let (statuses, is_expected) = expected(&operation.expect);
    let _ = writeln!(before, "const expected{index} = http.expectedStatuses({statuses});");
    let _ = writeln!(
        list,
        "    const r = request({}, {} + {}, {body}, {{ headers: {{ {} }}, timeout: {}, redirects: 0, \
         responseType: '{response_type}', tags: {{ name: {} }}, responseCallback: expected{index} }}, (status) => {is_expected});",
        quoted(&operation.method),
        quoted(&format!("http://{authority}")),
        filled(&path, operation, "encodeURIComponent"),
        headers.join(", "),
        workload.timeout.as_millis(),
        quoted(&operation.id),
    );
    Ok(())
}

/// The lines of a file, which all users share, as an expression that is another one each time.
fn next_line(index: usize, file: &Path, before: &mut String) -> String {
    let file = quoted(&file.to_string_lossy());
    let _ = writeln!(before, "const lines{index} = new SharedArray('lines{index}', () => lines(open({file})));");
    format!("lines{index}[step() % lines{index}.length]")
}

fn value(source: &Source) -> String {
    match source {
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
        Source::Counter(first) => format!("{first} + step()"),
        Source::Captured { name, or } => {
            format!("captured[{}] ?? {}", quoted(name), quoted(or.as_deref().unwrap_or_default()))
        }
        // A line of a table is chosen for all of its columns.
        Source::Csv { .. } => "undefined".to_owned(),
    }
}

/// As arguments of k6's `expectedStatuses`, and as a condition.
fn expected(statuses: &[Statuses]) -> (String, String) {
    if statuses.is_empty() {
        return expected(&[Statuses::Class(2), Statuses::Class(3)]);
    }
    let one = |status: &Statuses| match status {
        Statuses::One(status) => (status.to_string(), format!("status === {status}")),
        Statuses::Class(class) => (
            format!("{{ min: {}, max: {} }}", class * 100, class * 100 + 99),
            format!("(status >= {} && status <= {})", class * 100, class * 100 + 99),
        ),
    };
    let (arguments, conditions): (Vec<String>, Vec<String>) = statuses.iter().map(one).unzip();
    (arguments.join(", "), conditions.join(" || "))
}

/// Each user (VU) keeps what it captured.
fn keep(capture: &Capture, grpc: bool) -> Result<String, ExternalError> {
    if capture.scope == Scope::Run {
        return Err(Tool::K6.cannot("values from responses that all users share"));
    }
    let found = match (&capture.json, &capture.header) {
        (Some(pointer), _) => {
            let keys: Vec<String> =
                pointer.split('/').skip(1).map(|key| quoted(&key.replace("~1", "/").replace("~0", "~"))).collect();
            let keys = keys.join(", ");
            if grpc {
                format!("at(r.message, [{keys}])")
            } else {
                format!(
                    "(() => {{ try {{ return at(JSON.parse(r.body), [{keys}]); }} catch (_) {{ return undefined; }} }})()"
                )
            }
        }
        (None, Some(header)) => {
            let first = if grpc { " ?? [])[1] ?? [])[0]" } else { " ?? [])[1]" };
            format!(
                "{}(Object.entries(r.headers).find(([name]) => name.toLowerCase() === {}){first}",
                if grpc { "(" } else { "" },
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
