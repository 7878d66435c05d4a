//! A generator on the other machine: a process whose output is read here, over the connection that is there.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::shell::quoted;
use super::{Ssh, Started};
use crate::deploy::{Clock, DeployError, GeneratorHost, Handle, Piped, Spec};

/// Round trips by which clocks are compared: the shortest of them is that with the least waiting in it.
const TRIPS: u32 = 9;
/// More files than a description of gRPC has.
const MOST_FILES: usize = 500;

impl GeneratorHost for Ssh {
    fn start_piped(&mut self, spec: &Spec) -> Result<Piped, DeployError> {
        self.next += 1;
        let logs = self.directory.join("logs");
        let log = logs.join(format!("{}-{}.log", self.next, spec.name));
        let (folder, file) = (quoted(&logs.to_string_lossy()), quoted(&log.to_string_lossy()));
        // A process of a session of its own (sshd makes one), whose number is that of its group.
        let script = format!("mkdir -p {folder}; echo $$; {{ {}; }} 2>{file}", Self::line(spec));
        let mut command = self.shell.beside();
        command.arg(format!("exec sh -c {}", quoted(&script)));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| DeployError::file("ssh", error))?;
        let gone = |said: String| self.shell.error(format!("cannot start {}: {said}", spec.name));
        let mut stdout = child.stdout.take().ok_or_else(|| gone("its output is not available".to_owned()))?;
        let first = first_line(&mut stdout);
        let Ok(pid) = first.trim().parse() else {
            let _ = child.kill();
            let _ = child.wait();
            return Err(gone(first));
        };
        let handle = Handle(self.next);
        self.piped.insert(handle, child);
        self.started.insert(handle, Started { pid, name: spec.name.clone(), log, seen: None });
        // It ends with the connection, as all that was started there.
        self.shell.exchange(&format!("gauge_groups=\"$gauge_groups {pid}\""))?;
        Ok(Piped { handle, stdout })
    }

    fn say(&mut self, handle: Handle, line: &str) {
        if let Some(stdin) = self.piped.get_mut(&handle).and_then(|child| child.stdin.as_mut()) {
            let _ = writeln!(stdin, "{line}").and_then(|()| stdin.flush());
        }
    }

    fn exit_code(&mut self, handle: Handle) -> Option<i32> {
        let status = self.piped.get_mut(&handle)?.try_wait().ok()??;
        // Ended by a signal is ssh itself, with its connection.
        Some(status.code().unwrap_or(255))
    }

    fn read(&mut self, file: &Path) -> Result<String, DeployError> {
        let (status, text) = self.shell.status(&format!("cat {}", quoted(&file.to_string_lossy())), READ)?;
        if status == 0 { Ok(text) } else { Err(self.shell.error(text)) }
    }

    fn upload_data(&mut self, file: &Path) -> Result<PathBuf, DeployError> {
        if let Some(there) = self.brought.get(file) {
            return Ok(there.clone());
        }
        let folder = self.directory.join("data").join(self.brought.len().to_string());
        let of = |name: &Path| folder.join(name);
        let base = file.parent().unwrap_or(Path::new("/"));
        let mut files = vec![file.to_owned()];
        if file.extension().is_some_and(|extension| extension == "proto") {
            files.extend(protos(base).into_iter().filter(|other| other != file));
        }
        for one in &files {
            let bytes = fs::read(one).map_err(|error| DeployError::file(one, error))?;
            self.copy(&of(one.strip_prefix(base).unwrap_or(one)), "600", &bytes)?;
        }
        let there = of(file.strip_prefix(base).unwrap_or(file));
        self.brought.insert(file.to_owned(), there.clone());
        Ok(there)
    }

    fn clock(&mut self) -> Option<Clock> {
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs_f64());
        let mut best: Option<Clock> = None;
        for _ in 0..TRIPS {
            let (sent, begun) = (now()?, Instant::now());
            let said = self.shell.exchange("date +%s.%N").ok()?;
            let trip = begun.elapsed().as_secs_f64();
            // Where `date` has no nanoseconds it prints the letter.
            let there: f64 = said.trim().parse().ok()?;
            let clock = Clock { offset_ms: (there - (sent + trip / 2.0)) * 1e3, round_trip_ms: trip * 1e3 };
            if best.is_none_or(|best| clock.round_trip_ms < best.round_trip_ms) {
                best = Some(clock);
            }
        }
        best
    }
}

/// Time for a report to come.
const READ: Duration = Duration::from_secs(300);

/// A line without what follows it, which stays to be read.
fn first_line(stdout: &mut ChildStdout) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.len() < 1000 && stdout.read(&mut byte).is_ok_and(|length| length == 1) && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8_lossy(&line).into_owned()
}

/// The `.proto` files below a folder.
fn protos(folder: &Path) -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "proto") && path.is_file() {
                found.push(path);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            }
            if found.len() >= MOST_FILES || folders.len() >= MOST_FILES {
                return found;
            }
        }
    }
    found
}
