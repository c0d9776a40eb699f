//! The files of a real engine as a loss of power leaves them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::plan::Chance;

const SECTOR_BYTES: usize = 512;

/// The files of a directory, by the sectors that are not zero.
///
/// Copied at two successive syncs, [`Image::torn`] makes of them what the disk may have when the
/// power fails between the two.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image(BTreeMap<PathBuf, Contents>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Contents {
    len: u64,
    sectors: BTreeMap<u64, [u8; SECTOR_BYTES]>,
}

impl Image {
    /// What is in a directory now.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn of(directory: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        let mut directories = vec![directory.to_owned()];
        while let Some(current) = directories.pop() {
            for entry in fs::read_dir(current)? {
                let path = entry?.path();
                if path.is_dir() {
                    directories.push(path);
                } else if let Ok(name) = path.strip_prefix(directory) {
                    files.insert(name.to_owned(), Contents::of(&path)?);
                }
            }
        }
        Ok(Self(files))
    }

    /// A random subset of the sectors that differ is that of `after`, the others are those of
    /// `self`; some are zero, or new up to their middle. Gives also how many are not new.
    #[must_use]
    pub fn torn(&self, after: &Self, seed: u64) -> (Self, u64) {
        let mut chance = Chance::new(seed);
        let kept = match chance.below(4) {
            0 => 100,
            1 => 0,
            _ => 10 + chance.below(90),
        };
        let (mut files, mut lost) = (BTreeMap::new(), 0);
        for (path, after) in &after.0 {
            // A file that is new was synced with its directory before anything refers to it.
            let torn = match self.0.get(path) {
                None => after.clone(),
                Some(before) => before.torn(after, kept, &mut chance, &mut lost),
            };
            files.insert(path.clone(), torn);
        }
        (Self(files), lost)
    }

    /// The same, but for one file, which is as in another image: it is written after the sync.
    #[must_use]
    pub fn with_file_of(mut self, other: &Self, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        if let Some(contents) = other.0.get(path) {
            self.0.insert(path.to_owned(), contents.clone());
        }
        self
    }

    /// Writes the files into a directory, which is empty.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        for (path, contents) in &self.0 {
            let path = directory.join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            contents.write(&path)?;
        }
        Ok(())
    }
}

impl Contents {
    fn of(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut contents = Self { len: file.metadata()?.len(), sectors: BTreeMap::new() };
        let mut at = 0;
        // Nearly all of a new journal is a hole.
        while let Ok(data) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
            let mut sector = [0; SECTOR_BYTES];
            let number = data / SECTOR_BYTES as u64;
            at = number * SECTOR_BYTES as u64;
            let end = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(at))?;
            let mut bytes = vec![0; usize::try_from(end - at).unwrap_or(usize::MAX)];
            file.read_exact_at(&mut bytes, at)?;
            for (number, chunk) in (number..).zip(bytes.chunks(SECTOR_BYTES)) {
                sector.fill(0);
                if sector.starts_with(chunk) {
                    continue;
                }
                sector.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
                contents.sectors.insert(number, sector);
            }
            at = end;
        }
        Ok(contents)
    }

    fn torn(&self, after: &Self, kept: u64, chance: &mut Chance, lost: &mut u64) -> Self {
        let mut torn = self.clone();
        torn.len = if chance.below(2) == 0 { after.len } else { self.len };
        for (number, sector) in &after.sectors {
            let before = self.sectors.get(number).copied().unwrap_or([0; SECTOR_BYTES]);
            if before == *sector {
                continue;
            }
            let is_kept = chance.below(100) < kept;
            let (is_torn, middle) = (chance.below(4) == 0, chance.below(SECTOR_BYTES as u64));
            let middle = match (is_kept, is_torn) {
                (true, _) => SECTOR_BYTES,
                (false, true) => usize::try_from(middle).unwrap_or_default(),
                (false, false) => 0,
            };
            let mut mixed = before;
            mixed.iter_mut().zip(sector).take(middle).for_each(|(to, from)| *to = *from);
            *lost += u64::from(!is_kept);
            torn.sectors.insert(*number, mixed);
        }
        torn
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let file = File::create(path)?;
        for (number, sector) in &self.sectors {
            file.write_all_at(sector, number * SECTOR_BYTES as u64)?;
        }
        file.set_len(self.len)
    }
}
