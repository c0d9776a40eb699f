//! Connections: accepted, bounded, and drained when the server stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::quick::{self, Rest};
use crate::rewound::Rewound;
use crate::router::Router;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 10_000;

/// Bytes that are read of a request before it is looked at: its headers have room, and what is
/// longer is refused.
const READ_BYTES_MAX: usize = 64 << 10;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// How long the headers of a request may take.
const HEADER_TIME: Duration = Duration::from_secs(30);

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
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
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
        connections.spawn(async move {
            connection(stream, router, stop).await;
            drop(place);
        });
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    router.streams.close_readers();
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_TIME, drained).await.is_err() {
        tracing::warn!("connections were cut that did not end in time");
    }
}

async fn connection(
    stream: tokio::net::TcpStream,
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
    let stream = Rewound::new(first, stream);
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
