//! Programs of an evaluation: backends, services, and what is done before each trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::check::{Check, slug, treatment};
use super::file::{self, ProgramFile, StepFile};
use super::{Backend, Calls, Problem, Program, Ready, Restart, Step, System, SystemKind, Workload};

/// What braces stand for besides ports.
const NAMES: [&str; 6] = ["data", "folder", "cache", "gauge", "address", "system"];

/// Calls of gRPC that share a connection, unless the evaluation says otherwise.
const STREAMS: u32 = 16;

pub(super) fn build_command(check: &mut Check, read: file::BuildFile) -> Option<(Vec<String>, PathBuf)> {
    if read.command.value.is_empty() {
        check.wrong(read.command.defined, "the command is empty; leave `build` out if there is nothing to make");
        return None;
    }
    Some((read.command.value, check.path(read.cwd.as_deref().unwrap_or(Path::new("")))))
}

/// Origins of an API's operations; the empty one is that of operations without a server.
fn origins(api: &apidoc::Api) -> BTreeSet<&str> {
    api.operations.iter().map(|operation| operation.origin().unwrap_or("")).collect()
}

/// A program; `given` are the origins that it and others before it stand for.
fn program(
    check: &mut Check,
    read: ProgramFile,
    known: &BTreeSet<&str>,
    given: &mut BTreeSet<String>,
) -> Option<Program> {
    let place = read.command.defined;
    let Some(first) = read.command.value.first() else {
        check.wrong(read.command.defined, "the command is empty; name a program and its arguments");
        return None;
    };
    let base = Path::new(first).file_name().map_or(first.as_str().into(), |name| name.to_string_lossy());
    let name = read.name.unwrap_or_else(|| base.into_owned());
    let cwd = check.path(read.cwd.as_deref().unwrap_or(Path::new("")));
    let mut ports = BTreeMap::new();
    for (port, origin) in read.ports {
        let Spanned { value, defined, .. } = origin;
        let value = value.trim_end_matches('/').to_owned();
        if NAMES.contains(&port.as_str()) {
            check.wrong(defined, format!("a port cannot be called `{port}`: {{{port}}} means something else"));
        }
        if !value.is_empty() && !known.contains(value.as_str()) {
            let list: Vec<&str> = known.iter().copied().filter(|origin| !origin.is_empty()).collect();
            check.wrong(defined, format!("no operation of the API is at `{value}`; there are: {}", list.join(", ")));
        } else if !value.is_empty() && !given.insert(value.clone()) {
            check.wrong(defined, format!("`{value}` is given to two ports"));
        }
        ports.insert(port, value);
    }
    let build = read.build.and_then(|build| build_command(check, build));
    let grpc = read.grpc.map(|grpc| Box::new(calls(check, grpc, read.ready.0.is_empty())));
    let ready = read.ready.0.into_iter().filter_map(|probe| ready(check, probe, place)).collect();
    Some(Program {
        name,
        command: read.command.value,
        env: read.env,
        cwd,
        build,
        ports,
        ready,
        language: read.language,
        grpc,
    })
}

fn calls(check: &mut Check, read: Spanned<file::GrpcFile>, unready: bool) -> Calls {
    let Spanned { value: read, defined, .. } = read;
    if unready {
        check.wrong(defined, "a service over gRPC needs `ready`: grpc://{address}:{PORT} or tcp://{address}:{PORT}");
    }
    Calls {
        proto: read.proto.map(|proto| check.path(&proto)),
        methods: read.methods,
        streams: read.streams.unwrap_or(STREAMS),
        messages: read.messages,
        responses: read.responses,
    }
}

fn ready(check: &mut Check, value: String, place: Location) -> Option<Ready> {
    match value.split_once("://") {
        Some(("http", _)) => Some(Ready::Http(value)),
        Some(("tcp", address)) => Some(Ready::Tcp(address.to_owned())),
        Some(("grpc", address)) => Some(Ready::Grpc(address.to_owned())),
        Some(("https", _)) => {
            let text = format!(
                "`{value}`: https is not supported for `ready`; wait for the port with tcp://{{address}}:{{PORT}}"
            );
            check.wrong(place, text);
            None
        }
        _ => {
            check.wrong(
                place,
                format!(
                    "`{value}` shows nothing; expected http://{{address}}:{{PORT}}/PATH, grpc://{{address}}:{{PORT}} or \
                     tcp://{{address}}:{{PORT}}"
                ),
            );
            None
        }
    }
}

pub(super) fn backends(check: &mut Check, read: Vec<ProgramFile>, api: &apidoc::Api, services: bool) -> Vec<Backend> {
    let mut backends: Vec<Backend> = Vec::new();
    let (known, mut given) = (origins(api), BTreeSet::new());
    for mut backend in read {
        let place = backend.command.defined;
        let (restart, reset) = (backend.restart.unwrap_or_default(), backend.reset.take());
        let counts = std::mem::take(&mut backend.counts).0;
        if let Some(url) = counts.iter().find(|url| !url.starts_with("http://")) {
            let why = if url.starts_with("https://") { " (https is not supported for it)" } else { "" };
            check.wrong(place, format!("`counts: {url}`; expected http://{{address}}:{{PORT}}/PATH{why}"));
        }
        if reset.is_some() && restart == Restart::System {
            let text =
                "`reset` is for a backend that runs on: with `restart: system` (the default) it starts empty anyway";
            check.wrong(place, text);
        }
        if backend.treatment.is_some() {
            check.wrong(place, "a `treatment` belongs to a system or to a workload, not to a backend");
        }
        if backend.language.take().is_some() {
            check.wrong(place, "`language` is for the report on systems; leave it out of a backend");
        }
        if let Some(grpc) = backend.grpc.take() {
            check.wrong(grpc.defined, "`grpc` says how a system is called; nothing calls a backend over gRPC");
        }
        let Some(program) = program(check, backend, &known, &mut given) else { continue };
        if backends.iter().any(|other| slug(&other.program.name) == slug(&program.name)) {
            check.wrong(place, format!("two backends are called `{}`; give one a `name`", program.name));
        }
        backends.push(Backend { program, restart, reset, counts });
    }
    let stands_for = |backend: &Backend| backend.program.ports.values().any(String::is_empty);
    if !services && known.contains("") && !backends.iter().any(stands_for) {
        let text = "the API has operations without an absolute server: give the backend a port for them, \
                    such as ports: {http: ''}"
            .to_owned();
        check.problems.push(Problem { at: None, text });
    }
    backends
}

/// Services, each of which stands for every origin of the API.
pub(super) fn services(check: &mut Check, read: Vec<Spanned<ProgramFile>>, api: &apidoc::Api) -> Vec<System> {
    let known = origins(api);
    let mut systems: Vec<System> = Vec::new();
    for Spanned { value: mut service, defined, .. } in read {
        if service.restart.is_some() || service.reset.is_some() || !service.counts.0.is_empty() {
            check.wrong(
                defined,
                "`restart`, `reset` and `counts` belong to a backend; a service is always started anew, see `before_each`",
            );
        }
        let treatment = service.treatment.take().map(treatment);
        let Some(program) = program(check, service, &known, &mut BTreeSet::new()) else { continue };
        let name = program.name.clone();
        if slug(&name).is_empty() || systems.iter().any(|other| slug(&other.name) == slug(&name)) {
            check.wrong(defined, format!("the name `{name}` is taken or empty; give this system another `name`"));
        }
        let missing: Vec<&str> =
            known.iter().copied().filter(|origin| !program.ports.values().any(|own| own == origin)).collect();
        if !missing.is_empty() {
            let text = format!(
                "`{name}` has no port for operations at `{}`; add it to ports: {{http: '{}'}}",
                missing.join("`, `"),
                missing[0]
            );
            check.wrong(defined, text);
        }
        systems.push(System { name, kind: SystemKind::Service(program), control_of: None, treatment });
    }
    systems
}

/// Steps before each trial of a service. What they send is an operation of every workload.
pub(super) fn before_each(check: &mut Check, read: Vec<Spanned<StepFile>>, workloads: &[Workload]) -> Vec<Step> {
    let mut steps = Vec::new();
    for Spanned { value: step, defined, .. } in read {
        let cwd = check.path(step.cwd.as_deref().unwrap_or(Path::new("")));
        match (step.run, step.send) {
            (Some(command), None) if !command.is_empty() => {
                steps.push(Step::Run { command, cwd, prints: step.prints.map(|text| text.trim().to_owned()) });
            }
            (None, Some(id)) if step.prints.is_none() && step.cwd.is_none() => {
                let has = |workload: &Workload| workload.operations.iter().any(|planned| planned.described == id);
                for workload in workloads.iter().filter(|workload| !has(workload)) {
                    let text =
                        format!("`send` names `{id}`, which is no operation of the workload `{}`", workload.name);
                    check.wrong(defined, text);
                }
                steps.push(Step::Send(id));
            }
            _ => check.wrong(defined, "a step is {run: [PROGRAM, ARGUMENT], prints: TEXT}, or {send: OPERATION}"),
        }
    }
    steps
}
