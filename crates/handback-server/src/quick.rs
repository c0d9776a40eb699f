//! The quick way for small appends.
//!
//! Most requests are appends, and most of what they cost is HTTP in general: a task to read the body
//! through, a timer for each head. So a connection starts here. As long as its requests are small
//! appends that say nothing unusual, they are read whole, answered by the same router as all others,
//! and written at once. With the first one that is anything else, the connection goes to hyper, with
//! what was read of it, and stays there. What is not certainly an ordinary request is not judged
//! here.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use handback_surface::body::ReplyBody;
use handback_surface::streams::PREFIX;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use crate::clock;
use crate::router::Router;

/// Bytes of a request that is answered here: a larger one need not be quick.
const REQUEST_BYTES_MAX: usize = 16 << 10;

/// Headers of one.
const HEADERS_MAX: usize = 16;

/// What is made room for at a time.
const READ_BYTES: usize = 4 << 10;

/// How long a client may take to read an answer.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// What becomes of a connection.
pub(crate) enum Rest {
    /// It is over.
    Over,
    /// Somebody else goes on, with this in front of what is still to be read.
    Other(TcpStream, Bytes),
}

/// Answers small appends until something else comes. Each may take `time` to arrive.
pub(crate) async fn serve(
    mut stream: TcpStream,
    router: &Arc<Router>,
    stop: &mut watch::Receiver<bool>,
    time: Duration,
) -> io::Result<Rest> {
    let mut buffer = BytesMut::with_capacity(READ_BYTES);
    let mut output = Vec::with_capacity(512);
    let mut date = Date::default();
    let stops = stop.wait_for(|stop| *stop);
    let mut stops = std::pin::pin!(stops);
    // One timer for all requests: setting it again for each is not free.
    let mut timer = std::pin::pin!(tokio::time::sleep(time));
    loop {
        let deadline = Instant::now() + time;
        let request = loop {
            match Found::parse(&buffer) {
                Found::Append(request) => break request,
                Found::Other => return Ok(Rest::Other(stream, buffer.freeze())),
                Found::Part => {}
            }
            buffer.reserve(READ_BYTES);
            let read = tokio::select! {
                biased;
                read = stream.read_buf(&mut buffer) => read?,
                _ = stops.as_mut() => return Ok(Rest::Over),
                () = expired(timer.as_mut(), deadline) => return Ok(Rest::Over),
            };
            if read == 0 {
                return Ok(Rest::Over);
            }
        };
        let Some(request) = request.take(&mut buffer) else {
            return Ok(Rest::Other(stream, buffer.freeze()));
        };
        let response = router.handle(request).await;
        output.clear();
        if !write(&response, date.now(), &mut output) {
            // No append is answered so: there is nothing to be done about it.
            return Ok(Rest::Over);
        }
        let written = match stream.try_write(&output) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        if let Some(rest) = output.get(written..).filter(|rest| !rest.is_empty()) {
            let sent = tokio::time::timeout(WRITE_TIME, stream.write_all(rest)).await;
            sent.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        }
    }
}

/// Waits for a deadline, with a timer that was set for an earlier one.
async fn expired(mut timer: Pin<&mut Sleep>, deadline: Instant) {
    loop {
        timer.as_mut().await;
        if Instant::now() >= deadline {
            return;
        }
        timer.as_mut().reset(deadline);
    }
}

/// What there is at the beginning of a buffer.
#[derive(Debug)]
enum Found {
    /// Not enough to tell.
    Part,
    /// All of a small append.
    Append(Places),
    /// Something else.
    Other,
}

/// Where the parts of a request are.
#[derive(Debug)]
struct Places {
    path: Place,
    headers: [(Place, Place); HEADERS_MAX],
    count: usize,
    body: Place,
}

/// From where to where: within [`REQUEST_BYTES_MAX`], and small, because there are many.
#[derive(Clone, Copy, Debug, Default)]
struct Place(u16, u16);

const _: () = assert!(REQUEST_BYTES_MAX <= u16::MAX as usize, "places have room for it");

impl Place {
    fn new(start: usize, end: usize) -> Option<Self> {
        Some(Self(u16::try_from(start).ok()?, u16::try_from(end).ok()?))
    }

    fn range(self) -> Range<usize> {
        self.0.into()..self.1.into()
    }
}

const METHOD: &[u8] = b"POST ";

impl Found {
    fn parse(buffer: &[u8]) -> Self {
        let start = METHOD.iter().chain(PREFIX.as_bytes());
        if buffer.iter().zip(start).any(|(byte, expected)| byte != expected) {
            return Self::Other;
        }
        match Self::parse_post(buffer) {
            None if buffer.len() < REQUEST_BYTES_MAX => Self::Part,
            None => Self::Other,
            Some(found) => found,
        }
    }

    /// Nothing if there is more to come.
    fn parse_post(buffer: &[u8]) -> Option<Self> {
        let mut parsed = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut parsed);
        let head = match request.parse(buffer) {
            Ok(httparse::Status::Complete(bytes)) => bytes,
            Ok(httparse::Status::Partial) => return None,
            Err(_) => return Some(Self::Other),
        };
        let (Some("POST"), Some(1), Some(path)) = (request.method, request.version, request.path)
        else {
            return Some(Self::Other);
        };
        let place = |part: &[u8]| {
            let start = part.as_ptr().addr().wrapping_sub(buffer.as_ptr().addr());
            Place::new(start, start + part.len())
        };
        let mut headers = [(Place::default(), Place::default()); HEADERS_MAX];
        let mut count = 0;
        let mut length = None;
        for (header, kept) in request.headers.iter().zip(&mut headers) {
            let name = header.name;
            if name.eq_ignore_ascii_case("content-length") {
                match (length, decimal(header.value)) {
                    (None, Some(bytes)) => length = Some(bytes),
                    _ => return Some(Self::Other),
                }
            } else if CHANGES.iter().any(|change| name.eq_ignore_ascii_case(change)) {
                return Some(Self::Other);
            }
            let (Some(name), Some(value)) = (place(name.as_bytes()), place(header.value)) else {
                return Some(Self::Other);
            };
            *kept = (name, value);
            count += 1;
        }
        let end = length.and_then(|length| head.checked_add(length));
        let Some(end) = end.filter(|end| *end <= REQUEST_BYTES_MAX) else {
            return Some(Self::Other);
        };
        if end > buffer.len() {
            return None;
        }
        let (Some(path), Some(body)) = (place(path.as_bytes()), Place::new(head, end)) else {
            return Some(Self::Other);
        };
        Some(Self::Append(Places { path, headers, count, body }))
    }
}

/// Headers that change how a request or what follows it is read.
const CHANGES: [&str; 4] = ["transfer-encoding", "connection", "expect", "upgrade"];

fn decimal(text: &[u8]) -> Option<usize> {
    let is_plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    is_plain.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

impl Places {
    /// Takes the request out of the buffer. Nothing, and the buffer stays, if a part of it is not
    /// what HTTP allows.
    fn take(self, buffer: &mut BytesMut) -> Option<Request<Full<Bytes>>> {
        let whole = buffer.split_to(self.body.1.into()).freeze();
        let request = self.request(&whole);
        if request.is_none() {
            let mut all = BytesMut::from(whole);
            all.unsplit(std::mem::take(buffer));
            *buffer = all;
        }
        request
    }

    fn request(&self, whole: &Bytes) -> Option<Request<Full<Bytes>>> {
        let mut headers = HeaderMap::with_capacity(self.count);
        for (name, value) in self.headers.iter().take(self.count) {
            let name = HeaderName::from_bytes(whole.get(name.range())?).ok()?;
            let value = HeaderValue::from_maybe_shared(whole.slice(value.range())).ok()?;
            headers.append(name, value);
        }
        let body = Full::new(whole.slice(self.body.range()));
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from_maybe_shared(whole.slice(self.path.range())).ok()?;
        *request.headers_mut() = headers;
        Some(request)
    }
}

/// Writes a response. False if it is one that others have to write.
fn write(response: &Response<ReplyBody>, date: &[u8], out: &mut Vec<u8>) -> bool {
    let ReplyBody::Whole(body) = response.body() else { return false };
    let status = response.status();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    let mut line = |name: &[u8], value: &[u8]| {
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(name);
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
    };
    for (name, value) in response.headers() {
        line(name.as_str().as_bytes(), value.as_bytes());
    }
    line(b"date", date);
    let length = body.as_ref().map_or(0, Bytes::len);
    if status != StatusCode::NO_CONTENT {
        line(b"content-length", itoa::Buffer::new().format(length).as_bytes());
    }
    out.extend_from_slice(b"\r\n\r\n");
    if let Some(body) = body {
        out.extend_from_slice(body);
    }
    true
}

/// The time as HTTP has it, made once a second.
#[derive(Debug, Default)]
struct Date {
    second: u64,
    text: String,
}

impl Date {
    fn now(&mut self) -> &[u8] {
        let second = clock::now_ms() / 1000;
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
        }
        self.text.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use proptest::prelude::*;

    use super::*;

    const REQUEST: &str = "POST /v1/stream/a/b?x=1 HTTP/1.1\r\nHost: localhost\r\n\
                           Content-Type: text/plain\r\nX-Two: 1\r\nx-two: 2\r\n\
                           Content-Length: 5\r\n\r\nhello";

    fn kind(text: &str) -> &'static str {
        match Found::parse(text.as_bytes()) {
            Found::Part => "part",
            Found::Append(_) => "append",
            Found::Other => "other",
        }
    }

    #[tokio::test]
    async fn a_small_append_is_taken_and_what_follows_stays() {
        let mut buffer = BytesMut::from(format!("{REQUEST}POST /v1").as_bytes());
        let Found::Append(places) = Found::parse(&buffer) else { panic!("not an append") };
        let request = places.take(&mut buffer).unwrap();
        assert_eq!(&buffer[..], b"POST /v1");
        assert_eq!(request.method(), Method::POST);
        assert_eq!(request.uri(), "/v1/stream/a/b?x=1");
        assert_eq!(request.headers()["host"], "localhost");
        assert_eq!(request.headers().get_all("x-two").iter().count(), 2);
        assert_eq!(request.into_body().collect().await.unwrap().to_bytes(), "hello");
    }

    #[test]
    fn every_beginning_of_one_is_a_part() {
        for end in 0..REQUEST.len() {
            assert_eq!(kind(&REQUEST[..end]), "part", "{end}");
        }
        assert_eq!(kind(REQUEST), "append");
    }

    #[test]
    fn what_is_not_certain_is_for_others() {
        let with = |line: &str| REQUEST.replace("X-Two: 1", line);
        for line in [
            "Transfer-Encoding: chunked",
            "transfer-encoding: identity",
            "Connection: close",
            "Connection: keep-alive",
            "Expect: 100-continue",
            "Upgrade: websocket",
            "Content-Length: 5",
            "Content-Length: 6",
            "bad header: 1",
            " folded: 1",
        ] {
            assert_eq!(kind(&with(line)), "other", "{line}");
        }
        for length in ["+5", "5, 5", "-1", "", "0x5", "5 5", "18446744073709551616", "16384"] {
            let text = REQUEST.replace("Length: 5", &format!("Length: {length}"));
            assert_eq!(kind(&text), "other", "{length}");
        }
        let many = "a: b\r\n".repeat(HEADERS_MAX);
        assert_eq!(kind(&with(&format!("{many}a: b"))), "other");
        assert_eq!(kind(&REQUEST.replace("Content-Length: 5\r\n", "")), "other");
        for start in ["GET ", "post ", "POST  ", "POST http://localhost", "POST /v2", "\r\nPOST "] {
            assert_eq!(kind(&REQUEST.replace("POST ", start)), "other", "{start:?}");
        }
        assert_eq!(kind(&REQUEST.replace("HTTP/1.1", "HTTP/1.0")), "other");
        assert_eq!(kind(&with(&format!("long: {}", "x".repeat(REQUEST_BYTES_MAX)))), "other");
        let endless = format!("POST /v1/stream/{}", "x".repeat(REQUEST_BYTES_MAX));
        assert_eq!(kind(&endless), "other");
    }

    /// What hyper makes of the same bytes.
    async fn by_hyper(bytes: Vec<u8>) -> Option<(Method, Uri, HeaderMap, Bytes)> {
        let seen = Arc::new(std::sync::Mutex::new(None));
        let kept = Arc::clone(&seen);
        let service = hyper::service::service_fn(move |request: Request<hyper::body::Incoming>| {
            let kept = Arc::clone(&kept);
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let mut kept = kept.lock().unwrap();
                kept.get_or_insert((head.method, head.uri, head.headers, body));
                Ok::<_, hyper::Error>(Response::new(Full::new(Bytes::new())))
            }
        });
        let (mut far, near) = tokio::io::duplex(2 * REQUEST_BYTES_MAX);
        far.write_all(&bytes).await.unwrap();
        far.shutdown().await.unwrap();
        let near = hyper_util::rt::TokioIo::new(near);
        let mut http = hyper::server::conn::http1::Builder::new();
        let _ = http.half_close(true).serve_connection(near, service).await;
        seen.lock().unwrap().take()
    }

    fn lines() -> impl Strategy<Value = Vec<String>> {
        let line = prop_oneof![
            4 => "[a-zA-Z-]{1,12}:[ \t]{0,2}[ -~]{0,20}",
            1 => Just("Content-Length: 5".to_owned()),
            1 => "Content-Length: [0-9]{1,3}",
            1 => Just("Transfer-Encoding: chunked".to_owned()),
            1 => "[ -~\\x00\\x0b\\x80-\\xff]{0,20}",
        ];
        proptest::collection::vec(line, 0..6)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]

        #[test]
        fn hyper_reads_the_same(
            lines in lines(),
            path in "[!-~]{0,20}",
            body in proptest::collection::vec(any::<u8>(), 0..8),
            length in 0_usize..10,
            edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let head = lines.join("\r\n");
            let mut bytes = format!(
                "POST /v1/stream/{path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{head}\r\n\r\n"
            ).into_bytes();
            bytes.extend(body);
            for (place, byte) in edits {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            let mut buffer = BytesMut::from(&bytes[..]);
            if let Found::Append(places) = Found::parse(&buffer)
                && let Some(request) = places.take(&mut buffer)
            {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let taken = bytes.len() - buffer.len();
                let read = runtime.block_on(by_hyper(bytes[..taken].to_vec()));
                let (method, uri, headers, body) = read.expect("hyper reads it too");
                prop_assert_eq!(&method, request.method());
                prop_assert_eq!(&uri, request.uri());
                prop_assert_eq!(&headers, request.headers());
                let own = runtime.block_on(request.into_body().collect()).unwrap().to_bytes();
                prop_assert_eq!(body, own);
            } else {
                prop_assert_eq!(&buffer[..], &bytes[..]);
            }
        }
    }

    #[test]
    fn a_request_that_cannot_be_taken_stays_whole() {
        let text = REQUEST.replace("/a/b?x=1", "/a\u{7f}b");
        let mut buffer = BytesMut::from(format!("{text}rest").as_bytes());
        match Found::parse(&buffer) {
            Found::Append(places) => {
                if places.take(&mut buffer).is_none() {
                    assert_eq!(&buffer[..], format!("{text}rest").as_bytes());
                }
            }
            Found::Part => panic!("it is whole"),
            Found::Other => {}
        }
    }

    #[test]
    fn responses_have_a_length_unless_they_have_no_body() {
        let written = |status: StatusCode, body: &'static str| {
            let mut response = Response::new(ReplyBody::from(Bytes::from_static(body.as_bytes())));
            *response.status_mut() = status;
            response.headers_mut().insert("x-a", HeaderValue::from_static("1"));
            let mut out = Vec::new();
            assert!(write(&response, b"now", &mut out));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            written(StatusCode::OK, "abc"),
            "HTTP/1.1 200 OK\r\nx-a: 1\r\ndate: now\r\ncontent-length: 3\r\n\r\nabc"
        );
        assert_eq!(
            written(StatusCode::OK, ""),
            "HTTP/1.1 200 OK\r\nx-a: 1\r\ndate: now\r\ncontent-length: 0\r\n\r\n"
        );
        assert_eq!(
            written(StatusCode::NO_CONTENT, ""),
            "HTTP/1.1 204 No Content\r\nx-a: 1\r\ndate: now\r\n\r\n"
        );
    }
}
