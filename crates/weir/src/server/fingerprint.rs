//! Whether a file may say something else than before.

use std::path::Path;
use std::time::SystemTime;

/// What a file looked like when it was last looked at: a change of any of it means that it may say something else. Inode
/// and device too, because configuration is often replaced by renaming, and mounted volumes by changing a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint {
    modified: Option<SystemTime>,
    length: u64,
    inode: (u64, u64),
}

impl Fingerprint {
    /// Looks at a file; `None` while it cannot be.
    pub fn of(path: &Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok()?;
        Some(Fingerprint {
            modified: metadata.modified().ok(),
            length: metadata.len(),
            inode: (metadata.dev(), metadata.ino()),
        })
    }
}
