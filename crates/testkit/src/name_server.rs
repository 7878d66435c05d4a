//! A name server on a real socket: changing responses, wrong responses, no response. Written by hand (RFC 1035), so that it shares no code with what
//! is tested.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An SRV record: priority, weight, port, host.
pub type Srv<Host> = (u16, u16, u16, Host);

/// What the name server knows. Names are in lower case, without the final dot.
#[derive(Debug, Default)]
struct Zone {
    records: HashMap<String, (u32, Vec<IpAddr>)>,
    /// SRV records of names: priority, weight, port, host.
    services: HashMap<String, (u32, Vec<Srv<String>>)>,
    /// Responses over UDP, or all, are cut off.
    is_cutting: bool,
    is_cutting_tcp: bool,
    /// Other names of names.
    aliases: HashMap<String, String>,
    /// Sends no response.
    is_dead: bool,
    /// Responds with this code (RFC 1035 section 4.1.1) and no record.
    failure: u8,
    /// Queries of this type (RFC 1035 section 3.2.2) fail with SERVFAIL.
    broken: Option<u16>,
    /// Names that were requested.
    queries: Vec<String>,
}

/// A name server. Dropped, it ends.
#[derive(Debug)]
pub struct NameServer {
    zone: Arc<Mutex<Zone>>,
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl NameServer {
    /// On a free port.
    pub fn start() -> NameServer {
        // One port for UDP and TCP, as name servers have.
        let both = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a free port");
            TcpListener::bind(socket.local_addr().unwrap()).ok().map(|listener| (socket, listener))
        };
        let (socket, listener) = std::iter::repeat_with(both).flatten().next().unwrap();
        NameServer::serve(socket, listener)
    }

    /// On this address, which must be free.
    pub fn start_at(address: SocketAddr) -> NameServer {
        let socket = UdpSocket::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        let listener = TcpListener::bind(address).unwrap_or_else(|error| panic!("{address}: {error}"));
        NameServer::serve(socket, listener)
    }

    fn serve(socket: UdpSocket, listener: TcpListener) -> NameServer {
        listener.set_nonblocking(true).unwrap();
        // Only for the end: nothing that a test waits for takes this long.
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let (zone, stopped) = (Arc::<Mutex<Zone>>::default(), Arc::new(AtomicBool::new(false)));
        let serve = {
            let (zone, stopped) = (zone.clone(), stopped.clone());
            move || {
                let mut buffer = [0; 1500];
                while !stopped.load(Ordering::SeqCst) {
                    if let Ok((stream, _)) = listener.accept() {
                        let zone = zone.clone();
                        std::thread::spawn(move || over_tcp(stream, &zone));
                    }
                    let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
                    let mut zone = zone.lock().unwrap();
                    if let Some(mut response) = response(&mut zone, &buffer[..length]) {
                        // RFC 6891 section 6.2.5: what fits is small.
                        if zone.is_cutting || response.len() > 1200 {
                            cut(&mut response);
                        }
                        socket.send_to(&response, from).unwrap();
                    }
                }
            }
        };
        NameServer { zone, address, stopped, thread: Some(std::thread::spawn(serve)) }
    }

    /// From now on `name` has these addresses.
    pub fn set(&self, name: &str, ttl: u32, addresses: &[&str]) {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        self.zone().records.insert(name.to_owned(), (ttl, addresses));
    }

    /// From now on `name` has these SRV records: priority, weight, port, host; `.` is no host.
    pub fn set_service(&self, name: &str, ttl: u32, records: &[Srv<&str>]) {
        let owned = |&(priority, weight, port, host): &Srv<&str>| (priority, weight, port, host.to_owned());
        self.zone().services.insert(name.to_owned(), (ttl, records.iter().map(owned).collect()));
    }

    /// From now on `name` does not exist.
    pub fn forget_service(&self, name: &str) {
        self.zone().services.remove(name);
    }

    /// From now on responses over UDP, and over TCP too, are cut off and say so.
    pub fn cut_off(&self, udp: bool, tcp: bool) {
        let mut zone = self.zone();
        (zone.is_cutting, zone.is_cutting_tcp) = (udp, tcp);
    }

    /// From now on every response is this code; 0 is none.
    pub fn fail(&self, code: u8) {
        self.zone().failure = code;
    }

    /// From now on `name` is another name of `of`.
    pub fn alias(&self, name: &str, of: &str) {
        self.zone().aliases.insert(name.to_owned(), of.to_owned());
    }

    /// Its address, for UDP and TCP.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether it sends no response from now on.
    pub fn die(&self, is_dead: bool) {
        self.zone().is_dead = is_dead;
    }

    /// From now on queries of this type fail: 1 for A, 28 for AAAA.
    pub fn break_type(&self, kind: Option<u16>) {
        self.zone().broken = kind;
    }

    /// Queries for a name so far, of any type.
    pub fn requested(&self, name: &str) -> usize {
        self.zone().queries.iter().filter(|queries| *queries == name).count()
    }

    fn zone(&self) -> std::sync::MutexGuard<'_, Zone> {
        self.zone.lock().unwrap()
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// RFC 1035 section 4.2.2.
fn over_tcp(mut stream: TcpStream, zone: &Mutex<Zone>) {
    // Accepted sockets of a listener that does not block do not either on some systems.
    let _ = stream.set_nonblocking(false);
    let mut length = [0; 2];
    while stream.read_exact(&mut length).is_ok() {
        let mut query = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut query).is_err() {
            return;
        }
        let mut zone = zone.lock().unwrap();
        let Some(mut response) = response(&mut zone, &query) else { return };
        if zone.is_cutting_tcp {
            cut(&mut response);
        }
        drop(zone);
        let mut message = (response.len() as u16).to_be_bytes().to_vec();
        message.extend(response);
        if stream.write_all(&message).is_err() {
            return;
        }
    }
}

/// Leaves the first record of a response, and sets the bit that says that there were more (TC).
fn cut(response: &mut Vec<u8>) {
    response[2] |= 2;
    let count = u16::from_be_bytes([response[6], response[7]]).min(1);
    response[6..8].copy_from_slice(&count.to_be_bytes());
    let question = 12 + response[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
    if count == 1 {
        // The owner is a pointer of two bytes; eight bytes on is the length of the data.
        let data = question + 10;
        let length = usize::from(u16::from_be_bytes([response[data], response[data + 1]]));
        response.truncate(data + 2 + length);
    }
}

fn response(zone: &mut Zone, query: &[u8]) -> Option<Vec<u8>> {
    let mut position = 12;
    let mut labels = Vec::new();
    while query[position] != 0 {
        let length = usize::from(query[position]);
        labels.push(String::from_utf8_lossy(&query[position + 1..=position + length]).to_lowercase());
        position += 1 + length;
    }
    let name = labels.join(".");
    let kind = u16::from_be_bytes([query[position + 1], query[position + 2]]);
    let question = &query[12..position + 5];
    zone.queries.push(name.clone());
    if zone.is_dead {
        return None;
    }
    let alias = zone.aliases.get(&name);
    let failure = if zone.broken == Some(kind) { 2 } else { zone.failure };
    let known = zone.records.get(alias.unwrap_or(&name)).filter(|_| failure == 0);
    let service = zone.services.get(&name).filter(|_| failure == 0);
    let code = if failure != 0 { failure } else { u8::from(known.is_none() && service.is_none()) * 3 };
    let mut records = Vec::new();
    let mut count = 0u16;
    // Whose the addresses are: the name of the question, or that of the alias.
    let mut owner = vec![0xc0, 12];
    if let Some(alias) = alias {
        let encoded = encode(alias);
        count += 1;
        records.extend([0xc0, 12, 0, 5, 0, 1, 0, 0, 0, 60]);
        records.extend((encoded.len() as u16).to_be_bytes());
        records.extend(&encoded);
        owner = encoded;
    }
    for address in known.map(|(_, addresses)| addresses.as_slice()).unwrap_or_default() {
        let (of_kind, data) = match address {
            IpAddr::V4(address) => (1u16, address.octets().to_vec()),
            IpAddr::V6(address) => (28, address.octets().to_vec()),
        };
        if of_kind == kind {
            count += 1;
            records.extend(&owner);
            records.extend(kind.to_be_bytes());
            records.extend([0, 1]);
            records.extend(known.map_or(0, |(ttl, _)| *ttl).to_be_bytes());
            records.extend((data.len() as u16).to_be_bytes());
            records.extend(data);
        }
    }
    // RFC 2782; 33 is the type.
    for (priority, weight, port, host) in
        service.filter(|_| kind == 33).map(|(_, all)| all.as_slice()).unwrap_or_default()
    {
        let mut data = [priority, weight, port].map(|number| number.to_be_bytes()).concat();
        data.extend(encode(host.trim_end_matches('.')));
        count += 1;
        records.extend(&owner);
        records.extend([0, 33, 0, 1]);
        records.extend(service.map_or(0, |(ttl, _)| *ttl).to_be_bytes());
        records.extend((data.len() as u16).to_be_bytes());
        records.extend(data);
    }
    let mut response = query[..2].to_vec();
    response.extend([0x81, 0x80 | code, 0, 1]);
    response.extend(count.to_be_bytes());
    response.extend([0, 0, 0, 0]);
    response.extend(question);
    response.extend(records);
    Some(response)
}

/// A name as labels (RFC 1035 section 3.1).
fn encode(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}
