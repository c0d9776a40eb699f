//! Tests of the [`journal`](crate::journal) on an engine.

#![expect(missing_docs, reason = "the names of tests say what they show")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use handback_identity::{UnixPeers, VerifiedPrincipal};
use handback_token::{ArgsFingerprint, Operation};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Chance, Engine, runner};
use crate::journal::{
    AMBIGUOUS_LIFE_MS, COMMITTED_LIFE_MS, CallId, CallRequest, InstanceId, Journal, JournalError,
    JournalScope, MAX_INLINE_OUTCOME_BYTES, Outcome, REDEEMED_LIFE_MS, Redemption, Reservation,
    Reserved, Status, ToolClass,
};
use crate::{Kv, Millis};

const HERE: InstanceId = InstanceId::from_bytes([1; 16]);
const THERE: InstanceId = InstanceId::from_bytes([2; 16]);

const CLASSES: [ToolClass; 4] =
    [ToolClass::Transactional, ToolClass::TakesKey, ToolClass::ReadOnly, ToolClass::Unknown];

fn person(uid: u32) -> VerifiedPrincipal {
    UnixPeers::new("suite").expect("the id is good").principal(uid)
}

fn keyed(key: &str, arguments: u8, class: ToolClass) -> CallRequest {
    let scope = JournalScope::new(&person(1), Operation::Call, None, "tool", Some(key), b"");
    CallRequest::keyed(scope, &ArgsFingerprint::from_bytes([arguments; 32]), class)
}

fn single_use(id: u8, given: u8, class: ToolClass) -> CallRequest {
    let redemption =
        Redemption::new([id; 16], &person(1), Operation::Call, None, "tool", &[given; 32]);
    CallRequest::single_use(redemption, class)
}

fn open<K: Kv>(kv: K, instance: InstanceId) -> Journal<K> {
    Journal::open(kv, instance, 0).expect("the journal opens")
}

fn reserve<K: Kv>(journal: &Journal<K>, request: &CallRequest, now: Millis) -> Reserved {
    journal.reserve(request, &mut Chance::new(), now).expect("the store works")
}

fn new<K: Kv>(journal: &Journal<K>, request: &CallRequest, now: Millis) -> Reservation {
    match reserve(journal, request, now) {
        Reserved::New(reservation) => reservation,
        other => panic!("{other:?}"),
    }
}

fn outcome(text: &'static str) -> Outcome {
    Outcome::Bytes(Bytes::from_static(text.as_bytes()))
}

fn committed(reserved: &Reserved) -> Option<&Outcome> {
    match reserved {
        Reserved::Committed { outcome, .. } => Some(outcome),
        _ => None,
    }
}

pub fn a_call_is_made_once<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let journal = open(engine.store(), HERE);
    let class = ToolClass::Unknown;
    for (request, other, life) in [
        (keyed("k", 1, class), keyed("k", 2, class), COMMITTED_LIFE_MS),
        (single_use(1, 1, class), single_use(1, 2, class), REDEEMED_LIFE_MS),
    ] {
        let is_refused =
            |reserved: Reserved| matches!(reserved, Reserved::Mismatch | Reserved::Replayed);
        assert_eq!(journal.status(&request, 0).expect("it is read"), Status::Absent);
        let mut call = new(&journal, &request, 0);
        let call_id = call.call_id();
        assert!(!call.is_again() && !call.is_started());
        for is_started in [false, true] {
            assert_eq!(call.is_started(), is_started);
            let Reserved::InFlight { call_id: found, is_here: true } =
                reserve(&journal, &request, 1)
            else {
                panic!("somebody is at it")
            };
            assert_eq!(found, call_id);
            assert!(is_refused(reserve(&journal, &other, 1)));
            journal.start(&mut call, 2).expect("it starts");
        }
        journal.commit(&mut call, outcome("out"), 3).expect("it is committed");
        for now in [3, 3 + life - 1] {
            assert_eq!(committed(&reserve(&journal, &request, now)), Some(&outcome("out")));
            assert!(is_refused(reserve(&journal, &other, now)));
        }
        let again = journal.commit(&mut call, outcome("else"), 4);
        assert!(matches!(again, Err(JournalError::Superseded)));
        drop(new(&journal, &request, 3 + life));
    }
}

pub fn scopes_and_redemptions_are_kept_apart<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let journal = open(engine.store(), HERE);
    let nobody = VerifiedPrincipal::unauthenticated();
    let (one, two) = (person(1), person(2));
    let call = Operation::Call;
    let scopes = [
        JournalScope::new(&one, call, None, "tool", Some("k"), b""),
        JournalScope::new(&two, call, None, "tool", Some("k"), b""),
        JournalScope::new(&nobody, call, None, "tool", Some("k"), b""),
        JournalScope::new(&one, Operation::Prompt, None, "tool", Some("k"), b""),
        JournalScope::new(&one, call, Some(""), "tool", Some("k"), b""),
        JournalScope::new(&one, call, Some("up"), "tool", Some("k"), b""),
        JournalScope::new(&one, call, None, "tool2", Some("k"), b""),
        JournalScope::new(&one, call, None, "tool", None, b""),
        JournalScope::new(&one, call, None, "tool", Some(""), b""),
        JournalScope::new(&one, call, None, "tool", Some("k2"), b""),
        JournalScope::new(&one, call, None, "tool", Some("k"), b"2"),
    ];
    let arguments = ArgsFingerprint::from_bytes([0; 32]);
    let mut held = Vec::new();
    for scope in scopes {
        held.push(new(&journal, &CallRequest::keyed(scope, &arguments, ToolClass::Unknown), 0));
    }
    let redemptions = [
        Redemption::new([7; 16], &one, call, None, "tool", &[0; 32]),
        Redemption::new([7; 16], &two, call, None, "tool", &[0; 32]),
        Redemption::new([7; 16], &nobody, call, None, "tool", &[0; 32]),
        Redemption::new([7; 16], &one, Operation::Prompt, None, "tool", &[0; 32]),
        Redemption::new([7; 16], &one, call, Some("up"), "tool", &[0; 32]),
        Redemption::new([7; 16], &one, call, None, "tool2", &[0; 32]),
        Redemption::new([7; 16], &one, call, None, "tool", &[1; 32]),
    ];
    for (number, redemption) in redemptions.into_iter().enumerate() {
        let request = CallRequest::single_use(redemption, ToolClass::Unknown);
        match reserve(&journal, &request, 0) {
            Reserved::New(reservation) if number == 0 => held.push(reservation),
            Reserved::Replayed if number > 0 => {}
            other => panic!("{number}: {other:?}"),
        }
    }
}

pub fn a_released_call_leaves_nothing<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = engine.store();
    let journal = open(store, HERE);
    let rows = || store.scan(b"j/", None, usize::MAX, 10).expect("it is read").len();
    let before = rows();
    for request in [keyed("k", 1, ToolClass::Unknown), single_use(1, 1, ToolClass::Unknown)] {
        for starts in [false, true] {
            let mut call = new(&journal, &request, 1);
            if starts {
                journal.start(&mut call, 2).expect("it starts");
            }
            journal.release(&mut call, 3).expect("it is released");
            assert_eq!(rows(), before);
        }
        // Free for other arguments, too.
        let mut call = new(&journal, &keyed("k", 2, ToolClass::Unknown), 4);
        journal.release(&mut call, 4).expect("it is released");
    }
}

pub fn an_abandoned_call_stays_ambiguous<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let journal = open(engine.store(), HERE);
    for class in CLASSES {
        let request = keyed("k", 1, class);
        let end = 1_000 * AMBIGUOUS_LIFE_MS;
        let mut call = new(&journal, &request, end);
        journal.start(&mut call, end).expect("it starts");
        journal.abandon(&mut call, end).expect("it is abandoned");
        let last = end + AMBIGUOUS_LIFE_MS - 1;
        assert!(matches!(reserve(&journal, &request, last), Reserved::Ambiguous { .. }));
        let other = keyed("k", 2, class);
        assert!(matches!(reserve(&journal, &other, last), Reserved::Mismatch));
        let mut call = new(&journal, &request, last + 1);
        journal.release(&mut call, last + 1).expect("it is released");
    }
}

pub fn what_a_crash_left_is_settled_by_class<E: Engine>()
where
    E::Store: Kv,
{
    for is_recovered in [false, true] {
        let mut engine = E::fresh();
        let mut before: HashMap<(usize, bool), CallId> = HashMap::new();
        {
            let journal = open(engine.store(), HERE);
            for (number, class) in CLASSES.into_iter().enumerate() {
                for starts in [false, true] {
                    let request = keyed(&format!("{number} {starts}"), 1, class);
                    let request = if starts { request.starting_at_once() } else { request };
                    let call = new(&journal, &request, 1);
                    assert_eq!(call.is_started(), starts);
                    before.insert((number, starts), call.call_id());
                    // As a crash would.
                    #[expect(clippy::mem_forget, reason = "a process that dies drops nothing")]
                    std::mem::forget(call);
                }
            }
        }
        engine.reopen();
        let journal = open(engine.store(), HERE);
        assert_eq!(journal.epoch(), 2);
        if is_recovered {
            let mut total = (0, 0, 0);
            loop {
                let done = journal.recover(3, 2).expect("it recovers");
                total.0 += done.freed;
                total.1 += done.ambiguous;
                total.2 += done.retryable;
                if !done.has_more {
                    break;
                }
            }
            assert_eq!(total, (4, 1, 3));
            let index = engine.store().scan(b"j/o/", None, 10, 2).expect("it is read");
            assert_eq!(index, []);
        }
        for (number, class) in CLASSES.into_iter().enumerate() {
            for starts in [false, true] {
                let request = keyed(&format!("{number} {starts}"), 1, class);
                let call_id = before.get(&(number, starts)).copied();
                match (reserve(&journal, &request, 3), starts, class) {
                    (Reserved::Ambiguous { call_id: found }, true, ToolClass::Unknown) => {
                        assert_eq!(Some(found), call_id);
                    }
                    (Reserved::New(call), false, _) => {
                        assert!(!call.is_again() && Some(call.call_id()) != call_id);
                    }
                    (Reserved::New(call), true, _) => {
                        assert!(call.is_again() && Some(call.call_id()) == call_id);
                    }
                    (other, ..) => panic!("{class:?} {starts}: {other:?}"),
                }
            }
        }
    }
}

pub fn a_second_try_that_does_nothing_frees_nothing<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let journal = open(engine.store(), HERE);
    let request = single_use(1, 1, ToolClass::TakesKey);
    let mut call = new(&journal, &request, 0);
    let call_id = call.call_id();
    journal.start(&mut call, 0).expect("it starts");
    journal.interrupt(&mut call, 0).expect("it is interrupted");
    let status = journal.status(&request, 1).expect("it is read");
    assert_eq!(status, Status::Retryable { call_id });
    for _ in 0..3 {
        let mut call = new(&journal, &request, 1);
        assert!(call.is_again());
        journal.release(&mut call, 1).expect("it is released");
        let other = single_use(1, 2, ToolClass::TakesKey);
        assert!(matches!(reserve(&journal, &other, 1), Reserved::Replayed));
    }
    let mut call = new(&journal, &request, 1);
    assert_eq!(call.call_id(), call_id);
    journal.start(&mut call, 1).expect("it starts");
    journal.commit(&mut call, outcome("out"), 1).expect("it is committed");
    assert_eq!(committed(&reserve(&journal, &request, 2)), Some(&outcome("out")));
}

pub fn a_dropped_reservation_is_settled<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let journal = open(engine.store(), HERE);
    let request = keyed("k", 1, ToolClass::Unknown);
    let first = new(&journal, &request, 0);
    let first_id = first.call_id();
    drop(first);
    let mut second = new(&journal, &request, 1);
    assert!(second.call_id() != first_id && !second.is_again());
    journal.start(&mut second, 1).expect("it starts");
    drop(second);
    assert!(matches!(reserve(&journal, &request, 1), Reserved::Ambiguous { .. }));
    let recovered = journal.recover(10, 1).expect("it recovers");
    assert_eq!((recovered.ambiguous, recovered.freed, recovered.has_more), (1, 0, false));
    let live = new(&journal, &keyed("l", 1, ToolClass::Unknown), 1);
    assert_eq!(journal.recover(10, 1).expect("it recovers").freed, 0);
    drop(live);
    assert_eq!(journal.recover(10, 1).expect("it recovers").freed, 1);
}

pub fn instances_do_not_settle_each_other<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let (here, there) = (open(engine.store(), HERE), open(engine.store(), THERE));
    let request = keyed("k", 1, ToolClass::Unknown);
    let mut call = new(&here, &request, 0);
    assert_eq!(there.recover(10, 0).expect("it recovers").freed, 0);
    assert!(matches!(reserve(&there, &request, 0), Reserved::InFlight { is_here: false, .. }));
    let recovered = there.recover_gone(HERE, 10, 0).expect("it recovers");
    assert_eq!(recovered.freed, 1);
    assert!(matches!(here.start(&mut call, 0), Err(JournalError::Superseded)));
    let mut call = new(&there, &request, 0);
    there.start(&mut call, 0).expect("it starts");
    there.commit(&mut call, outcome("out"), 0).expect("it is committed");
    assert_eq!(committed(&reserve(&here, &request, 1)), Some(&outcome("out")));
}

pub fn a_second_process_of_an_instance_fences_the_first<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let first = open(engine.store(), HERE);
    let [a, b] = ["a", "b"].map(|key| keyed(key, 1, ToolClass::Unknown));
    let mut reserved = new(&first, &a, 0);
    let mut started = new(&first, &b, 0);
    first.start(&mut started, 0).expect("it starts");
    let second = open(engine.store(), HERE);
    let mut taken = new(&second, &a, 1);
    assert!(matches!(first.start(&mut reserved, 1), Err(JournalError::Superseded)));
    assert!(matches!(reserve(&second, &b, 1), Reserved::Ambiguous { .. }));
    // Nobody has settled it yet: its answer is not lost.
    first.commit(&mut started, outcome("late"), 1).expect("it is committed");
    assert_eq!(committed(&reserve(&second, &b, 1)), Some(&outcome("late")));
    second.start(&mut taken, 1).expect("it starts");
    let recovered = second.recover(10, 2).expect("it recovers");
    assert_eq!(recovered, crate::journal::Recovered::default());
}

pub fn outcomes_have_a_greatest_length<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let journal = open(engine.store(), HERE);
    let request = keyed("k", 1, ToolClass::Unknown);
    let mut call = new(&journal, &request, 0);
    let long = Outcome::Bytes(Bytes::from(vec![7; MAX_INLINE_OUTCOME_BYTES + 1]));
    assert!(matches!(journal.commit(&mut call, long, 0), Err(JournalError::TooLong)));
    let longest = Outcome::Bytes(Bytes::from(vec![7; MAX_INLINE_OUTCOME_BYTES]));
    journal.commit(&mut call, longest.clone(), 0).expect("it is committed");
    assert_eq!(committed(&reserve(&journal, &request, 1)), Some(&longest));
    let request = keyed("l", 1, ToolClass::Unknown);
    let mut call = new(&journal, &request, 0);
    journal.commit(&mut call, Outcome::Blob([9; 16]), 0).expect("it is committed");
    assert_eq!(committed(&reserve(&journal, &request, 1)), Some(&Outcome::Blob([9; 16])));
}

pub fn one_of_many_callers_makes_the_call<E: Engine>()
where
    E::Store: Kv,
{
    const CALLERS: usize = 4;
    const CALLS: u8 = 10;
    let engine = E::fresh();
    let journals = [open(engine.store(), HERE), open(engine.store(), THERE)];
    let made = AtomicUsize::new(0);
    let work = |journal: &Journal<&E::Store>| {
        let mut rng = Chance::new();
        for id in 0..CALLS {
            let request = single_use(id, 1, ToolClass::Unknown);
            loop {
                match journal.reserve(&request, &mut rng, 0).expect("the store works") {
                    Reserved::New(mut call) => {
                        journal.start(&mut call, 0).expect("it starts");
                        made.fetch_add(1, Ordering::Relaxed);
                        journal.commit(&mut call, outcome("out"), 0).expect("it is committed");
                    }
                    Reserved::InFlight { .. } => std::thread::yield_now(),
                    Reserved::Committed { .. } => break,
                    other => panic!("{other:?}"),
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for journal in journals.iter().cycle().take(CALLERS) {
            scope.spawn(|| work(journal));
        }
    });
    assert_eq!(made.into_inner(), usize::from(CALLS));
}

/// What is known of a call, as simply as it can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    Open { given: u8, starts: u32, is_started: bool },
    Done { given: u8, out: u8, until: Millis },
    Unclear { given: u8, is_retryable: bool, until: Millis },
}

#[derive(Clone, Debug)]
enum Step {
    Reserve { id: u8, given: u8 },
    Start(u8),
    Commit(u8, u8),
    Release(u8),
    Abandon(u8),
    Drop(u8),
    Restart { recovers: bool },
    Later(Millis),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let id = || 0_u8..3;
    let step = prop_oneof![
        8 => (id(), 0_u8..2).prop_map(|(id, given)| Step::Reserve { id, given }),
        5 => id().prop_map(Step::Start),
        4 => (id(), any::<u8>()).prop_map(|(id, out)| Step::Commit(id, out)),
        2 => id().prop_map(Step::Release),
        2 => id().prop_map(Step::Abandon),
        1 => id().prop_map(Step::Drop),
        2 => any::<bool>().prop_map(|recovers| Step::Restart { recovers }),
        2 => prop_oneof![
            0..10_u64,
            Just(COMMITTED_LIFE_MS),
            Just(REDEEMED_LIFE_MS),
            Just(AMBIGUOUS_LIFE_MS),
        ]
        .prop_map(Step::Later),
    ];
    vec(step, 1..60)
}

/// Call 0 is of an unknown tool, the others of one that takes a key; calls 0 and 1 are by key.
fn request(id: u8, given: u8) -> CallRequest {
    let class = if id == 0 { ToolClass::Unknown } else { ToolClass::TakesKey };
    if id == 2 { single_use(id, given, class) } else { keyed(&id.to_string(), given, class) }
}

#[derive(Default)]
struct Model(HashMap<u8, Known>);

impl Model {
    /// What becomes of a call that nobody is at any more.
    fn cut_off(&mut self, id: u8, now: Millis) {
        let Some(Known::Open { given, starts, is_started }) = self.0.get(&id).cloned() else {
            return;
        };
        if !is_started && starts == 0 {
            self.0.remove(&id);
            return;
        }
        let is_retryable = id != 0;
        // Whoever finds it first decides since when it is unclear: a model of a few lines takes the
        // latest, and no step goes further than a life at once.
        let until = now + AMBIGUOUS_LIFE_MS;
        self.0.insert(id, Known::Unclear { given, is_retryable, until });
    }

    fn forget(&mut self, now: Millis) {
        self.0.retain(|_, known| match known {
            Known::Open { .. } => true,
            Known::Done { until, .. } | Known::Unclear { until, .. } => now < *until,
        });
    }
}

pub fn the_journal_answers_as_the_model<E: Engine>()
where
    E::Store: Kv,
{
    let run = |steps: Vec<Step>| {
        let mut engine = E::fresh();
        let mut model = Model::default();
        let mut now = 1_000;
        let mut rest = steps.as_slice();
        while !rest.is_empty() {
            let journal = open(engine.store(), HERE);
            // Settled at once, so that the model knows since when.
            assert!(!journal.recover(100, now).expect("it recovers").has_more);
            let mut calls: HashMap<u8, Reservation> = HashMap::new();
            let life = rest.iter().position(|step| matches!(step, Step::Restart { .. }));
            let (life, next) = rest.split_at(life.map_or(rest.len(), |at| at + 1));
            rest = next;
            for step in life {
                live(&journal, &mut model, &mut calls, step, &mut now)?;
            }
            for id in 0..3 {
                model.cut_off(id, now);
            }
            drop(calls);
            drop(journal);
            engine.reopen();
        }
        Ok(())
    };
    runner::<E>().run(&steps(), run).expect("the model is right");
}

/// One step of a process.
fn live<K: Kv>(
    journal: &Journal<K>,
    model: &mut Model,
    calls: &mut HashMap<u8, Reservation>,
    step: &Step,
    now: &mut Millis,
) -> Result<(), TestCaseError> {
    model.forget(*now);
    match *step {
        Step::Reserve { id, given } => {
            let mut rng = Chance::new();
            let reserved =
                journal.reserve(&request(id, given), &mut rng, *now).expect("the store works");
            check_reserved(model, calls, (id, given), reserved)?;
        }
        Step::Start(id) => {
            if let Some(call) = calls.get_mut(&id) {
                journal.start(call, *now).expect("it starts");
                if let Some(Known::Open { is_started, .. }) = model.0.get_mut(&id) {
                    *is_started = true;
                }
            }
        }
        Step::Commit(id, out) => {
            if let Some(mut call) = calls.remove(&id)
                && let Some(Known::Open { given, .. }) = model.0.get(&id).cloned()
            {
                let outcome = Outcome::Bytes(Bytes::from(vec![out]));
                journal.commit(&mut call, outcome, *now).expect("it is committed");
                let until = *now + if id == 2 { REDEEMED_LIFE_MS } else { COMMITTED_LIFE_MS };
                model.0.insert(id, Known::Done { given, out, until });
            }
        }
        Step::Release(id) => {
            if let Some(mut call) = calls.remove(&id)
                && let Some(Known::Open { given, starts, .. }) = model.0.get(&id).cloned()
            {
                journal.release(&mut call, *now).expect("it is released");
                let until = *now + AMBIGUOUS_LIFE_MS;
                match starts {
                    0 => model.0.remove(&id),
                    _ => model.0.insert(id, Known::Unclear { given, is_retryable: true, until }),
                };
            }
        }
        Step::Abandon(id) => {
            if let Some(mut call) = calls.remove(&id)
                && let Some(Known::Open { given, .. }) = model.0.get(&id).cloned()
            {
                journal.abandon(&mut call, *now).expect("it is abandoned");
                let until = *now + AMBIGUOUS_LIFE_MS;
                model.0.insert(id, Known::Unclear { given, is_retryable: false, until });
            }
        }
        Step::Drop(id) => {
            if calls.remove(&id).is_some() {
                model.cut_off(id, *now);
                assert!(!journal.recover(100, *now).expect("it recovers").has_more);
            }
        }
        Step::Later(by) => *now += by,
        Step::Restart { recovers } => {
            // A process that ends may say so.
            for call in calls.values_mut().filter(|_| recovers) {
                journal.interrupt(call, *now).expect("it is interrupted");
            }
        }
    }
    Ok(())
}

fn check_reserved(
    model: &mut Model,
    calls: &mut HashMap<u8, Reservation>,
    (id, given): (u8, u8),
    reserved: Reserved,
) -> Result<(), TestCaseError> {
    let known = model.0.get(&id).cloned();
    let of = |known: &Known| match *known {
        Known::Open { given, .. } | Known::Done { given, .. } | Known::Unclear { given, .. } => {
            given
        }
    };
    match (known, reserved) {
        (None, Reserved::New(call)) => {
            prop_assert!(!call.is_again());
            model.0.insert(id, Known::Open { given, starts: 0, is_started: false });
            calls.insert(id, call);
        }
        (Some(known), Reserved::Mismatch) => prop_assert!(of(&known) != given && id != 2),
        (Some(known), Reserved::Replayed) => prop_assert!(of(&known) != given && id == 2),
        (Some(known), reserved) => {
            prop_assert_eq!(of(&known), given);
            match (known, reserved) {
                (Known::Open { .. }, Reserved::InFlight { is_here: true, .. }) => {}
                (Known::Done { out, .. }, reserved) => {
                    let expected = Outcome::Bytes(Bytes::from(vec![out]));
                    prop_assert_eq!(committed(&reserved), Some(&expected));
                }
                (Known::Unclear { is_retryable: false, .. }, Reserved::Ambiguous { .. }) => {}
                (Known::Unclear { is_retryable: true, .. }, Reserved::New(call)) => {
                    prop_assert!(call.is_again());
                    model.0.insert(id, Known::Open { given, starts: 1, is_started: false });
                    calls.insert(id, call);
                }
                (known, reserved) => prop_assert!(false, "{:?}: {:?}", known, reserved),
            }
        }
        (None, reserved) => prop_assert!(false, "nothing: {:?}", reserved),
    }
    Ok(())
}
