//! Requests of clients that may be cancelled.
//!
//! > Receivers of a cancellation notification SHOULD stop processing the cancelled request, free associated
//! > resources, and not send a response for the cancelled request. (2025-11-25, Cancellation)

use tokio_util::sync::CancellationToken;

/// True if the answer to a request is still wanted. Clones are of the same request.
#[derive(Clone, Debug)]
pub struct Cancellation {
    /// The client has cancelled the request.
    unwanted: CancellationToken,
    /// The work ends: by that, or because the client has left.
    pub(crate) cancel: CancellationToken,
}

impl Cancellation {
    /// The client has cancelled the request: it gets no answer, and nothing before one.
    pub(crate) fn cancelled(&self) {
        self.unwanted.cancel();
    }

    /// The client has left.
    pub(crate) fn end(&self) {
        self.cancel.cancel();
    }

    /// True if the client has cancelled the request.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.unwanted.is_cancelled()
    }
}

impl Default for Cancellation {
    fn default() -> Self {
        let unwanted = CancellationToken::new();
        Self { cancel: unwanted.child_token(), unwanted }
    }
}
