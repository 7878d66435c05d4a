//! Gateways: what each has to do, the files that make it do that, and how it is run.
//!
//! A [`Model`] is made once from an API description; every [`Gateway`] turns it into files and into a command for a [`Placement`]. All of it is
//! plain data, paths are relative to the place's directory, and nothing here starts the gateway: a deployer does, on this machine or
//! on another. One file a gateway; to add one, write it and name it in [`all`].
//!
//! ```
//! use gauge::gateway::{self, Model, Options, Placement};
//!
//! let text = b"openapi: 3.1.0\ninfo: {title: A, version: '1'}\nservers: [{url: 'http://127.0.0.1:9000'}]\n\
//!     paths: {'/bids/{id}': {get: {operationId: bid, parameters: [{name: id, in: path, required: true}], responses: {}}}}\n";
//! let api = apidoc::read_bytes("a.yaml", text).unwrap().api;
//! let model = Model::new(&api, &Options::default()).unwrap();
//! let nginx = gateway::by_name("nginx").unwrap();
//! let written = nginx.files(&model, &Placement::new("127.0.0.1:8080".parse().unwrap(), "/tmp/nginx")).unwrap();
//! assert_eq!(written.files[0].path, "nginx.conf");
//! ```

mod caddy;
mod envoy;
mod fiber;
mod haproxy;
mod jwks;
mod kong;
mod krakend;
mod model;
mod nginx;
mod paths;
pub mod policies;
mod profiles;
mod security;
mod settings;
mod spring;
mod text;
mod traefik;
mod tyk;
mod weir;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::time::Duration;

use crate::profile::Profile;
pub use jwks::PublicKey;
pub use policies::{Policies, Rate, Tokens};
pub use security::{Alternative, Guard};
pub use settings::{EncodedSlash, Settings, Tls};

pub use model::{Model, ModelError, Options, Part, PathEntry, Route, Segment, Target, Upstream};

/// Largest request body that every gateway is told to take, in bytes: 32 MiB, room for an image of 24 MiB in base64.
pub const BODY_BYTES: u64 = 32 << 20;

/// Where a gateway runs, and what it may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where it listens. The port is never 0: not every gateway says which one it got.
    pub listen: SocketAddr,
    /// As many further free ports as [`Gateway::extra_ports`] names, in that order; the address is that of `listen`.
    pub extra: Vec<u16>,
    /// The directory that its files are written to, and in which it is started; absolute, where the gateway runs.
    pub directory: PathBuf,
    /// Cores it may use: its number of workers or threads. At least 1. Pinning it to cores is the deployer's business.
    pub cpus: u32,
    /// Memory it may use, in bytes, for gateways that have to be told (a Java heap, Go's soft limit); a cap is the deployer's business.
    pub memory: Option<u64>,
}

impl Placement {
    /// One core, no further ports, no word about memory.
    pub fn new(listen: SocketAddr, directory: impl Into<PathBuf>) -> Self {
        Self { listen, extra: Vec::new(), directory: directory.into(), cpus: 1, memory: None }
    }
}

/// A file to write before the gateway starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Relative to [`Placement::directory`], with `/` between its parts.
    pub path: String,
    /// All of its content.
    pub text: String,
}

impl File {
    fn new(path: &str, text: String) -> Self {
        Self { path: path.to_owned(), text }
    }
}

/// What a gateway's adapter makes of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The files; the main one is first.
    pub files: Vec<File>,
    /// Where the gateway cannot do exactly what the description says, one sentence each: such as a template that has to match more.
    pub notes: Vec<String>,
    /// Operations of the description that the files do not have; each is in the notes.
    pub left_out: usize,
}

/// What a profile or policies add to a gateway's configuration; each adapter says where these go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Additions {
    /// For the listener.
    pub listen: &'static str,
    /// Once, for the whole gateway.
    pub global: String,
    /// Once, in the section of the listener or beside it.
    pub server: String,
    /// Once, at the end of the main file.
    pub end: String,
    /// For each route, before a request is passed on.
    pub route: String,
    /// For each upstream, or wherever requests to it are written.
    pub upstream: String,
    /// Files beside the main one.
    pub files: Vec<File>,
    /// Where it does something else than the profile says, one sentence each.
    pub notes: Vec<String>,
}

/// Why a gateway cannot be configured for a model at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{gateway} cannot be configured for this description: {why}")]
pub struct Unsupported {
    /// [`Gateway::name`].
    pub gateway: &'static str,
    /// Which operation or upstream, what about it, and what to do.
    pub why: String,
}

/// A gateway's program on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The executable (or the archive that an interpreter runs), absolute.
    pub path: PathBuf,
}

impl Program {
    /// The path as an argument.
    fn argument(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }
}

/// How the program of a gateway is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locator {
    /// Environment variable that names the file and wins, such as `GAUGE_NGINX`.
    pub variable: &'static str,
    /// Names that are looked for on PATH, in /usr/sbin and /usr/local/sbin, and beside gauge itself.
    pub names: &'static [&'static str],
    /// How to get it, for the message that it is not there.
    pub hint: &'static str,
}

/// A command to run. Its working directory is [`Placement::directory`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Variables beside the inherited ones.
    pub env: Vec<(String, String)>,
}

impl Command {
    fn new(program: &Program, arguments: &[&str]) -> Self {
        let mut argv = vec![program.argument()];
        argv.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        Self { argv, env: Vec::new() }
    }

    fn with_env(mut self, name: &str, value: impl ToString) -> Self {
        self.env.push((name.to_owned(), value.to_string()));
        self
    }
}

/// How to tell that a gateway serves; the check is repeated until it succeeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A TCP connection to this address is accepted.
    Tcp(SocketAddr),
    /// `GET path` at this address gets this status.
    Http {
        /// Where.
        address: SocketAddr,
        /// What is requested.
        path: String,
        /// What the response says.
        status: u16,
    },
}

/// A signal that ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Signal {
    Term,
    Int,
    Quit,
    Hup,
    Usr1,
    Usr2,
    Kill,
    Stop,
    Cont,
}

/// The signals that a gateway understands while it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signals {
    /// Its configuration is read again, without an end to anything; `None` where no signal does that.
    pub reload: Option<Signal>,
    /// It accepts no more, and ends when its requests have ended.
    pub drain: Signal,
}

impl Default for Signals {
    fn default() -> Self {
        Signals { reload: None, drain: Signal::Term }
    }
}

/// How a gateway is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// Sent to its first process.
    pub signal: Signal,
    /// How long it may take before its whole group is killed.
    pub grace: Duration,
}

/// A gateway that can be configured and run.
pub trait Gateway: Sync {
    /// Short name in files and on the command line, lower case.
    fn name(&self) -> &'static str;

    /// Name in reports.
    fn title(&self) -> &'static str;

    /// How its program is found.
    fn locator(&self) -> Locator;

    /// What further ports are for, one word each; [`Placement::extra`] has as many.
    fn extra_ports(&self) -> &'static [&'static str] {
        &[]
    }

    /// Its configuration for a model and a place.
    ///
    /// # Errors
    /// When the gateway cannot serve the API at all.
    fn files(&self, model: &Model, place: &Placement) -> Result<Written, Unsupported>;

    /// What a profile adds to its configuration.
    ///
    /// # Errors
    /// Why the gateway, or its adapter, cannot do it.
    fn profile(&self, profile: &Profile) -> Result<Additions, &'static str> {
        match profile {
            Profile::PassThrough | Profile::Life(_) | Profile::LargeBodies => Ok(Additions::default()),
            _ => Err("its adapter does not configure it yet"),
        }
    }

    /// What the policies of a model add to its configuration, beside what they add to single routes.
    fn policies(&self, _model: &Model) -> Additions {
        Additions::default()
    }

    /// How it is started, in the foreground, once its files are written.
    fn command(&self, program: &Program, place: &Placement) -> Command;

    /// Its own check of the files: exits with 0 when they are fine.
    fn check(&self, _program: &Program, _place: &Placement) -> Option<Command> {
        None
    }

    /// Prints its version.
    fn version_command(&self, program: &Program) -> Command {
        Command::new(program, &["--version"])
    }

    /// The version in what [`Gateway::version_command`] printed, both streams: by default the first number with a dot.
    fn read_version(&self, output: &str) -> String {
        version_number(output).unwrap_or_default().to_owned()
    }

    /// When it serves.
    fn ready(&self, place: &Placement) -> Ready {
        Ready::Tcp(place.listen)
    }

    /// What it is told while it serves.
    fn signals(&self) -> Signals {
        Signals::default()
    }

    /// How it is stopped.
    fn stop(&self) -> Stop {
        Stop { signal: Signal::Term, grace: Duration::from_secs(5) }
    }

    /// Its program, if it is on this machine.
    fn locate(&self) -> Option<Program> {
        let locator = self.locator();
        let named = std::env::var_os(locator.variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        let path = match named {
            Some(path) => is_file(&path).then_some(path),
            None => locator.names.iter().find_map(|name| on_path(name)),
        };
        path.and_then(|path| std::path::absolute(path).ok()).map(|path| Program { path })
    }

    /// The version that the program on this machine prints; `None` when the program cannot be run or prints none.
    fn version(&self, program: &Program) -> Option<String> {
        let command = self.version_command(program);
        let (first, rest) = command.argv.split_first()?;
        let output = Process::new(first).args(rest).envs(command.env).stdin(Stdio::null()).output().ok()?;
        let text = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        Some(self.read_version(&text)).filter(|version| !version.is_empty())
    }
}

/// All gateways, in the order of reports.
#[must_use]
pub fn all() -> &'static [&'static dyn Gateway] {
    &[
        &weir::Weir,
        &nginx::Nginx,
        &haproxy::Haproxy,
        &envoy::Envoy,
        &traefik::Traefik,
        &caddy::Caddy,
        &fiber::Fiber,
        &kong::Kong,
        &krakend::Krakend,
        &tyk::Tyk,
        &spring::Spring,
    ]
}

/// The gateway of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static dyn Gateway> {
    all().iter().copied().find(|gateway| gateway.name() == name)
}

/// The configuration of a gateway, with a note for each setting that its adapter does not write.
///
/// # Errors
/// When the gateway cannot serve the API at all.
pub fn written(gateway: &dyn Gateway, model: &Model, place: &Placement) -> Result<Written, Unsupported> {
    let mut written = gateway.files(model, place)?;
    written.notes.extend(model.settings.not_written(gateway.name()));
    written.notes.extend(model.settings.policies.not_written(gateway));
    written.notes.extend(security::notes_of(gateway, model));
    // Names of a description may hold line breaks and other control characters, which a terminal would follow.
    for note in &mut written.notes {
        *note = note.replace(char::is_control, " ");
    }
    Ok(written)
}

/// What the profile and the policies of a model add.
fn additions(gateway: &dyn Gateway, model: &Model) -> Result<Additions, Unsupported> {
    let profile = &model.settings.profile;
    let why = |why| Unsupported { gateway: gateway.name(), why: format!("profile `{}`: {why}", profile.name()) };
    let policies = gateway.policies(model);
    let mut all = gateway.profile(profile).map_err(why)?;
    let pairs = [
        (&mut all.global, policies.global),
        (&mut all.server, policies.server),
        (&mut all.end, policies.end),
        (&mut all.route, policies.route),
        (&mut all.upstream, policies.upstream),
    ];
    pairs.into_iter().for_each(|(all, more)| all.push_str(&more));
    all.files.extend(policies.files);
    all.notes.extend(policies.notes);
    Ok(all)
}

/// What every program written in Go is told: its cores, and a memory limit that its collector heeds.
fn go(command: Command, place: &Placement) -> Command {
    let command = command.with_env("GOMAXPROCS", place.cpus);
    match place.memory {
        Some(bytes) => command.with_env("GOMEMLIMIT", soft(bytes)),
        None => command,
    }
}

/// Nine tenths of a cap: what is left is for what the runtime does not count.
fn soft(bytes: u64) -> u64 {
    bytes / 10 * 9
}

fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let beside = std::env::current_exe().ok().and_then(|gauge| gauge.parent().map(Path::to_owned));
    // Debian keeps servers in sbin, which is not on everybody's PATH.
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]).chain(beside);
    folders.map(|folder| folder.join(name)).find(|file| is_file(file))
}

/// The first run of digits and dots that has a dot inside, with a suffix such as `-rc1` or `.gauge`.
fn version_number(output: &str) -> Option<&str> {
    let words = output.split(|c: char| c.is_whitespace() || "/,()v:".contains(c));
    words.map(|word| word.trim_end_matches('.')).find(|word| {
        word.starts_with(|c: char| c.is_ascii_digit())
            && word.split_once('.').is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests;
