//! Where a campaign runs.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::fleet::{Deployers, GeneratorAt};
use super::generate::Generate;
use crate::plan::{Pin, Plan, Sender};
use crate::results::Environment;

pub(super) fn environment(plan: &Plan, there: &mut Deployers, generate: &Generate, pin: &Pin) -> Environment {
    let facts = there.facts();
    let parts = [("system", &pin.system), ("upstream", &pin.upstream), ("generator", &pin.generator)];
    let pinned: BTreeMap<String, Vec<u32>> = parts
        .into_iter()
        .filter(|(_, cpus)| !cpus.is_empty())
        .map(|(part, cpus)| (part.to_owned(), cpus.clone()))
        .collect();
    let caps = match there.caps() {
        // Nothing to cap by memory, and nothing pinned: nothing holds.
        "cgroup" if plan.hardware.memory_bytes.is_none() && pin.system.is_empty() => "none",
        "affinity" if pin.system.is_empty() => "none",
        caps => caps,
    };
    Environment {
        host: facts.host,
        system: facts.system,
        processor: facts.processor,
        cpus: Some(there.cpus().len() as u32).filter(|cpus| *cpus > 0),
        memory_bytes: facts.memory_bytes,
        congestion_control: facts.congestion_control,
        pinned,
        caps: Some(caps.to_owned()),
        hardware_cpus: Some(plan.hardware.cpus),
        hardware_memory_bytes: plan.hardware.memory_bytes,
        deploy: there.place(),
        generators: generate.machines.iter().filter_map(GeneratorAt::described).collect(),
        versions: versions(plan),
        commit: commit(plan),
    }
}

/// What is otherwise than it was, in words.
pub(super) fn differences(then: &Environment, now: &Environment) -> Vec<String> {
    let fields = |of: &Environment| match serde_json::to_value(of) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (then, mut now) = (fields(then), fields(now));
    // Their clocks never are what they were.
    now.remove("generators");
    let differs =
        now.iter().filter_map(|(name, now)| Some((name, then.get(name)?, now)).filter(|(_, then, now)| then != now));
    differs.map(|(name, then, now)| format!("`{name}` was {then} and is {now}")).collect()
}

fn versions(plan: &Plan) -> BTreeMap<String, String> {
    let mut versions = BTreeMap::from([("gauge".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]);
    for workload in &plan.workloads {
        let Sender::External { tool, .. } = &workload.generator else { continue };
        // Each says it in its own way, and wrk with exit code 1.
        let argument = if *tool == crate::tools::Tool::Wrk { "-v" } else { "--version" };
        let said = tool.command().ok().and_then(|command| {
            let (program, arguments) = command.split_first()?;
            let output = Command::new(program).args(arguments).arg(argument).stdin(Stdio::null()).output().ok()?;
            let text =
                format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            text.lines().find(|line| line.contains(|c: char| c.is_ascii_digit())).map(|line| line.trim().to_owned())
        });
        versions.insert(tool.name().to_owned(), said.unwrap_or_else(|| "unknown".to_owned()));
    }
    versions
}

/// Commit of the checkout that the evaluation is in.
fn commit(plan: &Plan) -> Option<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(&plan.folder).args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
    let output = git.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| output.status.success() && !text.is_empty())
}

#[cfg(test)]
mod tests;
