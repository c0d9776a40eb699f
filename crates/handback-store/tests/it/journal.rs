//! Calls are made once, whatever becomes of the store and of the process.

use std::collections::HashMap;
use std::sync::{Mutex, mpsc};
use std::thread;

use bytes::Bytes;
use handback_identity::UnixPeers;
use handback_store::faulty::{Fault, FaultPlan, FaultyDisk, FaultyStore};
use handback_store::journal::{
    CallId, CallRequest, InstanceId, Journal, JournalError, Outcome, Recovered, Redemption,
    Reserved, Status, ToolClass,
};
use handback_store::{Kv, KvBatch, KvError, Log, MemoryStore, Millis, StoreError};
use handback_token::Operation;

const HERE: InstanceId = InstanceId::from_bytes([1; 16]);

fn request(id: u8, given: u8, class: ToolClass) -> CallRequest {
    let caller = UnixPeers::new("h").unwrap().principal(1);
    let redemption =
        Redemption::new([id; 16], &caller, Operation::Call, None, "tool", &[given; 32]);
    CallRequest::single_use(redemption, class)
}

/// What tools did, as the world sees it.
#[derive(Default)]
struct World {
    /// How often a tool was called, by the id of the token.
    started: HashMap<u8, u32>,
    /// Those that were called under which key.
    effects: HashMap<u8, Vec<CallId>>,
    /// The first answer that a client got.
    answers: HashMap<u8, Bytes>,
}

impl World {
    fn call(&mut self, id: u8, class: ToolClass, call_id: CallId) -> Bytes {
        *self.started.entry(id).or_default() += 1;
        let effects = self.effects.entry(id).or_default();
        // A tool that takes a key does a thing once per key.
        if class == ToolClass::Unknown || !effects.contains(&call_id) {
            effects.push(call_id);
        }
        Bytes::from(format!("{id} {call_id}"))
    }

    fn told(&mut self, id: u8, outcome: Outcome) {
        let Outcome::Bytes(answer) = outcome else { panic!("answers are short") };
        let first = self.answers.entry(id).or_insert_with(|| answer.clone());
        assert_eq!(*first, answer, "the first answer is the answer");
    }
}

/// One try of a client. `Ok(true)` if it need not try again.
fn attempt(
    journal: &Journal<&FaultyStore>,
    world: &mut World,
    (id, class): (u8, ToolClass),
) -> Result<bool, JournalError> {
    let mut rng = rand::rng();
    match journal.reserve(&request(id, 1, class), &mut rng, 0)? {
        Reserved::New(mut call) => {
            assert!(call.is_again() || !world.started.contains_key(&id), "{id} is new twice");
            journal.start(&mut call, 0)?;
            let answer = world.call(id, class, call.call_id());
            // A commit is worth some patience.
            let mut result = Ok(());
            for _ in 0..3 {
                result = journal.commit(&mut call, Outcome::Bytes(answer.clone()), 0);
                if result.is_ok() {
                    world.told(id, Outcome::Bytes(answer));
                    return Ok(true);
                }
            }
            result.map(|()| true)
        }
        Reserved::Committed { outcome, .. } => {
            world.told(id, outcome);
            Ok(true)
        }
        Reserved::Ambiguous { .. } => {
            assert_eq!(class, ToolClass::Unknown);
            // It may have died between the record of the start and the start.
            assert!(world.started.get(&id).is_none_or(|&started| started == 1));
            Ok(true)
        }
        other => panic!("{other:?}: nobody else is there"),
    }
}

fn run(disk: &FaultyDisk, calls: u8) -> World {
    let mut world = World::default();
    let mut done = vec![false; usize::from(calls)];
    while done.iter().any(|done| !done) {
        let store = disk.open();
        // A start that fails is tried again; a process that died is started again.
        let _ = live(&store, disk, &mut world, &mut done);
    }
    for id in 0..calls {
        check_end(disk, &world, id);
    }
    world
}

fn class_of(id: u8) -> ToolClass {
    if id.is_multiple_of(2) { ToolClass::Unknown } else { ToolClass::TakesKey }
}

fn live(
    store: &FaultyStore,
    disk: &FaultyDisk,
    world: &mut World,
    done: &mut [bool],
) -> Result<(), JournalError> {
    let journal = Journal::open(store, HERE, 0)?;
    while journal.recover(2, 0)?.has_more {}
    for (id, done) in (0..).zip(done) {
        if *done {
            continue;
        }
        match attempt(&journal, world, (id, class_of(id))) {
            Ok(is_done) => *done = is_done,
            Err(JournalError::Store(StoreError::Broken(_))) if !disk.is_crashed() => {
                while store.recover().is_err() {}
            }
            Err(_) if disk.is_crashed() => return Ok(()),
            Err(_) => {}
        }
    }
    Ok(())
}

fn check_end(disk: &FaultyDisk, world: &World, id: u8) {
    let effects = world.effects.get(&id).map_or(0, Vec::len);
    let answered = world.answers.contains_key(&id);
    assert!(effects <= 1, "{id} had {effects} effects");
    if class_of(id) == ToolClass::TakesKey {
        assert!(answered && effects == 1, "{id}");
    } else {
        assert!(world.started.get(&id).is_none_or(|&started| started == 1), "{id}");
    }
    // The token is redeemed, also for whoever comes with something else.
    let other = |store: &FaultyStore| {
        let journal = Journal::open(store, HERE, 0)?;
        let request = request(id, 2, class_of(id));
        let reserved = journal.reserve(&request, &mut rand::rng(), 0)?;
        Ok::<_, JournalError>(matches!(reserved, Reserved::Replayed))
    };
    let is_replayed = loop {
        if let Ok(is_replayed) = other(&disk.open()) {
            break is_replayed;
        }
    };
    if answered || effects > 0 {
        assert!(is_replayed, "{id}");
    }
}

#[test]
fn a_crash_at_any_write_makes_no_call_twice() {
    for fault in [Fault::Crash, Fault::CrashAfterSync, Fault::Broken { stuck: 1 }] {
        for at in 0..14 {
            for seed in 0..6 {
                let disk = FaultyDisk::new(FaultPlan::new(seed).fault(at, fault));
                run(&disk, 3);
            }
        }
    }
}

#[test]
fn many_faults_make_no_call_twice() {
    let mut unclear = 0;
    for seed in 0..300 {
        let disk = FaultyDisk::new(FaultPlan::new(seed).random(200));
        let world = run(&disk, 6);
        unclear += 6 - world.answers.len();
    }
    assert!(unclear > 20, "{unclear}: the faults hit calls that were started");
}

#[test]
fn a_reservation_in_limbo_blocks_nobody() {
    for seed in 0..40 {
        let disk = FaultyDisk::new(FaultPlan::new(seed));
        let store = disk.open();
        let journal = Journal::open(&store, HERE, 0).unwrap();
        disk.plan(disk.writes(), Fault::Broken { stuck: 0 });
        let request = request(1, 1, ToolClass::Unknown);
        let failed = journal.reserve(&request, &mut rand::rng(), 0);
        assert!(matches!(failed, Err(JournalError::Store(StoreError::Broken(_)))));
        store.recover().unwrap();
        let reserved = journal.reserve(&request, &mut rand::rng(), 0).unwrap();
        let Reserved::New(mut call) = reserved else { panic!("{reserved:?}") };
        assert!(!call.is_again());
        journal.release(&mut call, 0).unwrap();
        assert_eq!(store.scan(b"j/o/", None, 9, 0).unwrap(), []);
    }
}

#[test]
fn a_step_in_limbo_may_be_taken_again() {
    for seed in 0..40 {
        let disk = FaultyDisk::new(FaultPlan::new(seed));
        let store = disk.open();
        let journal = Journal::open(&store, HERE, 0).unwrap();
        let request = request(1, 1, ToolClass::Unknown);
        let fail_next = || disk.plan(disk.writes(), Fault::Broken { stuck: 0 });
        let reserved = journal.reserve(&request, &mut rand::rng(), 0).unwrap();
        let Reserved::New(mut call) = reserved else { panic!("{reserved:?}") };
        fail_next();
        assert!(journal.start(&mut call, 0).is_err() && !call.is_started());
        store.recover().unwrap();
        journal.start(&mut call, 1).unwrap();
        let outcome = Outcome::Bytes(Bytes::from_static(b"out"));
        fail_next();
        assert!(journal.commit(&mut call, outcome.clone(), 2).is_err());
        store.recover().unwrap();
        journal.commit(&mut call, outcome, 3).unwrap();
        let replay = journal.reserve(&request, &mut rand::rng(), 4).unwrap();
        assert!(matches!(replay, Reserved::Committed { .. }));
    }
}

#[test]
fn a_start_in_limbo_can_be_released() {
    for seed in 0..40 {
        let disk = FaultyDisk::new(FaultPlan::new(seed));
        let store = disk.open();
        let journal = Journal::open(&store, HERE, 0).unwrap();
        let request = request(1, 1, ToolClass::Unknown);
        let reserved = journal.reserve(&request, &mut rand::rng(), 0).unwrap();
        let Reserved::New(mut call) = reserved else { panic!("{reserved:?}") };
        disk.plan(disk.writes(), Fault::Broken { stuck: 0 });
        assert!(journal.start(&mut call, 0).is_err());
        store.recover().unwrap();
        journal.release(&mut call, 1).unwrap();
        let reserved = journal.reserve(&request, &mut rand::rng(), 2).unwrap();
        assert!(matches!(reserved, Reserved::New(_)), "{reserved:?}");
    }
}

/// Where somebody waits, once: it says that it is there, and is told to go on.
#[derive(Debug)]
struct Gate(mpsc::Sender<()>, mpsc::Receiver<()>);

impl Gate {
    fn new() -> (Self, mpsc::Receiver<()>, mpsc::Sender<()>) {
        let ((is_there, there), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
        (Self(is_there, goes_on), there, go_on)
    }

    fn pass(gate: &Mutex<Option<Self>>) {
        let gate = gate.lock().unwrap().take();
        if let Some(Self(is_there, goes_on)) = gate {
            is_there.send(()).unwrap();
            goes_on.recv().unwrap();
        }
    }
}

/// A store whose reads can be held before they return, and its writes also before they begin.
#[derive(Debug, Default)]
struct Gated {
    store: MemoryStore,
    read: Mutex<Option<Gate>>,
    scan: Mutex<Option<Gate>>,
    before: Mutex<Option<Gate>>,
    after: Mutex<Option<Gate>>,
}

impl Kv for Gated {
    fn get(&self, key: &[u8], now: Millis) -> Result<Option<Bytes>, StoreError> {
        let found = self.store.get(key, now);
        Gate::pass(&self.read);
        found
    }

    fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
        now: Millis,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        let found = self.store.scan(prefix, after, limit, now);
        Gate::pass(&self.scan);
        found
    }

    fn write(&self, batch: &KvBatch, now: Millis) -> Result<(), KvError> {
        Gate::pass(&self.before);
        let written = self.store.write(batch, now);
        Gate::pass(&self.after);
        written
    }

    fn sweep(&self, now: Millis, limit: usize) -> Result<usize, StoreError> {
        self.store.sweep(now, limit)
    }
}

#[test]
fn a_reservation_is_alive_as_soon_as_it_is_seen() {
    let store = Gated::default();
    let journal = Journal::open(&store, HERE, 0).unwrap();
    for class in [ToolClass::Unknown, ToolClass::TakesKey] {
        let request = || request(class as u8, 1, class).starting_at_once();
        let (gate, there, go_on) = Gate::new();
        *store.after.lock().unwrap() = Some(gate);
        thread::scope(|scope| {
            let first = scope.spawn(|| journal.reserve(&request(), &mut rand::rng(), 0));
            there.recv().unwrap();
            // It is written, and its writer does not know yet.
            let second = journal.reserve(&request(), &mut rand::rng(), 0).unwrap();
            let recovered = journal.recover(10, 0).unwrap();
            go_on.send(()).unwrap();
            assert!(matches!(second, Reserved::InFlight { is_here: true, .. }), "{second:?}");
            assert_eq!((recovered.ambiguous, recovered.retryable), (0, 0));
            let Reserved::New(mut call) = first.join().unwrap().unwrap() else {
                panic!("{class:?}")
            };
            journal.commit(&mut call, Outcome::Bytes(Bytes::new()), 0).unwrap();
        });
    }
}

#[test]
fn a_try_that_came_too_late_does_not_end_the_one_that_is_made() {
    let store = Gated::default();
    let journal = Journal::open(&store, HERE, 0).unwrap();
    let request = || request(1, 1, ToolClass::TakesKey).starting_at_once();
    let Reserved::New(mut cut) = journal.reserve(&request(), &mut rand::rng(), 0).unwrap() else {
        panic!("nobody was at it")
    };
    journal.interrupt(&mut cut, 0).unwrap();
    thread::scope(|scope| {
        // The late one reads that the call may be made again; by then another makes it.
        let (gate, has_read, read_on) = Gate::new();
        *store.read.lock().unwrap() = Some(gate);
        let late = scope.spawn(|| journal.reserve(&request(), &mut rand::rng(), 0));
        has_read.recv().unwrap();
        let Reserved::New(mut made) = journal.reserve(&request(), &mut rand::rng(), 0).unwrap()
        else {
            panic!("it may be made again")
        };
        let (gate, there, go_on) = Gate::new();
        *store.before.lock().unwrap() = Some(gate);
        read_on.send(()).unwrap();
        there.recv().unwrap();
        // The late one is about to write the same try. A third one looks first, by reading only.
        let status = journal.status(&request(), 0).unwrap();
        assert!(matches!(status, Status::InFlight { .. }), "{status:?}");
        go_on.send(()).unwrap();
        let late = late.join().unwrap().unwrap();
        assert!(matches!(late, Reserved::InFlight { .. }), "{late:?}");
        journal.commit(&mut made, Outcome::Bytes(Bytes::new()), 0).unwrap();
    });
}

#[test]
fn an_entry_that_was_read_too_early_settles_nobody_else() {
    let store = Gated::default();
    let [here, there, third] =
        [1, 2, 3].map(|id| Journal::open(&store, InstanceId::from_bytes([id; 16]), 0).unwrap());
    let request = request(1, 1, ToolClass::Unknown).starting_at_once();
    let reserved = here.reserve(&request, &mut rand::rng(), 0).unwrap();
    let Reserved::New(mut gone) = reserved else { panic!("{reserved:?}") };
    let (gate, at_it, go_on) = Gate::new();
    *store.scan.lock().unwrap() = Some(gate);
    thread::scope(|scope| {
        let recovery = scope.spawn(|| third.recover_gone(HERE, 10, 0));
        at_it.recv().unwrap();
        // What it has read is over by now, and the same call is another's, of the same epoch.
        here.release(&mut gone, 0).unwrap();
        let reserved = there.reserve(&request, &mut rand::rng(), 0).unwrap();
        let Reserved::New(mut call) = reserved else { panic!("{reserved:?}") };
        assert_eq!(there.epoch(), here.epoch());
        go_on.send(()).unwrap();
        assert_eq!(recovery.join().unwrap().unwrap(), Recovered::default());
        there.commit(&mut call, Outcome::Bytes(Bytes::new()), 0).unwrap();
    });
}
