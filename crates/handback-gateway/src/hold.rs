//! Results over a client's budget, in the store of held values.

use std::sync::Arc;

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_page::json::ByteSource as _;
use handback_store::Kv;
use handback_store::held::{HeldError, HeldWriter, NewValue};
use handback_tool::{CallHeld, Failure};
use jsonschema::Validator;

use crate::bound::{Bounding, Budget, Keep, Kept, NewPart, PartWriter, bound};
use crate::note::HeldNote;
use crate::upstream::Raw;

/// The tool that held values are read with.
pub(crate) const READER: &str = "mcp_aql_read";

/// For whom a result is held, and from which size on.
#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) budget: Budget,
    pub(crate) held: CallHeld,
    pub(crate) owner: VerifiedPrincipal,
    pub(crate) now_ms: u64,
    pub(crate) upstream: String,
    pub(crate) tool: String,
}

/// What has to be known to cut a result.
pub(crate) struct Cutting {
    /// The name of the tool that held values are read with.
    pub(crate) reader: String,
    /// What structured results have to fit.
    pub(crate) output: Option<Arc<Validator>>,
}

/// Why a result is not given.
pub(crate) enum NotHeld {
    /// It is none of this protocol, or larger than anything that is held.
    Failed(Failure),
    /// There is no room for it: for people.
    Refused(String),
}

impl Holding {
    pub(crate) fn is_over(&self, raw: &Raw) -> bool {
        !self.budget.allows(raw.size_bytes())
    }

    /// Holds a result that is over the budget; gives the one that takes its place.
    pub(crate) async fn hold(&self, raw: Raw, cutting: Cutting) -> Result<Bytes, NotHeld> {
        let mut keep = self.clone();
        let cut = move || {
            let mut how = Bounding::new(keep.budget).reading_tool(&cutting.reader);
            if let Some(output) = &cutting.output {
                how = how.output_schema(output);
            }
            bound(&raw, &how, &mut keep)
        };
        let broke = || NotHeld::Refused("the result could not be held".to_owned());
        let cut = tokio::task::spawn_blocking(cut).await.map_err(|_| broke())?;
        match cut {
            Ok(bounded) => Ok(bounded.result.into()),
            Err(crate::bound::BoundError::Keep(HeldError::Quota { limit })) => {
                Err(NotHeld::Refused(format!(
                    "the result is larger than what is still held for this caller: at most {limit} \
                     bytes in all"
                )))
            }
            Err(crate::bound::BoundError::NotJson(_)) => Err(NotHeld::Failed(Failure::Lost)),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a result was not held");
                Err(broke())
            }
        }
    }
}

impl Keep for Holding {
    type Error = HeldError;
    type Writer<'a> = Writer;

    fn part(&mut self, part: &NewPart) -> Result<Writer, HeldError> {
        let note = HeldNote {
            upstream: Some(self.upstream.clone()),
            tool: self.tool.clone(),
            items: part.items.to_string(),
        };
        let new = NewValue::new(part.kind).note(note.to_bytes());
        let writer = self.held.writer(&self.owner, new, &mut rand::rng(), self.now_ms)?;
        Ok(Writer { writer, now_ms: self.now_ms })
    }
}

/// Writes one part.
pub(crate) struct Writer {
    writer: HeldWriter<Arc<dyn Kv>>,
    now_ms: u64,
}

impl PartWriter for Writer {
    type Error = HeldError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), HeldError> {
        self.writer.write(bytes, self.now_ms)
    }

    fn finish(self) -> Result<Kept, HeldError> {
        let held = self.writer.finish(self.now_ms)?;
        let handle = held.handle().ok_or(HeldError::Gone)?;
        Ok(Kept { handle, until_ms: held.until() })
    }
}
