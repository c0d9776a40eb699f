//! A server on plain rmcp, over HTTP on a loopback port.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use handback_gateway::upstream::{Place, Spec};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::model::{ListToolsResult, ServerRequest};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::net::TcpListener;

use crate::world::{LONG, spec};

/// What the tests see of the calls.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) started: AtomicU64,
    pub(crate) cancelled: AtomicU64,
    pub(crate) connections: AtomicU64,
}

impl Seen {
    /// Waits until something has happened so often.
    pub(crate) async fn reaches(number: &AtomicU64, wanted: u64) {
        let reached = async {
            while number.load(Ordering::SeqCst) < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(LONG, reached).await.unwrap();
    }
}

/// The server.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    pub(crate) sessions: Arc<LocalSessionManager>,
}

impl Server {
    /// Serves both eras. Where the protocol lets a server choose, it answers with JSON or with events.
    pub(crate) async fn start(is_json: bool) -> Self {
        let seen = Arc::new(Seen::default());
        let handler = Handler { seen: Arc::clone(&seen) };
        let mut config = StreamableHttpServerConfig::default();
        config.json_response = is_json;
        let sessions = Arc::new(LocalSessionManager::default());
        let make = move || Ok(handler.clone());
        let service = StreamableHttpService::new(make, Arc::clone(&sessions), config);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let counted = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                counted.connections.fetch_add(1, Ordering::SeqCst);
                let service = service.clone();
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        let service = service.clone();
                        async move { Ok::<_, Infallible>(service.handle(request).await) }
                    });
                    let mut http = hyper::server::conn::http1::Builder::new();
                    http.timer(TokioTimer::new());
                    // A client that goes away is no news.
                    let _ = http.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        });
        Self { address, seen, sessions }
    }

    pub(crate) fn spec(&self) -> Spec {
        spec(Place::Http { url: format!("http://{}/mcp", self.address), headers: Vec::new() })
    }
}

#[derive(Clone, Debug)]
struct Handler {
    seen: Arc<Seen>,
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tool = |name: &'static str| Tool::new(name, name, rmcp::object!({ "type": "object" }));
        Ok(ListToolsResult::with_all_items(["échö", "wait"].map(tool).to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.seen.started.fetch_add(1, Ordering::SeqCst);
        if let Some(token) = context.meta.get_progress_token() {
            for step in [1.0, 2.0] {
                let progress = ProgressNotificationParam::new(token.clone(), step);
                context.peer.notify_progress(progress).await.unwrap();
            }
        }
        let text = match request.name.as_ref() {
            "échö" => serde_json::to_string(&request.arguments).unwrap(),
            "wait" => {
                context.ct.cancelled().await;
                self.seen.cancelled.fetch_add(1, Ordering::SeqCst);
                "cancelled".to_owned()
            }
            "changes" => {
                context.peer.notify_tool_list_changed().await.unwrap();
                "changed".to_owned()
            }
            "asks" => {
                let roots = ServerRequest::ListRootsRequest(Default::default());
                let ping = ServerRequest::PingRequest(Default::default());
                let ping = context.peer.send_request(ping).await;
                let roots = context.peer.send_request(roots).await;
                format!("{} {roots:?}", ping.is_ok())
            }
            other => return Err(ErrorData::invalid_params(format!("no tool {other}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        context.sink().notify_tool_list_changed().await.unwrap();
        if context.request_context().meta.get_progress_token().is_none() {
            return Ok(());
        }
        context.cancelled().await;
        self.seen.cancelled.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}
