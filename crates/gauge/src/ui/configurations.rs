//! Configuration files of gateways: those of a campaign, and those that a description leads to; one by one, and as an archive.

use std::fmt::Write as _;

use axum::http::StatusCode;

use super::App;
use super::html::{lines, text, url};
use super::page::{Failure, Page, Shown};
use super::request::PageRequest;
use super::{tar, wizard};
use crate::gateway::{self, Gateway, Model, Options, Placement};

/// A file with its path.
type File = (String, String);

/// Where a gateway listens in files that are not for a run.
const LISTEN: ([u8; 4], u16) = ([127, 0, 0, 1], 8080);

/// Files with links to each: `base` is where they are.
fn show(base: &str, system: &str, files: &[File]) -> String {
    let mut out = String::new();
    for (path, content) in files {
        let to: Vec<String> = path.split('/').map(url).collect();
        let _ = write!(
            out,
            "<h3><a href=\"{}/{}\" download>{}</a></h3>{}",
            text(base),
            to.join("/"),
            text(path),
            lines(content, &format!("{system}: {path}"))
        );
    }
    out
}

/// One file to save.
fn download(files: Vec<File>, path: &str) -> Result<Shown, Failure> {
    let found = files.into_iter().find(|(known, _)| known == path);
    let (path, content) = found.ok_or_else(|| Failure::not_found("There is no such file."))?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let name = path.rsplit('/').next().unwrap_or_default().chars().map(plain).collect();
    Ok(Shown::File { kind: "text/plain; charset=utf-8", name: Some(name), content: content.into_bytes() })
}

fn archive(name: &str, files: &[File]) -> Result<Shown, Failure> {
    let all = files.iter().map(|(path, content)| (path.clone(), content.as_bytes()));
    let content = tar::archive(all).map_err(Failure::internal)?;
    Ok(Shown::File { kind: "application/x-tar", name: Some(format!("{name}.tar")), content })
}

pub(super) fn of_campaign(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let head = app.history()?.head(request.part(1))?;
    let base = format!("/runs/{}/configurations", url(&head.id));
    let mut all = Vec::new();
    let mut body = String::new();
    for system in head.results.systems.iter().filter(|system| !system.configuration.is_empty()) {
        let files: Vec<File> = system.configuration.iter().map(|file| (file.path.clone(), file.text.clone())).collect();
        let _ = write!(body, "<h2>{}</h2>", text(&system.name));
        if !system.command.is_empty() {
            let _ = write!(body, "<p>Started with <code>{}</code></p>", text(&system.command.join(" ")));
        }
        body.push_str(&show(&format!("{base}/{}", url(&system.name)), &system.name, &files));
        all.extend(
            files
                .into_iter()
                .map(|(path, content)| (format!("{}/{path}", crate::plan::file_name(&system.name)), content)),
        );
    }
    if request.query.has("tar") {
        return archive(&format!("{}-configurations", crate::plan::file_name(&head.results.name)), &all);
    }
    let body = if all.is_empty() {
        "<p>There are no configuration files in this run.</p>".to_owned()
    } else {
        format!("<div class=\"actions\"><a class=\"button\" href=\"{base}?tar=1\">Download all (tar)</a></div>{body}")
    };
    Ok(Shown::Page(Page::new(format!("Configuration files of {}", head.results.name), "/runs", body)))
}

pub(super) fn file_of_campaign(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let head = app.history()?.head(request.part(1))?;
    let system = head.results.systems.into_iter().find(|system| system.name == request.part(3));
    let system = system.ok_or_else(|| Failure::not_found("There is no such system in this run."))?;
    download(system.configuration.into_iter().map(|file| (file.path, file.text)).collect(), &request.rest(4))
}

/// The gateways that a word names: one of them, or `all`.
fn named(word: &str) -> Vec<&'static dyn Gateway> {
    match gateway::by_name(word) {
        Some(one) => vec![one],
        None if word == "all" => gateway::all().to_vec(),
        None => Vec::new(),
    }
}

/// The files of a gateway for a description, as `gauge convert` writes them, and what differs.
fn written(model: &Model, one: &dyn Gateway) -> Result<(Vec<File>, Vec<String>), String> {
    let extra = (1..).map(|n| LISTEN.1 + n).take(one.extra_ports().len()).collect();
    let place = Placement { extra, ..Placement::new(LISTEN.into(), format!("/etc/{}", one.name())) };
    let written = one.files(model, &place).map_err(|unsupported| unsupported.to_string())?;
    Ok((written.files.into_iter().map(|file| (file.path, file.text)).collect(), written.notes))
}

fn model(app: &App, request: &PageRequest) -> Result<(wizard::Draft, Model), Failure> {
    let draft = wizard::draft(app, request.part(1))?;
    let model = Model::new(&draft.api, &Options::default())
        .map_err(|error| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, error.reasons.join("\n")))?;
    Ok((draft, model))
}

pub(super) fn of_draft(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let (draft, model) = model(app, request)?;
    let word = request.part(2);
    let gateways = named(word);
    if gateways.is_empty() {
        return Err(Failure::not_found("There is no such gateway."));
    }
    let base = format!("/new/{}", url(&draft.key));
    let (mut all, mut body) = (Vec::new(), String::new());
    for one in gateways {
        let _ = write!(body, "<h2>{}</h2>", text(one.title()));
        match written(&model, one) {
            Ok((files, notes)) => {
                let list: String = notes.iter().map(|note| format!("<li>{}</li>", text(note))).collect();
                if !list.is_empty() {
                    let _ = write!(
                        body,
                        "<details><summary>What differs from the description</summary><ul>{list}</ul></details>"
                    );
                }
                body.push_str(&show(&format!("{base}/{}", one.name()), one.title(), &files));
                all.extend(files.into_iter().map(|(path, content)| (format!("{}/{path}", one.name()), content)));
            }
            Err(why) => {
                let _ = write!(body, "<p class=\"note\">{}</p>", text(&why));
            }
        }
    }
    if request.query.has("tar") {
        return archive(&format!("{}-{word}", draft.key), &all);
    }
    let body = format!(
        "<div class=\"actions\"><a class=\"button\" href=\"{base}/{}?tar=1\">Download (tar)</a><a class=\"button\" href=\"{base}\">Back to the choice</a></div>{body}",
        url(word)
    );
    Ok(Shown::Page(Page::new(format!("Configuration files for {}", draft.name), "/new", body)))
}

pub(super) fn file_of_draft(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let (_, model) = model(app, request)?;
    let one = gateway::by_name(request.part(2)).ok_or_else(|| Failure::not_found("There is no such gateway."))?;
    let (files, _) = written(&model, one).map_err(Failure::not_found)?;
    download(files, &request.rest(3))
}
