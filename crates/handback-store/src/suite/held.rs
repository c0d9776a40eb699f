//! Tests of [`held`](crate::held) values on an engine.

#![expect(missing_docs, reason = "the names of tests say what they show")]

use std::collections::BTreeMap;

use handback_identity::{UnixPeers, VerifiedPrincipal};
use handback_token::Handle;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Chance, Engine, runner};
use crate::held::{
    CHUNK_BYTES, Held, HeldError, HeldOptions, HeldStore, LookUp, MAX_NOTE_BYTES, NewValue,
    SpillId, TOMBSTONE_LIFE_MS, VALUE_COST_BYTES,
};
use crate::{Kv, Millis};

const IDLE_MS: Millis = 8_000;
const LONGEST_MS: Millis = 30_000;
const QUOTA_BYTES: u64 = 20_000;

fn person(number: u8) -> VerifiedPrincipal {
    match number {
        0 => VerifiedPrincipal::unauthenticated(),
        number => UnixPeers::new("suite").expect("the id is good").principal(number.into()),
    }
}

fn options() -> HeldOptions {
    HeldOptions::new().idle_ms(IDLE_MS).longest_ms(LONGEST_MS).per_principal_bytes(QUOTA_BYTES)
}

fn open<K: Kv>(kv: K, options: HeldOptions) -> HeldStore<K> {
    HeldStore::new(kv, options).expect("it opens")
}

fn contents(length: usize) -> Vec<u8> {
    (0..length).map(|at| at.to_be_bytes().iter().fold(0, |sum, byte| sum ^ byte)).collect()
}

fn put<K: Kv>(
    store: &HeldStore<K>,
    who: u8,
    length: usize,
    now: Millis,
) -> Result<Held, HeldError> {
    store.put(&person(who), NewValue::new("text"), &contents(length), &mut Chance::new(), now)
}

fn whole<K: Kv>(store: &HeldStore<K>, held: &Held, now: Millis) -> Vec<u8> {
    let reader = store.read(held, now).expect("it opens");
    reader.read_whole(usize::MAX).expect("it is read").expect("it fits")
}

fn handle_of(held: &Held) -> Handle {
    held.handle().expect("it has a handle")
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u16),
    LookUp(u8, usize),
    Remove(u8, usize),
    List(u8),
    Sweep(usize),
    Later(Millis),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (who, which) = (|| 0_u8..2, || 0_usize..6);
    let step = prop_oneof![
        6 => (who(), 0_u16..5_000).prop_map(|(who, length)| Step::Put(who, length)),
        6 => (who(), which()).prop_map(|(who, which)| Step::LookUp(who, which)),
        2 => (who(), which()).prop_map(|(who, which)| Step::Remove(who, which)),
        1 => who().prop_map(Step::List),
        1 => (1_usize..4).prop_map(Step::Sweep),
        3 => prop_oneof![2_000..4_000_u64, Just(IDLE_MS), Just(TOMBSTONE_LIFE_MS)]
            .prop_map(Step::Later),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..40)
}

#[derive(Clone, Debug)]
struct Known {
    handle: Handle,
    owner: u8,
    length: u16,
    created: Millis,
    end: Millis,
}

#[derive(Default)]
struct Model {
    values: Vec<Known>,
}

impl Model {
    fn used(&self, who: u8, now: Millis) -> u64 {
        let held = self.values.iter().filter(|known| known.owner == who && now < known.end);
        held.map(|known| u64::from(known.length) + VALUE_COST_BYTES).sum()
    }
}

pub fn held_values_answer_as_the_model<E: Engine>()
where
    E::Store: Kv,
{
    let run = |steps: Vec<Step>| {
        let mut engine = E::fresh();
        let mut model = Model::default();
        let mut now = 10_000;
        for step in steps {
            if let Step::Reopen = step {
                engine.reopen();
                continue;
            }
            let store = open(engine.store(), options());
            check(&store, &mut model, &step, &mut now)?;
            for who in 0..2 {
                let used = store.used_bytes(&person(who), now).expect("it is read");
                let real = model.used(who, now);
                prop_assert!(used >= real && used <= QUOTA_BYTES, "{} {}", used, real);
            }
        }
        Ok(())
    };
    runner::<E>().run(&steps(), run).expect("the model is right");
}

fn check<K: Kv>(
    store: &HeldStore<K>,
    model: &mut Model,
    step: &Step,
    now: &mut Millis,
) -> Result<(), TestCaseError> {
    let now_ms = *now;
    match *step {
        Step::Put(who, length) => {
            let fits =
                model.used(who, now_ms) + u64::from(length) + VALUE_COST_BYTES <= QUOTA_BYTES;
            match put(store, who, length.into(), now_ms) {
                Ok(held) => {
                    prop_assert!(fits);
                    let handle = handle_of(&held);
                    let end = now_ms + IDLE_MS;
                    prop_assert_eq!(held.until(), end);
                    model.values.push(Known { handle, owner: who, length, created: now_ms, end });
                }
                Err(HeldError::Quota { .. }) => prop_assert!(!fits),
                Err(error) => return Err(TestCaseError::fail(error.to_string())),
            }
        }
        Step::LookUp(who, which) => {
            let Some(known) = model.values.get_mut(which) else { return Ok(()) };
            let found = store.look_up(known.handle, &person(who), now_ms).expect("it is read");
            let was_theirs = known.owner == who && now_ms < known.end + TOMBSTONE_LIFE_MS;
            match found {
                LookUp::Found(held) => {
                    prop_assert!(was_theirs && now_ms < known.end);
                    let end = (now_ms + IDLE_MS).min(known.created + LONGEST_MS);
                    if end > known.end && end - known.end >= IDLE_MS / 8 {
                        known.end = end;
                    }
                    prop_assert_eq!(held.until(), known.end);
                    prop_assert_eq!(whole(store, &held, now_ms), contents(known.length.into()));
                }
                LookUp::Expired => prop_assert!(was_theirs && known.end <= now_ms),
                LookUp::Unknown => prop_assert!(!was_theirs),
            }
        }
        Step::Remove(who, which) => {
            let Some(known) = model.values.get_mut(which) else { return Ok(()) };
            let is_theirs = known.owner == who && now_ms < known.end;
            let removed = store.remove(known.handle, &person(who), now_ms).expect("it works");
            prop_assert_eq!(removed, is_theirs);
            if is_theirs {
                known.end = now_ms;
            }
        }
        Step::List(who) => {
            let listed = store.list(&person(who), None, 100, now_ms).expect("it is read");
            let mut listed: Vec<_> = listed.iter().map(|held| handle_of(held).to_bytes()).collect();
            let held = model.values.iter().filter(|known| known.owner == who && now_ms < known.end);
            let mut expected: Vec<_> = held.map(|known| known.handle.to_bytes()).collect();
            listed.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(listed, expected);
        }
        Step::Sweep(limit) => {
            store.sweep(limit, now_ms).expect("it is swept");
        }
        Step::Later(by) => *now += by,
        Step::Reopen => {}
    }
    Ok(())
}

pub fn values_of_every_length_are_read_anywhere<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), HeldOptions::new());
    let mib = 1 << 20;
    for length in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, mib, mib + 1, 3 * mib + 7] {
        let (person, expected) = (person(1), contents(length));
        let new = NewValue::new("text").note("note");
        let mut writer =
            store.writer(&person, new, &mut Chance::new(), 0).expect("the description is short");
        // In pieces that fit nowhere.
        for piece in expected.chunks(70_001) {
            writer.write(piece, 0).expect("there is room");
        }
        let held = writer.finish(0).expect("there is room");
        assert_eq!(
            (held.len(), held.kind(), held.note().as_ref()),
            (length as u64, "text", &b"note"[..])
        );
        let LookUp::Found(held) = store.look_up(handle_of(&held), &person, 1).expect("it works")
        else {
            panic!("it is held")
        };
        let reader = store.read(&held, 1).expect("it opens");
        assert_eq!(reader.read_whole(length).expect("it is read"), Some(expected.clone()));
        if length > 0 {
            assert_eq!(reader.read_whole(length - 1).expect("it is not read"), None);
        }
        for at in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, mib - 1, mib, length, length + 1] {
            let mut buffer = [0; 300];
            let read = reader.read_at(at as u64, &mut buffer).expect("it is read");
            let rest = expected.get(at..).unwrap_or_default();
            assert_eq!(read, rest.len().min(buffer.len()));
            assert_eq!(buffer.get(..read), rest.get(..read));
        }
    }
    let all = store.list(&person(1), None, 100, 1).expect("it is read");
    let mut paged = Vec::new();
    while let Some(page) =
        Some(store.list(&person(1), paged.last().copied(), 3, 1).expect("it is read"))
        && !page.is_empty()
    {
        paged.extend(page.iter().map(handle_of));
    }
    assert_eq!(paged, all.iter().map(handle_of).collect::<Vec<_>>());
}

pub fn nothing_is_left_of_what_was_not_finished<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), HeldOptions::new());
    for length in [0, 10, 3 << 20] {
        let mut writer = store
            .writer(&person(1), NewValue::new("text"), &mut Chance::new(), 0)
            .expect("the description is short");
        writer.write(&contents(length), 0).expect("there is room");
        drop(writer);
        assert_eq!(store.used_bytes(&person(1), 0).expect("it is read"), 0);
        for prefix in ["h/m/", "h/c/"] {
            let left = engine.store().scan(prefix.as_bytes(), None, 9, 0).expect("it is read");
            assert_eq!(left, []);
        }
    }
    let long = NewValue::new("x".repeat(300));
    let refused = store.put(&person(1), long, b"", &mut Chance::new(), 0);
    assert!(matches!(refused, Err(HeldError::Description)));
    let long = NewValue::new("text").note(vec![0; MAX_NOTE_BYTES + 1]);
    let refused = store.put(&person(1), long, b"", &mut Chance::new(), 0);
    assert!(matches!(refused, Err(HeldError::Description)));
}

pub fn spilled_values_have_their_own_names<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), options());
    let (one, two) = (person(1), person(2));
    let new = || NewValue::new("state").fixed_life(20_000);
    let id = store.spill(&one, new(), b"body", &mut Chance::new(), 0).expect("there is room");
    let look = |who, now| store.look_up_spill(id, who, now).expect("it is read");
    assert!(matches!(look(&two, 1), LookUp::Unknown));
    let as_handle = store.look_up(Handle::from_bytes(id.to_bytes()), &one, 1).expect("it works");
    assert!(matches!(as_handle, LookUp::Unknown));
    assert!(store.list(&one, None, 9, 1).expect("it is read").is_empty());
    let LookUp::Found(held) = look(&one, 19_999) else { panic!("it is held") };
    assert_eq!((held.spill_id(), held.handle(), held.until()), (Some(id), None, 20_000));
    assert_eq!(whole(&store, &held, 19_999), b"body");
    assert!(matches!(look(&one, 20_000), LookUp::Expired));
    // It counts like all that is held.
    while put(&store, 1, 1, 20_000).is_ok() {}
    let full = store.spill(&one, new(), b"", &mut Chance::new(), 20_000);
    assert!(matches!(full, Err(HeldError::Quota { .. })));
}

pub fn what_is_owed_is_kept_and_counts<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), options());
    let (one, two) = (person(1), person(2));
    let used = |now| store.used_bytes(&one, now).expect("it is read");
    let may_owe = |who, now| store.may_owe(who, now).expect("it is read");
    let owed = |bytes: &[u8], now| {
        let new = NewValue::new("outcome").fixed_life(20_000).owed();
        store.spill(&one, new, bytes, &mut Chance::new(), now).expect("it is kept")
    };
    while put(&store, 1, 1, 0).is_ok() {}
    let full = used(0);
    assert!(full <= QUOTA_BYTES && may_owe(&one, 0));
    // As much again as may be held.
    let mut last = owed(b"abc", 0);
    assert_eq!(used(0), full + VALUE_COST_BYTES + 3);
    while may_owe(&one, 0) {
        last = owed(b"abc", 0);
    }
    assert!(
        (2 * QUOTA_BYTES..2 * QUOTA_BYTES + VALUE_COST_BYTES + 3).contains(&used(0)),
        "{}",
        used(0)
    );
    assert!(may_owe(&two, 0), "nobody takes the room of another");
    // What was owed before it was known that there is no room is kept all the same.
    let beyond = owed(&contents(3 << 20), 0);
    let LookUp::Found(held) = store.look_up_spill(beyond, &one, 1).expect("it is read") else {
        panic!("it is held")
    };
    assert_eq!(whole(&store, &held, 1), contents(3 << 20));
    assert!(!may_owe(&one, 1) && put(&store, 1, 1, 1).is_err());
    for id in [beyond, last] {
        assert!(store.remove_spill(id, &one, 1).expect("it works"));
        assert!(!store.remove_spill(id, &one, 1).expect("it works"));
    }
    assert!(may_owe(&one, 1), "what is gone gives its bytes back");
    owed(&contents(3 << 20), 1);
    assert!(!may_owe(&one, 1));
    assert!(may_owe(&one, 20_001), "and so does what has ended");
}

pub fn wound_a10_what_is_owed_within_the_limit_is_refused_past_it<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), options());
    let one = person(1);
    let owed = |bytes: &[u8]| {
        let new = NewValue::new("task").fixed_life(20_000).owed_within_limit();
        store.spill(&one, new, bytes, &mut Chance::new(), 0)
    };
    while put(&store, 1, 1, 0).is_ok() {}
    // Over the quota, and up to twice that.
    let mut kept = 0;
    let refused = loop {
        match owed(&contents(50_000)) {
            Ok(_) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 1_000, "there is no limit");
    };
    assert!(kept > 0 && matches!(refused, HeldError::Quota { .. }));
    let used = store.used_bytes(&one, 0).expect("it is read");
    let most = 2 * QUOTA_BYTES + 50_000 + VALUE_COST_BYTES;
    assert!((2 * QUOTA_BYTES..=most).contains(&used), "{used}");
    assert!(!store.may_owe(&one, 0).expect("it is read"), "it was told beforehand");
}

pub fn a_value_can_have_a_least_life<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), options());
    let owner = person(1);
    let put = |least_ms, now| {
        let new = NewValue::new("text").at_least(least_ms);
        store.put(&owner, new, b"abc", &mut Chance::new(), now).expect("it is held")
    };
    let is_there = |held: &Held, now| {
        let found = store.look_up(handle_of(held), &owner, now).expect("it is looked up");
        found.found().map(|held| held.until())
    };
    // Longer than anything else is held, and not longer than that.
    let late = put(2 * LONGEST_MS, 1_000);
    let end = 1_000 + 2 * LONGEST_MS;
    assert_eq!((late.until(), late.until_at_most()), (end, end));
    assert_eq!(is_there(&late, end - 1), Some(end));
    assert_eq!(is_there(&late, end), None);
    // Longer than without a use; after that, as any other.
    let least = put(2 * IDLE_MS, end);
    let (last_end, end) = (end + LONGEST_MS, end + 2 * IDLE_MS);
    assert_eq!((least.until(), least.until_at_most()), (end, last_end));
    assert_eq!(is_there(&least, end - IDLE_MS), Some(end), "a use takes nothing away");
    assert_eq!(is_there(&least, end - 1), Some((end - 1 + IDLE_MS).min(last_end)));
    // Shorter than what any has.
    assert_eq!(put(1, end).until(), end + IDLE_MS);
}

pub fn an_id_that_is_given_is_written_once_for_each_principal<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), options());
    let id = SpillId::from_bytes([7; 16]);
    let write = |who: u8, bytes: &[u8], now| {
        let new = NewValue::new("copy").fixed_life(10_000);
        let mut writer = store.spill_writer_under(&person(who), id, new, now)?;
        writer.write(bytes, now)?;
        writer.finish(now)
    };
    let found = |who: u8, now| {
        let found = store.look_up_spill(id, &person(who), now).expect("it is read").found();
        found.map(|held| whole(&store, &held, now))
    };
    write(1, b"one", 0).expect("there is room");
    assert!(matches!(write(1, b"other", 1), Err(HeldError::Gone)));
    write(2, b"two", 1).expect("it is another one's");
    assert_eq!(
        (found(1, 2).as_deref(), found(2, 2).as_deref()),
        (Some(&b"one"[..]), Some(&b"two"[..]))
    );
    assert_eq!(found(3, 2), None);
    // What was there lately is not written again.
    assert!(matches!(write(1, b"one", 10_000), Err(HeldError::Gone)));
    assert_eq!(found(1, 10_000), None);
}

pub fn a_principal_holds_so_much_however_many_write<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), options());
    let cost = 1_000 + VALUE_COST_BYTES;
    let fitting = usize::try_from(QUOTA_BYTES / cost).expect("it is small");
    let fill = |now| {
        let mut handles = BTreeMap::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let store = &store;
                    scope.spawn(move || {
                        let held = (0..3).filter_map(|_| put(store, 1, 1_000, now).ok());
                        held.map(|held| handle_of(&held)).collect::<Vec<_>>()
                    })
                })
                .collect();
            for thread in threads {
                for handle in thread.join().expect("it ends") {
                    handles.insert(handle.to_bytes(), handle);
                }
            }
        });
        handles
    };
    let first = fill(0);
    assert_eq!(first.len(), fitting);
    assert_eq!(store.used_bytes(&person(1), 0).expect("it is read"), cost * fitting as u64);
    assert!(put(&store, 2, 1_000, 0).is_ok(), "others have their own");
    // What has ended gives its bytes back, without a sweep.
    let later = 10 * LONGEST_MS;
    assert_eq!(fill(later).len(), fitting);
    for handle in first.values() {
        let found = store.look_up(*handle, &person(1), later).expect("it is read");
        assert!(matches!(found, LookUp::Expired));
    }
}

pub fn sweeping_comes_round<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = open(engine.store(), HeldOptions::new());
    for _ in 0..7 {
        put(&store, 1, 10, 0).expect("there is room");
    }
    let later = 2 * 60 * 60 * 1_000;
    let young = put(&store, 2, 10, later).expect("there is room");
    let mut ended = 0;
    let mut sweeps = 0;
    loop {
        let swept = store.sweep(3, later).expect("it is swept");
        ended += swept.ended;
        sweeps += 1;
        if !swept.has_more {
            break;
        }
    }
    assert_eq!((ended, sweeps), (7, 3));
    assert_eq!(store.used_bytes(&person(1), later).expect("it is read"), 0);
    let chunks = engine.store().scan(b"h/c/", None, 9, later).expect("it is read");
    assert_eq!(chunks.len(), 1);
    assert_eq!(whole(&store, &young, later), contents(10));
}

pub fn long_outcomes_are_kept_beside_their_rows<E: Engine>()
where
    E::Store: Kv,
{
    use crate::journal::{
        COMMITTED_LIFE_MS, CallRequest, InstanceId, Journal, JournalError, JournalScope,
        MAX_INLINE_OUTCOME_BYTES, Outcome, REDEEMED_LIFE_MS, Redemption, Reserved, ToolClass,
    };
    use handback_token::{ArgsFingerprint, Operation};
    let engine = E::fresh();
    let held = open(engine.store(), options());
    let journal =
        Journal::open(engine.store(), InstanceId::from_bytes([1; 16]), 0).expect("it opens");
    let person = person(1);
    let keyed = |length: usize| {
        let key = length.to_string();
        let scope = JournalScope::new(&person, Operation::Call, None, "t", Some(&key), b"");
        let arguments = ArgsFingerprint::from_bytes([0; 32]);
        (length, CallRequest::keyed(scope, &arguments, ToolClass::Unknown), COMMITTED_LIFE_MS)
    };
    let redemption = Redemption::new([1; 16], &person, Operation::Call, None, "t", &[0; 32]);
    let redeemed = CallRequest::single_use(redemption, ToolClass::Unknown);
    for (length, request, life) in [
        keyed(0),
        keyed(MAX_INLINE_OUTCOME_BYTES),
        keyed(MAX_INLINE_OUTCOME_BYTES + 1),
        (MAX_INLINE_OUTCOME_BYTES + 1, redeemed, REDEEMED_LIFE_MS),
    ] {
        let mut rng = Chance::new();
        let Ok(Reserved::New(mut call)) = journal.reserve(&request, &mut rng, 0) else {
            panic!("it is new")
        };
        let expected = contents(length);
        journal
            .commit_any(&mut call, &person, expected.clone().into(), &held, &mut rng, 0)
            .expect("it is committed");
        let now = life - 1;
        let Ok(Reserved::Committed { outcome, .. }) = journal.reserve(&request, &mut rng, now)
        else {
            panic!("it is committed")
        };
        assert_eq!(matches!(outcome, Outcome::Blob(_)), length > MAX_INLINE_OUTCOME_BYTES);
        let found = journal.outcome_bytes(&outcome, &person, &held, length, now);
        assert_eq!(found.expect("it is read"), expected);
        if let Outcome::Blob(_) = outcome {
            let found = journal.outcome_bytes(&outcome, &person, &held, length - 1, now);
            assert!(matches!(found, Err(JournalError::TooLong)));
        }
        let used = || held.used_bytes(&person, now).expect("it is read");
        let before = used();
        journal.forget(&request, &person, &held, now).expect("it is forgotten");
        let found = journal.outcome_bytes(&outcome, &person, &held, length, now);
        match outcome {
            Outcome::Bytes(_) => assert_eq!(used(), before),
            Outcome::Blob(_) => {
                assert!(found.is_err());
                assert_eq!(used(), before - (length as u64 + VALUE_COST_BYTES));
            }
        }
        // What is under way is not.
        let Ok(Reserved::New(call)) = journal.reserve(&request, &mut rng, now) else {
            panic!("it is new again")
        };
        journal.forget(&request, &person, &held, now).expect("there is nothing to forget");
        let under_way = journal.reserve(&request, &mut rng, now);
        assert!(matches!(under_way, Ok(Reserved::InFlight { .. })));
        drop(call);
    }
}
