//! Looks at the files of a store before it is opened.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::acknowledged::{link_all, remove_if_there};
use super::damage::{Damage, Folder};
use super::journal::{self, Scanned};
use super::manifest::{self, Depth, Wanted};
use super::options::OpenError;
use super::watermark::{self, Known, Record, Unreadable, Watermark};

/// Content of `format`. A directory without that file was made before there was a watermark.
const FORMAT: &str = "handback store 2\n";

/// Content of `format` up to the number of the version.
const FORMAT_START: &str = "handback store ";

/// A store as it was found. Nothing was changed.
#[derive(Debug)]
pub(super) struct Survey {
    pub(super) folder: Folder,
    /// True if nothing was ever stored.
    pub(super) is_new: bool,
    /// The watermark, if there is one that can be read.
    pub(super) record: Option<Record>,
    pub(super) journals: Vec<Scanned>,
    pub(super) tables: u64,
    pub(super) damage: Vec<Damage>,
}

impl Survey {
    pub(super) fn run(folder: &Folder, depth: Depth) -> Result<Self, OpenError> {
        let mut damage = Vec::new();
        let has_format = check_format(folder, &mut damage)?;
        let record = read_watermark(folder, has_format, &mut damage)?;
        let is_recorded = has_format || record.is_some();
        let is_new = !is_recorded && is_unfinished(&folder.database())?;
        let (folder, journals) = (folder.clone(), Vec::new());
        let mut survey = Self { folder, is_new, record, journals, tables: 0, damage };
        if !is_new {
            survey.check(is_recorded, depth)?;
        }
        Ok(survey)
    }

    fn check(&mut self, is_recorded: bool, depth: Depth) -> io::Result<()> {
        let (folder, damage) = (&self.folder, &mut self.damage);
        self.journals = journal::survey(folder, self.record.as_ref(), damage)?;
        if self.journals.is_empty() && self.record.is_none() {
            let database = folder.database();
            let gone = Damage::new(folder.store(), &database, "has no journal: it is missing");
            damage.push(gone.acceptable());
        }
        let is_blank = self.journals.iter().all(|journal| journal.batches == 0);
        let wanted = match &self.record {
            Some(record) => Wanted::Known(&record.keyspaces),
            None if is_blank && !is_recorded => Wanted::Any,
            None => Wanted::Found,
        };
        self.tables = manifest::check(folder, wanted, depth, damage)?;
        Ok(())
    }

    /// Fails if there is damage, with the first of it; the rest is logged.
    pub(super) fn refuse_damage(&self) -> Result<(), OpenError> {
        for damage in self.damage.iter().skip(1) {
            tracing::error!(%damage, "the store has more damage");
        }
        self.damage.first().cloned().map_or(Ok(()), |first| Err(OpenError::Damaged(first)))
    }

    /// Makes the directory ready to be opened: removes what an interrupted creation or write has left,
    /// and puts journals back that have lost their first name.
    pub(super) fn prepare(&mut self) -> io::Result<()> {
        let database = self.folder.database();
        if self.is_new {
            for (_, journal) in journal::journals(&database)? {
                fs::remove_file(journal)?;
            }
            return remove_if_there(&database.join("version"));
        }
        self.put_back()?;
        // There is nothing in it, and the engine does not make it again.
        File::options().create(true).append(true).open(database.join("lock"))?;
        if let Some(record) = &mut self.record {
            record.has_links = link_all(&self.folder)?;
            // The engine cuts all zeros off when it opens.
            let known = |journal: &Scanned| Known {
                id: journal.id,
                length: journal.end,
                last: journal.last.unwrap_or_default(),
            };
            record.journals = self.journals.iter().map(known).collect();
            Watermark::create(&self.folder.watermark(), record)?;
        }
        let torn: Vec<_> = self.journals.iter().filter(|journal| journal.torn_bytes > 0).collect();
        for journal in &torn {
            journal::cut(&journal.path, journal.end)?;
        }
        let bytes: u64 = torn.iter().map(|journal| journal.torn_bytes).sum();
        if bytes > 0 {
            tracing::warn!(
                bytes,
                "a write was interrupted, and its remains were removed from the journal"
            );
        }
        Ok(())
    }

    /// Gives journals their first name back.
    pub(super) fn put_back(&mut self) -> io::Result<()> {
        for journal in &mut self.journals {
            let path = self.folder.journal(journal.id);
            if journal.path != path {
                fs::hard_link(&journal.path, &path)?;
                journal.path = path;
                tracing::warn!(journal = journal.id, "a journal was put back that was removed");
            }
        }
        File::open(self.folder.database())?.sync_all()
    }

    /// Numbers of the last writes, by journal.
    pub(super) fn last(&self) -> BTreeMap<u64, u64> {
        let last = |journal: &Scanned| Some((journal.id, journal.last?));
        self.journals.iter().filter_map(last).collect()
    }
}

/// Writes the version of the directory, once there is a watermark.
pub(super) fn write_format(folder: &Folder) -> io::Result<()> {
    let path = folder.format();
    if fs::read(&path).is_ok_and(|found| found == FORMAT.as_bytes()) {
        return Ok(());
    }
    let temporary = path.with_extension("new");
    fs::write(&temporary, FORMAT)?;
    File::open(&temporary)?.sync_all()?;
    fs::rename(&temporary, &path)?;
    File::open(folder.store())?.sync_all()
}

fn check_format(folder: &Folder, damage: &mut Vec<Damage>) -> Result<bool, OpenError> {
    let path = folder.format();
    let found = match fs::read(&path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    if found == FORMAT.as_bytes() {
        return Ok(true);
    }
    let text = String::from_utf8_lossy(&found);
    let version = text.strip_prefix(FORMAT_START).map(str::trim_end);
    if let Some(version) = version.filter(|version| version.parse::<u32>().is_ok_and(|v| v > 2)) {
        let path = path.display();
        return Err(OpenError::Format(format!("{path} is of version {version}, and this is 2")));
    }
    let wrong = Damage::new(folder.store(), &path, "does not say which version the store has");
    damage.push(wrong.acceptable());
    Ok(true)
}

fn read_watermark(
    folder: &Folder,
    has_format: bool,
    damage: &mut Vec<Damage>,
) -> io::Result<Option<Record>> {
    let (store, path) = (folder.store(), folder.watermark());
    let wrong = match watermark::read(&path) {
        Ok(None) if has_format => Damage::missing(store, &path),
        Ok(found) => return Ok(found),
        Err(Unreadable::Io(error)) => return Err(error),
        Err(Unreadable::Cut { expected, found }) => Damage::cut(store, &path, expected, found),
        Err(Unreadable::Damaged) => Damage::new(store, &path, "is damaged: neither half is whole"),
    };
    let what = wrong.what + "; without it nobody can tell whether acknowledged writes are missing";
    damage.push(Damage { what, ..wrong }.acceptable());
    Ok(None)
}

/// True if a database was never made, or its creation was interrupted: fjall neither takes that for a
/// database nor makes a new one over it. Nothing can have been committed to it, which is checked.
fn is_unfinished(database: &Path) -> io::Result<bool> {
    let version = database.join("version");
    let complete = fs::metadata(&version).is_ok_and(|metadata| metadata.len() >= 4);
    let tables = database.join("keyspaces");
    let has_tables = fs::read_dir(&tables).is_ok_and(|mut entries| entries.next().is_some());
    Ok(!complete && !has_tables && journal::are_blank(database)?)
}
