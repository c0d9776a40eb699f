//! A schema with a budget of steps.

use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::applicators::{Check, Over, Token};
use super::table::ForeignSchema;

/// Steps of all checks by one validator: about a second of one core. A megabyte of arguments and a
/// schema of a published server take some 100,000.
pub const CHECK_STEPS_MAX: u64 = 20_000_000;

/// Subschemas inside each other during a check. A value has up to 127 levels, and recursive schemas of
/// published servers take three for each; a level takes about 1 KiB of stack.
pub const NESTED_CHECKS_MAX: usize = 800;

/// Steps after which the flag that stops a check is read.
const STEPS_PER_LOOK: u64 = 4096;

/// Bytes of a JSON pointer in a message.
const POINTER_BYTES_MAX: usize = 1024;

/// A schema from outside, and the steps that are left for its checks.
///
/// Made for one request: all its checks share one budget.
pub struct BoundedValidator {
    /// Nothing for a schema that cannot be used: no value fits.
    schema: Option<Arc<ForeignSchema>>,
    steps: Steps,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers decide about each")]
pub enum Verdict {
    /// The value fits the schema.
    Fits,
    /// The value does not fit.
    Misfit(Misfit),
    /// The budget did not suffice, or the check was stopped.
    Unknown,
}

/// A fault of a value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misfit {
    /// The place in the value, as a JSON pointer. Long ones are cut.
    pub pointer: String,
    /// The fault. Nothing of the value is repeated.
    pub message: String,
}

impl BoundedValidator {
    /// A validator with the full budget, for one request.
    #[must_use]
    pub fn new(schema: Arc<ForeignSchema>) -> Self {
        Self { schema: Some(schema), steps: Steps::new(CHECK_STEPS_MAX) }
    }

    /// A validator for a schema that cannot be used: no value fits.
    #[must_use]
    pub const fn unusable() -> Self {
        Self { schema: None, steps: Steps::new(0) }
    }

    /// With another budget.
    #[must_use]
    pub fn with_steps(mut self, steps: u64) -> Self {
        self.steps.left = Cell::new(steps);
        self
    }

    /// Ends its checks when the flag is set.
    #[must_use]
    pub fn stopped_by(mut self, flag: Arc<AtomicBool>) -> Self {
        self.steps.stop = Some(flag);
        self
    }

    /// Checks a value.
    #[must_use]
    pub fn check(&self, value: &Value) -> Verdict {
        let Some(schema) = &self.schema else { return Verdict::Misfit(Misfit::default()) };
        match Check::new(schema, &self.steps).run(value) {
            Ok(None) => Verdict::Fits,
            Ok(Some(misfit)) => Verdict::Misfit(misfit),
            Err(Over) => {
                self.steps.is_over.set(true);
                Verdict::Unknown
            }
        }
    }

    /// Reports that a value is known to fit.
    #[must_use]
    pub fn fits(&self, value: &Value) -> bool {
        self.check(value) == Verdict::Fits
    }

    /// Reports that a check had no result.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.steps.is_over.get()
    }

    /// Steps that were counted so far.
    #[must_use]
    pub const fn steps(&self) -> u64 {
        self.steps.taken.get()
    }
}

impl fmt::Debug for BoundedValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundedValidator")
            .field("schema", &self.schema)
            .field("steps", &self.steps.left.get())
            .finish_non_exhaustive()
    }
}

/// The steps of one validator.
pub(super) struct Steps {
    left: Cell<u64>,
    taken: Cell<u64>,
    is_over: Cell<bool>,
    stop: Option<Arc<AtomicBool>>,
}

impl Steps {
    const fn new(left: u64) -> Self {
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

impl Misfit {
    pub(super) fn new(path: &[Token<'_>], message: String) -> Self {
        let mut pointer = String::new();
        for token in path {
            let before = pointer.len();
            pointer.push('/');
            match token {
                Token::Name(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
                // Writing into a string does not fail.
                Token::Index(index) => drop(write!(pointer, "{index}")),
            }
            if pointer.len() > POINTER_BYTES_MAX {
                pointer.truncate(before);
                break;
            }
        }
        Self { pointer, message }
    }
}
