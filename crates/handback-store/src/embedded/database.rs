//! The database beneath: its keyspaces, and how it is opened.

use std::fs;
use std::io;

use fjall::config::{BlockSizePolicy, FilterPolicy};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode, Snapshot};

use super::acknowledged::Acknowledged;
use super::background;
use super::damage::{Damage, Folder};
use super::manifest::Depth;
use super::options::{EmbeddedOptions, OpenError};
use super::survey::{Survey, write_format};

/// The keyspaces. A version of the layout is part of the names: another one does not mix with it.
const RECORDS: &str = "records-1";
const NOTES: &str = "notes-1";
const REMOVED: &str = "removed-1";
const VALUES: &str = "values-1";

/// The keyspace in which the engine has the names of the others.
const META_ID: u64 = 0;

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
    /// Opens the database of a store, or makes it, once its files were looked at.
    pub(super) fn open(
        folder: &Folder,
        options: &EmbeddedOptions,
    ) -> Result<(Self, Acknowledged), OpenError> {
        fs::create_dir_all(folder.database())?;
        let mut survey = Survey::run(folder, Depth::Start)?;
        survey.refuse_damage()?;
        survey.prepare()?;
        // fjall asks for the working directory, whatever the path, and panics if it was removed.
        if std::env::current_dir().is_err() {
            std::env::set_current_dir("/")?;
        }
        let is_recorded = survey.record.is_some();
        // fjall panics on some kinds of damage. Nothing of ours is left half done by that.
        let opened = background::stepping_back(|| Self::open_checked(folder, options, is_recorded))
            .unwrap_or_else(|_| Err(unreadable(folder, "it cannot be read")));
        let tables = opened.map_err(|error| named(folder, error))?;
        let acknowledged = Acknowledged::start(folder, tables.ids(), &survey.last())?;
        write_format(folder)?;
        Ok((tables, acknowledged))
    }

    fn open_checked(
        folder: &Folder,
        options: &EmbeddedOptions,
        is_recorded: bool,
    ) -> Result<Self, OpenError> {
        let opened = Database::builder(folder.database())
            .cache_size(options.cache_bytes)
            .worker_threads(options.workers)
            .open();
        let database = opened.map_err(|error| match OpenError::from(error) {
            OpenError::Damaged(damage) => unreadable(folder, &damage.what),
            OpenError::Format(why) => {
                OpenError::Format(format!("{}: {why}", folder.database().join("version").display()))
            }
            other => other,
        })?;
        let known = [RECORDS, NOTES, REMOVED, VALUES];
        let names = database.list_keyspace_names();
        if let Some(foreign) = names.iter().find(|name| !known.contains(&name.as_ref())) {
            return Err(OpenError::Format(format!("it has a part {foreign}")));
        }
        // The engine has removed what it does not know, and would make it again, empty.
        if is_recorded && let Some(lost) = known.iter().find(|name| !has(&names, name)) {
            return Err(unreadable(folder, &format!("its part {lost} is missing")));
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

    /// The number that the next batch has, or one below it.
    pub(super) fn next_sequence(&self) -> u64 {
        self.database.seqno()
    }

    /// The folders below `keyspaces/`.
    fn ids(&self) -> Vec<u64> {
        let mut ids = vec![META_ID];
        ids.extend([&self.records, &self.notes, &self.removed, &self.values].map(Keyspace::id));
        ids
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

fn has<T: AsRef<str>>(names: &[T], name: &str) -> bool {
    names.iter().any(|known| known.as_ref() == name)
}

/// A database that the engine does not open.
fn unreadable(folder: &Folder, why: &str) -> OpenError {
    let what = format!("cannot be opened: {why}");
    OpenError::Damaged(Damage::new(folder.store(), &folder.database(), what))
}

/// The same error, or the damaged file that is the cause of it. A full disk is no damage: a store that
/// is reopened keeps its readers waiting, and is not read to its end for that.
fn named(folder: &Folder, error: OpenError) -> OpenError {
    let may_be_damage = match &error {
        OpenError::Damaged(_) => true,
        OpenError::Io(error) => {
            use io::ErrorKind::{InvalidData, NotFound, UnexpectedEof};
            matches!(error.kind(), InvalidData | NotFound | UnexpectedEof)
        }
        _ => false,
    };
    if !may_be_damage {
        return error;
    }
    let found = Survey::run(folder, Depth::Whole).and_then(|survey| survey.refuse_damage());
    match found {
        Err(damaged @ OpenError::Damaged(_)) => damaged,
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_not_taken_for_damage() {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::new(directory.path());
        // Without its watermark and its database: damaged, if the files are read.
        fs::write(folder.format(), "handback store 2\n").unwrap();
        let named = |kind: io::ErrorKind| named(&folder, OpenError::Io(kind.into()));
        assert!(matches!(named(io::ErrorKind::StorageFull), OpenError::Io(_)));
        assert!(matches!(named(io::ErrorKind::NotFound), OpenError::Damaged(_)));
    }
}
