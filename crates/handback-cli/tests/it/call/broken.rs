//! Connections that die after the call was made, and before its answer came.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use super::world::World;

/// Both halves of a connection.
trait Stream: Read + Write + Send + Sized + 'static {
    fn again(&self) -> Self;
    fn end(&self);
}

impl Stream for TcpStream {
    fn again(&self) -> Self {
        self.try_clone().unwrap()
    }

    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Stream for UnixStream {
    fn again(&self) -> Self {
        self.try_clone().unwrap()
    }

    fn end(&self) {
        let _ = self.shutdown(Shutdown::Both);
    }
}

/// Passes connections on; of the first one, what the server says is read and dropped.
fn pass_on<S: Stream>(
    accept: impl Fn() -> io::Result<S> + Send + 'static,
    connect: impl Fn() -> io::Result<S> + Send + 'static,
) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&count);
    thread::spawn(move || {
        while let Ok(client) = accept() {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            let server = connect().unwrap();
            let (mut from, mut to) = (client.again(), server.again());
            thread::spawn(move || io::copy(&mut from, &mut to));
            let (mut from, mut to) = (server.again(), client.again());
            thread::spawn(move || {
                if number == 0 {
                    // One byte of it, and it is known that the call was made.
                    let _ = from.read(&mut [0]);
                    client.end();
                    server.end();
                } else {
                    let _ = io::copy(&mut from, &mut to);
                    client.end();
                }
            });
        }
    });
    count
}

/// A way to the server on which the first answer gets lost.
fn lossy(world: &World, url: &str) -> (String, Arc<AtomicU32>) {
    if let Some(path) = url.strip_prefix("unix:") {
        let (own, path) = (world.sandbox.path("lossy.sock"), path.to_owned());
        let _ = std::fs::remove_file(&own);
        let listener = UnixListener::bind(&own).unwrap();
        let accept = move || listener.accept().map(|(stream, _)| stream);
        let count = pass_on(accept, move || UnixStream::connect(&path));
        return (format!("unix:{}", own.display()), count);
    }
    let server = world.server.address;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let own = listener.local_addr().unwrap();
    let accept = move || listener.accept().map(|(stream, _)| stream);
    let count = pass_on(accept, move || TcpStream::connect(server));
    (url.replace(&server.to_string(), &own.to_string()), count)
}

const ARGUMENTS: &str = r#"{"customer":7}"#;

#[test]
fn with_a_key_the_answer_is_asked_for_again() {
    let world = World::new();
    for (number, url) in world.urls().into_iter().enumerate() {
        let key = format!("key-{number}");
        let (lossy, count) = lossy(&world, &url);
        let words = ["shop_orders", ARGUMENTS, "--idempotency-key", &key];
        let answer = world.json(&lossy, &words);
        assert_eq!(answer["is_replay"], true, "{url}: the call was made once");
        assert_eq!(count.load(Ordering::SeqCst), 2);
        let again = world.json(&url, &words);
        assert_eq!(again["result"], answer["result"]);
        // The key is of that call.
        let other = ["shop_orders", r#"{"customer":8}"#, "--idempotency-key", &key];
        world.call(&url, &other).expect_code(1);
    }
}

#[test]
fn without_a_key_nobody_knows_and_nothing_is_repeated() {
    let world = World::new();
    for url in world.urls() {
        let (lossy, count) = lossy(&world, &url);
        let ran = world.call(&lossy, &["shop_orders", ARGUMENTS]).expect_code(1);
        assert!(ran.stderr.contains("whether the call was made is not known"), "{ran:?}");
        assert!(ran.stderr.contains("--idempotency-key"), "{ran:?}");
        assert_eq!(count.load(Ordering::SeqCst), 1, "{url}");
    }
}
