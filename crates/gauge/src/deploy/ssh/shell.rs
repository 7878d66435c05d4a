//! A shell on the other machine that runs one command after the other.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::deploy::DeployError;
use crate::launch::{Launch, tail};
use crate::plan;

/// Time to connect, keys and all.
const CONNECT: Duration = Duration::from_secs(30);
/// Time for a response to a small question.
const RESPONSE: Duration = Duration::from_secs(60);

/// What the shell knows from the start: how to end what was started, also when the connection breaks off, and how to look at it.
const PRELUDE: &str = r#"
gauge_groups= gauge_dir=
gauge_alive() { case "$(cat "/proc/$1/stat" 2>/dev/null)" in ''|*') Z '*|*') X '*) return 1;; esac; }
gauge_stop() {
  kill -s "$2" "$1" 2>/dev/null
  n=0
  while [ "$n" -lt "$3" ] && gauge_alive "$1"; do sleep 0.1; n=$((n + 1)); done
  kill -s KILL -- "-$1" 2>/dev/null
  wait "$1" 2>/dev/null
  left=
  for g in $gauge_groups; do [ "$g" = "$1" ] || left="$left $g"; done
  gauge_groups=$left
}
gauge_look() {
  ps -e -o pid= -o pgid= | while read -r p g; do
    [ "$g" = "$1" ] || continue
    echo "P $p"
    echo "S $(cat "/proc/$p/stat" 2>/dev/null)"
    grep ^Pss: "/proc/$p/smaps_rollup" 2>/dev/null
    echo "F $(ls "/proc/$p/fd" 2>/dev/null | wc -l)"
    cat "/proc/$p/task/"*/schedstat 2>/dev/null | sed 's/^/C /'
    cat "/proc/$p/task/"*/status 2>/dev/null | grep ctxt_switches
  done
}
gauge_end() {
  trap - EXIT HUP INT TERM PIPE
  for g in $gauge_groups; do kill -s KILL -- "-$g" 2>/dev/null; done
  [ -z "$gauge_dir" ] || rm -rf "$gauge_dir"
  exit 0
}
trap gauge_end EXIT HUP INT TERM PIPE
"#;

/// A shell there, and the connection that it shares with copies and tunnels.
#[derive(Debug)]
pub(super) struct Shell {
    host: String,
    options: Vec<String>,
    /// The connection's socket lies in it.
    _folder: tempfile::TempDir,
    _held: std::fs::File,
    socket: PathBuf,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
    sent: u64,
}

/// A word for the shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Names of the folders of connections.
const PREFIX: &str = "gauge-control-";
/// A folder that is younger may not be held yet.
const YOUNG: Duration = Duration::from_secs(60);

/// A folder for the socket of a connection, and what shows that it is in use. Those of programs that were killed are removed.
fn folder_in(parent: &Path) -> std::io::Result<(tempfile::TempDir, std::fs::File)> {
    let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        let age = entry.metadata().and_then(|found| found.modified()).map(|since| since.elapsed().unwrap_or_default());
        let is_young = age.is_ok_and(|age| age < YOUNG);
        // The lock ends with the program, however it ends.
        if !is_young && std::fs::File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
    let held = std::fs::File::open(folder.path())?;
    held.lock()?;
    Ok((folder, held))
}

impl Shell {
    pub(super) fn open(gauge: &Path, config: &plan::Ssh, log: &Path) -> Result<Self, DeployError> {
        let (folder, held) =
            folder_in(&std::env::temp_dir()).map_err(|error| DeployError::file(std::env::temp_dir(), error))?;
        let socket = folder.path().join("control");
        let log = log.to_owned();
        let file = std::fs::File::create(&log).map_err(|error| DeployError::file(&log, error))?;
        let mut options: Vec<String> = vec!["-o".to_owned(), "BatchMode=yes".to_owned()];
        if let Some(port) = config.port {
            options.extend(["-p".to_owned(), port.to_string()]);
        }
        if let Some(user) = &config.user {
            options.extend(["-l".to_owned(), user.clone()]);
        }
        if let Some(identity) = &config.identity {
            options.extend(["-i".to_owned(), identity.to_string_lossy().into_owned()]);
        }
        for option in &config.options {
            options.extend(["-o".to_owned(), option.clone()]);
        }
        let mut argv: Vec<std::ffi::OsString> = vec!["ssh".into(), "-T".into()];
        argv.extend(options.iter().map(Into::into));
        argv.extend(["-o".into(), "ControlMaster=yes".into(), "-o".into(), "ControlPersist=no".into()]);
        argv.extend(["-o".into(), "ServerAliveInterval=15".into(), "-S".into(), socket.clone().into()]);
        // What follows `--` is a host and never an option, whatever it begins with.
        argv.extend(["--".into(), config.host.clone().into(), "exec sh".into()]);
        // Through the launcher, so that the connection ends with this program, however it ends.
        let launch = Launch { parent: std::process::id() as i32, argv, ..Launch::default() };
        let mut command = Command::new(gauge);
        command.args(launch.arguments()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(file);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let fail = |why: String| DeployError::Start { program: "ssh".to_owned(), why };
        let mut child = command.spawn().map_err(|error| fail(error.to_string()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        if let Some(stdout) = stdout {
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stdout);
                let mut line = Vec::new();
                while reader.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                    if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                        return;
                    }
                    line.clear();
                }
            });
        }
        let host = config.host.clone();
        let mut shell =
            Shell { host, options, _folder: folder, _held: held, socket, child, stdin, lines, log, sent: 0 };
        shell.status(PRELUDE, CONNECT)?;
        Ok(shell)
    }

    /// An error of this machine, with what ssh itself said last.
    pub(super) fn error(&self, why: String) -> DeployError {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        let why = match tail(&said, 3) {
            said if said.is_empty() => why,
            said => format!("{why}; ssh says: {said}"),
        };
        let host = self.host.clone();
        if self.sent == 1 { DeployError::NoConnection { host, why } } else { DeployError::Remote { host, why } }
    }

    /// Runs lines there; what they print, both streams. That they fail is no error.
    pub(super) fn exchange(&mut self, lines: &str) -> Result<String, DeployError> {
        self.status(lines, RESPONSE).map(|(_, text)| text)
    }

    /// The same with the exit status of the last one.
    pub(super) fn status(&mut self, lines: &str, timeout: Duration) -> Result<(i32, String), DeployError> {
        self.sent += 1;
        let mark = format!("gauge-{}-{}", std::process::id(), self.sent);
        let script = format!("{{ {lines}\n}} 2>&1 </dev/null\nprintf '\\n%s %s\\n' {mark} $?\n");
        let written = self.stdin.as_mut().map(|stdin| stdin.write_all(script.as_bytes()).and_then(|()| stdin.flush()));
        if !matches!(written, Some(Ok(()))) {
            return Err(self.error(self.broken()));
        }
        let deadline = Instant::now() + timeout;
        let mut text = String::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.strip_prefix(&mark) {
                    Some(status) => {
                        // The line end before the mark is not part of the command's output.
                        text.truncate(text.strip_suffix('\n').map_or(text.len(), str::len));
                        return Ok((status.trim().parse().unwrap_or(1), text));
                    }
                    None => text.push_str(&line),
                },
                Err(RecvTimeoutError::Disconnected) => return Err(self.error(self.broken())),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.error(format!("no response within {} s", timeout.as_secs())));
                }
            }
        }
    }

    fn broken(&self) -> String {
        if self.sent == 1 {
            "no connection: it must work without a password, as in `ssh -o BatchMode=yes HOST true`".to_owned()
        } else {
            "the connection has ended, and with it what ran there".to_owned()
        }
    }

    /// `ssh` with the socket of the connection, for its own commands.
    pub(super) fn control(&self) -> Command {
        let mut command = Command::new("ssh");
        command.args(&self.options).arg("-S").arg(&self.socket);
        command
    }

    /// `ssh` for one more command over the same connection.
    pub(super) fn beside(&self) -> Command {
        let mut command = self.control();
        command.args(["-T", "-o", "ControlMaster=no", "--"]).arg(&self.host);
        command
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        // The end of its input ends the shell there, which tidies up.
        self.stdin = None;
        let deadline = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_programs_are_removed_and_those_in_use_stay() {
        let parent = tempfile::tempdir().expect("a folder");
        let old = || {
            let (folder, held) = folder_in(parent.path()).expect("a folder");
            std::fs::write(folder.path().join("control"), "").expect("a file");
            held.set_modified(std::time::SystemTime::now() - 2 * YOUNG).expect("a time");
            (folder.keep(), held)
        };
        let (in_use, held) = old();
        let (killed, lock) = old();
        drop(lock);
        let young = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent.path()).expect("a folder");
        let other = parent.path().join("another");
        std::fs::create_dir(&other).expect("a folder");
        let _next = folder_in(parent.path()).expect("a folder");
        assert!(!killed.exists());
        assert!(in_use.exists() && young.path().exists() && other.exists());
        drop(held);
    }
}
