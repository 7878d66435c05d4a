//! A real nginx, from the system's package.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;

use crate::command::install;
use crate::ports::Port;
use crate::service::{Service, service_methods};
use crate::{DEADLINE, Process, RawClient, Signal, dirs, wait};

/// An nginx with one worker on a free port of 127.0.0.1. As root its worker runs as the package's own user.
#[derive(Debug)]
pub struct Nginx {
    service: Service,
    setup: Setup,
}

service_methods!(Nginx);

#[derive(Debug)]
struct Setup {
    port: Port,
    dir: TempDir,
}

impl Nginx {
    /// Starts it with this text inside of its `server { … }`, and waits until it serves. Relative paths lie in [`Nginx::dir`].
    #[track_caller]
    pub fn start(server: &str) -> Self {
        Self::start_beside("", server)
    }

    /// The same, with `http` beside the server: an `upstream u { … }` that the server's `proxy_pass http://u` names.
    #[track_caller]
    pub fn start_beside(http: &str, server: &str) -> Self {
        let setup = Setup { port: Port::free(), dir: dirs::temporary("nginx") };
        // The worker is not root and must reach its files.
        fs::set_permissions(setup.dir.path(), fs::Permissions::from_mode(0o755)).expect("our own directory");
        setup.configure(http, server);
        Self { service: Service::new(setup.launch()), setup }
    }

    /// Address and port.
    pub fn address(&self) -> SocketAddr {
        self.setup.port.address()
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Its prefix: where the files of `root` and logs may lie.
    pub fn dir(&self) -> &Path {
        self.setup.dir.path()
    }

    /// Another text for its `server { … }`, from the next restart on, or at once with `process().signal(Signal::HUP)`.
    #[track_caller]
    pub fn configure(&self, server: &str) {
        self.setup.configure("", server);
    }

    /// Kills it if it runs, starts it on the same port and waits until it serves.
    #[track_caller]
    pub fn restart(&self) {
        self.service.restart(|| self.setup.launch());
    }
}

impl Setup {
    #[track_caller]
    fn configure(&self, http: &str, server: &str) {
        // Temporary files of bodies lie in the test's own directory.
        let parts = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let paths: String = parts.iter().map(|part| format!("  {part}_temp_path {part};\n")).collect();
        let config = format!(
            "daemon off;\nworker_processes 1;\npid nginx.pid;\nerror_log stderr;\nevents {{ worker_connections 16384; }}\nhttp {{\n{paths}  access_log off;\n{http}\n\
             server {{\nlisten {};\n{server}\n}}\n}}\n",
            self.port.address()
        );
        fs::write(self.dir.path().join("nginx.conf"), config).expect("a file in the temporary directory");
    }

    #[track_caller]
    fn launch(&self) -> Process {
        let builder = Process::builder("nginx").hint(install("nginx-light")).arg("-p").arg(self.dir.path());
        // Its workers go with it on SIGTERM; on SIGKILL it could not tell them. -e: before it has read its file, too.
        let builder = builder.args(["-c", "nginx.conf", "-e", "stderr"]).death_signal(Signal::TERM);
        let process = builder.start();
        wait::until(DEADLINE, "nginx takes connections", || {
            assert!(process.exit_status().is_none(), "nginx ended\n{}", process.tail());
            RawClient::try_connect(self.port.address(), None).is_ok()
        });
        process
    }
}
