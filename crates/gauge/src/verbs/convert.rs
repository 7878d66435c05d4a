//! `gauge convert`

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use gauge::gateway::{
    self, EncodedSlash, Gateway, Model, Options, Placement, Policies, Program, Rate, Settings, Tls, Tokens, Written,
    policies,
};

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
  gauge convert api.yaml --to all -o gateways --cors https://app.example.com --limit 100/s --retries 2 --metrics 127.0.0.1:9901
                                                         pages of one origin, 100 requests per second of each address, two more
                                                         attempts of what may be sent again, /metrics for Prometheus
  gauge convert api.yaml --to weir -o gateways --api-keys keys.txt
                                                         401 without a key, where the description needs one; keys.txt has lines
                                                         such as: 3f1c9a7d2b8e4f60a5c1 shop
  gauge convert api.yaml --to envoy -o gateways --jwks jwks.json --jwt-issuer https://id.example.com/ --jwt-audience orders
                                                         401 without a token of that issuer, where the description needs one

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
    /// Allow pages of this origin to use the API (CORS), such as https://app.example.com; * allows all; as often as needed
    #[arg(long, value_name = "ORIGIN", value_parser = policies::origin)]
    cors: Vec<String>,
    /// Check API keys where the description's security needs one in a header: a file with a line KEY CONSUMER for each
    #[arg(long, value_name = "FILE")]
    api_keys: Option<PathBuf>,
    /// Check JSON Web Tokens where the description's security needs a bearer token, OAuth 2 or OpenID Connect: the issuer's public keys
    #[arg(long, value_name = "FILE", requires = "jwt_issuer", requires = "jwt_audience")]
    jwks: Option<PathBuf>,
    /// Issuer of the tokens (`iss`), compared exactly
    #[arg(long, value_name = "ISSUER", requires = "jwks", value_parser = policies::claim)]
    jwt_issuer: Option<String>,
    /// Audience that tokens must be for (`aud`), compared exactly
    #[arg(long, value_name = "AUDIENCE", requires = "jwks", value_parser = policies::claim)]
    jwt_audience: Option<String>,
    /// Requests of each client per second or minute, such as 100/s or 1000/min; more get 429. A client is a consumer where credentials are checked, else an address
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    limit: Option<Rate>,
    /// Further attempts after a failed connection, 502, 503 or 504, for methods that may be repeated; 0 turns them off [default: as the gateway does]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(..=10))]
    retries: Option<u32>,
    /// Serve metrics for Prometheus at /metrics of this address, such as 127.0.0.1:9901
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen)]
    metrics: Option<SocketAddr>,
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

/// What a file has; errors begin with its path.
fn read<T>(path: &Path, value: impl FnOnce(&str) -> Result<T, String>) -> Result<T, String> {
    let said = |why: String| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| said(error.to_string()))?;
    value(&text).map_err(said)
}

impl Convert {
    fn policies(&self) -> Result<Policies, String> {
        if self.metrics.is_some_and(|metrics| metrics.port() == self.listen.port()) {
            return Err("--metrics: want another port than that of --listen".to_owned());
        }
        let claims = self.jwt_issuer.as_ref().zip(self.jwt_audience.as_ref());
        let tokens = self.jwks.as_ref().zip(claims);
        Ok(Policies {
            cors: self.cors.clone(),
            keys: self.api_keys.as_ref().map(|file| read(file, policies::keys)).transpose()?,
            tokens: tokens
                .map(|(file, (issuer, audience))| read(file, |set| Tokens::new(set, issuer, audience)))
                .transpose()?,
            limit: self.limit,
            retries: self.retries,
            metrics: self.metrics,
        })
    }

    pub(crate) fn run(self) -> ExitCode {
        let read = match describe::read(&self.api, self.quiet) {
            Ok(read) => read,
            Err(code) => return code,
        };
        let policies = match self.policies() {
            Ok(policies) => policies,
            Err(why) => {
                eprintln!("gauge: {why}");
                return ExitCode::from(BAD_INPUT);
            }
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
                policies,
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
            let place = Placement { listen: self.listen, extra, directory, cpus: self.cpus, memory: None };
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

fn write(gateway: &dyn Gateway, model: &Model, place: &Placement, written: &Written) -> Result<(), String> {
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
        // What has keys is the owner's alone, from the beginning.
        let mode = if model.settings.policies.keys.is_some() { 0o600 } else { 0o666 };
        let opened = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&path);
        opened.and_then(|mut opened| opened.write_all(file.text.as_bytes())).map_err(|error| said(&path, error))?;
    }
    let path = directory.join("README.md");
    std::fs::write(&path, readme(gateway, model, place, written)).map_err(|error| said(&path, error))
}

/// How to start what was written.
fn readme(gateway: &dyn Gateway, model: &Model, place: &Placement, written: &Written) -> String {
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
    let does = model.settings.policies.written(gateway);
    if !does.is_empty() {
        text.push_str("\nWhat it does beyond the description:\n\n");
        does.iter().for_each(|policy| {
            let _ = writeln!(text, "- {policy}");
        });
    }
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
