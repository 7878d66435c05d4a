//! The data model: what a campaign measured ([`Results`]) and what follows from it ([`Judgement`]). It is stored and exchanged; it computes nothing, and
//! knows none of the modules that measure, judge or report.
//!
//! A campaign has rounds. In each round every system (each gateway, the controls, and the baseline without a gateway, `direct`) runs every workload
//! once, in an order that changes. A [`Trial`] is one system under one workload in one round, with what the generator measured
//! ([`crate::results::Report`]) and what was observed of the processes and the machine meanwhile ([`Observed`]).
//!
//! On disk: `raw/campaign.json` is [`Results`] with `trials` empty, and each trial is a file of its own, `raw/ID.json`, written once and never
//! changed, so that a killed campaign loses none that ended. `results.json` is all of it in one document, with the judgement; that can be made again
//! from `raw/` alone.
//!
//! What was not measured is `null`, never 0. Times end in `_s`, `_ms` or `_unix_ms`, sizes in `_bytes`, and shares run from 0 to 1.

mod judgement;
mod life;
mod outcome;
mod phase;
pub mod report;
mod subject;
mod threshold;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use judgement::*;
pub use life::{LifeState, LifeTrial};
pub use outcome::{Check, Outcome, Reason, SystemOutcome};
pub use phase::{PhasePlan, PhaseRow, Stretch};
pub use report::Report;
pub use subject::Subject;
pub use threshold::{Metric, Operator, Threshold};

/// The name of the baseline, which has no gateway.
pub const DIRECT: &str = "direct";

/// Version of the JSON. It changes when a field changes its name or meaning; a new field does not change it. Format 1, which has other names for trials,
/// controls and conformance, is still read.
pub const FORMAT: u32 = 2;

/// A campaign and all that it measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// Name of the evaluation.
    pub name: String,
    /// What it is about, in the evaluation's own words.
    pub description: Option<String>,
    /// Version of the program that measured.
    pub gauge: String,
    /// The command line that reproduces it.
    pub command: String,
    /// The evaluation file as it was read.
    pub evaluation: String,
    /// When the campaign began.
    pub started_unix_ms: u64,
    /// When it ended; null while it runs, and when it was killed.
    pub ended_unix_ms: Option<u64>,
    /// A first look (`--quick`): fewer and shorter rounds than the evaluation defines.
    pub quick: bool,
    /// Rounds that the plan holds.
    pub rounds: u32,
    /// What gateways did beyond passing requests on; campaigns of earlier versions did nothing.
    #[serde(default = "pass_through")]
    pub profile: String,
    /// What must hold for a rate to count as carried.
    pub slo: Option<Slo>,
    /// What fails the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fail: Vec<Threshold>,
    /// The system whose figures are the unit of the score; null: the baseline.
    #[serde(default)]
    pub reference: Option<String>,
    /// Weights of the criteria by their names, where the evaluation sets its own.
    #[serde(default)]
    pub weights: BTreeMap<String, f64>,
    /// What processors and memory cost, where the evaluation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// Fingerprints of what the evaluation names: its API, files and programs, by what they are to people. A campaign goes on only with the same
    /// ones; empty in campaigns of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Where it was measured.
    pub environment: Environment,
    /// The systems, in the order of the evaluation.
    pub systems: Vec<System>,
    /// The workloads, in the order of the evaluation.
    pub workloads: Vec<WorkloadPlan>,
    /// Every trial, in the order in which they were made.
    #[serde(alias = "runs")]
    pub trials: Vec<Trial>,
    /// What was different from `environment` when the campaign was continued, once for each time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub continued: Vec<String>,
    /// Highest rates that met the SLO, one for each system and searched workload.
    pub searches: Vec<Search>,
    /// What became of requests in the scenarios of the profile `life`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub life: Vec<LifeTrial>,
}

fn pass_through() -> String {
    "pass-through".to_owned()
}

/// What a machine costs, in any currency.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// One processor for an hour.
    #[serde(default)]
    pub vcpu_hour: f64,
    /// One GiB of memory for an hour.
    #[serde(default)]
    pub gib_hour: f64,
}

impl Price {
    /// So many seconds of processors, and bytes of memory for so many seconds.
    pub fn of(&self, cpu_s: f64, bytes: f64, seconds: f64) -> f64 {
        const GIB: f64 = (1_u64 << 30) as f64;
        (cpu_s * self.vcpu_hour + bytes / GIB * seconds * self.gib_hour) / 3600.0
    }
}

/// A service level objective.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// Half of the responses come within this.
    pub p50_ms: Option<f64>,
    /// 95 % of the responses come within this.
    pub p95_ms: Option<f64>,
    /// 99 % of the responses come within this.
    pub p99_ms: Option<f64>,
    /// Largest share of requests that may go wrong.
    pub errors: Option<f64>,
}

/// Where and on what a campaign ran.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// Name of the host.
    pub host: Option<String>,
    /// Operating system and kernel.
    pub system: Option<String>,
    /// Name of the processor.
    pub processor: Option<String>,
    /// Logical processors of the machine.
    pub cpus: Option<u32>,
    /// Memory of the machine.
    pub memory_bytes: Option<u64>,
    /// Congestion control of TCP on the machine, as Linux names it: `cubic`, `bbr`.
    pub congestion_control: Option<String>,
    /// Which processors each part was given: `system`, `upstream`, `generator`; empty when nothing was pinned.
    pub pinned: BTreeMap<String, Vec<u32>>,
    /// How the caps of `hardware` were enforced: `cgroup`, `affinity`, `none`.
    pub caps: Option<String>,
    /// Processors and memory that `hardware` gives to a system.
    pub hardware_cpus: Option<u32>,
    /// See `hardware_cpus`.
    pub hardware_memory_bytes: Option<u64>,
    /// Where systems ran: `local`, `ssh user@host`.
    pub deploy: String,
    /// The machines that sent the load; empty when it was sent from the one on which Gauge ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorMachine>,
    /// Versions of what took part besides the systems: generators, the backend.
    pub versions: BTreeMap<String, String>,
    /// Commit of the checkout, when there is one.
    pub commit: Option<String>,
}

/// A machine that sent load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GeneratorMachine {
    /// `generator-1`.
    pub name: String,
    /// `ssh user@host`.
    pub place: String,
    /// Its logical processors.
    pub cpus: u32,
    /// How far its clock was ahead of that of the machine on which Gauge ran; half of the round trip is the error. Null where it does not say.
    pub clock_offset_ms: Option<f64>,
    /// The shortest round trip over ssh by which the clocks were compared.
    pub clock_round_trip_ms: Option<f64>,
}

/// One thing that is compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// Unique: `direct`, a gateway's name, or a name that the evaluation gives (a variant of a gateway).
    pub name: String,
    /// What it is compared as.
    pub role: Role,
    /// Name of the gateway adapter; null for `direct`.
    pub gateway: Option<String>,
    /// The language that a service is written in, where the evaluation says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// Version as the program says it.
    pub version: Option<String>,
    /// Whether it could be measured.
    pub state: SystemState,
    /// The configuration files made for it.
    pub configuration: Vec<ConfigurationFile>,
    /// The command that started it.
    pub command: Vec<String>,
    /// Whether its responses are those of the baseline.
    #[serde(alias = "attestation")]
    pub conformance: Option<Conformance>,
}

/// What a system is compared as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The upstream itself, without a gateway.
    Direct,
    /// A gateway.
    Gateway,
    /// A service under test.
    Service,
    /// The A/A control of the named system: the same once more. What the two differ by is noise. Never ranked.
    #[serde(alias = "twin_of")]
    ControlOf(String),
}

impl Role {
    /// Whether it is compared and ranked: neither the baseline nor an A/A control.
    pub fn is_compared(&self) -> bool {
        matches!(self, Role::Gateway | Role::Service)
    }
}

/// Whether a system could be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemState {
    /// It was measured (its runs say how that went).
    Ready,
    /// Its program is not on the machine: configured, not run here.
    NotHere(String),
    /// It cannot do what the profile requests, or its adapter cannot configure it: not measured, and no failure.
    NotSupported(String),
    /// Its configuration could not be made or it did not start; why.
    Failed(String),
    /// Its responses are not those of the baseline: shown with the differences, not ranked.
    #[serde(alias = "not_attested")]
    NotConforming,
}

/// A file of a system's configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationFile {
    /// Below the system's directory.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// Comparison of a system's responses with those of `direct`, before the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conformance {
    /// Operations compared.
    pub operations: Vec<String>,
    /// What differs; empty when the system passes.
    pub differences: Vec<Difference>,
}

/// Something that a system does otherwise than it must.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// Which operation, or `unknown path`.
    pub operation: String,
    /// `status`, `header NAME`, `body POINTER`, `forwarded NAME`, `treatment`.
    pub what: String,
    /// What `direct` responded, or what is required.
    pub expected: String,
    /// What the system responded.
    pub found: String,
}

/// A workload as it was planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkloadPlan {
    /// Unique in the evaluation.
    pub name: String,
    /// Names of its operations.
    pub operations: Vec<String>,
    /// `gauge`, `wrk`, `hey`, `k6`, `jmeter`.
    pub generator: String,
    /// The load: users and iterations, or a rate and a duration, as in the evaluation.
    pub load: String,
    /// Weight in the score; all weights together need not be 1.
    pub weight: f64,
    /// The same in figures, as far as the plan states them.
    #[serde(default)]
    pub planned: Planned,
    /// Its phases that are measured, where it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhasePlan>,
    /// The payload of its requests by name, where it has one: `default`, `4k`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// The load by name, where the evaluation has one of those: `smoke`, `short`, `full`, `saturation`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// What must be seen of the treatment for the run to count, such as a cache that is on in one system and off in the other.
    pub treatment: Option<Treatment>,
}

/// What a plan states of a load. What it leaves open is null.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    /// Users of a closed loop, or connections of an open one; the mean where it changes.
    pub concurrency: Option<f64>,
    /// Requests per second of an open loop; the mean where it changes.
    pub rate: Option<f64>,
    /// Seconds that a user of a closed loop thinks between two requests, the mean.
    pub think_s: Option<f64>,
    /// Seconds of measured load.
    pub duration_s: Option<f64>,
    /// Requests of all users together.
    pub requests: Option<u64>,
    /// Requests per second that gateways let pass, by the profile `rate-limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_rate: Option<f64>,
}

/// What a workload is meant to cause in a system, and how that is seen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Treatment {
    /// In words: `cache on`.
    pub name: String,
    /// The header of the responses that shows it: `x-cache`.
    pub header: Option<String>,
    /// The value that it must have: `HIT`.
    pub value: Option<String>,
    /// Least share of the responses that must show it.
    pub at_least: Option<f64>,
    /// Largest share of the responses that may show it.
    pub at_most: Option<f64>,
}

/// One system under one workload in one round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Unique, and a file name: `r03-weir.retrieve`.
    pub id: String,
    /// From 1.
    pub round: u32,
    /// Its place in the round's order, from 0.
    pub place: u32,
    /// [`System::name`].
    pub system: String,
    /// [`WorkloadPlan::name`].
    pub workload: String,
    /// How it ended.
    pub state: TrialState,
    /// When it began.
    pub started_unix_ms: Option<u64>,
    /// What the generator measured.
    pub report: Option<Report>,
    /// What was seen of the machine and the processes from the first to the last measured request.
    pub observed: Option<Observed>,
    /// What must be seen in this run: what its system (a variant of a gateway) requests, else its workload.
    #[serde(default)]
    pub treatment: Option<Treatment>,
    /// Share of responses that showed the treatment.
    pub treated: Option<f64>,
    /// Why earlier attempts were repeated: the conditions of the machine or the generator that they did not meet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<String>,
    /// [`WorkloadPlan::payload`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<String>,
    /// [`WorkloadPlan::mode`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// The states of a run. It goes from `planned` through `starting`, `warming` and `measuring` to one of the other three.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    /// Not begun.
    Planned,
    /// The system is being started.
    Starting,
    /// Load that does not count.
    Warming,
    /// Load that counts.
    Measuring,
    /// It ran to its end. Whether its figures may be believed is the verdicts' business.
    Done,
    /// The system failed; why. It counts against the system.
    Failed(String),
    /// The upstream or the generator ended, or no port was free; why. It says nothing of the system.
    Void(String),
    /// It was stopped from outside (Ctrl-C, a killed process); why.
    Aborted(String),
}

impl TrialState {
    /// As it is printed and stored.
    pub fn name(&self) -> &'static str {
        match self {
            TrialState::Planned => "planned",
            TrialState::Starting => "starting",
            TrialState::Warming => "warming",
            TrialState::Measuring => "measuring",
            TrialState::Done => "done",
            TrialState::Failed(_) => "failed",
            TrialState::Void(_) => "void",
            TrialState::Aborted(_) => "aborted",
        }
    }

    /// Why it did not come to its end.
    pub fn reason(&self) -> Option<&str> {
        match self {
            TrialState::Failed(why) | TrialState::Void(why) | TrialState::Aborted(why) => Some(why),
            _ => None,
        }
    }
}

/// What was seen while a run was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Seconds observed.
    pub duration_s: f64,
    /// All processes of the system under test; null for `direct`.
    pub system: Option<Usage>,
    /// All processes of the upstream.
    pub upstream: Option<Usage>,
    /// The generator's process.
    pub generator: Option<Usage>,
    /// The machine.
    pub machine: Machine,
    /// What reached the upstreams meanwhile, as they count it; null where they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Reached>,
    /// Each generator's own part, where other machines send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub generators: Vec<GeneratorPart>,
}

/// What one of several generators did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorPart {
    /// [`GeneratorMachine::name`].
    pub name: String,
    /// Processors that it could use.
    pub cpus: u32,
    /// CPU time of its process, seconds.
    pub cpu_s: Option<f64>,
    /// Its requests.
    pub requests: report::Requests,
    /// Responses per second.
    pub achieved: Option<f64>,
    /// How late it sent by itself: see [`report::Measurement::generator_lag`].
    pub lag: Option<report::Latency>,
}

/// What reached the upstreams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// Requests.
    pub requests: u64,
    /// Bytes of their bodies, without framing.
    pub body_bytes: u64,
}

/// What processes used, all of a part together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_s: Option<f64>,
    /// CPU time in the kernel.
    pub system_s: Option<f64>,
    /// Proportional memory (PSS: shared pages divided among those who share them) at its highest; null where the kernel did not say.
    #[serde(default)]
    pub pss_peak_bytes: Option<u64>,
    /// Resident memory at its highest: the sum over the processes, in which shared pages count for each.
    pub rss_peak_bytes: Option<u64>,
    /// Resident memory, mean over the samples.
    pub rss_mean_bytes: Option<u64>,
    /// Context switches because the process waited.
    pub voluntary_switches: Option<u64>,
    /// Context switches because its time was up.
    pub involuntary_switches: Option<u64>,
    /// Processes, the most seen.
    pub processes: Option<u32>,
    /// Threads, the most seen.
    pub threads: Option<u32>,
    /// Open file descriptors, the most seen.
    pub descriptors: Option<u32>,
    /// Processors it could use.
    pub cpus: Option<u32>,
    /// Two samples a second, or so.
    pub samples: Vec<Sample>,
}

/// A part's use at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the measuring began.
    pub at_s: f64,
    /// CPU time since the sample before, over the time since then: 1 is one processor.
    pub cpu: f64,
    /// Resident memory.
    pub rss_bytes: u64,
    /// Proportional memory; null where the kernel did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pss_bytes: Option<u64>,
    /// Context switches since the sample before, voluntary and involuntary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_switches: Option<u64>,
    /// Seconds since the sample before in which a quota of processor time held it up; null without a control group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_s: Option<f64>,
}

/// The machine during a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Share of the processors' time that the host gave to others, at least; all processors together.
    pub steal: Option<f64>,
    /// The same of each processor.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub steal_by_cpu: BTreeMap<u32, f64>,
    /// Times that a limit on processor time (a quota of a control group) or the heat of a processor held something up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<u64>,
    /// Frequency of the processors at the end, the mean, where the kernel says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mhz: Option<f64>,
    /// Share of the processors' time that was used by anything.
    pub busy: Option<f64>,
    /// Load average of the last minute at the end.
    pub load1: Option<f64>,
}

/// A search for the highest rate that meets the SLO.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    /// [`System::name`].
    pub system: String,
    /// [`WorkloadPlan::name`].
    pub workload: String,
    /// From 1: a search is repeated as runs are.
    pub round: u32,
    /// What was tried, in order.
    pub points: Vec<Point>,
    /// The highest rate that met the SLO when it was confirmed, requests per second.
    pub highest: Option<f64>,
    /// Why there is no `highest`, where that is the system's doing: it counts against it.
    pub failed: Option<String>,
    /// Why there is no `highest`, where that is the machine's or the generator's doing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// One rate of a search or of a curve of latency against rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Requests per second requested.
    pub rate: f64,
    /// Whether the SLO was met.
    pub met: bool,
    /// A second look at a rate that had met it.
    pub confirmation: bool,
    /// Why it says nothing of the system: a condition of the machine or the generator that was not met, also when repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
    /// What was measured.
    pub report: Report,
    /// CPU time of the system per response, seconds.
    pub cpu_per_request_s: Option<f64>,
}
