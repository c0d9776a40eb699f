//! Calls whose caller goes on sending.

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Chunks that wait for a tool at most; those after it wait where they are kept.
pub const CHUNKS_WAITING_MAX: usize = 16;

/// What a caller sends, piece by piece.
#[derive(Debug)]
pub struct Chunks(mpsc::Receiver<Bytes>);

impl Chunks {
    /// What comes out of `receiver`, which should hold [`CHUNKS_WAITING_MAX`].
    #[must_use]
    pub const fn new(receiver: mpsc::Receiver<Bytes>) -> Self {
        Self(receiver)
    }

    /// The next piece; nothing when the caller has closed.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.0.recv().await
    }
}

/// What a surface hands to a call whose caller goes on sending.
#[derive(Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal: nothing may be left out")]
pub struct DuplexEnds {
    /// What the caller sends. It ends when the caller has closed, not when it has aborted.
    pub chunks: Chunks,
    /// How many of the call's events are durable: its outcome is not recorded before all of them are.
    pub written: watch::Receiver<u64>,
    /// Drops the call, recorded or not: the caller has aborted, or nobody is left to write events.
    pub stop: CancellationToken,
}

impl DuplexEnds {
    /// Of a call without a caller that sends: it has closed, and nobody writes events.
    pub(crate) fn of_nobody() -> Self {
        let (_, chunks) = mpsc::channel(1);
        let (_, written) = watch::channel(u64::MAX);
        Self { chunks: Chunks(chunks), written, stop: CancellationToken::new() }
    }
}
