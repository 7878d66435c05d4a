//! The second step for services: an evaluation of the folder, and what of it is run.

use std::fmt::Write as _;

use super::derived::{OWN, ROUNDS, SIZES, ServiceChoices};
use super::draft::{DeriveError, Draft};
use super::form::check;
use super::source::{self, Source};
use super::{draft, kinds, steps, wrong};
use crate::load::payload;
use crate::load::workload::{Phase, Span};
use crate::plan::{Mode, event_name};
use crate::ui::App;
use crate::ui::evaluations;
use crate::ui::html::{link, text, url};
use crate::ui::page::{Failure, Page, Shown};
use crate::ui::request::{Fields, PageRequest};
use crate::ui::runs::duration;

/// The path of the page for an evaluation.
pub(super) fn path(key: &str, file: &str) -> String {
    format!("/new/{}/services?from={}", url(key), url(file))
}

pub(in crate::ui) fn page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let draft = draft(app, request.part(1))?;
    let files = source::list(app);
    let before = draft.choices().services;
    let only = || (files.len() == 1).then(|| files[0].clone());
    let given = request.query.some("from");
    // One that was chosen before may have been removed since.
    let before_there = || Some(before.as_ref()?.from.clone()).filter(|file| files.contains(file));
    let Some(file) = given.or_else(before_there).or_else(only) else {
        return Ok(Shown::Page(whole(app, &draft, &files, "", String::new())));
    };
    let source = source::open(app, &file)?;
    let choices = before.filter(|before| before.from == file).unwrap_or_else(|| ServiceChoices::of(&source));
    let form = match source.fits(&draft.api) {
        Ok(()) => form(&draft, &source, &choices, request, None),
        Err(why) => alert(&format!("It does not fit: {why}.")),
    };
    Ok(Shown::Page(whole(app, &draft, &files, &file, form)))
}

pub(in crate::ui) fn choose(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let draft = draft(app, request.part(1))?;
    let choices = read(&request.form);
    let source = source::open(app, &choices.from)?;
    match draft.derive(&source, &choices) {
        // The last step is the page of the evaluation, with its form to start it.
        Ok(()) => Ok(Shown::See(evaluations::path_of(&draft.evaluation_path()))),
        Err(DeriveError::System(error)) => Err(Failure::internal(error)),
        Err(DeriveError::Choice(why)) => {
            let form = form(&draft, &source, &choices, request, Some(&why));
            wrong(whole(app, &draft, &source::list(app), &choices.from, form))
        }
    }
}

fn read(form: &Fields) -> ServiceChoices {
    let all = |name: &str| form.all(name).map(str::to_owned).collect();
    ServiceChoices {
        from: form.get("from").to_owned(),
        systems: all("system"),
        load: form.get("load").to_owned(),
        payloads: all("payload"),
        bytes: form.get("bytes").to_owned(),
        rounds: form.get("rounds").to_owned(),
    }
}

fn alert(why: &str) -> String {
    format!("<p class=\"failed\" role=\"alert\">{}</p>", text(why))
}

/// The page: evaluations to choose from, and the form of the one that was chosen.
fn whole(app: &App, draft: &Draft, files: &[String], chosen: &str, form: String) -> Page {
    let mut body = steps(1) + &kinds(draft, true);
    if files.is_empty() {
        let _ = write!(
            body,
            "<p>No evaluation in the folder <code>{}</code> has <code>systems</code>. An evaluation says how services are started; \
             put one there, then load this page again.</p>",
            text(&app.options.folder.display().to_string())
        );
    } else {
        body.push_str("<h2>Evaluation that names the services</h2><ul class=\"cards\">");
        for file in files {
            body.push_str(&card(app, draft, file, file == chosen));
        }
        body.push_str("</ul>");
    }
    Page::new(draft.name.clone(), "/new", body + &form)
}

fn card(app: &App, draft: &Draft, file: &str, chosen: bool) -> String {
    let (name, about) = match source::open(app, file) {
        Err(failure) => (text(file), failure.why),
        Ok(source) => match source.fits(&draft.api) {
            Err(why) => (text(file), format!("Does not fit: {why}.")),
            Ok(()) => {
                let names: Vec<&str> = source.services().map(|service| service.system.name.as_str()).collect();
                (link(&path(&draft.key, file), file), format!("{}: {}", source.plan.name, names.join(", ")))
            }
        },
    };
    let (class, mark) = if chosen { (" class=\"chosen\"", " <span class=\"quiet\">chosen</span>") } else { ("", "") };
    format!("<li{class}><h3>{name}{mark}</h3><p class=\"quiet\">{}</p></li>", text(&about))
}

fn form(
    draft: &Draft,
    source: &Source,
    choices: &ServiceChoices,
    request: &PageRequest,
    wrong: Option<&str>,
) -> String {
    let mut out = wrong.map_or(String::new(), alert);
    let _ = write!(
        out,
        "<form class=\"steps\" method=\"post\" action=\"/new/{}/services\">{}<input type=\"hidden\" name=\"from\" value=\"{}\">\
         <fieldset><legend>Systems</legend>",
        url(&draft.key),
        request.secret(),
        text(&source.file)
    );
    for service in source.services() {
        let (name, program) = (&service.system.name, service.program);
        let protocol = if program.grpc.is_some() { "gRPC" } else { "HTTP/1.1" };
        let about: Vec<&str> = program.language.as_deref().into_iter().chain([protocol]).collect();
        let command = crate::plan::redact(&program.command.join(" "), &source.plan.secrets);
        let label = format!(
            "{} <span class=\"quiet\">{}</span> <code class=\"command\">{}</code>",
            text(name),
            text(&about.join(", ")),
            text(&command)
        );
        out.push_str(&check("checkbox", "system", name, choices.systems.contains(name), &label));
    }
    out.push_str("</fieldset><fieldset><legend>Load</legend>");
    let own = format!("as in <code>{}</code>", text(&source.file));
    out.push_str(&check("radio", "load", OWN, choices.load == OWN, &own));
    for mode in Mode::ALL {
        let label = format!("{} <span class=\"quiet\">{}</span>", mode.name(), text(&mode_words(mode)));
        out.push_str(&check("radio", "load", mode.name(), choices.load == mode.name(), &label));
    }
    let _ = write!(out, "</fieldset>{}", payloads(source, choices));
    let _ = write!(
        out,
        "<fieldset><legend>Rounds</legend><div class=\"row\">{}</div></fieldset>\
         <div class=\"actions\"><button class=\"main\">Continue</button></div></form>",
        number("rounds", "Rounds; a decision needs six or more", &choices.rounds, 1, ROUNDS as usize, true)
    );
    out
}

fn payloads(source: &Source, choices: &ServiceChoices) -> String {
    let mut out = "<fieldset><legend>Payloads</legend>".to_owned();
    if source.has_events() {
        out.push_str("<p class=\"quiet\">Each size is a workload. Without a choice they stay as in the evaluation.</p><div class=\"grid\">");
        for bytes in SIZES {
            let name = event_name(bytes);
            let label = format!("{name} <span class=\"quiet\">{bytes} bytes</span>");
            out.push_str(&check("checkbox", "payload", &name, choices.payloads.contains(&name), &label));
        }
        let other = number("bytes", "Another size, bytes", &choices.bytes, payload::LEAST, payload::MOST, false);
        let _ = write!(out, "</div><div class=\"row\">{other}</div>");
    } else {
        out.push_str("<p class=\"quiet\">The requests of this evaluation have bodies of their own, or none.</p>");
    }
    out + "</fieldset>"
}

fn number(name: &str, label: &str, value: &str, least: usize, most: usize, required: bool) -> String {
    let required = if required { " required" } else { "" };
    format!(
        "<label>{label} <input type=\"number\" name=\"{name}\" min=\"{least}\" max=\"{most}\" value=\"{}\"{required}></label>",
        text(value)
    )
}

/// Users and length of a mode.
pub(in crate::ui) fn mode_words(mode: Mode) -> String {
    let phases = mode.phases();
    let users = |phase: &Phase| match phase.closed.as_ref().map(|closed| closed.users) {
        Some(Span::Constant(users)) => users.to_string(),
        _ => "?".to_owned(),
    };
    let all: Vec<String> = phases.iter().map(users).collect();
    let closed = || phases.iter().filter_map(|phase| phase.closed.as_ref());
    let requests: u64 = closed().filter_map(|closed| closed.iterations).sum();
    let time: u64 = closed().filter_map(|closed| closed.duration).map(|duration| duration.as_millis() as u64).sum();
    let length = if requests > 0 { format!("{requests} requests") } else { format!("{} a trial", duration(time)) };
    let plural = if all == ["1"] { "user" } else { "users" };
    format!("{} {plural}, {length}", all.join(", "))
}
