//! Sets of methods, one bit each.

use std::fmt;
use std::sync::Arc;

use crate::config::MAX_METHODS;

/// Methods that most routes name, in the order in which `Allow` lists them.
const COMMON: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

/// A set of methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MethodSet(u64);

impl MethodSet {
    pub(super) const NONE: MethodSet = MethodSet(0);
    pub(super) const ANY: MethodSet = MethodSet(u64::MAX);
    /// A method that no route names: only routes for any method take it.
    const OTHER: MethodSet = MethodSet(1 << MAX_METHODS);

    pub(super) fn holds(self, method: MethodSet) -> bool {
        self.0 & method.0 != 0
    }

    pub(super) fn add(&mut self, methods: MethodSet) {
        self.0 |= methods.0;
    }
}

/// Every method that a table knows, by its bit.
#[derive(Debug)]
pub(super) struct Methods {
    /// Methods beyond the common ones.
    more: Vec<Arc<str>>,
}

impl Methods {
    /// Collects the methods that routes name. There are at most [`MAX_METHODS`], as the configuration was checked for; of more, the last share
    /// the bit of those that nobody names.
    pub(super) fn of<'r>(named: impl Iterator<Item = &'r Arc<str>>) -> Self {
        let mut more: Vec<Arc<str>> = Vec::new();
        for method in named {
            if !COMMON.contains(&method.as_ref()) && !more.contains(method) && more.len() + COMMON.len() < MAX_METHODS {
                more.push(method.clone());
            }
        }
        Methods { more }
    }

    /// The set that holds one method.
    pub(super) fn one(&self, method: &[u8]) -> MethodSet {
        let bit = match method {
            b"GET" => 0,
            b"HEAD" => 1,
            b"POST" => 2,
            b"PUT" => 3,
            b"DELETE" => 4,
            b"PATCH" => 5,
            b"OPTIONS" => 6,
            b"TRACE" => 7,
            _ => match self.more.iter().position(|known| known.as_bytes() == method) {
                Some(index) => COMMON.len() + index,
                None => return MethodSet::OTHER,
            },
        };
        MethodSet(1 << bit)
    }

    /// The set of the methods of a route; none named stands for any.
    pub(super) fn set(&self, methods: &[Arc<str>]) -> MethodSet {
        if methods.is_empty() {
            return MethodSet::ANY;
        }
        methods.iter().fold(MethodSet::NONE, |mut set, method| {
            set.add(self.one(method.as_bytes()));
            set
        })
    }

    fn name(&self, bit: usize) -> Option<&str> {
        COMMON.get(bit).copied().or_else(|| self.more.get(bit - COMMON.len()).map(|name| &**name))
    }
}

/// Methods that a path takes, for the `Allow` field of a 405 (RFC 9110 §10.2.1).
#[derive(Clone, Copy)]
pub struct Allow<'t> {
    pub(super) methods: &'t Methods,
    pub(super) set: MethodSet,
}

impl<'t> Allow<'t> {
    /// Each method, common ones first.
    pub fn methods(self) -> impl Iterator<Item = &'t str> {
        let bits = (0..MAX_METHODS).filter(move |bit| self.set.0 & (1 << bit) != 0);
        bits.filter_map(move |bit| self.methods.name(bit))
    }

    /// Writes the value of the field.
    pub fn write(self, out: &mut Vec<u8>) {
        for (index, method) in self.methods().enumerate() {
            out.extend_from_slice(if index == 0 { b"" } else { b", " });
            out.extend_from_slice(method.as_bytes());
        }
    }
}

impl fmt::Debug for Allow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.methods()).finish()
    }
}

impl PartialEq for Allow<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.methods().eq(other.methods())
    }
}
