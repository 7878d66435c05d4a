//! `weir probe`: a health check for images that have no shell and no HTTP client.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use h1::encode;

#[derive(Args)]
pub(super) struct Probe {
    /// URL to send a GET to [default: http://127.0.0.1:$HEALTH_PORT/healthz, port 9901 where it is not set].
    url: Option<String>,
    /// Seconds to wait for the connection and for each read.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    timeout: u64,
}

impl Probe {
    pub(super) fn run(self) -> ExitCode {
        let port = || std::env::var("HEALTH_PORT").unwrap_or_else(|_| "9901".to_owned());
        let url = self.url.unwrap_or_else(|| format!("http://127.0.0.1:{}/healthz", port()));
        match status(&url, Duration::from_secs(self.timeout)) {
            Ok(200..=299) => ExitCode::SUCCESS,
            Ok(status) => refuse(&url, &format!("status {status}")),
            Err(why) => refuse(&url, &why),
        }
    }
}

fn refuse(url: &str, why: &str) -> ExitCode {
    eprintln!("weir: {url}: {why}");
    ExitCode::FAILURE
}

/// Status of the response to a GET.
fn status(url: &str, timeout: Duration) -> Result<u16, String> {
    let rest = url.strip_prefix("http://").ok_or("invalid URL; expected http://HOST:PORT/PATH")?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let with_port = if authority.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        authority.to_owned()
    } else {
        format!("{authority}:80")
    };
    let address = with_port.to_socket_addrs().map_err(|error| error.to_string())?.next().ok_or("no address")?;
    let mut stream = TcpStream::connect_timeout(&address, timeout).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(timeout)).map_err(|error| error.to_string())?;
    let mut request = Vec::new();
    encode::begin_request_line(&mut request, b"GET");
    request.extend_from_slice(format!("/{path}").as_bytes());
    encode::end_request_line(&mut request, authority.as_bytes());
    encode::connection_close(&mut request);
    encode::end_head(&mut request);
    stream.write_all(&request).map_err(|error| error.to_string())?;
    // "HTTP/1.1 200"
    let mut line = [0; 12];
    stream.read_exact(&mut line).map_err(|error| format!("no status line: {error}"))?;
    let text = std::str::from_utf8(&line).ok().and_then(|line| line.strip_prefix("HTTP/1."));
    text.and_then(|text| text[2..].parse().ok()).ok_or_else(|| "not a response of HTTP/1".to_owned())
}
