//! Checks a store that nobody has open, and accepts the loss of what is missing.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::acknowledged::remove_if_there;
use super::damage::{Damage, Folder};
use super::journal::{self, Scanned};
use super::manifest::Depth;
use super::options::OpenError;
use super::store::{lock, lock_if_there};
use super::survey::{Survey, write_format};
use super::watermark::{Known, Record, Watermark};

/// The result of a check.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// The directory of the store.
    pub store: PathBuf,
    /// All damage that was found.
    pub damage: Vec<Damage>,
    /// Number of journals.
    pub journals: u64,
    /// Number of whole batches in the journals.
    pub batches: u64,
    /// Bytes of an interrupted write, which the next start removes.
    pub torn_bytes: u64,
    /// Number of tables, each of which was read to its end.
    pub tables: u64,
    /// True if a watermark proves that no acknowledged write is missing from the journals.
    pub is_proved: bool,
}

/// Why a loss cannot be accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The store cannot be looked at, or cannot be changed.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The store does not work without the file.
    #[error("the store cannot go on without this file: {0}")]
    Needed(Damage),
}

impl From<io::Error> for AcceptError {
    fn from(error: io::Error) -> Self {
        Self::Open(error.into())
    }
}

/// Reads every file of a store and changes nothing.
///
/// # Errors
///
/// [`OpenError`] if there is no store, if a process has it open, or if files cannot be read.
/// Damage is no error.
pub fn check(path: impl AsRef<Path>) -> Result<Checked, OpenError> {
    let folder = existing(path.as_ref())?;
    let _lock = lock_if_there(folder.store())?;
    Ok(checked(Survey::run(&folder, Depth::Whole)?))
}

/// Makes a store open again that has lost acknowledged writes, and gives what is lost.
///
/// Of the journals, all is kept that stands before the first damage. The files as they were are
/// moved to the folder `lost`, and a line in `losses.txt` says what was accepted and when.
///
/// # Errors
///
/// [`AcceptError`]. Then the store is as it was, unless a file could not be written.
pub fn accept_loss(path: impl AsRef<Path>, when: &str) -> Result<Checked, AcceptError> {
    let folder = existing(path.as_ref())?;
    let _lock = lock(folder.store())?;
    let mut survey = Survey::run(&folder, Depth::Whole)?;
    if let Some(needed) = survey.damage.iter().find(|damage| !damage.is_acceptable) {
        return Err(AcceptError::Needed(needed.clone()));
    }
    if !survey.damage.is_empty() {
        let lost = make_lost(&folder, when)?;
        note(&folder, &lost, when, &survey.damage)?;
        survey.put_back()?;
        let kept = move_damaged(&lost, &survey)?;
        restart(&folder, survey.record.take(), kept)?;
    }
    Ok(checked(survey))
}

fn existing(path: &Path) -> Result<Folder, OpenError> {
    let folder = Folder::new(path);
    if folder.database().is_dir() || folder.watermark().exists() || folder.format().exists() {
        return Ok(folder);
    }
    Err(OpenError::Absent(path.to_owned()))
}

fn checked(survey: Survey) -> Checked {
    Checked {
        store: survey.folder.store().to_owned(),
        journals: survey.journals.len() as u64,
        batches: survey.journals.iter().map(|journal| journal.batches).sum(),
        torn_bytes: survey.journals.iter().map(|journal| journal.torn_bytes).sum(),
        tables: survey.tables,
        is_proved: survey.record.is_some() && survey.damage.is_empty(),
        damage: survey.damage,
    }
}

/// Makes a folder for the files as they were.
fn make_lost(folder: &Folder, when: &str) -> io::Result<PathBuf> {
    let plain: String = when.chars().filter(char::is_ascii_alphanumeric).collect();
    let mut number = 0;
    loop {
        let lost = folder.store().join("lost").join(format!("{plain}-{number}"));
        if !lost.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(&lost)?;
            return Ok(lost);
        }
        number += 1;
    }
}

/// Writes down that a loss was accepted.
fn note(folder: &Folder, lost: &Path, when: &str, damage: &[Damage]) -> io::Result<()> {
    let path = folder.store().join("losses.txt");
    let mut file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    for damage in damage {
        let lost = lost.strip_prefix(folder.store()).unwrap_or(lost).display();
        let what = format!("{} {}", damage.file.display(), damage.what);
        writeln!(file, "{when} accepted: {what} (files before this: {lost})")?;
    }
    file.sync_all()
}

/// Keeps what stands before the first damage, and moves the rest. Gives what is kept.
fn move_damaged(lost: &Path, survey: &Survey) -> io::Result<Vec<Known>> {
    let known = survey.record.as_ref().map(|record| record.journals.as_slice()).unwrap_or_default();
    let first = known.first().map(|known| known.id);
    let mut expected = first.or_else(|| survey.journals.first().map(|journal| journal.id));
    let mut kept = Vec::new();
    for Scanned { id, path, end, last, is_incomplete, .. } in &survey.journals {
        let aside = lost.join(format!("{id}.jnl"));
        // Journals that are older than the list were emptied by the engine: they are whole.
        let is_next = expected.is_some_and(|expected| *id <= expected);
        if !is_next {
            fs::rename(path, &aside)?;
            continue;
        }
        expected = (!is_incomplete).then_some(id + 1);
        if *is_incomplete {
            fs::copy(path, &aside)?;
            // The only copy of what is cut off: it is on the disk first.
            File::open(&aside)?.sync_all()?;
            File::open(lost)?.sync_all()?;
            journal::cut(path, *end)?;
        }
        kept.push(Known { id: *id, length: *end, last: last.unwrap_or_default() });
    }
    File::open(lost)?.sync_all()?;
    Ok(kept)
}

/// Begins anew with the journals that are kept.
fn restart(folder: &Folder, record: Option<Record>, mut kept: Vec<Known>) -> io::Result<()> {
    let record = record.unwrap_or_default();
    if kept.is_empty() {
        // Without a journal the engine would count its writes from 0 again.
        let id = record.journals.last().map_or(0, |known| known.id + 1);
        File::create(folder.journal(id))?.sync_all()?;
        kept.push(Known { id, length: 0, last: 0 });
    }
    for known in &record.journals {
        remove_if_there(&folder.link(known.id))?;
    }
    File::open(folder.database())?.sync_all()?;
    let mut record = Record { journals: kept, has_links: false, ..record };
    Watermark::create(&folder.watermark(), &mut record)?;
    write_format(folder)
}
