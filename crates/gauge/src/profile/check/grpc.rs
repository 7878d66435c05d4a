//! What the profile `grpc` requires (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md): status, message, deadline and metadata pass.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::Value;

use super::cases::DO_HEADERS;
use super::{NotChecked, Probe};
use crate::demo::grpc::{DO_STATUS, DO_TRAILERS, DO_TRAILERS_ONLY, frame};
use crate::load::Fetched;
use crate::load::workload::Body;

/// What fits into the largest message that clients take by default, 4 MiB.
const LARGE: usize = 3 << 20;
/// The deadline of a call, and its milliseconds.
const DEADLINE: (&str, f64) = ("7000m", 7000.0);

impl Probe {
    pub(super) fn grpc(&mut self) -> Result<(), NotChecked> {
        // The upstream of the check takes any message, and says what reached it in JSON: not what a method returns.
        let operation = &mut self.operation;
        operation.grpc = None;
        operation.method = "POST".to_owned();
        operation.headers.clear();
        for (name, value) in [("content-type", "application/grpc"), ("te", "trailers")] {
            operation.headers.insert(name.to_owned(), value.to_owned());
        }
        self.message(b"any message");
        let binary = BASE64_STANDARD.encode([0, 1, 254, 255]);
        let binary = binary.trim_end_matches('=');
        let fields = [
            ("grpc-timeout", Some(DEADLINE.0)),
            ("x-gauge-metadata", Some("of the client")),
            ("x-gauge-data-bin", Some(binary)),
            (DO_HEADERS, Some("x-gauge-initial: of the head")),
            (DO_TRAILERS, Some("x-gauge-trailing: of the trailers")),
        ];
        if let Some((response, message)) = self.called("a call", &fields, "0")? {
            let seen: Value = serde_json::from_slice(&message).unwrap_or_default();
            let found = if seen["bytes"] == b"any message".len() { Ok(()) } else { Err(seen.to_string()) };
            self.require("the message of a call", "it reaches the upstream, and its response the client", found);
            for (name, required) in [
                ("content-type", "application/grpc"),
                ("te", "trailers"),
                ("x-gauge-metadata", "of the client"),
                ("x-gauge-data-bin", binary),
            ] {
                let found = Self::field(&seen, name);
                let found = if found == Some(required) { Ok(()) } else { Err(found.unwrap_or("absent").to_owned()) };
                self.require(&format!("forwarded {name}"), required, found);
            }
            // A gateway may pass on what is left of it.
            let found = Self::field(&seen, "grpc-timeout");
            let left = found.and_then(milliseconds).filter(|left| *left > 0.0 && *left <= DEADLINE.1);
            let found = left.map(|_| ()).ok_or_else(|| found.unwrap_or("absent").to_owned());
            self.require("forwarded grpc-timeout", &format!("{}, or what is left of it", DEADLINE.0), found);
            for (name, required) in [
                ("x-gauge-initial", "of the head"),
                ("x-gauge-trailing", "of the trailers"),
                ("content-type", "application/grpc"),
            ] {
                self.responds_with(&response, name, &[required]);
            }
        }
        let failed = [(DO_STATUS, Some("5 no such%20item"))];
        if let Some((response, _)) = self.called("a status in trailers", &failed, "5")? {
            self.responds_with(&response, "grpc-message", &["no such%20item"]);
        }
        let refused = [(DO_STATUS, Some("7 not%20yours")), (DO_TRAILERS_ONLY, Some("1"))];
        if let Some((response, _)) = self.called("a status without a message", &refused, "7")? {
            self.responds_with(&response, "grpc-message", &["not%20yours"]);
            let found = if response.body.is_empty() { Ok(()) } else { Err(format!("{} bytes", response.body.len())) };
            self.require("a status without a message", "no message", found);
        }
        let size = LARGE.to_string();
        if let Some((_, message)) = self.called("a response of 3 MiB", &[("X-Probe-Bytes", Some(&size))], "0")? {
            let found = if message.len() == LARGE { Ok(()) } else { Err(format!("{} bytes", message.len())) };
            self.require("a response of 3 MiB", "all of it", found);
        }
        self.message(&vec![b'x'; LARGE]);
        if let Some((_, message)) = self.called("a message of 3 MiB", &[], "0")? {
            let seen: Value = serde_json::from_slice(&message).unwrap_or_default();
            let found = if seen["bytes"] == LARGE { Ok(()) } else { Err(format!("{} bytes", seen["bytes"])) };
            self.require("a message of 3 MiB", "all of it reaches the upstream", found);
        }
        Ok(())
    }

    /// The message of the next calls.
    fn message(&mut self, message: &[u8]) {
        self.operation.body = Some(Body::Base64(BASE64_STANDARD.encode(frame(message))));
    }

    /// A call that has to end with this status of gRPC behind HTTP's 200; its response, and the message in it.
    fn called(
        &mut self,
        what: &str,
        fields: &[(&str, Option<&str>)],
        status: &str,
    ) -> Result<Option<(Fetched, Vec<u8>)>, NotChecked> {
        let found = match self.send(fields)? {
            Err(error) => Err(format!("no response: {error}")),
            Ok(response) if response.status != 200 => Err(format!("HTTP status {}", response.status)),
            Ok(response) => Ok(response),
        };
        match found {
            Err(found) => {
                self.require(what, &format!("grpc-status {status}"), Err(found));
                Ok(None)
            }
            Ok(response) => {
                let name = if status == "0" { "grpc-status".to_owned() } else { format!("grpc-status of {what}") };
                self.responds_with_as(&name, &response, "grpc-status", &[status]);
                let message = response.body.get(5..).unwrap_or_default().to_vec();
                Ok(Some((response, message)))
            }
        }
    }

    /// A field of the response, of its head or of its trailers.
    fn responds_with(&mut self, response: &Fetched, name: &str, required: &[&str]) {
        self.responds_with_as(&format!("response {name}"), response, name, required);
    }

    fn responds_with_as(&mut self, what: &str, response: &Fetched, name: &str, required: &[&str]) {
        let found: Vec<&str> =
            response.headers.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str()).collect();
        let result = if found == required { Ok(()) } else { Err(found.join(", ")) };
        self.require(
            what,
            &required.join(", "),
            result.map_err(|found| if found.is_empty() { "absent".to_owned() } else { found }),
        );
    }
}

/// A deadline: digits and a unit.
fn milliseconds(text: &str) -> Option<f64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: f64 = number.parse::<u32>().ok()?.into();
    let in_one = match unit {
        "H" => 3_600_000.0,
        "M" => 60_000.0,
        "S" => 1000.0,
        "m" => 1.0,
        "u" => 1e-3,
        "n" => 1e-6,
        _ => return None,
    };
    Some(number * in_one)
}
