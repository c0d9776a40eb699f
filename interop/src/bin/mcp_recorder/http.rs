//! Messages are bodies of requests and of answers, or events of those.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context as TaskContext, Poll};

use anyhow::{Context, Result};
use http_body_util::{BodyExt, Either, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::client::conn::http1 as client;
use hyper::header::{CONTENT_TYPE, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use crate::record::{From, Record};

/// Serves until it is stopped.
pub(crate) fn serve(record: Record, address: SocketAddr, url: &str) -> Result<()> {
    let uri: Uri = url.parse().context("there is no such URL")?;
    let authority = uri.authority().context("the URL names no server")?.as_str().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await.context("failed to listen")?;
        loop {
            let (stream, _) = listener.accept().await?;
            let (record, authority) = (record.clone(), authority.clone());
            let service = service_fn(move |request| {
                let (record, authority) = (record.clone(), authority.clone());
                async move { Ok::<_, Infallible>(answer(request, record, &authority).await) }
            });
            tokio::spawn(async move {
                // A client that goes away is no concern of ours.
                let _ =
                    server::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    })
}

type Answer = Response<Either<Taped, Full<Bytes>>>;

async fn answer(request: Request<Incoming>, record: Record, authority: &str) -> Answer {
    relay(request, record, authority).await.unwrap_or_else(|error| {
        eprintln!("mcp-recorder: {error:#}");
        let mut response = Response::new(Either::Right(Full::from(format!("{error:#}"))));
        *response.status_mut() = StatusCode::BAD_GATEWAY;
        response
    })
}

async fn relay(request: Request<Incoming>, record: Record, authority: &str) -> Result<Answer> {
    let (mut parts, body) = request.into_parts();
    let is_post = parts.method == Method::POST;
    let body = body.collect().await.context("failed to read a request")?.to_bytes();
    record.write(From::Client, &body)?;
    parts.headers.insert(HOST, HeaderValue::from_str(authority)?);
    let stream = TcpStream::connect(authority).await.context("nobody listens")?;
    let (mut sender, connection) = client::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let response = sender.send_request(Request::from_parts(parts, Full::new(body))).await?;
    let (mut parts, body) = response.into_parts();
    // It is framed anew.
    parts.headers.remove(TRANSFER_ENCODING);
    let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let body = if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        Either::Left(Taped { body, tape: Tape { record, line: Vec::new() } })
    } else {
        let body = body.collect().await.context("failed to read an answer")?.to_bytes();
        // What else is asked for is none of the protocol.
        if is_post {
            record.write(From::Server, &body)?;
        }
        Either::Right(Full::new(body))
    };
    Ok(Response::from_parts(parts, body))
}

/// Finds the messages of a stream of events.
#[derive(Debug)]
struct Tape {
    record: Record,
    /// One that has no end yet.
    line: Vec<u8>,
}

impl Tape {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        for piece in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.line.extend_from_slice(piece);
            if !self.line.ends_with(b"\n") {
                break;
            }
            if let Some(data) = self.line.strip_prefix(b"data:") {
                self.record.write(From::Server, data.trim_ascii_start())?;
            }
            self.line.clear();
        }
        Ok(())
    }
}

/// A body that is written down as it passes.
#[derive(Debug)]
struct Taped {
    body: Incoming,
    tape: Tape,
}

impl Body for Taped {
    type Data = Bytes;
    type Error = anyhow::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut TaskContext<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(frame) => frame,
        };
        Poll::Ready(frame.map(|frame| {
            let frame = frame?;
            if let Some(data) = frame.data_ref() {
                self.tape.feed(data)?;
            }
            Ok(frame)
        }))
    }
}
