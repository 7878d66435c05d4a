//! The same requests through the original program and through Weir with the imported file: same status, same request at the upstream.

use std::collections::BTreeMap;
use std::path::Path;

use import::{Format, import};
use testkit::{Nginx, RawClient, Upstream, Weir, responder};

/// A request: method, target, further fields, body.
type Request<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)], &'a str);

/// What a request caused: the status, `Location`, and what the upstream saw.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    status: u16,
    location: Option<String>,
    upstream: Option<Forwarded>,
}

/// A request at the upstream.
#[derive(Debug, PartialEq, Eq)]
struct Forwarded {
    method: String,
    target: String,
    host: String,
    fields: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Fields of requests that both have to forward alike.
const COMPARED: [&str; 5] = ["x-test", "x-tenant", "authorization", "content-type", "accept-encoding"];

fn send(port: std::net::SocketAddr, upstream: &Upstream, request: Request<'_>) -> Seen {
    upstream.forget();
    let (method, target, fields, body) = request;
    let mut client = RawClient::connect(port);
    client.request(method, target, fields, body);
    let response = client.read_response_to(method);
    let recorded = upstream.requests();
    assert!(recorded.len() < 2, "{method} {target} was sent {} times", recorded.len());
    Seen {
        status: response.status(),
        // nginx makes a URL of it, with the host and port that were requested.
        location: response.field("location").map(|to| {
            let own = format!("http://test:{}", port.port());
            to.strip_prefix(own.as_str()).unwrap_or(to).to_owned()
        }),
        upstream: recorded.first().map(|request| {
            let field = |name: &str| request.head.field(name).map(str::to_owned);
            Forwarded {
                method: request.head.method().to_owned(),
                target: request.head.target().to_owned(),
                host: field("host").unwrap_or_default(),
                fields: COMPARED.iter().filter_map(|name| Some(((*name).to_owned(), field(name)?))).collect(),
                body: request.body.clone(),
            }
        }),
    }
}

/// Imports a file and starts Weir with it, on a port of its own.
fn weir_with(format: Format, file: &Path) -> Weir {
    let imported = import(format, file).unwrap_or_else(|error| panic!("{error}"));
    let mut lines: Vec<&str> = imported.yaml.lines().collect();
    let listen = lines.iter().position(|line| line.starts_with("listen: ")).expect("one listener");
    lines[listen] = "listen: 127.0.0.1:0";
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(lines.join("\n") + "\n").start()
}

const REQUESTS: &[Request<'static>] = &[
    ("GET", "/", &[], ""),
    ("GET", "/any/where?a=1&b=%20x", &[("X-Test", "1")], ""),
    ("POST", "/any/where", &[("Content-Type", "text/plain")], "hello"),
    ("PUT", "/any", &[], "0123456789"),
    ("DELETE", "/any", &[], ""),
    ("HEAD", "/any", &[], ""),
    ("OPTIONS", "/any", &[], ""),
    ("GET", "/api", &[], ""),
    ("GET", "/api?x=1", &[], ""),
    ("GET", "/api/", &[], ""),
    ("GET", "/api/users/7?x=y", &[], ""),
    ("GET", "/api/a/../b", &[], ""),
    ("GET", "/api//b", &[], ""),
    ("GET", "/api/%41%2d", &[], ""),
    ("GET", "/plain", &[], ""),
    ("GET", "/plain/x", &[], ""),
    ("GET", "/exact", &[], ""),
    ("GET", "/exact/", &[], ""),
    ("GET", "/exact?q", &[], ""),
    ("GET", "/kept/x/y?z", &[], ""),
    ("GET", "/stripped/x?z=1", &[], ""),
    ("GET", "/stripped/", &[], ""),
    ("GET", "/moved", &[], ""),
    ("GET", "/moved/x", &[], ""),
    ("GET", "/old/a/b?c=d", &[], ""),
    ("GET", "/fixed", &[], ""),
    ("GET", "/gone/x", &[], ""),
    ("GET", "/bids/7", &[], ""),
    ("GET", "/bids/7/items", &[], ""),
    ("GET", "/bids/", &[], ""),
    ("POST", "/bids/7", &[], "x"),
    ("GET", "/read/x", &[], ""),
    ("GET", "/closed/x", &[], ""),
    ("GET", "/inside", &[], ""),
    ("POST", "/small/x", &[], "0123456789012345678901234567890123456789"),
    ("POST", "/small/x", &[], "short"),
    ("GET", "/fields/x", &[("X-Test", "client"), ("Accept-Encoding", "gzip")], ""),
    ("GET", "/base/x", &[], ""),
    ("GET", "/users/x", &[("Authorization", "Basic dXNlcjpzZWNyZXQ=")], ""),
    ("GET", "/users/x", &[("Authorization", "Basic dXNlcjp3cm9uZw==")], ""),
    ("GET", "/users/x", &[], ""),
    ("GET", "/asked/x?y=z", &[], ""),
    ("GET", "/asked/x?y=z", &[("Authorization", "200")], ""),
    ("GET", "/asked/x", &[("Authorization", "204"), ("X-Tenant", "forged")], ""),
    ("POST", "/asked/x", &[("Authorization", "200"), ("Content-Type", "text/plain")], "body"),
    ("GET", "/asked/admin", &[("Authorization", "200")], ""),
    ("GET", "/asked/x", &[("Authorization", "401")], ""),
    ("HEAD", "/asked/x", &[("Authorization", "403")], ""),
    ("GET", "/asked/x", &[("Authorization", "302")], ""),
    ("GET", "/asked/x", &[("Authorization", "500")], ""),
    ("GET", "/_ask", &[("Authorization", "200")], ""),
];

/// Responds with the status that the request has as its credential, 403 for `/asked/admin`; tells the tenant.
fn judge(conn: &mut testkit::Conn, request: &testkit::Message) -> Result<(), testkit::WireError> {
    assert_eq!((request.head.method(), request.head.target()), ("GET", "/verify"));
    let is_admin = request.field("x-original-uri").is_some_and(|uri| uri.starts_with("/asked/admin"));
    let wanted = request.field("authorization").and_then(|status| status.parse().ok()).unwrap_or(401);
    let status: u16 = if is_admin { 403 } else { wanted };
    conn.respond(status, &[("X-Tenant", "told")], if status == 204 { "" } else { "verdict" })
}

#[test]
fn nginx() {
    let (upstream, service) = (Upstream::start(responder::ok("ok")), Upstream::start(judge));
    let (address, requested) = (upstream.socket_addr(), service.socket_addr());
    // bcrypt of "secret", at the least cost.
    let hash = bcrypt::hash("secret", 4).unwrap();
    let server =         "server_name a.example.com;
         rewrite ^/old/(.*)$ /new/$1 permanent;
         location / { proxy_pass http://app; proxy_set_header Host $http_host; }
         location /api/ { proxy_pass http://app/v2/; proxy_set_header Host api.internal; }
         location /plain { proxy_pass http://app; }
         location = /exact { proxy_pass http://app/other; }
         location /kept/ { proxy_pass http://app; }
         location /stripped/ { rewrite ^/stripped/(.*)$ /$1 break; proxy_pass http://app; }
         location /moved { return 302 https://example.org/here; }
         location = /fixed { return 200 \"fixed\"; }
         location /gone/ { return 410; }
         location ~ ^/bids/[^/]+$ { if ($request_method !~ ^(GET|HEAD)$) { return 405; } proxy_pass http://app; }
         location /bids/ { return 404; }
         location /closed/ { allow 10.0.0.0/8; deny all; proxy_pass http://app; }
         location /inside { internal; proxy_pass http://app; }
         location /small/ { client_max_body_size 20; proxy_pass http://app; }
         location /fields/ { proxy_set_header X-Tenant shop; proxy_set_header Accept-Encoding \"\"; proxy_set_header X-Test \"\"; proxy_pass http://app; }
         location /base/ { proxy_pass http://app/deep$request_uri; }
         location /users/ { auth_basic users; auth_basic_user_file passwords; proxy_pass http://app; }
         location = /_ask { internal; proxy_pass http://ask/verify; proxy_pass_request_body off; proxy_set_header Content-Length \"\"; proxy_set_header X-Original-URI $request_uri; }
         location /asked/ { auth_request /_ask; auth_request_set $tenant $upstream_http_x_tenant; proxy_set_header X-Tenant $tenant; proxy_pass http://app; }";
    let http = format!("upstream app {{ server {address}; }} upstream ask {{ server {requested}; }}");
    let nginx = Nginx::start_beside(&http, server);
    std::fs::write(nginx.dir().join("passwords"), format!("user:{hash}\n")).unwrap();
    let conf = nginx.dir().join("nginx.conf");
    let text = std::fs::read_to_string(&conf).unwrap();
    let absolute = text.replace(
        "auth_basic_user_file passwords",
        &format!("auth_basic_user_file {}/passwords", nginx.dir().display()),
    );
    std::fs::write(&conf, absolute).unwrap();
    nginx.restart();

    let weir = weir_with(Format::Nginx, &conf);
    let mut wrong = Vec::new();
    for &request in REQUESTS {
        let other = send(nginx.address(), &upstream, request);
        let own = send(weir.addr(), &upstream, request);
        if other != own {
            wrong.push(format!("{} {}\n  nginx: {other:?}\n  weir:  {own:?}", request.0, request.1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let requesting = REQUESTS.iter().filter(|(_, target, ..)| target.starts_with("/asked/")).count();
    assert_eq!(service.request_count(), 2 * requesting, "each of both asked about each request");
}

/// Matched, forwarded and responded to as by Caddy; redirects without a query, which Caddy drops.
const CADDY_REQUESTS: &[Request<'static>] = &[
    ("GET", "/", &[], ""),
    ("GET", "/any/where?a=1&b=%20x", &[("X-Test", "1")], ""),
    ("POST", "/any/where", &[("Content-Type", "text/plain")], "hello"),
    ("DELETE", "/any", &[], ""),
    ("GET", "/v1/x?y=z", &[], ""),
    ("GET", "/v1/", &[], ""),
    ("GET", "/v1", &[], ""),
    ("GET", "/v2/x/y?z", &[], ""),
    ("GET", "/old", &[], ""),
    ("GET", "/fixed", &[], ""),
    ("GET", "/items/7", &[], ""),
    ("POST", "/items/7", &[], "x"),
    ("GET", "/items/7/parts", &[], ""),
    ("GET", "/internal/x", &[], ""),
    ("GET", "/moved/a/b?c=d", &[], ""),
    ("GET", "/fields/x", &[("X-Test", "client")], ""),
];

#[test]
fn caddy() {
    let program = std::env::var_os("GAUGE_CADDY").unwrap_or_else(|| "caddy".into());
    if std::process::Command::new(&program).arg("version").output().is_err() {
        eprintln!("skipped: caddy is not here (GAUGE_CADDY, or Debian package caddy)");
        return;
    }
    let upstream = Upstream::start(responder::ok("ok"));
    let port = testkit::ports::Port::free();
    let address = upstream.socket_addr();
    let proxy = format!("reverse_proxy {address}");
    let caddyfile = format!(
        "{{
            admin off
            auto_https off
            persist_config off
        }}
        http://{listen} {{
            redir /old /new
            handle_path /v1/* {{
                {proxy}
            }}
            handle /v2/* {{
                rewrite * /base{{uri}}
                {proxy}
            }}
            @items {{
                method GET
                path_regexp ^/items/[^/]+$
            }}
            handle @items {{
                {proxy} {{
                    header_up Host items.internal
                }}
            }}
            handle /items/* {{
                respond 405
            }}
            handle /internal/* {{
                respond 403
            }}
            handle /moved/* {{
                redir https://example.org{{uri}} permanent
            }}
            handle /fields/* {{
                {proxy} {{
                    header_up X-Tenant shop
                    header_up -X-Test
                }}
            }}
            handle /fixed {{
                respond \"fixed\" 200
            }}
            handle {{
                {proxy}
            }}
        }}",
        listen = format_args!(":{}", port.address().port()),
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Caddyfile"), caddyfile).unwrap();
    let mut adapt = std::process::Command::new(&program);
    let adapted = adapt.args(["adapt", "--config", "Caddyfile"]).current_dir(folder.path()).output().unwrap();
    assert!(adapted.status.success(), "{}", String::from_utf8_lossy(&adapted.stderr));
    let file = folder.path().join("caddy.json");
    std::fs::write(&file, adapted.stdout).unwrap();

    let builder = testkit::Process::builder(&program).args(["run", "--config"]).arg(&file);
    let data = folder.path().display().to_string();
    let process =
        builder.env("XDG_DATA_HOME", data.clone()).env("XDG_CONFIG_HOME", data.clone()).env("HOME", data).start();
    testkit::wait::until(testkit::DEADLINE, "caddy takes connections", || {
        assert!(process.exit_status().is_none(), "caddy ended\n{}", process.tail());
        RawClient::try_connect(port.address(), None).is_ok()
    });

    let weir = weir_with(Format::Caddy, &file);
    let mut wrong = Vec::new();
    for &request in CADDY_REQUESTS {
        let other = send(port.address(), &upstream, request);
        let own = send(weir.addr(), &upstream, request);
        // Go's client requests gzip where the request says nothing.
        if other.without_gzip() != own {
            wrong.push(format!("{} {}\n  caddy: {other:?}\n  weir:  {own:?}", request.0, request.1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl Seen {
    fn without_gzip(&self) -> Seen {
        let upstream = self.upstream.as_ref().map(|seen| {
            let mut fields = seen.fields.clone();
            fields.retain(|name, value| name != "accept-encoding" || value != "gzip");
            Forwarded {
                method: seen.method.clone(),
                target: seen.target.clone(),
                host: seen.host.clone(),
                fields,
                body: seen.body.clone(),
            }
        });
        Seen { status: self.status, location: self.location.clone(), upstream }
    }
}
