//! What tools can do to the outside: of a request, and of a task.

#![expect(deprecated, reason = "log messages are a part of what the suite looks at")]

use std::time::Duration;

use handback_interop::fixture::{Host, List};
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServiceError};

use crate::server::Listeners;

/// A request that waits for its answer.
pub(crate) struct OfRequest<'a> {
    pub(crate) context: &'a RequestContext<RoleServer>,
    pub(crate) listeners: &'a Listeners,
}

impl Host for OfRequest<'_> {
    async fn log(&self, level: &str, text: &str) {
        let level = serde_json::from_value(level.into()).unwrap_or(LoggingLevel::Info);
        let message = LoggingMessageNotificationParam::new(level, text.into());
        ignore(self.context.peer.notify_logging_message(message.with_logger("fixture")).await);
    }

    async fn progress(&self, done: f64, total: f64, text: &str) {
        if let Some(token) = self.context.meta.get_progress_token() {
            let progress = ProgressNotificationParam::new(token, done);
            let progress = progress.with_total(total).with_message(text);
            ignore(self.context.peer.notify_progress(progress).await);
        }
    }

    async fn changed(&self, list: List) {
        for listener in self.listeners.all() {
            // One that did not ask for this list is told nothing.
            let _ = match list {
                List::Tools => listener.notify_tool_list_changed().await,
                List::Prompts => listener.notify_prompt_list_changed().await,
            };
        }
    }

    async fn pause(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

/// Work that nobody is connected to.
pub(crate) struct OfTask;

impl Host for OfTask {
    async fn log(&self, _: &str, _: &str) {}

    async fn progress(&self, _: f64, _: f64, _: &str) {}

    async fn changed(&self, _: List) {}

    async fn pause(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}

/// The client may be gone; the tool goes on.
fn ignore(sent: Result<(), ServiceError>) {
    drop(sent);
}
