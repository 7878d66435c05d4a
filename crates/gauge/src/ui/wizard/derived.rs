//! What was chosen of an evaluation of services, and the evaluation that is made of it: a copy with fewer systems, another load, other payloads and rounds.

use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::source::Source;
use super::yaml::Node;
use crate::load::payload;
use crate::plan::{DEFAULT_EVENT, Mode, Plan, Sender, Warmup, Workload, event_name, file_name};
use crate::tools::Tool;

/// Sizes of events that have a name, in bytes.
pub(super) const SIZES: [usize; 5] = [DEFAULT_EVENT, 4 << 10, 8 << 10, 32 << 10, 64 << 10];
/// The load that the evaluation has.
pub(super) const OWN: &str = "own";
/// Most rounds.
pub(super) const ROUNDS: u32 = 100;

/// What a form says, in its own words: a form that is refused is shown with them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceChoices {
    /// Path of the evaluation in the folder.
    pub(super) from: String,
    /// Names of systems.
    pub(super) systems: Vec<String>,
    /// The name of a mode, or [`OWN`].
    pub(super) load: String,
    /// Names of sizes of [`SIZES`].
    pub(super) payloads: Vec<String>,
    /// Another size.
    pub(super) bytes: String,
    pub(super) rounds: String,
}

impl ServiceChoices {
    /// Before anything was chosen: as the evaluation has it.
    pub(super) fn of(source: &Source) -> Self {
        let mut modes = source.plan.workloads.iter().map(|workload| workload.mode);
        let first = modes.next().flatten().filter(|first| modes.all(|mode| mode == Some(*first)));
        ServiceChoices {
            from: source.file.clone(),
            systems: source.services().map(|service| service.system.name.clone()).collect(),
            load: first.unwrap_or(OWN).to_owned(),
            payloads: Vec::new(),
            bytes: String::new(),
            rounds: source.plan.repeats.min(ROUNDS).to_string(),
        }
    }
}

/// What was chosen, checked against the evaluation.
struct Chosen {
    /// Places of systems in the file.
    systems: Vec<usize>,
    /// None: the load that the evaluation has.
    mode: Option<Mode>,
    /// Bytes of events; empty: as the evaluation has them.
    payloads: Vec<usize>,
    rounds: u32,
}

fn check(source: &Source, choices: &ServiceChoices) -> Result<Chosen, String> {
    let names: Vec<&str> = source.services().map(|service| service.system.name.as_str()).collect();
    let mut systems = Vec::new();
    for name in &choices.systems {
        match names.iter().position(|known| known == name) {
            Some(place) if systems.contains(&place) => {}
            Some(place) => systems.push(place),
            None => {
                let known = names.join(", ");
                return Err(format!("`{name}` is not a system of `{}`, which has {known}.", source.file));
            }
        }
    }
    if systems.is_empty() {
        return Err("Choose at least one system.".to_owned());
    }
    systems.sort_unstable();
    let mode = match choices.load.as_str() {
        OWN => None,
        name => Some(Mode::named(name).ok_or_else(|| {
            let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.name()).collect();
            format!("`{name}` is not a load; expected {OWN}, {}.", known.join(", "))
        })?),
    };
    if let Some(mode) = mode {
        source.plan.workloads.iter().try_for_each(|workload| suits(mode, workload))?;
    }
    Ok(Chosen { systems, mode, payloads: sizes(source, choices)?, rounds: rounds(&choices.rounds)? })
}

/// Whether a mode has a meaning for a workload.
fn suits(mode: Mode, workload: &Workload) -> Result<(), String> {
    let why = match (&workload.generator, workload.warmup) {
        (Sender::Gauge | Sender::External { tool: Tool::K6, script: None }, Warmup::Requests(_)) => {
            "its warm-up is a number of requests, and phases have none".to_owned()
        }
        (Sender::Gauge | Sender::External { tool: Tool::K6, script: None }, _) => return Ok(()),
        (Sender::External { tool, .. }, _) => format!("{} sends it, which has no phases", tool.name()),
    };
    let (mode, name) = (mode.name(), &workload.name);
    Err(format!(
        "The mode `{mode}` has no meaning for the workload `{name}`: {why}. Choose the load of the evaluation."
    ))
}

/// Bytes of events, in the order of the form.
fn sizes(source: &Source, choices: &ServiceChoices) -> Result<Vec<usize>, String> {
    let mut sizes = Vec::new();
    for name in &choices.payloads {
        let known = SIZES.into_iter().find(|bytes| event_name(*bytes) == *name);
        sizes.push(known.ok_or_else(|| {
            let known: Vec<String> = SIZES.into_iter().map(event_name).collect();
            format!("`{name}` is not a payload; expected {}, or a number of bytes.", known.join(", "))
        })?);
    }
    if !choices.bytes.is_empty() {
        let (least, most) = (payload::LEAST, payload::MOST);
        let bytes = choices.bytes.parse::<usize>().ok().filter(|bytes| (least..=most).contains(bytes));
        let why = || format!("The bytes of a payload are a number from {least} to {most}, not `{}`.", choices.bytes);
        sizes.push(bytes.ok_or_else(why)?);
    }
    if !sizes.is_empty() && !source.has_events() {
        let why = "the requests of its workloads have bodies of their own, or none";
        return Err(format!("A size of payloads has no meaning for `{}`: {why}.", source.file));
    }
    let mut seen = Vec::new();
    sizes.retain(|bytes| {
        !seen.contains(bytes) && {
            seen.push(*bytes);
            true
        }
    });
    Ok(sizes)
}

fn rounds(given: &str) -> Result<u32, String> {
    let rounds = given.parse::<u32>().ok().filter(|rounds| (1..=ROUNDS).contains(rounds));
    rounds.ok_or_else(|| format!("Rounds are a number from 1 to {ROUNDS}, not `{given}`."))
}

/// The evaluation as YAML. Of the form it has the names of systems, loads and sizes that are known, numbers, and the name of the draft as a text; each
/// command is one of the source. `folder` is that of the draft, `description` the file with its API description.
pub(super) fn evaluation(
    source: &Source,
    choices: &ServiceChoices,
    name: &str,
    folder: &Path,
    description: &Path,
) -> Result<String, String> {
    let chosen = check(source, choices)?;
    let unusual = || format!("`{}` is written in a way that cannot be copied; start it as it is.", source.file);
    let mut tree = source.tree.clone();
    let mut comments = vec![format!("Made by gauge ui of {}", json!(source.file))];
    let systems = tree.list_mut("systems").ok_or_else(unusual)?;
    if systems.len() != source.services().count() {
        return Err(unusual());
    }
    let mut place = 0;
    systems.retain(|_| {
        place += 1;
        chosen.systems.contains(&(place - 1))
    });
    let workloads = tree.list_mut("workloads").ok_or_else(unusual)?;
    if workloads.len() != source.plan.workloads.len() {
        return Err(unusual());
    }
    *workloads = load(workloads, &source.plan.workloads, &chosen).ok_or_else(unusual)?;
    // Those that name a system which was not chosen would be refused.
    for key in ["control", "twin", "reference"] {
        let mut left_out = source.services().enumerate().filter(|(place, _)| !chosen.systems.contains(place));
        let named = tree.get(key).and_then(Node::text).unwrap_or_default().to_owned();
        if left_out.any(|(_, service)| service.system.name == named) {
            comments.push(format!("Without `{key}`, which names {}", json!(named)));
            tree.remove(key);
        }
    }
    tree.set("name", Node::Text(name.to_owned()));
    tree.set("description", Node::Text(format!("Made of {} by gauge ui.", source.file)));
    tree.set("folder", path(&relative(folder, &source.plan.folder))?);
    tree.set("api", path(&relative(&source.plan.folder, description))?);
    tree.set("repeats", Node::plain(chosen.rounds.to_string()));
    let comments: String = comments.iter().map(|line| format!("# {line}\n")).collect();
    Ok(comments + &tree.document())
}

/// Workloads under the chosen load, one for each size of payloads. Those that differ in nothing but their names then are one.
fn load(nodes: &[Node], planned: &[Workload], chosen: &Chosen) -> Option<Vec<Node>> {
    let mut made: Vec<Node> = Vec::new();
    let mut nameless: Vec<Node> = Vec::new();
    for (node, workload) in nodes.iter().zip(planned) {
        let has_events = workload.payload().is_some();
        let sizes: Vec<Option<usize>> = match chosen.payloads.as_slice() {
            sizes if has_events && !sizes.is_empty() => sizes.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        for size in sizes {
            let mut node = node.clone();
            if let Some(mode) = chosen.mode {
                node.set("load", Node::map([("mode", Node::plain(mode.name()))]));
            }
            if let Some(bytes) = size {
                let size = event_name(bytes);
                resize(&mut node, workload, &size)?;
                let ids: Vec<&str> = workload.operations.iter().map(|planned| planned.described.as_str()).collect();
                node.set("name", Node::Text(format!("{} {size}", ids.join(", "))));
            }
            let mut other = node.clone();
            other.remove("name");
            let changed = chosen.mode.is_some() || size.is_some();
            if changed && nameless.contains(&other) {
                continue;
            }
            nameless.push(other);
            made.push(node);
        }
    }
    let mut names = Vec::new();
    for node in &mut made {
        let name = node.get("name")?.text()?.to_owned();
        let mut unique = name.clone();
        for number in 2.. {
            if !names.contains(&file_name(&unique)) {
                break;
            }
            unique = format!("{name} ({number})");
        }
        names.push(file_name(&unique));
        if unique != name {
            node.set("name", Node::Text(unique));
        }
    }
    Some(made)
}

/// Gives events of a workload another size.
fn resize(node: &mut Node, workload: &Workload, size: &str) -> Option<()> {
    let operations = node.list_mut("operations")?;
    if operations.len() != workload.operations.len() {
        return None;
    }
    for (operation, planned) in operations.iter_mut().zip(&workload.operations) {
        if planned.made.as_ref().is_some_and(|made| made.payload().is_some()) {
            operation.set("body", Node::map([("event", Node::plain(size))]));
        }
    }
    Some(())
}

/// Whether a derived evaluation starts nothing but what the source names, in the same place.
pub(super) fn starts_the_same(source: &Plan, derived: &Plan) -> bool {
    let programs = |plan: &Plan| plan.systems.iter().filter_map(|system| system.service().cloned()).collect::<Vec<_>>();
    let own = programs(source);
    let backends = |plan: &Plan| {
        let parts = |backend: &crate::plan::Backend| {
            (backend.program.clone(), backend.restart, backend.reset.clone(), backend.counts.clone())
        };
        plan.backends.iter().map(parts).collect::<Vec<_>>()
    };
    let senders = |plan: &Plan| plan.workloads.iter().map(|workload| workload.generator.clone()).collect::<Vec<_>>();
    let known = senders(source);
    programs(derived).iter().all(|program| own.contains(program))
        && derived.systems.iter().all(|system| system.service().is_some())
        && senders(derived).iter().all(|sender| known.contains(sender))
        && backends(derived) == backends(source)
        && derived.before_each == source.before_each
        && derived.builds == source.builds
        && derived.deploy == source.deploy
        && derived.folder == source.folder
}

/// The way from one absolute folder to another path.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let (from, to): (Vec<Component<'_>>, Vec<Component<'_>>) = (from.components().collect(), to.components().collect());
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[shared..].iter().map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to[shared..].iter().copied()).collect();
    if way.as_os_str().is_empty() { PathBuf::from(".") } else { way }
}

fn path(path: &Path) -> Result<Node, String> {
    let text = path.to_str().ok_or("The path of the folder is not valid UTF-8.")?;
    Ok(Node::Text(text.to_owned()))
}

#[cfg(test)]
mod tests;
