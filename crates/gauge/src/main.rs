//! `gauge`: the command line. What it does is in the library.

mod cli;
mod verbs;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::parse() {
        Ok(cli) => cli.run(),
        Err(code) => code,
    }
}
