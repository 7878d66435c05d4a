//! Audio and images: forms and bytes pass, but for the name of the model; with fallbacks, faults, limits, keys for some models, log and metrics.

use serde_json::{Value, json};
use testkit::{DEADLINE, Upstream, Weir, wait};

use crate::client::{Received, post, send};
use crate::rig::Provider;

const SPEECH: &str = "/v1/audio/speech";
const FORMS: [&str; 4] =
    ["/v1/audio/transcriptions", "/v1/audio/translations", "/v1/images/edits", "/v1/images/variations"];
const BOUNDARY: &str = "----weir-test-Boundary'7";

/// A gateway with models at a simulator: `NAME` and, behind it, `sim`; and `claude` at a provider of another API.
fn gateway(provider: &Provider, models: &[&str], route: &str, more: &str) -> Weir {
    let url = format!("http://{}", provider.address());
    let models: String = models
        .iter()
        .map(|name| {
            // Short for those that stall, else no machine is too slow for it.
            let timeouts = match name.strip_prefix("sim-f") {
                Some("8" | "9" | "11") => "timeouts: {first_token: 2s, token_idle: 2s}, ",
                _ => "",
            };
            let first = format!("{{provider: p, model: {name}}}");
            format!(
                "  {name}: {{{timeouts}candidates: [{first}]}}\n  \
                 {name}-or-sim: {{{timeouts}candidates: [{first}, {{provider: q, model: sim, tier: 2}}]}}\n"
            )
        })
        .collect();
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\n{more}\
         upstreams: {{sim: {{targets: [\"{url}\"], eject: none, retry: {{budget: 100%}}}}}}\n\
         providers:\n  p: {{api: openai, upstream: sim}}\n  q: {{api: openai, upstream: sim}}\n  claude: {{api: anthropic, upstream: sim}}\n\
         models:\n  claude: {{candidates: [{{provider: claude, model: sim, max_output: 9}}]}}\n{models}\
         routes:\n  - {{name: ai, match: {{path: /v1/*}}, ai: {{{route}}}}}\n"
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn field(name: &str, value: &str) -> String {
    format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
}

fn file(bytes: usize) -> String {
    let content: String = (0..bytes).map(|at| char::from(b' ' + (at * 7 % 90) as u8)).collect();
    format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b.wav\"\r\nContent-Type: audio/wav\r\n\r\n\
         {content}\r\n"
    )
}

fn whole(parts: &[String]) -> String {
    format!("{}--{BOUNDARY}--\r\n", parts.concat())
}

fn send_form(weir: &Weir, path: &str, body: &str) -> Received {
    let kind = format!("multipart/form-data; boundary=\"{BOUNDARY}\"");
    send(weir.addr(), "POST", path, &[("Content-Type", &kind), ("Authorization", "Bearer client-secret")], body)
}

fn speak(weir: &Weir, model: &str) -> Received {
    post(weir.addr(), SPEECH, &json!({"model": model, "input": "hello", "voice": "alloy"}).to_string())
}

fn audio(kib: usize) -> Vec<u8> {
    (0..kib * 1024).map(|at| (at * 31 % 251) as u8).collect()
}

fn lines(weir: &Weir) -> Vec<Value> {
    let log = weir.stdout();
    log.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(|line: &Value| line["ai"].is_object())
        .collect()
}

#[test]
fn each_operation_reaches_its_provider_and_comes_back() {
    let provider = Provider::start();
    let weir = gateway(&provider, &["sim"], "", "");
    for path in FORMS {
        let received = send_form(&weir, path, &whole(&[file(1000), field("model", "sim")]));
        assert_eq!((received.status, received.field("x-weir-model")), (200, Some("p/sim")), "{path}: {received:?}");
        let member = if path.contains("images") { "data" } else { "text" };
        assert!(received.is_whole && !received.json()[member].is_null(), "{received:?}");
    }
    let form = |more: &[String]| whole(&[&[field("model", "sim")], more, &[file(10)]].concat());
    for format in ["text", "srt", "vtt"] {
        let received = send_form(&weir, FORMS[0], &form(&[field("response_format", format)]));
        assert_eq!((received.status, received.is_whole), (200, true), "{received:?}");
        assert!(
            received.field("content-type").unwrap().starts_with("text/plain")
                && received.text().contains("quick brown")
        );
    }
    let events = send_form(&weir, FORMS[0], &form(&[field("stream", "true")]));
    assert!(events.is_whole && events.text().contains("transcript.text.done"), "{events:?}");
    let spoken = speak(&weir, "sim");
    assert_eq!((spoken.status, spoken.is_whole, spoken.field("content-type")), (200, true, Some("audio/mpeg")));
    assert!(spoken.body == audio(256));
    let body = json!({"model": "sim", "input": "hello", "stream_format": "sse"});
    let events = post(weir.addr(), SPEECH, &body.to_string());
    assert!(events.is_whole && events.text().contains("speech.audio.done"), "{events:?}");
    assert_eq!(provider.calls("sim"), 10);

    wait::until(DEADLINE, "all calls are logged", || lines(&weir).len() == 10);
    let apis: Vec<String> = lines(&weir).iter().map(|line| line["ai"]["api"].as_str().unwrap().to_owned()).collect();
    assert_eq!(apis[..4], ["transcriptions", "translations", "image_edits", "image_variations"]);
    assert_eq!(apis[8..], ["speech", "speech"]);
    for line in lines(&weir) {
        assert_eq!((&line["ai"]["end"], &line["ai"]["provider"]), (&json!("complete"), &json!("p")), "{line}");
        assert!(line["ai"]["ttft_ms"].is_number(), "{line}");
    }
    let metrics = weir.admin_get("/metrics").text().to_owned();
    let line =
        "weir_ai_requests_total{route=\"ai\",model=\"sim\",provider=\"p\",api=\"transcriptions\",end=\"complete\"} 5";
    assert!(metrics.contains(line), "{metrics}");
}

/// What a provider gets: the form byte for byte but for the model, its boundary, and its own key.
#[test]
fn a_form_passes_byte_for_byte() {
    let upstream = Upstream::builder()
        .record_limit(8 << 20)
        .start(|conn, _| conn.respond(200, &[("Content-Type", "application/json")], "{\"text\":\"hi\"}"));
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [\"{}/base\"]}}}}\n\
         providers: {{p: {{api: openai, upstream: u, keys: [sk-provider-key-abcdef]}}}}\n\
         models:\n  hear: {{aliases: [whisper-1], candidates: [{{provider: p, model: real/hear-large}}]}}\n  \
         same: {{candidates: [{{provider: p, model: same}}]}}\n\
         routes: [{{match: {{path: /v1/*}}, ai: {{default_model: hear}}}}]\n",
        upstream.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let large = file(3 << 20);
    for (parts, sent) in [
        (vec![field("model", "whisper-1"), large.clone()], vec![field("model", "real/hear-large"), large.clone()]),
        (
            vec![field("language", "en"), field("model", "hear"), file(9)],
            vec![field("language", "en"), field("model", "real/hear-large"), file(9)],
        ),
        (vec![field("model", "same"), file(70_000)], vec![field("model", "same"), file(70_000)]),
        // None, or behind the first 64 KiB: the default.
        (vec![file(9)], vec![field("model", "real/hear-large"), file(9)]),
        (vec![large.clone(), field("model", "same")], vec![large, field("model", "real/hear-large")]),
        (vec![field("model", "nobody-knows"), file(9)], vec![field("model", "real/hear-large"), file(9)]),
    ] {
        upstream.forget();
        let received = send_form(&weir, FORMS[0], &whole(&parts));
        assert_eq!((received.status, received.text().as_str()), (200, "{\"text\":\"hi\"}"), "{received:?}");
        let seen = upstream.requests().pop().unwrap();
        assert!(seen.body == whole(&sent).as_bytes(), "{}", String::from_utf8_lossy(&seen.body[..200]));
        let head = String::from_utf8(seen.head.raw.clone()).unwrap();
        assert!(head.starts_with("POST /base/v1/audio/transcriptions HTTP/1.1\r\n"), "{head}");
        let lower = head.to_ascii_lowercase();
        assert!(!lower.contains("client-secret"), "{head}");
        assert!(lower.contains("authorization: bearer sk-provider-key-abcdef\r\n"), "{head}");
        assert_eq!(head.matches(&format!("multipart/form-data; boundary=\"{BOUNDARY}\"\r\n")).count(), 1, "{head}");
    }
}

#[test]
fn what_cannot_be_read_is_refused() {
    let provider = Provider::start();
    let weir = gateway(&provider, &["sim"], "models: [sim, claude]", "");
    let twice = whole(&[field("model", "sim"), file(70_000), field("model", "sim")]);
    let late = whole(&[file(70_000), field("model", "sim")]);
    for (body, status, code, param) in [
        (whole(&[file(9)]), 400, "missing_model", json!("model")),
        (late, 400, "missing_model", json!("model")),
        (twice, 400, "invalid_request", json!("model")),
        (whole(&[field("Model", "sim"), file(9)]), 400, "invalid_request", json!("model")),
        (whole(&[field("model", "other"), file(9)]), 404, "model_not_found", json!("model")),
        (whole(&[field("model", "claude"), file(9)]), 400, "unsupported_api", json!("model")),
        (field("model", "sim"), 400, "invalid_request", Value::Null),
        (whole(&[field("model", "sim")]).replace("\r\n", "\n"), 400, "invalid_request", Value::Null),
        (String::new(), 400, "invalid_request", Value::Null),
    ] {
        let received = send_form(&weir, FORMS[2], &body);
        assert_eq!(received.status, status, "{received:?}");
        let error = received.json()["error"].clone();
        assert_eq!((&error["code"], &error["param"]), (&json!(code), &param), "{error}");
        assert_eq!(received.field("x-should-retry"), Some("false"));
    }
    let received = post(weir.addr(), FORMS[0], "{\"model\":\"sim\"}");
    assert_eq!((received.status, &received.json()["error"]["code"]), (400, &json!("invalid_request")), "{received:?}");
    for path in FORMS.into_iter().chain([SPEECH]) {
        let received = send(weir.addr(), "GET", path, &[], "");
        assert_eq!((received.status, received.field("allow")), (405, Some("POST")), "{received:?}");
    }
    assert_eq!(provider.ledger()["calls"], json!({}), "no provider was called");
    // What is to be searched or read by a guard must not pass unseen.
    let guard = "guard: {url: \"http://127.0.0.1:9/\", when: [before]}";
    for route in ["redact: [email]", guard] {
        let weir = gateway(&provider, &["sim"], route, "");
        let received = send_form(&weir, FORMS[0], &whole(&[field("model", "sim"), file(9)]));
        assert_eq!(
            (received.status, &received.json()["error"]["code"]),
            (400, &json!("unsupported_operation")),
            "{received:?}"
        );
    }
}

/// Until the first byte another candidate takes the place of one that fails; after it the connection ends without an end.
#[test]
fn faults_before_and_after_the_first_byte() {
    let models =
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 34].map(|fault| format!("sim-f{fault}"));
    let names: Vec<&str> = models.iter().map(String::as_str).collect();
    let provider = Provider::start();
    let weir = gateway(&provider, &names, "", "");
    std::thread::scope(|scope| {
        for model in &names {
            let weir = &weir;
            scope.spawn(move || {
                let text = |model: &str| whole(&[field("model", model), field("response_format", "text"), file(9)]);
                let json = |model: &str| whole(&[field("model", model), file(9)]);
                let alone = [
                    speak(weir, model),
                    send_form(weir, FORMS[0], &text(model)),
                    send_form(weir, FORMS[1], &json(model)),
                    send_form(weir, FORMS[2], &json(model)),
                ];
                let model = format!("{model}-or-sim");
                let replaced = [
                    speak(weir, &model),
                    send_form(weir, FORMS[0], &text(&model)),
                    send_form(weir, FORMS[1], &json(&model)),
                    send_form(weir, FORMS[2], &json(&model)),
                ];
                judge(&model, &alone, &replaced);
            });
        }
    });
    wait::until(DEADLINE, "nothing is held", || weir.admin_get("/metrics").text().contains("weir_ai_held_bytes 0"));
}

fn judge(model: &str, alone: &[Received; 4], replaced: &[Received; 4]) {
    let start = |received: &Received| received.text().chars().take(200).collect::<String>();
    let fault: u8 = model.trim_start_matches("sim-f").trim_end_matches("-or-sim").parse().unwrap();
    for (index, (alone, replaced)) in alone.iter().zip(replaced).enumerate() {
        let is_bytes = index < 2;
        let status = match fault {
            2..=4 => 429,
            5 => 500,
            6 => 503,
            8 | 9 => 504,
            12 | 13 => 400,
            16 => 422,
            // Whatever its members are, it is a document.
            18 if !is_bytes => 200,
            _ => 502,
        };
        // These say something of the request, or nothing that another attempt could change.
        let is_final = matches!(fault, 12 | 13 | 16 | 34);
        let is_begun = is_bytes && matches!(fault, 10 | 11 | 19);
        if is_begun {
            for received in [alone, replaced] {
                assert!(received.status == 200 && !received.is_whole, "F{fault} {index}");
                // A reset may overtake the last bytes.
                assert!(index == 1 || audio(128).starts_with(&received.body), "F{fault}: what came is the provider's");
            }
            continue;
        }
        assert_eq!((alone.status, alone.is_whole), (status, true), "F{fault} {index}: {}", start(alone));
        if status == 200 {
            continue;
        }
        assert!(alone.json()["error"].is_object(), "F{fault} {index}: {}", start(alone));
        if !is_final {
            let served = (replaced.status, replaced.is_whole, replaced.field("x-fallback"));
            assert_eq!(served, (200, true, Some("q")), "F{fault} {index}: {}", start(replaced));
        }
    }
}

/// Audio comes while it is made: the client has the first bytes before the provider has the last.
#[test]
fn bytes_pass_as_they_come() {
    let gate = testkit::Gate::new();
    let permits = gate.clone();
    let upstream = Upstream::start(move |conn, _| {
        conn.write("HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        for _ in 0..3 {
            conn.pass(&permits)?;
            conn.write_chunk([7; 1000])?;
        }
        conn.write("0\r\n\r\n")
    });
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nupstreams: {{u: {{targets: [\"{}\"]}}}}\nproviders: {{p: {{api: openai, upstream: u}}}}\n\
         models: {{say: {{candidates: [{{provider: p, model: real}}]}}}}\nroutes: [{{match: {{path: /v1/*}}, ai: {{}}}}]\n",
        upstream.url()
    );
    let weir = Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start();
    let mut client = weir.connect();
    client.set_deadline(DEADLINE);
    client.request("POST", SPEECH, &[("Host", "a")], "{\"model\":\"say\",\"input\":\"x\"}");
    gate.release();
    assert_eq!(client.read_head().status(), 200);
    // The provider has not sent the rest yet.
    assert_eq!(client.read_piece().map(|piece| piece.data.len()), Some(1000));
    gate.open();
    assert_eq!(client.read_body().len(), 2000);
}

/// Keys for some models, and limits of requests, hold for forms as for other calls; so does the default model.
#[test]
fn keys_and_limits_hold() {
    let provider = Provider::start();
    let builder = Weir::builder(env!("CARGO_BIN_EXE_weir"));
    let file_name = builder.dir().join("keys.yaml").display().to_string();
    let create = |name: &str, model: &str| {
        let args = ["keys", "create", name, "--file", &file_name, "--model", model];
        Weir::builder(env!("CARGO_BIN_EXE_weir")).args(args).command().stdout.trim().to_owned()
    };
    let (small, large) = (create("small", "small"), create("large", "large"));
    let yaml = format!(
        "listen: 127.0.0.1:0\nworkers: 1\nauth: {{keys: {{api_key: {{in: [bearer], store: {{file: {file_name}}}}}}}}}\n\
         limits: {{six: {{algorithm: fixed_window, quota: 6, window: 1h, key: virtual_key}}}}\n\
         upstreams: {{sim: {{targets: [\"http://{}\"]}}}}\nproviders: {{p: {{api: openai, upstream: sim}}}}\n\
         models:\n  small: {{candidates: [{{provider: p, model: sim-small}}]}}\n  large: {{candidates: [{{provider: p, model: sim-large}}]}}\n\
         routes: [{{match: {{path: /v1/*}}, auth: keys, limits: [six], ai: {{default_model: small}}}}]\n",
        provider.address()
    );
    let weir = builder.config(yaml).start();
    let call = |key: &str, parts: &[String]| {
        let (kind, bearer) = (format!("multipart/form-data; boundary=\"{BOUNDARY}\""), format!("Bearer {key}"));
        let fields = [("Content-Type", &*kind), ("Authorization", &*bearer)];
        send(weir.addr(), "POST", FORMS[0], &fields, &whole(parts)).status
    };
    assert_eq!(call(&small, &[field("model", "small"), file(9)]), 200);
    assert_eq!(call(&small, &[field("model", "large"), file(9)]), 200, "the default");
    // The provider reads no other model than the one that the key may use.
    assert_eq!(call(&small, &[file(70_000), field("model", "large")]), 200);
    assert_eq!((provider.calls("sim-small"), provider.calls("sim-large")), (3, 0));
    assert_eq!(call(&large, &[field("model", "small"), file(9)]), 404);
    assert_eq!(call(&large, &[file(9)]), 400);
    assert_eq!(call(&large, &[field("model", "large"), file(9)]), 200);
    for _ in 0..3 {
        assert_eq!(call(&large, &[field("model", "large"), file(9)]), 200);
    }
    assert_eq!(call(&large, &[field("model", "large"), file(9)]), 429);
}

/// A client that disconnects in the middle ends the work of the provider.
#[test]
fn a_disconnect_in_the_middle_of_audio() {
    use std::io::{Read, Write};
    let provider = Provider::start();
    let weir = gateway(&provider, &["sim-size4096-gap20"], "", "");
    let body = json!({"model": "sim-size4096-gap20", "input": "x"}).to_string();
    let mut stream = std::net::TcpStream::connect(weir.addr()).unwrap();
    let head = format!("POST {SPEECH} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len());
    stream.write_all([head.as_bytes(), body.as_bytes()].concat().as_slice()).unwrap();
    assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
    drop(stream);
    wait::until(DEADLINE, "the provider sees that nobody waits", || provider.ledger()["cancelled"] == json!(1));
    wait::until(DEADLINE, "the call is logged", || lines(&weir).len() == 1);
    assert_eq!(lines(&weir)[0]["ai"]["end"], "client_disconnected");
}
