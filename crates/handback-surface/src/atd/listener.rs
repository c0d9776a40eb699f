//! The socket itself.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fs, os};

use handback_identity::UnixPeers;
use handback_tool::Pipeline;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::connection::{Settings, serve_connection};

/// Who may connect: the user that the server runs as, and nobody else.
const MODE: u32 = 0o600;

/// How long a failed accept waits: it fails when there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A UNIX socket that is listened on. Its file is removed when it is dropped.
#[derive(Debug)]
pub struct Listener {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode: what is at the path may be somebody else's by now.
    file: (u64, u64),
}

/// Listens at a path, for the own user only. Inside a runtime only.
///
/// A socket that a dead server left there is replaced. The new one is made under another name, gets
/// its mode there, and is then put in place, so that it is never open to others.
///
/// # Errors
///
/// [`io::Error`]: `AddrInUse` if somebody listens there, `AlreadyExists` if what is there is no
/// socket.
pub fn listen(path: &Path) -> io::Result<Listener> {
    check_free(path)?;
    // Beside it, and short: the path of a socket has about a hundred bytes.
    let made = path.with_file_name(format!(".{:08x}", rand::random::<u32>()));
    let placed = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, fs::Permissions::from_mode(MODE))?;
        let file = identity(&made)?;
        fs::rename(&made, path)?;
        Ok(Listener { listener, path: path.to_owned(), file })
    });
    placed.inspect_err(|_| {
        let _ = fs::remove_file(&made);
    })
}

/// Checks that nobody listens at a path, and that nothing but a socket is there. Makes nothing.
///
/// # Errors
///
/// As [`listen`].
pub fn check_free(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    match os::unix::net::UnixStream::connect(path) {
        Ok(_) => Err(io::ErrorKind::AddrInUse.into()),
        // Nobody listens: who left it is gone.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

impl Listener {
    /// Serves connections until told to stop; then ends when those are over that are answering.
    pub async fn serve(
        self,
        peers: UnixPeers,
        pipeline: Arc<Pipeline>,
        settings: Settings,
        mut stop: watch::Receiver<bool>,
    ) {
        let room = Arc::new(Semaphore::new(settings.connections));
        let settings = Arc::new(settings);
        let mut connections = JoinSet::new();
        loop {
            // Who finds no room waits in the queue of the system.
            let accepted = tokio::select! {
                accepted = self.accept(&room) => accepted,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let (stream, place) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "a connection was not accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let caller = match stream.peer_cred() {
                Ok(peer) => peers.caller(peer.uid()),
                Err(error) => {
                    tracing::warn!(%error, "who is at the other end is not known");
                    continue;
                }
            };
            let (pipeline, stop) = (Arc::clone(&pipeline), stop.clone());
            let settings = Arc::clone(&settings);
            connections.spawn(async move {
                let served = serve_connection(stream, caller, pipeline, &settings, stop).await;
                if let Err(error) = served {
                    tracing::debug!(%error, "a connection ended");
                }
                drop(place);
            });
            while connections.try_join_next().is_some() {}
        }
        drop(self);
        while connections.join_next().await.is_some() {}
    }

    async fn accept(
        &self,
        room: &Arc<Semaphore>,
    ) -> io::Result<(UnixStream, OwnedSemaphorePermit)> {
        let place = Arc::clone(room).acquire_owned().await.map_err(io::Error::other)?;
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, place))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|file| file == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
