//! The power fails between two syncs: some sectors of the last write are on the disk, some are not.
//!
//! The real directory is copied at two successive syncs. A random subset of the sectors that differ
//! is applied to the first copy, and the store is opened on that.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use handback_store::Log;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::story;

const SEED: u64 = 23;
const SECTOR_BYTES: usize = 512;
const COMMITS: u64 = 50;
const IMAGES_PER_COMMIT: u64 = 10;

#[test]
fn a_torn_write_is_there_as_a_whole_or_not_at_all() {
    let directory = story::directory();
    let mut rng = SmallRng::seed_from_u64(SEED);
    let mut story = story::Story::new(SEED);
    let mut store = Some(story::open(directory.path()));
    let mut before = Image::of(directory.path());
    let (mut torn, mut whole) = (0, 0);
    for commit in 0..COMMITS {
        // After it was opened again, the journal grows by every write, and is not zeros any more.
        if commit % 10 == 9 {
            drop(store.take());
            store = Some(story::open(directory.path()));
            before = Image::of(directory.path());
        }
        store.as_ref().unwrap().commit(&story.tell()).unwrap();
        let after = Image::of(directory.path());
        for _ in 0..IMAGES_PER_COMMIT {
            let broken = story::directory();
            Image::torn(&before, &after, &mut rng).write(broken.path());
            let store = story::open(broken.path());
            let told = story::check(&store, SEED);
            assert!(told == commit || told == commit + 1, "{told} of {}", commit + 1);
            *(if told == commit { &mut torn } else { &mut whole }) += 1;
            // It works, and goes on from there.
            store.commit(&story::Story::after(SEED, told).tell()).unwrap();
            drop(store);
            assert_eq!(story::check(&story::open(broken.path()), SEED), told + 1);
        }
        before = after;
    }
    assert!(torn > 50 && whole > 10, "{torn} torn, {whole} whole");
}

/// The files of a directory, by the sectors that are not zero.
struct Image(BTreeMap<PathBuf, Contents>);

#[derive(Clone, Default)]
struct Contents {
    len: u64,
    sectors: BTreeMap<u64, [u8; SECTOR_BYTES]>,
}

impl Image {
    fn of(directory: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut directories = vec![directory.to_owned()];
        while let Some(current) = directories.pop() {
            for entry in fs::read_dir(current).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                } else {
                    let name = path.strip_prefix(directory).unwrap().to_owned();
                    files.insert(name, Contents::of(&path));
                }
            }
        }
        Self(files)
    }

    fn torn(before: &Self, after: &Self, rng: &mut SmallRng) -> Self {
        let kept = rng.random_range(0.0..1.0);
        let torn = |(path, after): (&PathBuf, &Contents)| {
            let before = before.0.get(path);
            // A file that is new was synced with its directory before anything refers to it.
            let torn = before.map_or_else(|| after.clone(), |before| before.torn(after, kept, rng));
            (path.clone(), torn)
        };
        Self(after.0.iter().map(torn).collect())
    }

    fn write(&self, directory: &Path) {
        for (path, contents) in &self.0 {
            let path = directory.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            contents.write(&path);
        }
    }
}

impl Contents {
    fn of(path: &Path) -> Self {
        let bytes = story::read_up_to_zeros(path);
        let mut sectors = BTreeMap::new();
        for (number, chunk) in (0..).zip(bytes.chunks(SECTOR_BYTES)) {
            let mut sector = [0; SECTOR_BYTES];
            if sector.starts_with(chunk) {
                continue;
            }
            sector[..chunk.len()].copy_from_slice(chunk);
            sectors.insert(number, sector);
        }
        Self { len: fs::metadata(path).unwrap().len(), sectors }
    }

    fn torn(&self, after: &Self, kept: f64, rng: &mut SmallRng) -> Self {
        let mut torn = self.clone();
        torn.len = if rng.random() { after.len } else { self.len };
        for (number, sector) in &after.sectors {
            if self.sectors.get(number) != Some(sector) && rng.random_bool(kept) {
                torn.sectors.insert(*number, *sector);
            }
        }
        torn
    }

    fn write(&self, path: &Path) {
        let file = File::create(path).unwrap();
        for (number, sector) in &self.sectors {
            file.write_all_at(sector, number * SECTOR_BYTES as u64).unwrap();
        }
        file.set_len(self.len).unwrap();
    }
}
