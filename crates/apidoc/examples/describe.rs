//! `describe FILE [FORMAT [json]]`: the model of a description as JSON, or written as records, openapi, swagger2 or raml,
//! on standard output; warnings and errors on standard error.

use apidoc::{Format, Syntax};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(path), format) = (args.first(), args.get(1).map(|f| f.parse::<Format>()).transpose()) else {
        eprintln!("usage: describe FILE [records|openapi|swagger2|raml [json]]");
        return ExitCode::from(64);
    };
    let format = match format {
        Ok(format) => format,
        Err(why) => {
            eprintln!("error: {why}");
            return ExitCode::from(64);
        }
    };
    let read = match apidoc::read_file(path) {
        Ok(read) => read,
        Err(problems) => {
            eprintln!("{problems}");
            return ExitCode::from(2);
        }
    };
    for warning in &read.warnings {
        eprintln!("warning: {warning}");
    }
    eprintln!("{}: {} operations", read.kind, read.api.operations.len());
    let Some(format) = format else {
        match serde_json::to_string_pretty(&read.api) {
            Ok(json) => println!("{json}"),
            Err(why) => eprintln!("error: {why}"),
        }
        return ExitCode::SUCCESS;
    };
    let syntax = if args.get(2).is_some_and(|s| s == "json") { Syntax::Json } else { Syntax::Yaml };
    let written = apidoc::write(&read.api, format, syntax);
    for warning in &written.warnings {
        eprintln!("warning: {warning}");
    }
    print!("{}", written.text);
    ExitCode::SUCCESS
}
