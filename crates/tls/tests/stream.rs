//! Bytes arrive whole and in order over any socket; an end without `close_notify` is never an orderly one.

mod common;

use std::io;
use std::sync::atomic::Ordering;

use common::{Authority, Rough, block_on, listener, names, sockets};
use tls::client::{self, Roots, server_name};
use tls::server::Options;
use tls::{TlsStream, Version};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn pair(version: Version, room: usize, seed: u64, roughness: usize) -> (TlsStream<Rough>, TlsStream<Rough>) {
    let authority = Authority::new();
    let listener = listener(&Options::new(names(vec![authority.certificate(&["a.test"])])));
    let roots = Roots::These(vec![authority.der()]);
    let config =
        client::config(&client::Options { roots, min_version: version, ..client::Options::default() }).unwrap();
    let (near, far) = sockets(room, seed, roughness);
    let (client, server) =
        tokio::join!(tls::connect(near, config, server_name("a.test").unwrap()), tls::accept(far, &listener));
    (client.unwrap(), server.unwrap())
}

#[test]
fn bytes_arrive_whole_over_rough_sockets() {
    let mut random = fastrand::Rng::with_seed(7);
    for seed in 0..24 {
        let roughness = [0, 1, 7, 300, 5_000, 40_000][seed as usize % 6];
        let length = if roughness == 1 { 3_000 } else { random.usize(0..300_000) };
        let room = [1_000, 20_000, 200_000][seed as usize % 3];
        block_on(async {
            let (client, server) = pair(Version::Tls12, room, seed, roughness).await;
            let sent: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(length).collect();
            let chunk = random.usize(1..70_000);
            let (mut read, mut write) = tokio::io::split(client);
            let (mut far_read, mut far_write) = tokio::io::split(server);
            let upload = async {
                for piece in sent.chunks(chunk) {
                    write.write_all(piece).await.unwrap();
                    write.flush().await.unwrap();
                }
                write.shutdown().await.unwrap();
            };
            let echo = async {
                let mut buffer = vec![0; 20_000];
                loop {
                    let count = far_read.read(&mut buffer).await.unwrap();
                    if count == 0 {
                        return far_write.shutdown().await.unwrap();
                    }
                    far_write.write_all(&buffer[..count]).await.unwrap();
                    far_write.flush().await.unwrap();
                }
            };
            let mut received = Vec::new();
            let (_, _, end) = tokio::join!(upload, echo, read.read_to_end(&mut received));
            end.unwrap();
            assert!(received == sent, "seed {seed}: {} of {} bytes", received.len(), sent.len());
        });
    }
}

#[test]
fn an_end_without_close_notify_is_an_error() {
    block_on(async {
        let (mut client, server) = pair(Version::Tls13, 100_000, 1, 0).await;
        let mut server = server;
        server.write_all(b"half of a response").await.unwrap();
        server.flush().await.unwrap();
        drop(server);
        let mut all = Vec::new();
        let error = client.read_to_end(&mut all).await.unwrap_err();
        assert_eq!((error.kind(), &all[..]), (io::ErrorKind::UnexpectedEof, &b"half of a response"[..]));
    });
}

/// A socket whose first read after `close_notify` came holds more than the alert.
#[test]
fn bytes_behind_a_close_notify_are_dropped_and_end_the_stream() {
    block_on(async {
        let (mut client, mut server) = pair(Version::Tls13, 1 << 20, 1, 0).await;
        server.write_all(b"the end").await.unwrap();
        // The alert, and junk of which no key is needed, wait in the socket together.
        server.get_ref().junk.store(10_000, Ordering::Relaxed);
        server.shutdown().await.unwrap();
        // Room for all of it in one read of the socket.
        let mut buffer = vec![0; 64 * 1024];
        assert_eq!(client.read(&mut buffer).await.unwrap(), 7);
        assert_eq!(&buffer[..7], b"the end");
        for _ in 0..2 {
            assert_eq!(client.read(&mut buffer).await.unwrap(), 0, "the end of the stream, again and again");
        }
    });
}

#[test]
fn what_was_received_is_not_lost_with_the_sending_side() {
    block_on(async {
        let (mut client, mut server) = pair(Version::Tls13, 4_096, 1, 0).await;
        server.write_all(b"413").await.unwrap();
        server.flush().await.unwrap();
        // More than the socket takes: ciphertext waits on the client's side when the server closes.
        let upload = vec![7; 60_000];
        let mut sent = 0;
        std::future::poll_fn(|cx| {
            use std::pin::Pin;
            use std::task::Poll;
            use tokio::io::AsyncWrite;
            while let Poll::Ready(count) = Pin::new(&mut client).poll_write(cx, &upload) {
                sent += count.unwrap();
                if sent >= upload.len() {
                    break;
                }
            }
            Poll::Ready(())
        })
        .await;
        drop(server);
        let mut response = [0; 3];
        client.read_exact(&mut response).await.unwrap();
        assert_eq!(&response, b"413");
    });
}

#[test]
fn a_record_takes_one_read_and_a_head_with_its_body_one_write() {
    block_on(async {
        let (mut client, mut server) = pair(Version::Tls13, 1 << 20, 1, 0).await;
        // The tickets of the handshake are read first.
        server.write_all(b"x").await.unwrap();
        let mut buffer = vec![0; 128 * 1024];
        client.read_exact(&mut buffer[..1]).await.unwrap();
        let (reads, writes) = (client.get_ref().reads.clone(), server.get_ref().writes.clone());
        let (reads_before, writes_before) = (reads.load(Ordering::Relaxed), writes.load(Ordering::Relaxed));
        let slices = [io::IoSlice::new(b"head"), io::IoSlice::new(&[7; 12_000])];
        assert_eq!(server.write_vectored(&slices).await.unwrap(), 12_004);
        let mut count = 0;
        while count < 12_004 {
            count += client.read(&mut buffer[count..]).await.unwrap();
        }
        assert_eq!(reads.load(Ordering::Relaxed) - reads_before, 1);
        assert_eq!(writes.load(Ordering::Relaxed) - writes_before, 1);
    });
}

#[test]
fn what_does_not_fit_the_caller_waits_and_is_not_lost() {
    block_on(async {
        let (mut client, mut server) = pair(Version::Tls13, 1 << 20, 1, 0).await;
        let sent: Vec<u8> = (0..100_000).map(|n| n as u8).collect();
        server.write_all(&sent).await.unwrap();
        server.shutdown().await.unwrap();
        let mut received = Vec::new();
        let mut small = [0; 10];
        loop {
            match client.read(&mut small).await.unwrap() {
                0 => break,
                count => received.extend_from_slice(&small[..count]),
            }
        }
        assert!(received == sent);
    });
}
