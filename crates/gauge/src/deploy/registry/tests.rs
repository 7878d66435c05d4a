use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use super::*;

/// A process that nobody needs, in a group of its own.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        Sleeper(Command::new("sleep").arg("300").process_group(0).spawn().expect("sleep is there"))
    }

    fn runs(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// What an ended program noted of itself.
    fn noted(&self, namespace: &str) -> Written {
        let start_ticks = Stat::of(self.0.id()).expect("it runs").start_ticks;
        let entry = Entry { group: self.0.id() as i32, start_ticks, cgroups: Vec::new(), name: "sleeper".to_owned() };
        let program = Program { boot: boot(), namespace: namespace.to_owned(), pid: u32::MAX, start_ticks: 1 };
        Written { program, groups: vec![entry] }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write(file: &Path, written: &Written) {
    fs::write(file, serde_json::to_string(written).expect("JSON")).expect("a file");
}

#[test]
fn numbers_of_another_container_are_not_taken_for_processes_of_this_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("7-0-1.json");
    let mut sleeper = Sleeper::start();
    write(&file, &sleeper.noted("1"));
    assert_eq!(clean_up_in(folder.path()), [""; 0]);
    assert!(sleeper.runs() && file.exists(), "the program over there still needs it");
    for own in [namespace(), String::new()] {
        let mut sleeper = Sleeper::start();
        write(&file, &sleeper.noted(&own));
        assert_eq!(clean_up_in(folder.path()), ["sleeper"]);
        assert!(!sleeper.runs() && !file.exists());
    }
}

#[test]
fn half_a_file_is_removed_when_nobody_is_left_to_finish_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let part = |pid: u32, namespace: &str| {
        let file = folder.path().join(format!("{pid}-0-{namespace}.part"));
        fs::write(&file, "{").expect("a file");
        file
    };
    let (left, own) = (part(u32::MAX, &namespace()), part(std::process::id(), &namespace()));
    let elsewhere = part(u32::MAX, "1");
    clean_up_in(folder.path());
    assert_eq!([left, own, elsewhere].map(|file| file.exists()), [false, true, true]);
}
