//! `weir check`

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use weir::config::{
    Config, LoadError, Loaded, Registry, TargetAddress, load_environment, load_file, process_environment,
};

use super::{print, refuse};

/// Runs the same code as a start.
#[derive(Args)]
pub(super) struct Check {
    /// Configuration file; without it the environment is checked.
    file: Option<PathBuf>,
    /// Print what is in force, as a file with every default filled in and passwords blanked.
    #[arg(long)]
    print: bool,
    /// With --print: passwords too.
    #[arg(long, requires = "print")]
    show_secrets: bool,
}

impl Check {
    pub(super) fn run(self) -> ExitCode {
        let (start, resident) = (Instant::now(), resident_kib());
        let loaded = match &self.file {
            Some(file) => load_file(file, &process_environment),
            None => load_environment(&process_environment).map_err(LoadError::Invalid),
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return refuse(&error),
        };
        match (self.print, self.show_secrets) {
            (false, _) => {
                let cost = Cost { took: start.elapsed(), kib: resident_kib().saturating_sub(resident) };
                print(
                    &(summary(self.file, &loaded)
                        + &sources(&loaded.config)
                        + &pools(&loaded.config)
                        + &apis(&loaded.config, &cost)),
                )
            }
            (true, false) => print(&loaded.file.to_yaml_without_secrets()),
            (true, true) => print(&loaded.file.to_yaml()),
        }
    }
}

fn summary(file: Option<PathBuf>, loaded: &Loaded) -> String {
    let source = file.map_or("environment".to_owned(), |file| file.display().to_string());
    let count = |number: usize, one: &str| format!("{number} {one}{}", if number == 1 { "" } else { "s" });
    let config = &loaded.config;
    let targets = config.upstreams.iter().map(|upstream| upstream.targets.len()).sum();
    format!(
        "{source}: ok ({}, {}, {})\n",
        count(config.routes.len(), "route"),
        count(config.upstreams.len(), "upstream"),
        count(targets, "target"),
    )
}

/// Where targets come from that the file does not list.
fn sources(config: &Config) -> String {
    let mut text = String::new();
    for upstream in &config.upstreams {
        if let Some(file) = &upstream.targets_file {
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "upstream {}: {} targets of {}", upstream.name, upstream.targets.len(), file.display());
        }
        for target in &upstream.targets {
            let named = match &target.address {
                TargetAddress::Service(name) => format!("the SRV records of {name}"),
                TargetAddress::Registry(registry) => match &**registry {
                    Registry::Kubernetes(service) => format!(
                        "the Service {}/{} of Kubernetes, port {}",
                        service.namespace, service.name, service.port
                    ),
                    Registry::Consul(service) => {
                        format!("the service {} of Consul at {}", service.name, service.address)
                    }
                },
                _ => continue,
            };
            let _ = writeln!(text, "upstream {}: targets of {named}", upstream.name);
        }
    }
    text
}

/// Upstreams whose idle connections are not for all clients.
fn pools(config: &Config) -> String {
    let mut text = String::new();
    for upstream in config.upstreams.iter().filter(|upstream| upstream.proxy_protocol.is_some()) {
        let kept = if upstream.keep_alive.max_idle == 0 {
            "each request has a connection of its own (`keep_alive: none`)"
        } else {
            "idle connections are kept for each client address apart"
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "upstream {}: because of `proxy_protocol`, {kept}", upstream.name);
    }
    text
}

/// What loading took.
struct Cost {
    took: Duration,
    kib: u64,
}

/// Routes and notes that are shown of one API.
const SHOWN: usize = 20;

/// What descriptions made, what is not checked of it, and which routes no longer stream.
fn apis(config: &Config, cost: &Cost) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for api in &config.apis {
        let _ = writeln!(text, "api {}: {} operations of {}", api.name, api.operations, api.spec.display());
        let routes = config.routes.iter().filter(|route| {
            let rules = route.contract.as_ref();
            rules.is_some_and(|rules| rules.api == api.name && rules.contract.checks_bodies())
        });
        let held: Vec<&str> = routes.map(|route| &*route.name).collect();
        if !held.is_empty() {
            let more = held.len().saturating_sub(SHOWN);
            let names = held[..held.len() - more].join(", ");
            let _ = write!(
                text,
                "  checked bodies are held in memory, and not streamed, on {} routes: {names}",
                held.len()
            );
            text.push_str(&if more > 0 { format!(", and {more} more\n") } else { "\n".to_owned() });
        }
        for note in api.notes.iter().take(SHOWN) {
            let _ = writeln!(text, "  {note}");
        }
        if api.notes.len() > SHOWN {
            let _ = writeln!(text, "  and {} more notes", api.notes.len() - SHOWN);
        }
    }
    if !config.apis.is_empty() {
        let _ = writeln!(text, "loading took {} ms and {} KiB of memory", cost.took.as_millis(), cost.kib);
    }
    text
}

/// Resident memory of this process in KiB; 0 where the system does not say.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
