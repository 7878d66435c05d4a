//! The files of a source: bounded, and none outside the folder of the first.

use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::report::SourceLocation;

/// Bytes of one file.
const MAX_FILE: u64 = 4 << 20;
/// Bytes of all files.
const MAX_TOTAL: u64 = 16 << 20;
/// Files that may be read, each inclusion counted.
const MAX_FILES: usize = 500;

/// Why a source could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct ImportError {
    /// Where.
    pub place: SourceLocation,
    /// What is wrong, and what to do.
    pub message: String,
}

impl ImportError {
    pub(crate) fn new(place: &SourceLocation, message: impl Into<String>) -> Self {
        Self { place: place.clone(), message: message.into() }
    }
}

/// The text of a file.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) name: Arc<str>,
    pub(crate) text: Arc<str>,
}

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Result<Self, ImportError> {
        let name: Arc<str> = name.into();
        if text.len() as u64 > MAX_FILE {
            let place = SourceLocation { file: name, line: 0 };
            return Err(ImportError::new(&place, format!("the file has more than {} MiB", MAX_FILE >> 20)));
        }
        Ok(Self { name, text: text.trim_start_matches('\u{feff}').into() })
    }

    /// A line of it.
    pub(crate) fn at(&self, line: usize) -> SourceLocation {
        SourceLocation { file: self.name.clone(), line: u32::try_from(line).unwrap_or(u32::MAX) }
    }
}

/// Reads files below one folder.
#[derive(Debug)]
pub(crate) struct Files {
    /// The folder as the user wrote it, and as it really is; none: no file may be read.
    root: Option<(PathBuf, PathBuf)>,
    read: usize,
    bytes: u64,
}

impl Files {
    /// No files at all.
    pub(crate) fn none() -> Self {
        Self { root: None, read: 0, bytes: 0 }
    }

    /// The files of the folder in which this one is, and below.
    pub(crate) fn below(path: &Path) -> Result<Self, ImportError> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        let real = fs::canonicalize(&folder).map_err(|error| unreadable(path, &error.to_string()))?;
        Ok(Self { root: Some((folder, real)), read: 0, bytes: 0 })
    }

    /// Reads a file, which must really be below the folder, symbolic links followed.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Source, ImportError> {
        let fail = |why: &str| unreadable(path, why);
        let (_, root) = self.root.as_ref().ok_or_else(|| fail("a text has no folder to include files from"))?;
        let real = fs::canonicalize(path).map_err(|error| fail(&error.to_string()))?;
        if !real.starts_with(root) {
            return Err(fail(&format!("it is not below {}; only files below that folder are read", root.display())));
        }
        self.read += 1;
        if self.read > MAX_FILES {
            return Err(fail(&format!("more than {MAX_FILES} files are included; does one include itself?")));
        }
        // A FIFO or a device would hang the reading.
        if !fs::metadata(&real).map_err(|error| fail(&error.to_string()))?.is_file() {
            return Err(fail("it is not a file"));
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(&real).map_err(|error| fail(&error.to_string()))?;
        file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(|error| fail(&error.to_string()))?;
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_TOTAL {
            return Err(fail(&format!("the files have more than {} MiB together", MAX_TOTAL >> 20)));
        }
        let text = String::from_utf8(bytes).map_err(|_| fail("it is not UTF-8 text"))?;
        Source::new(&self.name(path), &text)
    }

    /// The files that a pattern with `*` and `?` names, sorted; relative patterns begin at the folder.
    pub(crate) fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        let Some((folder, _)) = &self.root else { return Vec::new() };
        let whole = folder.join(pattern);
        let mut found = vec![PathBuf::new()];
        for component in whole.components() {
            let name = match component {
                Component::Normal(name) => name.to_string_lossy().into_owned(),
                other => {
                    found.iter_mut().for_each(|path| path.push(other));
                    continue;
                }
            };
            if !name.contains(['*', '?']) {
                found.iter_mut().for_each(|path| path.push(&name));
                continue;
            }
            let mut next = Vec::new();
            for path in &found {
                let listed = fs::read_dir(if path.as_os_str().is_empty() { Path::new(".") } else { path });
                let names = listed.into_iter().flatten().flatten().map(|entry| entry.file_name());
                let names = names.map(|name| name.to_string_lossy().into_owned());
                // As a shell does, `*` leaves out names that begin with a dot.
                let hidden = name.starts_with('.');
                next.extend(
                    names
                        .filter(|found| (hidden || !found.starts_with('.')) && matches(&name, found))
                        .map(|name| path.join(name)),
                );
                if next.len() > MAX_FILES {
                    break;
                }
            }
            found = next;
        }
        found.sort();
        found
    }

    /// A file as reports name it: from the folder of the first.
    fn name(&self, path: &Path) -> String {
        let folder = self.root.as_ref().map(|(folder, _)| folder);
        let relative = folder.and_then(|folder| path.strip_prefix(folder).ok()).unwrap_or(path);
        relative.display().to_string()
    }
}

fn unreadable(path: &Path, why: &str) -> ImportError {
    let place = SourceLocation { file: path.display().to_string().into(), line: 0 };
    ImportError::new(&place, format!("cannot be read: {why}"))
}

/// Whether a name fits a pattern of `*` and `?`; linear in the name for each star.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&c) if c == '?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, from)) => {
                    star = Some((at, from + 1));
                    p = at + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}
