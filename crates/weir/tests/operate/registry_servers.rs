//! The API of Kubernetes and that of Consul, as far as targets are read from them, with every fault that a test wants.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Conn, Gate, Message, Upstream, WireError};

/// How soon a response that waits sees that the server has ended.
const NOTICE: Duration = Duration::from_millis(20);

/// What is wrong with the response to a request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    Status(u16),
    Garbage,
    /// The response ends in its middle.
    CutOff,
    /// The response is larger than what is read.
    Huge,
    /// The response waits for a gate.
    Slow(Gate),
}

impl Fault {
    /// Writes the response that a fault is; false: an ordinary one follows.
    fn write(&self, conn: &mut Conn) -> Result<bool, WireError> {
        match self {
            Fault::Status(status) => {
                conn.respond(*status, &[], r#"{"kind": "Status", "message": "as the test wants it"}"#)?;
            }
            Fault::Garbage => {
                conn.respond(200, &[("X-Consul-Index", "9")], "<html>no</html>\n")?;
            }
            Fault::CutOff => {
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[{\"Node\"")?;
                conn.close()?;
            }
            Fault::Huge => {
                conn.write("HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n")?;
                conn.write_pattern(64 << 20)?;
            }
            Fault::Slow(gate) => {
                conn.pass(gate)?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What happens to watches that are open.
#[derive(Debug, Clone)]
pub(crate) enum End {
    /// They end in order, as after their time.
    InOrder,
    /// They end in the middle of an event.
    CutOff,
    /// They hold what is no event.
    Garbage,
    /// They end with an error.
    Error(u16),
}

/// An API server.
pub(crate) struct Kubernetes {
    pub(crate) server: Upstream,
    shared: Arc<Shared<Slices>>,
}

/// Something that a test changes and responses wait for.
struct Shared<T> {
    state: Mutex<T>,
    changed: Condvar,
    has_ended: AtomicBool,
}

impl<T> Shared<T> {
    fn new(state: T) -> Arc<Self> {
        Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), has_ended: AtomicBool::new(false) })
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.state.lock().unwrap()
    }

    fn change(&self, change: impl FnOnce(&mut T)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits for a moment or a change; fails when the server has ended.
    fn wait<'s>(&'s self, state: MutexGuard<'s, T>) -> Result<MutexGuard<'s, T>, WireError> {
        let (state, _) = self.changed.wait_timeout(state, NOTICE).unwrap();
        if self.has_ended.load(Ordering::Relaxed) { Err(WireError::Closed) } else { Ok(state) }
    }
}

#[derive(Default)]
struct Slices {
    version: u64,
    slices: BTreeMap<String, Value>,
    /// Events that a watch may still go on from, and the version before the first of them.
    history: Vec<(u64, Value)>,
    oldest: u64,
    list: Option<Fault>,
    watch: Option<Fault>,
    /// How watches ended so far.
    ends: Vec<End>,
}

impl Kubernetes {
    pub(crate) fn start() -> Self {
        let shared = Shared::new(Slices { version: 10, oldest: 10, ..Slices::default() });
        let serving = shared.clone();
        let server = Upstream::start(move |conn, request| serve_slices(&serving, conn, request));
        Kubernetes { server, shared }
    }

    /// A file for `KUBECONFIG`; the token is in another one.
    pub(crate) fn kubeconfig(&self, token: &std::path::Path) -> String {
        format!(
            "clusters: [{{name: test, cluster: {{server: '{}'}}}}]\nusers: [{{name: weir, user: {{tokenFile: {}}}}}]\ncontexts: [{{name: test, context: {{cluster: test, user: weir}}}}]\ncurrent-context: test\n",
            self.server.url(),
            token.display()
        )
    }

    /// Writes one slice: addresses with whether they are ready, and the port `http`.
    pub(crate) fn put(&self, name: &str, port: u16, addresses: &[(&str, bool)]) {
        let endpoints: Vec<Value> = addresses
            .iter()
            .map(|(address, is_ready)| {
                json!({"addresses": [address], "conditions": {"ready": is_ready, "serving": true, "terminating": !is_ready}})
            })
            .collect();
        let slice = json!({"addressType": "IPv4", "ports": [{"name": "http", "port": port}], "endpoints": endpoints});
        self.shared.change(|state| {
            let kind = if state.slices.contains_key(name) { "MODIFIED" } else { "ADDED" };
            let slice = state.stamp(name, slice);
            state.slices.insert(name.to_owned(), slice.clone());
            state.tell(kind, slice);
        });
    }

    /// One slice for each server; others are deleted.
    pub(crate) fn set(&self, servers: &[&Upstream]) {
        let names: Vec<String> =
            servers.iter().map(|server| format!("orders-{}", server.socket_addr().port())).collect();
        for (name, server) in names.iter().zip(servers) {
            self.put(name, server.socket_addr().port(), &[("127.0.0.1", true)]);
        }
        let others: Vec<String> =
            self.shared.lock().slices.keys().filter(|name| !names.contains(name)).cloned().collect();
        others.iter().for_each(|name| self.delete(name));
    }

    pub(crate) fn delete(&self, name: &str) {
        self.shared.change(|state| {
            let slice = state.slices.remove(name).unwrap();
            let slice = state.stamp(name, slice);
            state.tell("DELETED", slice);
        });
    }

    /// Watches learn that nothing else has changed.
    pub(crate) fn bookmark(&self) {
        self.shared.change(|state| {
            state.version += 1;
            let object = json!({"metadata": {"resourceVersion": state.version.to_string()}});
            state.tell("BOOKMARK", object);
        });
    }

    /// Forgets what happened: a watch can go on only from now.
    pub(crate) fn compact(&self) {
        self.shared.change(|state| {
            state.history.clear();
            state.oldest = state.version;
        });
    }

    pub(crate) fn fail_lists(&self, fault: Option<Fault>) {
        self.shared.change(|state| state.list = fault);
    }

    pub(crate) fn fail_watches(&self, fault: Option<Fault>) {
        self.shared.change(|state| state.watch = fault);
    }

    /// Ends the watches that are open.
    pub(crate) fn end_watches(&self, end: End) {
        self.shared.change(|state| state.ends.push(end));
    }

    /// Targets of the requests so far for watches, or for lists.
    pub(crate) fn requests(&self, are_watches: bool) -> Vec<String> {
        let requests = self.server.requests().into_iter().map(|request| request.head.target().to_owned());
        requests.filter(|target| target.contains("watch=1") == are_watches).collect()
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
    }
}

impl Slices {
    fn stamp(&mut self, name: &str, mut slice: Value) -> Value {
        self.version += 1;
        slice["metadata"] = json!({
            "name": name, "namespace": "shop", "resourceVersion": self.version.to_string(),
            "labels": {"kubernetes.io/service-name": "orders"},
        });
        slice
    }

    fn tell(&mut self, kind: &str, object: Value) {
        self.history.push((self.version, json!({"type": kind, "object": object})));
    }
}

fn serve_slices(shared: &Shared<Slices>, conn: &mut Conn, request: &Message) -> Result<(), WireError> {
    let target = request.head.target().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let selects = query.get("labelSelector") == Some(&"kubernetes.io%2Fservice-name%3Dorders");
    if path != "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices" || !selects {
        return conn.respond(404, &[], json!({"message": format!("no such path: {target}")}).to_string());
    }
    let is_watch = query.contains_key("watch");
    let fault = {
        let state = shared.lock();
        if is_watch { state.watch.clone() } else { state.list.clone() }
    };
    if let Some(fault) = fault
        && fault.write(conn)?
    {
        return Ok(());
    }
    if !is_watch {
        let state = shared.lock();
        // Pages of two slices.
        let from: usize = query.get("continue").and_then(|from| from.parse().ok()).unwrap_or(0);
        let next = if state.slices.len() > from + 2 { (from + 2).to_string() } else { String::new() };
        let items: Vec<&Value> = state.slices.values().skip(from).take(2).collect();
        let list =
            json!({"metadata": {"resourceVersion": state.version.to_string(), "continue": next}, "items": items});
        drop(state);
        return conn.respond(200, &[], list.to_string());
    }
    let mut version: u64 = query["resourceVersion"].parse().unwrap();
    conn.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let mut state = shared.lock();
    let mut ends = state.ends.len();
    let error = |code: u16| {
        format!("{}\n", json!({"type": "ERROR", "object": {"code": code, "message": "as the test wants it"}}))
    };
    loop {
        if version < state.oldest {
            drop(state);
            conn.write_chunk(error(410))?;
            return conn.write("0\r\n\r\n");
        }
        let mut lines = String::new();
        let from = version;
        for (of, event) in state.history.iter().filter(|(of, _)| *of > from) {
            let _ = writeln!(lines, "{event}");
            version = *of;
        }
        let end = (state.ends.len() > ends).then(|| state.ends[ends].clone());
        if lines.is_empty() && end.is_none() {
            state = shared.wait(state)?;
            continue;
        }
        drop(state);
        if !lines.is_empty() {
            conn.write_chunk(lines)?;
        }
        match end {
            None => {}
            Some(End::InOrder) => return conn.write("0\r\n\r\n"),
            Some(End::CutOff) => {
                conn.write_chunk("{\"type\": \"MODIF")?;
                return conn.close();
            }
            Some(End::Garbage) => conn.write_chunk("<html>no</html>\n")?,
            Some(End::Error(code)) => conn.write_chunk(error(code))?,
        }
        state = shared.lock();
        ends = state.ends.len();
    }
}

/// An agent of Consul.
pub(crate) struct Consul {
    pub(crate) server: Upstream,
    shared: Arc<Shared<Instances>>,
}

#[derive(Default)]
struct Instances {
    index: u64,
    instances: Vec<Value>,
    fault: Option<Fault>,
    /// In place of the index.
    shown_index: Option<String>,
}

impl Consul {
    pub(crate) fn start() -> Self {
        let shared = Shared::new(Instances { index: 100, ..Instances::default() });
        let serving = shared.clone();
        let server = Upstream::start(move |conn, request| serve_instances(&serving, conn, request));
        Consul { server, shared }
    }

    /// One instance for each server, with its weight.
    pub(crate) fn set(&self, servers: &[(&Upstream, u32)]) {
        let instance = |(server, weight): &(&Upstream, u32)| {
            let address = server.socket_addr();
            json!({
                "Node": {"Address": "127.0.0.1"},
                "Service": {"Address": "", "Port": address.port(), "Weights": {"Passing": weight, "Warning": 1}},
            })
        };
        let instances = servers.iter().map(instance).collect();
        self.shared.change(|state| {
            state.index += 1;
            state.instances = instances;
        });
    }

    /// Another history begins, with this index.
    pub(crate) fn restore(&self, index: u64, servers: &[(&Upstream, u32)]) {
        self.set(servers);
        self.shared.change(|state| state.index = index);
    }

    /// Responses have this index, whatever it is.
    pub(crate) fn show_index(&self, index: Option<&str>) {
        self.shared.change(|state| state.shown_index = index.map(str::to_owned));
    }

    /// What the next responses are, and those that wait now.
    pub(crate) fn fail(&self, fault: Option<Fault>) {
        self.shared.change(|state| {
            state.index += 1;
            state.fault = fault;
        });
    }
}

impl Drop for Consul {
    fn drop(&mut self) {
        self.shared.has_ended.store(true, Ordering::Relaxed);
    }
}

fn serve_instances(shared: &Shared<Instances>, conn: &mut Conn, request: &Message) -> Result<(), WireError> {
    let target = request.head.target().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let query: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    if path != "/v1/health/service/orders" || query.get("passing") != Some(&"1") {
        return conn.respond(404, &[], "no such path");
    }
    let mut state = shared.lock();
    if let Some(index) = query.get("index") {
        let index: u64 = index.parse().unwrap();
        // One that is ahead of this history is of another one.
        while state.index == index {
            state = shared.wait(state)?;
        }
    }
    let fault = state.fault.clone();
    drop(state);
    if let Some(fault) = fault
        && fault.write(conn)?
    {
        return Ok(());
    }
    let state = shared.lock();
    let index = state.shown_index.clone().unwrap_or_else(|| state.index.to_string());
    let body = Value::from(state.instances.clone()).to_string();
    drop(state);
    conn.respond(200, &[("X-Consul-Index", &index)], body)
}
