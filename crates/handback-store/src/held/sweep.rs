//! Taking away what nobody holds any more.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::PoisonError;

use bytes::Bytes;

use super::error::HeldError;
use super::file::UNFINISHED;
use super::row::{Name, ROWS, Row, State};
use super::store::{HeldStore, Shared};
use crate::{Kv, Millis};

/// Where the next sweep goes on: first through all rows, then through all files.
#[derive(Debug)]
pub(super) enum Progress {
    Rows { after: Option<Bytes> },
    Files { after: Option<String> },
}

impl Default for Progress {
    fn default() -> Self {
        Self::Rows { after: None }
    }
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Values that had outlived their time.
    pub ended: usize,
    /// Files that no row names.
    pub files: usize,
    /// It has not come to the end of all rows and files: call again.
    pub has_more: bool,
}

impl<S: Kv> HeldStore<S> {
    /// Ends values that have outlived their time, and removes files that a crash left without a row.
    /// Looks at no more than `limit` rows or files, at least at one, and goes on there next time. Call
    /// it at start until it has no more, and now and then.
    ///
    /// # Errors
    ///
    /// [`HeldError`]; what was swept before stays so.
    pub fn sweep(&self, limit: usize, now: Millis) -> Result<Swept, HeldError> {
        let shared = &self.shared;
        let mut progress = shared.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let limit = limit.max(1);
        let mut swept = Swept::default();
        match std::mem::take(&mut *progress) {
            Progress::Rows { after } => {
                let after = shared.sweep_rows(after, limit, &mut swept, now)?;
                swept.has_more = after.is_some() || shared.folder().is_some();
                if after.is_some() {
                    *progress = Progress::Rows { after };
                } else if shared.folder().is_some() {
                    *progress = Progress::Files { after: None };
                }
            }
            Progress::Files { after } => {
                let Some(folder) = shared.folder() else { return Ok(swept) };
                let after = shared.sweep_files(folder, after, limit, &mut swept, now)?;
                swept.has_more = after.is_some();
                if after.is_some() {
                    *progress = Progress::Files { after };
                }
            }
        }
        Ok(swept)
    }
}

impl<S: Kv> Shared<S> {
    /// Gives the last row that was looked at, if there may be more.
    fn sweep_rows(
        &self,
        after: Option<Bytes>,
        limit: usize,
        swept: &mut Swept,
        now: Millis,
    ) -> Result<Option<Bytes>, HeldError> {
        let page = self.kv.scan(ROWS, after.as_deref(), limit, now)?;
        let has_more = page.len() >= limit;
        let last = page.last().map(|(key, _)| key.clone());
        for (key, stored) in page {
            let name = Name::parse_row(&key).ok_or(HeldError::Damaged)?;
            let row = Row::decode(stored.clone())?;
            if row.state == State::Ended || now < row.end {
                continue;
            }
            match self.end(&name, &stored, &row, now) {
                Ok(()) => swept.ended += 1,
                // It was used since it was read.
                Err(HeldError::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(last.filter(|_| has_more))
    }

    /// A file without a row, or with one that has ended, belongs to nobody: the row is written
    /// before the file, and ended before the file is removed. Gives the last file that was looked at,
    /// if there are more.
    fn sweep_files(
        &self,
        folder: &Path,
        after: Option<String>,
        limit: usize,
        swept: &mut Swept,
        now: Millis,
    ) -> Result<Option<String>, HeldError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder)? {
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        let start = after.map_or(0, |after| names.partition_point(|name| *name <= after));
        let left = names.get(start..).unwrap_or_default();
        for text in left.iter().take(limit) {
            let Some(name) = Name::parse_file(text.strip_suffix(UNFINISHED).unwrap_or(text)) else {
                continue;
            };
            let row = self.row(&name, now)?;
            if row.is_some_and(|(_, row)| row.state != State::Ended) {
                continue;
            }
            match fs::remove_file(folder.join(text)) {
                Ok(()) => swept.files += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        let has_more = left.len() > limit;
        Ok(left.get(limit - 1).filter(|_| has_more).cloned())
    }
}
