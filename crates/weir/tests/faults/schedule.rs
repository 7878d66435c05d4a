//! What happens on one client connection, and the list of all that is tried.

/// How a body is framed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length,
    Chunked,
    /// Responses only.
    UntilClose,
}

/// How the client sends its three requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// In one piece.
    AtOnce,
    /// The first request and what follows it byte by byte.
    Bytewise,
    /// So many bytes; then it waits for a response or the end of the connection; then the rest.
    HoldsAt(usize),
    /// So many bytes, and the rest as soon as the upstream did what it does.
    ContinuesAt(usize),
    /// So many bytes, then this.
    StopsAt(usize, End),
}

/// What a side does in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Close,
    Reset,
    Silence,
    /// The client ends its stream and still reads.
    HalfClose,
    /// The upstream says something that is not HTTP, then nothing.
    Garbage,
    /// The upstream goes on as a server that responded early does: it reads the rest.
    GoOn,
}

/// What the upstream does to the first request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fault {
    /// It reads so many bytes of the request, or all of it.
    pub(crate) reads: Option<usize>,
    /// It writes so many bytes of the response.
    pub(crate) writes: usize,
    /// Then this.
    pub(crate) end: End,
}

/// Where the first request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultPoint {
    /// To the upstream.
    Upstream,
    /// To the upstream, on a route whose bodies are smaller.
    TooLarge,
    /// To a route that the gateway serves itself.
    Here,
    /// To a path with two readings.
    BadPath,
}

#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) family: &'static str,
    pub(crate) place: FaultPoint,
    pub(crate) request: Framing,
    pub(crate) response: Framing,
    pub(crate) client: Client,
    pub(crate) fault: Option<Fault>,
}

/// The bytes of one schedule.
pub(crate) struct Messages {
    /// All requests, one behind the other.
    pub(crate) requests: Vec<u8>,
    /// Target and body of each.
    pub(crate) sent: [(String, Vec<u8>); 3],
    /// Where the head of the first request ends, and where its body does.
    pub(crate) head: usize,
    pub(crate) first: usize,
    /// The upstream's response to the first request.
    pub(crate) response: Vec<u8>,
}

/// What the system and the number are in a target, when only lengths matter.
const ANY: (usize, usize) = (0, 0);

impl Schedule {
    pub(crate) fn messages(&self, rig: usize, number: usize) -> Messages {
        // A body that is a request, should it ever be taken for one; and more of them, for whatever offset.
        let evil = format!("GET /{rig:02}/smuggled/{number:05} HTTP/1.1\r\nHost: a\r\n\r\n");
        let first_body = format!("x={evil}{evil}");
        let path = match self.place {
            FaultPoint::Upstream => "one",
            FaultPoint::TooLarge => "tiny/one",
            FaultPoint::Here => "here/one",
            FaultPoint::BadPath => "a%2fb/one",
        };
        let target = |path: &str| format!("/{rig:02}/{path}/{number:05}");
        let targets = [target(path), target("two"), target("three")];
        let mut requests = format!("POST {} HTTP/1.1\r\nHost: a\r\n", targets[0]).into_bytes();
        match self.request {
            Framing::Chunked => requests.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n"),
            _ => requests.extend_from_slice(format!("Content-Length: {}\r\n\r\n", first_body.len()).as_bytes()),
        }
        let head = requests.len();
        match self.request {
            Framing::Chunked => {
                for (piece, extension) in [(&first_body[..7], ""), (&first_body[7..], ";a=b")] {
                    requests.extend_from_slice(format!("{:x}{extension}\r\n{piece}\r\n", piece.len()).as_bytes());
                }
                requests.extend_from_slice(b"0\r\nT: u\r\n\r\n");
            }
            _ => requests.extend_from_slice(first_body.as_bytes()),
        }
        let first = requests.len();
        let length = evil.len();
        // Another method than the first: an upstream that has read a few bytes knows which of them it has.
        let two = format!("PUT {} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{evil}", targets[1]);
        requests.extend_from_slice(two.as_bytes());
        let three = format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", targets[2]);
        requests.extend_from_slice(three.as_bytes());
        let [one, two, three] = targets;
        let sent = [(one, first_body.into_bytes()), (two, evil.into_bytes()), (three, Vec::new())];
        Messages { requests, sent, head, first, response: response(self.response).to_vec() }
    }
}

fn response(framing: Framing) -> &'static [u8] {
    match framing {
        Framing::Length => b"HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Length: 12\r\n\r\nfirst answer",
        Framing::Chunked => {
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst \r\n6;e=\"f\"\r\nanswer\r\n0\r\nT: u\r\n\r\n"
        }
        Framing::UntilClose => b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\nfirst answer",
    }
}

/// Every schedule. `forwarded` says how long the first request is when it arrives at the upstream, and how much of that is its head, by framing.
pub(crate) fn all(forwarded: [(usize, usize); 2]) -> Vec<Schedule> {
    use Client::{AtOnce, Bytewise, ContinuesAt, HoldsAt, StopsAt};
    use End::{Close, Garbage, GoOn, HalfClose, Reset, Silence};
    let mut all = Vec::new();
    let plain = Schedule {
        family: "no fault",
        place: FaultPoint::Upstream,
        request: Framing::Length,
        response: Framing::Length,
        client: AtOnce,
        fault: None,
    };
    for (request, (length, head)) in [Framing::Length, Framing::Chunked].into_iter().zip(forwarded) {
        let messages = Schedule { request, ..plain.clone() }.messages(ANY.0, ANY.1);
        let full = messages.response.len();
        let base = Schedule { request, ..plain.clone() };

        for client in [AtOnce, Bytewise] {
            for at in 0..=length {
                let ends =
                    [(0, Close), (0, Reset), (0, Silence), (0, Garbage), (full, GoOn), (full, Close), (full, Reset)];
                for (writes, end) in ends {
                    // Byte by byte takes time; what differs there is where the body and its neighbours are cut.
                    if client == Bytewise && (at < head || matches!(end, Silence | Garbage)) {
                        continue;
                    }
                    let fault = Some(Fault { reads: Some(at), writes, end });
                    let family = "upstream fails while it reads the request";
                    all.push(Schedule { family, client, fault, ..base.clone() });
                }
            }
            for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
                for writes in 0..=response(framing).len() {
                    for end in [Close, Reset, Silence, Garbage] {
                        if client == Bytewise && end == Silence {
                            continue;
                        }
                        let fault = Some(Fault { reads: None, writes, end });
                        let family = "upstream fails while it writes the response";
                        all.push(Schedule { family, client, fault, response: framing, ..base.clone() });
                    }
                }
            }
        }

        for at in messages.head..messages.first {
            // What is known to arrive of the body: chunks are framed anew, and never shorter.
            let data = if request == Framing::Length { at - messages.head } else { 0 };
            for writes in [0, full / 2, full] {
                for end in [Close, Reset, Silence, Garbage, GoOn] {
                    if (end == GoOn) != (writes == full) && end != Close && end != Reset {
                        continue;
                    }
                    for client in [HoldsAt(at), ContinuesAt(at)] {
                        for reads in [head, head + data] {
                            let fault = Some(Fault { reads: Some(reads), writes, end });
                            let family = "upstream fails while the client holds its body back";
                            all.push(Schedule { family, client, fault, ..base.clone() });
                        }
                    }
                }
            }
        }

        for place in [FaultPoint::Here, FaultPoint::TooLarge, FaultPoint::BadPath] {
            let base = Schedule { place, ..base.clone() };
            let messages = base.messages(ANY.0, ANY.1);
            for at in messages.head..messages.first {
                let family = "gateway refuses while the client holds its body back";
                for client in [HoldsAt(at), AtOnce] {
                    all.push(Schedule { family, client, ..base.clone() });
                }
            }
        }

        for at in 0..messages.requests.len() {
            for end in [Close, Reset, Silence, HalfClose] {
                let family = "client stops";
                all.push(Schedule { family, client: StopsAt(at, end), ..base.clone() });
            }
        }

        for framing in [Framing::Length, Framing::Chunked] {
            for client in [AtOnce, Bytewise] {
                all.extend(std::iter::repeat_n(Schedule { client, response: framing, ..base.clone() }, 100));
            }
        }
    }
    all
}
