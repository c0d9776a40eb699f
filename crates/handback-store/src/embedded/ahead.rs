//! Zeros ahead of what is written to the journal.
//!
//! fjall makes a journal by its length alone: a hole. A sync of bytes that were written into a hole
//! has to write down as well where on the disk they are, which takes about as long as the bytes
//! themselves. So zeros are written before the bytes come, many at once: then a sync is of bytes only.
//!
//! Only holes are filled, only where zeros are read, and only while nobody writes; the file gets no
//! longer. So nothing that was written can be overwritten, and what is read is the same as before. That
//! they are there makes writing faster, and nothing else depends on it: errors are ignored here, and
//! are met by the next write if they last.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;

use super::journal::journals;

/// Zeros that are written at once.
const STEP: u64 = 1 << 20;

/// So many zeros are left when the next ones are written.
const MARGIN: u64 = STEP / 4;

/// Bytes of which one is not zero, if something was written there.
const SAMPLE: usize = 512;

/// After how many writes it is looked whether there is another journal.
const LOOK_EVERY: u32 = 64;

/// The journal that is written to, as far as it is known here.
#[derive(Debug)]
pub(super) struct Ahead {
    directory: PathBuf,
    journal: Option<Journal>,
    /// Writes until it is looked for another journal.
    look_in: u32,
}

#[derive(Debug)]
struct Journal {
    id: u64,
    file: File,
    /// Where the zeros end.
    filled: u64,
}

impl Ahead {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), journal: None, look_in: 0 }
    }

    /// After a write that is on the disk, and before the next is begun: fills a part of the hole, if
    /// the writes have come near to it.
    pub(super) fn written(&mut self) {
        if self.look_in == 0 {
            self.look_in = LOOK_EVERY;
            self.look();
        }
        self.look_in -= 1;
        if let Some(journal) = &mut self.journal
            && journal.fill().is_err()
        {
            // Until there is another journal.
            journal.filled = u64::MAX;
        }
    }

    fn look(&mut self) {
        let Ok(mut journals) = journals(&self.directory) else { return };
        let Some((id, path)) = journals.pop() else { return };
        if self.journal.as_ref().is_some_and(|known| known.id == id) {
            return;
        }
        let file = File::options().read(true).write(true).open(path);
        self.journal = file.ok().map(|file| Journal { id, file, filled: 0 });
    }
}

impl Journal {
    fn fill(&mut self) -> io::Result<()> {
        if self.filled == u64::MAX || !self.is_near()? {
            return Ok(());
        }
        let length = self.file.metadata()?.len();
        let start = rustix::fs::seek(&self.file, SeekFrom::Hole(self.filled))?;
        let end = (start + STEP).min(length);
        // The end of a file counts as a hole.
        let is_filled =
            start < end && is_hole(&self.file, start, end)? && fill_zeros(&self.file, start, end)?;
        self.filled = if is_filled { end } else { u64::MAX };
        Ok(())
    }

    /// Whether the writes have come to where few zeros are left.
    fn is_near(&self) -> io::Result<bool> {
        let Some(mark) = self.filled.checked_sub(MARGIN) else { return Ok(true) };
        let mut sample = [0; SAMPLE];
        let read = self.file.read_at(&mut sample, mark)?;
        Ok(sample.iter().take(read).any(|byte| *byte != 0))
    }
}

/// Whether nothing was ever written to a part of a file.
fn is_hole(file: &File, start: u64, end: u64) -> io::Result<bool> {
    match rustix::fs::seek(file, SeekFrom::Data(start)) {
        Ok(data) => Ok(data >= end),
        Err(rustix::io::Errno::NXIO) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// Writes zeros where zeros are read. False, and nothing is written, if anything else is there: a file
/// system that is wrong about its holes (there were such) may cost time, and no record.
fn fill_zeros(file: &File, start: u64, end: u64) -> io::Result<bool> {
    let mut bytes = vec![0; usize::try_from(end - start).unwrap_or_default()];
    file.read_exact_at(&mut bytes, start)?;
    let is_zero = bytes.iter().all(|byte| *byte == 0);
    if is_zero {
        file.write_all_at(&bytes, start)?;
    }
    Ok(is_zero)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    const LENGTH: u64 = 8 << 20;

    /// A directory with a journal that is a hole.
    fn journal(id: u64) -> (tempfile::TempDir, File) {
        let directory = tempfile::tempdir().unwrap();
        let file = another(directory.path(), id);
        (directory, file)
    }

    fn another(directory: &Path, id: u64) -> File {
        let file = File::create_new(directory.join(format!("{id}.jnl"))).unwrap();
        file.set_len(LENGTH).unwrap();
        file
    }

    fn on_disk(file: &File) -> u64 {
        file.sync_all().unwrap();
        file.metadata().unwrap().blocks() * 512
    }

    fn all(file: &File) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn zeros_are_ahead_of_what_is_written_and_change_nothing() {
        let (directory, file) = journal(0);
        let mut ahead = Ahead::new(directory.path());
        let (mut at, mut expected) = (0, vec![0; usize::try_from(LENGTH).unwrap()]);
        // Writes of all sizes, also such that jump over all zeros, up to the very end.
        for size in
            (0_u64..).map(|number| number * 7919 % 9000 + 1 + (number % 50 / 49) * (3 << 20))
        {
            if at + size > LENGTH {
                break;
            }
            let bytes = vec![7; usize::try_from(size).unwrap()];
            file.write_all_at(&bytes, at).unwrap();
            let start = usize::try_from(at).unwrap();
            expected[start..start + bytes.len()].copy_from_slice(&bytes);
            at += size;
            ahead.written();
            let filled = ahead.journal.as_ref().unwrap().filled;
            assert!(filled > at || filled >= LENGTH, "{filled} {at}");
        }
        assert_eq!(all(&file), expected);
        assert!(on_disk(&file) > LENGTH - STEP);
        assert_eq!(file.metadata().unwrap().len(), LENGTH);
    }

    #[test]
    fn a_file_is_not_made_longer() {
        let (directory, file) = journal(3);
        file.set_len(0).unwrap();
        let mut ahead = Ahead::new(directory.path());
        for length in 1..200 {
            file.set_len(length * 100).unwrap();
            file.write_all_at(&[7; 100], (length - 1) * 100).unwrap();
            ahead.written();
            assert_eq!(file.metadata().unwrap().len(), length * 100);
        }
        assert!(all(&file).iter().all(|byte| *byte == 7));
    }

    #[test]
    fn what_is_not_zero_stays_whatever_is_said_of_holes() {
        let (_directory, file) = journal(0);
        for at in [0, 1, STEP - 1] {
            file.write_all_at(&[7], at).unwrap();
            assert!(!fill_zeros(&file, 0, STEP).unwrap());
            assert_eq!(all(&file)[usize::try_from(at).unwrap()], 7);
            file.write_all_at(&[0], at).unwrap();
        }
        assert!(fill_zeros(&file, 0, STEP).unwrap());
        assert_eq!(on_disk(&file), STEP);
    }

    #[test]
    fn the_next_journal_is_found() {
        let (directory, first) = journal(9);
        let mut ahead = Ahead::new(directory.path());
        ahead.written();
        assert_eq!(on_disk(&first), STEP);
        let next = another(directory.path(), 10);
        for _ in 0..LOOK_EVERY {
            ahead.written();
        }
        assert_eq!((on_disk(&first), on_disk(&next)), (STEP, STEP));
    }
}
