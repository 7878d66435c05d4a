//! `weir keys`: makes, lists, rotates and revokes API keys in a file that authenticators read.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use auth::api_key::{Entry, Key, Store, sha256, time_text};
use clap::{Args, Subcommand};

use super::{BAD_CONFIGURATION, UNREADABLE, print};

const EXAMPLES: &str = "\
Examples:
  weir keys create shop --file keys.yaml --tier gold --expires 2027-12-31
                                   print a new key once and add its entry to the file
  weir keys list --file keys.yaml
  weir keys rotate k7qm2xpz81ab --file keys.yaml --overlap 7d
                                   print a new key; the old one holds for seven more days
  weir keys revoke k7qm2xpz81ab --file keys.yaml

A gateway that uses the file has each change in force within a second.";

/// Makes, lists, rotates and revokes API keys.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key, print it once, and add its entry to the file.
    Create(Create),
    /// List the keys of a file.
    List(InFile),
    /// Make another key for the same consumer, and let the old one expire.
    Rotate(Rotate),
    /// Switch a key off; its entry stays for the record.
    Revoke(Revoke),
}

#[derive(Args)]
struct InFile {
    /// The key file, as `store: {file: ...}` names it.
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
struct Create {
    /// Who will use the key.
    consumer: String,
    #[command(flatten)]
    place: InFile,
    /// Plan of the consumer.
    #[arg(long)]
    tier: Option<String>,
    /// What the key may do; may be given more than once.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Route that the key opens; may be given more than once. Without it: all.
    #[arg(long = "route", value_name = "NAME")]
    routes: Vec<String>,
    /// Valid from this moment on: 2027-01-31 or 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    not_before: Option<String>,
    /// Valid until this moment.
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
    /// A name and value of your own; may be given more than once.
    #[arg(long = "meta", value_name = "NAME=VALUE")]
    meta: Vec<String>,
}

#[derive(Args)]
struct Rotate {
    /// Id of the old key.
    id: String,
    #[command(flatten)]
    place: InFile,
    /// How long the old key still holds, such as 12h or 7d.
    #[arg(long, default_value = "7d", value_name = "TIME", value_parser = overlap)]
    overlap: Duration,
}

#[derive(Args)]
struct Revoke {
    /// Id of the key.
    id: String,
    #[command(flatten)]
    place: InFile,
}

/// What could not be done, and how the process ends.
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Failure { message: message.into(), code: BAD_CONFIGURATION }
    }

    fn file(path: &Path, error: &io::Error) -> Self {
        Failure { message: format!("{}: {error}", path.display()), code: UNREADABLE }
    }
}

impl Keys {
    pub(crate) fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Create(create) => create.run(),
            Command::List(place) => list(&place.file),
            Command::Rotate(rotate) => rotate.run(),
            Command::Revoke(revoke) => revoke.run(),
        };
        match result {
            Ok(text) => print(&text),
            Err(failure) => {
                eprintln!("weir: {}", failure.message);
                ExitCode::from(failure.code)
            }
        }
    }
}

impl Create {
    fn run(self) -> Result<String, Failure> {
        let mut meta = BTreeMap::new();
        for pair in &self.meta {
            let (name, value) =
                pair.split_once('=').ok_or_else(|| Failure::usage(format!("`{pair}` is not NAME=VALUE")))?;
            meta.insert(name.to_owned(), value.to_owned());
        }
        let (key, entry) = new_key(Entry {
            consumer: self.consumer,
            tier: self.tier,
            scopes: self.scopes,
            routes: self.routes,
            not_before: self.not_before,
            expires: self.expires,
            meta,
            ..Entry::default()
        })?;
        let _lock = lock(&self.place.file)?;
        let mut text = read_or_empty(&self.place.file)?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&entry.line());
        replace(&self.place.file, &text)?;
        Ok(format!("{}\n", key.reveal()))
    }
}

impl Rotate {
    fn run(self) -> Result<String, Failure> {
        let path = &self.place.file;
        let _lock = lock(path)?;
        let until = SystemTime::now() + self.overlap;
        let mut added = None;
        let mut text = edit(path, &self.id, |entry| {
            let (key, next) = new_key(Entry { not_before: None, disabled: false, ..entry.clone() })?;
            added = Some((key, next.line()));
            entry.expires = Some(time_text(until));
            Ok(())
        })?;
        let Some((key, line)) = added else { return Err(Failure::usage("no key was made")) };
        text.push_str(&line);
        replace(path, &text)?;
        Ok(format!("{}\n", key.reveal()))
    }
}

impl Revoke {
    fn run(self) -> Result<String, Failure> {
        let path = &self.place.file;
        let _lock = lock(path)?;
        let text = edit(path, &self.id, |entry| {
            entry.disabled = true;
            Ok(())
        })?;
        replace(path, &text)?;
        Ok(String::new())
    }
}

fn list(path: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    let entries = Entry::read_file(&text).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let mut out = format!("{:<14} {:<20} {:<10} {:<22} {}\n", "ID", "CONSUMER", "TIER", "EXPIRES", "STATE");
    for (_, entry) in entries {
        let state = if entry.disabled { "revoked" } else { "" };
        let expires = entry.expires.as_deref().unwrap_or("-");
        let tier = entry.tier.as_deref().unwrap_or("-");
        out.push_str(format!("{:<14} {:<20} {tier:<10} {expires:<22} {state}", entry.id, entry.consumer).trim_end());
        out.push('\n');
    }
    Ok(out)
}

/// A key and the entry that goes with it.
fn new_key(entry: Entry) -> Result<(Key, Entry), Failure> {
    let random = |_| Failure { message: "the system has no random bytes".to_owned(), code: 71 };
    let key = Key::generate().map_err(random)?;
    let digest = sha256(key.reveal().as_bytes());
    let hex = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((key.clone(), Entry { id: key.id().to_owned(), sha256: hex, weak: false, ..entry }))
}

/// The text of a file in which one entry is another. Files that were written by hand in another form are left to their author.
fn edit(path: &Path, id: &str, change: impl FnOnce(&mut Entry) -> Result<(), Failure>) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    let mut change = Some(change);
    let mut out = String::with_capacity(text.len() + 256);
    for line in text.lines() {
        let own = line.trim().strip_prefix("- ").and_then(|flow| serde_json::from_str::<Entry>(flow.trim()).ok());
        match own.filter(|entry| entry.id == id).zip(change.take_if(|_| line.contains(id))) {
            Some((mut entry, change)) => {
                change(&mut entry)?;
                out.push_str(&entry.line());
            }
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    if change.is_none() {
        return Ok(out);
    }
    let is_listed = Entry::read_file(&text).is_ok_and(|all| all.iter().any(|(_, entry)| entry.id == id));
    Err(Failure::usage(if is_listed {
        format!(
            "{}: the entry of `{id}` is not one line of JSON, as `weir keys` writes it; change it by hand",
            path.display()
        )
    } else {
        format!("{} has no key `{id}`; `weir keys list` shows them", path.display())
    }))
}

fn read_or_empty(path: &Path) -> Result<String, Failure> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(Failure::file(path, &error)),
    }
}

/// Only one process at a time changes a file.
fn lock(path: &Path) -> Result<File, Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&name);
    let locked = file.and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| Failure::file(&name, &error))
}

/// Writes a file whole or not at all, after checking that a gateway could use it.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    // With any pepper: whether there is one is the configuration's matter.
    Store::read(text, Some(b"-")).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let name = PathBuf::from(name);
    let write = || {
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&name)?;
        if let Ok(before) = fs::metadata(path) {
            file.set_permissions(before.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&name, path)
    };
    write().map_err(|error| Failure::file(path, &error))
}

/// A length of time on the command line.
fn overlap(text: &str) -> Result<Duration, String> {
    text.parse::<weir::config::raw::units::Age>().map(|age| age.0)
}
