//! `weir`: the command line. What it does is in the library.

mod cli;

use std::path::PathBuf;
use std::process::ExitCode;

use weir::observe::messages::Messages;
use weir::server::{self, Options, ServeError, Source};

fn main() -> ExitCode {
    match cli::parse() {
        Ok(cli) => cli.run(serve),
        Err(code) => code,
    }
}

/// Runs the gateway, configured by a file or by the environment alone.
fn serve(config: Option<PathBuf>, options: Options) -> ExitCode {
    serve_source(config.map_or(Source::Environment, Source::File), options, &Messages::start())
}

/// Runs the gateway, configured by `source`.
fn serve_source(source: Source, options: Options, messages: &Messages) -> ExitCode {
    let code = match server::serve(source, options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            match &error {
                // Each line of these begins with the place, for editors to jump to.
                ServeError::Config(error) => messages.say(&error.to_string()),
                error => messages.say(&format!("weir: {error}")),
            }
            ExitCode::from(error.exit_code())
        }
    };
    messages.finish();
    code
}
