//! AI routes with the real program, in front of simulated providers whose faults are chosen by the model's name.

mod budgets;
mod cache;
mod client;
mod count;
mod explain;
mod fair_queue;
mod faults;
mod gemini;
mod gemini_translation;
mod guard;
mod heartbeat;
mod inference;
mod judge;
mod key_models;
mod media;
mod pass_through;
mod recover;
mod redact;
mod replicas;
mod rig;
mod scripted;
mod stored;
mod translated_streams;
mod translation;
