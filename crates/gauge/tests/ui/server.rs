//! The program, and requests to it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tempfile::TempDir;
use testkit::{Process, Signal};

pub(crate) struct Ui {
    pub(crate) address: String,
    pub(crate) folder: TempDir,
    process: Process,
}

pub(crate) struct Received {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Received {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let own = |line: &&str| line.split_once(':').is_some_and(|(known, _)| known.eq_ignore_ascii_case(name));
        self.head.lines().find(own).and_then(|line| line.split_once(": ")).map(|(_, value)| value)
    }
}

impl Ui {
    pub(crate) fn start(store: &str, environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut builder = Process::builder(env!("CARGO_BIN_EXE_gauge"))
            .args(["ui", "--listen", "127.0.0.1:0", "--store", store, "--folder"])
            .arg(folder.path());
        for (name, value) in environment {
            builder = builder.env(name, value);
        }
        let process = builder.start();
        let address = process.wait_for_line("its address", |line| {
            let rest = line.strip_prefix("gauge ui on http://")?;
            Some(rest.trim_end_matches('/').to_owned())
        });
        Ui { address, folder, process }
    }

    /// A request as these bytes say; the connection is closed after it.
    pub(crate) fn raw(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &[u8]) -> Received {
        let mut stream = TcpStream::connect(&self.address).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut request =
            format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        if !fields.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in fields {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        // A refusal may come before all of it was sent.
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.write_all(body));
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let text = String::from_utf8_lossy(&all).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        Received { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Received {
        self.raw("GET", path, &[], b"")
    }

    /// The secret of forms.
    pub(crate) fn csrf(&self) -> String {
        let page = self.get("/new").body;
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").expect("a form with its secret");
        rest.split('"').next().unwrap_or_default().to_owned()
    }

    /// Sends a form; the names and values need no encoding, but for what is encoded here.
    pub(crate) fn post(&self, path: &str, fields: &[(&str, &str)]) -> Received {
        let encode = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", encode(value))).collect();
        let kind = [("Content-Type", "application/x-www-form-urlencoded")];
        self.raw("POST", path, &kind, body.join("&").as_bytes())
    }

    /// Uploads a description.
    pub(crate) fn upload(&self, name: &str, description: &str) -> Received {
        let part = |name: &str, more: &str, content: &str| {
            format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n{content}\r\n")
        };
        let body = part("csrf", "", &self.csrf())
            + &part("name", "", name)
            + &part("file", "; filename=\"../../api.yaml\"", description)
            + "--XX--\r\n";
        self.raw("POST", "/new", &[("Content-Type", "multipart/form-data; boundary=XX")], body.as_bytes())
    }

    pub(crate) fn interrupt(&self) -> std::process::ExitStatus {
        self.process.signal(Signal::INT);
        self.process.wait_for_exit(Duration::from_secs(60))
    }
}
