//! Evaluations of the folder that have `systems`. Only what such a file names is started as a service: a form says which of its systems, never how.

use std::fs;
use std::path::{Path, PathBuf};

use axum::http::StatusCode;

use super::draft;
use super::yaml::{self, Node};
use crate::plan::{Plan, Program, System};
use crate::ui::App;
use crate::ui::evaluations;
use crate::ui::page::Failure;

/// Evaluations that are listed.
const LISTED: usize = 50;

/// An evaluation of services.
#[derive(Debug)]
pub(super) struct Source {
    /// Its path in the folder.
    pub(super) file: String,
    pub(super) plan: Plan,
    /// As it is written, secrets included.
    pub(super) tree: Node,
}

/// A system that can be chosen.
pub(super) struct Service<'s> {
    pub(super) system: &'s System,
    pub(super) program: &'s Program,
}

/// Paths of those in the folder, drafts left out: they have a part of another one.
pub(super) fn list(app: &App) -> Vec<String> {
    let folder = &app.options.folder;
    let has_systems = |file: &String| evaluations::has_key(&folder.join(file), "systems:");
    let own = evaluations::list(folder).into_iter().filter(|file| !is_of_drafts(file));
    own.filter(has_systems).take(LISTED).collect()
}

fn is_of_drafts(file: &str) -> bool {
    file.strip_prefix(draft::FOLDER).is_some_and(|rest| rest.starts_with('/'))
}

/// One of them.
pub(super) fn open(app: &App, file: &str) -> Result<Source, Failure> {
    let refused = |why: String| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, why);
    let path = evaluations::file(app, file)?;
    if is_of_drafts(file) {
        return Err(refused(format!("`{file}` was made here; choose the evaluation that it was made of.")));
    }
    Source::read(file, &path).map_err(refused)
}

impl Source {
    /// Reads a file; `file` is its path in the folder, for messages.
    pub(super) fn read(file: &str, path: &Path) -> Result<Self, String> {
        let plan = Plan::read(path).map_err(|error| error.to_string())?;
        let text = fs::read_to_string(path).map_err(|error| format!("{file}: {error}"))?;
        let tree = yaml::read(&text).map_err(|why| format!("{file}: {why}"))?;
        let source = Source { file: file.to_owned(), plan, tree };
        if source.services().next().is_none() {
            return Err(format!("`{file}` compares no services: it has no `systems`."));
        }
        Ok(source)
    }

    /// Its systems, in the order of the file.
    pub(super) fn services(&self) -> impl Iterator<Item = Service<'_>> {
        let own = self.plan.systems.iter().filter(|system| system.control_of.is_none());
        own.filter_map(|system| Some(Service { system, program: system.service()? }))
    }

    /// The file with its API description.
    pub(super) fn description(&self) -> PathBuf {
        self.plan.folder.join(self.tree.get("api").and_then(Node::text).unwrap_or_default())
    }

    /// Whether its workloads have bodies whose size can be chosen.
    pub(super) fn has_events(&self) -> bool {
        self.plan.workloads.iter().any(|workload| workload.payload().is_some())
    }

    /// Whether a description has the operations that its workloads use, as they are in its own.
    pub(super) fn fits(&self, api: &apidoc::Api) -> Result<(), String> {
        for workload in &self.plan.workloads {
            for planned in workload.operations.iter().chain(&workload.setup) {
                let Some(own) = self.plan.api.operation(&planned.described) else { continue };
                let words = |operation: &apidoc::Operation| {
                    let origin = operation.origin().unwrap_or_default();
                    format!("{} {origin}{}", operation.method, operation.full_path())
                };
                match api.operation(&own.id) {
                    None => {
                        return Err(format!(
                            "the description has no operation `{}`, which `{}` uses",
                            own.id, self.file
                        ));
                    }
                    Some(other) if words(other) != words(own) => {
                        return Err(format!(
                            "`{}` is {} in the description and {} in that of `{}`",
                            own.id,
                            words(other),
                            words(own),
                            self.file
                        ));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(())
    }
}
