//! Whether a file may say something else than before.
//!
//! A fingerprint is taken before the file is read: a change between the two is then seen by the next look.

use std::path::Path;
use std::time::{Duration, SystemTime};

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

    /// Whether it is the same file, written to or not.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.inode == other.inode
    }

    /// Whether a file looks otherwise now than it did; `seen` is what it looks like then. A file may be missing for a moment while it is
    /// replaced: that does not count.
    pub fn is_news(seen: &mut Option<Self>, now: Option<Self>) -> bool {
        let is_news = now.is_some() && now != *seen;
        if is_news {
            *seen = now;
        }
        is_news
    }

    /// Looks at a file that was read since `began`, without a look before; `None` if it may have been changed since then.
    pub fn of_unchanged(path: &Path, began: SystemTime) -> Option<Self> {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok()?;
        // Renaming changes this time too, and a copy that keeps the time of modification.
        let changed = SystemTime::UNIX_EPOCH
            + Duration::new(
                metadata.ctime().max(0).cast_unsigned(),
                metadata.ctime_nsec().clamp(0, 999_999_999) as u32,
            );
        if changed >= began { None } else { Self::of(path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changed_after_the_reading_began_counts_as_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("key.pem"), folder.path().join("other.pem"));
        std::fs::write(&path, "one").unwrap();
        std::fs::write(&other, "two").unwrap();
        let later = SystemTime::now() + Duration::from_secs(1);
        assert_eq!(Fingerprint::of_unchanged(&path, later), Fingerprint::of(&path));
        assert_eq!(Fingerprint::of_unchanged(&path, SystemTime::UNIX_EPOCH), None);
        assert_eq!(Fingerprint::of_unchanged(&folder.path().join("missing"), later), None);
        // What replaced it is older than the reading, and came later.
        let old = SystemTime::now() - Duration::from_secs(3600);
        std::fs::File::open(&other).unwrap().set_modified(old).unwrap();
        let began = SystemTime::UNIX_EPOCH + Duration::from_secs(1);
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(Fingerprint::of_unchanged(&path, began), None);
    }
}
