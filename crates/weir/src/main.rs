//! The `weir` program.

use std::process::ExitCode;

use weir::server::{Source, serve};

fn main() -> ExitCode {
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    let source = match std::env::args().nth(2) {
        Some(path) => Source::File(path.into()),
        None => Source::Environment,
    };
    match serve(source) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}
