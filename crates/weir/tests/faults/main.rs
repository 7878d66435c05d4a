//! Faults at every byte: one client connection with three pipelined requests through the real gateway, to an upstream that closes, resets,
//! falls silent, responds early or sends garbage at each offset of the first request and of its response; to local refusals in the middle of
//! its body; and from a client that stops, closes or resets at each offset.
//!
//! [`schedule`] enumerates what happens, [`rig`] plays both ends of it, and [`judge`] reads both sides by the grammar alone, with a parser
//! that shares no code with the gateway's. Many schedules run side by side, so that silence, which only a deadline ends, costs next to nothing.

mod judge;
mod rig;
// The grammar, read without the codec's help.
#[allow(dead_code, unreachable_pub)]
#[path = "../../../h1/tests/codec/support/oracle.rs"]
mod oracle;
mod schedule;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use rig::Rig;
use schedule::{FaultPoint, Schedule};
use testkit::Weir;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

/// Schedules that run side by side.
const WORKERS: usize = 64;

/// How often a schedule is begun again that could not be played.
const AGAIN: usize = 5;

/// How many schedules the normal test run covers at least.
const LEAST: usize = 20_000;

/// Each system has routes and an upstream of its own. The deadlines end what is silent; a busy machine may make one pass early, which breaks no
/// invariant.
fn config(addresses: &[std::net::SocketAddr]) -> String {
    let mut yaml = String::from(
        "listen: [127.0.0.1:0]\nworkers: 1\nserver: {head_timeout: 200ms, body_idle_timeout: 100ms, keep_alive: 200ms}\nupstreams:\n",
    );
    for (rig, address) in addresses.iter().enumerate() {
        let options = "eject: none, retry: {extra_attempts: 0}, timeouts: {first_byte: 100ms, idle: 100ms}";
        writeln!(yaml, "  u{rig:02}: {{targets: [\"http://{address}\"], {options}}}").unwrap();
    }
    yaml.push_str("routes:\n");
    for rig in 0..addresses.len() {
        writeln!(yaml, "  - {{match: {{path: /{rig:02}/*}}, upstream: u{rig:02}}}").unwrap();
        writeln!(yaml, "  - {{match: {{path: /{rig:02}/tiny/*}}, body: 8B, upstream: u{rig:02}}}").unwrap();
        writeln!(yaml, "  - {{match: {{path: /{rig:02}/here/*}}, respond: {{status: 200, body: here}}}}").unwrap();
    }
    yaml
}

#[test]
fn no_fault_at_any_byte_makes_a_body_a_request_or_a_part_a_whole() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let mut listeners = Vec::new();
        for _ in 0..WORKERS {
            listeners.push(TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
        let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(config(&addresses)).start();
        let mut workers: Vec<Rig> = listeners
            .into_iter()
            .enumerate()
            .map(|(number, listener)| Rig { number, listener: Rc::new(listener), gateway: weir.addr() })
            .collect();

        // The gateway's own fields make the forwarded head longer: how long shows the first exchange.
        let forwarded = workers[0].forwarded_lengths().await;
        let schedules = Rc::new(RefCell::new(schedule::all(forwarded).into_iter().enumerate()));
        let tally = Rc::new(RefCell::new(BTreeMap::<&'static str, Tally>::new()));
        let tasks: Vec<_> = workers
            .drain(..)
            .map(|rig| {
                let (schedules, tally) = (schedules.clone(), tally.clone());
                tokio::task::spawn_local(async move {
                    loop {
                        let next = schedules.borrow_mut().next();
                        let Some((number, schedule)) = next else { return };
                        let verdict = run(&rig, number, &schedule).await;
                        let mut tally = tally.borrow_mut();
                        let family = tally.entry(schedule.family).or_default();
                        family.schedules += 1;
                        family.served += usize::from(verdict.responses == 3);
                        family.failed += usize::from(verdict.refused_first);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(!weir.stderr().contains("panicked"), "{}", weir.stderr());

        let tally = tally.take();
        let total: usize = tally.values().map(|family| family.schedules).sum();
        for (family, Tally { schedules, served, failed }) in &tally {
            println!(
                "{family}: {schedules} schedules; three responses in {served}, the first one an error in {failed}"
            );
        }
        println!("{total} schedules; the gateway used {:?} of CPU", weir.usage());
        assert!(total >= LEAST, "only {total} schedules");
        // The invariants hold for a gateway that closes at once, too; this one goes on where it can.
        let plain = &tally["no fault"];
        assert!(plain.served * 4 >= plain.schedules * 3, "{} of {} were served", plain.served, plain.schedules);
        let uploads = &tally["upstream fails while the client holds its body back"];
        assert!(uploads.served * 4 > uploads.schedules, "few connections went on after a failure");
    });
}

#[derive(Default)]
struct Tally {
    schedules: usize,
    served: usize,
    failed: usize,
}

async fn run(rig: &Rig, number: usize, schedule: &Schedule) -> judge::Verdict {
    let messages = schedule.messages(rig.number, number);
    let mut seen = rig.play(schedule, &messages).await;
    // On a busy machine the gateway may still have an idle connection of the schedule before, whose end the kernel has not delivered: the first request
    // fails there, and the second one has the fault. That is another schedule.
    for _ in 0..AGAIN {
        let has_second = seen.connections.first().is_some_and(|connection| connection.received.starts_with(b"PUT"));
        if schedule.place != FaultPoint::Upstream || schedule.fault.is_none() || !has_second {
            break;
        }
        seen = rig.play(schedule, &messages).await;
    }
    judge::judge(schedule, &messages, &seen)
        .unwrap_or_else(|wrong| panic!("schedule {number}: {wrong}\n{schedule:?}\n{}", seen.describe()))
}
