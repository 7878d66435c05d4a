//! Whatever a file holds, it is read or refused: no panic, no hang, no unbounded recursion.

use std::fs;
use std::time::{Duration, Instant};

use import::{Format, Kind, import, import_text};
use proptest::prelude::*;

/// Words of the formats, so that random texts come further than the first character.
const WORDS: &[&str] = &[
    "http",
    "server",
    "location",
    "upstream",
    "listen",
    "80",
    "{",
    "}",
    ";",
    "= /a",
    "~ ^/a/[^/]+$",
    "proxy_pass",
    "http://b/",
    "$x",
    "return",
    "301",
    "rewrite",
    "^/a/(.*)$",
    "/$1",
    "break",
    "if",
    "(",
    ")",
    "\"",
    "'",
    "#",
    "\\",
    "\n",
    " ",
    "include",
    "*",
    "limit_req",
    "zone=a",
    "allow",
    "deny",
    "all",
    "server_name",
    "_",
    "*.x",
    "map",
    "set",
    "10.0.0.0/8",
    "443 ssl",
    "/",
    "é",
    "\u{0}",
    "\u{202e}",
];

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::collection::vec(proptest::sample::select(WORDS), 0..200).prop_map(|words| words.join(" ")),
        proptest::collection::vec(proptest::sample::select(WORDS), 0..200).prop_map(|words| words.concat()),
        any::<String>(),
    ]
}

/// A configuration with pieces taken out, doubled and exchanged.
fn mutated(text: &'static str) -> impl Strategy<Value = String> {
    proptest::collection::vec(
        (any::<prop::sample::Index>(), any::<prop::sample::Index>(), proptest::sample::select(WORDS)),
        1..8,
    )
    .prop_map(move |edits| {
        let mut chars: Vec<char> = text.chars().collect();
        for (from, to, word) in edits {
            if chars.is_empty() {
                break;
            }
            let (a, b) = (from.index(chars.len()), to.index(chars.len()));
            let range = a.min(b)..(a.min(b) + (a.max(b) - a.min(b)).min(40));
            chars.splice(range, word.chars());
        }
        chars.into_iter().collect()
    })
}

const KONG: &str = include_str!("golden/kong/limits-and-cache/kong.yaml");
const TRAEFIK: &str = include_str!("golden/traefik/secured/routes.yaml");
const CADDY: &str = include_str!("golden/caddy/balanced/caddy.json");
const LITELLM: &str = include_str!("golden/litellm/replicas/config.yaml");
const NGINX: &str = include_str!("golden/nginx/load-balanced/nginx.conf");

fn read(format: Format, text: &str) {
    let begin = Instant::now();
    if let Ok(imported) = import_text(format, "file", text) {
        assert!(imported.yaml.contains("\nroutes:\n"), "{}", imported.yaml);
        assert!(imported.report.to_text().lines().count() == imported.report.findings.len() + 1);
    }
    assert!(begin.elapsed() < Duration::from_secs(10), "{} took {:?}", format.name(), begin.elapsed());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in texts()) {
        for format in Format::ALL {
            read(format, &text);
        }
        let _ = import_text(Format::Traefik, "routes.toml", &text);
    }

    #[test]
    fn a_broken_nginx_configuration_is_read_or_refused(text in mutated(NGINX)) {
        read(Format::Nginx, &text);
    }

    #[test]
    fn a_broken_kong_configuration_is_read_or_refused(text in mutated(KONG)) {
        read(Format::Kong, &text);
    }

    #[test]
    fn a_broken_traefik_configuration_is_read_or_refused(text in mutated(TRAEFIK)) {
        read(Format::Traefik, &text);
    }

    #[test]
    fn a_broken_caddy_configuration_is_read_or_refused(text in mutated(CADDY)) {
        read(Format::Caddy, &text);
    }

    #[test]
    fn a_broken_litellm_configuration_is_read_or_refused(text in mutated(LITELLM)) {
        read(Format::Litellm, &text);
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [("a {", "}"), ("location / {", "}"), ("[", "]"), ("{\"a\":", "}"), ("- ", "")] {
        let text = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        for format in Format::ALL {
            assert!(import_text(format, "file", &text).is_err(), "{} {open}", format.name());
        }
    }
}

#[test]
fn a_large_file_is_read_in_time() {
    let locations: String =
        (0..2000).map(|i| format!("location /a{i}/ {{ proxy_pass http://127.0.0.1:{}/b/; }}\n", 1000 + i)).collect();
    let names: String = (0..100).map(|i| format!(" h{i}.example.com")).collect();
    let begin = Instant::now();
    let text = format!(
        "http {{ server {{ listen 80; {locations} }} server {{ listen 80; server_name{names}; {locations} }} }}"
    );
    let imported = import_text(Format::Nginx, "nginx.conf", &text).unwrap();
    assert!(imported.report.count(Kind::LeftOut) > 0);
    assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", begin.elapsed());
}

#[test]
fn includes_are_bounded_and_stay_below_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("site");
    fs::create_dir(&inside).unwrap();
    fs::write(folder.path().join("secret.conf"), "server { listen 81; }").unwrap();
    fs::write(inside.join("loop.conf"), "include loop.conf; include loop.conf;").unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.conf"), inside.join("link.conf")).unwrap();
    let main = inside.join("nginx.conf");

    for include in ["../secret.conf", "link.conf", "/etc/passwd", "/dev/zero", "/proc/self/environ"] {
        fs::write(&main, format!("http {{ include {include}; server {{ listen 80; location / {{ return 204; }} }} }}"))
            .unwrap();
        let imported = import(Format::Nginx, &main).unwrap();
        assert_eq!(imported.report.count(Kind::LeftOut), 1, "{}", imported.report.to_text());
        assert!(!imported.yaml.contains(":81"), "{include}");
    }

    fs::write(&main, "http { include loop.conf; }").unwrap();
    let error = import(Format::Nginx, &main).unwrap_err().to_string();
    assert!(error.contains("does one include itself?"), "{error}");
}

#[test]
fn what_is_not_the_format_is_refused_with_its_line() {
    for (text, wanted) in [
        ("http {\n  server {\n listen 80\n }\n}", "nginx.conf:3: `listen` is not ended by `;`"),
        ("http {\n", "nginx.conf:2: the file ends inside a block"),
        ("}", "nginx.conf:1: `}` ends no block"),
        ("http { server { return 200 \"a; } }", "nginx.conf:1: a quote is not closed"),
        ("", "nginx.conf: there is no `server` in it"),
    ] {
        let error = import_text(Format::Nginx, "nginx.conf", text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}
