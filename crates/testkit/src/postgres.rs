//! A real PostgreSQL, from the system's package.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use tempfile::TempDir;

use crate::command::{install, run};
use crate::ports::Port;
use crate::service::{Service, service_methods};
use crate::{Process, ProcessBuilder, Signal, dirs};

/// A PostgreSQL on a free port of 127.0.0.1 with its own data directory: user `postgres`, password `password`. As root it runs as
/// the system's user `postgres`, since it refuses root. It does not wait for the disk (`fsync=off`): a kill loses nothing, a power cut
/// would.
#[derive(Debug)]
pub struct Postgres {
    service: Service,
    setup: Setup,
}

service_methods!(Postgres);

#[derive(Debug)]
struct Setup {
    port: Port,
    dir: TempDir,
    programs: PathBuf,
    user: Option<(u32, u32)>,
}

const PASSWORD: &str = "password";
/// What the repository's services promise to run on.
const PACKAGE: &str = "postgresql-15";

impl Postgres {
    /// Makes a data directory (about a second), starts the server and waits until it serves.
    #[track_caller]
    pub fn start() -> Self {
        let user = geteuid().is_root().then(|| user_of_passwd("postgres"));
        let setup = Setup { port: Port::free(), dir: dirs::temporary("postgres"), programs: programs(), user };
        let password = setup.dir.path().join("password");
        fs::write(&password, PASSWORD).expect("a file in the temporary directory");
        if let Some((uid, gid)) = user {
            for path in [setup.dir.path(), &password] {
                chown(path, Some(uid), Some(gid)).expect("root can give files away");
            }
        }
        let initdb = setup.program("initdb").args(["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8"]);
        let initdb = initdb.args(["--locale=C", "--no-sync", "--no-instructions"]);
        run(initdb.arg("--pwfile").arg(&password).arg("-D").arg(setup.data()));
        Self { service: Service::new(setup.launch()), setup }
    }

    /// `postgresql://postgres:password@127.0.0.1:PORT/DATABASE`. The database `postgres` is always there.
    pub fn url(&self, database: &str) -> String {
        format!("postgresql://postgres:{PASSWORD}@127.0.0.1:{}/{database}", self.setup.port.number())
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.setup.port.number()
    }

    /// Makes an empty database and returns its URL. Tests that share a server take one each.
    #[track_caller]
    pub fn create_database(&self, name: &str) -> String {
        self.query("postgres", &format!("CREATE DATABASE \"{name}\""));
        self.url(name)
    }

    /// Runs SQL with psql; returns the rows as lines, columns apart by `|`. Panics with the server's message when it fails.
    #[track_caller]
    pub fn query(&self, database: &str, sql: &str) -> String {
        let psql = self.setup.program("psql").args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align"]);
        run(psql.args(["--set=ON_ERROR_STOP=1", "-d", &self.url(database), "-c", sql]))
    }

    /// Kills it if it runs, starts it on the same port and waits until it serves. What was committed is still there.
    #[track_caller]
    pub fn restart(&self) {
        self.service.restart(|| self.setup.launch());
    }
}

impl Setup {
    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn program(&self, name: &str) -> ProcessBuilder {
        let builder = Process::builder(self.programs.join(name)).hint(install(PACKAGE)).current_dir(self.dir.path());
        match self.user {
            Some((uid, gid)) => builder.user(uid, gid),
            None => builder,
        }
    }

    #[track_caller]
    fn launch(&self) -> Process {
        let builder = self.program("postgres").arg("-D").arg(self.data());
        let builder = builder.args(["-p", &self.port.number().to_string(), "-c", "listen_addresses=127.0.0.1"]);
        let builder = builder.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
        // Its children go with it on SIGQUIT; on SIGKILL it could not tell them.
        let process = builder.death_signal(Signal::QUIT).start();
        process.wait_for_line("that it is ready", |line| line.contains("ready to accept connections").then_some(()));
        process
    }
}

/// The directory of the server's programs: that of version 15, or of the newest that is installed.
#[track_caller]
fn programs() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut versions: Vec<u32> = versions.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    versions.retain(|version| directory(*version).join("postgres").exists());
    let chosen = versions.iter().find(|version| **version == 15).or(versions.iter().max());
    directory(*chosen.unwrap_or_else(|| panic!("no PostgreSQL server under /usr/lib/postgresql. {}", install(PACKAGE))))
}

fn directory(version: u32) -> PathBuf {
    Path::new("/usr/lib/postgresql").join(version.to_string()).join("bin")
}

/// User and group id from /etc/passwd.
#[track_caller]
fn user_of_passwd(name: &str) -> (u32, u32) {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let ids = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    ids.unwrap_or_else(|| panic!("no user {name}. {}", install(PACKAGE)))
}
