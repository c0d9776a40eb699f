//! The bytes of a WebSocket, counted until their message is complete.
//!
//! A message of a WebSocket may come in many frames, and a frame in many pieces. All of them are in the
//! buffers of the library, out of sight. So the bytes are counted below it, as they are read, and given
//! back above it, with each message.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use handback_tool::{InputRefusal, UnfinishedInput};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_tungstenite::tungstenite::Message;

/// Bytes that are read and dropped at a time once the input was refused.
const DROPPED_BYTES: usize = 4 << 10;

/// Bytes in front of what a client sends in a ping or a pong: the head and the mask (RFC 6455).
const CONTROL_HEAD_BYTES: usize = 6;

/// The unfinished input of a connection, for those who read bytes and those who take messages.
#[derive(Clone, Debug)]
pub(super) struct SocketInput(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    input: UnfinishedInput,
    refusal: Option<InputRefusal>,
    /// Waits for the refusal.
    waiting: Option<Waker>,
}

impl SocketInput {
    pub(super) fn new(input: UnfinishedInput) -> Self {
        Self(Arc::new(Mutex::new(State { input, refusal: None, waiting: None })))
    }

    /// A message is complete, and is handed on. Pings and pongs may come between the parts of another.
    pub(super) fn complete(&self, message: &Message) {
        let mut state = self.lock();
        match message {
            Message::Ping(bytes) | Message::Pong(bytes) => {
                state.input.forget(CONTROL_HEAD_BYTES + bytes.len());
            }
            // Nothing counts yet of the message after it.
            _ => drop(state.input.complete(0)),
        }
    }

    /// Waits until the input is refused. The floor of speed holds for a connection that is read.
    pub(super) async fn refused(&self, is_reading: bool) -> InputRefusal {
        std::future::poll_fn(|context| {
            let mut state = self.lock();
            if !is_reading {
                state.input.restart_period();
            } else if state.refusal.is_none() && state.input.has_begun() {
                match state.input.poll_refused(context) {
                    Poll::Ready(refusal) => state.refusal = Some(refusal),
                    Poll::Pending => {}
                }
            }
            state.waiting = Some(context.waker().clone());
            state.refusal.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }

    fn received(&self, bytes: usize) {
        let mut state = self.lock();
        if let Err(refusal) = state.input.received(bytes) {
            state.refusal = Some(refusal);
            if let Some(waiting) = state.waiting.take() {
                waiting.wake();
            }
        }
    }

    fn is_refused(&self) -> bool {
        self.lock().refusal.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection whose bytes are counted. Once its input is refused, what still comes is dropped.
#[derive(Debug)]
pub(super) struct CountedIo<S> {
    stream: S,
    input: SocketInput,
}

impl<S> CountedIo<S> {
    pub(super) const fn new(stream: S, input: SocketInput) -> Self {
        Self { stream, input }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedIo<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.input.is_refused() {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            this.input.received(buffer.filled().len() - before);
            return Poll::Ready(Ok(()));
        }
        loop {
            let mut dropped = [0; DROPPED_BYTES];
            let mut dropped = ReadBuf::new(&mut dropped);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut dropped))?;
            if dropped.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedIo<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
