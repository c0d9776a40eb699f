//! Connections that are cut after every byte, in both directions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use handback_client::Backoff;
use handback_client::duplex::{Duplex, DuplexOptions};
use handback_stream::duplex::Format;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::streams::server::Server;
use crate::support::Sandbox;

/// The chunks of an exchange.
const CHUNKS: [&str; 3] = ["the first of them;", "another one, which is longer;", "the last;"];

/// Bytes of an exchange at most, in one direction.
const EXCHANGE_BYTES_MAX: u64 = 4096;

/// Exchanges at a time.
const AT_ONCE: usize = 4;

/// Which way, and after how many bytes.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Never,
    ToServer(u64),
    ToClient(u64),
}

/// What goes through a proxy.
#[derive(Debug, Default)]
struct Counts {
    connections: AtomicUsize,
    to_server: AtomicU64,
    to_client: AtomicU64,
}

/// A proxy that cuts its first connection.
async fn proxy(server: SocketAddr, cut: Cut) -> (SocketAddr, Arc<Counts>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::new(Counts::default());
    let shared = Arc::clone(&counts);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let number = shared.connections.fetch_add(1, Ordering::Relaxed);
            let counts = Arc::clone(&shared);
            let cut = if number == 0 { cut } else { Cut::Never };
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(server).await else { return };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let (in_max, out_max) = match cut {
                    Cut::Never => (u64::MAX, u64::MAX),
                    Cut::ToServer(bytes) => (bytes, u64::MAX),
                    Cut::ToClient(bytes) => (u64::MAX, bytes),
                };
                // Whichever ends first ends both.
                tokio::select! {
                    () = pump(&mut from_client, &mut to_server, in_max, &counts.to_server) => {}
                    () = pump(&mut from_server, &mut to_client, out_max, &counts.to_client) => {}
                }
            });
        }
    });
    (address, counts)
}

async fn pump(
    from: &mut (impl tokio::io::AsyncRead + Unpin),
    to: &mut (impl tokio::io::AsyncWrite + Unpin),
    max: u64,
    count: &AtomicU64,
) {
    let mut left = max;
    let mut buffer = [0; 4096];
    while left > 0 {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let some = read.min(usize::try_from(left).unwrap_or(usize::MAX));
        if to.write_all(&buffer[..some]).await.is_err() {
            return;
        }
        left -= some as u64;
        count.fetch_add(some as u64, Ordering::Relaxed);
    }
}

/// One exchange through a connection that is cut. Gives what came back.
async fn exchange(server: SocketAddr, cut: Cut, format: Format, key: &str) -> Arc<Counts> {
    let (address, counts) = proxy(server, cut).await;
    let options = DuplexOptions::new(format!("http://{address}"))
        .handler("echo")
        .idempotency_key(key)
        .format(format)
        .backoff(Backoff { first: Duration::from_millis(1), max: Duration::from_millis(20) })
        .auto_ack(false);
    let exchanged = async {
        let duplex = Duplex::open(options).await.unwrap();
        for (number, chunk) in CHUNKS.into_iter().enumerate() {
            assert_eq!(duplex.send(chunk).await.unwrap(), u32::try_from(number).unwrap());
        }
        duplex.close().await.unwrap();
        let mut events = Vec::new();
        while let Some(event) = duplex.next_event().await.unwrap() {
            events.push(String::from_utf8(event.data().to_vec()).unwrap());
            duplex.ack(&event).await.unwrap();
        }
        assert_eq!(events, CHUNKS, "{cut:?}: each event once, in order");
    };
    let in_time = tokio::time::timeout(Duration::from_secs(60), exchanged).await;
    in_time.unwrap_or_else(|_| panic!("{cut:?} does not end"));
    counts
}

fn every_byte(format: Format) {
    let sandbox = Sandbox::new();
    let server = Server::start(&sandbox, &sandbox.path("data"));
    let address = server.address;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let keys = runtime.block_on(async {
        let whole = exchange(address, Cut::Never, format, "whole").await;
        let bytes = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (to_server, to_client) = (bytes(&whole.to_server), bytes(&whole.to_client));
        assert!(to_server < EXCHANGE_BYTES_MAX && to_client < EXCHANGE_BYTES_MAX);
        let cuts = (0..=to_server).map(Cut::ToServer).chain((0..=to_client).map(Cut::ToClient));
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut running = tokio::task::JoinSet::new();
        let mut keys = vec!["whole".to_owned()];
        for (number, cut) in cuts.enumerate() {
            let key = format!("cut-{number}");
            keys.push(key.clone());
            let place = Arc::clone(&room).acquire_owned().await.unwrap();
            running.spawn(async move {
                let counts = exchange(address, cut, format, &key).await;
                drop(place);
                let is_early = match cut {
                    Cut::Never => false,
                    Cut::ToServer(bytes) => bytes < to_server / 2,
                    Cut::ToClient(bytes) => bytes < to_client / 2,
                };
                let was_cut = counts.connections.load(Ordering::Relaxed) > 1;
                assert!(was_cut || !is_early, "{cut:?} was no cut");
                was_cut
            });
        }
        let all: Vec<_> = running.join_all().await;
        let cut = all.iter().filter(|was_cut| **was_cut).count();
        // Cuts behind the last frame need no second connection, and how many frames there are
        // differs a little from exchange to exchange. All in the first half do.
        assert!(cut * 4 > all.len() * 3, "{cut} of {} were cut", all.len());
        keys
    });
    consumed_once(&server, &keys);
}

/// What the server took, as an independent reader sees it.
fn consumed_once(server: &Server, keys: &[String]) {
    for key in keys {
        for side in ["in", "out"] {
            let text = server.read(&format!("__duplex/echo/{key}/{side}"));
            assert_eq!(text, CHUNKS.concat(), "{key}/{side}");
        }
    }
}

#[test]
fn json_cut_after_every_byte_arrives_once() {
    every_byte(Format::Json);
}

#[test]
fn protobuf_cut_after_every_byte_arrives_once() {
    every_byte(Format::Protobuf);
}
