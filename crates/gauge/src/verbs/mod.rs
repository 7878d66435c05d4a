//! What `gauge` can be told to do, one file each.

pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod demo;
pub(crate) mod describe;
pub(crate) mod history;
pub(crate) mod launch;
pub(crate) mod lint;
pub(crate) mod load;
pub(crate) mod machines;
pub(crate) mod recompute;
pub(crate) mod run;
pub(crate) mod trend;
pub(crate) mod ui;
