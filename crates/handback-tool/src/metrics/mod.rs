//! What is counted, for operators.
//!
//! | file | what it is for |
//! |---|---|
//! | `instruments` | counters and histograms: numbers that many threads add to |
//! | `count` | the audit as a source: every line that ends something is counted |
//! | `upstream` | what is counted of each server behind a gateway |
//! | `table` | every metric, with its kind, its labels and what it means |
//! | `text` | all of it as Prometheus reads it |
//!
//! - **What is counted is known beforehand.** Every counter is a field; a call adds to some of them
//!   and does nothing else. No name is looked up, and nothing is written down per call.
//! - **Labels come from closed sets**: surfaces, outcomes, reasons of the audit, and the names of
//!   upstreams as configured. Nothing that a caller says becomes a label; a reason that is not in the
//!   table is counted as `other`.
//! - **What others know is not counted twice.** Tokens are counted by the sealer, held values by
//!   their store; both are asked when somebody reads.
//!
//! Rejected: a crate for it. The usual exporter keeps every observation of a histogram until somebody
//! reads, so that its memory grows with the calls where nobody does; it has two dozen crates below
//! it, a second generator of random numbers among them, for what is some atomics here.

mod count;
mod instruments;
mod table;
mod text;
mod upstream;

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::InputBudget;
use crate::request::Surface;
use crate::share::Quota;

pub(crate) use count::Counted;
pub use instruments::{Counter, Histogram};
pub use table::{Described, Kind as MetricKind, TABLE};
pub use upstream::{UpstreamMetrics, UpstreamOutcome};

/// How calls end, as the audit has it.
pub(crate) const OUTCOMES: [&str; 6] =
    ["answered", "replayed", "failed", "checked", "refused", "cancelled"];

/// The place of replays among them.
pub(crate) const REPLAYED: usize = 1;

/// Where calls come in.
pub(crate) const SURFACES: [Surface; 5] =
    [Surface::Mcp, Surface::Http, Surface::Socket, Surface::Duplex, Surface::Library];

/// Why something is refused: every reason that the audit has. The last one stands for what is not
/// here.
pub(crate) const REASONS: [&str; 43] = [
    // Of calls.
    "not_found",
    "busy",
    "too_fast",
    "quota",
    "bad_arguments",
    "bad_answers",
    "bad_key",
    "mismatch",
    "ambiguous",
    "in_flight",
    "timed_out",
    "broken",
    "too_large",
    "unavailable",
    // Of calls that upstreams did not answer, or whose answer was not kept.
    "unreachable",
    "lost",
    "refused",
    "era",
    "protocol",
    "not_held",
    // Of tokens.
    "too_long",
    "malformed",
    "unknown_slot",
    "not_opened",
    "retired_key",
    "expired",
    "too_far",
    "revoked",
    "replayed",
    // Of handles.
    "expired_handle",
    "unknown_handle",
    "mistyped_handle",
    "direction",
    // Of sessions, events, tasks and duplexes.
    "unknown",
    "foreign",
    "other_scopes",
    "outlived",
    "mistyped",
    "credential_expired",
    "credential_gone",
    // Of limits.
    "caller_share",
    "server_limit",
    OTHER,
];

/// A reason that is not among them.
pub(crate) const OTHER: &str = "other";

/// Upstreams that are counted by name at most; a gateway has no more.
pub const UPSTREAMS_MAX: usize = 64;

/// Everything that is counted. One for each pipeline.
#[derive(Debug, Default)]
pub struct Metrics {
    calls: [[Counter; OUTCOMES.len()]; SURFACES.len()],
    refusals: ByReason,
    /// Calls that waited for one that was under way with the same key.
    pub(crate) joins: Counter,
    /// Requests whose credential was absent or wrong.
    pub unidentified: Counter,
    /// Results over the budget of their client, which were held.
    pub held_results: Counter,
    /// Their bytes.
    pub held_result_bytes: Counter,
    /// Bytes that clients got in their place.
    pub given_bytes: Counter,
    /// Tokens that they were spared by that, as the gateway estimates them.
    pub saved_tokens: Counter,
    /// Bytes of answers of the gateway's own tools, with which held results are read.
    pub read_bytes: Counter,
    /// Bytes of held values that were put into arguments.
    pub referenced_bytes: Counter,
    /// How long relayed calls were in the gateway, and not at their upstream.
    pub overhead: Histogram,
    /// Incomplete input of callers, where a server listens.
    pub input: OnceLock<InputBudget>,
    /// The quotas of subscriptions and of their bytes, where there are streams.
    subscriptions: OnceLock<(Quota, Quota)>,
    upstreams: RwLock<Vec<Arc<UpstreamMetrics>>>,
}

/// A counter for each reason.
#[derive(Debug)]
struct ByReason([Counter; REASONS.len()]);

impl Default for ByReason {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Counter::default()))
    }
}

impl Metrics {
    /// What is counted of an upstream. The name is one of the configuration, never of a caller; after
    /// [`UPSTREAMS_MAX`] of them, what is counted is not shown.
    #[must_use]
    pub fn upstream(&self, name: &str) -> Arc<UpstreamMetrics> {
        let mut all = self.upstreams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = all.iter().find(|known| known.name() == name) {
            return Arc::clone(known);
        }
        let new = Arc::new(UpstreamMetrics::new(name));
        if all.len() < UPSTREAMS_MAX {
            all.push(Arc::clone(&new));
        }
        new
    }

    /// Shows how much of the quotas of subscriptions, and of their bytes, all callers use.
    pub fn show_subscriptions(&self, count: Quota, bytes: Quota) {
        let _ = self.subscriptions.set((count, bytes));
    }

    /// Calls that were answered with what an earlier try gave.
    #[must_use]
    pub fn replays(&self) -> u64 {
        self.calls.iter().filter_map(|of| of.get(REPLAYED)).map(Counter::get).sum()
    }

    /// Calls that came to an end, however.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.calls.iter().flatten().map(Counter::get).sum()
    }

    /// What was refused, for whatever reason.
    #[must_use]
    pub fn refusals(&self) -> u64 {
        self.refusals.0.iter().map(Counter::get).sum()
    }

    /// Calls that waited for one that was under way.
    #[must_use]
    pub fn joins(&self) -> u64 {
        self.joins.get()
    }
}

/// What others know, at the moment of reading.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Elsewhere {
    /// Tokens that were sealed and opened: cursors, request state, resume tokens.
    pub(crate) tokens: [handback_token::Tallied; 3],
    pub(crate) held: handback_store::held::HeldTally,
}
