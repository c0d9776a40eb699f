//! Tests of [`revocations`](crate::revocations) on an engine.

#![expect(missing_docs, reason = "the names of tests say what they show")]

use handback_identity::{UnixPeers, VerifiedPrincipal};
use handback_token::SlotNumber;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{Engine, runner};
use crate::revocations::{
    REVOCATION_LIFE_MS, Revocation, RevocationStore, Revocations, STALE_AFTER_MS, Subject,
};
use crate::{Kv, Millis};

fn person(number: u8) -> VerifiedPrincipal {
    match number {
        0 => VerifiedPrincipal::unauthenticated(),
        number => UnixPeers::new("suite").expect("the id is good").principal(number.into()),
    }
}

fn slot(number: u8) -> SlotNumber {
    SlotNumber::new(number).expect("there are 16")
}

#[derive(Clone, Copy, Debug)]
enum What {
    Principal(u8),
    Session(u8),
    Slot(u8),
    Before(Millis),
    PrincipalBefore(u8, Millis),
}

impl What {
    fn revocation(self) -> Revocation {
        match self {
            Self::Principal(who) => Revocation::principal(&person(who)),
            Self::Session(id) => Revocation::session(&id.to_string()),
            Self::Slot(number) => Revocation::slot(slot(number)),
            Self::Before(moment) => Revocation::before(moment),
            Self::PrincipalBefore(who, moment) => {
                Revocation::principal_before(&person(who), moment)
            }
        }
    }

    fn concerns(self, (who, born, key, id): (u8, Option<Millis>, u8, u8)) -> bool {
        match self {
            Self::Principal(revoked) => revoked == who,
            Self::Session(revoked) => revoked == id,
            Self::Slot(revoked) => revoked == key,
            Self::Before(moment) => born.is_none_or(|born| born < moment),
            Self::PrincipalBefore(revoked, moment) => {
                revoked == who && born.is_none_or(|born| born < moment)
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Revoke(What),
    Lift(usize),
    Later(Millis),
    Check(u8, Option<Millis>, u8, u8),
    Load,
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let small = || 0_u8..3;
    let what = prop_oneof![
        small().prop_map(What::Principal),
        small().prop_map(What::Session),
        small().prop_map(What::Slot),
        (0..5_u64).prop_map(What::Before),
        (small(), 0..5_u64).prop_map(|(who, moment)| What::PrincipalBefore(who, moment)),
    ];
    let step = prop_oneof![
        3 => what.prop_map(Step::Revoke),
        1 => (0_usize..8).prop_map(Step::Lift),
        1 => prop_oneof![0..10_u64, Just(REVOCATION_LIFE_MS / 2), Just(REVOCATION_LIFE_MS)]
            .prop_map(Step::Later),
        8 => (small(), proptest::option::of(0..6_u64), small(), small())
            .prop_map(|(who, born, key, id)| Step::Check(who, born, key, id)),
        1 => Just(Step::Load),
        1 => Just(Step::Reopen),
    ];
    vec(step, 1..60)
}

pub fn revocations_answer_as_the_model<E: Engine>()
where
    E::Store: Kv,
{
    let run = |steps: Vec<Step>| {
        let mut engine = E::fresh();
        let mut model: Vec<(u64, What, Millis)> = Vec::new();
        let mut numbers = Vec::new();
        let mut now = 0;
        let mut snapshot = RevocationStore::new(engine.store()).load(now).expect("it loads");
        for step in steps {
            model.retain(|(.., until)| now < *until);
            let store = RevocationStore::new(engine.store());
            match step {
                Step::Revoke(what) => {
                    let number = store.revoke(what.revocation(), now).expect("it is revoked");
                    model.push((number, what, now + REVOCATION_LIFE_MS));
                    numbers.push(number);
                }
                Step::Lift(which) => {
                    let number = numbers.get(which).copied().unwrap_or(u64::MAX);
                    let was_there = model.iter().any(|(known, ..)| *known == number);
                    prop_assert_eq!(store.lift(number, now).expect("it is lifted"), was_there);
                    model.retain(|(known, ..)| *known != number);
                }
                Step::Later(by) => now += by,
                Step::Load => snapshot = store.load(now).expect("it loads"),
                Step::Reopen => engine.reopen(),
                Step::Check(who, born, key, id) => {
                    snapshot = store.refresh(&snapshot, now).expect("it is refreshed");
                    let expected =
                        model.iter().any(|(_, what, _)| what.concerns((who, born, key, id)));
                    prop_assert_eq!(is_revoked(&snapshot, who, born, key, id), expected);
                    prop_assert_eq!(snapshot.len(), model.len());
                    prop_assert_eq!(snapshot.loaded_at(), now);
                }
            }
        }
        Ok(())
    };
    runner::<E>().run(&steps(), run).expect("the model is right");
}

fn is_revoked(snapshot: &Revocations, who: u8, born: Option<Millis>, key: u8, id: u8) -> bool {
    let (person, id) = (person(who), id.to_string());
    let subject = Subject::of(&person).slot(slot(key)).session(&id);
    let subject = born.map_or(subject, |born| subject.born(born));
    snapshot.is_revoked(&subject)
}

pub fn a_snapshot_knows_its_age<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = RevocationStore::new(engine.store());
    let old = store.load(10).expect("it loads");
    assert!(old.is_empty() && old.loaded_at() == 10);
    assert!(!old.is_stale(10 + STALE_AFTER_MS) && old.is_stale(11 + STALE_AFTER_MS));
    let fresh = store.refresh(&old, 20).expect("it is refreshed");
    assert!(!fresh.is_stale(20 + STALE_AFTER_MS));
    // Of one from the future nobody knows how old it is.
    assert!(fresh.is_stale(19) && !fresh.is_stale(20));
    assert!(old.clone().with_loaded_at(5).is_stale(6 + STALE_AFTER_MS));
}

pub fn snapshots_are_in_the_order_of_what_they_show<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = RevocationStore::new(engine.store());
    let load = |now| store.load(now).expect("it loads");
    let empty = load(30);
    let number = store.revoke(Revocation::session("a"), 20).expect("it is revoked");
    let one = load(20);
    assert!(store.lift(number, 10).expect("it is lifted"));
    let lifted = load(10);
    // Each was read later, by a clock that went back.
    for (before, after) in [(&empty, &one), (&one, &lifted), (&empty, &lifted)] {
        assert!(before.is_behind(after) && !after.is_behind(before));
    }
    assert!(!lifted.is_behind(&load(5)) && !load(5).is_behind(&lifted));
}

pub fn many_revoke_at_once<E: Engine>()
where
    E::Store: Kv,
{
    let engine = E::fresh();
    let store = RevocationStore::new(engine.store());
    std::thread::scope(|scope| {
        for thread in 0..3_u8 {
            let store = &store;
            scope.spawn(move || {
                let mut snapshot = store.load(0).expect("it loads");
                for number in 0..10 {
                    let id = format!("{thread} {number}");
                    store.revoke(Revocation::session(&id), 0).expect("it is revoked");
                    snapshot = store.refresh(&snapshot, 0).expect("it is refreshed");
                    let nobody = person(0);
                    assert!(snapshot.is_revoked(&Subject::of(&nobody).session(&id)));
                }
            });
        }
    });
    let all = store.load(0).expect("it loads").list();
    let numbers: Vec<u64> = all.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=30).collect::<Vec<_>>());
}
