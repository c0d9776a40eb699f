//! What outlives the server: a disk in memory that fails by plan, or a real directory.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use handback_store::faulty::{FaultPlan, FaultyDisk, Image};
use handback_store::{
    Batch, EmbeddedOptions, EmbeddedStore, Log, LogId, ReadLimit, Record, StoreError,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use tempfile::TempDir;

use crate::report::{Broken, Engine};

/// Of a thousand writes, so many meet a fault of the disk.
const FAULTS_PER_MILLE: u32 = 15;

/// Writes that a disk which forgets does forget.
const FORGOTTEN: usize = 3;

pub(crate) enum Disk {
    Memory(FaultyDisk),
    Embedded(Directory),
}

impl Disk {
    pub(crate) fn new(seed: u64, engine: Engine, broken: Broken) -> Result<Self, String> {
        Ok(match engine {
            Engine::Memory => {
                let plan = FaultPlan::new(seed).random(FAULTS_PER_MILLE);
                Self::Memory(FaultyDisk::new(match broken {
                    Broken::Syncs => plan.forgetful(FORGOTTEN),
                    Broken::Torn => plan.unchecked(),
                    _ => plan,
                }))
            }
            Engine::Embedded => Self::Embedded(Directory::new(seed)?),
        })
    }

    /// Starts a process on it.
    pub(crate) fn open(&self) -> Result<Box<dyn Log>, String> {
        match self {
            Self::Memory(disk) => Ok(Box::new(disk.open())),
            Self::Embedded(directory) => Ok(Box::new(directory.open()?)),
        }
    }

    pub(crate) fn crash(&self) {
        match self {
            Self::Memory(disk) => disk.crash(),
            Self::Embedded(directory) => directory.crash(),
        }
    }

    pub(crate) fn is_crashed(&self) -> bool {
        match self {
            Self::Memory(disk) => disk.is_crashed(),
            Self::Embedded(directory) => !directory.lock().is_up,
        }
    }

    /// How often it crashed, and how many writes were torn by that.
    pub(crate) fn counts(&self) -> (u64, u64) {
        match self {
            Self::Memory(disk) => (disk.crashes(), disk.torn()),
            Self::Embedded(directory) => {
                let inner = directory.lock();
                (inner.crashes, inner.torn)
            }
        }
    }
}

/// A directory with the real engine. When the power fails, another directory gets what the first
/// one had at the last sync, and some sectors of what was written since.
#[derive(Clone)]
pub(crate) struct Directory(Arc<Mutex<Inner>>);

struct Inner {
    parent: TempDir,
    rng: StdRng,
    life: u64,
    is_up: bool,
    /// What the next process finds.
    image: Image,
    crashes: u64,
    torn: u64,
}

impl Inner {
    fn path(&self) -> PathBuf {
        self.parent.path().join(self.life.to_string())
    }

    fn crash(&mut self, image: Image) {
        (self.image, self.is_up) = (image, false);
        self.crashes += 1;
    }
}

impl Directory {
    fn new(seed: u64) -> Result<Self, String> {
        // In memory if there is such a thing: the disk is not what is slow here.
        let parent = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new());
        let inner = Inner {
            parent: parent.map_err(|error| format!("no directory: {error}"))?,
            rng: StdRng::seed_from_u64(seed),
            life: 0,
            is_up: false,
            image: Image::default(),
            crashes: 0,
            torn: 0,
        };
        Ok(Self(Arc::new(Mutex::new(inner))))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<EmbeddedLife, String> {
        let mut inner = self.lock();
        // The process before is gone; its files are not needed any more.
        let _ = fs::remove_dir_all(inner.path());
        inner.life += 1;
        let path = inner.path();
        let written = fs::create_dir(&path).and_then(|()| inner.image.write(&path));
        written.map_err(|error| format!("no directory: {error}"))?;
        let options = EmbeddedOptions::new().workers(1).cache_bytes(1 << 20);
        let store = EmbeddedStore::open(&path, options);
        let store = store.map_err(|error| format!("the store does not open: {error}"))?;
        inner.is_up = true;
        Ok(EmbeddedLife { directory: self.clone(), life: inner.life, store })
    }

    fn crash(&self) {
        let mut inner = self.lock();
        if inner.is_up {
            let image = Image::of(&inner.path()).unwrap_or_default();
            inner.crash(image);
        }
    }
}

/// The real engine, for as long as the process lives.
struct EmbeddedLife {
    directory: Directory,
    life: u64,
    store: EmbeddedStore,
}

impl fmt::Debug for EmbeddedLife {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedLife").field("life", &self.life).finish_non_exhaustive()
    }
}

impl EmbeddedLife {
    fn alive(&self) -> Result<MutexGuard<'_, Inner>, StoreError> {
        let inner = self.directory.lock();
        match inner.is_up && inner.life == self.life {
            true => Ok(inner),
            false => Err(crashed()),
        }
    }

    /// The power fails while a batch is written, or right after.
    fn commit_and_crash(
        &self,
        inner: &mut Inner,
        batch: &Batch,
        is_synced: bool,
    ) -> Result<(), StoreError> {
        let unread = |error: std::io::Error| StoreError::Unavailable(error.to_string());
        let before = Image::of(&inner.path()).map_err(unread)?;
        self.store.commit(batch)?;
        let after = Image::of(&inner.path()).map_err(unread)?;
        let seed = inner.rng.random();
        let (image, lost) = if is_synced { (after, 0) } else { before.torn(&after, seed) };
        // A batch is on the disk before the watermark is written.
        let image = if is_synced { image } else { image.with_file_of(&before, "watermark") };
        inner.torn += u64::from(lost > 0);
        inner.crash(image);
        Err(crashed())
    }
}

fn crashed() -> StoreError {
    StoreError::Unavailable("the process has crashed".to_owned())
}

impl Log for EmbeddedLife {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        let mut inner = self.alive()?;
        let (draw, kind) = (inner.rng.random_range(0..1000), inner.rng.random_range(0..5));
        if draw >= FAULTS_PER_MILLE {
            return self.store.commit(batch);
        }
        match kind {
            0 => Err(StoreError::Full),
            1 => Err(StoreError::Unavailable("by plan".to_owned())),
            kind => self.commit_and_crash(&mut inner, batch, kind == 2),
        }
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        let _inner = self.alive()?;
        self.store.read(log, from, limit)
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        let _inner = self.alive()?;
        self.store.last(log)
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        let _inner = self.alive()?;
        self.store.note(log)
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        let _inner = self.alive()?;
        self.store.noted(after, limit)
    }

    fn recover(&self) -> Result<(), StoreError> {
        let _inner = self.alive()?;
        self.store.recover()
    }
}
