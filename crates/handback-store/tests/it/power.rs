//! The power fails between two syncs: some sectors of the last write are on the disk, some are not.
//!
//! The real directory is copied at two successive syncs. A random subset of the sectors that differ
//! is applied to the first copy, and the store is opened on that.

use handback_store::Log;
use handback_store::faulty::Image;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::story;

const SEED: u64 = 23;
const COMMITS: u64 = 50;
const IMAGES_PER_COMMIT: u64 = 10;

#[test]
fn an_image_is_what_was_there() {
    let (directory, copy) = (story::directory(), story::directory());
    let store = story::open(directory.path());
    for batch in 0..5 {
        store.commit(&story::Story::after(SEED, batch).tell()).unwrap();
    }
    let image = Image::of(directory.path()).unwrap();
    image.write(copy.path()).unwrap();
    assert!(Image::of(copy.path()).unwrap() == image);
    assert_eq!(story::check(&story::open(copy.path()), SEED), 5);
}

#[test]
fn a_torn_write_is_there_as_a_whole_or_not_at_all() {
    let directory = story::directory();
    let mut rng = SmallRng::seed_from_u64(SEED);
    let mut story = story::Story::new(SEED);
    let mut store = Some(story::open(directory.path()));
    let mut before = Image::of(directory.path()).unwrap();
    let (mut torn, mut whole) = (0, 0);
    for commit in 0..COMMITS {
        // After it was opened again, the journal grows by every write, and is not zeros any more.
        if commit % 10 == 9 {
            drop(store.take());
            store = Some(story::open(directory.path()));
            before = Image::of(directory.path()).unwrap();
        }
        store.as_ref().unwrap().commit(&story.tell()).unwrap();
        let after = Image::of(directory.path()).unwrap();
        for _ in 0..IMAGES_PER_COMMIT {
            let broken = story::directory();
            let (image, _) = before.torn(&after, rng.random());
            // A batch is on the disk before the watermark is written.
            image.with_file_of(&before, "watermark").write(broken.path()).unwrap();
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
