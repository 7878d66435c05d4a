//! The file of a Unix socket: who may connect, whether a process listens behind it, and who removes it.

use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use socket2::{Domain, SockAddr, Socket, Type};

use super::listen::BACKLOG;

/// How long a process may take between binding a socket and listening on it.
const STARTING: Duration = Duration::from_millis(50);

/// The file of a socket that this process listens on. Dropped, it is removed, if it is this process' own.
#[derive(Debug)]
pub struct SocketFile {
    path: Arc<Path>,
    /// Device and inode: another process may have put another file in its place.
    id: Option<(u64, u64)>,
    is_own: bool,
}

/// Listens at a path. A file that a process left behind is replaced; anything else at the path is an error.
///
/// # Errors
/// The system's, in words that say what to do; [`ErrorKind::AddrInUse`] when another process listens there.
pub fn bind(path: &Arc<Path>, mode: u32) -> io::Result<(UnixListener, SocketFile)> {
    let socket = new_socket()?;
    let address = SockAddr::unix(path)?;
    let bound = socket.bind(&address).or_else(|error| match error.kind() {
        ErrorKind::AddrInUse => remove_stale(path).and_then(|()| socket.bind(&address)),
        _ => Err(error),
    });
    bound.map_err(|error| in_words(error, path))?;
    // Before it listens: until then nobody can connect.
    let handle = open(path)?;
    let id = Some(id_of(&handle.metadata()?));
    let file = SocketFile { path: path.clone(), id, is_own: true };
    set_mode_of(&handle, mode)?;
    socket.listen(BACKLOG)?;
    Ok((OwnedFd::from(socket).into(), file))
}

impl SocketFile {
    /// The file of a socket that another process has bound; it is that one's until [`own`](Self::own).
    pub fn of_other(path: Arc<Path>) -> Self {
        SocketFile { id: id_at(&path), path, is_own: false }
    }

    /// Whether this process removes it.
    pub fn is_own(&self) -> bool {
        self.is_own
    }

    /// From now on this process removes it.
    pub fn own(&mut self) {
        self.is_own = true;
    }

    /// From now on it belongs to the process that has the socket.
    pub fn disown(&mut self) {
        self.is_own = false;
    }

    /// Sets who may connect; whether that is a change.
    ///
    /// # Errors
    /// The system's, and [`ErrorKind::NotFound`] when another file has its place.
    pub fn set_mode(&self, mode: u32) -> io::Result<bool> {
        let handle = open(&self.path)?;
        let file = handle.metadata()?;
        if self.id != Some(id_of(&file)) {
            return Err(io::Error::new(ErrorKind::NotFound, "another file is in the place of the socket's"));
        }
        let is_changed = file.mode() & 0o777 != mode;
        if is_changed {
            set_mode_of(&handle, mode)?;
        }
        Ok(is_changed)
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.is_own
            && self.id.is_some()
            && id_at(&self.path) == self.id
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "cannot remove the file of a socket");
        }
    }
}

fn new_socket() -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// The file itself, whatever has its name later; an error if it is a link or anything else than a socket.
fn open(path: &Path) -> io::Result<File> {
    let handle = File::from(rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?);
    if handle.metadata()?.file_type().is_socket() {
        Ok(handle)
    } else {
        Err(io::Error::new(ErrorKind::NotFound, "another kind of file is in the place of the socket's"))
    }
}

/// Sets permissions of a file that is open. A descriptor that only names a file is no argument of `fchmod`; the path of it is one of `chmod`.
fn set_mode_of(handle: &File, mode: u32) -> io::Result<()> {
    fs::set_permissions(format!("/proc/self/fd/{}", handle.as_raw_fd()), Permissions::from_mode(mode))
}

fn id_of(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn id_at(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|file| id_of(&file))
}

/// Removes the file of a socket that nobody listens on.
fn remove_stale(path: &Path) -> io::Result<()> {
    let in_use = || {
        let text = "another process listens there already. Stop it, choose another path, or set `takeover` in both to replace a running weir without losing a connection.";
        io::Error::new(ErrorKind::AddrInUse, text)
    };
    let file = match fs::symlink_metadata(path) {
        Ok(file) => file,
        // Whoever left it removed it in this moment.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !file.file_type().is_socket() {
        let text = "another kind of file is there already. Remove it, or choose another path.";
        return Err(io::Error::new(ErrorKind::AlreadyExists, text));
    }
    // Without blocking: a queue that is full (`WouldBlock`) is one of a process that listens.
    let connect = || new_socket()?.connect(&SockAddr::unix(path)?);
    let refused = connect().or_else(|error| match error.kind() {
        // A process that is starting has bound its socket and listens in a moment.
        ErrorKind::ConnectionRefused => {
            std::thread::sleep(STARTING);
            connect()
        }
        _ => Err(error),
    });
    match refused {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let text =
                "the file of a socket is there already that this user may not use. Remove it, or choose another path.";
            return Err(io::Error::new(ErrorKind::AlreadyExists, text));
        }
        Ok(()) | Err(_) => return Err(in_use()),
    }
    // A process that came first may have replaced it since.
    if id_at(path).is_some_and(|now| now != id_of(&file)) {
        return Err(in_use());
    }
    tracing::info!(path = %path.display(), "a socket is replaced that nobody listens on");
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What the system says, with what it is about.
fn in_words(error: io::Error, path: &Path) -> io::Error {
    let folder = path.parent().unwrap_or(path).display();
    let text = match error.kind() {
        _ if error.get_ref().is_some() => return error,
        ErrorKind::NotFound => format!("the folder {folder} does not exist. Create it, or choose another path."),
        ErrorKind::NotADirectory => format!("{folder} is not a folder."),
        ErrorKind::PermissionDenied => format!("permission denied: this user may not write to the folder {folder}."),
        _ => return error,
    };
    io::Error::new(error.kind(), text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn folder() -> (tempfile::TempDir, Arc<Path>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("listen.sock").into();
        (folder, path)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn permissions_are_those_of_the_configuration_whatever_the_umask() {
        let (_folder, path) = folder();
        for wanted in [0o600, 0o666, 0o060] {
            let (_listener, file) = bind(&path, wanted).unwrap();
            assert_eq!(mode(&path), wanted);
            assert!(!file.set_mode(wanted).unwrap());
            assert!(file.set_mode(0o620).unwrap());
            assert_eq!(mode(&path), 0o620);
        }
    }

    #[test]
    fn a_file_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
        let (_folder, path) = folder();
        drop(UnixListener::bind(&path).unwrap());
        let (listener, file) = bind(&path, 0o600).unwrap();
        let refused = bind(&path, 0o600).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::AddrInUse);
        assert!(UnixStream::connect(&path).is_ok(), "it is still there");
        drop(file);
        assert!(!path.exists());
        drop(listener);
    }

    #[test]
    fn permissions_of_what_has_its_name_later_stay() {
        let (folder, path) = folder();
        let (_listener, file) = bind(&path, 0o600).unwrap();
        let other = folder.path().join("other");
        fs::write(&other, "mine").unwrap();
        fs::set_permissions(&other, Permissions::from_mode(0o600)).unwrap();
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(file.set_mode(0o666).is_err());
        assert_eq!(mode(&other), 0o600);
        fs::remove_file(&path).unwrap();
        let _another = UnixListener::bind(&path).unwrap();
        let before = mode(&path);
        assert!(file.set_mode(0o666).is_err(), "another socket");
        assert_eq!(mode(&path), before);
    }

    #[test]
    fn a_process_that_is_about_to_listen_keeps_its_file() {
        let (_folder, path) = folder();
        let starting = new_socket().unwrap();
        starting.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        let id = id_at(&path);
        std::thread::scope(|scope| {
            let refused = scope.spawn(|| bind(&path, 0o600).unwrap_err().kind());
            starting.listen(1).unwrap();
            assert_eq!(refused.join().unwrap(), ErrorKind::AddrInUse);
        });
        assert_eq!(id_at(&path), id);
    }

    #[test]
    fn a_queue_that_is_full_is_one_in_use() {
        let (_folder, path) = folder();
        let socket = new_socket().unwrap();
        socket.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        socket.listen(0).unwrap();
        let clients: Vec<_> = std::iter::repeat_with(|| {
            let client = new_socket().unwrap();
            client.connect(&SockAddr::unix(&path).unwrap()).map(|()| client)
        })
        .take_while(Result::is_ok)
        .collect();
        assert_eq!(bind(&path, 0o600).unwrap_err().kind(), ErrorKind::AddrInUse);
        drop(clients);
    }

    #[test]
    fn what_is_no_socket_stays() {
        let (folder, path) = folder();
        fs::write(&path, "mine").unwrap();
        let refused = bind(&path, 0o600).unwrap_err().to_string();
        assert!(refused.contains("another kind of file"), "{refused}");
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        let missing = folder.path().join("no/listen.sock").into();
        let refused = bind(&missing, 0o600).unwrap_err().to_string();
        assert!(refused.contains("does not exist"), "{refused}");
        let below_a_file = path.join("listen.sock").into();
        assert!(bind(&below_a_file, 0o600).unwrap_err().to_string().contains("is not a folder"));
    }

    #[test]
    fn only_its_own_file_is_removed() {
        let (_folder, path) = folder();
        let (_listener, mut file) = bind(&path, 0o600).unwrap();
        file.disown();
        drop(file);
        assert!(path.exists(), "given away");
        let mut file = SocketFile::of_other(path.clone());
        file.own();
        fs::rename(&path, path.with_extension("moved")).unwrap();
        fs::write(&path, "another's").unwrap();
        drop(file);
        assert!(path.exists(), "another file has its place");
    }
}
