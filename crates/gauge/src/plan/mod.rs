//! An evaluation: what is compared, under which load, and where. [`Plan::read`] turns the file into what the campaign runs, with
//! everything checked against the API description before anything is started.

mod check;
mod file;
mod fill;
mod hosts;
mod mode;
mod programs;
mod quick;
mod size;
mod threshold;
mod variant;
mod workloads;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::load::chat::Chat;
use crate::load::workload::{Arrivals, Grpc, Load, Operation, Order, Protocol};
use crate::profile::Profile;
use crate::results::{Price, Slo, Subject, Threshold, Treatment};
use crate::tools::Tool;

pub use check::slug as file_name;
pub(crate) use check::slug;
pub use file::{Restart, SshFile as Ssh, TerraformProgram};
pub(crate) use fill::{DEFAULT_EVENT, event_name};
pub use fill::{Fill, Made, Part};
pub(crate) use hosts::fits;
pub use hosts::{Fleet, Host, HostRole, suits};
pub(crate) use mode::Mode;
pub use variant::Variant;

/// A checked evaluation.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The evaluation's file, absolute.
    pub file: PathBuf,
    /// What was in it, without secrets.
    pub text: String,
    /// Values of secret variables, which are in no report.
    pub secrets: Vec<String>,
    /// The folder that relative paths count from.
    pub folder: PathBuf,
    /// Name of the evaluation.
    pub name: String,
    /// What it is about.
    pub description: Option<String>,
    /// The API that every gateway is configured for.
    pub api: apidoc::Api,
    /// What gateways do beyond passing requests on.
    pub profile: Profile,
    /// What is compared, in the order of the evaluation: `direct` first, A/A controls last.
    pub systems: Vec<System>,
    /// Commands that make programs of gateways, each with its working directory; one that fails leaves its gateway out.
    pub builds: Vec<(Vec<String>, PathBuf)>,
    /// Programs behind the systems.
    pub backends: Vec<Backend>,
    /// What is done before each trial of a service.
    pub before_each: Vec<Step>,
    /// What a system may use.
    pub hardware: Hardware,
    /// Where systems run.
    pub deploy: Deploy,
    /// What is requested of them.
    pub workloads: Vec<Workload>,
    /// What must be equal to the responses of `direct`.
    pub conformance: ConformancePlan,
    /// Rounds.
    pub repeats: u32,
    /// What must hold for a rate to count as carried.
    pub slo: Option<Slo>,
    /// What fails the run.
    pub fail: Vec<Threshold>,
    /// The system whose figures are the unit of the score; `None`: the baseline.
    pub reference: Option<String>,
    /// What processors and memory cost.
    pub price: Option<Price>,
    /// Weights of the score's parts, where the evaluation sets its own.
    pub weights: BTreeMap<String, f64>,
    /// Whether workloads run in their order in every round, because they build on each other; else their order varies by round.
    pub fixed_order: bool,
    /// A first look: shorter and fewer rounds.
    pub quick: bool,
}

/// One thing that is compared.
#[derive(Debug, Clone)]
pub struct System {
    /// Unique in the evaluation.
    pub name: String,
    /// What it is.
    pub kind: SystemKind,
    /// The system that it is the same as, where it is an A/A control.
    pub control_of: Option<String>,
    /// What must be seen of it in every workload.
    pub treatment: Option<Treatment>,
}

/// What a system is.
#[derive(Debug, Clone)]
pub enum SystemKind {
    /// The upstreams without a gateway.
    Direct,
    /// A gateway in front of the upstreams.
    Gateway(Variant),
    /// A service, which has the operations of the API itself.
    Service(Program),
}

impl System {
    /// The gateway, where this is one.
    pub fn variant(&self) -> Option<&Variant> {
        match &self.kind {
            SystemKind::Direct | SystemKind::Service(_) => None,
            SystemKind::Gateway(variant) => Some(variant),
        }
    }

    /// The service, where this is one.
    pub fn service(&self) -> Option<&Program> {
        match &self.kind {
            SystemKind::Service(program) => Some(program),
            SystemKind::Direct | SystemKind::Gateway(_) => None,
        }
    }
}

/// What is compared and ranked: neither the baseline nor an A/A control.
pub fn compared(systems: &[System]) -> impl Iterator<Item = &System> {
    let own = |system: &&System| system.control_of.is_none() && !matches!(system.kind, SystemKind::Direct);
    systems.iter().filter(own)
}

impl Plan {
    /// What is compared, in the word that reports use.
    pub fn subject(&self) -> Subject {
        let has = |service: bool| compared(&self.systems).any(|system| system.service().is_some() == service);
        Subject::of(has(false), has(true))
    }
}

/// A program that an evaluation starts: a backend, or a service under test. In its command, arguments, variables and URLs `{NAME}` stands for a port
/// of that name, `{data}` for a folder that is empty at each start, `{folder}` for the evaluation's folder, `{cache}` for a folder that stays,
/// `{address}` for the address to listen on, and `{gauge}` for this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// For logs.
    pub name: String,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables beside the inherited ones.
    pub env: BTreeMap<String, String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Run once before anything is started, in its own working directory.
    pub build: Option<(Vec<String>, PathBuf)>,
    /// Free ports that it is given, by name, each with the origin of the API that it stands for.
    pub ports: BTreeMap<String, String>,
    /// When it is ready: all of these.
    pub ready: Vec<Ready>,
    /// The language that it is written in, where the evaluation says.
    pub language: Option<String>,
    /// How it is called over gRPC, where it is a service that is.
    pub grpc: Option<Box<Calls>>,
}

/// How a service is called over gRPC: the operations of the API as methods, each with the operation's JSON body as its message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calls {
    /// The file that describes the methods; without it the service's reflection does.
    pub proto: Option<PathBuf>,
    /// `package.Service/Method` by the operation's id in the API.
    pub methods: BTreeMap<String, String>,
    /// Calls that share a connection.
    pub streams: u32,
    /// Messages that a call sends, where its method takes a stream.
    pub messages: Option<u32>,
    /// Messages that the service sends at least, where the method returns a stream.
    pub responses: Option<u32>,
}

impl Calls {
    /// An operation as the call of its method.
    pub(crate) fn call(&self, planned: &PlannedOperation, mut operation: Operation) -> Operation {
        operation.grpc = self.methods.get(&planned.described).map(|method| Grpc {
            proto: self.proto.clone(),
            method: method.clone(),
            messages: self.messages,
            responses: self.responses,
        });
        // That of a call is its own.
        operation.headers.retain(|name, _| !name.eq_ignore_ascii_case("content-type"));
        operation
    }

    /// Every call is a stream of a connection.
    pub(crate) fn protocol(&self) -> Protocol {
        Protocol::Http2 { streams: self.streams }
    }
}

/// What shows that a program is ready. The text is an address, `{address}:{NAME}`, or a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ready {
    /// This URL gets 2xx.
    Http(String),
    /// This address accepts connections.
    Tcp(String),
    /// The health service of gRPC at this address says that the server serves.
    Grpc(String),
}

/// A program behind the systems.
#[derive(Debug, Clone)]
pub struct Backend {
    /// What is started.
    pub program: Program,
    /// When it is started anew.
    pub restart: Restart,
    /// Run before the trials of each system in each round.
    pub reset: Option<Vec<String>>,
    /// URLs that say what has reached it; what all of them say is added up. Empty: it does not say.
    pub counts: Vec<String>,
}

/// What is done before each trial of a service, such as emptying a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Runs a command, whose output must be this, but for blanks around it, where `prints` says so.
    Run {
        /// Program and arguments, as those of a [`Program`]; `{system}` is the name of the service.
        command: Vec<String>,
        /// Working directory.
        cwd: PathBuf,
        /// What it must print.
        prints: Option<String>,
    },
    /// Sends an operation of the workload once; its response must be one that the workload expects.
    Send(String),
}

/// What a system may use, and on which processors the parts run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hardware {
    /// Processors of the system.
    pub cpus: u32,
    /// Memory of the system.
    pub memory_bytes: Option<u64>,
    /// Processors by part, when the evaluation says.
    pub pin: Option<Pin>,
}

/// Processors by part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pin {
    /// Of the system under test.
    pub system: Vec<u32>,
    /// Of the upstreams.
    pub upstream: Vec<u32>,
    /// Of the generator.
    pub generator: Vec<u32>,
}

/// Where systems run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deploy {
    /// On this machine.
    Local,
    /// On another one, with the backend beside them; the generator stays here.
    Ssh(Ssh),
    /// On machines by role.
    Hosts(Vec<Host>),
    /// On machines that are made for the evaluation, and destroyed after it.
    Terraform(Terraform),
}

/// Machines that OpenTofu or Terraform makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terraform {
    /// The folder of the module, whose output `gauge_hosts` is a list of [`Host`]s.
    pub folder: PathBuf,
    /// Who makes them.
    pub program: TerraformProgram,
    /// Variables of the module.
    pub vars: serde_json::Map<String, serde_json::Value>,
    /// They stay after the run.
    pub keep: bool,
}

/// A workload of the evaluation.
#[derive(Debug, Clone)]
pub struct Workload {
    /// Unique in the evaluation.
    pub name: String,
    /// Weight in the score.
    pub weight: f64,
    /// What is requested.
    pub operations: Vec<PlannedOperation>,
    /// Chat calls: what the load sends. `operations` are then the same calls, whose responses come as a whole, for checks before the load.
    pub llm: Option<Chat>,
    /// What every user does once before the load.
    pub setup: Vec<PlannedOperation>,
    /// How the next operation is chosen.
    pub order: Order,
    /// How much load.
    pub load: PlannedLoad,
    /// Its name, where it is one of those by name and not shortened: `full`.
    pub mode: Option<&'static str>,
    /// Load before it that does not count.
    pub warmup: Warmup,
    /// For one request.
    pub timeout: Duration,
    /// Who sends.
    pub generator: Sender,
    /// Threads that send; the generator's own choice without it.
    pub threads: Option<u32>,
    /// What must be seen of every system.
    pub treatment: Option<Treatment>,
    /// Responses are event streams.
    pub event_streams: bool,
}

impl Workload {
    /// The name of its payload, where its requests have events as bodies.
    pub fn payload(&self) -> Option<String> {
        self.operations.iter().find_map(|planned| planned.made.as_ref()?.payload())
    }
}

/// An operation, with the origin in the API that it goes to.
#[derive(Debug, Clone)]
pub struct PlannedOperation {
    /// Its id in the API.
    pub described: String,
    /// `http://host:port` as the API has it; empty when it has none.
    pub origin: String,
    /// The operation; its base is filled in for each system.
    pub operation: Operation,
    /// A body that is made when the campaign starts.
    pub made: Option<Made>,
    /// What stands before its path where a gateway takes it off.
    pub prefix: String,
}

/// Load of a workload.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedLoad {
    /// As the generator knows it.
    Fixed(Load),
    /// The highest rate that meets the SLO.
    Search(SearchPlan),
}

/// A search for the highest rate that meets the SLO.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPlan {
    /// The first rate, requests per second.
    pub from: f64,
    /// No rate above this is tried.
    pub to: f64,
    /// How long each rate is measured.
    pub duration: Duration,
    /// When exactly requests are due.
    pub arrivals: Arrivals,
    /// Most connections at once.
    pub connections: u32,
    /// The search ends when the highest rate that held and the lowest that did not are within this share of each other.
    pub precision: f64,
    /// Shares of the highest rate at which latency is measured for the curve.
    pub curve: Vec<f64>,
    /// Rounds in which it is done.
    pub rounds: u32,
    /// What must hold.
    pub slo: Slo,
}

/// Load that does not count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warmup {
    /// None.
    None,
    /// The same load for a while.
    For(Duration),
    /// So many requests of the same users.
    Requests(u64),
}

/// Who sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sender {
    /// Gauge itself, in a process of its own.
    Gauge,
    /// Another generator, with a script of the user's own or one that is made.
    External {
        /// Which.
        tool: Tool,
        /// A script or plan in which the address is filled in.
        script: Option<PathBuf>,
    },
}

impl Sender {
    /// Whether it says when its load begins and ends, and waits meanwhile.
    pub fn has_marks(&self) -> bool {
        matches!(self, Sender::Gauge | Sender::External { tool: Tool::K6, script: None })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Sender::Gauge => "gauge",
            Sender::External { tool, .. } => tool.name(),
        }
    }
}

/// What must be equal to the responses of `direct`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ConformancePlan {
    /// Names of headers of responses, lower case.
    pub headers: Vec<String>,
    /// JSON pointers of values that differ by nature, by operation id; `*` is all operations, and a step `*` is any step.
    pub differs: BTreeMap<String, Vec<String>>,
    /// What must reach the upstream, where an operation echoes it.
    pub forwarded: Option<Forwarded>,
    /// Whether an unknown path must be refused.
    pub unknown_path: bool,
}

/// Request headers that must reach the upstream.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Forwarded {
    /// Id of the operation whose response shows them.
    pub operation: String,
    /// Header to JSON pointer.
    pub headers: BTreeMap<String, String>,
}

/// Why an evaluation cannot be run.
#[derive(Debug)]
pub enum PlanError {
    /// The file, or one that it names, cannot be read.
    Unreadable {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// It makes no sense.
    Wrong {
        /// The evaluation's file.
        file: PathBuf,
        /// Everything that was found.
        problems: Vec<Problem>,
    },
}

/// Something that is wrong in an evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Line and column, from 1, where that is known.
    pub at: Option<(u64, u64)>,
    /// What is wrong and what to do.
    pub text: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlanError::Unreadable { file, error } => write!(f, "{}: {error}", file.display()),
            PlanError::Wrong { file, problems } => {
                for (index, problem) in problems.iter().enumerate() {
                    if index > 0 {
                        f.write_str("\n")?;
                    }
                    match problem.at {
                        Some((line, column)) => write!(f, "{}:{line}:{column}: {}", file.display(), problem.text)?,
                        None => write!(f, "{}: {}", file.display(), problem.text)?,
                    }
                }
                Ok(())
            }
        }
    }
}

impl std::error::Error for PlanError {}

/// Shorter ones would be found in words that are none.
const LEAST_SECRET: usize = 4;

/// Reads a share: `5%` or `0.05`.
///
/// # Errors
/// What is wrong.
pub fn share(text: &str) -> Result<f64, String> {
    file::share_of(text)
}

/// A text without these secrets.
pub(crate) fn redact(text: &str, secrets: &[String]) -> String {
    let known = secrets.iter().filter(|secret| secret.len() >= LEAST_SECRET);
    known.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[redacted]"))
}

/// Reads an API description; what it refers to must be in its folder or below.
///
/// # Errors
/// All that is wrong with it.
pub fn read_description(file: &Path) -> Result<apidoc::Read, apidoc::Problems> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match apidoc::Files::under(folder) {
        Ok(files) => apidoc::read(&files, &file.to_string_lossy(), &apidoc::Limits::default()),
        // It then says itself that there is no such file.
        Err(_) => apidoc::read_file(file),
    }
}

impl Plan {
    /// Reads and checks an evaluation, and what it names: the API description and files with bodies and configurations. Nothing is started
    /// and nothing is made.
    ///
    /// # Errors
    /// Everything that is wrong, with its place in the file.
    pub fn read(file: &Path) -> Result<Self, PlanError> {
        let unreadable = |error| PlanError::Unreadable { file: file.to_owned(), error };
        let text = std::fs::read_to_string(file).map_err(unreadable)?;
        let absolute = std::path::absolute(file).map_err(unreadable)?;
        check::plan(&absolute, file, text)
    }
}

#[cfg(test)]
mod tests;
