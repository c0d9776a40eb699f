//! Connections: accepted, bounded, and drained when the server stops.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::patient::Patient;
use crate::quick::{self, Rest};
use crate::rewound::Rewound;
use crate::router::Router;
use crate::tls::Tls;

/// Files that connections leave to the store and to requests of our own.
const FILES_KEPT: usize = 256;

/// Bytes of the head of a request beside its headers: the longest paths and queries fit. What is read of
/// a request before its caller is known counts for nobody, so that there is not more of it.
const REQUEST_LINE_BYTES: usize = 8 << 10;

/// Headers of a request.
const HEADERS_MAX: usize = 64;

/// How long the headers of a request may take.
const HEADER_TIME: Duration = Duration::from_secs(30);

/// How long a connection that has said nothing yet is kept.
const SILENCE_TIME: Duration = Duration::from_secs(10);

/// How long it is kept at least, also when others wait for its place.
const SILENCE_TIME_MIN: Duration = Duration::from_secs(1);

/// How long TLS may take to be agreed on.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);

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
    tls: Option<Arc<Tls>>,
    mut stop: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(router.limits.connections));
    let crowd = Arc::new(Crowd::default());
    let mut connections = JoinSet::new();
    loop {
        let place = tokio::select! {
            place = crowd.place(&room) => place,
            _ = stop.wait_for(|stop| *stop) => None,
        };
        let Some(place) = place else { break };
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
        let tls = tls.clone();
        let (router, stop, crowd) = (Arc::clone(&router), stop.clone(), Arc::clone(&crowd));
        connections.spawn(async move {
            if let Err(silent) = crowd.first_byte(&stream, stop.clone()).await {
                tracing::debug!(silent, "a connection ended");
                return;
            }
            match tls {
                None => Box::pin(connection(stream, place, router, stop)).await,
                Some(tls) => secured(stream, &tls, place, router, stop).await,
            }
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

/// Connections that have said nothing yet. Thousands of them cost little, and when others wait for
/// their places, they leave.
#[derive(Debug, Default)]
struct Crowd {
    /// Told when there is no place left.
    is_full: Notify,
}

impl Crowd {
    /// A place for one more connection. If there is none, who is silent makes room.
    async fn place(&self, room: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
        loop {
            if let Ok(place) = Arc::clone(room).try_acquire_owned() {
                return Some(place);
            }
            self.is_full.notify_waiters();
            // Those who came just now are not asked yet: they are in a moment.
            let waited = tokio::time::timeout(SILENCE_TIME_MIN, Arc::clone(room).acquire_owned());
            match waited.await {
                Ok(place) => return place.ok(),
                Err(_) => continue,
            }
        }
    }

    /// Waits until a connection says something; or says why that is not waited for any longer.
    async fn first_byte(
        &self,
        stream: &TcpStream,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), &'static str> {
        let came = Instant::now();
        let crowded = async {
            loop {
                self.is_full.notified().await;
                if came.elapsed() >= SILENCE_TIME_MIN {
                    return;
                }
            }
        };
        let mut first = [0; 1];
        tokio::select! {
            biased;
            // That a socket is readable can be said of one that is not.
            peeked = stream.peek(&mut first) => peeked.map(drop).map_err(|_| "it broke"),
            _ = stop.wait_for(|stop| *stop) => Err("the server stops"),
            () = crowded => Err("it was silent, and others waited"),
            () = tokio::time::sleep(SILENCE_TIME) => Err("it was silent"),
        }
    }
}

/// How many connections there may be: without files, the store could not go on.
pub(crate) fn connections_max(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    // What is allowed is asked for. If that fails, it stays as it is.
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let files = files.map_or(usize::MAX, |files| usize::try_from(files).unwrap_or(usize::MAX));
    // With few files for all, half of them.
    let room = files.saturating_sub(FILES_KEPT).max(files / 2).clamp(1, wanted.max(1));
    if room < wanted {
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
    let (stream, first) =
        match Box::pin(quick::serve(stream, &router, &mut stop, HEADER_TIME)).await {
            Ok(Rest::Other(stream, first)) => (stream, first),
            Ok(Rest::Over) => return,
            Err(error) => {
                tracing::debug!(%error, "a connection ended");
                return;
            }
        };
    http(Rewound::new(first, stream, place), router, stop).await;
}

/// The same over TLS.
async fn secured(
    stream: TcpStream,
    tls: &Tls,
    place: OwnedSemaphorePermit,
    router: Arc<Router>,
    stop: watch::Receiver<bool>,
) {
    let agreed = tokio::time::timeout(HANDSHAKE_TIME, tls.acceptor().accept(stream)).await;
    match agreed {
        Ok(Ok(stream)) => http(Rewound::new(Bytes::new(), stream, place), router, stop).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS was not agreed on"),
        Err(_) => tracing::debug!("TLS was not agreed on in time"),
    }
}

async fn http<S>(stream: Rewound<S>, router: Arc<Router>, mut stop: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stream = Patient::new(stream, READER_TIME);
    let read_bytes = REQUEST_LINE_BYTES.saturating_add(router.limits.header_bytes);
    let service = service_fn(move |request| {
        let router = Arc::clone(&router);
        async move { Ok::<_, Infallible>(router.handle(request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(read_bytes)
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
