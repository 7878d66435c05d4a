//! `gauge convert`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gauge::gateway::{self, EncodedSlash, Gateway, Model, Options, Place, Program, Settings, Tls, Written};

use crate::cli::{BAD_INPUT, UNWRITABLE, grouped, print};
use crate::verbs::describe;

const EXAMPLES: &str = "\
Examples:
  gauge convert api.yaml --to nginx,kong -o gateways     gateways/nginx/ and gateways/kong/, each with a README.md
  gauge convert api.yaml --to all -o gateways --listen 0.0.0.0:8080 --cpus 4
                                                         every gateway that gauge knows, with four workers
  gauge convert api.yaml --to weir -o gateways --upstream https://api.example.com=http://10.0.0.7:9000
                                                         the service is elsewhere than the description says
  gauge convert api.yaml --to weir -o gateways --upstream https://api.example.com=http://10.0.0.7:9000/v2
                                                         and has its API below a base path
  gauge convert api.yaml --to weir -o gateways --upstream =http://127.0.0.1:9000
                                                         the description does not say where it is

Nothing is started or installed. Only the operations of the description pass. A request with another method gets 405 (404 from gateways that do
not distinguish the two cases), a request to another path 404. docs/gauge-gateways.md says what each configuration sets, and why.";

/// Writes the configuration of gateways for an API.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Convert {
    /// Description of an API, as `gauge describe` reads it
    api: PathBuf,
    /// Gateways, separated by commas, or all
    #[arg(long, value_name = "NAMES", required = true, value_delimiter = ',', value_parser = names)]
    to: Vec<Names>,
    /// Directory to write to; each gateway gets one below it, which must not be there or be empty
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
    /// URL of the service that the description has at an origin, as often as needed; its path is put before every path
    #[arg(long = "upstream", value_name = "ORIGIN=URL", value_parser = upstream)]
    upstreams: Vec<(String, String)>,
    /// Where the gateways listen
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080", value_parser = listen)]
    listen: SocketAddr,
    /// Cores that they may use: workers or threads
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    cpus: u32,
    /// How %2F in a path is treated
    #[arg(long, value_name = "POLICY", value_enum, default_value_t = EncodedSlash::Pass)]
    encoded_slash: EncodedSlash,
    /// DNS server for gateways that cannot resolve the names of upstreams at run time without one (nginx)
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen)]
    resolver: Option<SocketAddr>,
    /// Write a line on standard output for each request
    #[arg(long)]
    access_log: bool,
    /// Check the targets with GET requests to this path while the gateway runs
    #[arg(long, value_name = "PATH", value_parser = path)]
    health: Option<String>,
    /// Listen with TLS: certificate and chain, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Neither warnings nor notes
    #[arg(short, long)]
    quiet: bool,
}

/// One word of `--to`.
#[derive(Clone)]
struct Names(Vec<&'static str>);

fn names(word: &str) -> Result<Names, String> {
    let all = gateway::all().iter().map(|gateway| gateway.name());
    match gateway::by_name(word) {
        Some(gateway) => Ok(Names(vec![gateway.name()])),
        None if word == "all" => Ok(Names(all.collect())),
        None => Err(format!("there are {}, and all", all.collect::<Vec<_>>().join(", "))),
    }
}

fn upstream(text: &str) -> Result<(String, String), String> {
    let (origin, url) =
        text.split_once('=').ok_or("want ORIGIN=URL, such as http://api.example.com=http://127.0.0.1:9000")?;
    Ok((origin.trim_end_matches('/').to_owned(), url.to_owned()))
}

/// Gateways are started in their own directories.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).to_string_lossy().into_owned()
}

fn path(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"'\\{}`;#".contains(&byte);
    match text.starts_with('/') && text.bytes().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("want a path without blanks, quotes and braces, such as /healthz".to_owned()),
    }
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => {
            Err("the port has to be known: not every gateway says which one it got".to_owned())
        }
        Ok(address) => Ok(address),
        Err(_) => Err("want an IP address and a port, such as 127.0.0.1:8080".to_owned()),
    }
}

impl Convert {
    pub(crate) fn run(self) -> ExitCode {
        let read = match describe::read(&self.api, self.quiet) {
            Ok(read) => read,
            Err(code) => return code,
        };
        let options = Options {
            upstreams: BTreeMap::from_iter(self.upstreams.iter().cloned()),
            settings: Settings {
                encoded_slash: self.encoded_slash,
                resolver: self.resolver,
                access_log: self.access_log,
                health: self.health.clone(),
                tls: self
                    .tls_cert
                    .as_ref()
                    .zip(self.tls_key.as_ref())
                    .map(|(cert, key)| Tls { cert: absolute(cert), key: absolute(key) }),
                ..Settings::default()
            },
        };
        let model = match Model::new(&read.api, &options) {
            Ok(model) => model,
            Err(error) => {
                error.reasons.iter().for_each(|reason| eprintln!("{}: {reason}", self.api.display()));
                return ExitCode::from(BAD_INPUT);
            }
        };
        let mut wanted: Vec<&str> = Vec::new();
        for name in self.to.iter().flat_map(|names| &names.0) {
            if !wanted.contains(name) {
                wanted.push(name);
            }
        }
        if !self.quiet {
            grouped(&model.notes).iter().for_each(|note| eprintln!("note: {note}"));
        }
        let mut told = String::new();
        let mut code = ExitCode::SUCCESS;
        for gateway in gateway::all().iter().filter(|gateway| wanted.contains(&gateway.name())) {
            let directory = self.output.join(gateway.name());
            // Ports beside the public one are those that follow it.
            let extra = (1..).map(|n| self.listen.port().wrapping_add(n)).take(gateway.extra_ports().len()).collect();
            let place = Place { listen: self.listen, extra, directory, cpus: self.cpus, memory: None };
            let written = match gateway::written(*gateway, &model, &place) {
                Ok(written) => written,
                Err(error) => {
                    eprintln!("gauge: {error}");
                    code = ExitCode::from(BAD_INPUT);
                    continue;
                }
            };
            if let Err(why) = write(*gateway, &model, &place, &written) {
                eprintln!("gauge: {why}");
                return ExitCode::from(UNWRITABLE);
            }
            if !self.quiet {
                grouped(&written.notes).iter().for_each(|note| eprintln!("note: {}: {note}", gateway.name()));
            }
            let all = model.routes.len();
            let _ = match written.left_out {
                0 => writeln!(told, "{}: {all} operations", place.directory.display()),
                left => writeln!(told, "{}: {} of {all} operations", place.directory.display(), all - left),
            };
        }
        let printed = print(&told);
        if code == ExitCode::SUCCESS { printed } else { code }
    }
}

fn write(gateway: &dyn Gateway, model: &Model, place: &Place, written: &Written) -> Result<(), String> {
    let directory = &place.directory;
    let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(directory).map_err(|error| said(directory, error))?;
    let mut there = std::fs::read_dir(directory).map_err(|error| said(directory, error))?;
    if there.next().is_some() {
        return Err(format!(
            "{} is not empty; remove it or choose another directory: a gateway may read every file that it finds",
            directory.display()
        ));
    }
    for file in &written.files {
        let path = directory.join(&file.path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| said(folder, error))?;
        }
        std::fs::write(&path, &file.text).map_err(|error| said(&path, error))?;
    }
    let path = directory.join("README.md");
    std::fs::write(&path, readme(gateway, model, place, written)).map_err(|error| said(&path, error))
}

/// How to start what was written.
fn readme(gateway: &dyn Gateway, model: &Model, place: &Place, written: &Written) -> String {
    let locator = gateway.locator();
    let program = Program { path: locator.names.first().copied().unwrap_or_default().into() };
    let mut text = format!(
        "# {}\n\nWritten by `gauge convert`; listens on {}. Start it in this directory:\n\n    {}\n",
        gateway.title(),
        place.listen,
        shell(&gateway.command(&program, place))
    );
    if let Some(check) = gateway.check(&program, place) {
        let _ = write!(text, "\nCheck the files without starting it:\n\n    {}\n", shell(&check));
    }
    let _ = write!(text, "\nGet it: {}.\n", locator.hint);
    if !written.notes.is_empty() || !model.notes.is_empty() {
        text.push_str("\nWhat differs from the description:\n\n");
        for note in model.notes.iter().chain(&written.notes) {
            let _ = writeln!(text, "- {note}");
        }
    }
    text
}

/// A command as a shell reads it.
fn shell(command: &gateway::Command) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+".contains(c);
    let quoted = |word: &str| {
        if !word.is_empty() && word.chars().all(safe) {
            word.to_owned()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    let env = command.env.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    env.chain(command.argv.iter().map(|word| quoted(word))).collect::<Vec<_>>().join(" ")
}
