//! The command line.

mod check;
mod import;
mod keys;
mod kubernetes;
mod openapi;
mod probe;
mod routes;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use weir::config::{LoadError, schema};
use weir::server::Options;

/// Wrong configuration or command line (EX_USAGE of sysexits.h).
pub(crate) const BAD_CONFIGURATION: u8 = 64;
/// A file that cannot be read (EX_NOINPUT).
const UNREADABLE: u8 = 66;

const EXAMPLES: &str = "\
Examples:
  weir                                    start on 127.0.0.1:8080 with embedded demo upstreams
  PORT=9000 PY_SERVICE_URL=http://127.0.0.1:8001 weir
                                          the same in front of a service, configured by variables
  weir --config weir.yaml                 start with a file
  weir check weir.yaml                    say what is wrong with a file, all at once
  weir check --print > weir.yaml          turn the variables into a file to go on from
  weir routes weir.yaml 'GET api.example.com/users/7'
                                          say which route would take a request, and why
  weir keys create shop --file keys.yaml  make an API key
  weir import nginx nginx.conf -o weir.yaml
                                          write a configuration of nginx as one of Weir
  weir openapi diff old.yaml new.yaml     say what changed in an API, and what breaks clients

Exit codes: 64 wrong configuration or command line, 66 unreadable file, 69 address in use,
3 something that a pipeline should stop at (import, openapi).";

/// API gateway for inference traffic and ordinary APIs.
#[derive(Parser)]
// Lines are broken where the text breaks them, whatever the terminal and the features of the build.
#[command(name = "weir", version, about, after_help = EXAMPLES, term_width = 0, args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: Serve,
}

#[derive(Args)]
struct Serve {
    /// Configuration file; without it the environment alone says what to do.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// For development: listeners without `tls` speak TLS with a certificate for localhost that is made now.
    #[arg(long)]
    tls_self_signed: bool,
}

impl Serve {
    fn run(self, serve: ServeFn) -> ExitCode {
        serve(self.config, Options { tls_self_signed: self.tls_self_signed })
    }
}

/// Runs the gateway from a file, or from the environment alone.
type ServeFn = fn(Option<PathBuf>, Options) -> ExitCode;

#[derive(Subcommand)]
enum Command {
    /// Run the gateway (the default).
    Serve(Serve),
    /// Run the gateway as a controller of the Kubernetes Gateway API: it serves what Gateways and their routes say.
    Kubernetes(kubernetes::Kubernetes),
    /// Check a configuration and say everything that is wrong with it.
    Check(check::Check),
    /// List the routes of a file, or say which of them would take a request, and why.
    Routes(routes::Routes),
    /// Compare descriptions of APIs with each other, or with what is routed.
    Openapi(openapi::Openapi),
    /// Make, list, rotate and revoke API keys.
    Keys(keys::Keys),
    /// Write a configuration of another gateway as one of Weir, and say what differs.
    Import(import::Import),
    /// Print the JSON Schema of a configuration file, for editors.
    Schema,
    /// Print completions for a shell.
    Completions {
        /// Shell to complete for.
        shell: Shell,
    },
    /// Send one GET and exit with 0 when the status is 2xx: a health check for containers.
    Probe(probe::Probe),
    /// Write the manual pages (man 1) into a directory.
    Man {
        /// Directory that exists.
        directory: PathBuf,
    },
}

impl Cli {
    /// Does what the command line says; `serve` runs the gateway from a file, or from the environment alone.
    pub(crate) fn run(self, serve: ServeFn) -> ExitCode {
        match self.command {
            None => self.serve.run(serve),
            Some(Command::Serve(args)) => args.run(serve),
            Some(Command::Kubernetes(kubernetes)) => kubernetes.run(),
            Some(Command::Check(check)) => check.run(),
            Some(Command::Routes(routes)) => routes.run(),
            Some(Command::Openapi(openapi)) => openapi.run(),
            Some(Command::Keys(keys)) => keys.run(),
            Some(Command::Import(import)) => import.run(),
            Some(Command::Schema) => print(&schema::json_schema()),
            Some(Command::Completions { shell }) => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "weir", &mut script);
                print(&String::from_utf8_lossy(&script))
            }
            Some(Command::Probe(probe)) => probe.run(),
            Some(Command::Man { directory }) => match clap_mangen::generate_to(Cli::command(), &directory) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("weir: cannot write manual pages to {}: {error}", directory.display());
                    ExitCode::FAILURE
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
        if error.use_stderr() { ExitCode::from(BAD_CONFIGURATION) } else { ExitCode::SUCCESS }
    })
}

/// Writes to standard output. A reader that has gone, as after `| head`, is no failure.
fn print(text: &str) -> ExitCode {
    match write_out(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weir: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Writes to standard output.
fn write_out(text: &str) -> std::io::Result<()> {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Says why a configuration could not be loaded, and how to go on.
fn refuse(error: &LoadError) -> ExitCode {
    eprintln!("{error}");
    ExitCode::from(match error {
        LoadError::Unreadable { .. } => UNREADABLE,
        LoadError::Invalid(_) => BAD_CONFIGURATION,
    })
}
