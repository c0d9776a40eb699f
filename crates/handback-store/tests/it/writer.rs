//! The group-committing writer.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use handback_store::{
    Batch, CommitHook, GroupWriter, Log, LogId, MemoryStore, Pending, ReadLimit, Record,
    StoreError, SubmitError, WriterOptions,
};

use crate::story::log_id;

type Outcome = Result<(), StoreError>;

/// A log whose commits wait until they are let through.
#[derive(Debug)]
struct Gated {
    store: MemoryStore,
    begun: Mutex<Sender<Batch>>,
    gate: Mutex<Receiver<Outcome>>,
}

impl Log for Gated {
    fn commit(&self, batch: &Batch) -> Result<(), StoreError> {
        self.begun.lock().unwrap().send(batch.clone()).unwrap();
        let outcome = self.gate.lock().unwrap().recv().expect("the gate broke");
        outcome.and_then(|()| self.store.commit(batch))
    }

    fn read(&self, log: LogId, from: u64, limit: ReadLimit) -> Result<Vec<Record>, StoreError> {
        self.store.read(log, from, limit)
    }

    fn last(&self, log: LogId) -> Result<Option<Record>, StoreError> {
        self.store.last(log)
    }

    fn note(&self, log: LogId) -> Result<Option<Bytes>, StoreError> {
        self.store.note(log)
    }

    fn noted(&self, after: Option<LogId>, limit: usize) -> Result<Vec<(LogId, Bytes)>, StoreError> {
        self.store.noted(after, limit)
    }

    fn recover(&self) -> Result<(), StoreError> {
        self.store.recover()
    }
}

/// A writer on a gated log, and both ends of everything.
struct Bench {
    writer: Arc<GroupWriter>,
    log: Arc<Gated>,
    begun: Receiver<Batch>,
    gate: Sender<Outcome>,
    done: Receiver<(u64, Outcome)>,
    tell: Sender<(u64, Outcome)>,
}

impl Bench {
    fn new(hook: impl CommitHook + 'static, options: WriterOptions) -> Self {
        let (begin, begun) = mpsc::channel();
        let (gate, gated) = mpsc::channel();
        let (tell, done) = mpsc::channel();
        let log = Arc::new(Gated {
            store: MemoryStore::new(),
            begun: Mutex::new(begin),
            gate: Mutex::new(gated),
        });
        let writer = Arc::new(GroupWriter::start(Arc::clone(&log), hook, options).unwrap());
        Self { writer, log, begun, gate, done, tell }
    }

    fn pending(&self, id: u64, batch: Batch) -> Pending {
        let tell = self.tell.clone();
        Pending { batch, done: Box::new(move |outcome| tell.send((id, outcome)).unwrap()) }
    }

    fn submit(&self, id: u64, batch: Batch) {
        self.writer.submit(self.pending(id, batch)).unwrap();
    }

    /// Occupies the writer, so that what follows is queued.
    fn occupy(&self) {
        self.submit(u64::MAX, append(9, 0));
        self.begun.recv().unwrap();
    }

    /// Lets one commit through, and gives the numbers of who was told of it.
    fn release(&self, outcome: Outcome, expected: usize) -> Vec<u64> {
        self.gate.send(outcome).unwrap();
        (0..expected).map(|_| self.done.recv().unwrap().0).collect()
    }
}

fn append(log: u8, number: u64) -> Batch {
    let record = Record { log: log_id(log), number, bytes: Bytes::from_static(b"0123456789") };
    Batch { records: vec![record], ..Batch::default() }
}

fn removal(log: u8) -> Batch {
    Batch { removed: vec![log_id(log)], ..Batch::default() }
}

#[test]
fn what_is_queued_is_committed_together_and_told_in_order() {
    let bench = Bench::new((), WriterOptions::new());
    bench.occupy();
    for id in 0..100 {
        bench.submit(id, append(1, id));
    }
    assert_eq!(bench.release(Ok(()), 1), [u64::MAX]);
    assert_eq!(bench.begun.recv().unwrap().records.len(), 100);
    assert!(bench.done.try_recv().is_err(), "nobody is told before the commit");
    assert_eq!(bench.release(Ok(()), 100), (0..100).collect::<Vec<_>>());
    assert_eq!(bench.log.last(log_id(1)).unwrap().unwrap().number, 99);
}

#[test]
fn commits_are_bounded_by_items_and_bytes() {
    let check = |options: WriterOptions, expected: &[usize]| {
        let bench = Bench::new((), options);
        bench.occupy();
        for id in 0..10 {
            bench.submit(id, append(1, id));
        }
        bench.release(Ok(()), 1);
        for &records in expected {
            assert_eq!(bench.begun.recv().unwrap().records.len(), records);
            bench.release(Ok(()), records);
        }
    };
    check(WriterOptions::new(), &[10]);
    check(WriterOptions::new().commit_items(4), &[4, 4, 2]);
    check(WriterOptions::new().commit_items(0), &[1; 10]);
    check(WriterOptions::new().commit_bytes(74 * 5), &[5, 5]);
    check(WriterOptions::new().commit_bytes(1), &[1; 10]);
}

#[test]
fn a_log_is_not_removed_and_written_in_one_commit() {
    let bench = Bench::new((), WriterOptions::new());
    bench.occupy();
    let batches = [append(1, 0), append(2, 0), removal(1), append(2, 1), append(1, 0), removal(2)];
    for (id, batch) in (0..).zip(batches) {
        bench.submit(id, batch);
    }
    bench.release(Ok(()), 1);
    for expected in [vec![0, 1], vec![2, 3], vec![4, 5]] {
        bench.begun.recv().unwrap();
        assert_eq!(bench.release(Ok(()), 2), expected);
    }
    assert!(bench.log.last(log_id(1)).unwrap().is_some());
    assert!(bench.log.last(log_id(2)).unwrap().is_none());
}

#[test]
fn a_full_queue_is_busy_until_something_is_taken() {
    let bench = Bench::new((), WriterOptions::new().queued_bytes(74 * 3));
    bench.occupy();
    for id in 0..3 {
        bench.submit(id, append(1, id));
    }
    let refused = bench.writer.submit(bench.pending(3, append(1, 3)));
    let Err(SubmitError::Busy(pending)) = refused else { panic!("{refused:?}") };
    assert_eq!(pending.batch, append(1, 3));
    bench.release(Ok(()), 1);
    bench.begun.recv().unwrap();
    bench.writer.submit(pending).unwrap();
    bench.release(Ok(()), 3);
    bench.begun.recv().unwrap();
    assert_eq!(bench.release(Ok(()), 1), [3]);
}

#[test]
fn everyone_is_told_of_a_failure_and_the_writer_goes_on() {
    let bench = Bench::new((), WriterOptions::new());
    bench.occupy();
    bench.submit(0, append(1, 0));
    bench.submit(1, append(2, 0));
    bench.release(Ok(()), 1);
    bench.gate.send(Err(StoreError::Full)).unwrap();
    for id in 0..2 {
        assert!(matches!(bench.done.recv().unwrap(), (told, Err(StoreError::Full)) if told == id));
    }
    bench.submit(2, append(1, 0));
    assert_eq!(bench.release(Ok(()), 1), [2]);
}

/// Notes every commit, and writes down how it went.
struct Counting {
    commits: u8,
    outcomes: Sender<bool>,
}

impl CommitHook for Counting {
    fn before(&mut self, batch: &mut Batch) {
        self.commits += 1;
        batch.notes.push((log_id(7), vec![self.commits].into()));
    }

    fn after(&mut self, result: &Result<(), StoreError>) {
        self.outcomes.send(result.is_ok()).unwrap();
    }
}

#[test]
fn the_hook_adds_to_a_commit_and_learns_how_it_went() {
    let (outcomes, heard) = mpsc::channel();
    let bench = Bench::new(Counting { commits: 0, outcomes }, WriterOptions::new());
    for (id, outcome) in [(0, Ok(())), (1, Err(StoreError::Full)), (2, Ok(()))] {
        let is_ok = outcome.is_ok();
        bench.submit(id, append(u8::try_from(id).unwrap(), 0));
        bench.begun.recv().unwrap();
        bench.release(outcome, 1);
        assert_eq!(heard.try_recv(), Ok(is_ok), "the hook is told before anyone else");
    }
    assert_eq!(bench.log.note(log_id(7)).unwrap().unwrap().as_ref(), [3]);
}

struct Panicking;

impl CommitHook for Panicking {
    fn before(&mut self, batch: &mut Batch) {
        assert!(batch.records.iter().all(|record| record.log != log_id(66)), "as planned");
    }

    fn after(&mut self, _: &Result<(), StoreError>) {}
}

#[test]
fn a_panic_fails_all_who_wait_and_all_who_come() {
    let check = |bench: &Bench, after_first: &dyn Fn()| {
        bench.occupy();
        for id in 0..4 {
            bench.submit(id, append(66, id));
        }
        after_first();
        for _ in 0..5 {
            let (_, outcome) = bench.done.recv().unwrap();
            assert!(
                outcome.is_ok()
                    || matches!(outcome, Err(StoreError::Broken(_) | StoreError::Unavailable(_)))
            );
        }
        let refused = bench.writer.submit(bench.pending(9, append(1, 0)));
        assert!(matches!(refused, Err(SubmitError::Stopped(_))));
        bench.writer.stop();
    };
    let hook = Bench::new(Panicking, WriterOptions::new().commit_items(2));
    check(&hook, &|| hook.gate.send(Ok(())).unwrap());
    let mut log = Bench::new((), WriterOptions::new().commit_items(2));
    let (closed, _) = mpsc::channel();
    let gate = std::mem::replace(&mut log.gate, closed);
    let gate = Mutex::new(Some(gate));
    check(&log, &|| drop(gate.lock().unwrap().take()));
}

#[test]
fn a_caller_that_panics_does_not_hurt_the_others() {
    let bench = Bench::new((), WriterOptions::new());
    bench.occupy();
    let panics = Pending { batch: append(1, 0), done: Box::new(|_| panic!("as planned")) };
    bench.writer.submit(panics).unwrap();
    bench.submit(1, append(1, 1));
    bench.release(Ok(()), 1);
    bench.begun.recv().unwrap();
    assert_eq!(bench.release(Ok(()), 1), [1]);
    bench.submit(2, append(1, 2));
    assert_eq!(bench.release(Ok(()), 1), [2]);
}

#[test]
fn stopping_writes_what_is_queued_first() {
    let bench = Bench::new((), WriterOptions::new());
    bench.occupy();
    for id in 0..5 {
        bench.submit(id, append(1, id));
    }
    bench.gate.send(Ok(())).unwrap();
    bench.gate.send(Ok(())).unwrap();
    bench.writer.stop();
    assert_eq!(bench.log.last(log_id(1)).unwrap().unwrap().number, 4);
    assert_eq!(bench.done.try_iter().count(), 6);
    let refused = bench.writer.submit(bench.pending(9, append(1, 5)));
    assert!(matches!(refused, Err(SubmitError::Stopped(_))));
    bench.writer.stop();
}

#[test]
fn a_caller_may_be_the_last_to_hold_the_writer() {
    let writer = GroupWriter::start(Arc::new(MemoryStore::new()), (), WriterOptions::new());
    let writer = Arc::new(writer.unwrap());
    let held = Arc::new(Mutex::new(Some(Arc::clone(&writer))));
    let (tell, told) = mpsc::channel();
    let done = Box::new(move |_| {
        drop(held.lock().unwrap().take());
        tell.send(()).unwrap();
    });
    let submitter = Arc::clone(&writer);
    drop(writer);
    submitter.submit(Pending { batch: append(1, 0), done }).unwrap();
    drop(submitter);
    told.recv().unwrap();
}

#[test]
fn many_threads_are_served() {
    const THREADS: u8 = 16;
    const EACH: u64 = 200;
    let store = Arc::new(MemoryStore::new());
    let writer = GroupWriter::start(Arc::clone(&store), (), WriterOptions::new()).unwrap();
    std::thread::scope(|scope| {
        for log in 0..THREADS {
            let writer = &writer;
            scope.spawn(move || {
                let (tell, told) = mpsc::channel();
                for number in 0..EACH {
                    let tell = tell.clone();
                    let done = Box::new(move |outcome| tell.send(outcome).unwrap());
                    writer.submit(Pending { batch: append(log, number), done }).unwrap();
                    told.recv().unwrap().unwrap();
                }
            });
        }
    });
    for log in 0..THREADS {
        assert_eq!(store.last(log_id(log)).unwrap().unwrap().number, EACH - 1);
    }
}
