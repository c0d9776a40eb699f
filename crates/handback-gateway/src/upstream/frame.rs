//! Messages that the line writes, around the bytes of others.

use bytes::Bytes;
use handback_mcp::wire::Id;

/// What is around the parts of a message, and a bit more.
const AROUND_BYTES: usize = 96;

/// A request.
pub(super) fn request(number: u64, method: &str, params: Option<&[u8]>) -> Vec<u8> {
    let mut out = start(method.len() + params.map_or(0, <[u8]>::len));
    put(&mut out, br#","id":"#);
    put(&mut out, number.to_string().as_bytes());
    asked(&mut out, method, params);
    out
}

/// A notification.
pub(super) fn notification(method: &str, params: Option<&[u8]>) -> Vec<u8> {
    let mut out = start(method.len() + params.map_or(0, <[u8]>::len));
    asked(&mut out, method, params);
    out
}

/// Says that the answer to a request is not wanted any more.
pub(super) fn cancelled(number: u64) -> Vec<u8> {
    let params = format!(r#"{{"requestId":{number},"reason":"nobody waits for it any more"}}"#);
    notification("notifications/cancelled", Some(params.as_bytes()))
}

/// The answer to a request of the upstream.
pub(super) fn answer(id: &Id<'_>, with: Result<&[u8], &[u8]>) -> Vec<u8> {
    let (name, json) = match with {
        Ok(result) => (br#","result":"#.as_slice(), result),
        Err(error) => (br#","error":"#.as_slice(), error),
    };
    let mut out = start(id.as_json().len() + json.len());
    put(&mut out, br#","id":"#);
    put(&mut out, id.as_json().as_bytes());
    put(&mut out, name);
    put(&mut out, json);
    out.push(b'}');
    out
}

/// One line of it. Between the parts of JSON a space is as good as the end of a line, and within
/// texts there is none.
pub(super) fn line(mut message: Vec<u8>) -> Bytes {
    let mut rest = message.as_mut_slice();
    while let Some(at) = memchr::memchr2(b'\n', b'\r', rest) {
        let (_, from) = rest.split_at_mut(at);
        let Some((end, after)) = from.split_first_mut() else { break };
        *end = b' ';
        rest = after;
    }
    message.push(b'\n');
    Bytes::from(message)
}

fn start(length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(AROUND_BYTES + length);
    put(&mut out, br#"{"jsonrpc":"2.0""#);
    out
}

fn asked(out: &mut Vec<u8>, method: &str, params: Option<&[u8]>) {
    put(out, br#","method":"#);
    match method.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\')) {
        true => {
            out.push(b'"');
            put(out, method.as_bytes());
            out.push(b'"');
        }
        false => put(out, serde_json::Value::from(method).to_string().as_bytes()),
    }
    if let Some(params) = params {
        put(out, br#","params":"#);
        put(out, params);
    }
    out.push(b'}');
}

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use handback_mcp::wire::Message;
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let message = request(7, "a\"b", Some(b"{\"x\" :\n 1}"));
        let Ok(Message::Request { id, method, params }) = Message::read(&message) else {
            panic!("a request")
        };
        assert_eq!((id.as_number(), method.as_ref()), (Some(7), "a\"b"));
        assert_eq!(params.unwrap().get(), "{\"x\" :\n 1}");
        assert_eq!(notification("ping", None), br#"{"jsonrpc":"2.0","method":"ping"}"#.as_slice());
        assert!(matches!(
            Message::read(&answer(&Id::number(3), Err(b"{}"))),
            Ok(Message::Error { id: Some(id), .. }) if id.as_number() == Some(3)
        ));
        assert!(Message::read(&cancelled(9)).is_ok());
    }

    #[test]
    fn a_line_is_one_line() {
        let line = line(notification("a", Some(b"{\r\n\"x\":\n1\n}")));
        assert_eq!(line, br#"{"jsonrpc":"2.0","method":"a","params":{  "x": 1 }}"#.to_vec().iter().chain(b"\n").copied().collect::<Vec<u8>>());
    }

    fn any_json() -> impl Strategy<Value = String> {
        let text =
            any::<String>().prop_map(|text| serde_json::json!({ "a": text, "b": [1, null] }));
        (text, any::<bool>()).prop_map(|(json, is_pretty)| match is_pretty {
            true => serde_json::to_string_pretty(&json).unwrap().replace('\n', "\r\n"),
            false => json.to_string(),
        })
    }

    proptest! {
        #[test]
        fn every_message_is_one_line_that_says_the_same(
            number: u64,
            method in ".{0,40}",
            json in any_json(),
        ) {
            let written = request(number, &method, Some(json.as_bytes()));
            let read = Message::read(&written);
            let Ok(Message::Request { id, method: read, params: Some(params) }) = read else {
                panic!("a request: {read:?}")
            };
            prop_assert_eq!(id.as_number(), Some(number));
            prop_assert_eq!((read.as_ref(), params.get()), (method.as_str(), json.as_str()));
            for message in [
                request(number, &method, Some(json.as_bytes())),
                notification(&method, Some(json.as_bytes())),
                answer(&Id::number(number), Ok(json.as_bytes())),
            ] {
                let line = line(message.clone());
                let (end, rest) = line.split_last().unwrap();
                prop_assert!(*end == b'\n' && !rest.contains(&b'\n') && !rest.contains(&b'\r'));
                let tree = |json: &[u8]| serde_json::from_slice::<Value>(json).unwrap();
                prop_assert_eq!(tree(rest), tree(&message));
            }
        }
    }
}
