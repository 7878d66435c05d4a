//! Weir. Its defaults are production settings; templates are its own.

use std::fmt::Write as _;

use super::text::quoted;
use super::{Command, File, Gateway, Locator, Model, Place, Program, Segment, Unsupported, Written, paths};

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

    fn files(&self, model: &Model, place: &Place) -> Result<Written, Unsupported> {
        let mut text = format!(
            "listen: {}\nworkers: {}\nserver: {{body: 32MiB}}\n\nupstreams:\n",
            quoted(&place.listen.to_string()),
            place.cpus
        );
        for upstream in &model.upstreams {
            let _ = writeln!(text, "  {}:\n    targets: [{}]", upstream.name, quoted(&upstream.url()));
        }
        text.push_str("\nroutes:\n");
        // A parameter is a whole segment, `*` a wildcard, and a request with `;` is refused.
        let can = |segment: &Segment| match segment.literal() {
            Some(literal) => !literal.contains(['*', ';']),
            None => segment.parameter().is_some(),
        };
        let (paths, notes) = paths::widened(model, can).map_err(|why| Unsupported { gateway: self.name(), why })?;
        for path in &paths {
            let template = paths::plain_template(&path.segments);
            for target in &path.targets {
                let upstream = &model.upstreams[target.upstream];
                let methods: Vec<&str> = target.methods.iter().map(|method| method.as_str()).collect();
                let _ = writeln!(
                    text,
                    "  - match: {{path: {}, methods: [{}]}}\n    upstream: {}\n    rewrite: {{host: {}}}",
                    quoted(&template),
                    methods.join(", "),
                    upstream.name,
                    quoted(&upstream.authority())
                );
            }
        }
        Ok(Written { files: vec![File::new("weir.yaml", text)], notes })
    }

    fn command(&self, program: &Program, _place: &Place) -> Command {
        Command::new(program, &["--config", "weir.yaml"])
    }

    fn check(&self, program: &Program, _place: &Place) -> Option<Command> {
        Some(Command::new(program, &["check", "weir.yaml"]))
    }
}
