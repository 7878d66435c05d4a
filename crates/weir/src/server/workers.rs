//! The worker threads as the control thread sees them: how they start, and that one has ended.

use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::error::ServeError;
use super::run;
use crate::worker::shared::{ListenerSocket, Message, Shared};

/// The threads, and who of them has ended.
pub struct Workers {
    threads: Vec<Option<JoinHandle<()>>>,
    ended: UnboundedReceiver<usize>,
}

impl Workers {
    /// Starts a thread for each mailbox and waits until all could be set up. They accept nothing before [`Message::Accept`].
    ///
    /// # Errors
    /// Why one of them could not.
    pub fn start(
        listeners: Vec<Vec<ListenerSocket>>,
        mailboxes: Vec<UnboundedReceiver<Message>>,
        shared: &Arc<Shared>,
    ) -> Result<Workers, ServeError> {
        let failed = |error| ServeError::system("cannot start a worker", error);
        let (ready, are_ready) = std::sync::mpsc::channel();
        let (ended, end) = mpsc::unbounded_channel();
        let count = mailboxes.len();
        let mut threads = Vec::with_capacity(count);
        for (index, (listeners, mailbox)) in listeners.into_iter().zip(mailboxes).enumerate() {
            let (shared, ready, ended) = (shared.clone(), ready.clone(), ended.clone());
            let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), index);
            let thread = std::thread::Builder::new().name(format!("worker-{index}"));
            let thread = thread.spawn(move || {
                let _end = End { index, ended };
                run::run(index, listeners, shared, mailbox, seed, &ready);
            });
            threads.push(Some(thread.map_err(failed)?));
        }
        drop(ready);
        for _ in 0..count {
            match are_ready.recv() {
                Ok(result) => result.map_err(failed)?,
                // It panicked, and said so.
                Err(_) => return Err(failed(std::io::Error::other("its thread panicked"))),
            }
        }
        Ok(Workers { threads, ended: end })
    }

    /// Waits until one of them ends; its number. Pending without limit when all have ended.
    pub async fn one_ended(&mut self) -> usize {
        let Some(index) = self.ended.recv().await else { return std::future::pending().await };
        if let Some(thread) = self.threads[index].take() {
            // How it ended is known: it drained, or its panic was printed.
            let _ = thread.join();
        }
        index
    }

    /// Waits until all of them have ended.
    pub async fn all_ended(&mut self) {
        while self.threads.iter().any(Option::is_some) {
            self.one_ended().await;
        }
    }
}

/// Tells that a thread ends, also by a panic.
struct End {
    index: usize,
    ended: UnboundedSender<usize>,
}

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.ended.send(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_of_a_thread_is_told_however_it_comes() {
        let (ended, end) = mpsc::unbounded_channel();
        let spawn = |index, panics: bool| {
            let ended = ended.clone();
            std::thread::spawn(move || {
                let _end = End { index, ended };
                assert!(!panics, "as a test wants it");
            })
        };
        let mut workers = Workers { threads: vec![Some(spawn(0, true)), Some(spawn(1, false))], ended: end };
        let first = workers.one_ended().await;
        assert!(first < 2);
        workers.all_ended().await;
        assert!(workers.threads.iter().all(Option::is_none));
    }
}
