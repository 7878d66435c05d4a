//! Who may use the pages.

use std::process::Command;

use super::server::Ui;
use crate::database::Database;

const TOKEN: &str = "0123456789abcdef-token";

#[test]
fn foreign_pages_are_refused() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[]);
    assert_eq!(ui.get("/").status, 200);
    for host in ["evil.example", "evil.example:80", "127.0.0.1@evil.example", "127.0.0.1.evil.example"] {
        assert_eq!(ui.raw("GET", "/", &[("Host", host)], b"").status, 421, "{host}");
    }
    assert_eq!(ui.raw("GET", "http://evil.example/", &[], b"").status, 421, "an absolute target");
    for host in ["localhost:1", "[::1]:8095"] {
        assert_eq!(ui.raw("GET", "/", &[("Host", host)], b"").status, 200, "{host}");
    }
    let csrf = ui.csrf();
    let body = format!("csrf={csrf}&file=x.yaml");
    let kind = ("Content-Type", "application/x-www-form-urlencoded");
    let own = format!("http://{}", ui.address);
    let send = |field: (&str, &str)| ui.raw("POST", "/evaluations/show", &[kind, field], body.as_bytes()).status;
    assert_eq!(send(("Origin", "http://evil.example")), 403);
    assert_eq!(send(("Origin", "null")), 403);
    assert_eq!(send(("Sec-Fetch-Site", "cross-site")), 403);
    assert_eq!(send(("Sec-Fetch-Site", "same-site")), 403);
    assert_eq!(send(("Origin", &own)), 404, "it passes, and there is no such file");
    for wrong in ["", "csrf=", "csrf=0000", &format!("csrf={csrf}0")] {
        assert_eq!(ui.raw("POST", "/evaluations/show", &[kind], wrong.as_bytes()).status, 403, "{wrong}");
    }
    assert_eq!(ui.raw("POST", "/evaluations/show", &[("Content-Type", "text/plain")], body.as_bytes()).status, 415);
    let policy = ui.get("/").field("content-security-policy").expect("a policy").to_owned();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
}

#[test]
fn with_a_token_every_page_needs_a_login() {
    let database = Database::sqlite();
    let ui = Ui::start(&database.store, &[("GAUGE_UI_TOKEN", TOKEN)]);
    for path in ["/", "/runs", "/new", "/evaluations"] {
        let response = ui.get(path);
        assert_eq!((response.status, response.field("location")), (303, Some("/login")), "{path}");
    }
    assert_eq!(ui.post("/evaluations/show", &[("csrf", "")]).status, 401);
    assert_eq!(ui.post("/login", &[("token", "wrong")]).status, 401);
    let response = ui.post("/login", &[("token", TOKEN)]);
    assert_eq!(response.status, 303);
    let cookie = response.field("set-cookie").expect("a cookie").to_owned();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    let session = cookie.split(';').next().expect("a pair");
    assert_eq!(ui.raw("GET", "/", &[("Cookie", session)], b"").status, 200);
    assert_eq!(ui.raw("POST", "/logout", &[("Cookie", session)], b"").status, 303);
    assert_eq!(ui.raw("GET", "/", &[("Cookie", session)], b"").status, 303, "the session has ended");
    let statuses: Vec<u16> = (0..6).map(|_| ui.post("/login", &[("token", "wrong")]).status).collect();
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    assert_eq!(ui.post("/login", &[("token", TOKEN)]).status, 429, "also the right one, for a minute");
}

#[test]
fn other_addresses_need_a_token_that_is_long_enough() {
    let database = Database::sqlite();
    let run = |listen: &str, token: &str| {
        let mut command: Command = database.command(&["ui", "--listen", listen]);
        let output = command.env("GAUGE_UI_TOKEN", token).output().expect("gauge starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (listen, token, expected) in [
        ("0.0.0.0:0", "", "is not the loopback interface"),
        ("[::]:0", "", "is not the loopback interface"),
        ("127.0.0.1:0", "short", "fewer than 16 characters"),
    ] {
        let (code, said) = run(listen, token);
        assert!(code == Some(64) && said.contains(expected), "{listen} {code:?}: {said}");
    }
}
