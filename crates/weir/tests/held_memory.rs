//! What a connection and a stream hold while they wait, in bytes that are allocated and not given back.
//!
//! The gateway runs inside the test's process, whose allocator counts. Client and upstream allocate nothing that stays but what is subtracted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use testkit::{DEADLINE, wait};

struct Counting;
static LIVE: AtomicI64 = AtomicI64::new(0);

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size() as i64, Ordering::Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size() as i64, Ordering::Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size as i64 - layout.size() as i64, Ordering::Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Streams of a connection.
const STREAMS: u32 = 100;
const CONNECTIONS: usize = 4;

/// An upstream that begins each response and never ends it.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut open = Vec::with_capacity(4096);
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            assert!(stream.read(&mut head).unwrap() > 0);
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nbegun\r\n").unwrap();
            open.push(stream);
        }
    });
    address
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&(payload.len() as u32).to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A GET with a head of the usual size.
fn get(stream: u32, path: &[u8]) -> Vec<u8> {
    let mut block = vec![0x82, 0x86];
    for (name, value) in [
        (&b":path"[..], path),
        (b":authority", b"example.com"),
        (b"user-agent", &[b'u'; 120]),
        (b"accept", &[b'a'; 80]),
    ] {
        block.extend([0, name.len() as u8]);
        block.extend(name);
        block.push(value.len() as u8);
        block.extend(value);
    }
    frame(1, 5, stream, &block)
}

/// Reads until `count` frames of DATA have come that are not empty.
fn read_data(stream: &mut TcpStream, mut count: u32) {
    let (mut header, mut payload) = ([0; 9], [0; 16384]);
    while count > 0 {
        stream.read_exact(&mut header).unwrap();
        let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
        stream.read_exact(&mut payload[..length]).unwrap();
        assert!(!matches!(header[3], 3 | 7), "the gateway resets or ends: {:?}", &payload[..length]);
        count -= u32::from(header[3] == 0 && length > 0);
    }
}

fn connect(port: u16) -> TcpStream {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(stream) => {
                stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                return stream;
            }
            Err(error) => assert!(Instant::now() < deadline, "the gateway does not listen: {error}"),
        }
    }
}

fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Waits until each of `count` things holds at most so many bytes beyond `before`: what exchanges used comes back a moment after their clients have all
/// of the response.
fn wait_for_at_most(bytes: i64, before: i64, count: i64, what: &str) {
    wait::until(DEADLINE, &format!("{what} holds at most {bytes} bytes"), || (live() - before) / count <= bytes);
    let each = (live() - before) / count;
    assert!(each > 0, "{what} holds {each} bytes: nothing was counted");
    println!("{what}: {each} bytes");
}

#[test]
fn what_waits_holds_little() {
    let upstream = upstream();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.yaml");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let yaml = format!(
        "listen: [{{bind: 127.0.0.1:{port}, http2: prior_knowledge}}]\nworkers: 1\nupstreams: {{u: {{targets: [http://{upstream}]}}}}\nroutes:\n  - {{match: {{path: /open}}, upstream: u}}\n  - {{match: {{path: /*}}, respond: {{body: here}}}}\n"
    );
    std::fs::write(&path, yaml).unwrap();
    std::thread::spawn(move || {
        weir::server::serve(weir::server::Source::File(path), weir::server::Options::default()).unwrap();
    });
    let mut held = Vec::with_capacity(64);
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat();
    let gets: Vec<u8> = (0..STREAMS).flat_map(|number| get(number * 2 + 1, b"/open")).collect();

    let mut open = |path: &[u8], streams: u32| {
        let mut stream = connect(port);
        stream.write_all(&preface).unwrap();
        stream.write_all(if streams == 1 { &gets[..0] } else { &gets }).unwrap();
        if streams == 1 {
            stream.write_all(&get(1, path)).unwrap();
        }
        read_data(&mut stream, streams);
        held.push(stream);
    };
    // Warm up first: pools and caches fill once. A stream holds 7.8 to 9.3 KiB, by how the two programs take turns.
    open(b"/", 1);
    open(b"/open", STREAMS);
    let before = live();
    (0..CONNECTIONS).for_each(|_| open(b"/open", STREAMS));
    wait_for_at_most(10 * 1024, before, CONNECTIONS as i64 * i64::from(STREAMS), "an open stream");

    let before = live();
    (0..32).for_each(|_| open(b"/", 1));
    wait_for_at_most(10 * 1024, before, 32, "an idle HTTP/2 connection");
}
