//! A new configuration for a running process: read, checked, compared, put in force whole; or not at all.

mod admin;
mod changes;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use changes::changes;

use super::ServeError;
use super::history::History;
use super::listeners::{Change, Listeners};
use super::managed::{Made, Managed, Refusal};
use super::process::announce;
use super::self_signed::SelfSigned;
use crate::admin::{ReloadError, Reloaded};
use crate::config::{self, Config, LoadError, Loaded, Mode};
use crate::policy::ai::AiState;
use crate::policy::auth::Authenticators;
use crate::policy::cache::Cache;
use crate::policy::limit::Limits;
use crate::redis::Redis;
use crate::route::Table;
use crate::runtime::fingerprint::Fingerprint;
use crate::runtime::lock::lock;
use crate::upstream::{Resolved, Resolver, Upstreams};
use crate::worker::shared::{Message, Shared};
use crate::worker::snapshot::Generation;

/// How long a start or a reload waits for names to be resolved; slower ones are resolved while requests are served.
const RESOLVE: Duration = Duration::from_secs(2);

/// Where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file, read again at every reload.
    File(PathBuf),
    /// The environment, which does not change while a process lives.
    Environment,
    /// A controller that makes it from objects.
    Managed(Managed),
}

impl Source {
    /// Reads and checks the configuration. With `self_signed`, listeners in clear text speak TLS.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn load(&self, self_signed: Option<&SelfSigned>) -> Result<Loaded, LoadError> {
        let mut loaded = self.read()?;
        if let Some(self_signed) = self_signed {
            self_signed.apply(&mut loaded.config);
        }
        Ok(loaded)
    }

    /// Looks at the file, if it is one.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Source::File(path) => Fingerprint::of(path),
            Source::Environment | Source::Managed(_) => None,
        }
    }

    fn read(&self) -> Result<Loaded, LoadError> {
        match self {
            Source::File(path) => config::load_file(path, &config::process_environment),
            Source::Environment => config::load_environment(&config::process_environment).map_err(LoadError::Invalid),
            Source::Managed(managed) => managed.load(),
        }
    }
}

/// What is known of the files that the configuration was made of, when a process starts.
pub struct FirstReading {
    /// The configuration as it was said.
    pub file: config::raw::File,
    /// Its file before it was read.
    pub seen: Option<Fingerprint>,
    /// When the reading began.
    pub began: SystemTime,
}

/// The hand of the control thread on the rest of the process.
pub struct Controller {
    source: Source,
    self_signed: Option<SelfSigned>,
    /// The configuration's file, as it was when it was last looked at.
    seen: Mutex<Option<Fingerprint>>,
    /// Files that TLS needs, as they were when they were read.
    tls_files: Mutex<Vec<(PathBuf, Option<Fingerprint>)>>,
    shared: Arc<Shared>,
    /// The configuration in force as it was said.
    file: Mutex<config::raw::File>,
    resolver: Resolver,
    listeners: Mutex<Listeners>,
    /// What became of the last reloads.
    history: History,
    /// One reload at a time.
    reloading: tokio::sync::Mutex<()>,
    /// Told of the upstreams of every new configuration.
    changed: tokio::sync::watch::Sender<Arc<Upstreams>>,
}

impl Controller {
    /// A controller for a process that just started.
    pub fn new(
        source: Source,
        self_signed: Option<SelfSigned>,
        first: FirstReading,
        shared: Arc<Shared>,
        resolver: Resolver,
        listeners: Listeners,
    ) -> Self {
        let (changed, _) = tokio::sync::watch::channel(shared.generation().upstreams.clone());
        let unchanged = |path: &PathBuf| (path.clone(), Fingerprint::of_unchanged(path, first.began));
        let tls_files = Mutex::new(shared.generation().config.tls_files.iter().map(unchanged).collect());
        Controller {
            source,
            self_signed,
            seen: Mutex::new(first.seen),
            tls_files,
            shared,
            file: Mutex::new(first.file),
            resolver,
            listeners: Mutex::new(listeners),
            history: History::default(),
            reloading: tokio::sync::Mutex::new(()),
            changed,
        }
    }

    /// The listeners of the process.
    pub fn listeners(&self) -> MutexGuard<'_, Listeners> {
        lock(&self.listeners)
    }

    /// Resolves names of targets.
    pub fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// The upstreams in force, as they change.
    pub fn upstreams(&self) -> tokio::sync::watch::Receiver<Arc<Upstreams>> {
        self.changed.subscribe()
    }

    /// Fetches the keys of issuers from now on.
    pub fn follow_issuers(&self) {
        self.shared.generation().auth.follow_issuers(&self.resolver);
    }

    /// Reads files of credentials again that changed, beside everything else.
    pub fn follow_credentials(&self) {
        let auth = self.shared.generation().auth.clone();
        if !auth.is_empty() {
            tokio::task::spawn_blocking(move || auth.follow_files());
        }
    }

    /// Whether a file that TLS needs has changed since the last call.
    pub fn tls_files_changed(&self) -> bool {
        let mut files = lock(&self.tls_files);
        let mut has_changed = false;
        for (path, seen) in files.iter_mut() {
            has_changed |= Fingerprint::is_news(seen, Fingerprint::of(path));
        }
        has_changed
    }

    /// Whether the configuration's file has changed since the last call, or since before it was first read.
    pub fn file_changed(&self) -> bool {
        Fingerprint::is_news(&mut lock(&self.seen), self.source.fingerprint())
    }

    /// The file that is watched.
    pub fn watched(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Environment | Source::Managed(_) => None,
        }
    }

    /// The controller that makes the configuration, if one does.
    pub fn managed(&self) -> Option<&Managed> {
        match &self.source {
            Source::Managed(managed) => Some(managed),
            Source::File(_) | Source::Environment => None,
        }
    }

    /// Changes endpoints that a controller finds.
    pub fn set_endpoints(&self, endpoints: BTreeMap<String, Vec<SocketAddr>>) {
        self.shared.generation().upstreams.set_endpoints(endpoints);
    }

    /// Puts what a controller made in force, with its endpoints.
    ///
    /// # Errors
    /// What is wrong with it; nothing has changed then.
    pub async fn manage(&self, made: Made, endpoints: BTreeMap<String, Vec<SocketAddr>>) -> Result<(), Refusal> {
        let Some(managed) = self.managed() else { return Ok(()) };
        let before = managed.replace(made);
        // Before anything changes, for a message that says what is wrong with which route or listener.
        let checked = self.read().map_err(Refusal::Configuration).and_then(|reading| {
            self.can_listen(&reading.loaded.config.listen)?;
            Ok(reading)
        });
        let reading = match checked {
            Ok(reading) => reading,
            Err(refusal) => {
                managed.replace(before);
                return Err(refusal);
            }
        };
        self.set_endpoints(endpoints);
        if let Err(error) = self.reload_from("objects of the cluster changed", || Ok(reading)).await {
            managed.replace(before);
            let error = std::io::Error::other(error.to_string());
            let path = "the configuration made from objects".into();
            return Err(Refusal::Configuration(LoadError::Unreadable { path, error }));
        }
        self.shared.generation().upstreams.forget_endpoints();
        self.shared.allow_readiness();
        Ok(())
    }

    /// What is opened for this is closed again.
    fn can_listen(&self, wanted: &[config::Listen]) -> Result<(), Refusal> {
        let opened = self.listeners().open(wanted);
        opened.map(drop).map_err(|(bind, error)| {
            let bind = bind.to_string();
            let why = ServeError::Listen { key: "listen", address: bind.clone(), error }.to_string();
            Refusal::Listen { bind, why }
        })
    }

    /// Reads the configuration again and puts it in force. The last good one stays on error.
    ///
    /// # Errors
    /// Why nothing changed.
    pub async fn reload(&self, why: &str) -> Result<Reloaded, ReloadError> {
        self.reload_from(why, || self.read()).await
    }

    async fn reload_from(
        &self,
        why: &str,
        read: impl FnOnce() -> Result<Reading, LoadError>,
    ) -> Result<Reloaded, ReloadError> {
        let _one_at_a_time = self.reloading.lock().await;
        let result = self.try_reload(read).await;
        self.history.add(why, &result);
        match &result {
            Ok(reloaded) => {
                self.shared.metrics().reload_applied();
                let changes = reloaded.changes.join("; ");
                tracing::info!(why, changes, "configuration reloaded");
            }
            Err(error) => {
                self.shared.metrics().reload_refused();
                tracing::error!(why, "configuration not reloaded, the last good one stays in force:\n{error}");
            }
        }
        result
    }

    fn read(&self) -> Result<Reading, LoadError> {
        // Before they are read: a change in between is seen by the next look.
        let tls_files = look_at(&self.shared.generation().config.tls_files);
        Ok(Reading { tls_files, loaded: self.source.load(self.self_signed.as_ref())? })
    }

    async fn try_reload(&self, read: impl FnOnce() -> Result<Reading, LoadError>) -> Result<Reloaded, ReloadError> {
        if self.source == Source::Environment {
            return Err(ReloadError::NoFile("there is no configuration file: this process was started with environment variables only, restart it to change them".into()));
        }
        let Reading { tls_files: before_reading, loaded } = read().map_err(refused)?;
        // Before anything changes: a listener that cannot be opened refuses the whole reload.
        let opened = self.listeners().open(&loaded.config.listen).map_err(|(bind, error)| {
            let error = ServeError::Listen { key: "listen", address: bind.to_string(), error };
            ReloadError::Failed(error.to_string())
        })?;
        let before = self.shared.generation();
        // The old configuration serves until the names of the new one have addresses. No pause from here to the new generation.
        before.upstreams.learn(resolve(&before.upstreams, &loaded.config, &self.resolver).await);
        let mut changes = changes(&before.config, &loaded.config);
        let change = self.listeners().apply(opened).map_err(|error| ReloadError::Failed(error.to_string()))?;
        changes.extend(change.added.iter().map(|bind| format!("listen {bind} added")));
        changes.extend(change.changed.iter().map(|bind| format!("listen {bind} changed")));
        changes.extend(change.removed.iter().map(|bind| format!("listen {bind} removed")));
        let generation = Arc::new(generation(loaded.config, Some(&before)));
        *lock(&self.file) = loaded.file;
        let seen = |path: &PathBuf| match before_reading.iter().find(|(known, _)| known == path) {
            Some(known) => known.clone(),
            None => (path.clone(), Fingerprint::of(path)),
        };
        *lock(&self.tls_files) = generation.config.tls_files.iter().map(seen).collect();
        let upstreams = generation.upstreams.clone();
        self.shared.publish(generation);
        self.changed.send_replace(upstreams);
        self.follow_issuers();
        // Behind the configuration in every mailbox: what a new listener accepts follows it.
        self.listen(change);
        Ok(Reloaded { changes })
    }

    fn listen(&self, change: Change) {
        for (worker, sockets) in self.shared.workers().iter().zip(change.opened) {
            // A worker that drains closes them.
            let _ = worker.tell(Message::Listen(sockets));
        }
        if !change.removed.is_empty() {
            self.shared.tell_all(|| Message::Unlisten(change.removed.clone()));
        }
        let listeners = self.listeners();
        change
            .added
            .iter()
            .filter_map(|bind| listeners.url_of(bind))
            .for_each(|url| announce(&format!("listening on {url}")));
    }
}

fn refused(error: LoadError) -> ReloadError {
    match error {
        LoadError::Unreadable { .. } => ReloadError::Failed(error.to_string()),
        LoadError::Invalid(problems) => ReloadError::Invalid(problems.to_string()),
    }
}

/// A configuration, and the files that TLS needed before it was read.
struct Reading {
    tls_files: Vec<(PathBuf, Option<Fingerprint>)>,
    loaded: Loaded,
}

fn look_at(files: &[PathBuf]) -> Vec<(PathBuf, Option<Fingerprint>)> {
    files.iter().map(|path| (path.clone(), Fingerprint::of(path))).collect()
}

/// Resolves the names of a configuration that have no address yet, and reads its registries; says what is still not known.
pub async fn resolve(upstreams: &Upstreams, config: &Config, resolver: &Resolver) -> Resolved {
    let resolved = upstreams.resolve_new(config, resolver, RESOLVE).await;
    if !resolved.missing.is_empty() {
        let names = resolved.missing.join(", ");
        tracing::warn!(names, "names without an address yet: their targets get no requests until they resolve");
    }
    resolved
}

/// Builds what all workers share of a configuration; what did not change is taken over from the one before.
pub fn generation(config: Config, before: Option<&Generation>) -> Generation {
    let upstreams = match before {
        Some(before) => Upstreams::reload(&config, &before.upstreams),
        None => Upstreams::new(&config, crate::upstream::Clock::since(crate::runtime::clock::process_start())),
    };
    let caches = Cache::all(&config, before.map_or(&[], |before| &before.caches));
    let redis = config.redis.as_ref().and_then(|redis| {
        let same = before.and_then(|before| before.redis.clone()).filter(|before| before.config() == redis);
        // A URL that cannot be read was refused with the configuration.
        same.or_else(|| Redis::new(redis).ok())
    });
    let ai = AiState::new(&config, before.map(|before| &*before.ai));
    let limits = Limits::new(&config, before.map(|before| &*before.limits));
    Generation {
        auth: Arc::new(Authenticators::new(&config, redis.as_ref(), before.map(|before| &*before.auth))),
        table: Table::of_listener(&config.routes, None, config.mode == Mode::Managed),
        listener_tables: listener_tables(&config),
        decisive_fields: config.decisive_fields(),
        upstreams: Arc::new(upstreams),
        ai: Arc::new(ai),
        limits: Arc::new(limits),
        redis,
        caches,
        config: Arc::new(config),
    }
}

/// The routes of each listener that routes name, by name.
fn listener_tables(config: &Config) -> Vec<(Arc<str>, Table)> {
    let names: BTreeSet<&Arc<str>> = config.routes.iter().filter_map(|route| route.matcher.listener.as_ref()).collect();
    let table = |name: &Arc<str>| Table::of_listener(&config.routes, Some(name), config.mode == Mode::Managed);
    names.into_iter().map(|name| (name.clone(), table(name))).collect()
}
