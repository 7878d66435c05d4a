//! Spring Cloud Gateway: the small program of `services/gateway-spring`, and an application.yaml for it.

use std::fmt::Write as _;

use super::paths::{template, widened};
use super::text::{decoded, quoted};
use super::{
    Command, File, Gateway, Locator, Model, Part, PathEntry, Placement, Program, Ready, Segment, Unsupported, Written,
};

pub(super) struct Spring;

impl Gateway for Spring {
    fn name(&self) -> &'static str {
        "spring"
    }

    fn title(&self) -> &'static str {
        "Spring Cloud Gateway"
    }

    fn locator(&self) -> Locator {
        Locator {
            variable: "GAUGE_SPRING",
            names: &["gateway-spring.jar"],
            hint: "in services/gateway-spring: mvn -q package, then GAUGE_SPRING=.../target/gateway-spring.jar",
        }
    }

    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
        // In its patterns `*`, `?` and braces mean something, and a literal after a parameter ends it only by a regular expression.
        let can = |segment: &Segment| {
            segment.parts.iter().all(|part| match part {
                Part::Literal(text) => !decoded(text).contains(['*', '?', '{', '}']),
                Part::Parameter(_) | Part::MultiSegment(_) => true,
            })
        };
        let (paths, mut notes) = widened(model, true, can).map_err(|why| Unsupported { gateway: self.name(), why })?;
        notes.push(
            "in a query that has unescaped characters such as [ or ], escapes are encoded a second time: the upstream gets %20 as %2520"
                .to_owned(),
        );
        let mut text = head(place);
        for (i, path) in paths.iter().enumerate() {
            for (j, target) in path.targets.iter().enumerate() {
                let methods: Vec<&str> = target.methods.iter().map(|method| method.as_str()).collect();
                let _ = write!(
                    text,
                    "      - id: r{i}_{j}
        uri: {}
        predicates:
          - {{name: Path, args: {{patterns: [{}], matchTrailingSlash: false}}}}
          - {{name: Method, args: {{methods: [{}]}}}}
",
                    quoted(&model.upstreams[target.upstream].url()),
                    // Segments are compared decoded.
                    quoted(&(template(&path.segments, decoded, |i, j| format!("{{part{i}x{j}:.+}}")) + below(path))),
                    methods.join(", ")
                );
                let base = &model.upstreams[target.upstream].base;
                if !base.is_empty() {
                    let _ = writeln!(
                        text,
                        "        filters:\n          - {{name: PrefixPath, args: {{prefix: {}}}}}",
                        quoted(base)
                    );
                }
            }
        }
        Ok(Written { files: vec![File::new("application.yaml", text)], notes, left_out: 0 })
    }

    fn command(&self, program: &Program, place: &Placement) -> Command {
        let mut argv = vec!["java".to_owned()];
        match place.memory {
            // The rest is for what is not heap: direct buffers, code, threads.
            Some(bytes) => argv.push(format!("-Xmx{}m", (bytes / 2).max(64 << 20) >> 20)),
            None => argv.push("-XX:MaxRAMPercentage=50".to_owned()),
        }
        argv.push(format!("-XX:ActiveProcessorCount={}", place.cpus));
        argv.push(format!("-Dreactor.netty.ioWorkerCount={}", place.cpus));
        argv.extend(["-jar".to_owned(), program.argument()]);
        Command { argv, env: Vec::new() }
    }

    fn version_command(&self, program: &Program) -> Command {
        Command { argv: vec!["java".into(), "-jar".into(), program.argument(), "--version".into()], env: Vec::new() }
    }

    fn ready(&self, place: &Placement) -> Ready {
        Ready::Http { address: place.listen, path: "/.gauge/ready".to_owned(), status: 404 }
    }
}

/// What follows the last parameter of a path if that may hold slashes.
fn below(path: &PathEntry) -> &'static str {
    if path.segments.last().is_some_and(|last| last.multi_segment().is_some()) { "/**" } else { "" }
}

fn head(place: &Placement) -> String {
    format!(
        "server:
  address: {}
  port: {}
  netty: {{connection-timeout: 10s, idle-timeout: 75s}}
logging.level.root: ERROR
spring:
  main: {{banner-mode: \"off\"}}
  cloud.gateway.server.webflux:
    # Without it the X-Forwarded fields are neither written nor passed on.
    trusted-proxies: \".*\"
    # What no other gateway here writes.
    forwarded: {{enabled: false}}
    x-forwarded: {{port-enabled: false, prefix-enabled: false}}
    httpclient:
      connect-timeout: 2000
      response-timeout: 60s
      pool: {{type: ELASTIC, max-idle-time: 60s}}
    routes:
",
        quoted(&place.listen.ip().to_string()),
        place.listen.port()
    )
}
