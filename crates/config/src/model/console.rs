//! The console of the admin listener.

use std::fmt;
use std::sync::Arc;

/// Who may use the console.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Console {
    /// What people log in with: never print it. Without one it is for the loopback interface.
    pub token: Option<Arc<str>>,
    /// Whether actions are refused.
    pub read_only: bool,
}

impl fmt::Debug for Console {
    /// Leaves the token out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("read_only", &self.read_only).finish_non_exhaustive()
    }
}
