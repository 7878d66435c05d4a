//! A real Redis, from the system's package.

mod cluster;
mod sentinel;

use std::net::SocketAddr;
use std::path::PathBuf;

use tempfile::TempDir;

pub use cluster::RedisCluster;
pub use sentinel::RedisSentinel;

use crate::certificates::Certificates;
use crate::command::{install, run};
use crate::ports::Port;
use crate::service::{Service, service_methods};
use crate::{Process, ProcessBuilder, dirs};

/// A Redis on a free port of 127.0.0.1, without persistence: killed and restarted, it is empty, unless `appendonly` is set.
#[derive(Debug)]
pub struct Redis {
    service: Service,
    setup: Setup,
}

service_methods!(Redis);

/// How a Redis is started, and started again.
#[derive(Debug)]
pub struct RedisBuilder {
    setup: Setup,
}

#[derive(Debug)]
struct Setup {
    port: Port,
    dir: TempDir,
    password: Option<String>,
    certificates: Option<Certificates>,
    settings: Vec<(String, String)>,
}

impl RedisBuilder {
    /// Requires this password of the default user.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.setup.password = Some(password.into());
        self
    }

    /// Speaks TLS only, with a certificate for localhost from an authority of its own: see [`Redis::authority`].
    #[track_caller]
    pub fn tls(mut self) -> Self {
        self.setup.certificates = Some(Certificates::localhost());
        self
    }

    /// A setting of redis.conf: `("appendonly", "yes")` survives a kill, `("maxmemory", "10mb")`.
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.setup.settings.push((name.into(), value.into()));
        self
    }

    /// Starts it and waits until it serves.
    #[track_caller]
    pub fn start(self) -> Redis {
        Redis { service: Service::new(self.setup.launch()), setup: self.setup }
    }
}

impl Redis {
    /// A Redis without password or TLS.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A builder, for anything but the defaults.
    pub fn builder() -> RedisBuilder {
        let (port, dir) = (Port::free(), dirs::temporary("redis"));
        RedisBuilder { setup: Setup { port, dir, password: None, certificates: None, settings: Vec::new() } }
    }

    /// `redis://127.0.0.1:PORT/0`, with the password if there is one; `rediss://localhost:PORT/0` with TLS.
    pub fn url(&self) -> String {
        let password = self.setup.password.as_ref().map(|password| format!(":{password}@")).unwrap_or_default();
        let port = self.setup.port.number();
        match self.setup.certificates {
            None => format!("redis://{password}127.0.0.1:{port}/0"),
            Some(_) => format!("rediss://{password}localhost:{port}/0"),
        }
    }

    /// Address and port.
    pub fn address(&self) -> SocketAddr {
        self.setup.port.address()
    }

    /// The certificate that a client must trust, with [`RedisBuilder::tls`].
    pub fn authority(&self) -> Option<PathBuf> {
        self.setup.certificates.as_ref().map(Certificates::authority)
    }

    /// Kills it if it runs, starts it on the same port and waits until it serves.
    #[track_caller]
    pub fn restart(&self) {
        self.service.restart(|| self.setup.launch());
    }

    /// Runs a command through redis-cli and returns what it prints: `redis.cli(["GET", "a"])`. Panics when Redis responds with an error
    /// or not at all.
    #[track_caller]
    pub fn cli<T: AsRef<str>>(&self, command: impl IntoIterator<Item = T>) -> String {
        let mut builder = cli(&self.setup.port);
        if let Some(password) = &self.setup.password {
            builder = builder.env("REDISCLI_AUTH", password);
        }
        if let Some(certificates) = &self.setup.certificates {
            builder = builder.arg("--tls").arg("--cacert").arg(certificates.authority());
        }
        run(builder.args(command.into_iter().map(|word| word.as_ref().to_owned())))
    }
}

impl Setup {
    #[track_caller]
    fn launch(&self) -> Process {
        let port = self.port.number().to_string();
        let mut builder = server();
        if let Some(certificates) = &self.certificates {
            builder = builder.args(["--port", "0", "--tls-port", &port, "--tls-auth-clients", "no"]);
            builder = builder.arg("--tls-cert-file").arg(certificates.certificate());
            builder = builder.arg("--tls-key-file").arg(certificates.key());
            builder = builder.arg("--tls-ca-cert-file").arg(certificates.authority());
        } else {
            builder = builder.args(["--port", &port]);
        }
        builder = builder.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        builder = builder.arg("--dir").arg(self.dir.path());
        if let Some(password) = &self.password {
            builder = builder.args(["--requirepass", password]);
        }
        for (name, value) in &self.settings {
            builder = builder.args([&format!("--{name}"), value]);
        }
        let process = builder.start();
        process.wait_for_line("that it is ready", |line| line.contains("Ready to accept connections").then_some(()));
        process
    }
}

fn server() -> ProcessBuilder {
    Process::builder("redis-server").hint(install("redis-server"))
}

/// redis-cli that fails when Redis responds with an error.
fn cli(port: &Port) -> ProcessBuilder {
    let port = port.number().to_string();
    Process::builder("redis-cli").args(["-e", "-h", "127.0.0.1", "-p", &port]).hint(install("redis-server"))
}
