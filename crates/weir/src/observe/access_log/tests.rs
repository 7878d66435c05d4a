use std::collections::HashMap;
use std::fs;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::line::NAME;
use super::*;
use crate::config::{AccessLogTarget, FieldSet, LogFields, LogFormat, LogOnly};
use crate::error::{Error, Reason};
use crate::exchange::ai;

mod lines;

/// Long enough for any machine; nothing waits for it when things go well.
const DEADLINE: Duration = Duration::from_secs(60);

fn line() -> Line<'static> {
    Line {
        time_ms: 1_735_689_599_123,
        client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)).into(),
        protocol: "HTTP/1.1",
        method: b"GET",
        host: Some(b"api.example.com"),
        path: b"/infer",
        status: 200,
        route: Some("infer"),
        upstream: Some("python"),
        target: Some("127.0.0.1:8001"),
        request_bytes: 310,
        response_bytes: 1234,
        duration_ns: 41_234_567,
        upstream_ns: Some(40_000_999),
        request_id: b"0123456789abcdef",
        attempts: 1,
        ..Line::default()
    }
}

fn log_to(path: &Path, metrics: &Metrics) -> AccessLog {
    let config = config::AccessLog {
        to: AccessLogTarget::File(path.to_owned()),
        format: LogFormat::Json,
        fields: LogFields::default(),
        only: None,
        sample: 1.0,
    };
    AccessLog::start(&config, metrics).unwrap()
}

/// Lines written, dropped for a slow writer, lost to errors; failed writes.
fn counts(metrics: &Metrics) -> [u64; 4] {
    let s = metrics.access_log();
    [&s.written, &s.dropped_queue, &s.dropped_error, &s.errors].map(|n| n.load(Relaxed))
}

/// Waits until a condition holds.
fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        std::thread::yield_now();
    }
}

#[test]
fn only_what_is_configured_is_logged() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = Metrics::new();
    let wants_of = |only: Option<LogOnly>, sample, requests: &[(u16, Option<u8>, u64)]| {
        let to = AccessLogTarget::File(dir.path().join("access.log"));
        let log = AccessLog::start(
            &config::AccessLog { to, format: LogFormat::Json, fields: LogFields::default(), only, sample },
            &metrics,
        )
        .unwrap();
        let mut writer = log.worker();
        requests.iter().map(|(status, grpc, ns)| writer.wants(*status, *grpc, *ns)).collect::<Vec<_>>()
    };
    let wants = |only, sample, requests: &[(u16, u64)]| {
        wants_of(only, sample, &requests.iter().map(|(status, ns)| (*status, None, *ns)).collect::<Vec<_>>())
    };
    let only =
        LogOnly { statuses: vec![(429, 429), (500, 599)], grpc: Default::default(), slower_ns: Some(1_000_000_000) };
    let requests = [(200, 0), (429, 0), (430, 0), (500, 0), (599, 0), (200, 999_999_999), (200, 1_000_000_000)];
    let responses = wants(Some(only.clone()), 1.0, &requests);
    assert_eq!(responses, [false, true, false, true, true, false, true]);
    let statuses = LogOnly { slower_ns: None, ..only.clone() };
    assert_eq!(wants(Some(statuses), 1.0, &[(200, u64::MAX), (503, 0)]), [false, true]);
    let calls = LogOnly { statuses: Vec::new(), grpc: [2, 14].into_iter().collect(), slower_ns: None };
    let ends =
        [(200, None, 0), (200, Some(0), 0), (200, Some(2), 0), (200, Some(14), 0), (200, Some(15), 0), (503, None, 0)];
    assert_eq!(wants_of(Some(calls), 1.0, &ends), [false, false, true, true, false, false]);
    assert_eq!(wants(None, 1.0, &[(200, 0)]), [true]);
    assert_eq!(wants(Some(only), 0.0, &[(503, u64::MAX)]), [false]);
}

/// The fields of a logfmt line, read as its parsers do.
fn logfmt_pairs(line: &str) -> Vec<(String, String)> {
    let (mut pairs, mut rest) = (Vec::new(), line.trim_end_matches('\n'));
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=').expect("a name");
        assert!(
            name.bytes().all(|byte| byte.is_ascii_lowercase() || b"_0123456789".contains(&byte)),
            "{name:?}: {line}"
        );
        let (value, after) = if value.starts_with('"') {
            let mut strings = serde_json::Deserializer::from_str(value).into_iter::<String>();
            let text = strings.next().expect("a string").expect("a whole string");
            (text, &value[strings.byte_offset()..])
        } else {
            let end = value.find(' ').unwrap_or(value.len());
            (value[..end].to_owned(), &value[end..])
        };
        pairs.push((name.to_owned(), value));
        assert!(after.is_empty() || after.starts_with(' '), "{line}");
        rest = after.strip_prefix(' ').unwrap_or(after);
    }
    pairs
}

/// The fields of a combined line: what spaces, brackets and quotation marks without a backslash divide.
fn combined_fields(line: &str) -> usize {
    let (mut fields, mut quoted, mut escaped) = (1, false, false);
    for byte in line.trim_end_matches('\n').bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => quoted = !quoted,
            b' ' if !quoted => fields += 1,
            _ => {}
        }
    }
    assert!(!quoted && !escaped, "{line}");
    fields
}

#[test]
fn lines_of_all_workers_arrive_whole_and_in_order() {
    const LINES: u64 = 5000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("access.log");
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    std::thread::scope(|s| {
        for worker in 0..4 {
            let mut writer = log.worker();
            s.spawn(move || {
                let id = format!("worker-{worker}");
                for n in 0..LINES {
                    assert!(writer.wants(200, None, 0));
                    // Let the thread catch up, this is not the test of dropping.
                    until("a buffer is free", || writer.buffer.len() < FULL || writer.hand_over());
                    writer.line(&Line { request_id: id.as_bytes(), request_bytes: n, ..line() });
                }
            });
        }
    });
    assert!(log.close(DEADLINE));
    assert_eq!(counts(&metrics), [4 * LINES, 0, 0, 0]);
    let mut next: HashMap<String, u64> = HashMap::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let value: Value = serde_json::from_str(line).unwrap();
        let next = next.entry(value["request_id"].to_string()).or_default();
        assert_eq!(value["bytes_in"], *next);
        *next += 1;
    }
    assert!(next.len() == 4 && next.values().all(|n| *n == LINES));
}

#[test]
fn a_full_disk_is_counted_and_stops_nothing() {
    let metrics = Metrics::new();
    let log = log_to(Path::new("/dev/full"), &metrics);
    let mut writer = log.worker();
    for round in 1..=10 {
        writer.line(&line());
        writer.flush();
        until("given up", || counts(&metrics)[2] == round);
    }
    drop(writer);
    assert!(log.close(DEADLINE));
    assert_eq!(counts(&metrics), [0, 0, 10, 10]);
}

#[test]
fn a_reader_that_stands_still_costs_lines_and_never_blocks() {
    const LINES: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // Opened for both, so that neither side waits for the other.
    let mut reader = fs::File::options().read(true).write(true).open(&path).unwrap();
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    let mut writer = log.worker();
    for n in 0..LINES {
        writer.line(&Line { request_bytes: n, ..line() });
    }
    let dropped = counts(&metrics)[1];
    assert!(dropped > LINES / 2, "a pipe and four buffers do not hold {LINES} lines: dropped {dropped}");
    assert!(!log.close(Duration::ZERO), "the thread still waits for the reader");
    // Now somebody reads: what was taken arrives, in whole lines and in order.
    drop(writer);
    let reading = std::thread::spawn(move || {
        let (mut text, mut piece) = (Vec::new(), vec![0; 65536]);
        while !text.ends_with(b"END\n") {
            let n = reader.read(&mut piece).unwrap();
            text.extend_from_slice(&piece[..n]);
        }
        String::from_utf8(text).unwrap()
    });
    assert!(log.close(DEADLINE));
    std::io::Write::write_all(&mut fs::File::options().write(true).open(&path).unwrap(), b"END\n").unwrap();
    let text = reading.join().unwrap();
    let order: Vec<u64> = text
        .lines()
        .take_while(|l| *l != "END")
        .map(|l| serde_json::from_str::<Value>(l).unwrap()["bytes_in"].as_u64().unwrap())
        .collect();
    assert!(order.is_sorted());
    let [written, dropped, lost, errors] = counts(&metrics);
    assert_eq!((order.len() as u64, lost, errors), (written, 0, 0));
    assert_eq!(written + dropped, LINES, "every line is written or counted as dropped");
}

#[test]
fn the_file_is_opened_again_for_rotation() {
    let dir = tempfile::tempdir().unwrap();
    let (path, rotated) = (dir.path().join("access.log"), dir.path().join("access.log.1"));
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    let mut writer = log.worker();
    writer.line(&Line { path: b"/before", ..line() });
    writer.flush();
    until("written", || counts(&metrics)[0] == 1);
    fs::rename(&path, &rotated).unwrap();
    log.reopen();
    until("opened again", || path.exists());
    writer.line(&Line { path: b"/after", ..line() });
    drop(writer);
    assert!(log.close(DEADLINE));
    assert!(fs::read_to_string(&rotated).unwrap().contains("/before"));
    let now = fs::read_to_string(&path).unwrap();
    assert!(now.contains("/after") && !now.contains("/before"));
}

#[test]
fn a_file_that_cannot_be_opened_again_leaves_the_old_one_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let (folder, moved) = (dir.path().join("logs"), dir.path().join("moved"));
    fs::create_dir(&folder).unwrap();
    let metrics = Metrics::new();
    let log = log_to(&folder.join("access.log"), &metrics);
    let mut writer = log.worker();
    fs::rename(&folder, &moved).unwrap();
    log.reopen();
    until("failed", || counts(&metrics)[3] == 1);
    writer.line(&line());
    drop(writer);
    assert!(log.close(DEADLINE));
    assert_eq!(counts(&metrics), [1, 0, 0, 1]);
    assert_eq!(fs::read_to_string(moved.join("access.log")).unwrap(), lines::rendered(&line()));
}

#[test]
fn a_file_that_cannot_be_opened_is_an_error_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = config::AccessLog {
        to: AccessLogTarget::File(dir.path().join("no/such/dir/log")),
        format: LogFormat::Json,
        fields: LogFields::default(),
        only: None,
        sample: 1.0,
    };
    assert_eq!(AccessLog::start(&config, &Metrics::new()).unwrap_err().kind(), io::ErrorKind::NotFound);
}

#[test]
fn a_lonely_line_is_written_when_it_is_a_second_old() {
    let dir = tempfile::tempdir().unwrap();
    let metrics = Metrics::new();
    let log = log_to(&dir.path().join("access.log"), &metrics);
    let mut writer = log.worker();
    writer.flush_if_old(line().time_ms);
    writer.line(&line());
    writer.flush_if_old(line().time_ms + 999);
    assert_eq!(writer.lines, 1);
    writer.flush_if_old(line().time_ms + 1000);
    assert_eq!(writer.lines, 0);
    writer.line(&line());
    writer.flush_if_old(line().time_ms - 3_600_000); // the clock was set back
    assert_eq!(writer.lines, 0);
    writer.line(&line());
    writer.line(&Line { time_ms: line().time_ms + 1000, ..line() });
    assert_eq!(writer.lines, 0, "or by a later line");
    until("written", || counts(&metrics)[0] == 4);
    writer.line(&line()); // long ago
    writer.flush_old();
    assert_eq!(writer.lines, 0, "by the machine's clock");
    until("written", || counts(&metrics)[0] == 5);
}

#[test]
fn a_fifo_takes_lines_once_it_has_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let config = config::AccessLog {
        fields: LogFields::default(),
        to: AccessLogTarget::File(path.clone()),
        format: LogFormat::Json,
        only: None,
        sample: 1.0,
    };
    let refused = AccessLog::start(&config, &Metrics::new()).unwrap_err().to_string();
    assert!(refused.contains("no process reads this FIFO"), "{refused}");

    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut reader = fs::File::options().read(true).custom_flags(flags).open(&path).unwrap();
    let metrics = Metrics::new();
    let log = log_to(&path, &metrics);
    // More than the FIFO holds: the log's thread meets one that is full, and goes on when it is read.
    let count = 400;
    let mut writer = log.worker();
    for _ in 0..count {
        writer.line(&line());
    }
    writer.flush_old();
    let (mut text, mut piece) = (Vec::new(), [0; 4096]);
    until("all lines", || {
        if let Ok(n) = reader.read(&mut piece) {
            text.extend_from_slice(&piece[..n]);
        }
        memchr::memchr_iter(b'\n', &text).count() == count
    });
    until("counted", || counts(&metrics) == [count as u64, 0, 0, 0]);
}

#[test]
fn the_sampled_share_is_the_configured_one() {
    let share = |share: f64| {
        let mut sample = Sample::new(share, 42);
        (0..100_000).filter(|_| sample.draw()).count()
    };
    assert_eq!((share(0.0), share(1.0)), (0, 100_000));
    assert!((9_500..10_500).contains(&share(0.1)), "{}", share(0.1));
    assert!((49_000..51_000).contains(&share(0.5)), "{}", share(0.5));
}
