//! The configurations of all gateways: as golden files, for many operations, and in front of real upstreams.

#[path = "gateways/absent.rs"]
mod absent;
#[path = "gateways/differential.rs"]
mod differential;
#[path = "gateways/golden.rs"]
mod golden;
#[path = "gateways/many.rs"]
mod many;
#[path = "gateways/options.rs"]
mod options;
#[path = "gateways/policies.rs"]
mod policies;
#[path = "gateways/running.rs"]
mod running;
#[path = "gateways/verbs.rs"]
mod verbs;

use std::path::{Path, PathBuf};

use gauge::gateway::{Model, Options};

/// The descriptions that everything here is made from: name, and file below the repository's root.
const APIS: [(&str, &str); 4] = [
    ("auction", "services/auction/openapi.yaml"),
    ("fiber-hono", "crates/gauge/tests/gateways/fiber-hono.openapi.yaml"),
    ("corners", "crates/gauge/tests/gateways/corners.openapi.yaml"),
    ("tls", "crates/gauge/tests/gateways/tls.openapi.yaml"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn api(file: &str) -> apidoc::Api {
    apidoc::read_file(root().join(file)).unwrap_or_else(|problems| panic!("{problems}")).api
}

fn model(api: &apidoc::Api, options: &Options) -> Model {
    Model::new(api, options).unwrap_or_else(|error| panic!("{error}"))
}
