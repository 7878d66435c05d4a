//! `describe FILE`: the model of a description as JSON on standard output, warnings on standard error.
use std::process::ExitCode;

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: describe FILE");
        return ExitCode::from(64);
    };
    match apidoc::read_file(&path) {
        Ok(read) => {
            for warning in &read.warnings {
                eprintln!("warning: {warning}");
            }
            eprintln!("{}: {} operations", read.kind, read.api.operations.len());
            match serde_json::to_string_pretty(&read.api) {
                Ok(json) => println!("{json}"),
                Err(e) => eprintln!("error: {e}"),
            }
            ExitCode::SUCCESS
        }
        Err(problems) => {
            for warning in &problems.warnings {
                eprintln!("warning: {warning}");
            }
            eprintln!("{problems}");
            ExitCode::from(2)
        }
    }
}
