//! The folder of one duplex, and the directory of all of them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use handback_stream::StreamKey;
use zeroize::Zeroizing;

use super::device::DeviceKey;
use super::outbox::{Chunk, Outbox};
use super::saved::Saved;
use super::{StateError, disk};

/// Bytes of a state file at most.
const STATE_BYTES_MAX: usize = 256 << 10;

/// Folders that are looked at when all are resumed.
const FOLDERS_MAX: usize = 10_000;

/// Bytes of the outbox that the server has, before it is written again without them.
const TRIM_BYTES: u64 = 1 << 20;

/// How long it is known that a duplex is finished: as long as a server knows its key.
const FINISHED_LIFE_MS: u64 = 24 * 3600 * 1000;

/// Tries to lock a file that others keep removing.
const LOCK_ATTEMPTS: u32 = 16;

/// The directory of all duplexes of an application.
#[derive(Clone, Debug)]
pub(crate) struct StateDir {
    root: PathBuf,
    key: Arc<DeviceKey>,
}

impl StateDir {
    /// Opens a directory, and makes it if it is not there.
    pub(crate) fn open(root: &Path) -> Result<Self, StateError> {
        let parts = ["duplex", "keys", "finished"].map(|part| root.join(part));
        for folder in [root].into_iter().chain(parts.iter().map(PathBuf::as_path)) {
            disk::make_folder(folder)?;
        }
        let key = Arc::new(DeviceKey::load_or_make(&root.join("device.key"))?);
        Ok(Self { root: root.to_owned(), key })
    }

    /// What the folder of a duplex is called.
    pub(crate) fn id(url: &str, handler: &str, idempotency_key: &str) -> String {
        let mut bytes = Vec::new();
        for part in [url, handler, idempotency_key] {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        let digest = digest(&SHA256, &bytes);
        digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }

    /// The folders that are there, in order.
    pub(crate) fn ids(&self) -> Result<Vec<String>, StateError> {
        let path = self.root.join("duplex");
        let entries = fs::read_dir(&path).map_err(disk::failed("read", &path))?;
        let mut ids: Vec<_> = entries
            .take(FOLDERS_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// Stream keys without a folder: a crash can leave them when a folder is cleared.
    pub(crate) fn clear_keys_alone(&self) -> Result<u32, StateError> {
        let path = self.root.join("keys");
        let entries = fs::read_dir(&path).map_err(disk::failed("read", &path))?;
        let mut cleared = 0;
        for entry in entries.take(FOLDERS_MAX).flatten() {
            let file = entry.path();
            let id = file.file_stem().and_then(|stem| stem.to_str());
            if id.is_some_and(|id| !self.root.join("duplex").join(id).exists()) {
                disk::remove(&file)?;
                cleared += 1;
            }
        }
        Ok(cleared)
    }

    /// Forgets which duplexes are finished, if that was long ago.
    pub(crate) fn clear_finished(&self, now_ms: u64) -> Result<(), StateError> {
        let before_ms = now_ms.saturating_sub(FINISHED_LIFE_MS);
        disk::remove_older(&self.root.join("finished"), before_ms, FOLDERS_MAX)
    }

    /// Takes a folder, which nobody else has then.
    pub(crate) fn take(&self, id: &str) -> Result<Folder, StateError> {
        let path = self.root.join("duplex").join(id);
        let key_path = self.root.join("keys").join(format!("{id}.key"));
        let finished_path = self.root.join("finished").join(id);
        let owned = || StateError::Owned { path: path.clone() };
        for _ in 0..LOCK_ATTEMPTS {
            disk::make_folder(&path)?;
            let lock_path = path.join("lock");
            let opened = disk::private(
                OpenOptions::new().read(true).write(true).create(true).truncate(false),
            )
            .open(&lock_path);
            // The folder may be cleared by another one just now.
            let Ok(lock) = opened else { continue };
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(owned()),
                Err(TryLockError::Error(why)) => {
                    return Err(disk::failed("lock", &lock_path)(why));
                }
            }
            if is_same(&lock, &lock_path) {
                let (id, key) = (id.to_owned(), Arc::clone(&self.key));
                let paths = (path, key_path, finished_path);
                return Ok(Folder::new(paths, id, key, lock));
            }
        }
        Err(owned())
    }
}

/// Whether a file is still the one of its name: who cleared the folder had the lock before.
fn is_same(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

/// The folder of one duplex, as long as this process has it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    key_path: PathBuf,
    finished_path: PathBuf,
    id: String,
    key: Arc<DeviceKey>,
    _lock: File,
    outbox: Option<Outbox>,
}

impl Folder {
    fn new(
        (path, key_path, finished_path): (PathBuf, PathBuf, PathBuf),
        id: String,
        key: Arc<DeviceKey>,
        lock: File,
    ) -> Self {
        Self { path, key_path, finished_path, id, key, _lock: lock, outbox: None }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the duplex stands, and the chunks that the server may not have. Nothing, if it was
    /// never saved.
    pub(crate) fn load(&mut self) -> Result<Option<(Saved, Vec<Chunk>)>, StateError> {
        let Some(mut saved) = self.saved()? else { return Ok(None) };
        let path = self.path.join("outbox");
        let (outbox, chunks) = Outbox::open(&path, &self.key.outbox, &self.id)?;
        // What a crash cuts was never told: less than the state knows of is damage.
        if outbox.next_seqno() < saved.next_seqno {
            return Err(StateError::Damaged { path, what: "chunks are missing at its end" });
        }
        saved.next_seqno = outbox.next_seqno();
        self.outbox = Some(outbox);
        Ok(Some((saved, chunks)))
    }

    /// Where the duplex stands.
    pub(crate) fn saved(&self) -> Result<Option<Saved>, StateError> {
        self.read(&self.path.join("state"))
    }

    /// Where the duplex stood when it came to its end, if it did.
    pub(crate) fn finished(&self) -> Result<Option<Saved>, StateError> {
        self.read(&self.finished_path)
    }

    fn read(&self, path: &Path) -> Result<Option<Saved>, StateError> {
        let Some(bytes) = disk::read(path, STATE_BYTES_MAX)? else { return Ok(None) };
        let saved = Saved::open(&bytes, &self.key.state, &self.id);
        saved.map(Some).map_err(|what| StateError::Damaged { path: path.to_owned(), what })
    }

    /// Starts a duplex: the outbox and the key first, so that a state is never without them.
    pub(crate) fn start(
        &mut self,
        saved: &Saved,
        stream_key: Option<&StreamKey>,
    ) -> Result<(), StateError> {
        if let Some(key) = stream_key {
            disk::replace(&self.key_path, key.dangerous_to_text().as_bytes())?;
        }
        let path = self.path.join("outbox");
        self.outbox = Some(Outbox::create(&path, &self.key.outbox, &self.id, 0, &[])?);
        self.save(saved)
    }

    /// Keeps where the duplex stands.
    pub(crate) fn save(&self, saved: &Saved) -> Result<(), StateError> {
        self.write(&self.path.join("state"), saved)
    }

    /// Keeps that the duplex came to its end, and nothing else of it.
    pub(crate) fn finish(self, saved: &Saved) -> Result<(), StateError> {
        self.write(&self.finished_path, saved)?;
        self.clear()
    }

    fn write(&self, path: &Path, saved: &Saved) -> Result<(), StateError> {
        disk::replace(path, &saved.seal(&self.key.state, &self.id)).map(drop)
    }

    /// The stream key.
    pub(crate) fn stream_key(&self) -> Result<Option<StreamKey>, StateError> {
        let Some(bytes) = disk::read(&self.key_path, 64)? else { return Ok(None) };
        let bytes = Zeroizing::new(bytes);
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let damaged = |_| StateError::Damaged { path: self.key_path.clone(), what: "not a key" };
        StreamKey::parse(text).map(Some).map_err(damaged)
    }

    /// Keeps chunks, before they are sent.
    pub(crate) fn append(&mut self, chunks: &[Chunk]) -> Result<(), StateError> {
        self.outbox.as_mut().ok_or(StateError::Broken)?.append(chunks)
    }

    /// Drops what the server has from the file, if that is worth it. `chunks` are the others.
    pub(crate) fn trim(&mut self, chunks: &[Chunk]) -> Result<(), StateError> {
        let outbox = self.outbox.as_mut().ok_or(StateError::Broken)?;
        let live: usize = chunks.iter().map(|chunk| chunk.data.len()).sum();
        if outbox.length() > 2 * live as u64 + TRIM_BYTES { outbox.rewrite(chunks) } else { Ok(()) }
    }

    /// Removes everything of this duplex, and lets it go.
    pub(crate) fn clear(self) -> Result<(), StateError> {
        // The state first: without it, the rest is nothing to resume.
        disk::remove(&self.path.join("state"))?;
        disk::remove(&self.key_path)?;
        disk::remove(&self.path)
    }
}
