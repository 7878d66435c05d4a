//! What each profile requires of a gateway, request by request.

use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use super::{NotChecked, Probe, once};
use crate::load::Fetched;
use crate::load::workload::Body;
use crate::profile::token::{claims, unsigned};
use crate::profile::{
    CONSUMER, Clients, Headers, Jwt, KeyAuth, REQUEST_REMOVED, REQUEST_SET, RESPONSE_REMOVED, RESPONSE_SET, RateLimit,
    SET, key,
};

/// What refuses a client that shows nothing, or nothing valid.
const REFUSED: &[u16] = &[401, 403];
/// A credential that has no proper form may also be a bad request.
const MALFORMED: &[u16] = &[400, 401, 403];
/// Fields of a request that tell the upstream what to do.
pub(super) const DO_HEADERS: &str = "X-Probe-Headers";
/// A large body: 24 MiB.
const LARGE: usize = 24 << 20;

impl Probe {
    pub(super) fn key_auth(&mut self, auth: &KeyAuth) -> Result<(), NotChecked> {
        let header = auth.header.as_str();
        self.refused("no key", REFUSED, &[(header, None)])?;
        self.refused("unknown key", REFUSED, &[(header, Some("gauge-profile-key-999999"))])?;
        self.refused("empty key", MALFORMED, &[(header, Some(""))])?;
        let all: Vec<(String, String)> = auth.credentials().collect();
        if let Some((key, _)) = all.first() {
            self.refused("a known key with more behind it", REFUSED, &[(header, Some(&format!("{key}x")))])?;
            self.refused("a known key in upper case", REFUSED, &[(header, Some(&key.to_ascii_uppercase()))])?;
        }
        // The first and the last, so that a list that was cut short is seen.
        for (key, consumer) in [all.first(), all.last()].into_iter().flatten() {
            self.consumer("known key", consumer, &[(header, Some(key)), (CONSUMER, Some("forged"))], header)?;
        }
        Ok(())
    }

    /// Whose the upstream takes a request to be.
    fn consumer(
        &mut self,
        what: &str,
        consumer: &str,
        fields: &[(&str, Option<&str>)],
        hidden: &str,
    ) -> Result<(), NotChecked> {
        let Some(seen) = self.passes(what, fields)? else { return Ok(()) };
        self.reaches(&seen, CONSUMER, Some(consumer));
        self.reaches(&seen, hidden, None);
        Ok(())
    }

    /// A field as it has to reach the upstream; `None`: not at all.
    fn reaches(&mut self, seen: &Value, name: &str, required: Option<&str>) {
        let found = Self::field(seen, name).filter(|value| required.is_some() || !value.is_empty());
        let found = if found == required { Ok(()) } else { Err(found.unwrap_or("absent").to_owned()) };
        self.require(&format!("forwarded {name}"), required.unwrap_or("absent"), found);
    }

    pub(super) fn headers(&mut self, headers: &Headers) -> Result<(), NotChecked> {
        let mut direct = self.operation.clone();
        direct.base = Some(format!("http://{}", self.upstream));
        let plain = direct.path.strip_prefix(headers.prefix.as_str()).unwrap_or(&direct.path).to_owned();
        direct.path.clone_from(&plain);
        let target = |response: &Fetched| {
            serde_json::from_slice::<Value>(&response.body).ok().map(|seen| seen["target"].clone())
        };
        let wanted = once(direct, &Clients::default())?
            .ok()
            .as_ref()
            .and_then(target)
            .ok_or("the upstream of the check said nothing")?;
        let upstreams = format!("{RESPONSE_SET}: upstream | {RESPONSE_REMOVED}: secret");
        let fields =
            [(REQUEST_SET, Some("client")), (REQUEST_REMOVED, Some("secret")), (DO_HEADERS, Some(upstreams.as_str()))];
        match self.send(&fields)? {
            Ok(response) if response.status == 200 => {
                let seen: Value = serde_json::from_slice(&response.body).unwrap_or_default();
                let found = if seen["target"] == wanted { Ok(()) } else { Err(seen["target"].to_string()) };
                self.require("path at the upstream", &wanted.to_string(), found);
                self.reaches(&seen, REQUEST_SET, Some(SET));
                self.reaches(&seen, REQUEST_REMOVED, None);
                for (name, required) in [(RESPONSE_SET, vec![SET]), (RESPONSE_REMOVED, Vec::new())] {
                    let own = |(known, _): &&(String, String)| known.eq_ignore_ascii_case(name);
                    let found: Vec<&str> =
                        response.headers.iter().filter(own).map(|(_, value)| value.as_str()).collect();
                    let result = if found == required { Ok(()) } else { Err(found.join(", ")) };
                    self.require(&format!("response {name}"), &required.join(", "), result);
                }
            }
            Ok(response) => {
                self.require("path with the prefix", "status 200", Err(format!("status {}", response.status)));
            }
            Err(error) => self.require("path with the prefix", "status 200", Err(format!("no response: {error}"))),
        }
        let with = std::mem::replace(&mut self.operation.path, plain);
        let refused = self.refused("path without the prefix", &[404], &[]);
        self.operation.path = with;
        refused
    }

    pub(super) fn rate_limit(&mut self, limit: &RateLimit) -> Result<(), NotChecked> {
        let header = limit.header.as_str();
        // Clients of the check, not of the load: their counts are new.
        let (first, second) = (key(900_001), key(900_002));
        for n in 0..limit.burst.min(limit.rate).div_ceil(2) {
            if self
                .passes(&format!("request {} of a client within its limit", n + 1), &[(header, Some(&first))])?
                .is_none()
            {
                return Ok(());
            }
        }
        // Faster than tokens come back, or the machine could not try the limit.
        let (begun, before) = (Instant::now(), self.seen()?);
        let (mut refused, mut others) = (0, Vec::new());
        let most = 4 * (limit.burst + limit.rate);
        for _ in 0..most {
            match self.send(&[(header, Some(&first))])? {
                Ok(response) if response.status == 429 => refused += 1,
                Ok(response) if response.status == 200 => {}
                Ok(response) => others.push(format!("status {}", response.status)),
                Err(error) => others.push(format!("no response: {error}")),
            }
            if refused >= 10 || !others.is_empty() {
                break;
            }
        }
        let passed = self.seen()? - before;
        let allowed = f64::from(limit.burst) + f64::from(limit.rate) * begun.elapsed().as_secs_f64();
        let found = others.pop().map_or(Ok(()), Err);
        self.require("a client above its limit", "status 200 or 429", found);
        // With less than one request in two above the limit nothing was tried.
        if refused == 0 && f64::from(most) < 2.0 * allowed {
            return Err(format!(
                "{most} requests took {:.1} s: too slow to be above the limit",
                begun.elapsed().as_secs_f64()
            ));
        }
        let found = match refused {
            0 => Err(format!("{most} requests passed")),
            // Fixed windows may let twice as much pass where two of them meet.
            _ if passed as f64 > 2.0 * allowed + 2.0 => Err(format!("{passed} requests reached the upstream")),
            _ => Ok(()),
        };
        self.require("a client above its limit", &format!("429, and about {allowed:.0} requests pass"), found);
        self.passes("another client meanwhile", &[(header, Some(&second))])?;
        Ok(())
    }

    /// Two requests in a row: whether the second got its own response of the upstream, and what the two were.
    fn twice(
        &mut self,
        what: &str,
        first: &[(&str, Option<&str>)],
        second: &[(&str, Option<&str>)],
    ) -> Result<Option<(bool, Value, Value)>, NotChecked> {
        let query = format!("gauge={}", what.replace(' ', "-"));
        let (mut bodies, mut seen) = (Vec::new(), Vec::new());
        for fields in [first, second] {
            let response = self.send_to(&query, fields)?;
            seen.push(self.seen()?);
            match response {
                Ok(response) if response.status == 200 => {
                    bodies.push(serde_json::from_slice::<Value>(&response.body).unwrap_or_default());
                }
                Ok(response) => self.require(what, "status 200", Err(format!("status {}", response.status))),
                Err(error) => self.require(what, "status 200", Err(format!("no response: {error}"))),
            }
        }
        let (Some(second), Some(first)) = (bodies.pop(), bodies.pop()) else { return Ok(None) };
        Ok(Some((seen[1] > seen[0], first, second)))
    }

    /// What RFC 9111 forbids a shared cache, and the one thing that it is for.
    pub(super) fn cache(&mut self) -> Result<(), NotChecked> {
        let fresh = "Cache-Control: max-age=600";
        let plain = [(DO_HEADERS, Some(fresh))];
        if let Some((fetched, first, second)) = self.twice("a fresh response", &plain, &plain)? {
            let found =
                if fetched || first != second { Err("a second request to the upstream".to_owned()) } else { Ok(()) };
            self.require("a fresh response", "it is used again", found);
        }
        let no_store = [(DO_HEADERS, Some("Cache-Control: no-store"))];
        let private = [(DO_HEADERS, Some("Cache-Control: private, max-age=600"))];
        let mine = [(DO_HEADERS, Some(fresh)), ("Authorization", Some("Bearer one"))];
        let own = [(DO_HEADERS, Some(fresh)), ("Authorization", Some("Bearer two"))];
        let varies = "Cache-Control: max-age=600 | Vary: X-Gauge-Variant";
        let a = [(DO_HEADERS, Some(varies)), ("X-Gauge-Variant", Some("a"))];
        let b = [(DO_HEADERS, Some(varies)), ("X-Gauge-Variant", Some("b"))];
        for (what, first, second) in [
            ("a response with no-store", &no_store[..], &no_store[..]),
            ("a response with private", &private, &private),
            ("a request with Authorization", &mine, &own),
            ("a request with Authorization and one without", &mine, &plain),
            ("another variant by Vary", &a, &b),
        ] {
            if let Some((false, ..)) = self.twice(what, first, second)? {
                self.require(what, "a request to the upstream", Err("a stored response".to_owned()));
            }
        }
        // A response of one second, two seconds later.
        let short = [(DO_HEADERS, Some("Cache-Control: max-age=1"))];
        let query = "gauge=short";
        let _ = self.send_to(query, &short)?;
        std::thread::sleep(Duration::from_millis(2100));
        let before = self.seen()?;
        let response = self.send_to(query, &short)?;
        let again = self.seen()? > before;
        if response.is_ok_and(|response| response.status == 200) && !again {
            self.require("a response that is stale", "a request to the upstream", Err("a stored response".to_owned()));
        }
        Ok(())
    }

    pub(super) fn jwt(&mut self, jwt: Jwt) -> Result<(), NotChecked> {
        let bearer = |token: &str| format!("Bearer {token}");
        let with = |name: &str, value: Value| {
            let mut claims = claims(&Jwt::subject(1));
            claims[name] = value;
            bearer(&jwt.token(&claims))
        };
        let good = jwt.token(&claims(&Jwt::subject(1)));
        let (body, signature) = good.rsplit_once('.').unwrap_or_default();
        let forged = unsigned(&json!({"alg": jwt.algorithm.name(), "typ": "JWT"}), &claims("somebody"));
        let none = unsigned(&json!({"alg": "none", "typ": "JWT"}), &claims("somebody"));
        self.refused("no token", REFUSED, &[("Authorization", None)])?;
        for (what, statuses, value) in [
            ("no token behind Bearer", MALFORMED, "Bearer".to_owned()),
            ("a value that is not a valid token", MALFORMED, bearer("gauge")),
            ("other claims with the signature of a token", REFUSED, bearer(&format!("{forged}.{signature}"))),
            ("a token without its signature", MALFORMED, bearer(&format!("{body}."))),
            ("algorithm none", MALFORMED, bearer(&format!("{none}."))),
            ("an expired token", REFUSED, with("exp", json!(1_000_000_000))),
            ("a token of another issuer", REFUSED, with("iss", json!("https://other.example/"))),
            ("a token for another audience", REFUSED, with("aud", json!("other"))),
        ] {
            self.refused(what, statuses, &[("Authorization", Some(&value))])?;
        }
        let fields = [("Authorization", Some(bearer(&good))), (CONSUMER, Some("forged".to_owned()))];
        let fields = fields.each_ref().map(|(name, value)| (*name, value.as_deref()));
        self.consumer("a valid token", &Jwt::subject(1), &fields, "Authorization")
    }

    pub(super) fn streams(&mut self) -> Result<(), NotChecked> {
        const EVENTS: usize = 6;
        let expected: String = (1..=EVENTS).map(|n| format!("id: {n}\ndata: event {n}\n\n")).collect();
        let mut found = Ok(());
        // A machine that is busy may deliver events late and together: once in three is enough.
        for _ in 0..3 {
            found = match self.send(&[("X-Probe-Events", Some("6 150"))])? {
                Err(error) => Err(format!("no response: {error}")),
                Ok(response) if response.body != expected.as_bytes() => {
                    let received = String::from_utf8_lossy(&response.body).matches("data:").count();
                    Err(format!("status {}, {received} of {EVENTS} events", response.status))
                }
                Ok(response) if response.arrived.len() < EVENTS => {
                    let first = response.arrived.first().map_or(0, |(time, _)| time.as_millis());
                    Err(format!("{EVENTS} events in {} pieces, the first after {first} ms", response.arrived.len()))
                }
                Ok(_) => Ok(()),
            };
            if found.is_ok() {
                break;
            }
        }
        self.require("an event stream", "6 events, one every 150 ms, each as it comes", found);
        Ok(())
    }

    /// A request passes, and bodies that are larger than any window.
    pub(super) fn http2(&mut self) -> Result<(), NotChecked> {
        if let Some(seen) = self.passes("a request over HTTP/2", &[])? {
            let found = seen["method"].as_str().unwrap_or_default().to_owned();
            let wanted = self.operation.method.clone();
            let result = if found == wanted { Ok(()) } else { Err(found) };
            self.require("method at the upstream", &wanted, result);
        }
        self.large_bodies()
    }

    pub(super) fn large_bodies(&mut self) -> Result<(), NotChecked> {
        let size = LARGE.to_string();
        let found = match self.send(&[("X-Probe-Bytes", Some(&size))])? {
            Err(error) => Err(format!("no response: {error}")),
            Ok(response) if response.body.len() == LARGE && response.body.iter().all(|byte| *byte == b'x') => Ok(()),
            Ok(response) => Err(format!("status {}, {} bytes", response.status, response.body.len())),
        };
        self.require("a response of 24 MiB", "all of it", found);
        let Some(mut upload) = self.upload.clone() else { return Ok(()) };
        upload.body = Some(Body::Base64(BASE64_STANDARD.encode(vec![b'x'; LARGE])));
        upload.base = Some(self.clients.base(self.gateway));
        let found = match once(upload, &self.clients)? {
            Err(error) => Err(format!("no response: {error}")),
            Ok(response) => match serde_json::from_slice::<Value>(&response.body).unwrap_or_default()["bytes"].as_u64()
            {
                Some(bytes) if bytes == LARGE as u64 => Ok(()),
                bytes => Err(format!("status {}, {} bytes", response.status, bytes.unwrap_or(0))),
            },
        };
        self.require("a request of 24 MiB", "all of it reaches the upstream", found);
        Ok(())
    }
}
