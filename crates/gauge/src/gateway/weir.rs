//! Weir. Its defaults are production settings; templates are its own.

use std::fmt::Write as _;

use super::paths::Contested;
use super::text::{normal_forms, quoted};
use super::{
    Additions, Command, File, Gateway, Locator, Model, Placement, Program, Segment, Signal, Signals, Unsupported,
    Written, additions, paths, profiles,
};
use crate::profile::Profile;

pub(super) struct Weir;

impl Gateway for Weir {
    fn name(&self) -> &'static str {
        "weir"
    }

    fn title(&self) -> &'static str {
        "Weir"
    }

    fn locator(&self) -> Locator {
        Locator { variable: "GAUGE_WEIR", names: &["weir"], hint: "cargo build --release -p weir" }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let more = additions(self, model)?;
        let mut text = format!(
            "listen: {}\nworkers: {}\nserver: {{body: 32MiB}}\n{}\nupstreams:\n",
            listener(model, place, more.listen),
            place.cpus,
            if model.settings.access_log { "access_log: {path: stdout}\n" } else { "" }
        );
        for upstream in &model.upstreams {
            let _ = writeln!(text, "  {}:\n    targets: [{}]", upstream.name, quoted(&upstream.base_url()));
            if model.settings.http2_upstreams() {
                text.push_str("    protocol: http2\n");
            }
            if let Some(path) = &model.settings.health {
                let _ = writeln!(text, "    health: {{path: {}}}", quoted(path));
            }
            text.push_str(&more.upstream);
        }
        text.push_str(&more.global);
        text.push_str("\nroutes:\n");
        // A parameter is a whole segment, `*` a wildcard, and a request with `;` is refused.
        let can = |segment: &Segment| match segment.literal() {
            Some(literal) => !literal.contains(['*', ';']),
            None => segment.parameter().is_some(),
        };
        let (paths, mut notes) =
            paths::widened(model, true, can).map_err(|why| Unsupported { gateway: self.name(), why })?;
        let contested = paths::contested(&paths);
        let mut forms = Vec::new();
        for (path, contested) in paths.iter().zip(contested) {
            let whole = paths::plain_template(&path.segments);
            let all = match contested {
                Contested::No => vec![whole],
                _ => in_every_form(&whole).ok_or_else(|| Unsupported {
                    gateway: self.name(),
                    why: format!(
                        "{whole} needs other credentials than another path that matches it in another encoding, and has braces or too many characters that may be encoded"
                    ),
                })?,
            };
            forms.extend(all.into_iter().map(|template| (template, path)));
        }
        for (template, path) in &forms {
            for target in &path.targets {
                let upstream = &model.upstreams[target.upstream];
                let methods: Vec<&str> = target.methods.iter().map(|method| method.as_str()).collect();
                let _ = writeln!(
                    text,
                    "  - match: {{path: {}, methods: [{}]}}\n    upstream: {}\n    rewrite: {{host: {}{}}}{}{}",
                    quoted(template),
                    methods.join(", "),
                    upstream.name,
                    quoted(&upstream.authority()),
                    rewrite(template, model.settings.profile.prefix()),
                    more.route,
                    profiles::weir::route(model, target)
                );
            }
        }
        notes.push(
            "a path with %2F, %5C, //, \\, ; or a broken escape is refused with 400. Weir removes dot segments, decodes escapes of letters, digits and -._~, and writes other escapes in upper case; it compares and forwards the path in this form"
                .to_owned(),
        );
        notes.extend(more.notes);
        let mut files = vec![File::new("weir.yaml", text)];
        files.extend(more.files);
        Ok(Written { files, notes, left_out: 0 })
    }

    fn signals(&self) -> Signals {
        Signals { reload: Some(Signal::Hup), ..Signals::default() }
    }

    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        profiles::weir::additions(profile)
    }

    fn policies(&self, model: &Model) -> Additions {
        profiles::weir::policies(model)
    }

    fn command(&self, program: &Program, _place: &Placement) -> Command {
        Command::new(program, &["--config", "weir.yaml"])
    }

    fn check(&self, program: &Program, _place: &Placement) -> Option<Command> {
        Some(Command::new(program, &["check", "weir.yaml"]))
    }
}

/// `listen`: an address, or more of the listener.
fn listener(model: &Model, place: &Placement, more: &str) -> String {
    let bind = quoted(&place.listen.to_string());
    let tls = model.settings.tls.as_ref().map_or(String::new(), |tls| {
        let (cert, key) = (quoted(&tls.cert), quoted(&tls.key));
        format!(", tls: {{certificates: [{{cert: {cert}, key: {key}, default: true}}]}}")
    });
    if tls.is_empty() && more.is_empty() { bind } else { format!("[{{bind: {bind}{more}{tls}}}]") }
}

/// Takes a prefix off: a path without parameters is replaced whole, of others what stands before the first parameter.
fn rewrite(template: &str, prefix: &str) -> String {
    let Some(path) = template.strip_prefix(prefix).filter(|_| !prefix.is_empty()) else { return String::new() };
    match path.find(['{', '*']) {
        None => format!(", path: {}", quoted(path)),
        Some(at) => {
            format!(", prefix: {}", quoted(path[..at].strip_suffix('/').filter(|path| !path.is_empty()).unwrap_or("/")))
        }
    }
}

/// A template with its literals in every form that Weir compares.
fn in_every_form(template: &str) -> Option<Vec<String>> {
    const MOST: usize = 64;
    let mut all = vec![String::new()];
    for segment in template.split('/').skip(1) {
        let plain = segment.starts_with('{') || segment == "*";
        let forms = if plain { vec![segment.to_owned()] } else { normal_forms(segment, MOST)? };
        all = all.iter().flat_map(|before| forms.iter().map(move |form| format!("{before}/{form}"))).collect();
        if all.len() > MOST {
            return None;
        }
    }
    Some(all)
}
