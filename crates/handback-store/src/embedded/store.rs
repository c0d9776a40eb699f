//! Opening, breaking and recovering.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread;
use std::time::Duration;

use fjall::OwnedWriteBatch;

use super::acknowledged::{Acknowledged, unlink};
use super::ahead::Ahead;
use super::damage::Folder;
use super::database::Tables;
use super::journal;
use super::options::{EmbeddedOptions, OpenError};
use super::space::Space;
use crate::StoreError;

/// Logs and values in a directory.
pub struct EmbeddedStore {
    path: PathBuf,
    folder: Folder,
    options: EmbeddedOptions,
    condition: RwLock<Condition>,
    pub(super) space: Space,
    /// Held while a batch of records is put together and written: what is removed must not grow
    /// meanwhile.
    log_turn: Mutex<()>,
    /// Held while conditions are checked and the changes written.
    kv_turn: Mutex<()>,
    /// Held while the journal is written.
    journal: Mutex<Written>,
    /// Locked by us, for as long as we look at files before the database locks its own.
    _lock: File,
}

/// The state that follows the journal.
struct Written {
    ahead: Ahead,
    acknowledged: Acknowledged,
}

impl Written {
    fn new(folder: &Folder, acknowledged: Acknowledged) -> Self {
        Self { ahead: Ahead::new(&folder.database()), acknowledged }
    }
}

enum Condition {
    Open(Tables),
    /// A write failed. What the database shows may not be on the disk.
    Broken {
        cause: String,
        /// Closed only when it is recovered: closing writes what it still has.
        tables: Option<Tables>,
    },
}

impl EmbeddedStore {
    /// Opens the store in a directory, which is made if it is not there. Removes what an interrupted
    /// write left behind.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if somebody else has it open, if it is damaged, or if it cannot be used.
    pub fn open(path: impl AsRef<Path>, options: EmbeddedOptions) -> Result<Self, OpenError> {
        let path = path.as_ref();
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let lock = lock(path)?;
        let (folder, space) = (Folder::new(path), Space::new(path, options.headroom_bytes));
        if !folder.watermark().exists() && !folder.database().join("version").exists() {
            space.check_start()?;
        }
        let (tables, acknowledged) =
            Tables::open(&folder, &options).map_err(|error| space.named(error))?;
        Ok(Self {
            path: path.to_owned(),
            space,
            options,
            journal: Mutex::new(Written::new(&folder, acknowledged)),
            folder,
            condition: RwLock::new(Condition::Open(tables)),
            log_turn: Mutex::new(()),
            kv_turn: Mutex::new(()),
            _lock: lock,
        })
    }

    /// Fails if the disk has too little room for writes to be taken, with the numbers.
    ///
    /// # Errors
    ///
    /// [`OpenError::Full`].
    pub fn check_free_space(&self) -> Result<(), OpenError> {
        self.space.check_start()
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open database, kept open for as long as the guard lives.
    pub(super) fn tables(&self) -> Result<TablesGuard<'_>, StoreError> {
        let guard = self.condition.read().unwrap_or_else(PoisonError::into_inner);
        match &*guard {
            Condition::Open(_) => Ok(TablesGuard(guard)),
            Condition::Broken { cause, .. } => Err(StoreError::Broken(cause.clone())),
        }
    }

    /// The database to read from, also while it is broken: what was acknowledged is there.
    pub(super) fn tables_to_read(&self) -> Result<TablesGuard<'_>, StoreError> {
        let guard = self.condition.read().unwrap_or_else(PoisonError::into_inner);
        match &*guard {
            Condition::Open(_) | Condition::Broken { tables: Some(_), .. } => {
                Ok(TablesGuard(guard))
            }
            Condition::Broken { cause, tables: None } => Err(StoreError::Broken(cause.clone())),
        }
    }

    pub(super) fn log_turn(&self) -> MutexGuard<'_, ()> {
        self.log_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kv_turn(&self) -> MutexGuard<'_, ()> {
        self.kv_turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes and syncs a batch. If that fails, the store is broken.
    pub(super) fn commit_rows(
        &self,
        tables: TablesGuard<'_>,
        batch: OwnedWriteBatch,
    ) -> Result<(), StoreError> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        let sequence = tables.next_sequence();
        let Err(error) = batch.commit() else {
            journal.acknowledged.committed(sequence);
            journal.ahead.written();
            return Ok(());
        };
        drop((journal, tables));
        let cause = error.to_string();
        let mut condition = self.condition.write().unwrap_or_else(PoisonError::into_inner);
        if let Condition::Open(_) = &*condition {
            let broken = Condition::Broken { cause: cause.clone(), tables: None };
            let open = std::mem::replace(&mut *condition, broken);
            if let (Condition::Open(open), Condition::Broken { tables, .. }) =
                (open, &mut *condition)
            {
                *tables = Some(open);
            }
        }
        Err(StoreError::Broken(cause))
    }

    /// As [`Log::recover`](crate::Log::recover).
    pub(super) fn reopen(&self) -> Result<(), StoreError> {
        // Whoever looks whether all is well keeps nobody waiting.
        let is_open = matches!(
            *self.condition.read().unwrap_or_else(PoisonError::into_inner),
            Condition::Open(_)
        );
        if is_open {
            return self.space.check(0);
        }
        let mut condition = self.condition.write().unwrap_or_else(PoisonError::into_inner);
        if let Condition::Broken { tables, .. } = &mut *condition {
            // As long as the disk takes nothing, what is open goes on being read.
            probe(&self.path).map_err(OpenError::from)?;
            drop(tables.take());
            let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
            journal.acknowledged.forget_lengths().map_err(OpenError::from)?;
            journal::rewrite(&self.folder.database()).map_err(OpenError::from)?;
            let (tables, acknowledged) = Tables::open(&self.folder, &self.options)?;
            *condition = Condition::Open(tables);
            *journal = Written::new(&self.folder, acknowledged);
            tracing::info!("the store was reopened");
        }
        drop(condition);
        self.space.check(0)
    }
}

/// Syncs the watermark, and takes journals off it that the engine has removed. Commits do not wait for
/// the sync.
pub(super) fn tend_watermark(store: &EmbeddedStore) -> std::io::Result<()> {
    let taken = {
        let mut journal = store.journal.lock().unwrap_or_else(PoisonError::into_inner);
        journal.acknowledged.take_removed()
    };
    let (file, removed) = taken?;
    file.sync_data()?;
    removed.into_iter().for_each(|id| unlink(&store.folder, id));
    Ok(())
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("path", &self.path).finish_non_exhaustive()
    }
}

/// An open database, borrowed.
pub(super) struct TablesGuard<'a>(RwLockReadGuard<'a, Condition>);

impl std::ops::Deref for TablesGuard<'_> {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        match &*self.0 {
            Condition::Open(tables) | Condition::Broken { tables: Some(tables), .. } => tables,
            Condition::Broken { tables: None, .. } => unreachable!("the guard is made of tables"),
        }
    }
}

/// Bytes that are written to see whether a disk takes any.
const PROBE_BYTES: usize = 64 << 10;

/// Whether the disk takes and keeps what is written.
fn probe(path: &Path) -> std::io::Result<()> {
    let path = path.join("probe");
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&[0; PROBE_BYTES])?;
        file.sync_all()
    });
    let removed = fs::remove_file(&path);
    written.and(removed)
}

/// How often and how long to wait for another's lock. A process that is just being started has
/// copies of all files of the one that starts it, locked ones too, for a moment.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Locks a directory for as long as the file lives. fjall has a lock of its own, but takes it after
/// we have looked at its journals.
pub(super) fn lock(path: &Path) -> Result<File, OpenError> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path.join("lock"))?;
    lock_file(&file)?;
    fs::create_dir_all(Folder::new(path).database())?;
    // The name of the database's own directory must survive a loss of power, like what is in it.
    File::open(path)?.sync_all()?;
    Ok(file)
}

/// The same without making anything: a directory without a lock file is not locked.
pub(super) fn lock_if_there(path: &Path) -> Result<Option<File>, OpenError> {
    match File::open(path.join("lock")) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
        Ok(file) => lock_file(&file).map(|()| Some(file)),
    }
}

fn lock_file(file: &File) -> Result<(), OpenError> {
    let mut tries = 1;
    while let Err(error) = file.try_lock() {
        match error {
            TryLockError::WouldBlock if tries < LOCK_TRIES => thread::sleep(LOCK_PAUSE),
            TryLockError::WouldBlock => return Err(OpenError::Locked),
            TryLockError::Error(error) => return Err(OpenError::Io(error)),
        }
        tries += 1;
    }
    Ok(())
}
