//! What must be true of every schedule, read from the bytes of both sides by the grammar.
//!
//! - Each request at an upstream is one that the client sent, whole, with one framing; the beginning of a request is the beginning of one that
//!   the client began. What is not idempotent arrives once.
//! - The client gets at most one response a request, each well-formed. One that passes for complete is the gateway's own, or a complete
//!   response of an upstream to this very request, sent after the upstream had seen the request.

use super::Outcome;
use super::oracle::{self, Message, Reading};
use super::sides::{Peer, Upstreams};

/// What the client sent.
struct Requests {
    whole: Vec<Message>,
    /// Method and target of what is not whole, if its head is.
    begun: Option<[Vec<u8>; 2]>,
    /// Something comes behind the whole ones.
    has_rest: bool,
}

/// A whole response of an upstream, with method and target of the request that it is for; both are empty where the upstream did not read it.
struct Given {
    method: Vec<u8>,
    target: Vec<u8>,
    response: Message,
}

pub(super) fn judge(client: &Peer, upstreams: &Upstreams) -> Result<Outcome, String> {
    let requests = requests(&client.sent);
    let mut forwarded = Vec::new();
    for connection in &upstreams.connections {
        forwarded.push(judge_upstream(&requests, connection)?);
    }
    judge_repetition(&requests, &forwarded)?;
    let mut given = Vec::new();
    for (connection, seen) in upstreams.connections.iter().zip(&forwarded) {
        responses_of(connection, seen, &mut given);
    }
    let responses = judge_client(client, &requests, &given)?;
    let forwarded = forwarded.iter().map(|seen| seen.whole.len() + usize::from(seen.begun.is_some())).sum();
    Ok(Outcome { responses, forwarded })
}

fn requests(sent: &[u8]) -> Requests {
    let mut whole = Vec::new();
    let mut rest = sent;
    while let Reading::Message(request) = oracle::request(rest) {
        rest = &rest[request.length..];
        whole.push(request);
    }
    Requests { whole, begun: begun(rest), has_rest: !rest.is_empty() }
}

/// Method and target of a message that has a sound head and no end.
fn begun(rest: &[u8]) -> Option<[Vec<u8>; 2]> {
    let end = rest.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    // A head that lacks nothing but its body, or begins one.
    let skipped = if rest.starts_with(b"\r\n") { 2 } else { 0 };
    match oracle::request(&rest[..end]) {
        Reading::Incomplete => {
            let line = rest[skipped..].split(|&byte| byte == b'\r').next()?;
            let mut words = line.split(|&byte| byte == b' ');
            Some([words.next()?.to_vec(), words.next()?.to_vec()])
        }
        _ => None,
    }
}

/// What one upstream connection was sent.
struct Seen {
    /// With the place where each begins.
    whole: Vec<(usize, Message)>,
    /// The same of the last one, of which no more came than this line.
    begun: Option<(usize, Vec<u8>)>,
}

fn judge_upstream(requests: &Requests, connection: &Peer) -> Result<Seen, String> {
    let mut seen = Seen { whole: Vec::new(), begun: None };
    let mut at = 0;
    while at < connection.received.len() {
        if switched(connection, &seen) {
            break;
        }
        let rest = &connection.received[at..];
        match oracle::request(rest) {
            Reading::Message(request) => {
                let framings = request.values("content-length").len() + request.values("transfer-encoding").len();
                let is_sent = requests.whole.iter().any(|sent| is_same(sent, &request));
                if !is_sent || framings > 1 {
                    return Err(format!("an upstream was sent what the client did not send: {request:?}"));
                }
                let length = request.length;
                seen.whole.push((at, request));
                at += length;
            }
            Reading::Incomplete => {
                let line = rest.split(|&byte| byte == b'\r').next().unwrap_or_default();
                let is_begun = |method: &[u8], target: &[u8]| {
                    let whole = [method, b" ", target, b" HTTP/1.1"].concat();
                    if line.len() < rest.len() { is_plain(target) && whole == line || !is_plain(target) } else { true }
                };
                let is_one = requests.whole.iter().any(|sent| is_begun(&sent.start[0], &sent.start[1]))
                    || requests.begun.as_ref().is_some_and(|[method, target]| is_begun(method, target));
                if !is_one {
                    return Err(format!("an upstream was sent the beginning of nothing: {}", rest.escape_ascii()));
                }
                seen.begun = Some((at, line.to_vec()));
                break;
            }
            Reading::Invalid(rule) => {
                return Err(format!("an upstream was sent what breaks {rule}: {}", rest.escape_ascii()));
            }
        }
    }
    Ok(seen)
}

/// Whether what follows on this connection is no HTTP any more.
fn switched(connection: &Peer, seen: &Seen) -> bool {
    let is_upgrade = seen.whole.last().is_some_and(|(_, request)| !request.values("upgrade").is_empty());
    is_upgrade && connection.sent.windows(12).any(|window| window == b"HTTP/1.1 101")
}

/// Whether the path is one that the gateway forwards as it is.
fn is_plain(target: &[u8]) -> bool {
    target.starts_with(b"/") && !target.iter().any(|byte| b"%.?\\;".contains(byte))
}

fn is_same(sent: &Message, arrived: &Message) -> bool {
    sent.start[0] == arrived.start[0]
        && sent.body == arrived.body
        && (sent.start[1] == arrived.start[1] || !is_plain(&sent.start[1]))
}

/// What is not idempotent arrives once, even in part (rule 20).
fn judge_repetition(requests: &Requests, forwarded: &[Seen]) -> Result<(), String> {
    let mut lines: Vec<Vec<u8>> = Vec::new();
    for seen in forwarded {
        lines.extend(seen.whole.iter().map(|(_, request)| request.start.join(&b' ')));
        lines.extend(seen.begun.iter().map(|(_, line)| line.clone()));
    }
    for line in lines.iter().filter(|line| line.starts_with(b"POST ") && line.ends_with(b" HTTP/1.1")) {
        let target = line.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        let is_it = |method: &[u8], other: &[u8]| method == b"POST" && (other == target || !is_plain(other));
        let sent = requests.whole.iter().filter(|sent| is_it(&sent.start[0], &sent.start[1])).count()
            + usize::from(requests.begun.as_ref().is_some_and(|[method, other]| is_it(method, other)));
        let arrived = lines.iter().filter(|other| *other == line).count();
        if arrived > sent {
            return Err(format!("sent {sent} times, it arrived {arrived} times: {}", line.escape_ascii()));
        }
    }
    Ok(())
}

/// The final responses of an upstream that are whole and were not sent before their requests began to come. One may come before the end of its
/// request: an early response (RFC 9112 section 9.3).
fn responses_of(connection: &Peer, seen: &Seen, given: &mut Vec<Given>) {
    let whole = seen.whole.iter().map(|(begins, request)| (*begins, request.start[..2].to_vec()));
    let begun = seen
        .begun
        .iter()
        .map(|(begins, line)| (*begins, line.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect::<Vec<_>>()));
    let mut at = 0;
    let mut requests = whole.chain(begun);
    let mut current = requests.next();
    while let Some((begins, start)) = current.take().or_else(|| unread(connection, at)) {
        let [method, target, ..] = &start[..] else { return };
        let is_closed = connection.closed && !connection.was_reset;
        let Reading::Message(response) = oracle::response(&connection.sent[at..], method, is_closed) else {
            return;
        };
        let piece = connection.pieces.iter().rev().find(|piece| piece.at <= at);
        let is_early = piece.is_none_or(|piece| piece.reads && piece.received <= begins);
        at += response.length;
        let is_interim = response.start[1].starts_with(b"1") && response.start[1] != b"101";
        if is_interim {
            current = Some((begins, start));
            continue;
        }
        if !is_early {
            given.push(Given { method: method.clone(), target: target.clone(), response });
        }
        current = requests.next();
    }
}

/// In place of a request that may have reached an upstream which does not read: nobody knows its method and target.
fn unread(connection: &Peer, at: usize) -> Option<(usize, Vec<Vec<u8>>)> {
    let piece = connection.pieces.iter().rev().find(|piece| piece.at <= at)?;
    (at < connection.sent.len() && !piece.reads).then(|| (0, vec![Vec::new(), Vec::new()]))
}

fn judge_client(client: &Peer, requests: &Requests, given: &[Given]) -> Result<usize, String> {
    let mut rest = &client.received[..];
    let mut responses = 0;
    while !rest.is_empty() {
        let request = requests.whole.get(responses);
        let method = match (request, &requests.begun) {
            (Some(request), _) => &request.start[0],
            (None, Some([method, _])) => method,
            (None, None) => &b"GET"[..],
        };
        let mut reading = oracle::response(rest, method, client.saw_end);
        // A timeout may come before the whole method has: the gateway does not know then that the response to it has no body.
        if let Reading::Message(response) = &reading
            && method == b"HEAD"
            && response.start[1] == b"408"
            && response.length < rest.len()
        {
            reading = oracle::response(rest, b"GET", client.saw_end);
        }
        let response = match reading {
            Reading::Message(response) => response,
            Reading::Incomplete => return Ok(responses),
            Reading::Invalid(rule) => {
                return Err(format!("the client was sent what breaks {rule}: {}", cut(rest)));
            }
        };
        rest = &rest[response.length..];
        if response.start[1] == b"101" {
            return Ok(responses + 1);
        }
        if response.start[1].starts_with(b"1") {
            continue;
        }
        let most = requests.whole.len() + usize::from(requests.has_rest);
        if responses >= most {
            return Err(format!("{most} requests had more responses: {response:?}"));
        }
        let target = match (request, &requests.begun) {
            (Some(request), _) => Some(&request.start[1]),
            (None, Some([_, target])) => Some(target),
            (None, None) => None,
        };
        judge_response(&response, method, target.map_or(&b""[..], |target| target), given)?;
        responses += 1;
        if response.values("connection") == [b"close"] && !rest.is_empty() {
            return Err(format!("behind the last response came {}", cut(rest)));
        }
    }
    Ok(responses)
}

fn judge_response(response: &Message, method: &[u8], target: &[u8], given: &[Given]) -> Result<(), String> {
    let is_own = response.values("content-type") == [b"application/problem+json"];
    if is_own || !is_plain(target) || target.starts_with(b"/here/") {
        return Ok(());
    }
    let is_cached = target.starts_with(b"/ttl/") || target.starts_with(b"/http/");
    let is_its = |given: &Given| {
        let (own, status) = (&given.response, &response.start[1]);
        let is_of_any = given.target.is_empty();
        (is_of_any || given.target == target)
            && match &status[..] {
                b"304" | b"416" if is_cached => true,
                b"206" if is_cached => contains(&own.body, &response.body),
                _ if method == b"HEAD" => own.start[1] == *status,
                // The stored response of a HEAD cannot serve a GET.
                _ => own.start[1] == *status && own.body == response.body && (is_of_any || given.method == method),
            }
    };
    if given.iter().any(is_its) {
        return Ok(());
    }
    Err(format!("a response that no upstream gave to {} passes for complete: {response:?}", target.escape_ascii()))
}

fn contains(whole: &[u8], part: &[u8]) -> bool {
    part.is_empty() || whole.windows(part.len()).any(|window| window == part)
}

fn cut(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(2000)].escape_ascii().to_string()
}
