//! A small evaluation in a folder of its own, and `gauge` to run it.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::wait;

/// A whole campaign may have to pass first, on a machine that runs others.
const LONG: Duration = Duration::from_secs(120);

/// nginx and `direct`, two rounds of a third of a second.
pub(crate) const GATEWAYS: &str = "name: small
api: api.yaml
gateways: [nginx]
backend:
  command: ['{gauge}', demo, --listen, '{address}:{http}']
  ports: {http: 'http://127.0.0.1:8090'}
  ready: 'http://{address}:{http}/healthz'
  counts: 'http://{address}:{http}/.gauge/counts'
conformance:
  forwarded: {operation: echo, headers: {x-forwarded-for: /headers/x-forwarded-for}}
  differs: {echo: [/headers]}
repeats: 2
warmup: 100ms
workloads:
  - {name: read, operations: [{id: getItem, params: {id: {int: [1, 50]}}}, {id: addItem}, {id: echo}], load: {closed: {users: 4, duration: 300ms}}}
";

pub(crate) struct Campaign {
    folder: tempfile::TempDir,
    pub(crate) out: PathBuf,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Finished {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Finished {
            code: output.status.code().unwrap_or(-1),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }

    pub(crate) fn text(&self) -> String {
        format!("exit code {}\n{}{}", self.code, self.stdout, self.stderr)
    }
}

/// A test that failed in the middle may have killed a campaign: what it left is ended as its user would.
impl Drop for Campaign {
    fn drop(&mut self) {
        let _ = self.command(&["run", "--check", "e.yaml"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
}

impl Campaign {
    pub(crate) fn new(evaluation: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("gauge-run-").tempdir().expect("a folder");
        // Servers that change their user must reach their files.
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).expect("permissions");
        std::fs::create_dir(folder.path().join("runtime")).expect("a folder");
        let api = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/evaluations/demo.openapi.yaml");
        std::fs::copy(api, folder.path().join("api.yaml")).expect("the description");
        let campaign = Campaign { out: folder.path().join("out"), folder };
        campaign.rewrite(evaluation);
        campaign
    }

    pub(crate) fn rewrite(&self, evaluation: &str) {
        self.file("e.yaml", evaluation);
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("a file");
    }

    /// A script that stands for a program; its path.
    pub(crate) fn script(&self, name: &str, lines: &str) -> String {
        self.file(name, &format!("#!/bin/sh\nPATH=$PATH:/usr/sbin:/usr/local/sbin\n{lines}\n"));
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.path(name), executable).expect("permissions");
        self.path(name).to_string_lossy().into_owned()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gauge"));
        command.args(arguments).current_dir(self.folder.path());
        // What other campaigns of this user left is not of this test.
        command.env("XDG_RUNTIME_DIR", self.folder.path().join("runtime")).stdin(Stdio::null());
        command.env("XDG_DATA_HOME", self.folder.path().join("data")).env_remove("DB_HOST");
        command.env("XDG_STATE_HOME", self.folder.path().join("state")).env_remove("TF_CLI_CONFIG_FILE");
        command
    }

    fn run_arguments<'a>(more: &[&'a str]) -> Vec<&'a str> {
        let mut arguments = vec!["run", "e.yaml", "--out", "out"];
        arguments.extend(more);
        arguments
    }

    pub(crate) fn run(&self, more: &[&str]) -> Finished {
        self.run_with(more, &[])
    }

    pub(crate) fn run_with(&self, more: &[&str], env: &[(&str, &str)]) -> Finished {
        let mut command = self.command(&Self::run_arguments(more));
        Finished::of(&command.envs(env.iter().copied()).output().expect("gauge starts"))
    }

    /// `gauge` with these arguments; an evaluation is added where `run` has none.
    pub(crate) fn gauge(&self, arguments: &[&str]) -> Finished {
        let mut command = self.command(arguments);
        if arguments == ["run", "--check"] {
            command.arg("e.yaml");
        }
        Finished::of(&command.output().expect("gauge starts"))
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(&[])
    }

    pub(crate) fn start_with(&self, more: &[&str]) -> Running {
        self.start_in(more, &[])
    }

    pub(crate) fn start_in(&self, more: &[&str], env: &[(&str, &str)]) -> Running {
        let mut command = self.command(&Self::run_arguments(more));
        command.envs(env.iter().copied());
        Running(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("gauge starts"))
    }

    /// The files of runs, with their content.
    pub(crate) fn raw(&self) -> Vec<(String, String)> {
        let mut files: Vec<(String, String)> = std::fs::read_dir(self.out.join("raw"))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                (name.starts_with('r') && name.ends_with(".json"))
                    .then(|| Some((name, std::fs::read_to_string(entry.path()).ok()?)))?
            })
            .collect();
        files.sort_unstable();
        files
    }

    pub(crate) fn trials(&self) -> Vec<Value> {
        self.raw().iter().map(|(_, text)| serde_json::from_str(text).expect("JSON")).collect()
    }

    /// Whether a round is left out because the machine was disturbed, such as by a host that gave its processors to others: then there may be no
    /// figures, and nothing of the systems is wrong.
    pub(crate) fn was_disturbed(&self) -> bool {
        let decision = &self.json("results.json")["judgement"]["decision"];
        let mut whys = decision["why"].as_array().into_iter().flatten().filter_map(Value::as_str);
        whys.any(|why| why.contains("left out for"))
    }

    pub(crate) fn json(&self, file: &str) -> Value {
        let text = std::fs::read_to_string(self.out.join(file)).expect("a file");
        serde_json::from_str(&text).expect("JSON")
    }

    pub(crate) fn wait_for(&self, there: impl Fn(&[(String, String)]) -> bool) {
        wait::until(LONG, "runs in raw/", || there(&self.raw()));
    }

    /// Processes that work below this campaign's directory.
    fn processes(&self) -> Vec<String> {
        processes_below(&self.out.join("systems"))
    }

    pub(crate) fn wait_until_something_runs(&self) {
        wait::until(LONG, "an nginx of the campaign", || {
            self.processes().iter().any(|name| name.contains("nginx: worker"))
        });
    }

    /// A system is under load.
    pub(crate) fn wait_until_loaded(&self) {
        let file = self.out.join("state.json");
        let warming = || std::fs::read_to_string(&file).is_ok_and(|text| text.contains("\"warming\""));
        wait::until(LONG, "a run that is warming up", warming);
    }

    pub(crate) fn nothing_runs(&self) {
        assert_eq!(self.processes(), [""; 0]);
    }

    /// Systems, backends and generators end by themselves, though nobody runs gauge again.
    pub(crate) fn everything_ends(&self) {
        wait::until(LONG, "all of the campaign has ended", || processes_below(self.folder.path()).is_empty());
    }

    pub(crate) fn sshd(&self) -> Sshd {
        self.sshd_with("")
    }

    /// With more lines of configuration.
    pub(crate) fn sshd_with(&self, lines: &str) -> Sshd {
        Sshd::start(self.folder.path(), lines)
    }
}

/// Command lines of processes whose working directory is below a folder.
fn processes_below(folder: &Path) -> Vec<String> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    pids.filter(|path| std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder)))
        .filter_map(|path| std::fs::read_to_string(path.join("cmdline")).ok())
        .map(|line| line.replace('\0', " ").trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect()
}

/// A `gauge run` in the background, which does not outlive the test.
pub(crate) struct Running(std::process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// Kills it as nothing can be prepared for.
    pub(crate) fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }

    /// Ctrl-C; its exit code and what it said.
    pub(crate) fn interrupt(mut self) -> (i32, String) {
        self.ctrl_c();
        let said = self.stderr();
        self.ended(said, String::new())
    }

    /// Ctrl-C, and once more as soon as it has said that it heard the first.
    pub(crate) fn interrupt_twice(self) -> (i32, String) {
        self.interrupt_twice_after("once more to stop at once")
    }

    /// Ctrl-C, and once more as soon as it has said something.
    pub(crate) fn interrupt_twice_after(mut self, words: &str) -> (i32, String) {
        let (mut said, mut text) = (self.stderr(), String::new());
        self.ctrl_c();
        while !text.contains(words) {
            assert_ne!(said.read_line(&mut text).expect("text"), 0, "{text}");
        }
        self.ctrl_c();
        self.ended(said, text)
    }

    fn ctrl_c(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    }

    /// What it says, to be read once.
    pub(crate) fn stderr(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.0.stderr.take().expect("it is piped, and read once"))
    }

    /// Its exit code.
    pub(crate) fn wait(mut self) -> i32 {
        self.0.wait().expect("it ends").code().unwrap_or(-1)
    }

    fn ended(mut self, mut said: BufReader<ChildStderr>, mut text: String) -> (i32, String) {
        said.read_to_string(&mut text).expect("text");
        let status = self.0.wait().expect("it ends");
        (status.code().unwrap_or(-1), text)
    }
}

/// A server of OpenSSH with keys that nobody else has.
pub(crate) struct Sshd {
    _process: testkit::Process,
    port: u16,
    folder: PathBuf,
}

impl Sshd {
    fn start(folder: &Path, lines: &str) -> Self {
        let folder = folder.join("sshd");
        std::fs::create_dir_all(folder.join("remote")).expect("a folder");
        for key in ["host", "user"] {
            let file = folder.join(key);
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&file).status();
            assert!(made.expect("ssh-keygen is there").success());
        }
        std::fs::copy(folder.join("user.pub"), folder.join("authorized")).expect("a key");
        let port = testkit::ports::Port::free().hand_over();
        let at = folder.display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n{lines}"
        );
        std::fs::write(folder.join("config"), config).expect("a file");
        let process = testkit::Process::builder("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(folder.join("config"))
            .hint("On Debian: apt-get install openssh-server")
            .start();
        wait::until(LONG, "sshd listens", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        Sshd { _process: process, port, folder }
    }

    /// The value of `ssh` in an evaluation.
    pub(crate) fn config(&self) -> String {
        let folder = self.folder.display();
        format!(
            "{{host: 127.0.0.1, port: {}, identity: {folder}/user, directory: {folder}/remote, \
             options: [StrictHostKeyChecking=no, UserKnownHostsFile=/dev/null]}}",
            self.port
        )
    }

    /// An element of `hosts` in an evaluation.
    pub(crate) fn host(&self, role: &str) -> String {
        let folder = self.folder.display();
        format!(
            "{{role: {role}, address: 127.0.0.1, port: {}, key: {folder}/user, directory: {folder}/remote, \
             options: [StrictHostKeyChecking=no, UserKnownHostsFile=/dev/null]}}",
            self.port
        )
    }

    fn remote(&self) -> PathBuf {
        self.folder.join("remote")
    }

    pub(crate) fn something_runs(&self) {
        let there = processes_below(&self.remote());
        assert!(there.iter().any(|name| name.contains("nginx: worker")), "{there:?}");
    }

    /// Ended, and tidied up.
    pub(crate) fn nothing_runs(&self) {
        wait::until(LONG, "all has ended over there", || {
            let left = std::fs::read_dir(self.remote()).map_or(0, Iterator::count);
            processes_below(&self.remote()).is_empty() && left == 0
        });
    }
}
