//! The form of the second step.

use std::fmt::Write as _;

use super::draft::{Choices, Draft, lacks};
use crate::gateway;
use crate::ui::html::{link, text, url};
use crate::ui::request::{Fields, PageRequest};

/// Warnings of the description that are shown.
const WARNINGS: usize = 20;

/// What the form says; a number that is none is the default.
pub(super) fn read(form: &Fields) -> Choices {
    let default = Choices::default();
    let number = |name: &str, default: u32| form.get(name).parse().unwrap_or(default);
    Choices {
        name: String::new(),
        gateways: form.all("gateway").map(str::to_owned).collect(),
        operations: form.all("operation").map(str::to_owned).collect(),
        upstream: form.get("upstream").to_owned(),
        load: form.get("load").to_owned(),
        users: number("users", default.users),
        rate: number("rate", default.rate),
        seconds: number("seconds", default.seconds),
        rounds: number("rounds", default.rounds),
        place: form.get("place").to_owned(),
        host: form.get("host").to_owned(),
        user: form.get("user").to_owned(),
        port: form.get("port").to_owned(),
        address: form.get("address").to_owned(),
        services: None,
    }
}

pub(super) fn check(kind: &str, name: &str, value: &str, checked: bool, label: &str) -> String {
    let mark = if checked { " checked" } else { "" };
    format!(
        "<label class=\"check\"><input type=\"{kind}\" name=\"{name}\" value=\"{}\"{mark}> <span>{label}</span></label>",
        text(value)
    )
}

fn number(name: &str, label: &str, value: u32, most: u32) -> String {
    format!("<label>{label} <input type=\"number\" name=\"{name}\" min=\"1\" max=\"{most}\" value=\"{value}\"></label>")
}

fn field(name: &str, label: &str, value: &str) -> String {
    format!("<label>{label} <input name=\"{name}\" value=\"{}\"></label>", text(value))
}

pub(super) fn page(draft: &Draft, choices: &Choices, request: &PageRequest, wrong: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(wrong) = wrong {
        let _ = write!(out, "<p class=\"failed\" role=\"alert\">{}</p>", text(wrong));
    }
    let key = url(&draft.key);
    let _ = write!(out, "<form class=\"steps\" method=\"post\" action=\"/new/{key}\">{}", request.secret());
    out.push_str("<fieldset><legend>Systems</legend><div class=\"grid\">");
    for one in gateway::all() {
        let (name, is_here) = (one.name(), one.locate().is_some());
        let here = if is_here { "" } else { " <span class=\"quiet\">(not on this machine)</span>" };
        let label = format!(
            "{}{here} {}",
            text(one.title()),
            link(&format!("/new/{key}/{name}"), &format!("configuration of {name}"))
        );
        out.push_str(&check("checkbox", "gateway", name, choices.gateways.iter().any(|own| own == name), &label));
    }
    out.push_str("</div></fieldset><fieldset><legend>Operations</legend><div class=\"grid\">");
    for operation in &draft.api.operations {
        let why = lacks(operation).map_or(String::new(), |why| {
            format!(" <span class=\"quiet\">({why}: write it into the evaluation)</span>")
        });
        let label = format!("<code>{} {}</code>{why}", operation.method, text(&operation.full_path()));
        let checked = choices.operations.contains(&operation.id);
        out.push_str(&check("checkbox", "operation", &operation.id, checked, &label));
    }
    let demo = choices.upstream == "demo";
    let open = choices.load == "open";
    let ssh = choices.place == "ssh";
    let _ = write!(
        out,
        "</div></fieldset><fieldset><legend>Service behind the gateways</legend>{}{}</fieldset>\
         <fieldset><legend>Load</legend>{}{}<div class=\"row\">{}{}{}{}</div></fieldset>\
         <fieldset><legend>Where the gateways run</legend>{}{}<div class=\"row\">{}{}{}{}</div></fieldset>\
         <div class=\"actions\"><button class=\"main\">Continue</button></div></form>",
        check("radio", "upstream", "servers", !demo, "the servers of the description, which run already"),
        check("radio", "upstream", "demo", demo, "<code>gauge demo</code>, for its own description"),
        check("radio", "load", "closed", !open, "closed: each user sends the next request when the response is there"),
        check("radio", "load", "open", open, "open: a rate, whatever the gateway does"),
        number("users", "Users, or connections", choices.users, 10_000),
        number("rate", "Rate (open), requests/s", choices.rate, 1_000_000),
        number("seconds", "Seconds of a trial", choices.seconds, 3600),
        number("rounds", "Rounds; a decision needs six or more", choices.rounds, 100),
        check("radio", "place", "local", !ssh, "on this machine"),
        check("radio", "place", "ssh", ssh, "on another machine, over ssh without a password"),
        field("host", "Host", &choices.host),
        field("user", "User (if not the default)", &choices.user),
        field("port", "Port (if not the default)", &choices.port),
        field("address", "Address for the load (else a tunnel)", &choices.address)
    );
    let _ = write!(out, "<p>{}</p>", link(&format!("/new/{key}/all"), "Configuration files of all gateways"));
    if !draft.warnings.is_empty() {
        let list: String =
            draft.warnings.iter().take(WARNINGS).map(|warning| format!("<li>{}</li>", text(warning))).collect();
        let _ = write!(
            out,
            "<details><summary>{} remarks on the description</summary><ul>{list}</ul></details>",
            draft.warnings.len()
        );
    }
    out
}
