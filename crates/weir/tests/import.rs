//! `weir import`: what it writes is accepted, and does what the original did.

#[path = "import/accepted.rs"]
mod accepted;
#[path = "import/differential.rs"]
mod differential;
#[path = "import/models.rs"]
mod models;
#[path = "import/round_trip.rs"]
mod round_trip;
#[path = "import/verb.rs"]
mod verb;
