//! Child processes and the harness of the gateway, with a shell in its place.

use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use testkit::{DEADLINE, Process, Signal, Weir, WeirBuilder, wait};

fn sh(script: &str) -> Process {
    Process::builder("sh").args(["-c", script]).start()
}

/// The message with which `work` panics.
fn panic_of(work: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).expect_err("a panic");
    panic.downcast_ref::<String>().cloned().expect("a message")
}

/// The state letter of /proc/PID/stat; `None` when there is no such process.
fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

fn is_running(pid: u32) -> bool {
    // A zombie is not running.
    !matches!(state(pid), None | Some('Z' | 'X'))
}

fn wait_for_exit(pid: u32) {
    wait::until(DEADLINE, &format!("process {pid} is gone"), || !is_running(pid));
}

#[test]
fn lines_of_both_streams_are_found_and_not_mixed() {
    let process = sh("echo one; echo two >&2; exec sleep 60");
    assert_eq!(process.wait_for_line("one", |line| (line == "one").then_some(1)), 1);
    process.wait_for_line("two", |line| (line == "two").then_some(()));
    assert_eq!((process.stdout().as_str(), process.stderr().as_str()), ("one", "two"));
}

#[test]
fn a_mark_hides_what_was_printed_before_it() {
    let process = sh("trap 'echo usr1' USR1; echo ready; while :; do sleep 0.01; done");
    process.wait_for_line("ready", |line| (line == "ready").then_some(()));
    for _ in 0..3 {
        let mark = process.mark();
        assert!(process.lines_after(mark).is_empty());
        process.signal(Signal::USR1);
        process.wait_for_line_after(mark, "usr1", DEADLINE, |line| (line == "usr1").then_some(()));
        assert_eq!(process.lines_after(mark), ["usr1"]);
    }
}

#[test]
fn a_process_that_ends_too_early_panics_with_its_output() {
    let process = sh("echo oh dear >&2; exit 3");
    let message = panic_of(|| process.wait_for_line("a port", |_| None::<()>));
    assert!(
        message.contains("without a port") && message.contains("oh dear") && message.contains("exit status: 3"),
        "{message}"
    );
}

#[test]
fn a_program_that_is_not_there_panics_with_the_hint() {
    let message = panic_of(|| {
        drop(Process::builder("no-such-program").hint("Install it.").start());
    });
    assert!(message.contains("no-such-program") && message.contains("Install it."), "{message}");
}

#[test]
fn stop_is_polite_first() {
    let polite = sh("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.01; done");
    polite.wait_for_line("up", |line| (line == "up").then_some(()));
    assert_eq!(polite.stop(DEADLINE).code(), Some(7));
    let stubborn = sh("trap '' TERM; echo up; while :; do sleep 0.01; done");
    stubborn.wait_for_line("up", |line| (line == "up").then_some(()));
    assert_eq!(stubborn.stop(Duration::from_millis(50)).signal(), Some(9));
}

#[test]
fn a_drop_kills_the_children_of_the_child_too() {
    // One that it knows, one whose parent has ended, and one that has left its group.
    let script = "sleep 60 & echo $!; (sleep 60 & echo $!); setsid sleep 60 & echo $!; echo all; wait";
    let process = sh(script);
    process.wait_for_line("all", |line| (line == "all").then_some(()));
    let below: Vec<u32> = process.stdout().lines().filter_map(|line| line.parse().ok()).collect();
    assert_eq!(below.len(), 3);
    assert!(below.iter().all(|pid| is_running(*pid)));
    drop(process);
    below.into_iter().for_each(wait_for_exit);
}

#[test]
fn a_process_outlives_the_thread_that_started_it() {
    let starter = std::thread::spawn(|| {
        let process = sh("trap 'echo alive' USR1; echo up; while :; do sleep 0.01; done");
        process.wait_for_line("up", |line| (line == "up").then_some(()));
        (process, std::fs::read_link("/proc/thread-self").expect("a link"))
    });
    let (process, thread) = starter.join().expect("no panic");
    wait::until(DEADLINE, "the end of the thread", || !Path::new("/proc").join(&thread).exists());
    process.signal(Signal::USR1);
    process.wait_for_line("alive", |line| (line == "alive").then_some(()));
}

/// Not a test by itself: what the next tests run in a process of its own and then kill.
///
/// `exec`, since the kernel tells the child alone: a shell's own child would stay.
#[test]
fn helper_that_starts_a_child_and_waits() {
    if std::env::var_os("TESTKIT_HELPER").is_some() {
        let gateway = fake_weir("");
        println!("directory {}.", gateway.dir().display());
        let child = sh("exec sleep 60");
        println!("child {}.", child.pid());
        child.wait_for_exit(Duration::from_secs(60));
    }
}

/// Runs the helper in a process of its own; returns it, its child, and a temporary directory that it uses.
fn start_helper() -> (Process, u32, PathBuf) {
    let myself = std::env::current_exe().expect("a path");
    let args = ["--exact", "helper_that_starts_a_child_and_waits", "--nocapture"];
    let helper = Process::builder(myself).args(args).env("TESTKIT_HELPER", "1").start();
    let word_after = |name: &str, line: &str| {
        let rest = line.split_once(name)?.1;
        Some(rest.rsplit_once('.')?.0.trim().to_owned())
    };
    let dir = helper.wait_for_line("a directory", |line| word_after("directory ", line));
    let child = helper.wait_for_line("a child", |line| word_after("child ", line)?.parse().ok());
    (helper, child, dir.into())
}

#[test]
fn a_killed_test_process_takes_its_children_along() {
    let (helper, child, _) = start_helper();
    assert!(is_running(child));
    // Only the process itself: its child is in a group of its own, and only the kernel can tell it.
    helper.signal(Signal::KILL);
    wait_for_exit(child);
}

#[test]
fn what_a_killed_test_process_left_is_removed_by_the_next() {
    let (helper, _, dir) = start_helper();
    helper.kill();
    assert!(dir.exists());
    let (_next, _, other) = start_helper();
    assert!(!dir.exists() && other.exists());
}

#[test]
fn the_environment_of_the_tests_is_not_passed_on() {
    let process = Process::builder("env").env("A", "b").start();
    process.wait_for_exit(DEADLINE);
    let (stdout, kept) =
        (process.stdout(), ["PATH", "HOME", "TMPDIR", "RUST_BACKTRACE", "LLVM_PROFILE_FILE", "LD_LIBRARY_PATH"]);
    let mut others = stdout.lines().filter(|line| !kept.iter().any(|name| line.starts_with(&format!("{name}="))));
    assert_eq!((others.next(), others.next()), (Some("A=b"), None));
}

#[test]
fn a_long_output_is_kept_from_its_end() {
    let process = sh("seq 150000; trap 'echo usr1' USR1; echo ready; while :; do sleep 0.01; done");
    process.wait_for_line("ready", |line| (line == "ready").then_some(()));
    let stdout = process.stdout();
    assert_eq!((stdout.lines().count(), stdout.lines().next()), (100_000, Some("50002")));
    let mark = process.mark();
    process.signal(Signal::USR1);
    process.wait_for_line_after(mark, "usr1", DEADLINE, |line| (line == "usr1").then_some(()));
    assert_eq!(process.lines_after(mark), ["usr1"]);
}

#[test]
fn a_paused_process_stands_still() {
    let process = sh("while :; do echo tick; sleep 0.01; done");
    process.wait_for_line("tick", |line| (line == "tick").then_some(()));
    process.pause();
    wait::until(DEADLINE, "state T", || state(process.pid()) == Some('T'));
    let mark = process.mark();
    process.resume();
    process.wait_for_line_after(mark, "tick", DEADLINE, |line| (line == "tick").then_some(()));
}

#[test]
fn usage_is_read_from_proc() {
    let process = sh("echo up; while :; do :; done");
    process.wait_for_line("up", |line| (line == "up").then_some(()));
    wait::until(DEADLINE, "some CPU time", || process.usage().user_cpu.as_millis() >= 20);
    let usage = process.usage();
    assert!(usage.resident_bytes > 100_000 && usage.peak_resident_bytes >= usage.resident_bytes, "{usage:?}");
    assert_eq!(usage.threads, 1);
    assert!(usage.descriptors >= 3, "{usage:?}");
}

/// A program that replaces the gateway and runs `script`.
fn fake_weir(script: &str) -> WeirBuilder {
    Weir::builder(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stand-in.sh")).env("SCRIPT", script)
}

#[test]
fn the_gateway_is_up_when_it_says_where() {
    let script = "echo \"$@ $A\"; cat \"$2\"
        echo listening on http://127.0.0.1:1001; echo listening on http://[::1]:1002; echo admin on http://127.0.0.1:1003
        exec sleep 60";
    let weir = fake_weir(script).config("listen: x\n").env("A", "b").args(["--flag"]).start();
    assert_eq!(weir.addr().to_string(), "127.0.0.1:1001");
    assert_eq!(weir.admin_addr().to_string(), "127.0.0.1:1003");
    assert_eq!(weir.addrs(2)[1].to_string(), "[::1]:1002");
    let (stdout, config) = (weir.stdout(), weir.config_path());
    assert!(stdout.starts_with(&format!("--config {} --flag b\nlisten: x\n", config.display())), "{stdout}");
    weir.rewrite_config("listen: y\n");
    assert_eq!(std::fs::read_to_string(&config).expect("the file"), "listen: y\n");
    let next = fake_weir("echo \"$@\"; echo listening on http://127.0.0.1:1001").config_file(&config).run();
    assert!(next.stdout.starts_with(&format!("--config {}\n", config.display())), "{}", next.stdout);
    drop(weir);
    assert!(!config.exists());
}

#[test]
fn a_gateway_that_does_not_come_up_shows_why() {
    let script = "echo \"$HOST $PORT\"; echo weir.yaml:1:1: unknown key >&2; exit 64";
    let message = panic_of(|| drop(fake_weir(script).config("x: y\n").start()));
    assert!(message.contains("unknown key") && message.contains("64"), "{message}");
    let finished = fake_weir(script).run();
    assert_eq!(finished.code, Some(64));
    assert_eq!((finished.stdout.as_str(), finished.stderr.as_str()), ("127.0.0.1 0", "weir.yaml:1:1: unknown key"));
}
