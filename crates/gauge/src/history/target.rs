//! Where the history is: `--store`, else the `DB_*` variables, else a file of this user's.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// A database.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub(super) kind: Kind,
    /// Named by the user, by an option or a variable: without it, what was wanted is not done.
    pub requested: bool,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Sqlite(PathBuf),
    /// Its URL, with the password.
    Postgres(String),
}

/// Why there is no place for it.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// `--store` or a variable.
    #[error("{0}")]
    Wrong(String),
    /// Nothing names one.
    #[error(
        "there is no folder for the history: neither XDG_DATA_HOME nor HOME is set; name a file with --store, or say --store none"
    )]
    NoHome,
}

/// Without a name for the database.
const DATABASE: &str = "gauge";

impl Target {
    /// What `--store` and the environment say; `None` for no history at all.
    ///
    /// # Errors
    /// When they say something that makes no sense, or nothing names a place.
    pub fn find(option: Option<&str>) -> Result<Option<Self>, TargetError> {
        Target::from(option, |name| std::env::var_os(name))
    }

    pub(super) fn from(
        option: Option<&str>,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Self>, TargetError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let named = |kind| Ok(Some(Target { kind, requested: true }));
        match option {
            Some("none") => return Ok(None),
            Some("") => {
                return Err(TargetError::Wrong("--store is empty; expected a file, postgres://... or none".into()));
            }
            Some(url) if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
                return named(Kind::Postgres(url.to_owned()));
            }
            Some(url) if url.contains("://") => {
                let shown = without_password(url);
                return Err(TargetError::Wrong(format!("--store {shown}: expected a file, postgres://... or none")));
            }
            Some(file) => return named(Kind::Sqlite(file.into())),
            None => {}
        }
        if set("DB_HOST").is_some() {
            let text = |name: &str, default: &str| match set(name) {
                None => Ok(default.to_owned()),
                Some(value) => {
                    value.into_string().map_err(|_| TargetError::Wrong(format!("{name} is not valid UTF-8")))
                }
            };
            let port = text("DB_PORT", "5432")?;
            if port.parse::<u16>().is_err() {
                return Err(TargetError::Wrong(format!(
                    "DB_PORT is `{port}`, which is not a port; expected 1 to 65535"
                )));
            }
            let user = encode(text("DB_USER", "postgres")?.as_bytes());
            let password = match text("DB_PASSWORD", "")? {
                password if password.is_empty() => String::new(),
                password => format!(":{}", encode(password.as_bytes())),
            };
            let (host, name) = (text("DB_HOST", "")?, encode(text("DB_NAME", DATABASE)?.as_bytes()));
            let host = if host.contains(':') { format!("[{host}]") } else { encode(host.as_bytes()) };
            return named(Kind::Postgres(format!("postgres://{user}{password}@{host}:{port}/{name}")));
        }
        let absolute = |name: &str| set(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        let file = data.ok_or(TargetError::NoHome)?.join("gauge/history.db");
        Ok(Some(Target { kind: Kind::Sqlite(file), requested: false }))
    }

    pub(super) fn url(&self) -> String {
        match &self.kind {
            Kind::Sqlite(file) => sqlite_url(file),
            Kind::Postgres(url) => url.clone(),
        }
    }
}

fn sqlite_url(file: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    format!("sqlite://{}?mode=rwc", encode(file.as_os_str().as_bytes()).replace("%2F", "/"))
}

/// Percent-encodes all but unreserved characters (RFC 3986, section 2.3).
fn encode(bytes: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    bytes.iter().map(|byte| if plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// A URL as it may be shown.
fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    // What is behind the question mark may hold a password too.
    let path = path.split('?').next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Sqlite(file) => write!(f, "{}", file.display()),
            Kind::Postgres(url) => f.write_str(&without_password(url)),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}
