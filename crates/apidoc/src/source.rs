//! Where the bytes of documents come from: a small trait, so that readers can be tested and fuzzed without files.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// Gives the bytes of a document by name.
///
/// Names are file paths with `/`; a reference in a document is joined to the name of the document that holds it
/// before it is requested. Remote references never get here.
pub trait Source {
    /// The whole document called `name`, or at most `limit + 1` bytes of a larger one.
    ///
    /// # Errors
    /// Whatever keeps the document from being read; the error's text becomes part of the diagnostic.
    fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>>;
}

/// Local files. Only regular files are read, so that a reference to a device or a pipe cannot hang the reader.
#[derive(Clone, Debug, Default)]
pub struct Files {
    root: Option<PathBuf>,
}

impl Files {
    /// Any file that the process may read.
    #[must_use]
    pub fn anywhere() -> Self {
        Self { root: None }
    }

    /// Only files in `root` and below, symbolic links resolved: for descriptions from people who are not trusted.
    ///
    /// # Errors
    /// When `root` does not exist or cannot be resolved.
    pub fn under(root: impl AsRef<Path>) -> io::Result<Self> {
        Ok(Self { root: Some(root.as_ref().canonicalize()?) })
    }
}

impl Source for Files {
    fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        let mut path = PathBuf::from(name);
        if let Some(root) = &self.root {
            path = path.canonicalize()?;
            if !path.starts_with(root) {
                let text = format!("it lies outside of {}, the only folder that may be read", root.display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
        }
        if !std::fs::metadata(&path)?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(&path)?.take(limit as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Documents held in memory, by name.
impl Source for BTreeMap<String, Vec<u8>> {
    fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        let bytes = self.get(name).ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such document"))?;
        Ok(bytes[..bytes.len().min(limit.saturating_add(1))].to_vec())
    }
}

/// What a hostile or broken document may cost at most. The defaults are far above the largest public descriptions.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one document: 64 MiB.
    pub document_bytes: usize,
    /// Bytes of all documents together: 256 MiB.
    pub total_bytes: usize,
    /// Documents read through references: 1,000.
    pub documents: usize,
    /// Nesting of mappings and lists: 128.
    pub depth: usize,
    /// Values in all documents, with each alias and `!include` counted as often as it is used: 8 million.
    pub values: u64,
    /// Values in one example or generated instance: 10,000.
    pub example_values: usize,
    /// Values in the model: parameters, fields and parts of examples: 4 million.
    pub model_values: u64,
    /// Operations in one description: 20,000.
    pub operations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            document_bytes: 64 << 20,
            total_bytes: 256 << 20,
            documents: 1_000,
            depth: 128,
            values: 8_000_000,
            example_values: 10_000,
            model_values: 4_000_000,
            operations: 20_000,
        }
    }
}

/// `true` for a reference that names another machine or a scheme, such as `https://…`, `//host/…` or `urn:…`.
pub(crate) fn is_remote(reference: &str) -> bool {
    if reference.starts_with("//") {
        return true;
    }
    // A scheme has at least two letters here, so that a Windows drive is not taken for one (RFC 3986, section 3.1).
    match reference.split_once(':') {
        Some((scheme, _)) => {
            scheme.len() > 1
                && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        }
        None => false,
    }
}

/// The name of the document that `reference` (without fragment) means inside of the document `base`.
pub(crate) fn join(base: &str, reference: &str) -> String {
    let joined = Path::new(base).parent().unwrap_or(Path::new("")).join(reference);
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in joined.components() {
        match part {
            Component::CurDir => {}
            // `a/../b` is `b`, as in a URL: the same document must not be read under two names
            Component::ParentDir if matches!(parts.last(), Some(Component::Normal(_))) => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.iter().collect::<PathBuf>().to_string_lossy().into_owned()
}

/// Undoes `%41`; bytes that do not make UTF-8 stay as they were written.
pub(crate) fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let hex = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let pair = (bytes[i] == b'%').then(|| Some((hex(*bytes.get(i + 1)?)?, hex(*bytes.get(i + 2)?)?))).flatten();
        match pair {
            Some((high, low)) => {
                out.push(high << 4 | low);
                i += 3;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests;
