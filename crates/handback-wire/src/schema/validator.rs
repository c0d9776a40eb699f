//! A schema with a budget of steps.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::Value;

use super::applicators::Check;
use super::misfit::Misfit;
use super::steps::{Over, Steps};
use super::table::ForeignSchema;

/// Steps of all checks by one validator: about half a second of one core. A megabyte of arguments and a
/// schema of a published server take some 100,000.
pub const CHECK_STEPS_MAX: u64 = 10_000_000;

/// A schema from outside, and the steps that are left for its checks.
///
/// Made for one request: all its checks share one budget.
pub struct BoundedValidator {
    /// Nothing for a schema that cannot be used: no value fits.
    schema: Option<Arc<ForeignSchema>>,
    steps: Steps,
    /// Gives a guard for each check; nothing if there is none in time.
    admission: Option<Admission>,
}

type Admission = Box<dyn Fn() -> Option<Box<dyn Send>> + Send>;

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "callers decide about each")]
pub enum Verdict {
    /// The value fits the schema.
    Fits,
    /// The value does not fit.
    Misfit(Misfit),
    /// The budget did not suffice, or the check was stopped or not admitted.
    Unknown,
}

impl BoundedValidator {
    /// A validator with the full budget, for one request.
    #[must_use]
    pub fn new(schema: Arc<ForeignSchema>) -> Self {
        Self { schema: Some(schema), steps: Steps::new(CHECK_STEPS_MAX), admission: None }
    }

    /// A validator for a schema that cannot be used: no value fits.
    #[must_use]
    pub const fn unusable() -> Self {
        Self { schema: None, steps: Steps::new(0), admission: None }
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

    /// Requests a guard before each check, and drops it after the check. A check without a guard has no
    /// result.
    #[must_use]
    pub fn admitted_by(
        mut self,
        admission: impl Fn() -> Option<Box<dyn Send>> + Send + 'static,
    ) -> Self {
        self.admission = Some(Box::new(admission));
        self
    }

    /// Checks a value.
    #[must_use]
    pub fn check(&self, value: &Value) -> Verdict {
        let Some(schema) = &self.schema else { return Verdict::Misfit(Misfit::default()) };
        let admitted = self.admission.as_ref().map(|admission| admission());
        if matches!(admitted, Some(None)) {
            self.steps.is_over.set(true);
            return Verdict::Unknown;
        }
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
