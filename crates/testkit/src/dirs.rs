//! Temporary directories that do not pile up.

use std::fs;
use std::path::Path;
use std::sync::Once;

use tempfile::TempDir;

/// A directory that is removed on drop. A server that lives in a static is never dropped: the directories of test processes that
/// have ended are removed by the next one.
pub(crate) fn temporary(what: &str) -> TempDir {
    static SWEEP: Once = Once::new();
    SWEEP.call_once(sweep);
    let prefix = format!("{PREFIX}{}-{what}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir().expect("a temporary directory")
}

const PREFIX: &str = "weir-testkit-";

fn sweep() {
    let Ok(entries) = fs::read_dir(std::env::temp_dir()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
