//! A file of keys.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use auth::api_key::{Entry, Store};

use super::{Failure, Successor, successor};

/// A file that authenticators read.
pub(super) struct KeyFile(pub(super) PathBuf);

impl KeyFile {
    pub(super) fn add(&self, entry: &Entry) -> Result<(), Failure> {
        let _lock = lock(&self.0)?;
        let mut text = read_or_empty(&self.0)?;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&entry.line());
        replace(&self.0, &text)
    }

    pub(super) fn list(&self) -> Result<Vec<Result<Entry, String>>, Failure> {
        let text = fs::read_to_string(&self.0).map_err(|error| failure(&self.0, &error))?;
        let entries = Entry::read_file(&text);
        let entries = entries.map_err(|error| Failure::usage(format!("{}: {error}", self.0.display())))?;
        Ok(entries.into_iter().map(|(_, entry)| Ok(entry)).collect())
    }

    pub(super) fn rotate(&self, id: &str, overlap: Duration) -> Result<Successor, Failure> {
        let _lock = lock(&self.0)?;
        let mut made = None;
        let mut text = edit(&self.0, id, |entry| {
            let next = successor(entry, overlap)?;
            entry.expires = Some(next.old_expires.clone());
            made = Some(next);
            Ok(())
        })?;
        let Some(next) = made else { return Err(Failure::usage("no key was made")) };
        text.push_str(&next.entry.line());
        replace(&self.0, &text)?;
        Ok(next)
    }

    pub(super) fn revoke(&self, id: &str) -> Result<(), Failure> {
        let _lock = lock(&self.0)?;
        let text = edit(&self.0, id, |entry| {
            entry.disabled = true;
            Ok(())
        })?;
        replace(&self.0, &text)
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::unreadable(format!("{}: {error}", path.display()))
}

/// The text of a file in which one entry is another. Files that were written by hand in another form are left to their author.
fn edit(path: &Path, id: &str, change: impl FnOnce(&mut Entry) -> Result<(), Failure>) -> Result<String, Failure> {
    let text = fs::read_to_string(path).map_err(|error| failure(path, &error))?;
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
        Err(error) => Err(failure(path, &error)),
    }
}

/// Only one process at a time changes a file.
fn lock(path: &Path) -> Result<File, Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let name = PathBuf::from(name);
    let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&name);
    let locked = file.and_then(|file| file.lock().map(|()| file));
    locked.map_err(|error| failure(&name, &error))
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
    write().map_err(|error| failure(path, &error))
}
