//! A gateway as an evaluation names it: an adapter, perhaps with configuration files of the user's own.

use std::collections::BTreeMap;

use crate::gateway::{File, Model, Placement, Written};

/// A gateway, or a variant of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variant {
    /// Name of the adapter.
    pub gateway: String,
    /// Files that replace those of the adapter, or join them, by their path there; as they were read.
    pub files: BTreeMap<String, String>,
    /// Variables beside the adapter's.
    pub env: BTreeMap<String, String>,
}

impl Variant {
    /// Puts the variant's own files in the place of the adapter's. In them `{listen}` is the address and port to listen on, `{address}`
    /// and `{port}` its parts, `{cpus}` the number of processors, and `{upstream N}` and `{host N}` the URL and `host:port` of the N-th
    /// upstream, from 1, in the order in which the API names them; other braces stay.
    pub fn apply(&self, written: &mut Written, model: &Model, place: &Placement) {
        for (path, text) in &self.files {
            let text = fill(text, model, place);
            match written.files.iter_mut().find(|file| file.path == *path) {
                Some(file) => file.text = text,
                None => written.files.push(File { path: path.clone(), text }),
            }
        }
    }
}

fn fill(text: &str, model: &Model, place: &Placement) -> String {
    let mut out = text
        .replace("{listen}", &place.listen.to_string())
        .replace("{address}", &place.listen.ip().to_string())
        .replace("{port}", &place.listen.port().to_string())
        .replace("{cpus}", &place.cpus.to_string());
    for (index, upstream) in model.upstreams.iter().enumerate() {
        out = out
            .replace(&format!("{{upstream {}}}", index + 1), &upstream.url())
            .replace(&format!("{{host {}}}", index + 1), &upstream.address());
    }
    out
}
