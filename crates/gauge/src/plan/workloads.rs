//! Workloads: operations of the API by their ids become requests.

use std::time::Duration;

use apidoc::Api;
use serde_saphyr::Spanned;

use super::check::{Check, slo, treatment};
use super::file::{
    BodyFile, ChatFile, EventFile, FillFile, LoadFile, OperationFile, PartFile, SearchFile, WarmupFile, WorkloadFile,
};
use super::fill::{Fill, MOST, Made, Part};
use super::{Calls, PlannedLoad, PlannedOperation, SearchPlan, Sender, Warmup, Workload};
use crate::load::chat::Chat;
use crate::load::workload::{self, Body, Closed, Load, Operation, Source, default_connections};
use crate::load::{PrepareError, Prepared, payload, plain};
use crate::profile::{Clients, Profile};
use crate::results::Slo;
use crate::tools::Tool;

/// Load before the measured part when neither the evaluation nor the workload says.
const WARMUP: Duration = Duration::from_secs(2);

pub(super) fn workload(
    check: &mut Check,
    read: Spanned<WorkloadFile>,
    api: &Api,
    warmup: Option<Duration>,
    slo: Option<Slo>,
    searched: u32,
    profile: &Profile,
) -> Option<Workload> {
    let Spanned { value: read, defined: place, .. } = read;
    let before = check.problems.len();
    let names = captured(&read);
    let mut operations = Vec::new();
    for operation in read.operations {
        operations.extend(planned(check, operation, api, &names));
    }
    let llm = read.llm.and_then(|llm| {
        if !operations.is_empty() || *profile != Profile::PassThrough {
            check.wrong(llm.defined, "`llm` replaces `operations`, and needs an evaluation without a `profile`");
        }
        chat(check, llm, api, &mut operations)
    });
    let mut setup = Vec::new();
    for operation in read.setup {
        setup.extend(planned(check, operation, api, &names));
    }
    for planned in operations.iter_mut().chain(&mut setup) {
        profile.amend(&mut planned.operation);
        profile.prefix().clone_into(&mut planned.prefix);
    }
    let mode = match &read.load.value {
        LoadFile::Mode(mode) => Some(mode.name()),
        _ => None,
    };
    let load = load(check, &read.load.value, read.load.defined, slo, searched);
    let generator = match read.generator {
        None => Sender::Gauge,
        Some(Spanned { value, defined, .. }) => match (value.name.as_str(), Tool::named(&value.name)) {
            ("gauge", _) if value.script.is_none() => Sender::Gauge,
            (_, Some(tool)) => Sender::External { tool, script: value.script.map(|script| check.path(&script)) },
            (name, None) => {
                check.wrong(
                    defined,
                    format!("there is no generator `{name}`; there are gauge, wrk, hey, k6 and jmeter"),
                );
                Sender::Gauge
            }
        },
    };
    if let (Sender::External { tool, .. }, Some(_)) = (&generator, &llm) {
        check.wrong(place, format!("chat calls are sent by gauge's own generator, not by {}", tool.name()));
    }
    if let (Sender::External { tool, .. }, PlannedLoad::Search(_)) = (&generator, &load) {
        check.wrong(place, format!("a search is made by gauge itself, not by {}", tool.name()));
    }
    let weight = read.weight.unwrap_or(1.0);
    if !(weight.is_finite() && weight >= 0.0) {
        check.wrong(place, format!("its weight is {weight}; a weight is 0 or more"));
    }
    let warmup = match (read.warmup, &load) {
        (Some(WarmupFile::For(duration)), _) if duration.is_zero() => Warmup::None,
        (Some(WarmupFile::For(duration)), _) => Warmup::For(duration),
        (Some(WarmupFile::Requests(0)), _) => Warmup::None,
        (Some(WarmupFile::Requests(requests)), PlannedLoad::Fixed(Load::Closed(_))) => Warmup::Requests(requests),
        (Some(WarmupFile::Requests(_)), _) => {
            check.wrong(place, "a warm-up of so many requests belongs to a closed load; write a time, such as 2s");
            Warmup::None
        }
        // A number of requests is a small thing that may leave traces (orders, files): more of it only when requested.
        (None, PlannedLoad::Fixed(Load::Closed(Closed { iterations: Some(_), .. }))) => Warmup::None,
        (None, PlannedLoad::Fixed(Load::Phases(phases))) if !wants_warmup(phases) => Warmup::None,
        (None, _) => match warmup.unwrap_or(WARMUP) {
            duration if duration.is_zero() => Warmup::None,
            duration => Warmup::For(duration),
        },
    };
    let workload = Workload {
        name: read.name.value,
        weight,
        operations,
        llm,
        setup,
        order: read.order,
        load,
        mode,
        warmup,
        timeout: read.timeout.unwrap_or_else(workload::default_timeout),
        generator,
        threads: read.threads,
        treatment: read.treatment.map(treatment),
        event_streams: *profile == Profile::Streams,
    };
    let clients = profile.clients();
    if clients != Clients::default() && workload.generator != Sender::Gauge {
        let tool = workload.generator.name();
        check.wrong(
            place,
            format!("the profile `{}` is loaded by gauge's own generator, not by {tool}", profile.name()),
        );
    }
    if super::check::slug(&workload.name).is_empty() {
        check.wrong(read.name.defined, "its name has no letter and no digit; reports and files need one");
    }
    if check.problems.len() == before {
        prepare(check, &workload, &clients, None, place);
    }
    (check.problems.len() == before && check.unreadable.is_none()).then_some(workload)
}

/// Whether phases have no warm-up of their own, and more than a number of requests.
fn wants_warmup(phases: &[workload::Phase]) -> bool {
    let counted = |phase: &workload::Phase| phase.closed.as_ref().is_some_and(|closed| closed.iterations.is_some());
    !phases.iter().any(|phase| phase.warmup) && !phases.iter().all(counted)
}

/// Whether a service can be called over gRPC for a workload.
pub(super) fn callable(check: &mut Check, workload: &Workload, calls: &Calls, place: serde_saphyr::Location) {
    if !matches!(workload.generator, Sender::Gauge | Sender::External { tool: Tool::K6, script: None }) {
        let own =
            if matches!(workload.generator, Sender::External { script: Some(_), .. }) { " with a script" } else { "" };
        let tool = workload.generator.name();
        check.wrong(
            place,
            format!("a service over gRPC is loaded by gauge's own generator or a script that it makes for k6, not by {tool}{own}"),
        );
        return;
    }
    if workload.llm.is_some() {
        check.wrong(place, format!("workload `{}` has chat calls, which go over HTTP/1.1", workload.name));
    }
    let mut all = workload.operations.iter().chain(&workload.setup);
    match all.find(|planned| !calls.methods.contains_key(&planned.described)) {
        Some(planned) => {
            let id = &planned.described;
            let text = format!(
                "workload `{}` needs a method for `{id}`; add methods: {{{id}: package.Service/Method}}",
                workload.name
            );
            check.wrong(place, text);
        }
        None => {
            let clients = Clients { protocol: calls.protocol(), ..Clients::default() };
            prepare(check, workload, &clients, Some(calls), place);
        }
    }
}

/// Whether the generator will take it, tried with made-up addresses.
fn prepare(
    check: &mut Check,
    workload: &Workload,
    clients: &Clients,
    calls: Option<&Calls>,
    place: serde_saphyr::Location,
) {
    let nowhere = "http://127.0.0.1:9";
    let operations = |list: &[PlannedOperation]| -> Vec<Operation> {
        let of = |planned: &PlannedOperation| {
            let mut operation = planned.operation.clone();
            match &planned.made {
                Some(made) if calls.is_some() || operation.grpc.is_some() => {
                    operation.body = Some(Body::Text(made.one()));
                }
                // What is made is sent as it is made: nothing in it is replaced.
                Some(_) => operation.body = Some(Body::Base64(String::new())),
                None => {}
            }
            match calls {
                Some(calls) if calls.proto.is_some() => calls.call(planned, operation),
                // What its reflection says is known when it runs.
                Some(_) | None => operation,
            }
        };
        list.iter().map(of).collect()
    };
    let request = workload::Workload {
        base: nowhere.to_owned(),
        operations: if workload.llm.is_some() { Vec::new() } else { operations(&workload.operations) },
        setup: operations(&workload.setup),
        order: workload.order,
        load: match &workload.load {
            PlannedLoad::Fixed(load) => load.clone(),
            PlannedLoad::Search(search) => search.load(search.from),
        },
        protocol: clients.protocol,
        timeout: workload.timeout,
        seed: 0,
        mark: None,
        event_streams: false,
        llm: workload.llm.clone(),
        tls: None,
        new_connections: false,
        websocket: clients.websocket.clone(),
        share: workload::Share::default(),
    };
    match Prepared::new(&request) {
        Ok(_) => {
            // Which methods a reflection describes as streams is known when it runs.
            if calls.is_none_or(|calls| calls.proto.is_some()) {
                suits(check, workload, request, place);
            }
        }
        Err(PrepareError::File { file, error }) => {
            check.unreadable.get_or_insert((file, error));
        }
        Err(error) => check.wrong(place, format!("workload `{}`: {error}", workload.name)),
    }
}

/// Whether the generator can send it, where that is not Gauge's own.
fn suits(check: &mut Check, workload: &Workload, mut request: workload::Workload, place: serde_saphyr::Location) {
    let Sender::External { tool, script: None } = &workload.generator else { return };
    if workload.llm.is_some() || matches!(workload.load, PlannedLoad::Search(_)) {
        return;
    }
    let planned = workload.operations.iter().chain(&workload.setup);
    for (operation, planned) in request.operations.iter_mut().chain(&mut request.setup).zip(planned) {
        // Its body will be in a file.
        if planned.made.is_some() && operation.grpc.is_none() {
            operation.body = Some(Body::Text(String::new()));
        }
    }
    request.load = request.load.without_first_warmup();
    if let Err(error) = tool.check(&request) {
        check.wrong(place, format!("workload `{}`: {error}", workload.name));
    }
}

/// Names that some operation of the workload captures.
fn captured(workload: &WorkloadFile) -> Vec<String> {
    let operations = workload.operations.iter().chain(&workload.setup);
    operations.flat_map(|operation| operation.value.capture.iter().map(|capture| capture.name.clone())).collect()
}

/// Chat calls of a workload; `operations` gets them for checks before the load.
fn chat(check: &mut Check, read: Spanned<ChatFile>, api: &Api, operations: &mut Vec<PlannedOperation>) -> Option<Chat> {
    let Spanned { value: read, defined, .. } = read;
    let Some(described) = api.operation(&read.id.value) else {
        check.wrong(read.id.defined, format!("the API has no operation `{}`", read.id.value));
        return None;
    };
    if described.method.as_str() != "POST" || !described.path_params.is_empty() {
        let text = format!("`{}` cannot be a chat call, which is a POST without params in its path", described.id);
        check.wrong(read.id.defined, text);
        return None;
    }
    let plain = Chat::of(&read.model);
    let chat = Chat {
        path: described.full_path(),
        headers: read.headers,
        prompt: read.prompt.unwrap_or(plain.prompt),
        output: read.output.unwrap_or(plain.output),
        shared: read.shared,
        stream: read.stream.unwrap_or(plain.stream),
        slo: read.slo,
        ..plain
    };
    let whole = Chat { stream: false, slo: None, ..chat.clone() };
    match chat.operations(0).and_then(|_| whole.operations(0)) {
        Ok(list) => operations.extend(list.into_iter().map(|operation| PlannedOperation {
            described: described.id.clone(),
            origin: described.origin().unwrap_or("").to_owned(),
            operation,
            made: None,
            prefix: String::new(),
        })),
        Err(problem) => check.wrong(defined, format!("`llm`: {problem}")),
    }
    Some(chat)
}

fn planned(
    check: &mut Check,
    read: Spanned<OperationFile>,
    api: &Api,
    captures: &[String],
) -> Option<PlannedOperation> {
    let Spanned { value: read, .. } = read;
    let place = read.id.defined;
    let Some(described) = api.operation(&read.id.value) else {
        let known: Vec<&str> = api.operations.iter().map(|operation| operation.id.as_str()).collect();
        let shown = if known.len() > 20 { &known[..20] } else { &known[..] };
        let more = if known.len() > 20 { ", ..." } else { "" };
        let text = format!("the API has no operation `{}`; it has {}{more}", read.id.value, shown.join(", "));
        check.wrong(place, text);
        return None;
    };
    let mut params = read.params;
    for name in described.path_params.keys() {
        if !params.contains_key(name) {
            let parameter = &described.path_params[name];
            let given = parameter.example.as_ref().or(parameter.default.as_ref()).or(parameter.values.first());
            match given {
                Some(value) => {
                    params.insert(name.clone(), Source::Fixed(plain(value)));
                }
                None => check.wrong(
                    place,
                    format!("`{}` needs `{name}` in its path; add params: {{{name}: {{int: [1, 9]}}}}", described.id),
                ),
            }
        }
    }
    let mut headers = read.headers;
    let mut path = described.full_path();
    let mut query = String::new();
    for name in params.keys() {
        if described.query_params.contains_key(name) {
            let separator = if query.is_empty() { '?' } else { '&' };
            query.push_str(&format!("{separator}{name}={{{name}}}"));
        } else if described.header_params.contains_key(name)
            && !headers.keys().any(|header| header.eq_ignore_ascii_case(name))
        {
            headers.insert(name.clone(), format!("{{{name}}}"));
        }
    }
    if path.is_empty() {
        path.push('/');
    }
    path.push_str(&query);
    let has_type = headers.keys().any(|header| header.eq_ignore_ascii_case("content-type"));
    let (body, made) = body(check, read.body, described, place);
    if let Some(media_type) = described.body.as_ref().filter(|_| !has_type && (body.is_some() || made.is_some())) {
        headers.insert("content-type".to_owned(), media_type.media_type.clone());
    }
    // What is captured under the name that a text has needs no further word.
    let text = if let Some(Body::Text(text)) = &body { text.as_str() } else { "" };
    for name in captures {
        let placeholder = format!("{{{name}}}");
        let used = headers.values().any(|value| value.contains(&placeholder)) || text.contains(&placeholder);
        if used && !params.contains_key(name) {
            params.insert(name.clone(), Source::Captured { name: name.clone(), or: None });
        }
    }
    for source in params.values_mut() {
        if let Source::Csv { file, .. } = source {
            *file = check.path(file);
        }
    }
    if described.security.is_required()
        && let Some(header) = api.request_headers(described).iter().find(|header| {
            header.as_str() == "authorization" && !headers.keys().any(|own| own.eq_ignore_ascii_case(header))
        })
    {
        let text = format!(
            "`{}` is protected and the request has no {header}; add headers: {{Authorization: 'Bearer {{token}}'}} and \
             capture the token in `setup`",
            described.id
        );
        check.wrong(place, text);
    }
    let operation = Operation {
        id: read.name.unwrap_or_else(|| described.id.clone()),
        weight: read.weight.unwrap_or(1.0),
        method: described.method.as_str().to_owned(),
        path,
        grpc: None,
        base: None,
        headers,
        body,
        params,
        expect: read.expect,
        capture: read.capture,
    };
    Some(PlannedOperation {
        described: described.id.clone(),
        origin: described.origin().unwrap_or("").to_owned(),
        operation,
        made,
        prefix: String::new(),
    })
}

/// The body that the evaluation gives, or the example of the description where one is needed.
fn body(
    check: &mut Check,
    read: Option<Spanned<BodyFile>>,
    described: &apidoc::Operation,
    place: serde_saphyr::Location,
) -> (Option<Body>, Option<Made>) {
    let Some(Spanned { value: read, defined, .. }) = read else {
        let Some(body) = described.body.as_ref().filter(|body| body.required) else { return (None, None) };
        return match &body.example {
            Some(serde_json::Value::String(text)) if !body.media_type.contains("json") => {
                (Some(Body::Text(text.clone())), None)
            }
            Some(json) => (Some(Body::Text(json.to_string())), None),
            None => {
                check
                    .wrong(place, format!("`{}` needs a body, and the description has no example of it", described.id));
                (None, None)
            }
        };
    };
    match read {
        BodyFile::Text(text) => (Some(Body::Text(text)), None),
        BodyFile::Json(json) => (Some(Body::Text(json.to_string())), None),
        BodyFile::File(file) => (Some(Body::File(check.path(&file))), None),
        BodyFile::Base64(text) => (Some(Body::Base64(text)), None),
        BodyFile::Fill(FillFile { text, with }) => {
            let mut parts = std::collections::BTreeMap::new();
            for (name, part) in with {
                let part = match part {
                    PartFile::Jpeg(size) => Part::Jpeg(size.0),
                    PartFile::Random(size) => Part::Random(size.0),
                    PartFile::Letters(size) => Part::Letters(size.0),
                };
                if part.bytes() > MOST {
                    check.wrong(defined, format!("`{name}` has {} bytes; bodies have up to {MOST}", part.bytes()));
                }
                if !text.contains(&format!("{{{name}}}")) {
                    check.wrong(defined, format!("`with` has `{name}`, and the text does not hold {{{name}}}"));
                }
                parts.insert(name, part);
            }
            (None, Some(Made::Fill(Fill { text, parts })))
        }
        BodyFile::Event(EventFile(bytes)) => {
            if !(payload::LEAST..=payload::MOST).contains(&bytes) {
                let text = format!("an event has {} to {} bytes, not {bytes}", payload::LEAST, payload::MOST);
                check.wrong(defined, text);
            }
            (None, Some(Made::Events { bytes, seed: super::fill::SEED }))
        }
    }
}

fn load(
    check: &mut Check,
    read: &LoadFile,
    place: serde_saphyr::Location,
    slo: Option<Slo>,
    searched: u32,
) -> PlannedLoad {
    match read {
        LoadFile::Closed(closed) => PlannedLoad::Fixed(Load::Closed(closed.clone())),
        LoadFile::Open(open) => PlannedLoad::Fixed(Load::Open(open.clone())),
        LoadFile::Mode(mode) => PlannedLoad::Fixed(Load::Phases(mode.phases())),
        LoadFile::Phases(phases) => PlannedLoad::Fixed(Load::Phases(phases.clone())),
        LoadFile::Search(read) => PlannedLoad::Search(search(check, read, place, slo, searched)),
    }
}

fn search(
    check: &mut Check,
    read: &SearchFile,
    place: serde_saphyr::Location,
    of_all: Option<Slo>,
    searched: u32,
) -> SearchPlan {
    let slo = read.slo.map(slo).or(of_all).unwrap_or_default();
    if slo == Slo::default() {
        check.wrong(place, "a search needs an SLO, here or for all workloads: slo: {p99: 50ms, errors: 0.1%}");
    }
    let plan = SearchPlan {
        from: read.from.unwrap_or(100.0),
        to: read.to.unwrap_or(200_000.0),
        duration: read.duration.unwrap_or(Duration::from_secs(5)),
        arrivals: read.arrivals,
        connections: read.connections.unwrap_or_else(default_connections),
        precision: read.precision.unwrap_or(0.05),
        curve: read.curve.clone().unwrap_or_else(|| vec![0.25, 0.5, 0.75, 0.9]),
        rounds: read.rounds.unwrap_or(searched),
        slo,
    };
    if !(plan.from > 0.0 && plan.from <= plan.to) {
        check.wrong(place, format!("a search from {}/s to {}/s has no rate to try", plan.from, plan.to));
    }
    if !(0.005..=0.5).contains(&plan.precision) {
        check.wrong(place, format!("a precision of {}; it is a share between 0.005 and 0.5", plan.precision));
    }
    if plan.rounds == 0 {
        check.wrong(place, "`rounds` of a search must be at least 1");
    }
    if let Some(share) = plan.curve.iter().find(|share| !(share.is_finite() && **share > 0.0 && **share <= 2.0)) {
        check.wrong(place, format!("{share} in `curve` is not between 0 and 2, as a share of the highest rate"));
    }
    plan
}

/// At low rates a probe may take this long, or ten times as long as planned.
const LONG: Duration = Duration::from_secs(10);

impl SearchPlan {
    /// The load at a rate.
    pub fn load(&self, rate: f64) -> Load {
        Load::Open(workload::Open {
            rate: workload::Rates::Constant(rate),
            duration: self.long_enough(rate),
            arrivals: self.arrivals,
            connections: self.connections,
        })
    }

    /// As long as planned, and so long that the samples suffice for the percentile that the objective names, with a fifth to spare.
    fn long_enough(&self, rate: f64) -> Duration {
        let named = [(99.0, self.slo.p99_ms), (95.0, self.slo.p95_ms), (50.0, self.slo.p50_ms)];
        let needed =
            named.into_iter().find_map(|(percentile, limit)| limit.map(|_| crate::verdict::needed(percentile)));
        let least = Duration::from_secs_f64(needed.unwrap_or(0) as f64 * 1.2 / rate.max(1e-3));
        self.duration.max(least.min((self.duration * 10).max(LONG)))
    }
}
