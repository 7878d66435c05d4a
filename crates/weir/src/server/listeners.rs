//! The listeners of the process: opened at the start, and changed by reloads, all of them or none.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::SystemTime;

use tls::server::{self, Tickets};

use super::inherited::Inherited;
use super::listen::{self, Group};
use super::socket_file::SocketFile;
use crate::client::origin::{Accepts, HttpsHosts, Origin};
use crate::config::{self, Bind, ListenerTls, Serves};
use crate::worker::shared::ListenerSocket;

#[derive(Debug)]
struct Listener {
    /// As in the configuration, where the port may be 0.
    configured: Bind,
    /// Where it takes connections, and duplicates of its sockets, if they are kept for a take-over.
    group: Group,
    /// Permissions of its file, if it is a Unix socket.
    mode: u32,
    origin: Arc<Origin>,
    /// What is in force for its connections.
    serves: Serves,
}

impl Listener {
    fn is(&self, configured: &Bind) -> bool {
        self.configured == *configured || self.group.bind == *configured
    }

    fn tls(&self) -> Option<&ListenerTls> {
        match &self.serves {
            Serves::Https(tls) => Some(tls),
            Serves::Http | Serves::RedirectToHttps => None,
        }
    }

    fn url(&self) -> String {
        match (&self.group.local, self.tls()) {
            (Bind::Tcp(address), None) => format!("http://{address}"),
            (Bind::Tcp(address), Some(_)) => format!("https://{address}"),
            (path, None) => path.to_string(),
            (path, Some(_)) => format!("{path} (https)"),
        }
    }

    /// Lets who may connect be as configured; whether that is a change. The file of another process stays as it is.
    fn follow_mode(&mut self, mode: u32) -> bool {
        self.mode = mode;
        let Some(file) = self.group.file.as_ref().filter(|file| file.is_own()) else { return false };
        file.set_mode(mode).unwrap_or_else(|error| {
            tracing::error!(%error, listener = %self.group.bind, "cannot set the permissions of a socket");
            false
        })
    }
}

/// The listeners as the control thread knows them.
#[derive(Debug)]
pub struct Listeners {
    list: Vec<Listener>,
    /// Keys of TLS sessions, which outlive reloads.
    tickets: Tickets,
    workers: usize,
    keeps_duplicates: bool,
    /// Sockets that the process was started with.
    inherited: Inherited,
}

/// Listeners that are open and not in use yet. Dropping it closes them: nothing was accepted.
#[derive(Debug)]
pub struct Opened {
    wanted: Vec<config::Listen>,
    groups: Vec<(Bind, Group)>,
}

/// What a reload changes.
#[derive(Debug, Default)]
pub struct Change {
    /// New sockets, for each worker.
    pub opened: Vec<Vec<ListenerSocket>>,
    /// New listeners.
    pub added: Vec<Bind>,
    /// Listeners that speak TLS, redirect, or show certificates in another way than before.
    pub changed: Vec<Bind>,
    /// Listeners that are no longer there.
    pub removed: Vec<Bind>,
}

impl Listeners {
    /// Takes over the listeners of a process that starts; `configured` are they in the configuration. Returns the sockets of each worker.
    ///
    /// # Errors
    /// When the sockets cannot be duplicated for a take-over.
    pub fn new(
        configured: &[config::Listen],
        groups: Vec<Group>,
        workers: usize,
        keeps_duplicates: bool,
        inherited: Inherited,
    ) -> io::Result<(Listeners, Vec<Vec<ListenerSocket>>)> {
        let mut listeners =
            Listeners { list: Vec::new(), tickets: Tickets::default(), workers, keeps_duplicates, inherited };
        let mut sockets: Vec<Vec<ListenerSocket>> = (0..workers).map(|_| Vec::new()).collect();
        for (configured, group) in configured.iter().zip(groups) {
            listeners.add(configured.bind.clone(), group, &mut sockets)?;
        }
        listeners.configure(configured);
        Ok((listeners, sockets))
    }

    /// Opens the listeners of `wanted` that are not open yet.
    ///
    /// # Errors
    /// The listener that cannot be opened, and why; then none was opened.
    pub fn open(&self, wanted: &[config::Listen]) -> Result<Opened, (Bind, io::Error)> {
        let mut groups = Vec::new();
        for config::Listen { bind, mode, .. } in wanted {
            if self.list.iter().any(|listener| listener.is(bind)) {
                continue;
            }
            let group = match bind {
                // The one that it takes the place of is open until the new one is.
                Bind::Tcp(address) if self.list.iter().any(|listener| overlaps(&listener.group.bind, *address)) => {
                    listen::bind_beside(*address, self.workers)
                }
                _ => listen::open(bind, *mode, self.workers, &self.inherited),
            };
            groups.push((bind.clone(), group.map_err(|error| (bind.clone(), error))?));
        }
        Ok(Opened { wanted: wanted.to_vec(), groups })
    }

    /// Puts what was opened in force.
    ///
    /// # Errors
    /// When the sockets cannot be duplicated for a take-over; then nothing has changed.
    pub fn apply(&mut self, opened: Opened) -> io::Result<Change> {
        let before = self.list.len();
        let mut sockets: Vec<Vec<ListenerSocket>> = (0..self.workers).map(|_| Vec::new()).collect();
        for (configured, group) in opened.groups {
            if let Err(error) = self.add(configured, group, &mut sockets) {
                self.list.truncate(before);
                return Err(error);
            }
        }
        let mut change = Change { opened: sockets, ..Change::default() };
        change.added.extend(self.list[before..].iter().map(|listener| listener.group.bind.clone()));
        self.list.retain_mut(|listener| {
            match opened.wanted.iter().find(|wanted| listener.is(&wanted.bind)) {
                Some(wanted) => {
                    listener.configured = wanted.bind.clone();
                    true
                }
                // Its duplicates close before those of the workers: the last one closes the queue. So does its file, after which nobody can
                // enter the queue any more.
                None => {
                    listener.origin.close();
                    change.removed.push(listener.group.bind.clone());
                    false
                }
            }
        });
        change.changed = self.configure(&opened.wanted);
        change.changed.retain(|bind| !change.added.contains(bind));
        Ok(change)
    }

    /// Puts in force what the configuration says of each listener. Connections that are there keep what they began with, as long as their
    /// clients would still be accepted.
    /// Returns those that changed.
    fn configure(&mut self, wanted: &[config::Listen]) -> Vec<Bind> {
        let mut changed = Vec::new();
        let mut free: Vec<&config::Listen> = wanted.iter().collect();
        let mut redirecting = Vec::new();
        for listener in &mut self.list {
            // One entry for each: several may request any free port of one address.
            let Some(position) = free.iter().position(|wanted| listener.is(&wanted.bind)) else { continue };
            let wanted = free.remove(position);
            if listener.origin.follow(wanted) | listener.follow_mode(wanted.mode) {
                changed.push(listener.group.bind.clone());
            }
            let serves = &wanted.serves;
            if listener.serves == *serves {
                // Also where it redirects: the hosts may be others.
                if *serves == Serves::RedirectToHttps {
                    redirecting.push(listener.origin.clone());
                }
                continue;
            }
            let accepts = match serves {
                Serves::Https(tls) => match server::Listener::new(&tls.options, &self.tickets) {
                    Ok(made) => {
                        warn_of_problems(tls);
                        Accepts::Https(Arc::new(made))
                    }
                    // It was made once when the configuration was checked, so it can be made.
                    Err(error) => {
                        tracing::error!(%error, address = %listener.group.bind, "TLS cannot be set up: it stays as it was");
                        continue;
                    }
                },
                Serves::Http => Accepts::Http,
                Serves::RedirectToHttps => {
                    redirecting.push(listener.origin.clone());
                    Accepts::Http
                }
            };
            listener.serves = serves.clone();
            if changed.last() != Some(&listener.group.bind) {
                changed.push(listener.group.bind.clone());
            }
            listener.origin.accept(accepts);
        }
        let of = |listener: &Listener| match (listener.tls(), &listener.group.local) {
            (Some(tls), Bind::Tcp(address)) => Some((tls.options.names.clone(), address.port())),
            // No URL leads to a path.
            (Some(_), Bind::Unix(_) | Bind::Inherited(_)) | (None, _) => None,
        };
        let hosts = Arc::new(HttpsHosts(self.list.iter().filter_map(of).collect()));
        for origin in redirecting {
            origin.redirect(hosts.clone());
        }
        self.tickets.retain(self.list.iter().filter_map(Listener::tls).map(|tls| &tls.options));
        changed
    }

    /// Duplicates for another process.
    ///
    /// # Errors
    /// The system's.
    pub fn duplicates(&self) -> io::Result<Vec<Group>> {
        self.list.iter().map(|listener| listener.group.try_clone()).collect()
    }

    /// Gives up the duplicates: from now on the sockets are the workers' alone.
    pub fn drop_duplicates(&mut self) {
        self.keeps_duplicates = false;
        self.inherited = Inherited::default();
        self.list.iter_mut().for_each(|listener| listener.group.sockets.clear());
    }

    /// Takes the files of sockets over from the process that had them.
    pub fn own_files(&mut self) {
        for listener in &mut self.list {
            if let Some(file) = &mut listener.group.file {
                file.own();
                listener.follow_mode(listener.mode);
            }
        }
    }

    /// Leaves the files of sockets to the process that has them now.
    pub fn disown_files(&mut self) {
        self.list.iter_mut().filter_map(|listener| listener.group.file.as_mut()).for_each(SocketFile::disown);
    }

    /// Removes the files of sockets: this process ends, and no other has them.
    pub fn remove_files(&mut self) {
        self.list.iter_mut().for_each(|listener| listener.group.file = None);
    }

    /// Where clients connect, as URLs.
    pub fn urls(&self) -> Vec<String> {
        self.list.iter().map(Listener::url).collect()
    }

    /// The same for one listener.
    pub fn url_of(&self, bind: &Bind) -> Option<String> {
        self.list.iter().find(|listener| listener.group.bind == *bind).map(Listener::url)
    }

    /// Adds a listener; each worker gets its sockets. There may be more sockets than workers: they come from a process that had more of them, and all
    /// must be listened on. One that the workers share each of them has under a descriptor of its own.
    fn add(&mut self, configured: Bind, mut group: Group, workers: &mut [Vec<ListenerSocket>]) -> io::Result<()> {
        let origin = Arc::new(Origin::default());
        let kept = if self.keeps_duplicates { group.try_clone()?.sockets } else { Vec::new() };
        while group.sockets.len() < self.workers {
            group.sockets.push(group.sockets[0].try_clone()?);
        }
        for (index, listener) in std::mem::replace(&mut group.sockets, kept).into_iter().enumerate() {
            workers[index % self.workers].push(ListenerSocket {
                bind: group.bind.clone(),
                origin: origin.clone(),
                listener,
            });
        }
        self.list.push(Listener { configured, group, mode: 0, origin, serves: Serves::Http });
        Ok(())
    }
}

/// Says what clients will not like about certificates.
fn warn_of_problems(tls: &ListenerTls) {
    let now = SystemTime::now();
    for certificate in tls.options.names.certificates() {
        if let Some(problem) = certificate.facts.problem(now) {
            let names = certificate.facts.dns_names.join(", ");
            tracing::warn!(names, subject = certificate.facts.subject, "{problem}");
        }
    }
}

/// Whether sockets at both addresses could not be bound without SO_REUSEPORT.
fn overlaps(one: &Bind, other: SocketAddr) -> bool {
    let Bind::Tcp(one) = one else { return false };
    one.port() == other.port() && (one.ip().is_unspecified() || other.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bind(text: &str) -> Bind {
        text.parse::<config::raw::BindText>().unwrap().0
    }

    fn wanted(texts: &[&str]) -> Vec<config::Listen> {
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        texts.iter().map(|text| config::Listen { bind: bind(text), ..free.into() }).collect()
    }

    fn listeners(configured: &[&str], keeps_duplicates: bool) -> (Listeners, Vec<Vec<ListenerSocket>>) {
        let configured = wanted(configured);
        let open = |wanted: &config::Listen| listen::open(&wanted.bind, wanted.mode, 2, &Inherited::default()).unwrap();
        Listeners::new(&configured, configured.iter().map(open).collect(), 2, keeps_duplicates, Inherited::default())
            .unwrap()
    }

    #[test]
    fn every_socket_has_a_worker_and_every_worker_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("unix:{}/listen.sock", folder.path().display());
        let configured = wanted(&["127.0.0.1:0", &path]);
        let groups =
            configured.iter().map(|one| listen::open(&one.bind, one.mode, 5, &Inherited::default()).unwrap()).collect();
        let (_, sockets) = Listeners::new(&configured, groups, 2, false, Inherited::default()).unwrap();
        let counts: Vec<usize> = sockets.iter().map(Vec::len).collect();
        assert_eq!(counts, [3 + 1, 2 + 1]);
    }

    #[test]
    fn all_are_opened_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = format!("unix:{}/listen.sock", folder.path().display());
        let (mut listeners, _sockets) = listeners(&["127.0.0.1:0"], true);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let all = wanted(&["127.0.0.2:0", &path, &taken.local_addr().unwrap().to_string()]);
        let (refused, error) = listeners.open(&all).unwrap_err();
        assert_eq!((&refused, error.kind()), (&all[2].bind, io::ErrorKind::AddrInUse));
        assert_eq!(listeners.list.len(), 1);
        assert!(!folder.path().join("listen.sock").exists(), "what was opened is closed again");

        let first = listeners.list[0].group.bind.clone();
        let opened = listeners.open(&wanted(&[&first.to_string(), "127.0.0.2:0", &path])).unwrap();
        let change = listeners.apply(opened).unwrap();
        assert_eq!((change.added.len(), change.removed.len()), (2, 0));
        assert_eq!(change.opened.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2]);
        assert_eq!(listeners.duplicates().unwrap().len(), 3);
        let opened = listeners.open(&wanted(&["127.0.0.2:0"])).unwrap();
        let change = listeners.apply(opened).unwrap();
        assert_eq!(change.removed, [first, bind(&path)]);
        assert!(change.opened.iter().all(Vec::is_empty));
        assert!(!folder.path().join("listen.sock").exists(), "its file goes with it");
    }

    #[test]
    fn an_address_can_become_the_unspecified_one() {
        let (mut listeners, sockets) = listeners(&["127.0.0.1:0"], false);
        let before = listeners.list[0].group.bind.clone();
        let Bind::Tcp(address) = before else { panic!("{before}") };
        let all = format!("0.0.0.0:{}", address.port());
        let opened = listeners.open(&wanted(&[&all])).unwrap();
        let change = listeners.apply(opened).unwrap();
        assert_eq!((change.added, change.removed), (vec![bind(&all)], vec![before]));
        assert!(sockets[0][0].origin.is_closed());
    }

    #[test]
    fn permissions_follow_the_configuration() {
        use std::os::unix::fs::MetadataExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("listen.sock");
        let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
        let text = format!("unix:{}", path.display());
        let (mut listeners, _sockets) = listeners(&[&text], false);
        assert_eq!(mode(), config::SOCKET_MODE);
        let mut open_to_all = wanted(&[&text]);
        open_to_all[0].mode = 0o666;
        let opened = listeners.open(&open_to_all).unwrap();
        assert_eq!(listeners.apply(opened).unwrap().changed, [bind(&text)]);
        assert_eq!(mode(), 0o666);
        listeners.disown_files();
        drop(listeners);
        assert!(path.exists(), "it is another's");
    }
}
