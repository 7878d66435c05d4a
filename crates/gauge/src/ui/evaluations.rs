//! The evaluations of the folder, and how one is started. An evaluation runs programs: only files that are in the folder, links followed, are started, and
//! none can be written into it from here but by the wizard, which writes no commands of the visitor's.

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use axum::http::StatusCode;

use super::App;
use super::html::{Cell, facts, lines, link, table, tag, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use super::runs::duration;
use super::starts::{NotStarted, RESULTS, Started};
use super::wizard::{draft_of, mode_words, steps};
use crate::campaign::estimate::Estimate;
use crate::campaign::load_words;
use crate::plan::{Deploy, Mode, Plan, Step, Workload};
use crate::profile::Profile;

/// Files that are listed.
const FILES: usize = 500;
/// Folders below the folder that are looked through.
const DEPTH: usize = 3;
/// Bytes of a file that are looked at to tell whether it is an evaluation.
const LOOK: u64 = 256 << 10;

/// Evaluations of the folder, as paths in it.
pub(super) fn list(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(folder, Path::new(""), 0, &mut found);
    found.sort();
    found
}

fn walk(folder: &Path, below: &Path, depth: usize, found: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder.join(below)) else { return };
    for entry in entries.flatten() {
        let (path, Ok(kind)) = (below.join(entry.file_name()), entry.file_type()) else { continue };
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if hidden || found.len() == FILES {
            continue;
        }
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        if kind.is_dir() && depth < DEPTH && path != Path::new(RESULTS) {
            walk(folder, &path, depth + 1, found);
        } else if kind.is_file() && is_yaml && is_evaluation(&folder.join(&path)) {
            found.extend(path.to_str().map(str::to_owned));
        }
    }
}

/// Whether a file has the keys of an evaluation; what is wrong in it is said where it is shown.
fn is_evaluation(file: &Path) -> bool {
    has_key(file, "api:") && has_key(file, "workloads:")
}

/// Whether a line of a file begins with a key.
pub(super) fn has_key(file: &Path, key: &str) -> bool {
    use std::io::Read;
    let mut head = Vec::new();
    let Ok(opened) = std::fs::File::open(file) else { return false };
    if opened.take(LOOK).read_to_end(&mut head).is_err() {
        return false;
    }
    String::from_utf8_lossy(&head).lines().any(|line| line.starts_with(key))
}

/// The file of a path of the folder.
pub(super) fn file(app: &App, path: &str) -> Result<PathBuf, Failure> {
    let not_there = || Failure::not_found(format!("There is no evaluation `{path}` in the folder."));
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if path.is_empty() || !plain {
        return Err(not_there());
    }
    let folder = app.options.folder.canonicalize().map_err(Failure::internal)?;
    let file = folder.join(path).canonicalize().map_err(|_| not_there())?;
    // A link may lead elsewhere.
    if !file.starts_with(&folder) || !file.is_file() || !is_evaluation(&file) {
        return Err(not_there());
    }
    Ok(file)
}

/// The path of a page that shows an evaluation.
pub(super) fn path_of(file: &str) -> String {
    format!("/evaluations/show?file={}", url(file))
}

pub(super) fn page(app: &App, _: &PageRequest) -> Result<Shown, Failure> {
    let mut body = format!("<p>Folder: <code>{}</code></p>", text(&app.options.folder.display().to_string()));
    let started = app.starts.all();
    if !started.is_empty() {
        let row = |start: &Started| {
            let state = match start.code {
                None => "running".to_owned(),
                Some(code) => format!("ended, exit code {code}"),
            };
            vec![
                Cell::Head(link(&format!("/started/{}", url(&start.key)), &start.key)),
                Cell::Text(tag(&state)),
                Cell::Text(text(&start.file)),
            ]
        };
        let rows: Vec<Vec<Cell>> = started.iter().map(row).collect();
        let _ = write!(
            body,
            "<h2>Started here</h2>{}",
            table("Since gauge ui began", &["run", "state", "evaluation"], &rows)
        );
    }
    let files = list(&app.options.folder);
    body.push_str("<h2>In the folder</h2>");
    if files.is_empty() {
        let _ = write!(body, "<p>There is none yet. {}</p>", link("/new", "Make one of an API description"));
    } else {
        body.push_str("<ul>");
        for file in &files {
            let _ = write!(body, "<li>{}</li>", link(&path_of(file), file));
        }
        body.push_str("</ul>");
    }
    Ok(Shown::Page(Page::new("Evaluations", "/evaluations", body)))
}

/// One evaluation: what it would run, and the form that starts it.
pub(super) fn show(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let shown = request.query.get("file");
    let file = file(app, shown)?;
    let draft = draft_of(shown);
    // The last step of a draft.
    let mut body = draft.map_or(String::new(), |_| steps(2));
    match Plan::read(&file) {
        Ok(plan) => {
            body.push_str(&what(&plan));
            let _ = write!(
                body,
                "<form class=\"panel\" method=\"post\" action=\"/evaluations/show\">{}<input type=\"hidden\" name=\"file\" value=\"{}\">\
                 <label class=\"check\"><input type=\"checkbox\" name=\"quick\" value=\"yes\"> A first look: at most three short rounds</label>\
                 <button class=\"main\">Start</button></form>",
                request.secret(),
                text(shown)
            );
            if let Some(draft) = draft {
                let path = format!("/new/{}", url(draft));
                let change = if plan.systems.iter().any(|system| system.service().is_some()) {
                    link(&format!("{path}/services"), "Change it")
                } else {
                    link(&path, "Change it, or download configuration files")
                };
                let _ = write!(body, "<p>{change}</p>");
            }
            let _ = write!(body, "<details><summary>The file</summary>{}</details>", lines(&plan.text, "The file"));
        }
        Err(error) => {
            let _ = write!(body, "<p class=\"failed\" role=\"alert\">{}</p>", text(&error.to_string()));
        }
    }
    Ok(Shown::Page(Page::new(shown, "/evaluations", body)))
}

fn what(plan: &Plan) -> String {
    let systems: Vec<&str> = plan.systems.iter().map(|system| system.name.as_str()).collect();
    let runs_on = match &plan.deploy {
        Deploy::Local => "this machine".to_owned(),
        Deploy::Ssh(ssh) => format!("{}, over ssh", ssh.host),
        Deploy::Hosts(hosts) => format!("{} machines, over ssh", hosts.len()),
        Deploy::Terraform(terraform) => format!("machines that {} makes", terraform.folder.display()),
    };
    let mut body = facts([
        ("Name", plan.name.clone()),
        ("Systems", systems.join(", ")),
        ("Rounds", plan.repeats.to_string()),
        ("Runs on", runs_on),
        ("Takes", takes(plan)),
        ("As a first look", takes(&plan.clone().quick())),
    ]);
    let row = |workload: &Workload| {
        let operations: Vec<&str> = workload.operations.iter().map(|planned| planned.operation.id.as_str()).collect();
        vec![
            Cell::Head(text(&workload.name)),
            Cell::Text(text(&load(workload))),
            Cell::Text(text(&operations.join(", "))),
            Cell::Text(text(&workload.payload().unwrap_or_else(|| "—".to_owned()))),
            Cell::Text(text(workload.generator.name())),
        ]
    };
    let rows: Vec<Vec<Cell>> = plan.workloads.iter().map(row).collect();
    let columns = ["workload", "load", "operations", "payload", "generator"];
    body.push_str(&table("Workloads", &columns, &rows));
    let programs = programs(plan);
    if programs.is_empty() {
        body.push_str("<p>The evaluation names no programs of its own.</p>");
    } else {
        let row = |(name, when, command): &(String, &str, String)| {
            vec![
                Cell::Head(text(name)),
                Cell::Text((*when).to_owned()),
                Cell::Text(format!("<code>{}</code>", text(command))),
            ]
        };
        let rows: Vec<Vec<Cell>> = programs.iter().map(row).collect();
        body.push_str(&table("Programs that the evaluation names", &["program", "when", "command"], &rows));
    }
    body
}

/// The load of a workload; one by name has too many phases for a table.
fn load(workload: &Workload) -> String {
    match workload.mode.and_then(Mode::named) {
        Some(mode) => format!("{}: {}", mode.name(), mode_words(mode)),
        None => load_words(&workload.load),
    }
}

/// Programs that an evaluation names: each with its name, when it runs, and its command.
fn programs(plan: &Plan) -> Vec<(String, &'static str, String)> {
    let shown = |command: &[String]| crate::plan::redact(&command.join(" "), &plan.secrets);
    let mut out: Vec<(String, &str, String)> = Vec::new();
    for (command, _) in &plan.builds {
        out.push(("build".to_owned(), "once", shown(command)));
    }
    let backends = plan.backends.iter().map(|backend| (&backend.program, "behind the systems"));
    let own = plan.systems.iter().filter(|system| system.control_of.is_none());
    let services = own.filter_map(|system| system.service()).map(|service| (service, "in each round"));
    for (program, when) in backends.chain(services) {
        if let Some((command, _)) = &program.build {
            out.push((format!("build of {}", program.name), "once", shown(command)));
        }
        out.push((program.name.clone(), when, shown(&program.command)));
    }
    for reset in plan.backends.iter().filter_map(|backend| backend.reset.as_ref()) {
        out.push(("reset".to_owned(), "before each system", shown(reset)));
    }
    for step in &plan.before_each {
        if let Step::Run { command, .. } = step {
            out.push(("step".to_owned(), "before each trial", shown(command)));
        }
    }
    out
}

/// How long it takes, as far as that is planned.
fn takes(plan: &Plan) -> String {
    if matches!(plan.profile, Profile::Life(_)) {
        return "as long as its scenarios".to_owned();
    }
    let estimate = Estimate::of(plan);
    let load = duration(u64::try_from(estimate.load.as_millis()).unwrap_or(u64::MAX));
    let timed = format!("{load} of load in {} trials", estimate.timed);
    let open = format!("{} trials that last as long as their requests", estimate.open);
    let under_load = match (estimate.timed, estimate.open) {
        (_, 0) => timed,
        (0, _) => open,
        _ => format!("{timed}, {open}"),
    };
    format!("{under_load}, and {} starts of systems with what is built and checked before", estimate.starts)
}

pub(super) fn start(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let shown = request.form.get("file");
    let file = file(app, shown)?;
    let plan = Plan::read(&file).map_err(|error| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string()))?;
    match app.starts.start(&app.options, &file, shown, &plan.name, request.form.has("quick")) {
        Ok(key) => Ok(Shown::See(format!("/started/{}", url(&key)))),
        Err(NotStarted::Busy(key)) => {
            let why =
                format!("`{key}` runs. Two runs on one machine would measure each other: wait for it, or stop it.");
            Err(Failure::new(StatusCode::CONFLICT, why))
        }
        Err(NotStarted::System(error)) => Err(Failure::internal(error)),
    }
}

pub(super) fn stop(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let key = request.part(1);
    if app.starts.stop(key) {
        Ok(Shown::See(format!("/started/{}", url(key))))
    } else {
        Err(Failure::not_found("Nothing of this name was started since gauge ui began."))
    }
}
