//! Threads that hash passwords, so that no worker stands still for the milliseconds that one takes.

use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use auth::basic::{Credentials, Htpasswd};
use tokio::sync::oneshot;

/// Requests that wait for a thread; further ones get 503.
const QUEUE: usize = 64;
const THREADS: usize = 2;

struct Job {
    users: Arc<Htpasswd>,
    credentials: Credentials,
    response: oneshot::Sender<bool>,
}

/// Two threads and their queue.
pub(super) struct Passwords(SyncSender<Job>);

impl Passwords {
    /// Starts the threads. They end when this is dropped.
    pub(super) fn start() -> Self {
        let (sender, receiver) = sync_channel::<Job>(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..THREADS {
            let receiver = receiver.clone();
            let work = move || {
                loop {
                    let job = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    // A client that left in the meantime needs no result.
                    if !job.response.is_closed() {
                        let _ = job.response.send(job.users.verify(&job.credentials));
                    }
                }
            };
            // Without a thread every request waits in vain and gets 503 once the queue is full.
            let _ = std::thread::Builder::new().name("weir-passwords".into()).spawn(work);
        }
        Passwords(sender)
    }

    /// Whether a password is right; `None` when too many wait, or no thread runs.
    pub(super) async fn verify(&self, users: Arc<Htpasswd>, credentials: Credentials) -> Option<bool> {
        let (response, result) = oneshot::channel();
        match self.0.try_send(Job { users, credentials, response }) {
            Ok(()) => result.await.ok(),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => None,
        }
    }
}
