//! Steps of checks, and the limit of nesting.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Subschemas inside each other during a check. A value has up to 127 levels, and recursive schemas of
/// published servers take three for each; a level takes about 1 KiB of stack.
pub const NESTED_CHECKS_MAX: usize = 800;

/// Steps after which the flag that stops a check is read.
const STEPS_PER_LOOK: u64 = 4096;

/// The check ended without a result: the steps are used up, the schema nests too deeply, a pattern
/// cannot be searched, or the check was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over;

/// The steps of one validator.
pub(super) struct Steps {
    pub(super) left: Cell<u64>,
    pub(super) taken: Cell<u64>,
    pub(super) is_over: Cell<bool>,
    pub(super) stop: Option<Arc<AtomicBool>>,
}

impl Steps {
    pub(super) const fn new(left: u64) -> Self {
        let (taken, is_over) = (Cell::new(0), Cell::new(false));
        Self { left: Cell::new(left), taken, is_over, stop: None }
    }

    /// Takes steps before their work is done.
    pub(super) fn take(&self, steps: u64) -> Result<(), Over> {
        let left = self.left.get().checked_sub(steps).ok_or(Over)?;
        self.left.set(left);
        let (before, after) = (self.taken.get(), self.taken.get() + steps);
        self.taken.set(after);
        let looks = before / STEPS_PER_LOOK != after / STEPS_PER_LOOK;
        let is_stopped = |flag: &Arc<AtomicBool>| flag.load(Ordering::Relaxed);
        if looks && self.stop.as_ref().is_some_and(is_stopped) {
            return Err(Over);
        }
        Ok(())
    }
}
