//! What an evaluation names and its text does not show: contents of files. A campaign that went on after one was changed would have figures of two
//! things under one name.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use crate::deploy::fingerprint;
use crate::load::workload::{Body, Source};
use crate::plan::{Plan, Sender};

/// Fingerprints of what the plan was read from, by what people call it.
pub(super) fn named(plan: &Plan) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut add = |name: String, content: &[u8]| {
        // Reading from memory does not fail.
        found.extend(fingerprint(content).ok().map(|fingerprint| (name, fingerprint)));
    };
    // As it was understood: descriptions have files beside them, and comments.
    if let Ok(api) = serde_json::to_vec(&plan.api) {
        add("the API description".to_owned(), &api);
    }
    for system in &plan.systems {
        let Some(variant) = system.variant() else { continue };
        for (path, text) in &variant.files {
            add(format!("`{path}` of `{}`", system.name), text.as_bytes());
        }
    }
    for workload in &plan.workloads {
        let mut files: Vec<&Path> = Vec::new();
        for planned in workload.operations.iter().chain(&workload.setup) {
            if let Some(Body::File(file)) = &planned.operation.body {
                files.push(file);
            }
            files.extend(planned.operation.grpc.iter().filter_map(|grpc| grpc.proto.as_deref()));
            files.extend(planned.operation.params.values().filter_map(|source| match source {
                Source::Csv { file, .. } => Some(file.as_path()),
                _ => None,
            }));
        }
        if let Sender::External { script: Some(script), .. } = &workload.generator {
            files.push(script);
        }
        for file in files {
            // One that cannot be read fails where it is needed.
            let content = File::open(file).and_then(fingerprint);
            found.extend(content.ok().map(|fingerprint| (format!("`{}`", file.display()), fingerprint)));
        }
    }
    found
}

/// The name of a system's program among them.
pub(super) fn program(system: &str) -> String {
    format!("the program of `{system}`")
}

/// What has another content now. What only one of both has is not compared: an earlier version did not know of it.
pub(super) fn changed<'n>(then: &BTreeMap<String, String>, now: &'n BTreeMap<String, String>) -> Vec<&'n str> {
    let differs = |(name, content): &(&'n String, &String)| then.get(*name).is_some_and(|then| then != *content);
    now.iter().filter(differs).map(|(name, _)| name.as_str()).collect()
}
