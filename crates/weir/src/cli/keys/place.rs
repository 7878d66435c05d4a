//! Where the keys are that a command is about.

use std::path::PathBuf;
use std::time::Duration;

use auth::api_key::Entry;
use clap::Args;
use weir::config::{AuthMethod, KeyStore, LoadError, Redis, load_file, process_environment};

use super::file::KeyFile;
use super::remote::RemoteKeys;
use super::{Failure, Successor};

/// Exactly one of a file, a Redis and a configuration.
#[derive(Args)]
#[group(id = "place", required = true, multiple = false)]
struct Which {
    /// The key file, as `store: {file: ...}` names it.
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The Redis, as `redis: {url: ...}` names it.
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// The configuration that says which store its API keys are in.
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Args)]
pub(super) struct PlaceArgs {
    #[command(flatten)]
    which: Which,
    /// Namespace of the gateways, with --store.
    #[arg(long, value_name = "NAME", default_value = "weir", conflicts_with_all = ["file", "config"], value_parser = namespace)]
    namespace: String,
    /// Authenticator whose store is meant, with --config; needed where several have API keys.
    #[arg(long, value_name = "NAME", requires = "config")]
    auth: Option<String>,
}

/// A store that can be changed.
pub(super) enum WritableStore {
    File(KeyFile),
    Redis(RemoteKeys),
}

/// A namespace that a gateway can have: keys in another one would open nothing.
fn namespace(text: &str) -> Result<String, &'static str> {
    if Redis::is_namespace(text) { Ok(text.to_owned()) } else { Err(Redis::NAMESPACE) }
}

impl PlaceArgs {
    pub(super) fn open(self) -> Result<WritableStore, Failure> {
        match (self.which.file, self.which.store, self.which.config) {
            (Some(file), ..) => Ok(WritableStore::File(KeyFile(file))),
            (None, Some(url), _) => Ok(WritableStore::Redis(RemoteKeys::open(&url, &self.namespace)?)),
            (None, None, Some(config)) => of_configuration(&config, self.auth.as_deref()),
            (None, None, None) => Err(Failure::usage("expected --file, --store or --config")),
        }
    }
}

fn of_configuration(path: &std::path::Path, auth: Option<&str>) -> Result<WritableStore, Failure> {
    let loaded = load_file(path, &process_environment).map_err(|error| match error {
        LoadError::Unreadable { .. } => Failure::unreadable(error.to_string()),
        LoadError::Invalid(problems) => Failure::usage(problems.to_string()),
    })?;
    let all = loaded.config.auth.iter().filter_map(|one| match &one.method {
        AuthMethod::ApiKey(keys) => Some((&*one.name, &keys.store)),
        _ => None,
    });
    let all: Vec<(&str, &KeyStore)> = all.collect();
    let names = all.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let shown = path.display();
    let store = match auth {
        Some(wanted) => all.iter().find(|(name, _)| *name == wanted).map(|(_, store)| *store).ok_or_else(|| {
            Failure::usage(format!("{shown}: `auth` has no API keys named `{wanted}`; there are: {names}"))
        })?,
        None => match &all[..] {
            [] => return Err(Failure::usage(format!("{shown}: no authenticator has API keys"))),
            [(_, first), rest @ ..] if rest.iter().all(|(_, store)| store == first) => first,
            _ => return Err(Failure::usage(format!("{shown}: several stores; choose one by --auth: {names}"))),
        },
    };
    match store {
        KeyStore::File(file, _) => Ok(WritableStore::File(KeyFile(file.clone()))),
        KeyStore::Variable(name, _) => Err(Failure::usage(format!(
            "{shown}: the keys are in the environment variable {name}; change them where it is set, with --file"
        ))),
        KeyStore::Redis(_) => match &loaded.config.redis {
            Some(redis) => Ok(WritableStore::Redis(RemoteKeys::open(&redis.url, &redis.namespace)?)),
            None => Err(Failure::usage(format!("{shown}: there is no `redis` section"))),
        },
    }
}

impl WritableStore {
    pub(super) fn add(&self, entry: &Entry) -> Result<(), Failure> {
        match self {
            WritableStore::File(file) => file.add(entry),
            WritableStore::Redis(redis) => redis.add(entry),
        }
    }

    pub(super) fn list(&self) -> Result<Vec<Result<Entry, String>>, Failure> {
        match self {
            WritableStore::File(file) => file.list(),
            WritableStore::Redis(redis) => redis.list(),
        }
    }

    /// Makes another key, and lets the old one expire after this time.
    pub(super) fn rotate(&self, id: &str, overlap: Duration) -> Result<Successor, Failure> {
        match self {
            WritableStore::File(file) => file.rotate(id, overlap),
            WritableStore::Redis(redis) => redis.rotate(id, overlap),
        }
    }

    pub(super) fn revoke(&self, id: &str) -> Result<(), Failure> {
        match self {
            WritableStore::File(file) => file.revoke(id),
            WritableStore::Redis(redis) => redis.revoke(id),
        }
    }
}
