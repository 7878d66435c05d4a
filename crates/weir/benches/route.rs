//! Cost of finding the route, and of the two steps round it. `cargo bench -p weir --bench route`
//!
//! The allocation counts that are printed have to be zero.

use std::hint::black_box;

use divan::{AllocProfiler, Bencher};
use weir::config::{Config, load_text};
use weir::route::path::Target;
use weir::route::{Lookup, Table, path};

#[global_allocator]
static ALLOC: AllocProfiler = AllocProfiler::system();

fn main() {
    divan::main();
}

/// A description of the usual size: resources with a collection, an item and a sub-resource, each with several methods.
fn config(operations: usize) -> Config {
    let mut text = "listen: 127.0.0.1:0\nupstreams: {app: {targets: [http://127.0.0.1:1]}}\nroutes:\n".to_owned();
    let mut add = |method: &str, path: &str| {
        text.push_str(&format!("  - {{match: {{path: \"{path}\", methods: [{method}]}}, upstream: app}}\n"));
    };
    for resource in 0..operations / 6 {
        let base = format!("/api/v1/resource{resource}");
        for method in ["GET", "POST"] {
            add(method, &base);
        }
        for method in ["GET", "PUT", "DELETE"] {
            add(method, &format!("{base}/{{id}}"));
        }
        add("GET", &format!("{base}/{{id}}/events"));
    }
    add("GET", "/static/*");
    load_text("bench", &text, &|_| None).unwrap().config
}

#[divan::bench(args = [6, 60, 600, 6000])]
fn exact(bencher: Bencher<'_, '_>, operations: usize) {
    lookup(bencher, operations, &format!("/api/v1/resource{}", operations / 12));
}

#[divan::bench(args = [6, 60, 600, 6000])]
fn template(bencher: Bencher<'_, '_>, operations: usize) {
    lookup(bencher, operations, &format!("/api/v1/resource{}/4711/events", operations / 12));
}

#[divan::bench(args = [6, 60, 600, 6000])]
fn wildcard(bencher: Bencher<'_, '_>, operations: usize) {
    lookup(bencher, operations, "/static/js/app.js");
}

fn lookup(bencher: Bencher<'_, '_>, operations: usize, path: &str) {
    let table = Table::new(&config(operations).routes);
    let get = || {
        table.lookup(
            black_box(b"api.example.com"),
            black_box(Target { path: path.as_bytes(), query: None }),
            black_box(b"GET"),
            |_, _| false,
        )
    };
    assert!(matches!(get(), Lookup::RouteMatch(_)), "{path}");
    bencher.bench_local(get);
}

#[divan::bench(args = ["/api/v1/resource50/4711/events?page=2&size=20", "/api/%76%31/./resource50/4711/../4711/events?page=2"])]
fn normalise(bencher: Bencher<'_, '_>, target: &str) {
    let mut scratch = Vec::with_capacity(256);
    bencher.bench_local(|| path::normalise(black_box(target.as_bytes()), &mut scratch).map(|target| target.path.len()));
}
