//! The audit as a source of numbers: whatever ends or is refused has a line there, on every surface.

use std::sync::Arc;

use super::{Metrics, OUTCOMES, REASONS, SURFACES};
use crate::audit::{AuditLine, AuditSink};

/// Counts lines, and hands them on.
#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) sink: Arc<dyn AuditSink>,
    pub(crate) metrics: Arc<Metrics>,
}

impl AuditSink for Counted {
    fn write(&self, line: &AuditLine<'_>) {
        self.metrics.count(line);
        self.sink.write(line);
    }

    fn begun(&self, call: &str) {
        self.sink.begun(call);
    }

    fn flush(&self, now_ms: u64) {
        self.sink.flush(now_ms);
    }
}

impl Metrics {
    fn count(&self, line: &AuditLine<'_>) {
        let Some(decision) = line.decision else { return };
        let outcome = OUTCOMES.iter().position(|outcome| *outcome == decision);
        if line.event == "end" {
            let surface = SURFACES.iter().position(|surface| surface.as_str() == line.surface);
            let counters = surface.and_then(|surface| self.calls.get(surface));
            if let (Some(counters), Some(outcome)) = (counters, outcome)
                && let Some(counter) = counters.get(outcome)
            {
                counter.increment();
            }
        }
        // A call that nobody wanted any more was not refused.
        if let Some(reason) = line.reason.filter(|_| decision != "cancelled") {
            let place = REASONS.iter().position(|known| *known == reason);
            if let Some(counter) = self.refusals.0.get(place.unwrap_or(REASONS.len() - 1)) {
                counter.increment();
            }
        }
    }
}
