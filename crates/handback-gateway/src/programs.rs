//! The programs of upstreams that are started for single callers: counted for each caller and for all.
//!
//! An upstream of the older era is a program for each session, and for each newer caller. A program is
//! counted from before its start until it has ended, also while it takes its time to end.

use handback_identity::{Caller, VerifiedPrincipal};
use handback_tool::{Charge, Gate, Quota, Surface};

use crate::upstream::{LineError, PROGRAMS};

/// The account that the programs of one caller are counted on.
#[derive(Clone, Debug)]
pub(crate) struct ProgramAccount {
    quota: Quota,
    gate: Gate,
    caller: VerifiedPrincipal,
}

impl ProgramAccount {
    pub(crate) fn new(quota: &Quota, gate: Gate, caller: &Caller) -> Self {
        Self { quota: quota.clone(), gate, caller: caller.principal().clone() }
    }

    /// Counts one more program.
    pub(crate) fn charge(&self) -> Result<Charge, LineError> {
        self.quota.charge(&self.caller, 1).map_err(|part| {
            self.gate.refused_by_quota(Surface::Mcp, PROGRAMS, &self.caller, part);
            LineError::OverQuota(part)
        })
    }
}
