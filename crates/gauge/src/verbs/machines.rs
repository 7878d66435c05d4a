//! `gauge machines`

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use gauge::machines::{self, Left, MachinesError};

use super::history::table;
use crate::cli::{BAD_INPUT, UNAVAILABLE, UNWRITABLE, print};

const EXAMPLES: &str = "\
Examples:
  gauge machines                           what is left, since when, and where its state is
  gauge machines destroy shop-1795843200   destroy the machines of one run
  gauge machines destroy --all             destroy all that no running gauge uses

Exit codes: 0 nothing is left of what was to be destroyed, 64 unknown run, 69 machines may still exist: the message says how to try again.";

/// Lists the machines that runs with `deploy: {terraform: ..}` have left, and destroys them.
///
/// `gauge run` destroys what it made. Machines are left after `keep: true`, a destroy that failed, or a `kill -9`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Machines {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand)]
enum What {
    /// List them (the default).
    List,
    /// Destroy the machines of a run, or of all runs.
    Destroy {
        /// Name of the run, as `gauge machines` lists it
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        run: Option<String>,
        /// All that no running gauge uses
        #[arg(long)]
        all: bool,
    },
}

impl Machines {
    pub(crate) fn run(self) -> ExitCode {
        match self.what {
            None | Some(What::List) => list(),
            Some(What::Destroy { run: Some(run), .. }) => destroy(&run),
            Some(What::Destroy { run: None, .. }) => destroy_all(),
        }
    }
}

/// Says why, as exit code too.
pub(super) fn failed(error: &MachinesError) -> ExitCode {
    eprintln!("gauge: {error}");
    ExitCode::from(match error {
        MachinesError::Unknown(_) | MachinesError::NoHome | MachinesError::Module { .. } => BAD_INPUT,
        MachinesError::File { .. } => UNWRITABLE,
        _ => UNAVAILABLE,
    })
}

fn list() -> ExitCode {
    let left = match machines::left() {
        Ok(left) => left,
        Err(error) => return failed(&error),
    };
    if left.is_empty() {
        return print("no machines are left\n");
    }
    let mut rows = vec![["RUN", "STATE", "SINCE", "HOSTS", "FOLDER"].map(str::to_owned).to_vec()];
    rows.extend(left.iter().map(row));
    print(&table(&rows))
}

fn row(left: &Left) -> Vec<String> {
    let folder = left.folder.display().to_string();
    match &left.record {
        Ok(record) => {
            let state = record.state.words().to_owned() + if left.busy { " (in use)" } else { "" };
            let hosts = if record.hosts.is_empty() { "-".to_owned() } else { record.hosts.join(", ") };
            vec![left.name.clone(), state, since(record.since_unix_ms), hosts, folder]
        }
        Err(why) => vec![left.name.clone(), why.clone(), "-".to_owned(), "-".to_owned(), folder],
    }
}

/// `3 h 12 min ago`.
fn since(unix_ms: u64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let age = now.saturating_sub(Duration::from_millis(unix_ms)).as_secs();
    match age {
        0..=59 => format!("{age} s ago"),
        60..=3599 => format!("{} min ago", age / 60),
        3600..=172_799 => format!("{} h {} min ago", age / 3600, age % 3600 / 60),
        _ => format!("{} days ago", age / 86_400),
    }
}

fn destroy(run: &str) -> ExitCode {
    let mut say = |line: &str| eprintln!("{line}");
    match machines::destroy(run, &mut say) {
        Ok(()) => print(&format!("{run}: destroyed\n")),
        Err(error) => failed(&error),
    }
}

fn destroy_all() -> ExitCode {
    let left = match machines::left() {
        Ok(left) => left,
        Err(error) => return failed(&error),
    };
    let mut code = ExitCode::SUCCESS;
    for one in left {
        if one.busy {
            eprintln!("gauge: {} is in use by a gauge that runs, and stays", one.name);
            continue;
        }
        let ended = destroy(&one.name);
        if ended != ExitCode::SUCCESS {
            code = ended;
        }
    }
    code
}
