use std::path::Path;

use super::local::{Local, end_of};
use super::pin::{choose, choose_without_generator};
use super::{Deployer, fingerprint};
use crate::plan::{Hardware, Pin};

fn pin(system: &[u32], upstream: &[u32], generator: &[u32]) -> Pin {
    Pin { system: system.to_vec(), upstream: upstream.to_vec(), generator: generator.to_vec() }
}

#[test]
fn processors_are_assigned_and_never_shared_with_the_system() {
    let one = Hardware { cpus: 1, ..Hardware::default() };
    assert_eq!(choose(&one, &[0, 1]), pin(&[0], &[1], &[1]));
    assert_eq!(choose(&one, &[0, 1, 2, 3]), pin(&[0], &[1], &[2, 3]));
    assert_eq!(choose(&one, &[4, 6, 7]), pin(&[4], &[6], &[7]), "a machine of which only some may be used");
    let two = Hardware { cpus: 2, ..Hardware::default() };
    assert_eq!(choose(&two, &[0, 1]), Pin::default(), "nothing is left for the others: nothing is pinned");
    assert_eq!(choose(&one, &[0]), Pin::default());
    assert_eq!(choose_without_generator(&one, &[0, 1, 2]), pin(&[0], &[1, 2], &[]));
    let own = Hardware { pin: Some(pin(&[3], &[2], &[0, 1])), ..one };
    assert_eq!(choose(&own, &[0, 1, 2, 3]), pin(&[3], &[2], &[0, 1]), "what the evaluation says wins");
}

#[test]
fn of_a_long_log_only_the_end_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("a.log");
    let text = (0..100_000).map(|line| format!("line {line}\n")).collect::<String>();
    std::fs::write(&file, &text).expect("a file");
    let end = end_of(&file, 10).expect("the end");
    assert_eq!(end.len(), 64 * 1024);
    assert!(text.ends_with(&end));
    let last = text.len() as u64 - 11;
    assert_eq!(end_of(&file, last).expect("the end"), "line 99999\n", "not what another program wrote before");
    assert_eq!(end_of(&file, text.len() as u64 + 5).expect("nothing"), "", "a log that was cut meanwhile");
}

#[test]
fn a_fingerprint_is_that_of_the_content() {
    // The values of the algorithm's authors for these texts.
    assert_eq!(fingerprint(&b""[..]).expect("nothing to fail"), "0 cbf29ce484222325");
    assert_eq!(fingerprint(&b"foobar"[..]).expect("nothing to fail"), "6 85944171f73967e8");
    assert_ne!(fingerprint(&[0; 2][..]).ok(), fingerprint(&[0; 3][..]).ok());
}

/// Two programs that look for a port at once, and whose servers set `SO_REUSEPORT`, would share it.
#[test]
fn a_port_that_was_found_is_not_found_again_while_it_is_claimed() {
    let folder = tempfile::tempdir().expect("a folder");
    let local = || Local::new(Path::new("gauge"), folder.path(), folder.path()).expect("this machine");
    let (mut one, mut other) = (local(), local());
    // The ports are free again at once; only the claims tell.
    let mut found: Vec<u16> = one.free_ports(super::local::CLAIMS).expect("ports");
    found.extend(other.free_ports(super::local::CLAIMS).expect("ports"));
    let count = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), count);
    for port in &found {
        let again = super::local::claim(*port).expect_err("a second claim");
        assert_eq!(again.kind(), std::io::ErrorKind::AddrInUse);
    }
    drop((one, other));
    assert!(super::local::claim(found[0]).is_ok(), "free with the program");
}
