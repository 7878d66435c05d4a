//! `gauge ui`

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use gauge::deploy::registry;
use gauge::history::History;
use gauge::ui;

use super::history::{StoreOption, failed, or_code};
use crate::cli::{BAD_INPUT, SYSTEM, UNWRITABLE};

const EXAMPLES: &str = "\
Examples:
  gauge ui                                                on http://127.0.0.1:8095/, with the default history
  gauge ui --folder examples/evaluations                  and these evaluations, which can be started there
  GAUGE_UI_TOKEN=$(openssl rand -hex 16) gauge ui --listen 0.0.0.0:8095
                                                          for other machines, behind a login

Without a token only the loopback interface is served. There is no TLS: put a TLS proxy in front of it, or forward the port over ssh.";

/// Variable with the token.
const TOKEN: &str = "GAUGE_UI_TOKEN";
/// A shorter token can be guessed.
const LEAST: usize = 16;

/// Shows the history in a browser, and starts evaluations of a folder.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ui {
    /// Where to listen; port 0 is a free one
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8095")]
    listen: SocketAddr,
    /// Folder of evaluations: only those can be started, and results go to `results` in it [default: gauge-ui, in this directory]
    #[arg(long, value_name = "DIR")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    store: StoreOption,
}

impl Ui {
    pub(crate) fn run(self) -> ExitCode {
        or_code(self.serve().map(|()| ExitCode::SUCCESS))
    }

    fn serve(self) -> Result<(), ExitCode> {
        let refuse = |why: &str| {
            eprintln!("gauge: {why}");
            ExitCode::from(BAD_INPUT)
        };
        let token = match std::env::var(TOKEN) {
            Ok(token) if token.is_empty() => None,
            Ok(token) if token.len() < LEAST => {
                return Err(refuse(&format!(
                    "{TOKEN} has fewer than {LEAST} characters; make one with `openssl rand -hex 16`"
                )));
            }
            Ok(token) => Some(token),
            Err(std::env::VarError::NotPresent) => None,
            Err(_) => return Err(refuse(&format!("{TOKEN} is not valid UTF-8"))),
        };
        if token.is_none() && !self.listen.ip().to_canonical().is_loopback() {
            return Err(refuse(&format!(
                "--listen {} is not the loopback interface: set {TOKEN} to a token first",
                self.listen
            )));
        }
        let Some(target) = self.store.target()? else {
            return Err(refuse("--store none: this command shows the history; name a file or postgres://..."));
        };
        // What cannot be read is said now, not on the first page.
        History::open(&target).map_err(|error| failed(&error))?;
        for name in registry::clean_up() {
            eprintln!("gauge: ended `{name}`, which a killed run had left running");
        }
        let folder = self.folder.unwrap_or_else(|| "gauge-ui".into());
        let folder = std::fs::create_dir_all(&folder).and_then(|()| folder.canonicalize()).map_err(|error| {
            eprintln!("gauge: {}: {error}", folder.display());
            ExitCode::from(UNWRITABLE)
        })?;
        let gauge = std::env::current_exe().map_err(|error| {
            eprintln!("gauge: cannot find this program's own file, which runs evaluations: {error}");
            ExitCode::from(SYSTEM)
        })?;
        let options = ui::Options { listen: self.listen, token, target, store: self.store.store, folder, gauge };
        // Whoever reads this may have gone.
        let ready = |address: SocketAddr| {
            use std::io::Write;
            let _ = writeln!(std::io::stdout(), "gauge ui on http://{address}/");
        };
        ui::serve(options, ready, stopped()).map_err(|error| {
            eprintln!("gauge: {}: {error}", self.listen);
            ExitCode::from(SYSTEM)
        })
    }
}

/// Until SIGINT, SIGTERM or SIGHUP.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()), signal(SignalKind::hangup()))
    else {
        return std::future::pending().await;
    };
    tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} _ = hangup.recv() => {} }
}
