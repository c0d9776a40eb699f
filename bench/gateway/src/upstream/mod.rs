//! The server behind all proxies: cheap, so that the proxies are what is measured.
//!
//! It speaks Streamable HTTP in both eras and has three tools: `echo`, `large` and `ask`. It runs in
//! a process of its own, on one thread.

mod answer;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Limited};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use self::answer::{Reply, answer};

/// What the first argument of this program is if it is to be the server.
pub(crate) const COMMAND: &str = "upstream";

/// Where it answers.
pub(crate) const PATH: &str = "/mcp";

/// Nobody here sends more.
const REQUEST_MAX: usize = 4 * 1024 * 1024;

const SESSION_HEADER: &str = "mcp-session-id";

/// Serves until it is stopped.
pub(crate) fn serve(address: SocketAddr) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind(address).await.context("failed to listen")?;
        let shop = Rc::new(Shop::default());
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let shop = Rc::clone(&shop);
            let service = service_fn(move |request| respond(Rc::clone(&shop), request));
            tokio::task::spawn_local(async move {
                // A caller who goes away is no concern of ours.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

/// What outlives a request.
#[derive(Debug, Default)]
struct Shop {
    sessions: Cell<u64>,
    /// Large results by their size: only the first of each costs anything.
    large: RefCell<BTreeMap<u64, Bytes>>,
}

impl Shop {
    /// The id of a new session. Nobody looks at it again.
    fn session(&self) -> HeaderValue {
        let session = self.sessions.get() + 1;
        self.sessions.set(session);
        session.into()
    }

    fn large(&self, bytes: u64) -> Bytes {
        let mut large = self.large.borrow_mut();
        large.entry(bytes).or_insert_with(|| answer::records(bytes)).clone()
    }
}

async fn respond(
    shop: Rc<Shop>,
    request: Request<Incoming>,
) -> Result<Response<Pieces>, Infallible> {
    if request.uri().path() != PATH {
        return Ok(empty(StatusCode::NOT_FOUND));
    }
    Ok(match *request.method() {
        Method::POST => match Limited::new(request.into_body(), REQUEST_MAX).collect().await {
            Ok(body) => reply(&shop, &body.to_bytes()),
            Err(_) => empty(StatusCode::PAYLOAD_TOO_LARGE),
        },
        Method::DELETE => empty(StatusCode::NO_CONTENT),
        _ => {
            let mut response = empty(StatusCode::METHOD_NOT_ALLOWED);
            let allowed = HeaderValue::from_static("POST, DELETE");
            response.headers_mut().insert(ALLOW, allowed);
            response
        }
    })
}

fn reply(shop: &Shop, message: &[u8]) -> Response<Pieces> {
    match answer(message, |bytes| shop.large(bytes)) {
        Reply::Accepted => empty(StatusCode::ACCEPTED),
        Reply::Message { pieces, is_session } => {
            let mut response = Response::new(Pieces(pieces.into()));
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            if is_session {
                headers.insert(SESSION_HEADER, shop.session());
            }
            response
        }
    }
}

fn empty(status: StatusCode) -> Response<Pieces> {
    let mut response = Response::new(Pieces(VecDeque::new()));
    *response.status_mut() = status;
    response
}

/// A body of known length in pieces, so that a large one is shared by all answers.
#[derive(Debug)]
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
