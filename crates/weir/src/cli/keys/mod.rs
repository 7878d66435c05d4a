//! `weir keys`: makes, lists, rotates and revokes API keys, in a file or in Redis.

mod file;
mod place;
mod remote;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use auth::Priority;
use auth::api_key::{Entry, Key, hex, sha256, time_text};
use clap::{Args, Subcommand};

use super::{BAD_CONFIGURATION, UNREADABLE, print, write_out};
use place::PlaceArgs;

/// Redis cannot be reached (EX_UNAVAILABLE).
const UNAVAILABLE: u8 = 69;

const EXAMPLES: &str = "\
Examples:
  weir keys create shop --file keys.yaml --tier gold --expires 2027-12-31
                                   print a new key once and add its entry to the file
  weir keys list --file keys.yaml
  weir keys rotate k7qm2xpz81ab --file keys.yaml --overlap 7d
                                   print a new key; the old one holds for seven more days
  weir keys revoke k7qm2xpz81ab --file keys.yaml
  weir keys create shop --config weir.yaml
                                   in the store of the configuration: its file, or its Redis
  weir keys revoke k7qm2xpz81ab --config weir.yaml --auth partners
                                   in the store of this authenticator, where there are several
  weir keys list --store redis://10.0.0.7:6379/0 --namespace shop
                                   in a Redis; other users of the machine can see the URL, so use
                                   --config for one with a password

A gateway that uses the file has each change in force within a second, one that uses Redis at once.
Exit codes: 64 wrong command line or unknown id, 66 unreadable file, 69 Redis does not serve.";

/// Makes, lists, rotates and revokes API keys.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key, print it once, and add its entry to the store.
    Create(Create),
    /// List the keys of a store.
    List(PlaceArgs),
    /// Make another key for the same consumer, and let the old one expire.
    Rotate(Rotate),
    /// Switch a key off; its entry stays for the record.
    Revoke(Revoke),
}

#[derive(Args)]
struct Create {
    /// Who will use the key.
    consumer: String,
    #[command(flatten)]
    place: PlaceArgs,
    /// Plan of the consumer.
    #[arg(long)]
    tier: Option<String>,
    /// What the key may do; may be given more than once.
    #[arg(long = "scope", value_name = "SCOPE")]
    scopes: Vec<String>,
    /// Route that the key opens; may be given more than once. Without it: all.
    #[arg(long = "route", value_name = "NAME")]
    routes: Vec<String>,
    /// Model that the key may use on AI routes; may be given more than once. Without it: all.
    #[arg(long = "model", value_name = "NAME")]
    models: Vec<String>,
    /// Class of its requests in queues with `order: fair`: interactive, standard or batch. Without it: standard.
    #[arg(long, value_name = "CLASS", value_parser = priority)]
    priority: Option<Priority>,
    /// The client may read how its calls of AI models were served: a request with X-Weir-Explain: 1 gets X-Weir-Decision.
    #[arg(long)]
    explain: bool,
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
    place: PlaceArgs,
    /// How long the old key still holds, such as 12h or 7d.
    #[arg(long, default_value = "7d", value_name = "TIME", value_parser = overlap)]
    overlap: Duration,
}

#[derive(Args)]
struct Revoke {
    /// Id of the key.
    id: String,
    #[command(flatten)]
    place: PlaceArgs,
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

    fn unreadable(message: impl Into<String>) -> Self {
        Failure { message: message.into(), code: UNREADABLE }
    }
}

impl Keys {
    pub(crate) fn run(self) -> ExitCode {
        let result = match self.command {
            Command::Create(create) => create.run().and_then(|key| hand_out(&key)),
            Command::List(place) => place.open().and_then(|place| place.list()).map(|entries| print(&table(&entries))),
            Command::Rotate(rotate) => rotate.run().and_then(|key| hand_out(&key)),
            Command::Revoke(revoke) => revoke.run().map(|()| ExitCode::SUCCESS),
        };
        result.unwrap_or_else(|failure| {
            eprintln!("weir: {}", failure.message);
            ExitCode::from(failure.code)
        })
    }
}

/// Prints a new key. Its entry is in the store already, and the key is nowhere else: a reader that has gone is a failure here.
fn hand_out(key: &Key) -> Result<ExitCode, Failure> {
    write_out(&format!("{}\n", key.reveal())).map(|()| ExitCode::SUCCESS).map_err(|error| Failure {
        message: format!(
            "nobody has the new key, because it cannot be written to standard output: {error}; revoke `{}`",
            key.id()
        ),
        code: 1,
    })
}

impl Create {
    fn run(self) -> Result<Key, Failure> {
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
            models: self.models,
            priority: self.priority,
            explain: self.explain,
            not_before: self.not_before,
            expires: self.expires,
            meta,
            ..Entry::default()
        })?;
        self.place.open()?.add(&entry)?;
        Ok(key)
    }
}

impl Rotate {
    fn run(self) -> Result<Key, Failure> {
        let Successor { key, entry, .. } = self.place.open()?.rotate(&self.id, self.overlap)?;
        if let Some(expires) = &entry.expires {
            eprintln!("weir: the new key expires {expires}, as the old one did before");
        }
        Ok(key)
    }
}

impl Revoke {
    fn run(self) -> Result<(), Failure> {
        self.place.open()?.revoke(&self.id)
    }
}

/// Entries for people; in place of one that cannot be read, its id and why.
fn table(entries: &[Result<Entry, String>]) -> String {
    // Whoever wrote an entry must not write to this terminal too.
    let shown = |text: &str| text.replace(char::is_control, "\u{fffd}");
    let mut out = format!("{:<14} {:<20} {:<10} {:<22} {}\n", "ID", "CONSUMER", "TIER", "EXPIRES", "STATE");
    for entry in entries {
        match entry {
            Ok(entry) => {
                let state = if entry.disabled { "revoked" } else { "" };
                let expires = entry.expires.as_deref().unwrap_or("-");
                let tier = entry.tier.as_deref().unwrap_or("-");
                let row = format!("{:<14} {:<20} {tier:<10} {expires:<22} {state}", entry.id, entry.consumer);
                out.push_str(&shown(row.trim_end()));
            }
            Err(why) => out.push_str(&shown(why)),
        }
        out.push('\n');
    }
    out
}

/// A key and the entry that goes with it.
fn new_key(entry: Entry) -> Result<(Key, Entry), Failure> {
    let random = |_| Failure { message: "the system has no random bytes".to_owned(), code: 71 };
    let key = Key::generate().map_err(random)?;
    let digest = sha256(key.reveal().as_bytes());
    let entry = Entry { id: key.id().to_owned(), sha256: hex(&digest), weak: false, ..entry };
    Ok((key, entry))
}

/// What takes the place of a key.
struct Successor {
    key: Key,
    entry: Entry,
    /// When the key before expires from now on.
    old_expires: String,
}

/// A key for the same consumer, with the same rights and for the same time. The one before expires after `overlap`, and never later than
/// it would have: rotation is what one does with a key that somebody may have seen.
fn successor(before: &Entry, overlap: Duration) -> Result<Successor, Failure> {
    let now = SystemTime::now();
    if before.expires_by(now) {
        return Err(Failure::usage(format!(
            "the key `{}` has expired, and so would the next one; make one with `weir keys create`",
            before.id
        )));
    }
    let until = now + overlap;
    let old_expires = match &before.expires {
        Some(earlier) if before.expires_by(until) => earlier.clone(),
        _ => time_text(until),
    };
    let (key, entry) = new_key(Entry { not_before: None, disabled: false, ..before.clone() })?;
    Ok(Successor { key, entry, old_expires })
}

/// A length of time on the command line.
fn priority(text: &str) -> Result<Priority, String> {
    Priority::of_name(text.as_bytes()).ok_or_else(|| "it is one of interactive, standard, batch".to_owned())
}

fn overlap(text: &str) -> Result<Duration, String> {
    text.parse::<weir::config::raw::units::Age>().map(|age| age.0)
}
