//! Questions that are no calls: lists, completions, subscriptions, and what only an upstream knows.
//!
//! They are counted, so that one caller takes neither the room nor the time of the others. The audit
//! has those that are refused, and those of which nobody here knows what they do.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use handback_identity::Caller;
use handback_token::Operation;
use rand::RngExt as _;
use serde_json::Value;

use crate::audit::Entry;
use crate::limits::Place;
use crate::pipeline::Pipeline;
use crate::request::{Arguments, Refusal, Request, Surface};

/// What kind of question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "each is counted in its own way")]
pub enum QuestionKind {
    /// One that is answered soon.
    Short,
    /// One that is answered for as long as its caller listens.
    Listening,
    /// One that is passed on, and may do anything.
    Unknown,
}

/// A question that was let in. It counts until this is dropped.
pub struct LetIn {
    entry: Option<Entry>,
    _place: Place,
}

impl LetIn {
    /// Writes down that it was answered, where that is written down.
    pub fn answered(mut self, is_error: bool) {
        if let Some(entry) = self.entry.take() {
            entry.end_with(|line| {
                line.decision = Some(if is_error { "failed" } else { "answered" });
            });
        }
    }
}

impl fmt::Debug for LetIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LetIn").finish_non_exhaustive()
    }
}

impl Pipeline {
    /// Lets a question in that is no call, if its caller has room for one more.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] and [`Refusal::TooFast`].
    pub fn let_in_question(
        &self,
        caller: &Caller,
        surface: Surface,
        method: &str,
        kind: QuestionKind,
    ) -> Result<LetIn, Refusal> {
        let places = match kind {
            QuestionKind::Listening => &self.shared.listeners,
            QuestionKind::Short | QuestionKind::Unknown => &self.shared.questions,
        };
        let principal = caller.principal();
        let counted = |place| self.shared.rates.take(principal, Instant::now()).map(|()| place);
        let place = places.take(principal).and_then(counted);
        if place.is_ok() && kind != QuestionKind::Unknown {
            return place.map(|place| LetIn { entry: None, _place: place });
        }
        let operation =
            if kind == QuestionKind::Unknown { Operation::Call } else { Operation::List };
        let arguments = Arguments::Given(Value::Null);
        let request =
            Request::new(caller.clone(), surface, operation, method.to_owned(), arguments);
        let parts = &self.shared.parts;
        let (audit, clock) = (Arc::clone(&parts.audit), Arc::clone(&parts.clock));
        let entry = Entry::start(&audit, &clock, rand::rng().random(), &request);
        match place {
            Ok(place) => {
                entry.begun();
                Ok(LetIn { entry: Some(entry), _place: place })
            }
            Err(refusal) => {
                entry.end_with(|line| line.refuse(&refusal));
                Err(refusal)
            }
        }
    }
}
