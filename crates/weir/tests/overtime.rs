//! Exchanges whose bytes never stop: a timeout of the whole, or of the first content, ends them all the same.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use testkit::{DEADLINE, Weir};

/// A chunk of one byte, many times.
fn tiny_chunks() -> Vec<u8> {
    b"1\r\nx\r\n".repeat(20_000)
}

fn large_chunk() -> Vec<u8> {
    [b"40000\r\n".as_slice(), &vec![b'x'; 0x40000], b"\r\n"].concat()
}

/// An upstream that never ends a response, and reads requests that never end. The path says which.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

fn serve(mut stream: TcpStream) {
    let mut head = [0; 65536];
    let read = stream.read(&mut head).unwrap_or(0);
    let head = String::from_utf8_lossy(&head[..read]).into_owned();
    if head.contains("/sink") {
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
        return;
    }
    let (kind, piece) = if head.contains("/v1/chat") {
        ("text/event-stream", b"data: {\"choices\": [], \"usage\": {\"completion_tokens\": 1}}\n\n".repeat(2_000))
    } else {
        ("text/plain", if head.contains("/tiny") { tiny_chunks() } else { large_chunk() })
    };
    let framing = if kind == "text/plain" { "Transfer-Encoding: chunked\r\n" } else { "" };
    let cache = if head.contains("/cached") { "Cache-Control: max-age=60\r\n" } else { "" };
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n{framing}{cache}\r\n");
    let mut sent = stream.write_all(head.as_bytes());
    while sent.is_ok() {
        sent = stream.write_all(&piece);
    }
}

fn gateway() -> Weir {
    let yaml = format!(
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nworkers: 1\naccess_log: {{path: stdout}}\n\
         caches: {{c: {{mode: http}}}}\n\
         upstreams: {{u: {{targets: [\"http://{}\"], timeouts: {{total: 400ms}}}}}}\n\
         providers: {{o: {{api: openai, upstream: u}}}}\n\
         models:\n  first: {{candidates: [{{provider: o, model: x}}], attempts: 1, timeouts: {{first_token: 400ms}}}}\n  \
         whole: {{candidates: [{{provider: o, model: x}}], attempts: 1, timeouts: {{first_token: 1h, total: 400ms}}}}\n\
         routes:\n  - {{match: {{path: /coded/*}}, upstream: u, compress: [gzip]}}\n  \
         - {{match: {{path: /cached/*}}, upstream: u, cache: c}}\n  \
         - {{match: {{path: /v1/*}}, ai: {{}}}}\n  - {{match: {{path: /*}}, upstream: u}}\n",
        upstream()
    );
    Weir::builder(env!("CARGO_BIN_EXE_weir")).config(yaml).start()
}

fn client(weir: &Weir) -> TcpStream {
    let stream = TcpStream::connect(weir.addr()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
}

/// Reads until the connection ends. An end that does not come is noticed by the bytes: no machine sends so many in so short a time.
fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let began = std::time::Instant::now();
    let (mut first, mut piece) = (Vec::new(), vec![0; 1 << 20]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return first,
            Ok(read) if first.len() < 4096 => first.extend_from_slice(&piece[..read]),
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return first,
            Err(error) => panic!("{error}"),
        }
        assert!(began.elapsed() < DEADLINE, "the response goes on: {}", String::from_utf8_lossy(&first[..200]));
    }
}

/// The reason in the access log of the request to this path.
fn logged(weir: &Weir, path: &str) -> String {
    let wanted = format!("\"{path}\"");
    weir.wait_for_line(path, |line| {
        line.contains(&wanted).then(|| {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            entry["reason"].as_str().unwrap_or_default().to_owned()
        })
    })
}

#[test]
fn a_response_that_never_pauses_ends_by_the_total_timeout() {
    let weir = gateway();
    let paths = ["/tiny", "/large", "/coded/tiny", "/coded/large", "/cached/tiny", "/cached/large"];
    for path in paths {
        let mut stream = client(&weir);
        stream
            .write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n").as_bytes())
            .unwrap();
        let response = read_to_end(&mut stream);
        assert!(response.starts_with(b"HTTP/1.1 200 "), "{path}");
        assert!(!response.ends_with(b"0\r\n\r\n"), "{path}: a cut response must not look complete");
    }
    for path in paths {
        // At this speed it depends on the machine which side keeps the other waiting.
        let reason = logged(&weir, path);
        assert!(["total_timeout", "client_disconnected"].contains(&&*reason), "{path}: {reason}");
    }
}

#[test]
fn an_upload_that_never_pauses_ends_by_the_total_timeout() {
    let weir = gateway();
    for (path, piece) in [("/sink/tiny", tiny_chunks()), ("/sink/large", large_chunk())] {
        let stream = client(&weir);
        let mut writer = stream.try_clone().unwrap();
        writer.set_write_timeout(Some(DEADLINE)).unwrap();
        writer
            .write_all(format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").as_bytes())
            .unwrap();
        let upload = std::thread::spawn(move || {
            let began = std::time::Instant::now();
            while began.elapsed() < DEADLINE {
                if writer.write_all(&piece).is_err() {
                    return true;
                }
            }
            let _ = writer.shutdown(Shutdown::Both);
            false
        });
        assert!(upload.join().unwrap(), "{path}: the upload goes on");
    }
    for path in ["/sink/tiny", "/sink/large"] {
        assert!(["total_timeout", "body_timeout"].contains(&&*logged(&weir, path)), "{path}");
    }
}

/// Events without content show that a provider lives. A client that waits for content waits no longer than it was told.
#[test]
fn events_without_content_put_no_deadline_of_a_model_off() {
    let weir = gateway();
    for model in ["first", "whole"] {
        let body = format!(
            "{{\"model\": \"{model}\", \"stream\": true, \"messages\": [{{\"role\": \"user\", \"content\": \"hi\"}}]}}"
        );
        let head = "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close";
        let mut stream = client(&weir);
        stream.write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
        let response = String::from_utf8(read_to_end(&mut stream)).unwrap();
        assert!(response.starts_with("HTTP/1.1 504 "), "{model}: {response}");
    }
}
