use std::task::Waker;

use proptest::prelude::*;

use super::*;

/// Takes so many bytes each time, and none every other time.
struct Slow {
    each: usize,
    is_tired: bool,
    taken: Vec<u8>,
}

impl AsyncWrite for Slow {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.is_tired = !self.is_tired;
        if !self.is_tired {
            return Poll::Pending;
        }
        let count = bytes.len().min(self.each);
        self.taken.extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

proptest! {
    /// All three pieces, in order, each byte once, however few the sink takes; what comes next is what the sink is given; afterwards nothing
    /// waits.
    #[test]
    fn what_is_put_together_what_is_shared_and_what_is_forwarded_go_out_in_order(
        head in 0_usize..40,
        from in 0_usize..30,
        shared in 0_usize..2 * COPIED,
        forwarded in 0_usize..40,
        each in 1_usize..COPIED,
    ) {
        let bytes = |start: usize, length: usize| (start..start + length).map(|at| at as u8).collect::<Vec<u8>>();
        let held = Arc::new(bytes(100, from + shared));
        let forwarded = bytes(200, forwarded);
        let mut out = Outgoing::with(Vec::new());
        out.bytes.extend(bytes(0, head));
        out.share(&held, from);
        let whole = [&bytes(0, head)[..], &held[from..], &forwarded].concat();
        prop_assert_eq!(out.is_empty(), head + shared == 0);

        let mut sink = Slow { each, is_tired: false, taken: Vec::new() };
        loop {
            let next = out.next(&forwarded).to_vec();
            prop_assert!(whole[sink.taken.len()..].starts_with(&next));
            prop_assert_eq!(next.is_empty(), sink.taken.len() == whole.len());
            if out.poll_write(&mut Context::from_waker(Waker::noop()), &mut sink, &forwarded).is_ready() {
                break;
            }
            prop_assert!(sink.taken.len() < whole.len());
        }
        prop_assert_eq!(&sink.taken, &whole);
        prop_assert!(out.is_empty() && out.next(&[]).is_empty() && !out.is_begun());
        prop_assert_eq!(Arc::strong_count(&held), 1);
    }
}
