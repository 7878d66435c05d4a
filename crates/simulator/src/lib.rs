//! Simulated AI providers on a raw socket: the APIs of OpenAI, Anthropic and Gemini, with faults that a real server does not produce on request.
//!
//! The model's name chooses what happens ([`Scenario`]): `sim` works, `sim-f10` is cut after content, `sim-tokens50-gap20` sends 50 tokens,
//! one every 20 ms. Text is the same for every call, so that a stream can be continued by another one.
//!
//! Responses of OpenAI's Responses API are stored for the key that made them, unless the request says otherwise; other keys do not find them.
//!
//! Besides the APIs: `GET /metrics` and `/prometheus/metrics` (engine metrics, with the calls that are running),
//! `PUT /simulator/metrics` (sets them: the body is the text; `none` for 404, `stall` for no response),
//! `GET /simulator/ledger` (calls, cancelled streams and tokens so far).

#![forbid(unsafe_code)]

pub mod api;
mod fault;
mod http;
mod ledger;
mod media;
mod scenario;
mod server;
mod stored;

pub use ledger::Ledger;
pub use scenario::Scenario;
pub use server::{Simulator, serve};
