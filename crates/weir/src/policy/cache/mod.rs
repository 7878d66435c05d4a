//! A shared HTTP cache.

pub mod rules;
