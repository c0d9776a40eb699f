//! What the MCP conformance suite looks for, on plain rmcp: sessions up to 2025-11-25, and
//! 2026-07-28 with questions inside of results and tasks.
//!
//! `mcp-fixture ADDRESS` serves `http://ADDRESS/mcp` until it is ended. It is the known good server:
//! the suite must pass here before it says anything about another. `mcp-fixture ADDRESS front` is the
//! same behind Handback's front, which must not make a difference to the suite; `mcp-fixture ADDRESS
//! handback` offers the same by Handback itself.

mod asking;
mod handback;
mod host;
mod server;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use handback_identity::{Caller, VerifiedPrincipal};
use handback_interop::clock;
use handback_mcp::front::Reply;
use handback_mcp::{Front, FrontOptions, McpServer, Stores};
use handback_store::MemoryStore;
use handback_token::{KeyRing, Sealer, SealerConfig, ring};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::server::Fixture;

const PATH: &str = "/mcp";

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let address = args.next().context("usage: mcp-fixture ADDRESS [front|handback]")?;
    let address: SocketAddr = address.parse().context("failed to read the address")?;
    let listener = TcpListener::bind(address).await.context("failed to listen")?;
    let server = match args.next().as_deref() {
        Some("front") => Server::Fronted(front()?),
        Some("handback") => Server::Handback(handback::server()?),
        _ => Server::Plain(plain()?),
    };
    loop {
        let (stream, _) = listener.accept().await.context("failed to accept a connection")?;
        let server = server.clone();
        tokio::spawn(async move {
            let answer = service_fn(move |request| {
                let server = server.clone();
                async move { Ok::<_, Infallible>(server.answer(request).await) }
            });
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new());
            // A client that goes away is no news.
            let _ = http.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

#[derive(Clone)]
enum Server {
    Plain(StreamableHttpService<Fixture, LocalSessionManager>),
    Fronted(Front<Fixture>),
    Handback(Front<McpServer>),
}

impl Server {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        if request.uri().path() != PATH {
            let mut reply = Reply::new(Empty::new().boxed());
            *reply.status_mut() = StatusCode::NOT_FOUND;
            return reply;
        }
        match self {
            Self::Plain(service) => service.handle(request).await,
            Self::Handback(front) => {
                let caller = Caller::unauthenticated();
                let mut request = request;
                request.extensions_mut().insert(caller.clone());
                front.handle(request, caller.principal()).await
            }
            Self::Fronted(front) => {
                front.handle(request, &VerifiedPrincipal::unauthenticated()).await
            }
        }
    }
}

fn plain() -> Result<StreamableHttpService<Fixture, LocalSessionManager>> {
    let fixture = Fixture::new()?;
    let config = StreamableHttpServerConfig::default().with_allowed_origins([
        "http://localhost:*",
        "http://127.0.0.1:*",
        "http://[::1]:*",
    ]);
    let sessions = Arc::new(LocalSessionManager::default());
    Ok(StreamableHttpService::new(move || Ok(fixture.clone()), sessions, config))
}

fn front() -> Result<Front<Fixture>> {
    let fixture = Fixture::new()?;
    let ring = KeyRing::generate(&mut rand::rng(), ring::Mode::Sealed, clock::now());
    let stores = Stores {
        kv: Arc::new(MemoryStore::new()),
        sealer: Arc::new(Sealer::new(&ring, SealerConfig::default())?),
        clock: Arc::new(clock::now_ms),
    };
    Ok(Front::new(move || fixture.clone(), stores, FrontOptions::default()))
}
