//! The Fiber gateway of this repository (`services/gateway-fiber`), which stands for what a Go team writes for itself.

use std::fmt::Write as _;

use super::model::Upstream;
use super::paths::{plain_template, widened};
use super::text::quoted;
use super::{Command, File, Gateway, Locator, Model, Part, Placement, Program, Segment, Unsupported, Written};

pub(super) struct Fiber;

impl Gateway for Fiber {
    fn name(&self) -> &'static str {
        "fiber"
    }

    fn title(&self) -> &'static str {
        "Fiber"
    }

    fn locator(&self) -> Locator {
        Locator {
            variable: "GAUGE_FIBER",
            names: &["gateway-fiber"],
            hint: "in services/: go build ./gateway-fiber, and put it on PATH",
        }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        let refused = |why: String| Unsupported { gateway: self.name(), why };
        if let Some(upstream) = model.upstreams.iter().find(|upstream| upstream.https) {
            return Err(refused(format!("the upstream {} speaks TLS, which it does not", upstream.url())));
        }
        let (paths, notes) = widened(model, true, can).map_err(refused)?;
        let mut text = format!(
            "{{\n  \"listen\": {},\n  \"processes\": {},\n  \"body_bytes\": {},\n  \"health_path\": \"\",\n  \"upstreams\": {{\n",
            quoted(&place.listen.to_string()),
            place.cpus,
            super::BODY_BYTES
        );
        for (i, upstream) in model.upstreams.iter().enumerate() {
            let _ = writeln!(
                text,
                "    \"{}\": {{\"servers\": [{}], \"host\": {}, \"max_connections\": 65536, \"idle_timeout_ms\": 60000}}{}",
                upstream.name,
                quoted(&upstream.url()),
                quoted(&upstream.authority()),
                comma(i, model.upstreams.len())
            );
        }
        text.push_str("  },\n  \"routes\": [\n");
        let routes: Vec<String> = paths
            .iter()
            .flat_map(|path| path.targets.iter().map(move |target| (path, target)))
            .map(|(path, target)| {
                let (path, upstream) = (plain_template(&path.segments), &model.upstreams[target.upstream]);
                let methods: Vec<String> = target.methods.iter().map(|method| format!("\"{method}\"")).collect();
                format!(
                    "    {{\"path\": {}, \"methods\": [{}], \"upstream\": \"{}\"{}}}",
                    quoted(&path),
                    methods.join(", "),
                    upstream.name,
                    rewrite(upstream, &path)
                )
            })
            .collect();
        text.push_str(&routes.join(",\n"));
        text.push_str("\n  ]\n}\n");
        Ok(Written { files: vec![File::new("gateway.json", text)], notes, left_out: 0 })
    }

    fn command(&self, program: &Program, place: &Placement) -> Command {
        // HOST and PORT of the environment would win over the file, and flags win over them.
        let (host, port) = (place.listen.ip().to_string(), place.listen.port().to_string());
        let command = Command::new(program, &["-config", "gateway.json", "-host", &host, "-port", &port]);
        match place.memory {
            Some(bytes) => command.with_env("GOMEMLIMIT", super::soft(bytes)),
            None => command,
        }
    }

    fn check(&self, program: &Program, _place: &Placement) -> Option<Command> {
        Some(Command::new(program, &["-config", "gateway.json", "-check"]))
    }

    /// The framework's version is the module's; the program itself has none.
    fn version_command(&self, program: &Program) -> Command {
        Command { argv: vec!["go".into(), "version".into(), "-m".into(), program.argument()], env: Vec::new() }
    }

    fn read_version(&self, output: &str) -> String {
        let fiber = output.lines().find(|line| line.contains("github.com/gofiber/fiber/"));
        fiber.and_then(|line| line.split_whitespace().nth(2)).unwrap_or_default().trim_start_matches('v').to_owned()
    }
}

/// The fixed part of a path, up to its first parameter or wildcard, with the base path before it.
fn rewrite(upstream: &Upstream, path: &str) -> String {
    if upstream.base.is_empty() {
        return String::new();
    }
    let fixed = &path[..path.find(['{', '*']).unwrap_or(path.len())];
    format!(", \"rewrite\": {{\"prefix\": {}}}", quoted(&format!("{}{fixed}", upstream.base)))
}

/// A `*` is a wildcard, and a parameter ends before one of `-`, `.`, `:` or with the segment.
fn can(segment: &Segment) -> bool {
    let ends = segment.parts.windows(2).all(|pair| match pair {
        [Part::Parameter(_), Part::Literal(text)] => text.starts_with(['-', '.', ':']),
        _ => true,
    });
    let plain = segment.parts.iter().all(|part| match part {
        Part::Literal(text) => !text.contains('*'),
        Part::Parameter(_) | Part::MultiSegment(_) => true,
    });
    ends && plain
}

fn comma(i: usize, of: usize) -> &'static str {
    if i + 1 < of { "," } else { "" }
}
