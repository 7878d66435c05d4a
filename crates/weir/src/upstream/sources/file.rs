//! Files that name the targets of upstreams: looked at again and again, taken in whole or not at all.
//!
//! A change is found as for other files, by what the file looks like. Other programs write these files while they are followed, so a change is
//! taken in only when the file has come to rest:
//!
//! - A file that was replaced (renamed over, or by another target of a symbolic link on its path, as Kubernetes does it) is whole: it is read as soon as
//!   two looks agree.
//! - One that is written in place may be cut off anywhere, and the first half of a list is a list: it is read after a second without a change.
//!
//! A file that is broken or gone keeps the targets that were read last.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::config::{self, TargetFile};
use crate::runtime::fingerprint::Fingerprint;
use crate::upstream::{Upstream, Upstreams, lock};

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// Time to the second look at a change.
const CONFIRM: Duration = Duration::from_millis(50);

/// How long a file that is written in place, or gone, must stay as it is.
const REST: Duration = Duration::from_secs(1);

/// What a file looks like; `None` while it is missing.
type Look = Option<Fingerprint>;

/// Decides from one look after the other when a file is read.
#[derive(Debug, Default)]
struct Watch {
    /// At the last reading; `None` before the first one.
    read: Option<Look>,
    /// At the start or the reload that made this watch.
    first: Look,
    /// A change that was seen, and since when the file looks like that.
    changed: Option<(Look, Instant)>,
}

impl Watch {
    /// Of a file that looked like this when the configuration had been read. It is read again, because it may have been changed meanwhile.
    fn since(first: Look) -> Self {
        Watch { first, ..Watch::default() }
    }

    /// Whether the file is to be read now.
    fn is_due(&mut self, look: Look, now: Instant) -> bool {
        if self.read.as_ref() == Some(&look) {
            self.changed = None;
            return false;
        }
        match &self.changed {
            Some((same, since)) if *same == look => {
                if now.saturating_duration_since(*since) < self.rest(&look) {
                    return false;
                }
                self.changed = None;
                self.read = Some(look);
                true
            }
            _ => {
                self.changed = Some((look, now));
                false
            }
        }
    }

    /// How long the file must look like this.
    fn rest(&self, look: &Look) -> Duration {
        match (self.read.as_ref().unwrap_or(&self.first), look) {
            (Some(read), Some(look)) if !read.is_same_file(look) => Duration::ZERO,
            _ => REST,
        }
    }
}

/// Follows one file until no configuration uses it.
pub(in crate::upstream) async fn follow(path: Arc<Path>, newest: watch::Receiver<Arc<Upstreams>>) {
    let since = |upstreams: &Upstreams| Watch::since(upstreams.seen.get(&path).cloned().flatten());
    let (mut watch, mut configuration) = {
        let upstreams = newest.borrow();
        (since(&upstreams), Arc::downgrade(&*upstreams))
    };
    loop {
        let upstreams = newest.borrow().clone();
        // A reload read the file too, perhaps before a change that is already known here.
        if !std::ptr::eq(configuration.as_ptr(), Arc::as_ptr(&upstreams)) {
            configuration = Arc::downgrade(&upstreams);
            watch = since(&upstreams);
        }
        if watch.is_due(Fingerprint::of(&path), Instant::now()) {
            let path = path.clone();
            // Beside everything else of the control thread: a file may be long, or on a slow disk.
            let _ = tokio::task::spawn_blocking(move || upstreams.read_file(&path)).await;
        } else {
            drop(upstreams);
        }
        tokio::time::sleep(if watch.changed.is_some() { CONFIRM } else { LOOK }).await;
    }
}

impl Upstreams {
    /// Has every upstream read this file whose targets it names.
    fn read_file(&self, path: &Path) {
        // Before anything is locked: the disk may be slow.
        let file = TargetFile::read(path);
        self.iter().for_each(|upstream| upstream.take_in_file(path, &file));
    }
}

impl Upstream {
    fn take_in_file(&self, path: &Path, file: &TargetFile) {
        // A reload must not change the rules meanwhile.
        let mut members = lock(&self.members);
        if members.spec.targets_file.as_deref() != Some(path) {
            return;
        }
        match members.spec.targets_of(file) {
            Ok(targets) => {
                let had_failed = members.file.succeed();
                let count = targets.len();
                let is_new = targets != members.spec.targets;
                if is_new {
                    let spec = config::Upstream { targets, ..(*members.spec).clone() };
                    members.reconfigure(Arc::new(spec), &self.common);
                    self.publish(&mut members);
                }
                if is_new || had_failed {
                    tracing::info!(upstream = %self.name, file = %path.display(), targets = count, "file of targets read");
                }
            }
            Err(problems) => {
                let kept = members.spec.targets.len();
                if members.file.fail(problems.to_string()) {
                    tracing::error!(
                        upstream = %self.name,
                        kept,
                        "file of targets not taken in, the last good targets stay; correct the file:\n{problems}"
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
