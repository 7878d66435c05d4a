use std::io::{Read, Write};
use std::pin::pin;
use std::task::Waker;

use rustix::event::{PollFd, Timespec, poll};
use tokio::net::TcpStream;

use super::*;
use crate::runtime::deadline::Deadlines;

const MINUTES: Option<Duration> = Some(Duration::from_secs(600));

/// Two ends of a connection: what writes does so without waiting.
fn connected() -> (std::net::TcpStream, std::net::TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let reads = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (writes, _) = listener.accept().unwrap();
    writes.set_nonblocking(true).unwrap();
    (writes, reads)
}

/// Writes until the kernel takes no more.
fn fill(mut stream: &std::net::TcpStream) -> usize {
    let mut total = 0;
    loop {
        match stream.write(&[b'f'; 64 * 1024]) {
            Ok(count) => total += count,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                return total;
            }
        }
    }
}

#[test]
fn a_client_that_took_a_byte_before_the_deadline_has_another() {
    let deadlines = Deadlines::new();
    let deadline = deadlines.add();
    // What is idle can be made to fire without a clock.
    deadline.set_idle(true);
    let client = Client::of_peer("127.0.0.1".parse().unwrap(), &crate::config::TrustedProxies::default());
    let (kernel, mut reader) = connected();
    // Its event loop never turns, so to this end the kernel never announces space, although it may have some.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    let _entered = runtime.enter();
    let stream = Stream::Tcp(TcpStream::from_std(kernel.try_clone().unwrap()).unwrap());
    let mut down = Downstream {
        stream,
        buffer: Buffer::default(),
        out: Outgoing::default(),
        deadline,
        client,
        origin: Arc::default(),
        life: Life::ENDLESS,
    };
    let body = vec![b'b'; 64 << 20];
    let mut cx = Context::from_waker(Waker::noop());
    for has_space in [true, true, false] {
        let filled = fill(&kernel);
        if has_space {
            reader.read_exact(&mut vec![0; filled]).unwrap();
            let mut polled = [PollFd::new(&kernel, PollFlags::OUT)];
            assert_eq!(poll(&mut polled, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })), Ok(1), "it was read");
        }
        let before = down.out.written();
        down.deadline.set(MINUTES);
        assert_eq!(down.poll_stalled(&cx, &body), None, "the deadline has not passed");
        deadlines.fire_idle();
        assert_eq!(down.poll_stalled(&cx, &body), Some(!has_space));
        let taken = down.out.written() - before;
        assert_eq!(taken > 0, has_space);
        if taken > 0 {
            reader.read_exact(&mut vec![0; taken]).unwrap();
        }
    }
    down.out.clear();
    let mut send = pin!(down.send(&body, MINUTES));
    assert!(send.as_mut().poll(&mut cx).is_pending());
    deadlines.fire_idle();
    let Poll::Ready(Err(error)) = send.as_mut().poll(&mut cx) else { panic!("the client took nothing") };
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
}
