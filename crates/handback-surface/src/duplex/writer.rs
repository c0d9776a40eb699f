//! The half of a connection that writes: a task of its own, so that reading never waits for it.

use std::time::Duration;

use futures_util::stream::SplitSink;
use futures_util::{SinkExt as _, TryFutureExt as _};
use handback_stream::duplex::{Format, ServerFrame};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Message};
use tokio_tungstenite::tungstenite::{Utf8Bytes, error::Error};

use super::counted::CountedIo;

/// What a connection is on.
pub(super) type Socket = WebSocketStream<CountedIo<TokioIo<Upgraded>>>;

/// Messages that wait to be written.
const AHEAD: usize = 4;

/// How long one message may take: a client that reads nothing for so long is gone.
const WRITE_TIME: Duration = Duration::from_secs(60);

/// What writes messages.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) messages: mpsc::Sender<Message>,
    task: JoinHandle<()>,
}

impl Writer {
    pub(super) fn start(sink: SplitSink<Socket, Message>) -> Self {
        let (messages, waiting) = mpsc::channel(AHEAD);
        Self { messages, task: tokio::spawn(write(sink, waiting)) }
    }

    /// Sends a last message if there is one, closes, and waits until that is done.
    pub(super) async fn finish(self, last: Option<Message>, close: CloseFrame) {
        for message in last.into_iter().chain([Message::Close(Some(close))]) {
            if self.messages.send(message).await.is_err() {
                break;
            }
        }
        drop(self.messages);
        let _ = self.task.await;
    }

    /// Writes nothing more.
    pub(super) fn cut(self) {
        self.task.abort();
    }
}

async fn write(mut sink: SplitSink<Socket, Message>, mut waiting: mpsc::Receiver<Message>) {
    while let Some(message) = waiting.recv().await {
        let sent = async {
            sink.feed(message).await?;
            // Those that wait already go with it.
            while let Ok(message) = waiting.try_recv() {
                sink.feed(message).await?;
            }
            sink.flush().await
        };
        let sent = tokio::time::timeout(
            WRITE_TIME,
            sent.map_err(|error: Error| {
                tracing::debug!(%error, "a duplex connection ended");
            }),
        );
        if !matches!(sent.await, Ok(Ok(()))) {
            return;
        }
    }
}

/// A frame as a message.
pub(super) fn message(format: Format, frame: &ServerFrame) -> Message {
    let bytes = frame.encode(format);
    match format {
        Format::Protobuf => Message::Binary(bytes),
        // What was written by serde_json is UTF-8.
        Format::Json => {
            Utf8Bytes::try_from(bytes).map_or_else(|_| Message::text(""), Message::Text)
        }
    }
}
