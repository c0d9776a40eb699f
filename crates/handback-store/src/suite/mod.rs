//! The tests that every engine must pass.
//!
//! ```text
//! struct Mine { /* … */ }
//! impl handback_store::suite::Engine for Mine { /* … */ }
//! handback_store::suite_of_log!(Mine);
//! handback_store::suite_of_kv!(Mine);
//! handback_store::suite_of_journal!(Mine);
//! handback_store::suite_of_sessions!(Mine);
//! handback_store::suite_of_held!(Mine);
//! handback_store::suite_of_revocations!(Mine);
//! ```
//!
//! Most of it is random: operations on the engine and on a model of a few lines, which must answer
//! alike. What the model cannot show is tested by hand: what others see while a batch is written, and
//! writers that compete.

pub mod held;
pub mod journal;
pub mod kv;
pub mod log;
mod log_model;
pub mod revocations;
pub mod sessions;

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::test_runner::{Config, TestRunner};
use rand_core::{TryCryptoRng, TryRng};
use xxhash_rust::xxh3::xxh3_64;

/// An engine under test.
pub trait Engine: Sized {
    /// What it opens.
    type Store;

    /// Random runs per property. A run opens a store of its own, and reopens it now and then.
    const CASES: u32 = 256;

    /// An empty store of its own.
    fn fresh() -> Self;

    /// The store, open.
    fn store(&self) -> &Self::Store;

    /// Closes it and opens it again. An engine that keeps nothing leaves it open.
    fn reopen(&mut self);
}

/// Tests of [`Log`](crate::Log), for an [`Engine`](crate::suite::Engine).
#[macro_export]
macro_rules! suite_of_log {
    ($engine:ty) => {
        $crate::suite_of_log!($engine:
            answers_as_the_model,
            an_empty_store_has_nothing,
            reads_stop_at_their_limits,
            a_log_may_start_anywhere,
            notes_are_replaced_and_listed_in_order,
            a_removed_log_is_gone_and_may_come_back,
            dropped_records_leave_gaps,
            long_logs_are_removed_at_once,
            neighbours_are_not_touched,
            large_records_come_back,
            nobody_sees_half_a_batch,
            recovering_without_trouble_changes_nothing,
        );
    };
    ($engine:ty: $($test:ident,)+) => {
        $(#[test] fn $test() { $crate::suite::log::$test::<$engine>(); })+
    };
}

/// Tests of [`Kv`](crate::Kv), for an [`Engine`](crate::suite::Engine).
#[macro_export]
macro_rules! suite_of_kv {
    ($engine:ty) => {
        $crate::suite_of_kv!($engine:
            values_answer_as_the_model,
            an_empty_store_has_no_values,
            a_batch_is_written_whole_or_not_at_all,
            the_first_unmet_condition_is_named,
            what_has_outlived_its_time_is_not_there,
            sweeping_leaves_what_lives,
            keys_have_a_greatest_length,
            scans_go_on_where_they_stopped,
            one_of_many_writers_wins,
        );
    };
    ($engine:ty: $($test:ident,)+) => {
        $(#[test] fn $test() { $crate::suite::kv::$test::<$engine>(); })+
    };
}

/// Tests of the [`journal`](crate::journal), for an [`Engine`](crate::suite::Engine).
#[macro_export]
macro_rules! suite_of_journal {
    ($engine:ty) => {
        $crate::suite_of_journal!($engine:
            the_journal_answers_as_the_model,
            a_call_is_made_once,
            scopes_and_redemptions_are_kept_apart,
            a_released_call_leaves_nothing,
            an_abandoned_call_stays_ambiguous,
            what_a_crash_left_is_settled_by_class,
            a_second_try_that_does_nothing_frees_nothing,
            a_dropped_reservation_is_settled,
            instances_do_not_settle_each_other,
            a_second_process_of_an_instance_fences_the_first,
            outcomes_have_a_greatest_length,
            one_of_many_callers_makes_the_call,
        );
    };
    ($engine:ty: $($test:ident,)+) => {
        $(#[test] fn $test() { $crate::suite::journal::$test::<$engine>(); })+
    };
}

/// Tests of [`sessions`](crate::sessions), for an [`Engine`](crate::suite::Engine).
#[macro_export]
macro_rules! suite_of_sessions {
    ($engine:ty) => {
        $crate::suite_of_sessions!($engine:
            sessions_answer_as_the_model,
            somebody_else_finds_and_touches_nothing,
            reading_writes_seldom,
            lengths_are_bounded,
            a_principal_has_so_many_sessions,
            a_deleted_session_never_comes_back,
        );
    };
    ($engine:ty: $($test:ident,)+) => {
        $(#[test] fn $test() { $crate::suite::sessions::$test::<$engine>(); })+
    };
}

/// Tests of [`held`](crate::held), for an [`Engine`](crate::suite::Engine).
#[macro_export]
macro_rules! suite_of_held {
    ($engine:ty) => {
        $crate::suite_of_held!($engine:
            held_values_answer_as_the_model,
            values_of_every_length_are_read_anywhere,
            nothing_is_left_of_what_was_not_finished,
            spilled_values_have_their_own_names,
            what_is_owed_is_kept_and_counts,
            wound_a10_what_is_owed_within_the_limit_is_refused_past_it,
            a_value_can_have_a_least_life,
            an_id_that_is_given_is_written_once_for_each_principal,
            a_principal_holds_so_much_however_many_write,
            sweeping_comes_round,
            long_outcomes_are_kept_beside_their_rows,
        );
    };
    ($engine:ty: $($test:ident,)+) => {
        $(#[test] fn $test() { $crate::suite::held::$test::<$engine>(); })+
    };
}

/// Tests of [`revocations`](crate::revocations), for an [`Engine`](crate::suite::Engine).
#[macro_export]
macro_rules! suite_of_revocations {
    ($engine:ty) => {
        $crate::suite_of_revocations!($engine:
            revocations_answer_as_the_model,
            a_snapshot_knows_its_age,
            snapshots_are_in_the_order_of_what_they_show,
            many_revoke_at_once,
        );
    };
    ($engine:ty: $($test:ident,)+) => {
        $(#[test] fn $test() { $crate::suite::revocations::$test::<$engine>(); })+
    };
}

fn runner<E: Engine>() -> TestRunner {
    // Where the sources of the suite lie is not where a failure of some engine should be kept.
    TestRunner::new(Config { cases: E::CASES, failure_persistence: None, ..Config::default() })
}

/// Random numbers, all different, where a caller would have those of the system.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    /// No two draw the same numbers.
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed) << 32)
    }
}

impl TryRng for Chance {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        let [a, b, c, d, ..] = self.try_next_u64()?.to_be_bytes();
        Ok(u32::from_be_bytes([a, b, c, d]))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.0 += 1;
        Ok(xxh3_64(&self.0.to_be_bytes()))
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for place in bytes.chunks_mut(8) {
            let drawn = self.try_next_u64()?.to_be_bytes();
            place.iter_mut().zip(drawn).for_each(|(place, drawn)| *place = drawn);
        }
        Ok(())
    }
}

impl TryCryptoRng for Chance {}
