//! A server of three tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use handback_identity::VerifiedPrincipal;
use hyper::http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InitializeRequestParams,
    InitializeResult, ListToolsResult, PaginatedRequestParams, ProgressNotificationParam,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::Notify;

use crate::world::until;

/// What the tests see of the calls.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) started: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) finished: AtomicU64,
    /// How many sessions were asked for.
    pub(crate) begun: AtomicU64,
    /// Whether sessions wait for `go` before they begin.
    pub(crate) is_slow_to_begin: AtomicBool,
    /// Lets `wait` go on, and sessions that wait.
    pub(crate) go: Notify,
}

impl Seen {
    /// Waits until a number is reached.
    pub(crate) async fn reaches(number: &AtomicU64, wanted: u64) {
        until(|| number.load(Ordering::SeqCst) >= wanted).await;
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Handler {
    pub(crate) seen: Arc<Seen>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        self.seen.begun.fetch_add(1, Ordering::SeqCst);
        if self.seen.is_slow_to_begin.load(Ordering::SeqCst) {
            self.seen.go.notified().await;
        }
        context.peer.set_peer_info(request.clone());
        self.negotiate_initialize(&request)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &'static str| Tool::new(name, name, rmcp::object!({ "type": "object" }));
        Ok(ListToolsResult::with_all_items(["whoami", "wait", "tell"].map(tool).to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.seen.started.fetch_add(1, Ordering::SeqCst);
        let text = match request.name.as_ref() {
            "whoami" => whoami(&context),
            // Tells how far it is, if asked to, then waits.
            "wait" => {
                if let Some(token) = context.meta.get_progress_token() {
                    let progress = ProgressNotificationParam::new(token, 1.0);
                    context.peer.notify_progress(progress).await.unwrap();
                }
                tokio::select! {
                    () = self.seen.go.notified() => "waited".to_owned(),
                    () = context.ct.cancelled() => {
                        self.seen.cancelled.fetch_add(1, Ordering::SeqCst);
                        "cancelled".to_owned()
                    }
                }
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        self.seen.finished.fetch_add(1, Ordering::SeqCst);
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

fn whoami(context: &RequestContext<RoleServer>) -> String {
    let parts = context.extensions.get::<Parts>();
    let caller = parts.and_then(|parts| parts.extensions.get::<VerifiedPrincipal>()).unwrap();
    caller.subject().unwrap_or("nobody").to_owned()
}
