//! Connections: accepted, bounded, and drained when the server stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use crate::patient::Patient;
use crate::quick::{self, Rest};
use crate::rewound::Rewound;
use crate::router::Router;

/// Connections at a time, if the system allows so many files.
const CONNECTIONS_MAX: usize = 10_000;

/// Files that connections leave to the store and to requests of our own.
const FILES_KEPT: usize = 256;

/// Bytes that are read of a request before it is looked at: its headers have room, and what is
/// longer is refused.
const READ_BYTES_MAX: usize = 64 << 10;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// How long the headers of a request may take.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// How long a client may take to read anything at all of what it is sent.
const READER_TIME: Duration = Duration::from_secs(60);

/// How long a failed accept waits: it fails when there are no more file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long what is under way may take when the server stops.
const DRAIN_TIME: Duration = Duration::from_secs(30);

/// Serves connections until told to stop, then lets those that are under way end.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Arc<Router>,
    mut stop: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(connections_max()));
    let mut connections = JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { break };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stop.wait_for(|stop| *stop) => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (router, stop) = (Arc::clone(&router), stop.clone());
        connections.spawn(connection(stream, place, router, stop));
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    router.streams.close_readers();
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME, drained).await.is_err() {
        tracing::warn!("connections were cut that did not end in time");
    }
}

/// How many connections there may be: without files, the store could not go on.
fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // What is allowed is asked for. If that fails, it stays as it is.
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    // With few files for all, half of them.
    let room = files.saturating_sub(FILES_KEPT).max(files / 2).clamp(1, CONNECTIONS_MAX);
    if room < CONNECTIONS_MAX {
        tracing::info!(connections = room, files, "there can be fewer connections than usual");
    }
    room
}

async fn connection(
    stream: TcpStream,
    place: OwnedSemaphorePermit,
    router: Arc<Router>,
    mut stop: watch::Receiver<bool>,
) {
    let (stream, first) = match quick::serve(stream, &router, &mut stop, HEADER_TIME).await {
        Ok(Rest::Other(stream, first)) => (stream, first),
        Ok(Rest::Over) => return,
        Err(error) => {
            tracing::debug!(%error, "a connection ended");
            return;
        }
    };
    let stream = Patient::new(Rewound::new(first, stream, place), READER_TIME);
    let service = service_fn(move |request| {
        let router = Arc::clone(&router);
        async move { Ok::<_, Infallible>(router.handle(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(READ_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let stops = async {
        // What it borrows may not live on.
        let _ = stop.wait_for(|stop| *stop).await.is_ok();
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stops => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}
