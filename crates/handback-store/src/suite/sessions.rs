//! Tests of [`sessions`](crate::sessions) on an engine.

#![expect(missing_docs, reason = "the names of tests say what they show")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use handback_identity::{UnixPeers, VerifiedPrincipal};
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Engine, runner};
use crate::sessions::{
    MAX_SESSION_BYTES, MAX_SESSION_ID_BYTES, Session, SessionError, SessionOptions, Sessions,
};
use crate::{Kv, Millis};

const IDLE_MS: Millis = 800;
const LONGEST_MS: Millis = 3_000;

/// Two people, and nobody.
fn person(number: u8) -> VerifiedPrincipal {
    match number {
        0 => VerifiedPrincipal::unauthenticated(),
        number => UnixPeers::new("suite").expect("the id is good").principal(number.into()),
    }
}

fn open<K: Kv>(kv: K) -> Sessions<K> {
    let options = SessionOptions::new().idle_ms(IDLE_MS).longest_ms(LONGEST_MS).per_principal(4);
    Sessions::new(kv, options)
}

fn value(number: u8) -> Bytes {
    Bytes::from(vec![number; 3])
}

fn is_absent<T>(result: Result<T, SessionError>) -> bool {
    matches!(result, Err(SessionError::Absent))
}

#[derive(Clone, Debug)]
enum Step {
    Create(u8, u8, u8),
    Load(u8, u8),
    Update(u8, u8, u8),
    Delete(u8, u8),
    Later(Millis),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (id, who) = (|| 0_u8..3, || 0_u8..3);
    let step = prop_oneof![
        4 => (id(), who(), any::<u8>()).prop_map(|(id, who, to)| Step::Create(id, who, to)),
        6 => (id(), who()).prop_map(|(id, who)| Step::Load(id, who)),
        4 => (id(), who(), any::<u8>()).prop_map(|(id, who, to)| Step::Update(id, who, to)),
        2 => (id(), who()).prop_map(|(id, who)| Step::Delete(id, who)),
        6 => prop_oneof![0..150_u64, Just(IDLE_MS - 1), Just(IDLE_MS)].prop_map(Step::Later),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..60)
}

struct Known {
    owner: u8,
    value: Bytes,
    created: Millis,
    used: Millis,
}

impl Known {
    fn until(&self) -> Millis {
        (self.used + IDLE_MS).min(self.created + LONGEST_MS)
    }
}

pub fn sessions_answer_as_the_model<E: Engine>()
where
    E::Store: Kv,
{
    let run = |steps: Vec<Step>| {
        let mut engine = E::fresh();
        let mut model: HashMap<u8, Known> = HashMap::new();
        let mut now = 1_000;
        for step in steps {
            if let Step::Reopen = step {
                engine.reopen();
                continue;
            }
            model.retain(|_, known| now < known.until());
            check(&open(engine.store()), &mut model, &step, &mut now)?;
        }
        Ok(())
    };
    runner::<E>().run(&steps(), run).expect("the model is right");
}

fn check<K: Kv>(
    sessions: &Sessions<K>,
    model: &mut HashMap<u8, Known>,
    step: &Step,
    now: &mut Millis,
) -> Result<(), TestCaseError> {
    let now_ms = *now;
    match *step {
        Step::Create(id, who, to) => {
            let result = sessions.create(&id.to_string(), &person(who), value(to), now_ms);
            let is_new = !model.contains_key(&id);
            prop_assert_eq!(result.is_ok(), is_new);
            prop_assert!(is_new || matches!(result, Err(SessionError::Exists)));
            model.entry(id).or_insert_with(|| Known {
                owner: who,
                value: value(to),
                created: now_ms,
                used: now_ms,
            });
        }
        Step::Load(id, who) => {
            let result = sessions.load(&id.to_string(), &person(who), now_ms);
            match model.get_mut(&id).filter(|known| known.owner == who) {
                None => prop_assert!(is_absent(result)),
                Some(known) => {
                    if now_ms - known.used >= IDLE_MS / 8 {
                        known.used = now_ms;
                    }
                    let Ok(Session { value, created, until, .. }) = result else {
                        return Err(TestCaseError::fail("it is there"));
                    };
                    prop_assert_eq!(value, &known.value);
                    prop_assert_eq!((created, until), (known.created, known.until()));
                }
            }
        }
        Step::Update(id, who, to) => {
            let result = sessions.update(&id.to_string(), &person(who), value(to), now_ms);
            match model.get_mut(&id).filter(|known| known.owner == who) {
                None => prop_assert!(is_absent(result)),
                Some(known) => {
                    prop_assert!(result.is_ok());
                    known.value = value(to);
                    known.used = now_ms;
                }
            }
        }
        Step::Delete(id, who) => {
            let result = sessions.delete(&id.to_string(), &person(who), now_ms);
            if model.get(&id).is_some_and(|known| known.owner == who) {
                prop_assert!(result.is_ok());
                model.remove(&id);
            } else {
                prop_assert!(is_absent(result));
            }
        }
        Step::Later(by) => *now += by,
        Step::Reopen => {}
    }
    Ok(())
}

pub fn somebody_else_finds_and_touches_nothing<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let sessions = open(engine.store());
    for (owner, other) in [(1, 2), (0, 1), (1, 0)] {
        let (owner, other) = (person(owner), person(other));
        sessions.create("id", &owner, value(1), 0).expect("it is new");
        let before = engine.store().scan(b"s/", None, 100, 200).expect("it is read");
        assert!(is_absent(sessions.load("id", &other, 200)));
        assert!(is_absent(sessions.update("id", &other, value(2), 200)));
        assert!(is_absent(sessions.delete("id", &other, 200)));
        let after = engine.store().scan(b"s/", None, 100, 200).expect("it is read");
        assert_eq!(before, after);
        assert!(matches!(sessions.create("id", &other, value(2), 200), Err(SessionError::Exists)));
        sessions.delete("id", &owner, 200).expect("it is there");
    }
    assert!(is_absent(sessions.load("never", &person(1), 0)));
}

pub fn reading_writes_seldom<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let sessions = open(engine.store());
    let row = |now| engine.store().scan(b"s/r/", None, 1, now).expect("it is read");
    sessions.create("id", &person(1), value(1), 0).expect("it is new");
    let before = row(0);
    for now in 0..IDLE_MS / 8 {
        assert_eq!(sessions.load("id", &person(1), now).expect("it is there").until, IDLE_MS);
    }
    assert_eq!(row(1), before);
    let loaded = sessions.load("id", &person(1), IDLE_MS / 8).expect("it is there");
    assert_eq!(loaded.until, IDLE_MS / 8 + IDLE_MS);
    assert_ne!(row(1), before);
    // However often it is used, it ends.
    let mut now = IDLE_MS / 8;
    while sessions.load("id", &person(1), now).is_ok() {
        now += 100;
    }
    assert_eq!(now, LONGEST_MS);
}

pub fn lengths_are_bounded<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let sessions = open(engine.store());
    let person = person(1);
    let create = |id: &str, bytes| sessions.create(id, &person, Bytes::from(vec![0; bytes]), 0);
    assert!(matches!(create("", 0), Err(SessionError::Length)));
    let longest = "x".repeat(MAX_SESSION_ID_BYTES);
    assert!(matches!(create(&(longest.clone() + "x"), 0), Err(SessionError::Length)));
    assert!(matches!(create("id", MAX_SESSION_BYTES + 1), Err(SessionError::Length)));
    create(&longest, MAX_SESSION_BYTES).expect("it fits");
    assert!(is_absent(sessions.load(&(longest + "x"), &person, 0)));
    assert!(is_absent(sessions.load("", &person, 0)));
}

pub fn a_principal_has_so_many_sessions<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let sessions = open(engine.store());
    let made = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (sessions, made) = (&sessions, &made);
            scope.spawn(move || {
                for number in 0..3 {
                    let id = format!("{thread} {number}");
                    match sessions.create(&id, &person(1), value(0), 0) {
                        Ok(()) => _ = made.fetch_add(1, Ordering::Relaxed),
                        Err(SessionError::Quota) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(made.into_inner(), 4);
    assert_eq!(sessions.count(&person(1), 0).expect("it is read"), 4);
    sessions.create("other", &person(2), value(0), 0).expect("others have their own");
    // What has ended makes room, when it cannot be one that is just being made.
    let later = 60_000 + IDLE_MS;
    let longer = SessionOptions::new().idle_ms(IDLE_MS).per_principal(4);
    let sessions = Sessions::new(engine.store(), longer);
    for number in 0..4 {
        sessions.create(&format!("late {number}"), &person(1), value(0), later).expect("room");
    }
    let full = sessions.create("one more", &person(1), value(0), later);
    assert!(matches!(full, Err(SessionError::Quota)));
    sessions.delete("late 0", &person(1), later).expect("it is there");
    sessions.create("one more", &person(1), value(0), later).expect("room");
}

pub fn a_deleted_session_never_comes_back<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let sessions = open(engine.store());
    let person = person(1);
    for round in 0..20 {
        let id = round.to_string();
        sessions.create(&id, &person, value(0), 0).expect("it is new");
        std::thread::scope(|scope| {
            for number in 0..2 {
                let (sessions, person, id) = (&sessions, &person, &id);
                scope.spawn(move || {
                    // Until it is gone; then it stays so.
                    while sessions.update(id, person, value(number), 100).is_ok() {
                        let _ = sessions.load(id, person, 200);
                    }
                    assert!(is_absent(sessions.update(id, person, value(number), 100)));
                });
            }
            scope.spawn(|| sessions.delete(&id, &person, 0).expect("it is there"));
        });
        assert!(is_absent(sessions.load(&id, &person, 0)));
        assert_eq!(engine.store().scan(b"s/r/", None, 9, 0).expect("it is read"), []);
    }
}
