//! A disk without room.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::database::{Database, campaign, directory, said};

/// A file system of a few hundred KiB.
struct Small(tempfile::TempDir);

impl Small {
    /// None where this user, or this machine, cannot mount one.
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=400k", "gauge-test"]).arg(folder.path());
        let mounted = mount.output().is_ok_and(|output| output.status.success());
        if !mounted {
            println!("skipped: no tmpfs can be mounted here, which takes root");
        }
        mounted.then_some(Small(folder))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Leaves no room.
    fn fill(&self) {
        let _ = std::fs::write(self.path("filler"), vec![b'x'; 1 << 20]);
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_is_said_and_what_was_stored_stays() {
    let Some(disk) = Small::mount() else { return };
    let database = Database::at(disk.path("history.db").to_string_lossy());
    let few = super::database::small(campaign());
    let id = database.open().put(&few, Path::new("/x")).expect("there is room for this");
    let dir = directory();
    let (code, text) = database.gauge(&["import", dir.to_str().expect("UTF-8")]);
    assert!(code == 69 && text.contains("full") && text.contains("make room"), "{code} {text}");
    assert_eq!(database.query("PRAGMA integrity_check"), ["ok"]);
    assert!(database.open().load(&id).expect("still there").results == few);
}

/// One round of gauge's own demonstration service, without any gateway.
const EVALUATION: &str = "name: small
api: api.yaml
gateways: [{name: absent, gateway: tyk}]
backend:
  command: ['{gauge}', demo, --listen, '{address}:{http}']
  ports: {http: 'http://127.0.0.1:8090'}
  ready: 'http://{address}:{http}/healthz'
control: false
repeats: 1
warmup: 0s
workloads:
  - {name: read, operations: [{id: addItem}], load: {closed: {users: 1, duration: 100ms}}}
";

#[test]
fn a_run_that_cannot_be_stored_is_kept_in_its_files() {
    let Some(disk) = Small::mount() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/evaluations/demo.openapi.yaml");
    std::fs::copy(api, path("api.yaml")).expect("the description");
    std::fs::write(path("e.yaml"), EVALUATION).expect("a file");
    let database = Database::at(disk.path("history.db").to_string_lossy());
    database.open();
    disk.fill();
    let mut run = database.command(&["run", "e.yaml", "--out", "out"]);
    run.current_dir(folder.path()).env("XDG_RUNTIME_DIR", folder.path());
    let (code, text) = said(&run.output().expect("gauge starts"));
    assert_eq!(code, 73, "{text}");
    assert!(text.contains("full") && text.contains("`gauge import out` stores it"), "{text}");
    assert!(path("out/report.html").exists() && path("out/raw/r01-direct.read.json").exists(), "{text}");
    std::fs::remove_file(disk.path("filler")).expect("room");
    let (code, text) = database.gauge(&["import", path("out").to_str().expect("UTF-8")]);
    assert_eq!(code, 0, "{text}");
    assert_eq!(database.query("SELECT status FROM test_runs WHERE api = 'direct'"), ["done"]);
}
