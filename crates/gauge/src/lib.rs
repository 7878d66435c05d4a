//! gauge
