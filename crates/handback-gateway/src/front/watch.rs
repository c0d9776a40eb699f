//! Whether what stays open may.
//!
//! A stream of events is opened by one request, and is there for hours. What its caller was granted may be
//! taken back meanwhile: the credential expires or is removed, the caller or the session is revoked.

use std::time::Duration;

use handback_token::Operation;
use handback_tool::gate::{Back, Gate};
use handback_tool::{Credential, Surface};
use tokio::time::Instant;

/// How often it is looked at: so long what was revoked elsewhere may be unknown as well.
pub(super) const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How often it is asked whether a credential would still be let in. To verify it costs more than to look
/// at the clock, and there may be thousands.
const AGAIN_PERIOD: Duration = Duration::from_secs(15);

/// Watches over something that stays open.
#[derive(Debug)]
pub(super) struct Watch {
    gate: Gate,
    credential: Credential,
    /// What kind of thing it is, in the audit.
    continuation: &'static str,
    looked: Option<Instant>,
    asked: Instant,
}

impl Watch {
    /// Over something that this credential was shown for just now.
    pub(super) fn new(gate: Gate, credential: Credential, continuation: &'static str) -> Self {
        Self { gate, credential, continuation, looked: None, asked: Instant::now() }
    }

    /// Whether it may stay open, as of a second ago. Why it may not is written down.
    pub(super) async fn holds(&mut self) -> bool {
        if self.looked.is_some_and(|looked| looked.elapsed() < LOOK_PERIOD) {
            return true;
        }
        self.looked = Some(Instant::now());
        let mut ended = self.credential.ended(Some(&self.gate), self.gate.now_ms()).await;
        if ended.is_none() && self.asked.elapsed() >= AGAIN_PERIOD {
            self.asked = Instant::now();
            ended = self.credential.gone().await;
        }
        let Some(reason) = ended else { return true };
        let (surface, operation) = (Surface::Mcp, Operation::Duplex);
        let (continuation, principal) = (self.continuation, self.credential.principal());
        let back = Back { surface, operation, name: "mcp", continuation, principal, text: "" };
        self.gate.ended(&back, reason);
        false
    }

    /// Resolves when it may not stay open any more.
    pub(super) async fn over(mut self) {
        while self.holds().await {
            tokio::time::sleep(LOOK_PERIOD).await;
        }
    }
}
