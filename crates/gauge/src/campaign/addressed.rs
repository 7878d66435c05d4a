//! A workload for one system: the same requests, at the addresses of a gateway or of the upstreams.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::load::workload::{self, Body, Closed, Load, Open, Operation, Phase, Rates, Source, Span};
use crate::plan::{Calls, PlannedLoad, PlannedOperation, Warmup, Workload};
use crate::profile::Clients;
use crate::results::{PhasePlan, Planned};

/// Where requests of a system go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Addressed {
    /// To the upstreams: origin in the API to the URL at which it is reached, and how.
    Direct(BTreeMap<String, String>, Box<Clients>),
    /// To a service over gRPC: the same, and its methods.
    Grpc(BTreeMap<String, String>, Box<Calls>),
    /// To a gateway, as its clients reach it.
    Gateway(SocketAddr, Box<Clients>),
}

impl Addressed {
    fn base(&self, origin: &str) -> String {
        match self {
            Addressed::Gateway(address, clients) => clients.base(*address),
            Addressed::Direct(origins, _) | Addressed::Grpc(origins, _) => {
                origins.get(origin).cloned().unwrap_or_else(|| origin.to_owned())
            }
        }
    }
}

/// Bodies that were made, by workload and operation.
pub(super) type Made = BTreeMap<(String, String), Body>;

fn operation(planned: &PlannedOperation, workload: &str, addressed: &Addressed, made: &Made) -> Operation {
    let mut operation = planned.operation.clone();
    operation.base = Some(addressed.base(&planned.origin));
    if let Addressed::Gateway(..) = addressed {
        operation.path.insert_str(0, &planned.prefix);
    }
    if let Some(file) = made.get(&(workload.to_owned(), operation.id.clone())) {
        operation.body = Some(file.clone());
    }
    match addressed {
        Addressed::Grpc(_, calls) => calls.call(planned, operation),
        Addressed::Direct(..) | Addressed::Gateway(..) => operation,
    }
}

fn request(planned: &Workload, addressed: &Addressed, made: &Made, load: Load) -> workload::Workload {
    let list = |list: &[PlannedOperation]| -> Vec<Operation> {
        list.iter().map(|one| operation(one, &planned.name, addressed, made)).collect()
    };
    let operations = list(&planned.operations);
    let clients = match addressed {
        Addressed::Gateway(_, clients) | Addressed::Direct(_, clients) => clients.as_ref().clone(),
        Addressed::Grpc(_, calls) => Clients { protocol: calls.protocol(), ..Clients::default() },
    };
    workload::Workload {
        base: operations.first().and_then(|first| first.base.clone()).unwrap_or_default(),
        operations,
        setup: list(&planned.setup),
        order: planned.order,
        load,
        protocol: clients.protocol,
        timeout: planned.timeout,
        seed: 1,
        mark: None,
        event_streams: planned.event_streams,
        llm: None,
        tls: clients.tls,
        new_connections: clients.new_connections,
        websocket: clients.websocket,
        share: workload::Share::default(),
    }
}

/// The same as it is loaded: chat calls are made by the generator.
fn loaded(planned: &Workload, addressed: &Addressed, made: &Made, load: Load) -> workload::Workload {
    let mut workload = request(planned, addressed, made, load);
    workload.llm.clone_from(&planned.llm);
    if workload.llm.is_some() {
        workload.operations.clear();
    }
    workload
}

/// A workload with its warm-up, for gauge's own generator.
pub(super) fn measured(planned: &Workload, addressed: &Addressed, made: &Made, load: &Load) -> workload::Workload {
    let load = match warmup(planned.warmup, load) {
        None => load.clone(),
        Some(warmup) => {
            let mut phases = vec![warmup];
            match load {
                Load::Closed(closed) => phases.push(phase("load", false, Some(closed.clone()), None)),
                Load::Open(open) => phases.push(phase("load", false, None, Some(open.clone()))),
                Load::Phases(list) => phases.extend(list.iter().cloned()),
            }
            Load::Phases(phases)
        }
    };
    loaded(planned, addressed, made, load)
}

/// A workload without the warm-up that it begins with, for generators of others.
pub(super) fn plain(planned: &Workload, addressed: &Addressed, made: &Made, load: &Load) -> workload::Workload {
    loaded(planned, addressed, made, load.without_first_warmup())
}

/// The warm-up that a load begins with, alone.
pub(super) fn warmup_only(
    planned: &Workload,
    addressed: &Addressed,
    made: &Made,
    load: &Load,
) -> Option<workload::Workload> {
    let mut phases: Vec<Phase> = warmup(planned.warmup, load).into_iter().collect();
    if let Load::Phases(own) = load {
        phases.extend(own.iter().take_while(|phase| phase.warmup).cloned());
    }
    // Nothing is reported of it, and a load without a measured phase is none.
    for (number, phase) in phases.iter_mut().enumerate() {
        (phase.name, phase.warmup) = (format!("warm-up {number}"), false);
    }
    (!phases.is_empty()).then(|| loaded(planned, addressed, made, Load::Phases(phases)))
}

fn phase(name: &str, warmup: bool, closed: Option<Closed>, open: Option<Open>) -> Phase {
    Phase { name: name.to_owned(), warmup, closed, open }
}

/// The first load that counts, made short.
fn warmup(warmup: Warmup, load: &Load) -> Option<Phase> {
    let (closed, open) = match load {
        Load::Closed(closed) => (Some(closed), None),
        Load::Open(open) => (None, Some(open)),
        Load::Phases(phases) => {
            let first = phases.iter().find(|phase| !phase.warmup)?;
            (first.closed.as_ref(), first.open.as_ref())
        }
    };
    let first = |span: Span| match span {
        Span::Ramp { from, .. } => Span::Constant(from.max(1)),
        constant => constant,
    };
    let name = "warm-up";
    match (warmup, closed, open) {
        (Warmup::None, ..) => None,
        (Warmup::For(duration), Some(closed), _) => {
            let closed =
                Closed { users: first(closed.users), iterations: None, duration: Some(duration), ..closed.clone() };
            Some(phase(name, true, Some(closed), None))
        }
        (Warmup::Requests(requests), Some(closed), _) => {
            let closed =
                Closed { users: first(closed.users), iterations: Some(requests), duration: None, ..closed.clone() };
            Some(phase(name, true, Some(closed), None))
        }
        (Warmup::For(duration), _, Some(open)) => {
            let rate = match open.rate {
                Rates::Ramp { from, to } => Rates::Constant(if from > 0.0 { from } else { to }),
                constant => constant,
            };
            Some(phase(name, true, None, Some(Open { rate, duration, ..open.clone() })))
        }
        _ => None,
    }
}

/// Every operation with one value for each param, the first that there is: both systems get these requests before the load, and their responses are
/// compared.
pub(super) fn for_conformance(planned: &Workload, addressed: &Addressed, made: &Made) -> workload::Workload {
    let load = Load::Closed(Closed { users: Span::Constant(1), iterations: Some(1), duration: None, think: None });
    let mut workload = request(planned, addressed, made, load);
    for operation in workload.operations.iter_mut().chain(&mut workload.setup) {
        // Chosen by order here, whatever its share of the load.
        operation.weight = 1.0;
        for source in operation.params.values_mut() {
            match source {
                Source::Int { from, .. } => *source = Source::Fixed(from.to_string()),
                Source::List { values, .. } => *source = Source::Fixed(values.first().cloned().unwrap_or_default()),
                Source::Csv { pick, .. } => *pick = workload::Pick::Sequence,
                Source::Fixed(_) | Source::Counter(_) | Source::Captured { .. } => {}
            }
        }
    }
    workload
}

/// How long a load takes by plan, with its phases of warm-up or without; `None` when its requests say.
pub(super) fn planned_duration(load: &Load, warmup: bool) -> Option<Duration> {
    let closed = |closed: &Closed| if closed.iterations.is_some() { None } else { closed.duration };
    match load {
        Load::Closed(load) => closed(load),
        Load::Open(open) => Some(open.duration),
        Load::Phases(phases) => phases
            .iter()
            .filter(|phase| warmup || !phase.warmup)
            .map(|phase| match (&phase.closed, &phase.open) {
                (Some(load), _) => closed(load),
                (_, Some(open)) => Some(open.duration),
                _ => None,
            })
            .sum(),
    }
}

/// The phases that are measured, where there are several.
pub(super) fn phases(load: &PlannedLoad) -> Vec<PhasePlan> {
    let PlannedLoad::Fixed(Load::Phases(phases)) = load else { return Vec::new() };
    let planned = |phase: &Phase| {
        let load = phase.closed.clone().map(Load::Closed).or_else(|| phase.open.clone().map(Load::Open))?;
        Some(PhasePlan { name: phase.name.clone(), planned: of_fixed(&load) })
    };
    phases.iter().filter(|phase| !phase.warmup).filter_map(planned).collect()
}

/// The load in figures.
pub(super) fn figures(load: &PlannedLoad) -> Planned {
    match load {
        PlannedLoad::Fixed(fixed) => of_fixed(fixed),
        PlannedLoad::Search(_) => Planned::default(),
    }
}

fn of_fixed(fixed: &Load) -> Planned {
    let think = |load: &Closed| load.think.map(|think| think.mean.as_secs_f64());
    let planned = match fixed {
        Load::Closed(load) => Planned {
            concurrency: Some(load.users.mean()),
            think_s: think(load),
            requests: load.iterations,
            ..Planned::default()
        },
        Load::Open(load) => Planned {
            concurrency: Some(f64::from(load.connections)),
            rate: Some(load.rate.mean()),
            ..Planned::default()
        },
        // What holds for one phase holds for no other.
        Load::Phases(_) => Planned::default(),
    };
    Planned { duration_s: planned_duration(fixed, false).map(|duration| duration.as_secs_f64()), ..planned }
}

/// The load in words.
pub(crate) fn describe(load: &PlannedLoad) -> String {
    let span = |span: Span| match span {
        Span::Constant(1) => "1 user".to_owned(),
        Span::Constant(users) => format!("{users} users"),
        Span::Ramp { from, to } => format!("{from} to {to} users"),
    };
    let closed = |load: &Closed| {
        let mut text = format!("closed, {}", span(load.users));
        if let Some(iterations) = load.iterations {
            text.push_str(&format!(", {iterations} requests"));
        }
        if let Some(duration) = load.duration {
            text.push_str(&format!(", {}s", duration.as_secs_f64()));
        }
        if let Some(think) = load.think {
            text.push_str(&format!(", {}s between them", think.mean.as_secs_f64()));
        }
        text
    };
    let open = |load: &Open| {
        let rate = match load.rate {
            Rates::Constant(rate) => format!("{rate}/s"),
            Rates::Ramp { from, to } => format!("{from} to {to}/s"),
        };
        format!("open, {rate}, {}s", load.duration.as_secs_f64())
    };
    match load {
        PlannedLoad::Fixed(Load::Closed(load)) => closed(load),
        PlannedLoad::Fixed(Load::Open(load)) => open(load),
        PlannedLoad::Fixed(Load::Phases(phases)) => {
            let phase = |phase: &Phase| {
                let load = match (&phase.closed, &phase.open) {
                    (Some(load), _) => closed(load),
                    (_, Some(load)) => open(load),
                    _ => String::new(),
                };
                format!("{}: {load}", phase.name)
            };
            phases.iter().map(phase).collect::<Vec<_>>().join("; ")
        }
        PlannedLoad::Search(search) => {
            format!("highest rate that meets the SLO, {} to {}/s", search.from, search.to)
        }
    }
}

#[cfg(test)]
mod tests;
