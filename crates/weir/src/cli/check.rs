//! `weir check`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use weir::config::{LoadError, Loaded, load_environment, load_file, process_environment};

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
        let loaded = match &self.file {
            Some(file) => load_file(file, &process_environment),
            None => load_environment(&process_environment).map_err(LoadError::Invalid),
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return refuse(&error),
        };
        match (self.print, self.show_secrets) {
            (false, _) => print(&summary(self.file, &loaded)),
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
