//! The tests that every engine must pass.
//!
//! ```text
//! struct Mine { /* … */ }
//! impl handback_store::suite::Engine for Mine { /* … */ }
//! handback_store::suite_of_log!(Mine);
//! handback_store::suite_of_kv!(Mine);
//! ```
//!
//! Most of it is random: operations on the engine and on a model of a few lines, which must answer
//! alike. What the model cannot show is tested by hand: what others see while a batch is written, and
//! writers that compete.

pub mod kv;
pub mod log;
mod log_model;

use proptest::test_runner::{Config, TestRunner};

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

fn runner<E: Engine>() -> TestRunner {
    // Where the sources of the suite lie is not where a failure of some engine should be kept.
    TestRunner::new(Config { cases: E::CASES, failure_persistence: None, ..Config::default() })
}
