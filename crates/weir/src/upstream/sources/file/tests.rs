use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::config::load_text;
use crate::upstream::{Clock, FailureKind, Pick, Request, TargetCondition, UpstreamId, Views};

/// A file with what a watch of it decides; time is made up.
struct Rig {
    directory: tempfile::TempDir,
    watch: Watch,
    now: Instant,
}

impl Rig {
    fn new() -> Rig {
        Rig { directory: tempfile::tempdir().unwrap(), watch: Watch::default(), now: Instant::now() }
    }

    fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("targets.yaml")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn replace(&self, text: &str) {
        let new = self.directory.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path()).unwrap();
    }

    /// Whether the file is read at a look so much later.
    fn look(&mut self, after: Duration) -> bool {
        self.now += after;
        self.watch.is_due(Fingerprint::of(&self.path()), self.now)
    }

    /// A watch that has read the file.
    fn settled(text: &str) -> Rig {
        let mut rig = Rig::new();
        rig.write(text);
        assert!(!rig.look(LOOK));
        assert!(rig.look(REST));
        rig
    }
}

#[test]
fn a_file_that_stays_is_read_once() {
    let mut rig = Rig::settled("[]");
    for _ in 0..100 {
        assert!(!rig.look(LOOK));
    }
}

#[test]
fn a_file_that_was_replaced_is_read_at_the_second_look() {
    let mut rig = Rig::settled("[]");
    rig.replace("- http://a\n");
    assert!(!rig.look(LOOK));
    assert!(rig.look(CONFIRM));
    assert!(!rig.look(LOOK));
}

/// The configuration that was read last has read the file too, perhaps before a change that came since.
#[test]
fn a_file_that_was_replaced_after_a_start_or_a_reload_is_read_at_the_second_look() {
    let mut rig = Rig::new();
    rig.write("[]");
    rig.watch = Watch::since(Fingerprint::of(&rig.path()));
    rig.replace("- http://a\n");
    assert!(!rig.look(LOOK));
    assert!(rig.look(CONFIRM));
    assert!(!rig.look(REST));
    // What is the same file may be written to just now.
    rig.watch = Watch::since(Fingerprint::of(&rig.path()));
    rig.write("- http://a\n- http://b\n");
    assert!(!rig.look(LOOK));
    assert!(!rig.look(REST - Duration::from_millis(1)));
    assert!(rig.look(Duration::from_millis(1)));
}

#[test]
fn a_file_that_is_written_in_pieces_is_read_when_it_rests() {
    let mut rig = Rig::settled("[]");
    for pieces in 1..20 {
        rig.write(&"- http://a\n".repeat(pieces));
        assert!(!rig.look(CONFIRM));
        assert!(!rig.look(REST - Duration::from_millis(1)));
    }
    assert!(rig.look(Duration::from_millis(1)));
    assert!(!rig.look(LOOK));
}

#[test]
fn a_file_that_was_removed_counts_only_when_it_stays_away() {
    let mut rig = Rig::settled("[]");
    fs::remove_file(rig.path()).unwrap();
    assert!(!rig.look(LOOK));
    rig.write("- http://a\n");
    assert!(!rig.look(CONFIRM));
    // Another file, which may have the inode number of the one that was removed.
    assert!(rig.look(REST));
    fs::remove_file(rig.path()).unwrap();
    assert!(!rig.look(LOOK));
    assert!(rig.look(REST), "a reading that fails");
    assert!(!rig.look(REST), "and is not repeated");
}

#[test]
fn another_target_of_a_link_on_the_way_is_another_file() {
    // As Kubernetes writes a ConfigMap: the file is a link to `..data/targets.yaml`, and `..data` is a link that is replaced.
    let mut rig = Rig::new();
    let folder = rig.directory.path().to_owned();
    for (version, text) in [("..1", "[]"), ("..2", "- http://a\n")] {
        fs::create_dir(folder.join(version)).unwrap();
        fs::write(folder.join(version).join("targets.yaml"), text).unwrap();
    }
    symlink("..1", folder.join("..data")).unwrap();
    symlink("..data/targets.yaml", rig.path()).unwrap();
    assert!(!rig.look(LOOK));
    assert!(rig.look(REST));
    symlink("..2", folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
    assert!(!rig.look(LOOK));
    assert!(rig.look(CONFIRM));
}

/// An upstream whose targets are in a file.
fn upstreams(folder: &Path, options: &str) -> Upstreams {
    let text = format!(
        "listen: 127.0.0.1:0\nupstreams: {{u: {{targets: {{file: targets.yaml}}{options}}}}}\nroutes: [{{match: {{path: /*}}, upstream: u}}]\n"
    );
    let source = folder.join("weir.yaml").display().to_string();
    let config = load_text(&source, &text, &|_| None).unwrap_or_else(|problems| panic!("{problems}")).config;
    Upstreams::new(&config, Clock::start())
}

fn addresses(upstreams: &Upstreams) -> Vec<String> {
    let snapshot = upstreams.get(UpstreamId(0)).snapshot();
    snapshot.targets.into_iter().map(|target| target.address).collect()
}

#[test]
fn what_stays_keeps_its_state_and_what_is_broken_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("targets.yaml");
    fs::write(&path, "- http://10.0.0.1\n- http://10.0.0.2\n").unwrap();
    let upstreams = upstreams(folder.path(), ", eject: {after: 1, for: 10m, max: 100%}, breaker: {}");
    let views = Views::new(
        std::sync::Arc::new(Upstreams {
            list: upstreams.list.clone(),
            common: upstreams.common.clone(),
            seen: Default::default(),
        }),
        1,
    );
    let now = || upstreams.clock().now();
    let pick = || match views.get(UpstreamId(0)).pick(&Request::default(), now()) {
        Pick::Target(lease) => lease,
        other => panic!("{other:?}"),
    };
    // One target is ejected, the other one has a request in flight.
    let mut failed = pick();
    let out = failed.target().address().to_string();
    failed.failure(FailureKind::Connect, now());
    drop(failed);
    let busy = pick();
    assert_ne!(busy.target().address().to_string(), out);
    let before = upstreams.get(UpstreamId(0)).snapshot();

    fs::write(&path, "- http://10.0.0.3\n- http://10.0.0.2\n- http://10.0.0.1\n").unwrap();
    upstreams.read_file(&path);
    let after = upstreams.get(UpstreamId(0)).snapshot();
    assert_eq!(addresses(&upstreams), ["10.0.0.3:80", "10.0.0.2:80", "10.0.0.1:80"]);
    for target in &before.targets {
        let same = after.targets.iter().find(|other| other.address == target.address).unwrap();
        assert_eq!((same.id, same.state, same.in_flight), (target.id, target.state, target.in_flight));
    }
    assert_eq!(after.targets.iter().filter(|target| target.state == TargetCondition::Ejected).count(), 1);
    let label = format!("file:{}", path.display());
    assert!(after.targets.iter().all(|target| target.source.as_ref() == Some(&label)));
    assert_eq!((after.sources[0].targets, after.sources[0].successes, after.sources[0].failures), (3, 1, 0));

    for (text, said) in [("- http://a\n- oops\n", ":2:3: "), ("", ":1:1: ")] {
        fs::write(&path, text).unwrap();
        upstreams.read_file(&path);
        let source = upstreams.get(UpstreamId(0)).snapshot().sources.remove(0);
        assert!(source.error.is_some_and(|error| error.contains(&format!("targets.yaml{said}"))), "{text}");
        assert_eq!(addresses(&upstreams).len(), 3);
    }
    fs::remove_file(&path).unwrap();
    upstreams.read_file(&path);
    let source = upstreams.get(UpstreamId(0)).snapshot().sources.remove(0);
    assert_eq!((source.targets, source.failures), (3, 3));
    assert!(source.error.is_some_and(|error| error.contains("cannot read the file of targets")));

    // An empty list is no mistake, and the request in flight goes on.
    fs::write(&path, "[]").unwrap();
    upstreams.read_file(&path);
    assert!(addresses(&upstreams).is_empty());
    assert_eq!(upstreams.get(UpstreamId(0)).snapshot().sources[0].error, None);
    assert!(matches!(views.get(UpstreamId(0)).pick(&Request::default(), now()), Pick::Unavailable));
    // What comes back while it has a request in flight has it still.
    fs::write(&path, format!("- http://{}\n", busy.target().address())).unwrap();
    upstreams.read_file(&path);
    let back = upstreams.get(UpstreamId(0)).snapshot().targets.remove(0);
    assert_eq!((back.id, back.in_flight), (busy.target().id(), 1));
}

#[test]
fn ten_thousand_targets_are_taken_in_and_changed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("targets.yaml");
    let list = |from: usize| -> String {
        (from..from + 10_000).map(|n| format!("- http://10.1.{}.{}:80\n", n / 250, n % 250)).collect()
    };
    fs::write(&path, list(0)).unwrap();
    let upstreams = upstreams(folder.path(), "");
    let ids = |upstreams: &Upstreams| -> std::collections::BTreeMap<String, _> {
        let targets = upstreams.get(UpstreamId(0)).snapshot().targets;
        targets.into_iter().map(|target| (target.address, target.id)).collect()
    };
    let before = ids(&upstreams);
    assert_eq!(before.len(), 10_000);
    fs::write(&path, list(5)).unwrap();
    upstreams.read_file(&path);
    let after = ids(&upstreams);
    assert_eq!(after.len(), 10_000);
    assert_eq!(after.iter().filter(|(address, id)| before.get(*address) == Some(id)).count(), 9_995);
    fs::write(&path, list(0) + "- http://10.9.9.9\n").unwrap();
    upstreams.read_file(&path);
    assert_eq!(ids(&upstreams), after);
    let error = upstreams.get(UpstreamId(0)).snapshot().sources[0].error.clone().unwrap();
    assert!(error.contains("at most 10000 targets"), "{error}");
}
