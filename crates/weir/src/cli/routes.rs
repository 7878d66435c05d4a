//! `weir routes`

use std::fmt::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir::config::{Config, load_file, process_environment};
use weir::route::explain::{Explanation, Request, TakenRoute, conditions_text, explain};
use weir::route::{Described, Table};

use super::{BAD_CONFIGURATION, print, refuse};

/// Lists routes, or explains which takes a request.
#[derive(Args)]
pub(super) struct Routes {
    /// Configuration file.
    file: PathBuf,
    /// Request to look for: 'GET api.example.com/users/7', 'GET /users/7' or '/users/7'.
    request: Option<String>,
    /// Header field of the request.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", requires = "request")]
    headers: Vec<String>,
    /// Address of the client, which decides where a route splits its requests by it.
    #[arg(long, value_name = "ADDRESS", requires = "request")]
    client: Option<IpAddr>,
}

impl Routes {
    pub(super) fn run(self) -> ExitCode {
        let config = match load_file(&self.file, &process_environment) {
            Ok(loaded) => loaded.config,
            Err(error) => return refuse(&error),
        };
        let Some(request) = &self.request else { return print(&list(&config)) };
        match Request::parse(request, &self.headers, self.client) {
            Ok(request) => {
                let explained = explain(&config, &Table::new(&config.routes), &request);
                match print(&text(&explained)) {
                    ExitCode::SUCCESS if explained.route.is_none() => ExitCode::FAILURE,
                    code => code,
                }
            }
            Err(problem) => {
                eprintln!("weir: {problem}");
                ExitCode::from(BAD_CONFIGURATION)
            }
        }
    }
}

/// Every route in the order of the file, one a line, in columns.
fn list(config: &Config) -> String {
    let mut rows = vec![["NAME", "METHODS", "HOST", "PATH", "CONDITIONS", "GOES TO"].map(str::to_owned)];
    let any = |text: String| if text.is_empty() { "any".to_owned() } else { text };
    for route in &config.routes {
        let told = Described::of(config, route);
        let conditions = Some(conditions_text(config, &route.matcher)).filter(|text| !text.is_empty());
        let conditions = conditions.unwrap_or_else(|| "-".to_owned());
        let to = match told.checked {
            Some(checked) => format!("{} ({checked})", told.to),
            None => told.to,
        };
        rows.push([told.name, any(told.methods.join(",")), any(told.host), told.path, conditions, to]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str((line + &row[5]).trim_end());
        text.push('\n');
    }
    text
}

/// What would become of a request, in lines.
fn text(explained: &Explanation) -> String {
    let mut text = match (&explained.route, &explained.refusal) {
        (Some(route), _) => taken(route),
        (None, Some(refusal)) => format!("{}: {}\n", refusal.status, refusal.why),
        (None, None) => String::new(),
    };
    if let Some(path) = &explained.matched_path {
        text.push_str(&format!("  the path is matched as {path}\n"));
    }
    for other in &explained.others {
        text.push_str(&format!("  not `{}`: {}\n", other.route, other.why));
    }
    text
}

/// The route that takes the request, why, and what happens next.
fn taken(route: &TakenRoute) -> String {
    let mut text = format!("`{}`: {}\n  because of {}\n", route.name, route.to, route.because.join(", "));
    if let Some(checked) = &route.checked {
        text.push_str(&format!("  checked by the description of {checked}\n"));
    }
    for forward in &route.forwards {
        let share = forward.percent.map(|percent| format!(" ({percent} %)")).unwrap_or_default();
        let changed = if forward.is_rewritten { ", rewritten" } else { "" };
        text.push_str(&format!("  forwards to `{}`{share} as {}{changed}\n", forward.upstream, forward.target));
        for source in &forward.sources {
            text.push_str(&format!("    its targets are named by {source}\n"));
        }
    }
    if let Some(location) = &route.location {
        text.push_str(&format!("  sends the client to {location}\n"));
    }
    text
}
