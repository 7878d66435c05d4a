//! What the profile `websocket` requires (RFC 6455): an upgrade passes and what is not one does not become one, and messages, pings and close frames pass as
//! they are.

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::{NotChecked, Probe, once};
use crate::demo::websocket::{CLOSE, DROP, GREETING, PING};
use crate::load::workload::Operation;
use crate::load::{Fetched, Incoming, Opening, Prepared, Socket};
use crate::websocket::{Kind, Opcode};

/// How long a frame may take. Longer is a gateway that holds it back.
const WAIT: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 5 });
/// A length of 64 bits begins here; and one byte more than a buffer of 64 KiB holds.
const LARGE: usize = 64 * 1024 + 1;

/// A frame to send.
type Frame<'f> = (bool, Opcode, &'f [u8]);

impl Probe {
    pub(super) fn websocket(&mut self) -> Result<(), NotChecked> {
        if !self.upgrades()? {
            // Nothing else can be said of a gateway that does not upgrade.
            return Ok(());
        }
        self.messages()?;
        self.pings()?;
        self.closes()?;
        self.without_an_upgrade()?;
        self.refused_upgrade()
    }

    /// The upgrade's fields reach the upstream, those of the 101 the client, and a message behind the 101 too.
    fn upgrades(&mut self) -> Result<bool, NotChecked> {
        let offered = ("Sec-WebSocket-Protocol", "gauge.v1, gauge.v2");
        let fields = [offered, ("X-Gauge-Metadata", "of the client"), (GREETING, "1")];
        let found = self.talk(&fields, |response, socket| {
            let chosen = response.header("sec-websocket-protocol").unwrap_or("absent").to_owned();
            Ok((chosen, receive(socket)))
        })?;
        let (chosen, greeting) = match found {
            Ok(found) => found,
            Err(found) => {
                self.require("an upgrade", "101, with the Sec-WebSocket-Accept of the key", Err(found));
                return Ok(false);
            }
        };
        let result = if chosen == "gauge.v2" { Ok(()) } else { Err(chosen) };
        self.require("the subprotocol", "gauge.v2, which the upstream selects of gauge.v1 and gauge.v2", result);
        let greeting = match greeting {
            Ok(Incoming::Message(Kind::Text, text)) => serde_json::from_slice::<Value>(&text).map_err(|_| shown(&text)),
            Ok(other) => Err(described(&other)),
            Err(error) => Err(error),
        };
        match greeting {
            Err(found) => self.require("a message behind the 101", "it arrives", Err(found)),
            Ok(seen) => {
                for (name, required) in
                    [offered, ("Sec-WebSocket-Version", "13"), ("X-Gauge-Metadata", "of the client")]
                {
                    let found = Self::field(&seen, name).unwrap_or("absent");
                    let same = |value: &str| value.replace(' ', "");
                    let result = if same(found) == same(required) { Ok(()) } else { Err(found.to_owned()) };
                    self.require(&format!("forwarded {name}"), required, result);
                }
            }
        }
        Ok(true)
    }

    /// Messages come back whole and unchanged, each before the next one is sent.
    fn messages(&mut self) -> Result<(), NotChecked> {
        let bytes: Vec<u8> = (0..LARGE).map(|at| (at * 7 % 256) as u8).collect();
        let text = "grüße, 你好 ".repeat(20).into_bytes();
        let half = text.len() / 2 + 1;
        for (what, kind, frames) in [
            ("a text", Kind::Text, &[(true, Opcode::Text, text.as_slice())][..]),
            ("a binary message", Kind::Binary, &[(true, Opcode::Binary, &bytes[..300])]),
            ("an empty message", Kind::Binary, &[(true, Opcode::Binary, b"".as_slice())]),
            ("a message of 64 KiB and a byte", Kind::Binary, &[(true, Opcode::Binary, bytes.as_slice())]),
            (
                "a text in fragments",
                Kind::Text,
                // The cut is in the middle of a character.
                &[
                    (false, Opcode::Text, &text[..half]),
                    (false, Opcode::Continuation, b"".as_slice()),
                    (true, Opcode::Continuation, &text[half..]),
                ],
            ),
        ] {
            let found = self.talk(&[], |_, socket| {
                // Twice: the second is sent only when the first has come back.
                for _ in 0..2 {
                    send(socket, frames)?;
                    let sent: Vec<u8> = frames.iter().flat_map(|(.., payload)| payload.iter().copied()).collect();
                    match receive(socket)? {
                        Incoming::Message(found, payload) if found == kind && payload == sent => {}
                        Incoming::Message(found, payload) if found == kind && payload.len() == sent.len() => {
                            return Err(format!("other bytes: {}", shown(&payload)));
                        }
                        other => return Err(described(&other)),
                    }
                }
                Ok(())
            })?;
            self.require(what, "it comes back unchanged, before the next one is sent", found);
        }
        Ok(())
    }

    /// Pings and pongs in both directions, one of them in the middle of a message.
    fn pings(&mut self) -> Result<(), NotChecked> {
        let found = self.talk(&[], |_, socket| {
            send(socket, &[(false, Opcode::Text, b"one "), (true, Opcode::Ping, b"of the client")])?;
            match receive(socket)? {
                Incoming::Pong(payload) if payload == b"of the client" => {}
                other => return Err(described(&other)),
            }
            send(socket, &[(true, Opcode::Continuation, b"message")])?;
            match receive(socket)? {
                Incoming::Message(Kind::Text, payload) if payload == b"one message" => Ok(()),
                other => Err(described(&other)),
            }
        })?;
        self.require("a ping of the client", "its pong in the middle of the message, then the message", found);
        let found = self.talk(&[(PING, "of the upstream")], |_, socket| {
            match receive(socket)? {
                Incoming::Ping(payload) if payload == b"of the upstream" => {}
                // A gateway may keep a connection alive in place of the client.
                Incoming::Message(Kind::Text, payload) if payload == b"pong: of the upstream" => return Ok(()),
                other => return Err(described(&other)),
            }
            send(socket, &[(true, Opcode::Pong, b"of the upstream")])?;
            match receive(socket)? {
                Incoming::Message(Kind::Text, payload) if payload == b"pong: of the upstream" => Ok(()),
                other => Err(described(&other)),
            }
        })?;
        self.require("a ping of the upstream", "its pong reaches the upstream", found);
        Ok(())
    }

    /// Close frames pass with code and reason, and so does the end of a connection without one.
    fn closes(&mut self) -> Result<(), NotChecked> {
        let found = self.talk(&[], |_, socket| {
            socket.close(4321, "of the client").map_err(said)?;
            match receive(socket)? {
                Incoming::Close(Some(4321), reason) if reason == "seen: 4321 of the client" => Ok(()),
                other => Err(described(&other)),
            }
        })?;
        self.require(
            "a close frame of the client",
            "code 4321 and reason reach the upstream, and its own the client",
            found,
        );
        let found = self.talk(&[(CLOSE, "4123 of the upstream")], |_, socket| {
            send(socket, &[(true, Opcode::Text, b"close")])?;
            match receive(socket)? {
                Incoming::Close(Some(4123), reason) if reason == "of the upstream" => {}
                other => return Err(described(&other)),
            }
            Ok(())
        })?;
        self.require("a close frame of the upstream", "code 4123 and reason reach the client", found);
        let found = self.talk(&[(DROP, "1")], |_, socket| {
            send(socket, &[(true, Opcode::Text, b"end")])?;
            match socket.receive() {
                // Such an end has no close frame; one with 1006 must not be sent.
                Err(error) if error.kind() == io::ErrorKind::TimedOut => Err("the connection stays open".to_owned()),
                Err(_) | Ok(Incoming::Close(..)) => Ok(()),
                Ok(other) => Err(described(&other)),
            }
        })?;
        self.require("an upstream that disconnects", "the client's connection ends", found);
        Ok(())
    }

    /// A request with a key and without `Upgrade` is one of HTTP.
    fn without_an_upgrade(&mut self) -> Result<(), NotChecked> {
        let of_load = self.clients.clone();
        self.clients.websocket = None;
        let seen = self.passes("a request without Upgrade", &[("X-Gauge-Metadata", Some("plain"))]);
        self.clients = of_load;
        if let Some(seen) = seen? {
            let found = Self::field(&seen, "Upgrade").filter(|value| !value.is_empty());
            let result = found.map_or(Ok(()), |found| Err(format!("Upgrade: {found} at the upstream")));
            self.require("a request without Upgrade", "a request of HTTP for the upstream", result);
        }
        Ok(())
    }

    /// The upstream's refusal is the client's.
    fn refused_upgrade(&mut self) -> Result<(), NotChecked> {
        let mut operation =
            self.upgrade(&[("X-Probe-Status", "403"), ("X-Probe-Headers", "X-Gauge-Refusal: of the upstream")]);
        operation.base = Some(self.clients.base(self.gateway));
        let found = match once(operation, &self.clients)? {
            Err(error) => Err(format!("no response: {error}")),
            Ok(response) if response.status != 403 => Err(format!("status {}", response.status)),
            Ok(response) if response.header("x-gauge-refusal") != Some("of the upstream") => {
                Err("another response with 403".to_owned())
            }
            Ok(response) if serde_json::from_slice::<Value>(&response.body).is_err() => {
                Err(format!("the body {}", shown(&response.body)))
            }
            Ok(_) => Ok(()),
        };
        self.require("an upgrade that the upstream refuses", "its 403, with fields and body", found);
        Ok(())
    }

    /// The operation with these fields.
    fn upgrade(&self, fields: &[(&str, &str)]) -> Operation {
        let mut operation = self.operation.clone();
        for (name, value) in fields {
            operation.headers.retain(|own, _| !own.eq_ignore_ascii_case(name));
            operation.headers.insert((*name).to_owned(), (*value).to_owned());
        }
        operation
    }

    /// A connection of its own to the gateway, on which something is tried. The inner error is what was found instead of what is required.
    fn talk<T>(
        &self,
        fields: &[(&str, &str)],
        work: impl FnOnce(&Fetched, &mut Socket<'_>) -> Result<T, String>,
    ) -> Result<Result<T, String>, NotChecked> {
        let mut operation = self.upgrade(fields);
        operation.base = Some(self.clients.base(self.gateway));
        let workload = self.clients.single(super::one_value(operation), WAIT);
        let prepared = Prepared::new(&workload).map_err(|error| error.to_string())?;
        Ok(match prepared.upgrade() {
            Err(error) => Err(format!("no connection: {error}")),
            Ok(Opening::Refused(response)) => Err(format!("status {}", response.status)),
            Ok(Opening::Open(response, mut socket)) => work(&response, &mut socket),
        })
    }
}

fn said(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut => format!("nothing within {} s", WAIT.as_secs()),
        _ => error.to_string(),
    }
}

fn send(socket: &mut Socket<'_>, frames: &[Frame<'_>]) -> Result<(), String> {
    frames.iter().try_for_each(|(is_last, opcode, payload)| socket.send(*is_last, *opcode, payload)).map_err(said)
}

fn receive(socket: &mut Socket<'_>) -> Result<Incoming, String> {
    socket.receive().map_err(said)
}

fn shown(bytes: &[u8]) -> String {
    let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
    if bytes.len() > 60 { format!("`{begin}...`, {} bytes", bytes.len()) } else { format!("`{begin}`") }
}

/// What came instead, in words.
fn described(incoming: &Incoming) -> String {
    match incoming {
        Incoming::Message(Kind::Text, payload) => format!("a text of {} bytes: {}", payload.len(), shown(payload)),
        Incoming::Message(Kind::Binary, payload) => format!("a binary message of {} bytes", payload.len()),
        Incoming::Ping(payload) => format!("a ping with {}", shown(payload)),
        Incoming::Pong(payload) => format!("a pong with {}", shown(payload)),
        Incoming::Close(code, reason) => {
            let code = code.map_or("no code".to_owned(), |code| format!("code {code}"));
            format!("a close frame with {code} and reason `{reason}`")
        }
    }
}

#[cfg(test)]
mod tests;
