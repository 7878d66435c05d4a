//! The command line.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::verbs;

/// Wrong command line or input (EX_USAGE of sysexits.h).
pub(crate) const BAD_INPUT: u8 = 64;
/// A file that cannot be read (EX_NOINPUT).
pub(crate) const UNREADABLE: u8 = 66;
/// A program or a service that is needed is not there (EX_UNAVAILABLE).
pub(crate) const UNAVAILABLE: u8 = 69;
/// The system refused something (EX_OSERR).
pub(crate) const SYSTEM: u8 = 71;
/// A file that cannot be written (EX_CANTCREAT).
pub(crate) const UNWRITABLE: u8 = 73;
/// A threshold of the evaluation says that the run fails (k6 ends so too).
pub(crate) const THRESHOLD: u8 = 99;
/// Ended by Ctrl-C (128 + SIGINT).
pub(crate) const INTERRUPTED: u8 = 130;

const EXAMPLES: &str = "\
Examples:
  gauge run examples/evaluations/quickstart.yaml
                                          gateways beside each other, and a report: in two minutes
  gauge load http://127.0.0.1:8080/ -c 64 -d 10s
                                          64 users for ten seconds, each sends its next request when it has the response
  gauge load http://127.0.0.1:8080/ -r 5000 -d 30s --json result.json
                                          5,000 requests a second, whatever the server does; all figures as JSON
  gauge describe api.yaml                 what an API description says: OpenAPI, Swagger, RAML, API Blueprint
  gauge convert api.yaml --to nginx,kong -o gateways
                                          the configuration of gateways for it
  gauge lint result.json                  can this result be believed?

Exit codes: 1 no request got a response, 64 wrong command line or input, 66 unreadable file, 69 a program is missing, 71 the system
refused something, 73 unwritable file, 99 a threshold of the evaluation (`fail`) was crossed or not checked, 130 interrupted (the part that ran is reported).";

/// Instrument that evaluates API gateways and services.
#[derive(Parser)]
// Lines are broken where the text breaks them, whatever the terminal and the features of the build.
#[command(name = "gauge", version, about, after_help = EXAMPLES, term_width = 0)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run an evaluation: gateways beside each other, and a report.
    Run(verbs::run::Run),
    /// Load a server and say how it did.
    Load(Box<verbs::load::Load>),
    /// Serve a small API, to try evaluations on.
    Demo(verbs::demo::Demo),
    /// Become a program of a campaign.
    #[command(hide = true)]
    Launch(verbs::launch::Launch),
    /// Read an API description and write what is in it.
    Describe(verbs::describe::Describe),
    /// Write the configuration of gateways for an API.
    Convert(Box<verbs::convert::Convert>),
    /// Say whether results can be believed: one verdict a line, with its evidence.
    ///
    /// Exit codes: 0 clean, 1 something was found, 2 a file could not be read.
    Lint(Box<verbs::lint::Lint>),
    /// List the runs in the history.
    List(verbs::history::List),
    /// Show a campaign of the history.
    Show(verbs::history::Show),
    /// Write a campaign of the history into a file, as JSON or CSV.
    Export(verbs::history::Export),
    /// Store result directories in the history.
    Import(verbs::history::Import),
    /// Remove old runs from the history.
    Cleanup(verbs::history::CleanUp),
    /// Say what the history has, or show the latest run of each system side by side.
    Summary(verbs::history::Summary),
    /// Compare two campaigns: did a system become worse?
    ///
    /// Exit codes: 0 same or better, 1 a system is worse, 2 not comparable.
    Compare(verbs::compare::Compare),
    /// Show a figure over time, and where its level changed.
    Trend(verbs::trend::Trend),
    /// List machines that runs have left, and destroy them.
    Machines(verbs::machines::Machines),
    /// Show the history in a browser, and start evaluations.
    Ui(verbs::ui::Ui),
    /// Reproduce the report of a campaign from its raw data.
    Recompute(verbs::recompute::Recompute),
    /// Print completions for a shell.
    Completions {
        /// Shell to complete for.
        shell: Shell,
    },
    /// Write the manual pages (man 1) into a directory.
    Man {
        /// Directory that exists.
        directory: PathBuf,
    },
}

impl Cli {
    /// Does what the command line says.
    pub(crate) fn run(self) -> ExitCode {
        match self.command {
            Command::Run(run) => run.run(),
            Command::Load(load) => load.run(),
            Command::Demo(demo) => demo.run(),
            Command::Launch(launch) => launch.run(),
            Command::Describe(describe) => describe.run(),
            Command::Convert(convert) => convert.run(),
            Command::Lint(lint) => lint.run(),
            Command::List(list) => list.run(),
            Command::Show(show) => show.run(),
            Command::Export(export) => export.run(),
            Command::Import(import) => import.run(),
            Command::Cleanup(cleanup) => cleanup.run(),
            Command::Summary(summary) => summary.run(),
            Command::Compare(compare) => compare.run(),
            Command::Trend(trend) => trend.run(),
            Command::Machines(machines) => machines.run(),
            Command::Ui(ui) => ui.run(),
            Command::Recompute(recompute) => recompute.run(),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "gauge", &mut script);
                print(&String::from_utf8_lossy(&script))
            }
            Command::Man { directory } => match clap_mangen::generate_to(Cli::command(), &directory) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("gauge: cannot write manual pages to {}: {error}", directory.display());
                    ExitCode::from(UNWRITABLE)
                }
            },
        }
    }
}

/// Reads the command line. Help and version end here, and so do mistakes.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    Cli::try_parse().map_err(|error| {
        // Nobody is left to tell if this fails.
        let _ = error.print();
        if error.use_stderr() { ExitCode::from(BAD_INPUT) } else { ExitCode::SUCCESS }
    })
}

/// Writes to standard output. A reader that has gone, as after `| head`, is no failure.
pub(crate) fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gauge: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Lines of which no more than three differ only in names, paths and numbers; of the others it is said how many there are.
pub(crate) fn grouped(lines: &[String]) -> Vec<String> {
    const SHOWN: usize = 3;
    let shape = |line: &str| {
        let plain = |word: &str| word.chars().all(|c| c.is_ascii_alphabetic() || ".,;()-".contains(c));
        line.split_whitespace().map(|word| if plain(word) { word } else { "_" }).collect::<Vec<_>>().join(" ")
    };
    let mut groups: Vec<Vec<&String>> = Vec::new();
    let mut by_shape = std::collections::HashMap::new();
    for line in lines {
        let index = *by_shape.entry(shape(line)).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[index].push(line);
    }
    let mut out = Vec::new();
    for group in groups {
        out.extend(group.iter().take(SHOWN).map(ToString::to_string));
        if group.len() > SHOWN {
            out.push(format!("... and {} more like the last", group.len() - SHOWN));
        }
    }
    out
}
