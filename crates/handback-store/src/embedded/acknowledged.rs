//! Keeps the watermark and the second names of the journals up to date while a store is open.
//!
//! The engine removes a journal by itself, once its rows are in tables. Whoever finds a journal
//! missing later could not tell that from a file that was deleted. So each journal has a second name
//! in `journals/`, which is removed only after the watermark no longer lists the journal. A journal
//! that is on the list and missing is linked back from there, and replayed: rows that are in tables
//! already are skipped.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;

use super::damage::Folder;
use super::journal::journals;
use super::watermark::{Known, Record, Watermark};

/// First bytes of a journal of which one is not zero, if anything was written to the journal.
const SAMPLE: usize = 16;

/// What was acknowledged, written down as it happens.
#[derive(Debug)]
pub(super) struct Acknowledged {
    folder: Folder,
    watermark: Watermark,
    record: Record,
    has_warned: bool,
}

impl Acknowledged {
    /// Begins with the journals that are there now. `last` has the number of the last write in a
    /// journal.
    pub(super) fn start(
        folder: &Folder,
        keyspaces: Vec<u64>,
        last: &BTreeMap<u64, u64>,
    ) -> io::Result<Self> {
        let mut record = Record { keyspaces, ..Record::default() };
        record.has_links = link_all(folder)?;
        for (id, path) in journals(&folder.database())? {
            // The engine makes and removes a journal at any moment. A new one is found at the next write.
            if record.has_links && !folder.link(id).exists() {
                continue;
            }
            let Ok(metadata) = fs::metadata(path) else {
                // The engine has removed it meanwhile, and all older journals before it.
                record.journals.clear();
                continue;
            };
            let last = last.get(&id).copied().unwrap_or_default();
            record.journals.push(Known { id, length: metadata.len(), last });
        }
        let watermark = Watermark::create(&folder.watermark(), &mut record)?;
        unlink_others(folder, &record)?;
        Ok(Self { folder: folder.clone(), watermark, record, has_warned: false })
    }

    /// After a batch was synced, and before it is acknowledged. `sequence` is above the number of
    /// every batch before it.
    pub(super) fn committed(&mut self, sequence: u64) {
        if let Err(error) = self.try_committed(sequence) {
            // The batch itself is durable.
            if !self.has_warned {
                tracing::warn!(%error, "the watermark was not written: a cut journal may go unnoticed");
            }
            self.has_warned = true;
        }
    }

    fn try_committed(&mut self, sequence: u64) -> io::Result<()> {
        let next = self.record.journals.last().map_or(0, |active| active.id + 1);
        // Not opened: the proof goes on where a process has no file descriptor left.
        if self.folder.journal(next).try_exists()? {
            return self.rotated(next, sequence);
        }
        if let Some(active) = self.record.journals.last_mut() {
            active.last = sequence;
        }
        self.watermark.write(&mut self.record)
    }

    /// The engine has begun another journal, before the last write or after it. If this fails, the
    /// journal is not on the list, and the next write tries again.
    fn rotated(&mut self, id: u64, sequence: u64) -> io::Result<()> {
        let file = File::open(self.folder.journal(id))?;
        // The engine may be about to make it: what is recorded is durable first.
        let length = file.metadata()?.len();
        file.sync_all()?;
        File::open(self.folder.database())?.sync_all()?;
        let mut first = [0; SAMPLE];
        let read = file.read_at(&mut first, 0)?;
        let is_blank = first.iter().take(read).all(|byte| *byte == 0);
        // A listed journal without a second name would be taken for a removed one later.
        self.record.has_links = link_all(&self.folder)?;
        if is_blank && let Some(sealed) = self.record.journals.last_mut() {
            sealed.last = sequence;
        }
        let last = if is_blank { 0 } else { sequence };
        self.record.journals.push(Known { id, length, last });
        self.watermark.write(&mut self.record)?;
        self.watermark.file().sync_data()
    }

    /// Takes journals that the engine has removed off the list. Gives the file, which the caller
    /// syncs, and the journals, whose second names can be removed after that.
    pub(super) fn take_removed(&mut self) -> io::Result<(Arc<File>, Vec<u64>)> {
        let active = self.record.journals.last().map(|active| active.id);
        let is_gone =
            |known: &&Known| Some(known.id) != active && !self.folder.journal(known.id).exists();
        // The engine removes the oldest first. A gap is somebody else's, or of this moment.
        let count = self.record.journals.iter().take_while(is_gone).count();
        let gone: Vec<u64> = self.record.journals.drain(..count).map(|known| known.id).collect();
        if !gone.is_empty() {
            self.watermark.write(&mut self.record)?;
        }
        Ok((self.watermark.file(), gone))
    }

    /// Before journals are written anew, and get shorter: nothing is known of their lengths.
    pub(super) fn forget_lengths(&mut self) -> io::Result<()> {
        self.record.journals.iter_mut().for_each(|known| known.length = 0);
        for _ in 0..2 {
            self.watermark.write(&mut self.record)?;
        }
        self.watermark.file().sync_data()
    }
}

impl Drop for Acknowledged {
    fn drop(&mut self) {
        let _ = self.watermark.file().sync_data();
    }
}

/// Removes the second name of a journal.
pub(super) fn unlink(folder: &Folder, id: u64) {
    if let Err(error) = fs::remove_file(folder.link(id)) {
        tracing::debug!(%error, id, "the second name of a journal was not removed");
    }
}

/// Removes second names of journals that are not on the list.
fn unlink_others(folder: &Folder, record: &Record) -> io::Result<()> {
    for (id, _) in journals(&folder.links())? {
        if !record.journals.iter().any(|known| known.id == id) {
            unlink(folder, id);
        }
    }
    Ok(())
}

/// Gives every journal its second name. False if the file system has no such thing.
pub(super) fn link_all(folder: &Folder) -> io::Result<bool> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder.links())?;
    let mut is_changed = false;
    for (id, path) in journals(&folder.database())? {
        let link = folder.link(id);
        if is_same_file(&path, &link) {
            continue;
        }
        remove_if_there(&link)?;
        match fs::hard_link(&path, &link) {
            // The engine has removed it since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(error),
            Err(_) => return Ok(false),
            Ok(()) => is_changed = true,
        }
    }
    if is_changed {
        File::open(folder.links())?.sync_all()?;
        File::open(folder.store())?.sync_all()?;
    }
    Ok(true)
}

/// Removes a file. One that is not there is removed already.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identity = |path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(one), identity(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the journals of a database, and nothing else.
    fn folder(journals: u64) -> (tempfile::TempDir, Folder) {
        let directory = tempfile::tempdir().unwrap();
        let folder = Folder::new(directory.path());
        fs::create_dir_all(folder.database()).unwrap();
        for id in 0..journals {
            fs::write(folder.journal(id), [1; 100]).unwrap();
        }
        (directory, folder)
    }

    fn listed(acknowledged: &Acknowledged) -> Vec<u64> {
        acknowledged.record.journals.iter().map(|known| known.id).collect()
    }

    #[test]
    fn journals_are_taken_off_the_list_from_the_oldest_and_without_a_gap() {
        let (_directory, folder) = folder(4);
        let mut acknowledged = Acknowledged::start(&folder, vec![0], &BTreeMap::new()).unwrap();
        // The older one is still there, so that the engine has not removed this one.
        fs::remove_file(folder.journal(1)).unwrap();
        assert!(acknowledged.take_removed().unwrap().1.is_empty());
        assert_eq!(listed(&acknowledged), [0_u64, 1, 2, 3]);
        fs::remove_file(folder.journal(0)).unwrap();
        assert_eq!(acknowledged.take_removed().unwrap().1, [0_u64, 1]);
        assert_eq!(listed(&acknowledged), [2_u64, 3]);
    }

    #[test]
    fn a_journal_without_a_second_name_is_not_on_the_list() {
        let (_directory, folder) = folder(1);
        let mut acknowledged = Acknowledged::start(&folder, vec![0], &BTreeMap::new()).unwrap();
        acknowledged.committed(5);
        fs::write(folder.journal(1), [1; 100]).unwrap();
        // Something is in the place of the second name, and is no file.
        fs::create_dir(folder.link(1)).unwrap();
        acknowledged.committed(6);
        assert_eq!(listed(&acknowledged), [0_u64]);
        fs::remove_dir(folder.link(1)).unwrap();
        acknowledged.committed(7);
        assert_eq!(listed(&acknowledged), [0_u64, 1]);
        assert!(is_same_file(&folder.journal(1), &folder.link(1)));
        let last: Vec<u64> = acknowledged.record.journals.iter().map(|known| known.last).collect();
        assert_eq!(last, [5_u64, 7]);
    }
}
