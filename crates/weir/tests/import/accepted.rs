//! Every configuration that was imported in the tests of the crate is one that Weir starts with.

use std::path::{Path, PathBuf};
use std::process::Command;

fn written() -> Vec<PathBuf> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/golden");
    let folders = |path: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.is_dir()).collect()
    };
    folders(&golden).iter().flat_map(|format| folders(format)).collect()
}

#[test]
fn weir_check_accepts_what_was_written() {
    let folders = written();
    assert!(folders.len() >= 5);
    for folder in folders {
        // Files that a configuration names lie beside it.
        let mut check = Command::new(env!("CARGO_BIN_EXE_weir"));
        // Keys are named, not copied.
        let written = std::fs::read_to_string(folder.join("weir.yaml")).unwrap();
        for variable in written.split("\"${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name) {
            check.env(variable, "k");
        }
        let output = check.args(["check", "weir.yaml"]).current_dir(&folder).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {told}", folder.display());
    }
}
