//! Programs that were started here: `gauge run`, one at a time, since two would measure each other.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::Options;

/// What the program says goes to this file beside the results.
pub(super) const LOG: &str = "gauge.log";
/// Folder of results in the folder of evaluations.
pub(super) const RESULTS: &str = "results";
/// Time for programs to end when this one does.
const END: Duration = Duration::from_secs(30);
/// Between two looks at whether a program has ended.
const LOOK: Duration = Duration::from_millis(50);

/// All that were started, by key.
#[derive(Debug, Default)]
pub(super) struct Starts(Mutex<BTreeMap<String, Start>>);

#[derive(Debug)]
struct Start {
    child: Child,
    shown: Started,
}

/// A program that was started.
#[derive(Debug, Clone)]
pub(super) struct Started {
    /// Part of its path here.
    pub(super) key: String,
    /// Name of the evaluation.
    pub(super) name: String,
    /// The evaluation, as a path in the folder.
    pub(super) file: String,
    /// Directory of its results.
    pub(super) out: PathBuf,
    /// Its exit code when it has ended, or 128 and the signal; none while it runs.
    pub(super) code: Option<i32>,
    /// It was told to end.
    pub(super) stopped: bool,
}

/// Why nothing was started.
pub(super) enum NotStarted {
    /// One runs: its key.
    Busy(String),
    System(io::Error),
}

impl Starts {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Start>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for start in all.values_mut().filter(|start| start.shown.code.is_none()) {
            if let Ok(Some(status)) = start.child.try_wait() {
                use std::os::unix::process::ExitStatusExt;
                start.shown.code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
            }
        }
        all
    }

    /// Starts an evaluation, which was found in the folder.
    pub(super) fn start(
        &self,
        options: &Options,
        file: &Path,
        shown: &str,
        name: &str,
        quick: bool,
    ) -> Result<String, NotStarted> {
        let mut all = self.lock();
        if let Some(running) = all.values().find(|start| start.shown.code.is_none()) {
            return Err(NotStarted::Busy(running.shown.key.clone()));
        }
        let (key, out) = self.directory(&options.folder, name, &all).map_err(NotStarted::System)?;
        let log = File::create(out.join(LOG)).map_err(NotStarted::System)?;
        let both = log.try_clone().map_err(NotStarted::System)?;
        let mut command = Command::new(&options.gauge);
        // The paths are absolute, so that none is taken for an option.
        command.arg("run").arg(file).arg("--out").arg(&out);
        if let Some(store) = &options.store {
            command.arg(format!("--store={store}"));
        }
        if quick {
            command.arg("--quick");
        }
        // A Ctrl-C for this program is not one for all that it started: they are told in order.
        command.process_group(0).stdin(Stdio::null()).stdout(log).stderr(both);
        let child = command.spawn().map_err(NotStarted::System)?;
        let shown = Started {
            key: key.clone(),
            name: name.to_owned(),
            file: shown.to_owned(),
            out,
            code: None,
            stopped: false,
        };
        all.insert(key.clone(), Start { child, shown });
        Ok(key)
    }

    /// A new directory for results, and the key that is its name.
    fn directory(&self, folder: &Path, name: &str, known: &BTreeMap<String, Start>) -> io::Result<(String, PathBuf)> {
        let results = folder.join(RESULTS);
        fs::create_dir_all(&results)?;
        let name = match crate::plan::file_name(name) {
            name if name.is_empty() => "evaluation".to_owned(),
            name => name,
        };
        for number in 1_u32.. {
            let key = format!("{name}-{number}");
            if known.contains_key(&key) {
                continue;
            }
            match fs::create_dir(results.join(&key)) {
                Ok(()) => return Ok((key.clone(), results.join(&key))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// One of them.
    pub(super) fn get(&self, key: &str) -> Option<Started> {
        self.lock().get(key).map(|start| start.shown.clone())
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Started> {
        self.lock().values().map(|start| start.shown.clone()).collect()
    }

    /// Tells one to end in order: what it has measured is kept. `false` when there is none.
    pub(super) fn stop(&self, key: &str) -> bool {
        let mut all = self.lock();
        let Some(start) = all.get_mut(key) else { return false };
        end(start);
        true
    }

    /// Tells all to end, and waits for them.
    pub(super) fn end(&self) {
        self.lock().values_mut().for_each(end);
        let deadline = Instant::now() + END;
        while self.lock().values().any(|start| start.shown.code.is_none()) && Instant::now() < deadline {
            std::thread::sleep(LOOK);
        }
    }
}

fn end(start: &mut Start) {
    if start.shown.code.is_some() {
        return;
    }
    start.shown.stopped = true;
    // It was not waited for, so its number is still its own.
    let pid = i32::try_from(start.child.id()).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, Signal::TERM);
    }
}
