//! The gateway under test, as a user starts it: the program, a configuration file, an environment.

use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tempfile::TempDir;

use crate::http::Message;
use crate::{DEADLINE, Process, ProcessBuilder, RawClient, dirs};

/// A running gateway; also a [`Process`]. Dropped, it is killed.
#[derive(Debug)]
pub struct Weir {
    process: Process,
    addr: SocketAddr,
    dir: TempDir,
}

#[derive(Debug)]
enum Config {
    Environment,
    Nothing,
    Text(String),
    File(PathBuf),
}

/// How a gateway is started.
#[derive(Debug)]
pub struct WeirBuilder {
    program: PathBuf,
    dir: TempDir,
    config: Config,
    env: Vec<(String, String)>,
    args: Vec<String>,
}

/// What a gateway that ended by itself left: see [`WeirBuilder::run`].
#[derive(Debug)]
pub struct Finished {
    /// Exit code; `None` when a signal ended it.
    pub code: Option<i32>,
    /// All of stdout.
    pub stdout: String,
    /// All of stderr.
    pub stderr: String,
}

impl WeirBuilder {
    /// The text of the configuration file. Listen on port 0. Without one the gateway runs in environment-only mode, with
    /// HOST 127.0.0.1 and PORT 0 unless set.
    pub fn config(mut self, yaml: impl Into<String>) -> Self {
        self.config = Config::Text(yaml.into());
        self
    }

    /// An existing configuration file: a process that takes over from another reads the same one.
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config = Config::File(path.into());
        self
    }

    /// Sets an environment variable; nothing of the test's own environment but PATH and the like is passed on.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Adds command line arguments. `--config FILE` is added before them when there is a configuration.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// The directory in which the configuration will lie and which is removed with the gateway: a place for certificates, sockets, logs.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Starts the gateway and waits until it has printed that it listens. Panics with its output when that does not happen.
    #[track_caller]
    pub fn start(self) -> Weir {
        let (process, dir) = self.launch();
        let addr = process.wait_for_line("\"listening on http://ADDR\"", |line| address(line, LISTENING));
        Weir { process, addr, dir }
    }

    /// Runs the program to its end, for commands and failing starts. Panics when it does not end.
    #[track_caller]
    pub fn run(self) -> Finished {
        let (process, _dir) = self.launch();
        let status: ExitStatus = process.wait_for_exit(DEADLINE);
        Finished { code: status.code(), stdout: process.stdout(), stderr: process.stderr() }
    }

    /// Runs a subcommand to its end: no configuration, no address.
    #[track_caller]
    pub fn command(mut self) -> Finished {
        self.config = Config::Nothing;
        self.run()
    }

    #[track_caller]
    fn launch(self) -> (Process, TempDir) {
        let mut builder: ProcessBuilder = Process::builder(self.program).hint(
            "The tests of crates/weir pass env!(\"CARGO_BIN_EXE_weir\"); others build it first: cargo build -p weir",
        );
        builder = match self.config {
            Config::Nothing => builder,
            Config::Environment => builder.env("HOST", "127.0.0.1").env("PORT", "0"),
            Config::File(path) => builder.arg("--config").arg(path),
            Config::Text(yaml) => {
                let path = self.dir.path().join(CONFIG_FILE);
                write_whole(&path, &yaml);
                builder.arg("--config").arg(path)
            }
        };
        for (name, value) in &self.env {
            builder = builder.env(name, value);
        }
        (builder.args(&self.args).start(), self.dir)
    }
}

const CONFIG_FILE: &str = "weir.yaml";
const LISTENING: &str = "listening on http";
const ADMIN: &str = "admin on http";

impl Weir {
    /// A builder for the program at this path: in crates/weir `env!("CARGO_BIN_EXE_weir")`.
    pub fn builder(program: impl Into<PathBuf>) -> WeirBuilder {
        let dir = dirs::temporary("gateway");
        WeirBuilder { program: program.into(), dir, config: Config::Environment, env: Vec::new(), args: Vec::new() }
    }

    /// Address of the first listener.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Addresses of all `count` listeners, in the order of the file.
    #[track_caller]
    pub fn addrs(&self, count: usize) -> Vec<SocketAddr> {
        let mut found = Vec::new();
        self.process.wait_for_line(&format!("{count} listeners"), |line| {
            found.extend(address(line, LISTENING));
            (found.len() == count).then_some(())
        });
        found
    }

    /// Address of the admin listener; waits until it is printed, and panics when none is.
    #[track_caller]
    pub fn admin_addr(&self) -> SocketAddr {
        self.process.wait_for_line("\"admin on http://ADDR\"", |line| address(line, ADMIN))
    }

    /// The first listener's URL, without a slash at the end.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A new connection to the first listener.
    #[track_caller]
    pub fn connect(&self) -> RawClient {
        RawClient::connect(self.addr)
    }

    /// GET on a new connection.
    #[track_caller]
    pub fn get(&self, target: &str) -> Message {
        self.connect().get(target)
    }

    /// A request with fields and a body on a new connection.
    #[track_caller]
    pub fn request(&self, method: &str, target: &str, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Message {
        let mut client = self.connect();
        client.request(method, target, fields, body);
        client.read_response_to(method)
    }

    /// GET on the admin listener.
    #[track_caller]
    pub fn admin_get(&self, target: &str) -> Message {
        let addr = self.admin_addr();
        let mut client = RawClient::connect(addr);
        client.request("GET", target, &[("Host", &addr.to_string())], "");
        client.read_response()
    }

    /// The configuration file.
    pub fn config_path(&self) -> PathBuf {
        self.dir.path().join(CONFIG_FILE)
    }

    /// The directory that is removed with the gateway.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces the configuration file whole, by a rename. What makes the gateway read it (a watch, SIGHUP, `POST /reload`) is up to
    /// the test.
    #[track_caller]
    pub fn rewrite_config(&self, yaml: &str) {
        write_whole(&self.config_path(), yaml);
    }
}

impl Deref for Weir {
    type Target = Process;

    fn deref(&self) -> &Process {
        &self.process
    }
}

/// The address in a line such as `listening on http://127.0.0.1:43121`.
fn address(line: &str, announcement: &str) -> Option<SocketAddr> {
    let rest = line.split_once(announcement)?.1.trim_start_matches('s').strip_prefix("://")?;
    rest.split(|c: char| c == '/' || c.is_whitespace()).next()?.parse().ok()
}

#[track_caller]
fn write_whole(path: &Path, text: &str) {
    let new = path.with_extension("new");
    let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}
