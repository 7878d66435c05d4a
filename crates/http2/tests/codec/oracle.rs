//! Both roles against the `h2` crate over a pipe in memory: random bodies, windows and trailers.

use bytes::Bytes;
use http2::{Config, Connection, Event, Head};
use message::Known;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// Stream, body, bytes sent, whether trailers follow, what came back, whether the end was sent.
type Call = (u32, Vec<u8>, usize, bool, Vec<u8>, bool);

struct Echo {
    stream: u32,
    body: Vec<u8>,
    sent: usize,
    is_complete: bool,
    trailer: Option<Vec<u8>>,
}

/// An echo server on our codec: sends back body and trailer `x-sum`.
async fn serve(mut io: DuplexStream, config: Config) {
    let mut connection = Connection::server(config, 0);
    let (mut head, mut input, mut list) = (Head::default(), Vec::new(), Vec::<Echo>::new());
    loop {
        let mut at = 0;
        connection.begin_iteration();
        loop {
            let (used, event) = connection.decode(&input[at..], &mut head, 0).expect("h2 keeps the rules");
            match event {
                Event::NeedMore | Event::Flush | Event::Yield => {
                    at += used;
                    break;
                }
                Event::Request { stream, end } => {
                    assert_eq!(head.request.fields.verify(&head.text), Ok(()));
                    connection
                        .send_response(stream, 200, [(Known::Other, &b"X-Echo"[..], &b"1"[..])].into_iter(), false)
                        .expect("open");
                    list.push(Echo { stream, body: Vec::new(), sent: 0, is_complete: end, trailer: None });
                }
                Event::Data { stream, range, end } => {
                    let data = &input[at..][range];
                    let echo = list.iter_mut().find(|echo| echo.stream == stream).expect("open");
                    echo.body.extend_from_slice(data);
                    echo.is_complete = end;
                    connection.consume(stream, data.len());
                }
                Event::Trailers { stream } => {
                    let echo = list.iter_mut().find(|echo| echo.stream == stream).expect("open");
                    echo.trailer = head.trailers.get(b"x-sum", &head.text).map(<[u8]>::to_vec);
                    echo.is_complete = true;
                }
                Event::Reset { stream, .. } => {
                    list.retain(|echo| echo.stream != stream);
                    connection.release(stream);
                }
                _ => {}
            }
            at += used;
        }
        input.drain(..at);
        for echo in &mut list {
            loop {
                let rest = &echo.body[echo.sent..];
                let is_last = echo.is_complete && echo.trailer.is_none();
                if rest.is_empty() {
                    break;
                }
                let sent = connection.send_data(echo.stream, rest, is_last).expect("open");
                echo.sent += sent;
                if sent == 0 {
                    break;
                }
            }
            if echo.is_complete && echo.sent == echo.body.len() {
                match &echo.trailer {
                    Some(sum) => connection
                        .send_trailers(echo.stream, [(Known::Other, &b"x-sum"[..], &sum[..])].into_iter())
                        .expect("open"),
                    None if echo.body.is_empty() => drop(connection.send_data(echo.stream, b"", true)),
                    None => {
                        // The end may have come after the last byte was sent.
                        let _ = connection.send_data(echo.stream, b"", true);
                    }
                }
                connection.release(echo.stream);
                echo.stream = 0;
            }
        }
        list.retain(|echo| echo.stream != 0);
        let output = connection.output().to_vec();
        if !output.is_empty() {
            if io.write_all(&output).await.is_err() {
                return;
            }
            connection.advance(output.len());
            continue;
        }
        let mut buffer = [0; 5000];
        match io.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(length) => input.extend_from_slice(&buffer[..length]),
        }
    }
}

fn body(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = [0, 1, 100, 16_384, 16_385, 200_000][random.usize(..6)];
    std::iter::repeat_with(|| random.u8(..)).take(length).collect()
}

#[tokio::test]
async fn our_server_against_the_h2_client() {
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (own, other) = tokio::io::duplex(random.usize(100..70_000));
        let config = Config { stream_window: [1000, 65_536][random.usize(..2)], ..Config::default() };
        let server = tokio::spawn(serve(own, config));
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size([100, 65_535, 1 << 20][random.usize(..3)]);
        let (send, connection) = builder.handshake::<_, Bytes>(other).await.expect("handshake");
        let driver = tokio::spawn(connection);
        let mut running = Vec::new();
        for number in 0..20 {
            let (content, has_trailers, cancels) = (body(&mut random), random.bool(), random.u8(..8) == 0);
            let mut send = send.clone().ready().await.expect("open");
            let request =
                http::Request::post("https://a.example/p?q").header("x-n", number % 3).header("cookie", "a=1");
            let request = request.body(()).expect("valid");
            let (response, mut stream) = send.send_request(request, false).expect("open");
            running.push(tokio::spawn(async move {
                if cancels {
                    stream.send_reset(h2::Reason::CANCEL);
                    return;
                }
                let mut rest = Bytes::from(content.clone());
                let sender = async move {
                    while !rest.is_empty() {
                        stream.reserve_capacity(rest.len());
                        let capacity =
                            std::future::poll_fn(|cx| stream.poll_capacity(cx)).await.expect("open").expect("open");
                        let part = rest.split_to(capacity.min(rest.len()));
                        stream.send_data(part, false).expect("open");
                    }
                    if has_trailers {
                        let mut trailers = http::HeaderMap::new();
                        trailers.insert("x-sum", "7".parse().expect("valid"));
                        stream.send_trailers(trailers).expect("open");
                    } else {
                        stream.send_data(Bytes::new(), true).expect("open");
                    }
                };
                let receiver = async {
                    let response = response.await.expect("a response");
                    assert_eq!(response.status(), 200);
                    assert_eq!(response.headers()["x-echo"], "1");
                    let (mut body, mut got) = (response.into_body(), Vec::new());
                    while let Some(data) = body.data().await {
                        let data = data.expect("data");
                        got.extend_from_slice(&data);
                        body.flow_control().release_capacity(data.len()).expect("credit");
                    }
                    assert!(got == content, "{} of {}", got.len(), content.len());
                    let trailers = body.trailers().await.expect("trailers");
                    assert_eq!(trailers.is_some(), has_trailers);
                };
                tokio::join!(sender, receiver);
            }));
        }
        for task in running {
            task.await.expect("no assertion failed");
        }
        drop(send);
        driver.abort();
        server.abort();
    }
}

#[tokio::test]
async fn our_client_against_the_h2_server() {
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (own, other) = tokio::io::duplex(random.usize(100..70_000));
        let (mut from, mut to) = tokio::io::split(own);
        let window = [100, 65_535, 1 << 20][random.usize(..3)];
        let server = tokio::spawn(async move {
            let mut connection = h2::server::Builder::new()
                .initial_window_size(window)
                .handshake::<_, Bytes>(other)
                .await
                .expect("handshake");
            while let Some(request) = connection.accept().await {
                let (request, mut respond) = request.expect("our client keeps the rules");
                tokio::spawn(async move {
                    assert_eq!(request.uri().path(), "/p");
                    assert_eq!(request.headers()["x-n"], "1");
                    let mut send = respond.send_response(http::Response::new(()), false).expect("open");
                    let mut body = request.into_body();
                    while let Some(data) = body.data().await {
                        let mut data = data.expect("data");
                        body.flow_control().release_capacity(data.len()).expect("credit");
                        while !data.is_empty() {
                            send.reserve_capacity(data.len());
                            let capacity =
                                std::future::poll_fn(|cx| send.poll_capacity(cx)).await.expect("open").expect("open");
                            send.send_data(data.split_to(capacity.min(data.len())), false).expect("open");
                        }
                    }
                    match body.trailers().await.expect("trailers") {
                        Some(trailers) => send.send_trailers(trailers).expect("open"),
                        None => send.send_data(Bytes::new(), true).expect("open"),
                    }
                });
            }
        });
        let config = Config { stream_window: [1000, 65_536][random.usize(..2)], ..Config::default() };
        let mut connection = Connection::client(config, 0);
        let (mut head, mut input) = (Head::default(), Vec::new());
        let mut to_do: Vec<_> = (0..20).map(|_| (body(&mut random), random.bool())).collect();
        let mut running: Vec<Call> = Vec::new();
        let mut done = 0;
        while done < 20 {
            while connection.available_streams() > 0 {
                let Some((content, has_trailers)) = to_do.pop() else { break };
                let line = http2::RequestLine {
                    method: b"POST",
                    scheme: b"http",
                    authority: b"a.example",
                    path: b"/p",
                    protocol: None,
                };
                let fields = [(Known::Other, &b"X-N"[..], &b"1"[..]), (Known::Connection, b"connection", b"close")];
                let stream = connection.send_request(line, fields.into_iter(), false).expect("free");
                running.push((stream, content, 0, has_trailers, Vec::new(), false));
            }
            for (stream, content, sent, has_trailers, _, is_sent) in &mut running {
                while *sent < content.len() {
                    let length = connection.send_data(*stream, &content[*sent..], false).expect("open");
                    *sent += length;
                    if length == 0 {
                        break;
                    }
                }
                if *sent == content.len() && !*is_sent {
                    *is_sent = true;
                    if *has_trailers {
                        connection
                            .send_trailers(*stream, [(Known::Other, &b"x-sum"[..], &b"7"[..])].into_iter())
                            .expect("open");
                    } else {
                        connection.send_data(*stream, b"", true).expect("open");
                    }
                }
            }
            let output = connection.output().to_vec();
            let mut buffer = [0; 5000];
            tokio::select! {
                biased;
                length = from.read(&mut buffer) => {
                    let length = length.expect("open");
                    assert!(length > 0, "h2 closed");
                    input.extend_from_slice(&buffer[..length]);
                }
                length = to.write(&output), if !output.is_empty() => connection.advance(length.expect("open")),
            }
            let mut at = 0;
            loop {
                let (used, event) = connection.decode(&input[at..], &mut head, 0).expect("h2 keeps the rules");
                let mut ended = 0;
                match event {
                    Event::NeedMore | Event::Flush | Event::Yield => {
                        at += used;
                        break;
                    }
                    Event::Response { stream, end } => {
                        assert_eq!((head.response.status, end), (200, false), "{stream}");
                        assert_eq!(head.response.fields.verify(&head.text), Ok(()));
                    }
                    Event::Data { stream, range, end } => {
                        let data = &input[at..][range];
                        let entry = running.iter_mut().find(|entry| entry.0 == stream).expect("open");
                        entry.4.extend_from_slice(data);
                        connection.consume(stream, data.len());
                        ended = if end { stream } else { 0 };
                    }
                    Event::Trailers { stream } => {
                        assert_eq!(head.trailers.get(b"x-sum", &head.text), Some(&b"7"[..]));
                        ended = stream;
                    }
                    Event::Reset { .. } => panic!("{event:?}"),
                    _ => {}
                }
                if let Some(index) = running.iter().position(|entry| entry.0 == ended) {
                    let (stream, content, _, _, got, _) = running.swap_remove(index);
                    assert!(content == got, "{} of {}", got.len(), content.len());
                    connection.release(stream);
                    done += 1;
                }
                at += used;
            }
            input.drain(..at);
        }
        server.abort();
    }
}
