//! What was started, written down, so that the next command can end what a killed one left running.
//!
//! The kernel ends the processes that this program started when this program dies (see [`super::launch`]), and a server then ends its workers. Some do not
//! listen, and children of one that died otherwise are told nothing. So each process group is noted in a file of this program's own, in a folder
//! of this user's, before it is of use and until it has ended. A file whose program has ended says what is left over.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process_group};
use serde::{Deserialize, Serialize};

use crate::observe::process::{Stat, of_group};

/// A file with what this program has running.
#[derive(Debug)]
pub struct Registry {
    file: PathBuf,
    entries: Vec<Entry>,
}

/// A process group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Number of the group, which is that of its first process.
    pub group: i32,
    /// When its first process started, in clock ticks since the machine did: tells it from a later one with its number.
    pub start_ticks: u64,
    /// Its control groups.
    pub cgroups: Vec<PathBuf>,
    /// What it is.
    pub name: String,
}

/// A running program, told from every other one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Start of the machine: numbers of processes mean nothing after the next.
    boot: String,
    /// Where they count: containers may share a folder and not their processes. Empty when an earlier version wrote it.
    #[serde(default)]
    namespace: String,
    /// Its number, and when it started.
    pid: u32,
    start_ticks: u64,
}

impl Program {
    /// This program.
    pub fn this() -> Self {
        let pid = std::process::id();
        let start_ticks = Stat::of(pid).map_or(0, |stat| stat.start_ticks);
        Program { boot: boot(), namespace: namespace(), pid, start_ticks }
    }

    /// Whether it has ended; none where that cannot be told from here: it runs on another machine, or in another container.
    pub fn has_ended(&self) -> Option<bool> {
        if self.boot != boot() || !(self.namespace.is_empty() || self.namespace == namespace()) {
            return None;
        }
        Some(Stat::of(self.pid).is_none_or(|stat| stat.start_ticks != self.start_ticks || stat.zombie))
    }

    /// Whether the machine started anew since, if it is this machine.
    pub fn is_of_earlier_boot(&self) -> bool {
        self.boot != boot()
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Written {
    #[serde(flatten)]
    program: Program,
    groups: Vec<Entry>,
}

/// The folder of this user.
fn folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_dir());
    match runtime {
        Some(runtime) => runtime.join("gauge"),
        None => std::env::temp_dir().join(format!("gauge-running-{}", getuid().as_raw())),
    }
}

/// Makes the folder, for this user alone. One that somebody else put there is refused.
fn open_folder() -> io::Result<PathBuf> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let folder = folder();
    match fs::DirBuilder::new().mode(0o700).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(&folder)?;
    if !found.is_dir() || found.uid() != getuid().as_raw() {
        return Err(io::Error::other(format!("{} belongs to somebody else", folder.display())));
    }
    Ok(folder)
}

fn boot() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// The namespace of process numbers that this program is in (pid_namespaces(7)): `4026531836`.
fn namespace() -> String {
    let link = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().chars().filter(char::is_ascii_digit).collect()
}

/// A file of the folder: the program that writes it, and where that number counts.
fn named(file: &Path) -> Option<(u32, &str)> {
    let mut parts = file.file_stem()?.to_str()?.splitn(3, '-');
    let pid = parts.next()?.parse().ok()?;
    Some((pid, parts.nth(1)?))
}

impl Registry {
    /// A file of this program's, for itself.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn open() -> io::Result<Self> {
        // A campaign has two: the generator's machine and the systems' may be one, and neither may forget what the other has running.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}-{}.json", std::process::id(), namespace());
        Ok(Registry { file: open_folder()?.join(name), entries: Vec::new() })
    }

    /// Notes a group.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn add(&mut self, entry: Entry) -> io::Result<()> {
        self.entries.push(entry);
        self.save()
    }

    /// Takes a group that has ended off.
    pub fn remove(&mut self, group: i32) {
        self.entries.retain(|entry| entry.group != group);
        // What stays noted and has ended does no harm.
        let _ = self.save();
    }

    fn save(&self) -> io::Result<()> {
        if self.entries.is_empty() {
            return match fs::remove_file(&self.file) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let written = Written { program: Program::this(), groups: self.entries.clone() };
        // After a crash of the machine nothing of it runs: this need not be on the disk.
        let part = self.file.with_extension("part");
        fs::write(&part, serde_json::to_string(&written)?)?;
        fs::rename(&part, &self.file)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if self.entries.is_empty() {
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// Writes a file so that a reader, also one after a crash, finds the old content or the new one.
pub(crate) fn write_atomically(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    let part = PathBuf::from(name);
    let mut open = fs::File::create(&part)?;
    open.write_all(bytes)?;
    open.sync_data()?;
    fs::rename(&part, file)
}

/// Files of a folder with this ending.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|file| file.extension().is_some_and(|extension| extension == ending)).collect()
}

fn read(file: &Path) -> Option<Written> {
    serde_json::from_str(&fs::read_to_string(file).ok()?).ok()
}

/// Ends what earlier runs of this program left running: those that were killed. Says what it ended.
pub fn clean_up() -> Vec<String> {
    clean_up_in(&folder())
}

fn clean_up_in(folder: &Path) -> Vec<String> {
    let here = namespace();
    let mut ended = Vec::new();
    for file in files(folder, "json") {
        let Some(written) = read(&file) else { continue };
        if !written.program.is_of_earlier_boot() {
            // Its numbers may be those of other processes here.
            if written.program.has_ended() != Some(true) {
                continue;
            }
            for entry in &written.groups {
                if end(entry) {
                    ended.push(entry.name.clone());
                }
            }
        }
        let _ = fs::remove_file(&file);
    }
    // Half-written by a program that was killed over it.
    for file in files(folder, "part") {
        let gone = |pid| Stat::of(pid).is_none_or(|stat| stat.zombie);
        if named(&file).is_some_and(|(pid, namespace)| namespace == here && gone(pid)) {
            let _ = fs::remove_file(&file);
        }
    }
    ended
}

/// Ends at once what this program itself has running: before it exits without stopping it in order.
pub fn end_own() {
    let own = Program::this();
    for file in files(&folder(), "json") {
        if let Some(written) = read(&file).filter(|one| one.program == own) {
            for entry in &written.groups {
                end(entry);
            }
            let _ = fs::remove_file(&file);
        }
    }
}

/// Kills a group, if it is the one that was noted; whether there was anything to kill.
fn end(entry: &Entry) -> bool {
    let leader = u32::try_from(entry.group).ok().and_then(Stat::of);
    // A number is not given again while its group has members: a first process that started at another time is somebody else's.
    let own = leader.is_none_or(|stat| stat.start_ticks == entry.start_ticks);
    let found = own && (kill_group(entry.group) || !super::cgroup::members(&entry.cgroups).is_empty());
    super::cgroup::kill(&entry.cgroups);
    super::cgroup::remove(&entry.cgroups);
    found
}

/// Kills a group and waits until it is empty; whether it was not.
pub(crate) fn kill_group(group: i32) -> bool {
    let Some(pid) = Pid::from_raw(group) else { return false };
    let found = !of_group(group).is_empty();
    let deadline = Instant::now() + Duration::from_secs(5);
    while kill_process_group(pid, Signal::KILL).is_ok() && !of_group(group).is_empty() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    found
}

#[cfg(test)]
mod tests;
