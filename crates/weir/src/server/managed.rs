//! A configuration that a controller makes while the process runs.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use super::reload::Controller;
use crate::config::{self, LoadError, Loaded};
use crate::runtime::lock::lock;

/// Looks after the configuration for as long as the process lives.
pub type Drive = Box<dyn FnOnce(Arc<Controller>) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// What a controller made: `listen`, `upstreams` and `routes` as in a file, and the files that they name.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Made {
    /// Lines of the configuration.
    pub text: String,
    /// Files that are not on the disk, by the paths that the text has for them.
    pub files: BTreeMap<String, Vec<u8>>,
}

/// The configuration that a controller makes, behind the settings that a file has.
#[derive(Clone)]
pub struct Managed(Arc<State>);

struct State {
    /// What a file says of everything else: `admin`, `access_log`, `server` and so on.
    settings: String,
    made: Mutex<Made>,
    drive: Mutex<Option<Drive>>,
}

impl Managed {
    /// A configuration of these settings without a listener, which `drive` makes more of.
    pub fn new(settings: String, drive: Drive) -> Self {
        let made = Made { text: "listen: []\nroutes: []\n".to_owned(), files: BTreeMap::new() };
        Managed(Arc::new(State { settings, made: Mutex::new(made), drive: Mutex::new(Some(drive)) }))
    }

    /// What is to be run, once.
    pub fn begin(&self) -> Option<Drive> {
        lock(&self.0.drive).take()
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
        let Made { text, files } = lock(&self.0.made).clone();
        let settings = &self.0.settings;
        let text = if settings.is_empty() || settings.ends_with('\n') {
            format!("{settings}{text}")
        } else {
            format!("{settings}\n{text}")
        };
        config::load_managed("objects", &text, &config::process_environment, &files).map_err(LoadError::Invalid)
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
