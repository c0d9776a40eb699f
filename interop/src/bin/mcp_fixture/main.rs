//! What the MCP conformance suite looks for, on plain rmcp: sessions up to 2025-11-25, and
//! 2026-07-28 with questions inside of results and tasks.
//!
//! `mcp-fixture ADDRESS` serves `http://ADDRESS/mcp` until it is ended. It is the known good server:
//! the suite must pass here before it says anything about another.

mod asking;
mod host;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::server::Fixture;

const PATH: &str = "/mcp";

type Service = StreamableHttpService<Fixture, LocalSessionManager>;

#[tokio::main]
async fn main() -> Result<()> {
    let address = std::env::args().nth(1).context("usage: mcp-fixture ADDRESS")?;
    let address: SocketAddr = address.parse().context("failed to read the address")?;
    let listener = TcpListener::bind(address).await.context("failed to listen")?;
    let service = service()?;
    loop {
        let (stream, _) = listener.accept().await.context("failed to accept a connection")?;
        let service = service.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| answer(service.clone(), request));
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new());
            // A client that goes away is no news.
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

fn service() -> Result<Service> {
    let fixture = Fixture::new()?;
    let config = StreamableHttpServerConfig::default().with_allowed_origins([
        "http://localhost:*",
        "http://127.0.0.1:*",
        "http://[::1]:*",
    ]);
    let sessions = Arc::new(LocalSessionManager::default());
    Ok(StreamableHttpService::new(move || Ok(fixture.clone()), sessions, config))
}

async fn answer(
    service: Service,
    request: Request<Incoming>,
) -> Result<rmcp_response::Response, std::convert::Infallible> {
    if request.uri().path() == PATH {
        return Ok(service.handle(request).await);
    }
    let mut response = rmcp_response::empty();
    *response.status_mut() = StatusCode::NOT_FOUND;
    Ok(response)
}

/// rmcp's kind of response.
mod rmcp_response {
    use std::convert::Infallible;

    use http_body_util::combinators::BoxBody;
    use http_body_util::{BodyExt, Empty};
    use hyper::body::Bytes;

    pub(super) type Response = hyper::Response<BoxBody<Bytes, Infallible>>;

    pub(super) fn empty() -> Response {
        Response::new(Empty::new().boxed())
    }
}
