//! Faults of upstreams that were logged, so that each is logged once.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::kept::Kept;

/// Faults that are remembered. The least recently used is forgotten first, and logged once more.
const FAULTS_MAX: usize = 1_024;

/// A fault: the upstream, the name of a tool or prompt, and the kind of fault.
type Fault = (String, String, &'static str);

/// The faults that were logged.
pub(crate) struct LoggedFaults(Mutex<Kept<Fault, ()>>);

impl LoggedFaults {
    /// Reports that a fault was not logged before. The next time it was.
    pub(crate) fn is_first(&self, upstream: &str, name: &str, kind: &'static str) -> bool {
        let mut logged = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fault = (upstream.to_owned(), name.to_owned(), kind);
        let is_first = logged.get(&fault).is_none();
        if is_first {
            logged.put(fault, ());
        }
        is_first
    }
}

impl Default for LoggedFaults {
    fn default() -> Self {
        Self(Mutex::new(Kept::new(FAULTS_MAX)))
    }
}

impl fmt::Debug for LoggedFaults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoggedFaults").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_first_once() {
        let logged = LoggedFaults::default();
        assert!(logged.is_first("a", "x", "long"));
        assert!(!logged.is_first("a", "x", "long"));
        assert!(logged.is_first("b", "x", "long") && logged.is_first("a", "x", "empty"));
    }
}
