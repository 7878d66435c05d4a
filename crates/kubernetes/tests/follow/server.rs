//! An API server of a few lines: objects by path, lists in pages, watches with versions, bookmarks and 410, patches of statuses, one lease, applied and deleted Services.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;

use super::CHANGED;

/// What tests change and look at.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) port: u16,
    state: Arc<Mutex<State>>,
    events: broadcast::Sender<(String, u64, Value)>,
    /// Ends every watch: with an event of the kind ERROR and this code, or without a word.
    cut: broadcast::Sender<Option<u16>>,
}

#[derive(Default)]
struct State {
    version: u64,
    /// By path of the kind, then by namespace and name.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    /// Events that a watch may still go on from.
    history: Vec<(String, u64, Value)>,
    /// Requests in order: `METHOD path`.
    requests: Vec<String>,
    /// Kinds that there are not.
    intruder: Option<(String, Value)>,
    unknown: Vec<String>,
    /// Whether nothing may be applied.
    is_read_only: bool,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server =
            Server { port, state: Arc::default(), events: broadcast::channel(1024).0, cut: broadcast::channel(16).0 };
        let accepting = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = accepting.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        server
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Creates or replaces an object.
    pub(crate) fn put(&self, path: &str, mut object: Value) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        object["metadata"]["resourceVersion"] = version.to_string().into();
        let id = id(&object);
        let known = state.objects.entry(path.to_owned()).or_default().insert(id, object.clone());
        let kind = if known.is_some() { "MODIFIED" } else { "ADDED" };
        self.tell(&mut state, path, version, json!({"type": kind, "object": object}));
    }

    pub(crate) fn delete(&self, path: &str, id: &str) {
        let mut state = self.state();
        state.version += 1;
        let version = state.version;
        let Some(mut object) = state.objects.get_mut(path).and_then(|of_kind| of_kind.remove(id)) else { return };
        object["metadata"]["resourceVersion"] = version.to_string().into();
        self.tell(&mut state, path, version, json!({"type": "DELETED", "object": object}));
    }

    fn tell(&self, state: &mut State, path: &str, version: u64, event: Value) {
        state.history.push((path.to_owned(), version, event.clone()));
        let _ = self.events.send((path.to_owned(), version, event));
        CHANGED.notify_waiters();
    }

    /// Somebody else writes this status at the moment when one is written to the object.
    pub(crate) fn intrude(&self, id: &str, status: Value) {
        self.state().intruder = Some((id.to_owned(), status));
    }

    /// Forgets what happened: a watch can go on only from now.
    pub(crate) fn compact(&self) {
        self.state().history.clear();
    }

    /// Ends every watch.
    pub(crate) fn cut(&self, code: Option<u16>) {
        let _ = self.cut.send(code);
    }

    pub(crate) fn forget_kind(&self, path: &str) {
        self.state().unknown.push(path.to_owned());
    }

    /// Whether everything that is applied is refused.
    pub(crate) fn refuse_applies(&self, is_read_only: bool) {
        self.state().is_read_only = is_read_only;
    }

    /// An object as it is.
    pub(crate) fn get(&self, path: &str, id: &str) -> Value {
        self.state().objects.get(path).and_then(|of_kind| of_kind.get(id)).cloned().unwrap_or_default()
    }

    /// Names of the objects of a kind, with their namespaces.
    pub(crate) fn names(&self, path: &str) -> Vec<String> {
        self.state().objects.get(path).map(|all| all.keys().cloned().collect()).unwrap_or_default()
    }

    /// Requests whose line begins with this.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.state().requests.iter().filter(|line| line.starts_with(start)).count()
    }

    async fn serve(&self, mut stream: TcpStream) -> Option<()> {
        loop {
            let (method, target, body) = read_request(&mut stream).await?;
            let (path, query) = target.split_once('?').unwrap_or((&target, ""));
            self.state().requests.push(format!("{method} {target}"));
            CHANGED.notify_waiters();
            if query.contains("watch=1") {
                return self.watch(&mut stream, path, query).await;
            }
            let (status, response) = self.respond(&method, path, query, &body);
            let text = response.to_string();
            let head = format!("HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n", text.len());
            stream.write_all(format!("{head}{text}").as_bytes()).await.ok()?;
        }
    }

    fn respond(&self, method: &str, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let state = self.state();
        if state.unknown.iter().any(|unknown| unknown == path) {
            return (
                404,
                json!({"kind": "Status", "code": 404, "message": "the server could not find the requested resource"}),
            );
        }
        let (kind, id) = place(path);
        match method {
            "GET" if id.is_empty() => {
                // Pages of two objects.
                let from: usize = query.split("continue=").nth(1).and_then(|rest| rest.parse().ok()).unwrap_or(0);
                let all: Vec<Value> =
                    state.objects.get(&kind).map(|all| all.values().cloned().collect()).unwrap_or_default();
                let next = if all.len() > from + 2 { (from + 2).to_string() } else { String::new() };
                let items: Vec<Value> = all.into_iter().skip(from).take(2).collect();
                let meta = json!({"resourceVersion": state.version.to_string(), "continue": next});
                (200, json!({"metadata": meta, "items": items}))
            }
            "GET" => match state.objects.get(&kind).and_then(|of_kind| of_kind.get(&id)) {
                Some(object) => (200, object.clone()),
                None => (404, json!({"code": 404, "message": "not found"})),
            },
            "PATCH" if query.contains("fieldManager=") && state.is_read_only => {
                (403, json!({"kind": "Status", "code": 403, "message": "exceeded quota"}))
            }
            "PATCH" if query.contains("fieldManager=") => {
                let known = state.objects.get(&kind).and_then(|of_kind| of_kind.get(&id));
                let mut object = body.clone();
                // What others wrote beside it stays.
                if let Some(known) = known {
                    object["status"] = known["status"].clone();
                    object["metadata"]["uid"] = known["metadata"]["uid"].clone();
                } else {
                    object["metadata"]["uid"] = state.version.to_string().into();
                }
                drop(state);
                self.put(&kind, object);
                (200, self.get(&kind, &id))
            }
            "DELETE" => {
                let uid = &body["preconditions"]["uid"];
                let known = state.objects.get(&kind).and_then(|of_kind| of_kind.get(&id));
                let status = match known {
                    None => 404,
                    Some(known) if known["metadata"]["uid"] != *uid => 409,
                    Some(_) => 200,
                };
                drop(state);
                if status == 200 {
                    self.delete(&kind, &id);
                }
                (status, json!({"code": status, "message": ""}))
            }
            "PATCH" => {
                drop(state);
                let intruder = self.state().intruder.take_if(|(who, _)| *who == id);
                let mut object = self.get(&kind, &id);
                if let Some((_, status)) = intruder {
                    object["status"] = status;
                    self.put(&kind, object);
                    object = self.get(&kind, &id);
                }
                if object["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"] {
                    return (409, json!({"code": 409, "message": "conflict"}));
                }
                object["status"] = body["status"].clone();
                self.put(&kind, object);
                (200, json!({}))
            }
            _ => {
                let id = if id.is_empty() { self::id(body) } else { id };
                let known = state.objects.get(&kind).and_then(|of_kind| of_kind.get(&id)).cloned();
                let sent = body["metadata"]["resourceVersion"].clone();
                let same = known.as_ref().is_none_or(|known| known["metadata"]["resourceVersion"] == sent);
                if method == "POST" && known.is_some() || !same {
                    return (409, json!({"code": 409, "message": "conflict"}));
                }
                drop(state);
                self.put(&kind, body.clone());
                (200, self.get(&kind, &id))
            }
        }
    }

    async fn watch(&self, stream: &mut TcpStream, path: &str, query: &str) -> Option<()> {
        let from = query.split("resourceVersion=").nth(1).and_then(|rest| rest.split('&').next()?.parse().ok());
        let from: u64 = from.unwrap_or(0);
        let (mut events, mut cut) = (self.events.subscribe(), self.cut.subscribe());
        let (missed, is_expired) = {
            let state = self.state();
            let oldest = state.history.first().map_or(state.version + 1, |(_, version, _)| *version);
            let is_later = |(of, version, _): &&(String, u64, Value)| of == path && *version > from;
            let missed: Vec<_> = state.history.iter().filter(is_later).cloned().collect();
            (missed, from + 1 < oldest)
        };
        stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await.ok()?;
        if is_expired {
            let gone = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}});
            write_event(stream, &gone).await?;
            return stream.write_all(b"0\r\n\r\n").await.ok();
        }
        for (_, _, event) in missed {
            write_event(stream, &event).await?;
        }
        let bookmark = json!({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": from.to_string()}}});
        write_event(stream, &bookmark).await?;
        loop {
            tokio::select! {
                event = events.recv() => {
                    let (of, version, event) = event.ok()?;
                    if of == path && version > from {
                        write_event(stream, &event).await?;
                    }
                }
                code = cut.recv() => {
                    if let Some(code) = code.ok()? {
                        let event = json!({"type": "ERROR", "object": {"kind": "Status", "code": code, "message": "cut"}});
                        write_event(stream, &event).await?;
                    }
                    return None;
                }
            }
        }
    }
}

/// The path of a kind and the name of an object, of the path of a request.
fn place(path: &str) -> (String, String) {
    let path = path.strip_suffix("/status").unwrap_or(path);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    // /api/v1/..., /apis/GROUP/v1/...
    let base = if parts[0] == "api" { 2 } else { 3 };
    let group = parts[..base].join("/");
    match &parts[base..] {
        ["namespaces", namespace, kind, name] => (format!("/{group}/{kind}"), format!("{namespace}/{name}")),
        ["namespaces", _, kind] => (format!("/{group}/{kind}"), String::new()),
        [kind, name] => (format!("/{group}/{kind}"), format!("/{name}")),
        [kind] => (format!("/{group}/{kind}"), String::new()),
        other => panic!("{other:?}"),
    }
}

fn id(object: &Value) -> String {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    format!("{}/{}", text("namespace"), text("name"))
}

async fn write_event(stream: &mut TcpStream, event: &Value) -> Option<()> {
    let line = format!("{event}\n");
    stream.write_all(format!("{:x}\r\n{line}\r\n", line.len()).as_bytes()).await.ok()
}

async fn read_request(stream: &mut TcpStream) -> Option<(String, String, Value)> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let length: usize = length.unwrap_or(0);
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let mut words = head.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    Some((method, target, serde_json::from_slice(&bytes[end..end + length]).unwrap_or_default()))
}
