//! The HTTP/2 connections of a worker, as far as they concern each other: all are told when the worker drains, and share a bound on memory.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

/// Bytes of request bodies that a worker holds for exchanges that have not read them; above, no client gets credit.
const MOST_HELD: usize = 64 * 1024 * 1024;

/// What a worker knows of its connections.
#[derive(Debug, Default)]
pub struct Registry {
    tasks: RefCell<Vec<Option<Waker>>>,
    free: RefCell<Vec<usize>>,
    held: Cell<usize>,
}

impl Registry {
    /// Wakes the task of every connection: each looks what has changed.
    pub fn wake_all(&self) {
        self.tasks.borrow().iter().flatten().for_each(Waker::wake_by_ref);
    }

    /// Whether the worker holds more than it should.
    pub fn is_full(&self) -> bool {
        self.held.get() > MOST_HELD
    }

    /// A connection holds `now` bytes and held `before`.
    fn hold(&self, before: usize, now: usize) {
        let was_full = self.is_full();
        self.held.set(self.held.get() + now - before);
        if was_full && !self.is_full() {
            self.wake_all();
        }
    }
}

/// A connection's entry; it goes when this is dropped.
pub struct Registered {
    all: Rc<Registry>,
    index: usize,
    held: Cell<usize>,
}

impl Registered {
    /// An entry for one more.
    pub fn new(all: Rc<Registry>) -> Self {
        let mut tasks = all.tasks.borrow_mut();
        let index = all.free.borrow_mut().pop().unwrap_or(tasks.len());
        if index == tasks.len() {
            tasks.push(None);
        }
        // Taken from now on.
        tasks[index] = Some(Waker::noop().clone());
        drop(tasks);
        Registered { all, index, held: Cell::new(0) }
    }

    /// The connection holds so many bytes now.
    pub fn hold(&self, bytes: usize) {
        self.all.hold(self.held.replace(bytes), bytes);
    }

    /// The connection's task.
    pub fn register(&self, task: &Waker) {
        let mut tasks = self.all.tasks.borrow_mut();
        let entry = &mut tasks[self.index];
        if !entry.as_ref().is_some_and(|entry| entry.will_wake(task)) {
            *entry = Some(task.clone());
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.hold(0);
        self.all.tasks.borrow_mut()[self.index] = None;
        self.all.free.borrow_mut().push(self.index);
    }
}
