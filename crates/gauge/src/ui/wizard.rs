//! From an API description to an evaluation, step by step: upload, choose, confirm. What was chosen so far is in the folder, one folder for each draft, so
//! that a step can be done again and nothing is lost with this program.

mod draft;
mod form;

use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

use axum::http::StatusCode;

use super::App;
use super::html::{text, url};
use super::page::{Failure, Page, Shown};
use super::request::{FORM, PageRequest};
use super::{evaluations, multipart::Upload};
use crate::plan::Plan;
pub(super) use draft::{Draft, draft_of};

/// Bytes of a description.
const DESCRIPTION: usize = 6 << 20;

/// Which step this is.
fn steps(current: usize) -> String {
    let steps = ["Upload the description", "Choose systems, load and place", "Confirm and start"];
    let step = |(index, name): (usize, &&str)| {
        let mark = if index == current { " aria-current=\"step\"" } else { "" };
        format!("<li><span{mark}>{name}</span></li>")
    };
    format!("<ol class=\"wizard\">{}</ol>", steps.iter().enumerate().map(step).collect::<String>())
}

pub(super) fn upload_page(_: &App, request: &PageRequest) -> Result<Shown, Failure> {
    Ok(Shown::Page(upload_form(request, None)))
}

fn upload_form(request: &PageRequest, wrong: Option<&str>) -> Page {
    let mut body = steps(0);
    if let Some(wrong) = wrong {
        let _ = write!(body, "<p class=\"failed\" role=\"alert\">{}</p>", text(wrong));
    }
    let _ = write!(
        body,
        "<form class=\"panel\" method=\"post\" action=\"/new\" enctype=\"multipart/form-data\">{}\
         <label class=\"wide\">Name of the evaluation <input name=\"name\" maxlength=\"80\" required value=\"{}\"></label>\
         <label class=\"wide\">API description <input type=\"file\" name=\"file\" accept=\".yaml,.yml,.json,.raml,.apib,.md\"></label>\
         <label class=\"check\"><input type=\"checkbox\" name=\"demo\" value=\"yes\"> Use the description of <code>gauge demo</code> instead, to try it</label>\
         <button class=\"main\">Upload</button></form>\
         <p class=\"quiet\">OpenAPI 3, Swagger 2, RAML 1.0, API Blueprint or records of endpoints, in one file of up to {} MB. It may not refer to other files.</p>",
        request.secret(),
        text(request.form.get("name")),
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
    let again = |why: &str| wrong(upload_form(request, Some(why)));
    let demo = Upload { name: "demo.yaml".to_owned(), bytes: DEMO.as_bytes().to_vec() };
    let upload = if request.form.has("demo") { Some(&demo) } else { request.upload.as_ref() };
    let Some(upload) = upload else { return again("Choose a file, or the demonstration.") };
    let name = request.form.get("name");
    if crate::plan::file_name(name).is_empty() || name.len() > 80 {
        return again("The name needs a letter or a digit, and has up to 80 characters.");
    }
    if upload.bytes.len() > DESCRIPTION {
        return again("The file is too large.");
    }
    // Before it is kept: it may refer to nothing else, and a broken one leaves nothing behind.
    match Draft::create(&app.options.folder, name, &upload.bytes) {
        Ok(draft) => Ok(Shown::See(format!("/new/{}", url(&draft.key)))),
        Err(draft::CreateError::Description(why)) => again(&format!("The description cannot be used:\n{why}")),
        Err(draft::CreateError::System(error)) => Err(Failure::internal(error)),
    }
}

/// A draft by its key.
pub(super) fn draft(app: &App, key: &str) -> Result<Draft, Failure> {
    let mut parts = Path::new(key).components();
    let plain = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    let folder: PathBuf = app.options.folder.join(draft::FOLDER).join(key);
    if !plain || !folder.is_dir() {
        return Err(Failure::not_found("There is no such draft."));
    }
    Draft::open(key, &folder).map_err(|why| Failure::new(StatusCode::UNPROCESSABLE_ENTITY, why))
}

pub(super) fn choose_page(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let draft = draft(app, request.part(1))?;
    let choices = draft.choices();
    Ok(Shown::Page(Page::new(draft.name.clone(), "/new", steps(1) + &form::page(&draft, &choices, request, None))))
}

pub(super) fn choose(app: &App, request: &PageRequest) -> Result<Shown, Failure> {
    let draft = draft(app, request.part(1))?;
    let choices = form::read(&request.form);
    let again = |why: &str| {
        wrong(Page::new(draft.name.clone(), "/new", steps(1) + &form::page(&draft, &choices, request, Some(why))))
    };
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
