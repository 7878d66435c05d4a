//! A configuration that a controller makes while the process runs.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::reload::Controller;
use crate::config::{self, LoadError, Loaded};
use crate::runtime::lock::lock;

/// Looks after the configuration for as long as the process lives.
pub type Drive = Box<dyn FnOnce(Arc<Controller>, Shutdown) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// Comes when the process ends; what it holds is dropped by who has done what is to be done then.
pub type Shutdown = oneshot::Receiver<oneshot::Sender<()>>;

/// How long the process waits for that.
const SHUTDOWN: Duration = Duration::from_secs(2);

/// What a controller made: `listen`, `upstreams` and `routes` as in a file, and the files that they name.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// The configuration.
    pub document: Arc<Value>,
    /// Files that are not on the disk, by the paths that the document has for them.
    pub files: Arc<BTreeMap<String, Vec<u8>>>,
}

impl Made {
    /// Nothing yet.
    pub fn nothing() -> Self {
        Made { document: Arc::new(json!({"listen": [], "routes": []})), files: Arc::default() }
    }

    /// The document as lines of a file, each entry on its own, and the names of routes and listeners by their lines, from 1.
    pub fn text(&self) -> (String, BTreeMap<usize, String>) {
        let mut lines = Vec::new();
        let mut names = BTreeMap::new();
        for key in ["listen", "upstreams", "routes"] {
            match &self.document[key] {
                Value::Array(items) if !items.is_empty() => {
                    lines.push(format!("{key}:"));
                    for item in items {
                        lines.push(format!("- {}", text(item)));
                        names.insert(lines.len(), item["name"].as_str().unwrap_or_default().to_owned());
                    }
                }
                Value::Object(map) if !map.is_empty() => {
                    lines.push(format!("{key}:"));
                    lines.extend(
                        map.iter().map(|(name, value)| format!("  {}: {}", Value::from(name.as_str()), text(value))),
                    );
                }
                Value::Array(_) => lines.push(format!("{key}: []")),
                _ => {}
            }
        }
        lines.push(String::new());
        (lines.join("\n"), names)
    }
}

/// JSON is YAML; only what would be a variable is not.
fn text(value: &Value) -> String {
    value.to_string().replace("${", "$${")
}

/// Why what a controller made is not in force.
#[derive(Debug)]
pub enum Refusal {
    /// It is wrong.
    Configuration(LoadError),
    /// An address cannot be listened on.
    Listen {
        /// The address, as in `bind`.
        bind: String,
        /// Why not.
        why: String,
    },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Configuration(error) => error.fmt(f),
            Refusal::Listen { why, .. } => f.write_str(why),
        }
    }
}

/// The configuration that a controller makes, behind the settings that a file has.
#[derive(Clone)]
pub struct Managed(Arc<State>);

struct State {
    /// What a file says of everything else: `admin`, `access_log`, `server` and so on.
    settings: String,
    made: Mutex<Made>,
    drive: Mutex<Option<Drive>>,
    shutdown: Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>,
}

impl Managed {
    /// A configuration of these settings without a listener, which `drive` makes more of.
    pub fn new(settings: String, drive: Drive) -> Self {
        let (made, drive) = (Mutex::new(Made::nothing()), Mutex::new(Some(drive)));
        Managed(Arc::new(State { settings, made, drive, shutdown: Mutex::default() }))
    }

    /// What is to be run, once.
    pub fn begin(&self, controller: Arc<Controller>) -> Option<impl Future<Output = ()> + Send + use<>> {
        let drive = lock(&self.0.drive).take()?;
        let (tell, shutdown) = oneshot::channel();
        *lock(&self.0.shutdown) = Some(tell);
        Some(drive(controller, shutdown))
    }

    /// Tells what runs that the process ends, and waits until it has given back what it holds; not for long.
    pub async fn shut_down(&self) {
        let Some(tell) = lock(&self.0.shutdown).take() else { return };
        let (done, is_done) = oneshot::channel();
        if tell.send(done).is_ok() {
            // An error is that of a sender that was dropped: it is done.
            let _ = tokio::time::timeout(SHUTDOWN, is_done).await;
        }
    }

    /// Puts what was made in place of what there is, which it returns.
    pub fn replace(&self, made: Made) -> Made {
        std::mem::replace(&mut lock(&self.0.made), made)
    }

    /// How many lines of a configuration are those of the settings.
    pub fn settings_lines(&self) -> usize {
        self.0.settings.lines().count()
    }

    /// The whole configuration.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let made = lock(&self.0.made).clone();
        let settings = &self.0.settings;
        let whole = || {
            let end = if settings.is_empty() || settings.ends_with('\n') { "" } else { "\n" };
            format!("{settings}{end}{}", made.text().0)
        };
        let loaded = config::load_managed(
            "objects",
            (settings, &made.document),
            whole,
            &config::process_environment,
            &made.files,
        );
        loaded.map_err(LoadError::Invalid)
    }
}

impl fmt::Debug for Managed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Managed").finish_non_exhaustive()
    }
}

impl PartialEq for Managed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Managed {}
