//! From what the file says to a plan: names, places, numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_saphyr::{Location, Spanned};

use super::file::{self, ControlFile, DeployFile, File, GatewayFile};
use super::{
    Backend, ConformancePlan, Deploy, Fleet, Forwarded, Hardware, Made, Pin, Plan, PlanError, Problem, System,
    SystemKind, Terraform, Variant, programs, suits,
};
use crate::criterion::{CRITERIA, Criterion};
use crate::gateway;
use crate::profile::Profile;
use crate::results::{DIRECT, Price, Slo, Treatment};

/// More rounds than anybody waits for.
const MOST_ROUNDS: u32 = 1000;

/// What checks share: where paths count from, and what was found wrong so far.
pub(super) struct Check {
    pub(super) folder: PathBuf,
    pub(super) problems: Vec<Problem>,
    /// Files that cannot be read end the program otherwise than files that make no sense.
    pub(super) unreadable: Option<(PathBuf, std::io::Error)>,
}

impl Check {
    pub(super) fn wrong(&mut self, at: Location, text: impl Into<String>) {
        let at = (at.line() > 0).then(|| (at.line(), at.column()));
        self.problems.push(Problem { at, text: text.into() });
    }

    /// A path of the evaluation.
    pub(super) fn path(&self, path: &Path) -> PathBuf {
        tidy(&self.folder.join(path))
    }

    /// A file that the evaluation names, as text.
    pub(super) fn text(&mut self, path: &Path) -> Option<String> {
        let path = self.path(path);
        match std::fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) => {
                self.unreadable.get_or_insert((path, error));
                None
            }
        }
    }
}

/// Takes `a/../` out, so that messages show paths as people write them. Links are not followed.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir if out.file_name().is_some() => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

/// The plan in `text`, which was read from `file`; `shown` is how messages name it.
pub(super) fn plan(file: &Path, shown: &Path, text: String) -> Result<Plan, PlanError> {
    let wrong = |problems| PlanError::Wrong { file: shown.to_owned(), problems };
    let read: File = serde_saphyr::from_str(&text).map_err(|error| {
        // Its own words name the place too, in a way of their own.
        wrong(vec![Problem { at: None, text: error.to_string() }])
    })?;
    let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
    let mut check = Check { folder, problems: Vec::new(), unreadable: None };
    let plan = build(&mut check, read, file, text);
    if let Some((file, error)) = check.unreadable {
        return Err(PlanError::Unreadable { file, error });
    }
    match plan {
        Some(plan) if check.problems.is_empty() => {
            if let Deploy::Hosts(hosts) = &plan.deploy
                && let Ok(fleet) = Fleet::new(hosts, None)
                && let Err(text) = suits(&plan, &fleet)
            {
                return Err(wrong(vec![Problem { at: None, text }]));
            }
            Ok(plan)
        }
        _ => Err(wrong(check.problems)),
    }
}

fn build(check: &mut Check, mut read: File, file: &Path, text: String) -> Option<Plan> {
    if let Some(Spanned { value, defined, .. }) = read.folder.take() {
        check.folder = check.path(&value);
        if !check.folder.is_dir() {
            check.wrong(defined, format!("`folder` is {}, which is not a folder", check.folder.display()));
            return None;
        }
    }
    if let Profile::Grpc(grpc) = &mut read.profile {
        grpc.proto = check.path(&grpc.proto);
    }
    if read.name.value.trim().is_empty() {
        check.wrong(read.name.defined, "the name is empty; reports need one");
    }
    let api_file = check.path(&read.api.value);
    if let Err(error) = std::fs::metadata(&api_file) {
        check.unreadable = Some((api_file, error));
        return None;
    }
    let api = match super::read_description(&api_file) {
        Ok(read) => read.api,
        Err(problems) => {
            check.wrong(read.api.defined, format!("the API description cannot be used:\n{problems}"));
            return None;
        }
    };
    let repeats = match &read.repeats {
        Some(repeats) if !(1..=MOST_ROUNDS).contains(&repeats.value) => {
            check.wrong(repeats.defined, format!("{} rounds; there must be 1 to {MOST_ROUNDS}", repeats.value));
            1
        }
        Some(repeats) => repeats.value,
        None => 10,
    };
    let services = !read.systems.is_empty();
    let baseline = baseline(check, read.baseline, services);
    let mut systems = gateways(check, read.gateways, baseline);
    if services && systems.iter().any(|system| system.variant().is_some()) {
        let text = "an evaluation compares `gateways` or `systems`, not both: make two of it".to_owned();
        check.problems.push(Problem { at: None, text });
    }
    if services && !matches!(read.profile, Profile::PassThrough) {
        let text = "a `profile` says what gateways do; leave it out where `systems` are compared".to_owned();
        check.problems.push(Problem { at: None, text });
    }
    let over_grpc: Vec<_> =
        read.systems.iter().filter_map(|system| Some(system.value.grpc.as_ref()?.defined)).collect();
    systems.extend(programs::services(check, read.systems, &api));
    controls(check, &mut systems, read.control);
    for system in systems.iter_mut().filter(|system| !matches!(system.kind, SystemKind::Direct)) {
        system.treatment = system.treatment.take().or_else(|| read.profile.treatment());
    }
    let reference = read.reference.map(|Spanned { value, defined, .. }| {
        if !systems.iter().any(|system| system.name == value) {
            check.wrong(defined, format!("`reference` names `{value}`, which is not one of the systems"));
        }
        value
    });
    let mut builds = Vec::new();
    for one in read.build {
        builds.extend(programs::build_command(check, one));
    }
    let backends = programs::backends(check, read.backend.0, &api, services);
    let hardware = hardware(check, read.hardware);
    let slo = read.slo.map(slo);
    let mut fail = Vec::new();
    for (metric, Spanned { value, defined, .. }) in read.fail {
        match super::threshold::read(&metric, &value) {
            Ok(threshold) => fail.push(threshold),
            Err(problem) => check.wrong(defined, problem),
        }
    }
    // So many rounds have searches that their systems can be distinguished.
    let searched = crate::stats::rounds_to_declare_scores(super::compared(&systems).count()) as u32;
    let mut workloads = Vec::new();
    for workload in read.workloads {
        workloads.extend(super::workloads::workload(check, workload, &api, read.warmup, slo, searched, &read.profile));
    }
    if let Some(seed) = read.seed {
        let operations =
            workloads.iter_mut().flat_map(|workload| workload.operations.iter_mut().chain(&mut workload.setup));
        for planned in operations {
            if let Some(Made::Events { seed: own, .. }) = &mut planned.made {
                *own = seed;
            }
        }
    }
    if check.problems.is_empty() {
        let own = systems.iter().filter(|system| system.control_of.is_none());
        let calls = own.filter_map(|system| system.service()?.grpc.as_ref());
        for (calls, place) in calls.zip(over_grpc) {
            workloads.iter().for_each(|workload| super::workloads::callable(check, workload, calls, place));
        }
    }
    if workloads.is_empty() && check.problems.is_empty() {
        check.problems.push(Problem { at: None, text: "there is no workload; add one to `workloads`".to_owned() });
    }
    let mut names = BTreeSet::new();
    for workload in &workloads {
        if !names.insert(slug(&workload.name)) {
            let text = format!("two workloads are called `{}`, up to signs that file names cannot have", workload.name);
            check.problems.push(Problem { at: None, text });
        }
    }
    let before_each = programs::before_each(check, read.before_each, &workloads);
    if !services && !before_each.is_empty() {
        let text =
            "`before_each` is for `systems`; in front of gateways a backend has `restart` and `reset`".to_owned();
        check.problems.push(Problem { at: None, text });
    }
    let conformance = conformance(check, read.conformance, &api);
    for (part, weight) in &read.weights {
        if Criterion::named(part).is_none() {
            let known: Vec<&str> = CRITERIA.iter().map(|criterion| criterion.name).collect();
            let text =
                format!("`weights` has `{part}`, which is not a criterion; expected one of {}", known.join(", "));
            check.problems.push(Problem { at: None, text });
        }
        if !(weight.is_finite() && *weight >= 0.0) {
            let text = format!("the weight of `{part}` is {weight}; a weight is 0 or more");
            check.problems.push(Problem { at: None, text });
        }
    }
    let price = read.price.map(|Spanned { value, defined, .. }| {
        let valid = |price: f64| price.is_finite() && price >= 0.0;
        if !valid(value.vcpu_hour) || !valid(value.gib_hour) || value == Price::default() {
            check.wrong(
                defined,
                "`price` needs `vcpu_hour`, `gib_hour` or both, of 0 or more: {vcpu_hour: 0.04, gib_hour: 0.005}",
            );
        }
        value
    });
    let deploy = match read.deploy {
        DeployFile::Local => Deploy::Local,
        DeployFile::Ssh(mut ssh) => {
            // ssh takes what begins with a dash for an option, and some options run commands.
            for (name, value) in [("host", Some(&ssh.host)), ("user", ssh.user.as_ref())] {
                let plain = |text: &String| {
                    !text.is_empty()
                        && !text.starts_with('-')
                        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
                };
                if value.is_some_and(|value| !plain(value)) {
                    let text = format!(
                        "`{name}` of `ssh` is `{}`; a {name} does not begin with a dash and has no blanks",
                        value.map_or("", String::as_str)
                    );
                    check.problems.push(Problem { at: None, text });
                }
            }
            ssh.identity = ssh.identity.map(|file| check.path(&file));
            Deploy::Ssh(ssh)
        }
        DeployFile::Hosts(mut hosts) => {
            for host in &mut hosts {
                host.key_from(&check.folder);
            }
            let problems = Fleet::new(&hosts, None).err().unwrap_or_default();
            check
                .problems
                .extend(problems.into_iter().map(|text| Problem { at: None, text: format!("`deploy`: {text}") }));
            Deploy::Hosts(hosts)
        }
        DeployFile::Terraform(file) => {
            let folder = check.path(&file.terraform);
            if !folder.is_dir() {
                let text = format!("`terraform` of `deploy` is {}, which is not a folder", folder.display());
                check.problems.push(Problem { at: None, text });
            }
            Deploy::Terraform(Terraform { folder, program: file.program, vars: file.vars, keep: file.keep })
        }
    };
    if !matches!(deploy, Deploy::Local) && matches!(read.profile, Profile::Life(_)) {
        let text =
            "the profile `life` sends signals, which it does on this machine only; leave `deploy` out".to_owned();
        check.problems.push(Problem { at: None, text });
    }
    let secrets = secrets(&systems, &backends);
    Some(Plan {
        file: file.to_owned(),
        text: super::redact(&text, &secrets),
        secrets,
        folder: check.folder.clone(),
        name: read.name.value,
        description: read.description,
        api,
        profile: read.profile,
        systems,
        builds,
        backends,
        before_each,
        hardware,
        deploy,
        workloads,
        conformance,
        repeats,
        slo,
        fail,
        reference,
        price,
        weights: read.weights,
        fixed_order: read.workload_order == file::WorkloadOrder::Fixed,
        quick: false,
    })
}

/// Values of variables that are secrets by their names.
fn secrets(systems: &[System], backends: &[Backend]) -> Vec<String> {
    const MARKS: [&str; 5] = ["SECRET", "TOKEN", "PASSWORD", "KEY", "CREDENTIAL"];
    let variants = systems.iter().filter_map(System::variant).flat_map(|variant| &variant.env);
    let services = systems.iter().filter_map(System::service);
    let programs = services.chain(backends.iter().map(|backend| &backend.program));
    let secret = |name: &str| MARKS.iter().any(|mark| name.to_ascii_uppercase().contains(mark));
    let all = variants.chain(programs.flat_map(|program| &program.env));
    let mut found: Vec<String> = all.filter(|(name, _)| secret(name)).map(|(_, value)| value.clone()).collect();
    // The longest first: one may hold another.
    found.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    found.dedup();
    found
}

/// A name as part of a file's: small letters, digits and dashes.
pub fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => out.push(c),
            _ if out.ends_with('-') || out.is_empty() => {}
            _ => out.push('-'),
        }
    }
    out.trim_end_matches('-').to_owned()
}

/// Whether there is a baseline: the same load without a gateway. In front of services there is nothing to leave out.
fn baseline(check: &mut Check, read: Option<Spanned<bool>>, services: bool) -> bool {
    match read {
        Some(Spanned { value: true, defined, .. }) if services => {
            check.wrong(defined, "a baseline is the load without a gateway; among `systems` there is none");
            false
        }
        Some(baseline) => baseline.value,
        None => !services,
    }
}

fn gateways(check: &mut Check, gateways: Vec<Spanned<GatewayFile>>, baseline: bool) -> Vec<System> {
    let mut systems = Vec::new();
    if baseline {
        systems.push(System { name: DIRECT.to_owned(), kind: SystemKind::Direct, control_of: None, treatment: None });
    }
    let mut seen = BTreeSet::from([DIRECT.to_owned()]);
    for Spanned { value: GatewayFile(map), defined, .. } in gateways {
        if gateway::by_name(&map.gateway).is_none() {
            let known: Vec<&str> = gateway::all().iter().map(|gateway| gateway.name()).collect();
            let text = format!("unknown gateway `{}`; expected one of {}", map.gateway, known.join(", "));
            check.wrong(defined, text);
            continue;
        }
        let name = map.name.unwrap_or_else(|| map.gateway.clone());
        if slug(&name).is_empty() || !seen.insert(slug(&name)) {
            let text = format!("the name `{name}` is taken (`direct` always is) or empty; give it another `name`");
            check.wrong(defined, text);
        }
        let mut files = BTreeMap::new();
        for (path, own) in map.files {
            let inside = Path::new(&path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            if path.is_empty() || !inside {
                check.wrong(defined, format!("`{path}` is not a path below the gateway's directory; write nginx.conf"));
            }
            if let Some(text) = check.text(&own) {
                files.insert(path, text);
            }
        }
        let treatment = map.treatment.map(treatment);
        let variant = Variant { gateway: map.gateway, files, env: map.env };
        systems.push(System { name, kind: SystemKind::Gateway(variant), control_of: None, treatment });
    }
    systems
}

/// Adds the A/A controls.
fn controls(check: &mut Check, systems: &mut Vec<System>, control: Option<Spanned<ControlFile>>) {
    let compared: Vec<String> = super::compared(systems).map(|system| system.name.clone()).collect();
    let of: Vec<String> = match control {
        None => compared.into_iter().take(1).collect(),
        Some(Spanned { value: ControlFile::Off, .. }) => Vec::new(),
        Some(Spanned { value: ControlFile::All, .. }) => compared,
        Some(Spanned { value: ControlFile::Of(name), defined, .. }) => {
            if !compared.contains(&name) {
                check.wrong(defined, format!("`control` names `{name}`, which is not one of the gateways or systems"));
            }
            vec![name]
        }
    };
    for of in of {
        let Some(original) = systems.iter().find(|system| system.name == of).cloned() else { continue };
        let name = format!("{of} (control)");
        if systems.iter().any(|system| slug(&system.name) == slug(&name)) {
            let text =
                format!("a system is called as the A/A control of `{of}` will be, `{name}`; give it another `name`");
            check.problems.push(Problem { at: None, text });
        }
        systems.push(System { name, control_of: Some(of), ..original });
    }
    if systems.is_empty() {
        let text =
            "there is nothing to compare: `gateways` and `systems` are empty, and `baseline` is false".to_owned();
        check.problems.push(Problem { at: None, text });
    }
}

fn hardware(check: &mut Check, read: file::HardwareFile) -> Hardware {
    let cpus = match read.cpus {
        Some(Spanned { value: 0, defined, .. }) => {
            check.wrong(defined, "0 processors; a system needs at least one");
            1
        }
        Some(cpus) => cpus.value,
        None => 1,
    };
    let pin = read.pin.map(|Spanned { value: pin, defined, .. }| {
        if pin.system.len() != cpus as usize {
            check.wrong(
                defined,
                format!("`pin.system` names {} processors and `cpus` is {cpus}; they must agree", pin.system.len()),
            );
        }
        if pin.upstream.is_empty() || pin.generator.is_empty() {
            check.wrong(defined, "`pin` names processors for all of system, upstream and generator, or is left out");
        }
        Pin { system: pin.system, upstream: pin.upstream, generator: pin.generator }
    });
    Hardware { cpus, memory_bytes: read.memory, pin }
}

pub(super) fn slo(read: file::SloFile) -> Slo {
    let ms = |duration: std::time::Duration| duration.as_secs_f64() * 1000.0;
    Slo { p50_ms: read.p50.map(ms), p95_ms: read.p95.map(ms), p99_ms: read.p99.map(ms), errors: read.errors }
}

pub(super) fn treatment(read: file::TreatmentFile) -> Treatment {
    Treatment {
        name: read.name,
        header: Some(read.header),
        value: read.value,
        at_least: read.at_least,
        at_most: read.at_most,
    }
}

fn conformance(check: &mut Check, read: file::ConformanceFile, api: &apidoc::Api) -> ConformancePlan {
    let mut differs = BTreeMap::new();
    for (operation, Spanned { value: pointers, defined, .. }) in read.differs {
        if operation != "*" && api.operation(&operation).is_none() {
            check.wrong(defined, format!("the API has no operation `{operation}`; `*` stands for all"));
        }
        for pointer in pointers.iter().filter(|pointer| !pointer.starts_with('/')) {
            check.wrong(
                defined,
                format!("`{pointer}` is not a JSON pointer (RFC 6901); it begins with a slash: /token"),
            );
        }
        differs.insert(operation, pointers);
    }
    let forwarded = read.forwarded.map(|Spanned { value, defined, .. }| {
        if api.operation(&value.operation).is_none() {
            check.wrong(defined, format!("the API has no operation `{}`", value.operation));
        }
        let headers = value.headers.into_iter().map(|(name, at)| (name.to_ascii_lowercase(), at)).collect();
        Forwarded { operation: value.operation, headers }
    });
    let headers = read.headers.unwrap_or_else(|| vec!["content-type".to_owned()]);
    ConformancePlan {
        headers: headers.into_iter().map(|name| name.to_ascii_lowercase()).collect(),
        differs,
        forwarded,
        unknown_path: read.unknown_path.unwrap_or(true),
    }
}
