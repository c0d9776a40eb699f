//! The faulty engine fails as planned, and as every disk may.

use handback_store::faulty::{Fault, FaultPlan, FaultyDisk};
use handback_store::{Batch, Log, StoreError};

use crate::story::{self, Story};

const SEED: u64 = 41;

#[test]
fn faults_come_when_planned() {
    let plan = FaultPlan::new(1)
        .fault(1, Fault::Full)
        .fault(2, Fault::Unavailable)
        .fault(3, Fault::Broken { stuck: 1 });
    let disk = FaultyDisk::new(plan);
    let store = disk.open();
    let commit = || store.commit(&Story::after(SEED, story::told(&store)).tell());
    assert!(commit().is_ok());
    assert!(matches!(commit(), Err(StoreError::Full)));
    assert!(matches!(commit(), Err(StoreError::Unavailable(_))));
    assert_eq!(story::check(&store, SEED), 1);
    assert!(matches!(commit(), Err(StoreError::Broken(_))));
    assert!(matches!(store.note(story::log_id(0)), Err(StoreError::Broken(_))));
    assert!(matches!(store.recover(), Err(StoreError::Broken(_))));
    store.recover().unwrap();
    assert!(story::check(&store, SEED) <= 2);
    disk.plan(disk.writes(), Fault::CrashAfterSync);
    let told = story::told(&store);
    assert!(commit().is_err() && disk.is_crashed());
    assert!(matches!(store.note(story::log_id(0)), Err(StoreError::Unavailable(_))));
    let reopened = disk.open();
    assert!(store.recover().is_err(), "the old process stays dead");
    assert_eq!(story::check(&reopened, SEED), told + 1);
    assert_eq!((disk.writes(), disk.crashes()), (5, 1));
}

/// Writes until so many batches are there, through every fault. Gives what was met.
fn run(disk: &FaultyDisk, batches: u64) -> String {
    let mut trace = String::new();
    let mut store = disk.open();
    let mut acked = 0;
    while acked < batches {
        let told = story::told(&store);
        assert!(told >= acked, "{acked} acknowledged, {told} kept");
        acked = told;
        let result = store.commit(&Story::after(SEED, told).tell());
        let kind = match &result {
            Ok(()) => '.',
            Err(StoreError::Full) => 'f',
            Err(StoreError::Unavailable(_)) => 'u',
            Err(_) if disk.is_crashed() => 'c',
            Err(_) => 'b',
        };
        trace.push(kind);
        match kind {
            '.' => acked += 1,
            'c' => store = disk.open(),
            'b' => while store.recover().is_err() {},
            _ => {}
        }
    }
    story::check(&store, SEED);
    trace
}

#[test]
fn nothing_acknowledged_is_lost_and_a_seed_is_a_run() {
    let mut traces = Vec::new();
    for seed in 0..100 {
        let plan = FaultPlan::new(seed).random(150);
        let disk = FaultyDisk::new(plan.clone());
        let trace = run(&disk, 40);
        assert_eq!(trace, run(&FaultyDisk::new(plan), 40));
        assert_eq!(disk.writes(), trace.len() as u64);
        traces.push(trace);
    }
    for kind in ['f', 'u', 'c', 'b'] {
        assert!(traces.iter().any(|trace| trace.contains(kind)), "{kind}");
    }
    traces.sort_unstable();
    traces.dedup();
    assert!(traces.len() > 90);
}

#[test]
fn a_write_in_limbo_goes_either_way() {
    for fault in [Fault::Broken { stuck: 0 }, Fault::Crash] {
        let kept = (0..100).filter(|&seed| {
            let disk = FaultyDisk::new(FaultPlan::new(seed).fault(0, fault));
            let store = disk.open();
            assert!(store.commit(&Story::new(SEED).tell()).is_err());
            if disk.is_crashed() {
                return story::check(&disk.open(), SEED) == 1;
            }
            store.recover().unwrap();
            story::check(&store, SEED) == 1
        });
        assert!((20..80).contains(&kept.count()));
    }
}

#[test]
fn a_forgetful_disk_is_noticed() {
    let lost = (0..50).filter(|&seed| {
        let disk = FaultyDisk::new(FaultPlan::new(seed).forgetful(3));
        let store = disk.open();
        let mut story = Story::new(SEED);
        for _ in 0..10 {
            store.commit(&story.tell()).unwrap();
        }
        assert_eq!(story::check(&store, SEED), 10);
        let told = story::check(&disk.open(), SEED);
        assert!((7..=10).contains(&told));
        told < 10
    });
    assert!(lost.count() > 20);
}

#[test]
#[should_panic(expected = "batches follow the rules")]
fn a_batch_that_breaks_the_rules_is_no_fault() {
    let store = FaultyDisk::new(FaultPlan::new(1)).open();
    let record =
        |number| handback_store::Record { log: story::log_id(1), number, bytes: "x".into() };
    let records = vec![record(0), record(2)];
    let _ = store.commit(&Batch { records, ..Batch::default() });
}
