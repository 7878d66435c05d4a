//! From an API description to an evaluation, step by step: upload, choose, confirm. What was chosen so far is in the folder, one folder for each draft, so
//! that a step can be done again and nothing is lost with this program.

mod derived;
mod draft;
mod form;
mod services;
mod source;
mod yaml;

use std::fmt::Write as _;
use std::path::{Component, Path};

use axum::http::StatusCode;

use super::App;
use super::html::{options, text, url};
use super::page::{Failure, Page, Shown};
use super::request::{FORM, PageRequest};
use super::{evaluations, multipart::Upload};
use crate::plan::Plan;
use draft::Choices;
pub(super) use draft::{Draft, draft_of};
pub(super) use services::{choose as choose_services, mode_words, page as services_page};

/// Bytes of a description.
const DESCRIPTION: usize = 6 << 20;

/// Which step this is.
pub(super) fn steps(current: usize) -> String {
    let steps = ["Upload the description", "Choose systems, load and place", "Confirm and start"];
    let step = |(index, name): (usize, &&str)| {
        let mark = if index == current { " aria-current=\"step\"" } else { "" };
        format!("<li><span{mark}>{name}</span></li>")
    };
    format!("<ol class=\"wizard\">{}</ol>", steps.iter().enumerate().map(step).collect::<String>())
}

/// The two kinds of evaluations, and which of them this page makes.
fn kinds(draft: &Draft, services: bool) -> String {
    let path = format!("/new/{}", url(&draft.key));
    let kind = |to: &str, name: &str, current: bool| {
        let mark = if current { " aria-current=\"true\"" } else { "" };
        format!("<li><a href=\"{}\"{mark}>{name}</a></li>", text(to))
    };
    format!(
        "<nav class=\"kinds\" aria-label=\"What is compared\"><ul>{}{}</ul></nav>",
        kind(&path, "Gateways", !services),
        kind(&format!("{path}/services"), "Services", services)
    )
}

pub(super) fn upload_page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    Ok(Shown::Page(upload_form(app, request, None)))
}

/// A choice of the descriptions of evaluations of services, where the folder has some.
fn descriptions(app: &App, chosen: &str) -> String {
    let files = source::list(app);
    if files.is_empty() {
        return String::new();
    }
    let choices = std::iter::once(("", "none")).chain(files.iter().map(|file| (file.as_str(), file.as_str())));
    format!(
        "<label class=\"wide\">Or the description of an evaluation of services <select name=\"evaluation\">{}</select></label>",
        options(choices, chosen)
    )
}

fn upload_form(app: &App, request: &PageRequest, wrong: Option<&str>) -> Page {
    let mut body = steps(0);
    if let Some(wrong) = wrong {
        let _ = write!(body, "<p class=\"failed\" role=\"alert\">{}</p>", text(wrong));
    }
    let _ = write!(
        body,
        "<form class=\"panel\" method=\"post\" action=\"/new\" enctype=\"multipart/form-data\">{}\
         <label class=\"wide\">Name of the evaluation <input name=\"name\" maxlength=\"80\" required value=\"{}\"></label>\
         <label class=\"wide\">API description <input type=\"file\" name=\"file\" accept=\".yaml,.yml,.json,.raml,.apib,.md\"></label>{}\
         <label class=\"check\"><input type=\"checkbox\" name=\"demo\" value=\"yes\"> <span>Use the description of <code>gauge demo</code> instead, to try it</span></label>\
         <button class=\"main\">Upload</button></form>\
         <p class=\"quiet\">OpenAPI 3, Swagger 2, RAML 1.0, API Blueprint or records of endpoints, in one file of up to {} MB. It may not refer to other files.</p>",
        request.secret(),
        text(request.form.get("name")),
        descriptions(app, request.form.get("evaluation")),
        DESCRIPTION >> 20
    );
    Page::new("New evaluation", "/new", body)
}

/// What is wrong with a form; it is shown again.
fn wrong(mut page: Page) -> Result<Shown, Failure> {
    page.status = StatusCode::UNPROCESSABLE_ENTITY;
    Ok(Shown::Page(page))
}

/// What `gauge demo` serves.
const DEMO: &str = include_str!("../../../../examples/evaluations/demo.openapi.yaml");

pub(super) fn upload(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    const { assert!(DESCRIPTION < FORM) }
    let again = |why: &str| wrong(upload_form(app, request, Some(why)));
    let demo = request.form.has("demo");
    let from = request.form.some("evaluation");
    let given = (demo, &from, &request.upload);
    let upload = match given {
        (true, None, None) => Upload { name: "demo.yaml".to_owned(), bytes: DEMO.as_bytes().to_vec() },
        (false, None, Some(upload)) => upload.clone(),
        (false, Some(file), None) => match described(app, file)? {
            Ok(upload) => upload,
            Err(why) => return again(&why),
        },
        _ => return again("Choose one of these: a file, an evaluation, or the demonstration."),
    };
    let name = request.form.get("name");
    if crate::plan::file_name(name).is_empty() || name.len() > 80 {
        return again("The name needs a letter or a digit, and has up to 80 characters.");
    }
    if upload.bytes.len() > DESCRIPTION {
        return again("The file is too large.");
    }
    // Before it is kept: it may refer to nothing else, and a broken one leaves nothing behind.
    match Draft::create(&app.options.folder, name, &upload.bytes) {
        Ok(draft) => Ok(Shown::See(match from {
            Some(file) => services::path(&draft.key, &file),
            None => format!("/new/{}", url(&draft.key)),
        })),
        Err(draft::CreateError::Description(why)) => again(&format!("The description cannot be used:\n{why}")),
        Err(draft::CreateError::System(error)) => Err(Failure::internal(error)),
    }
}

/// The description of an evaluation of services; the inner error is for the form.
fn described(app: &App, file: &str) -> Result<Result<Upload, String>, Failure> {
    let path = source::open(app, file)?.description();
    let length = std::fs::metadata(&path).map_err(Failure::internal)?.len();
    if length > DESCRIPTION as u64 {
        return Ok(Err("The description of this evaluation is too large.".to_owned()));
    }
    let bytes = std::fs::read(&path).map_err(Failure::internal)?;
    Ok(Ok(Upload { name: "description".to_owned(), bytes }))
}

/// A draft by its key.
pub(super) fn draft(app: &App, key: &str) -> Result<Draft, Failure> {
    let mut parts = Path::new(key).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    let not_there = || Failure::not_found("There is no such draft.");
    let all = app.options.folder.canonicalize().map_err(Failure::internal)?;
    let folder = all.join(draft::FOLDER).join(key).canonicalize().map_err(|_| not_there())?;
    // A link may lead elsewhere.
    if !plain || !folder.starts_with(&all) || !folder.is_dir() {
        return Err(not_there());
    }
    Draft::open(key, &folder).map_err(|why| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, why))
}

pub(super) fn choose_page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let draft = draft(app, request.part(1))?;
    let choices = draft.choices();
    Ok(Shown::Page(choose_form(&draft, &choices, request, None)))
}

fn choose_form(draft: &Draft, choices: &Choices, request: &PageRequest, wrong: Option<&str>) -> Page {
    let body = steps(1) + &kinds(draft, false) + &form::page(draft, choices, request, wrong);
    Page::new(draft.name.clone(), "/new", body)
}

pub(super) fn choose(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let draft = draft(app, request.part(1))?;
    let choices = form::read(&request.form);
    let again = |why: &str| wrong(choose_form(&draft, &choices, request, Some(why)));
    let evaluation = match draft.evaluation(&choices) {
        Ok(evaluation) => evaluation,
        Err(why) => return again(&why),
    };
    draft.write(&choices, &evaluation).map_err(Failure::internal)?;
    let shown = draft.evaluation_path();
    match Plan::read(&evaluations::file(app, &shown)?) {
        // The last step is the page of the evaluation, with its form to start it.
        Ok(_) => Ok(Shown::See(evaluations::path_of(&shown))),
        Err(error) => again(&error.to_string()),
    }
}
