//! An authority and certificates made in the test, and sockets in memory.

#![allow(dead_code, unreachable_pub)]

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType, SignatureAlgorithm};
use rustls::pki_types::CertificateDer;
use tempfile::TempDir;
use tls::certificate::read_certificates;
use tls::names::Entry;
use tls::server::{Listener, Options, Tickets};
use tls::{Certificate, Names};
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};

/// A certificate authority with a folder for its files.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
    made: AtomicUsize,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        Authority {
            issuer: CertifiedIssuer::self_signed(params, key).unwrap(),
            dir: tempfile::tempdir().unwrap(),
            made: AtomicUsize::new(0),
        }
    }

    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.issuer.der().clone()
    }

    pub fn pem_file(&self) -> PathBuf {
        self.file("ca.pem", &self.issuer.pem())
    }

    /// Files of a certificate for these names, changed by `edit`.
    pub fn files(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        edit: impl FnOnce(&mut CertificateParams),
    ) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "test leaf");
        edit(&mut params);
        let leaf = params.signed_by(&key, &self.issuer).unwrap();
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        (self.file(&format!("{number}.pem"), &leaf.pem()), self.file(&format!("{number}.key"), &key.serialize_pem()))
    }

    pub fn certificate(&self, names: &[&str]) -> Certificate {
        self.certificate_with(names, &rcgen::PKCS_ECDSA_P256_SHA256, |_| {})
    }

    pub fn certificate_with(
        &self,
        names: &[&str],
        algorithm: &'static SignatureAlgorithm,
        edit: impl FnOnce(&mut CertificateParams),
    ) -> Certificate {
        let (cert, key) = self.files(names, algorithm, edit);
        assert_eq!(read_certificates(&cert).unwrap().len(), 1);
        Certificate::load(&cert, &key).unwrap()
    }
}

pub fn expired(params: &mut CertificateParams) {
    params.not_before = (SystemTime::now() - Duration::from_secs(20 * 86_400)).into();
    params.not_after = (SystemTime::now() - Duration::from_secs(86_400)).into();
}

pub fn spiffe(params: &mut CertificateParams) {
    params.subject_alt_names.push(SanType::URI("spiffe://mesh.test/orders".try_into().unwrap()));
}

pub fn entry(certificate: Certificate) -> Entry {
    Entry { certificate, names: Vec::new(), is_default: false, policy: 0 }
}

pub fn names(certificates: Vec<Certificate>) -> Arc<Names> {
    Arc::new(Names::new(certificates.into_iter().map(entry).collect()).unwrap())
}

pub fn listener(options: &Options) -> Listener {
    Listener::new(options, &Tickets::default()).unwrap()
}

/// A socket that gives and takes random pieces, is not ready at random, and counts reads that gave bytes.
pub struct Rough {
    io: DuplexStream,
    random: fastrand::Rng,
    roughness: usize,
    pub reads: Arc<AtomicUsize>,
    pub writes: Arc<AtomicUsize>,
    /// Bytes of junk that follow what was written before the end.
    pub junk: Arc<AtomicUsize>,
}

impl Rough {
    /// `roughness` 0: none. Else pieces are at most that long.
    pub fn new(io: DuplexStream, seed: u64, roughness: usize) -> Self {
        Rough {
            io,
            random: fastrand::Rng::with_seed(seed),
            roughness,
            reads: Arc::default(),
            writes: Arc::default(),
            junk: Arc::default(),
        }
    }

    /// How much of `room` is used this time.
    fn piece(&mut self, room: usize) -> usize {
        let most = if self.roughness == 0 { room } else { self.random.usize(1..=self.roughness) };
        most.min(room)
    }

    fn rests(&mut self, cx: &Context<'_>) -> bool {
        let rests = self.roughness > 0 && self.random.u8(..) < 64;
        if rests {
            cx.waker().wake_by_ref();
        }
        rests
    }
}

impl AsyncRead for Rough {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.rests(cx) {
            return Poll::Pending;
        }
        let most = self.piece(buf.remaining());
        let mut memory = vec![0; most];
        let mut piece = ReadBuf::new(&mut memory);
        let poll = Pin::new(&mut self.io).poll_read(cx, &mut piece);
        if poll.is_ready() {
            self.reads.fetch_add(1, Ordering::Relaxed);
        }
        buf.put_slice(piece.filled());
        poll
    }
}

impl AsyncWrite for Rough {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.rests(cx) {
            return Poll::Pending;
        }
        self.writes.fetch_add(1, Ordering::Relaxed);
        let most = self.piece(buf.len());
        Pin::new(&mut self.io).poll_write(cx, &buf[..most])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let junk = vec![0x17; self.junk.swap(0, Ordering::Relaxed)];
        if !junk.is_empty() {
            let poll = Pin::new(&mut self.io).poll_write(cx, &junk);
            assert!(matches!(poll, Poll::Ready(Ok(count)) if count == junk.len()), "the socket has room");
        }
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// A pair of sockets with `room` bytes in each direction.
pub fn sockets(room: usize, seed: u64, roughness: usize) -> (Rough, Rough) {
    let (one, other) = tokio::io::duplex(room);
    (Rough::new(one, seed, roughness), Rough::new(other, seed ^ 0x5555, roughness))
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        // A deadline, so that a stall is a failure and not a hang.
        tokio::time::timeout(Duration::from_secs(60), future).await.expect("the test stalled")
    })
}
