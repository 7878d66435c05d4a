//! Schema
