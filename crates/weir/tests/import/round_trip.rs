//! What `gauge convert` writes for another gateway from a description, imported, has the routes that it writes for Weir from the same
//! description.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use import::{Format, import};
use weir::config::{Action, Loaded, load_text};

fn golden(api: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../gauge/tests/golden/gateways").join(api).join(file)
}

/// A method and a path with the names of parameters left out, and where it goes; HEAD goes with GET.
fn routes(loaded: &Loaded) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for route in &loaded.config.routes {
        let Action::Proxy(proxy) = &route.action else { continue };
        // Locations of nginx and rules of Traefik are compared after decoding: an escape and its character are one to them.
        let path = route.matcher.path.to_string().replace("%2B", "+");
        // A parameter that is a part of its segment: an expression says so, a template has the whole segment.
        let path = path.trim_start_matches('~').replace("(?<p1_0>[^#?/]+)", "{}").replace("[^/]+", "{}");
        let shape: Vec<&str> =
            path.split('/').map(|segment| if segment.starts_with('{') { "{}" } else { segment }).collect();
        let upstream = &loaded.config.upstreams[proxy.upstream.0];
        let targets: Vec<String> = loaded
            .file
            .upstreams
            .iter()
            .find(|(name, _)| *name.value == *upstream.name)
            .map_or_else(Vec::new, |(_, raw)| {
                raw.targets.listed().iter().map(|target| target.url.to_string()).collect()
            });
        for method in &route.matcher.methods {
            out.insert(format!(
                "{method} {} -> {} as {}",
                shape.join("/"),
                targets.join(" "),
                proxy.host.as_deref().unwrap_or("the client's host")
            ));
        }
    }
    out
}

fn load(name: &str, text: &str) -> BTreeSet<String> {
    let loaded = load_text(name, text, &|_| None).unwrap_or_else(|problems| panic!("{problems}\n{text}"));
    routes(&loaded)
}

fn same_routes(format: Format, file: &str) {
    for api in ["auction", "corners", "tls"] {
        same_as_exported(format, api, &golden(api, file));
    }
}

fn same_as_exported(format: Format, api: &str, path: &Path) {
    let imported = import(format, path).unwrap_or_else(|error| panic!("{error}"));
    let other = load(&path.display().to_string(), &imported.yaml);
    let own = load(api, &std::fs::read_to_string(golden(api, "weir/weir.yaml")).unwrap());
    let missing: Vec<_> = own.difference(&other).collect();
    let more: Vec<_> = other.difference(&own).collect();
    assert!(
        missing.is_empty() && more.is_empty(),
        "{api}, {}\nmissing: {missing:#?}\nmore: {more:#?}\n{}",
        format.name(),
        imported.report.to_text()
    );
}

#[test]
fn nginx() {
    same_routes(Format::Nginx, "nginx/nginx.conf");
}

#[test]
fn kong() {
    same_routes(Format::Kong, "kong/kong.yaml");
}

#[test]
fn traefik() {
    same_routes(Format::Traefik, "traefik/routes.yaml");
}

/// Caddy itself makes JSON of its Caddyfile.
#[test]
fn caddy() {
    let program = std::env::var_os("GAUGE_CADDY").unwrap_or_else(|| "caddy".into());
    for api in ["auction", "corners", "tls"] {
        let mut adapt = std::process::Command::new(&program);
        let output =
            adapt.args(["adapt", "--adapter", "caddyfile", "--config"]).arg(golden(api, "caddy/Caddyfile")).output();
        let Ok(output) = output else {
            eprintln!("skipped: caddy is not here (GAUGE_CADDY, or Debian package caddy)");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("caddy.json");
        std::fs::write(&file, output.stdout).unwrap();
        same_as_exported(Format::Caddy, api, &file);
    }
}
