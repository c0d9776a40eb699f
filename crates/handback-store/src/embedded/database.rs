//! The database beneath: its keyspaces, and how it is opened.

use std::fs;
use std::io;
use std::path::Path;

use fjall::config::{BlockSizePolicy, FilterPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Snapshot};

use super::options::{EmbeddedOptions, OpenError};
use super::{background, journal};

/// The keyspaces. A version of the layout is part of the names: another one does not mix with it.
const RECORDS: &str = "records-1";
const NOTES: &str = "notes-1";
const REMOVED: &str = "removed-1";
const VALUES: &str = "values-1";

/// Bytes of records that are read and checked together.
const RECORD_BLOCK_BYTES: u32 = 16 << 10;

/// An open database.
pub(super) struct Tables {
    database: Database,
    /// Log and number to record.
    pub(super) records: Keyspace,
    /// Log to note.
    pub(super) notes: Keyspace,
    /// Logs that are removed, but of which there are still records.
    pub(super) removed: Keyspace,
    /// Values by key, and keys by the end of their life.
    pub(super) values: Keyspace,
}

impl Tables {
    pub(super) fn open(path: &Path, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        fs::create_dir_all(path)?;
        if !clear_unfinished(path)? && journal::journals(path)?.is_empty() {
            // fjall would open it, and count its writes from 0 again, beneath what is there.
            return Err(OpenError::Damaged("its journal is missing".to_owned()));
        }
        let checked = journal::check(path)?;
        if checked.torn_bytes > 0 {
            tracing::warn!(
                bytes = checked.torn_bytes,
                "a write was interrupted, and its remains were removed from the journal"
            );
        }
        // fjall asks for the working directory, whatever the path, and panics if it was removed.
        if std::env::current_dir().is_err() {
            std::env::set_current_dir("/")?;
        }
        // fjall panics on some kinds of damage. Nothing of ours is left half done by that.
        background::stepping_back(|| Self::open_checked(path, options))
            .unwrap_or_else(|_| Err(OpenError::Damaged("the database cannot be read".to_owned())))
    }

    fn open_checked(path: &Path, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        let database = Database::builder(path)
            .cache_size(options.cache_bytes)
            .worker_threads(options.workers)
            .open()?;
        let known = [RECORDS, NOTES, REMOVED, VALUES];
        let names = database.list_keyspace_names();
        if let Some(foreign) = names.iter().find(|name| !known.contains(&name.as_ref())) {
            return Err(OpenError::Format(format!("it has a part {foreign}")));
        }
        let create = || KeyspaceCreateOptions::default().max_memtable_size(options.memtable_bytes);
        // Records are read in ranges, for which a filter is of no use, and blocks may be large.
        let create_records = || {
            create()
                .filter_policy(FilterPolicy::disabled())
                .data_block_size_policy(BlockSizePolicy::all(RECORD_BLOCK_BYTES))
        };
        let keyspace = |name| database.keyspace(name, create);
        Ok(Self {
            records: database.keyspace(RECORDS, create_records)?,
            notes: keyspace(NOTES)?,
            removed: keyspace(REMOVED)?,
            values: keyspace(VALUES)?,
            database,
        })
    }

    /// What is committed now. Everything is read through one of these: a keyspace itself shows the
    /// first half of a batch before the second.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.database.snapshot()
    }

    /// An empty batch, which is synced when it is committed.
    pub(super) fn batch(&self, rows: usize) -> OwnedWriteBatch {
        OwnedWriteBatch::with_capacity(self.database.clone(), rows)
            .durability(Some(PersistMode::SyncData))
    }
}

/// Removes what is left of a database whose creation was interrupted: fjall neither takes it for a
/// database nor makes a new one over it. Nothing can have been committed to it, which is checked.
/// Gives whether there is nothing now.
fn clear_unfinished(path: &Path) -> io::Result<bool> {
    let version = path.join("version");
    let complete = fs::metadata(&version).is_ok_and(|metadata| metadata.len() >= 4);
    let tables = path.join("keyspaces");
    let has_tables = fs::read_dir(&tables).is_ok_and(|mut entries| entries.next().is_some());
    if complete || has_tables || !journal::are_blank(path)? {
        return Ok(false);
    }
    for (_, journal) in journal::journals(path)? {
        fs::remove_file(journal)?;
    }
    match fs::remove_file(version) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(true),
    }
}
