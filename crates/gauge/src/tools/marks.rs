//! The boundaries of a load whose script says where it is: its begin and its end reach this process as requests, which wait until whoever watches the load
//! says that it goes on.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// Longest line of a request.
const LONGEST: u64 = 8 << 10;

/// Says at which boundary of the load this is, and waits for a line: meanwhile whoever started this reads what processes have used. One that has gone
/// needs no waiting for.
pub fn hand_over(boundary: &str) {
    let mut out = io::stdout().lock();
    let said = writeln!(out, "{boundary}").and_then(|()| out.flush());
    if said.is_ok() {
        let _ = io::stdin().read_line(&mut String::new());
    }
}

/// Listens on a port of this machine, until the process ends; the URL to which a script sends `GET /begin` and `GET /end`.
pub(super) fn listen() -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("http://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // One that has ended needs no response.
            let _ = serve(&stream, hand_over);
        }
    });
    Ok(url)
}

fn serve(stream: &TcpStream, tell: impl Fn(&str)) -> io::Result<()> {
    let mut reader = BufReader::new(io::Read::take(stream, LONGEST));
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let boundary = match line.split(' ').nth(1) {
        Some("/begin") => "begin",
        Some("/end") => "end",
        _ => return respond(stream, "404 Not Found"),
    };
    while line.trim_end() != "" {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
    }
    tell(boundary);
    respond(stream, "204 No Content")
}

fn respond(mut stream: &TcpStream, status: &str) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\nConnection: close\r\n\r\n")
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::Mutex;

    use super::*;

    /// What a request is told, and which boundaries were handed over.
    fn sent(request: &str) -> (String, Vec<String>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        let (server, _) = listener.accept().expect("a connection");
        client.write_all(request.as_bytes()).expect("it is sent");
        client.shutdown(std::net::Shutdown::Write).expect("an end");
        let told = Mutex::new(Vec::new());
        let _ = serve(&server, |boundary| told.lock().expect("no panic").push(boundary.to_owned()));
        drop(server);
        let mut response = String::new();
        client.read_to_string(&mut response).expect("text");
        (response, told.into_inner().expect("no panic"))
    }

    #[test]
    fn a_script_says_where_it_is_and_waits() {
        let (response, told) = sent("GET /begin HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!((response.lines().next(), told), (Some("HTTP/1.1 204 No Content"), vec!["begin".to_owned()]));
        let (_, told) = sent("GET /end HTTP/1.1\r\n\r\n");
        assert_eq!(told, ["end"]);
    }

    #[test]
    fn what_is_no_boundary_is_handed_to_nobody() {
        for request in ["", "GET", "GET / HTTP/1.1\r\n\r\n", "GET /begin HTTP/1.1\r\nHost: x\r\n", "\r\n"] {
            let (_, told) = sent(request);
            assert!(told.is_empty(), "{request:?}: {told:?}");
        }
    }
}
