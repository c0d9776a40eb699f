//! What the upstream answers to a message, without a transport.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The version that callers with sessions get.
const LEGACY: &str = "2025-11-25";

/// Versions with sessions that are taken as they are asked for.
const LEGACY_ALL: [&str; 3] = ["2025-03-26", "2025-06-18", LEGACY];

const MODERN: &str = "2026-07-28";

const TOOLS: &str = r#"[{"name":"echo","description":"Says a number again","inputSchema":{"type":"object","properties":{"v":{"type":"integer"}},"required":["v"]},"annotations":{"readOnlyHint":true}},{"name":"large","description":"Gives records, as JSON in a text of about so many bytes","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer"}},"required":["bytes"]},"annotations":{"readOnlyHint":true}},{"name":"ask","description":"Asks whether one is sure, then says the number","inputSchema":{"type":"object","properties":{"v":{"type":"integer"}},"required":["v"]}}]"#;

const INVALID_PARAMS: i32 = -32602;
const METHOD_NOT_FOUND: i32 = -32601;
const PARSE_ERROR: i32 = -32700;

/// More than any measurement asks for.
const LARGE_MAX: u64 = 256 * 1024 * 1024;

/// What a message is answered with.
#[derive(Debug)]
pub(super) enum Reply {
    /// To what wants no answer.
    Accepted,
    /// A message.
    Message {
        /// The text, in pieces.
        pieces: Vec<Bytes>,
        /// Whether a session begins.
        is_session: bool,
    },
}

#[derive(Debug, Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<Params<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    arguments: Arguments,
    #[serde(borrow, default)]
    protocol_version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    request_state: Option<Cow<'a, str>>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<Meta<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Arguments {
    #[serde(default)]
    v: Option<u64>,
    #[serde(default)]
    bytes: Option<u64>,
}

#[derive(Debug, Deserialize)]
struct Meta<'a> {
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<Cow<'a, str>>,
}

/// Answers a message; `large` gives records of about so many bytes, as the text of a JSON string.
pub(super) fn answer(message: &[u8], large: impl FnOnce(u64) -> Bytes) -> Reply {
    let Ok(message) = serde_json::from_slice::<Message<'_>>(message) else {
        return error("null", PARSE_ERROR, "this is no message");
    };
    let (Some(id), Some(method)) = (message.id, message.method.as_deref()) else {
        return Reply::Accepted;
    };
    let (id, params) = (id.get(), message.params.unwrap_or_default());
    let version = params.meta.as_ref().and_then(|meta| meta.version.as_deref());
    let is_modern = version.is_some_and(|version| version >= MODERN);
    match method {
        "initialize" => initialize(id, params.protocol_version.as_deref()),
        "server/discover" => discover(id),
        "ping" => result(id, "{}"),
        "tools/list" if is_modern => result(
            id,
            &format!(
                r#"{{"resultType":"complete","tools":{TOOLS},"ttlMs":3600000,"cacheScope":"public"}}"#
            ),
        ),
        "tools/list" => result(id, &format!(r#"{{"tools":{TOOLS}}}"#)),
        "tools/call" => call(id, &params, is_modern, large),
        _ => error(id, METHOD_NOT_FOUND, "there is no such method"),
    }
}

fn initialize(id: &str, version: Option<&str>) -> Reply {
    let version = version.filter(|version| LEGACY_ALL.contains(version)).unwrap_or(LEGACY);
    let outcome = format!(
        r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"upstream","version":"1"}}}}"#
    );
    match result(id, &outcome) {
        Reply::Message { pieces, .. } => Reply::Message { pieces, is_session: true },
        Reply::Accepted => Reply::Accepted,
    }
}

fn discover(id: &str) -> Reply {
    result(
        id,
        &format!(
            r#"{{"resultType":"complete","supportedVersions":["{MODERN}","{LEGACY}"],"capabilities":{{"tools":{{}}}},"ttlMs":3600000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"upstream","version":"1"}}}}}}"#
        ),
    )
}

fn call(id: &str, params: &Params<'_>, is_modern: bool, large: impl FnOnce(u64) -> Bytes) -> Reply {
    let kind = if is_modern { r#""resultType":"complete","# } else { "" };
    let Arguments { v, bytes } = params.arguments;
    match (params.name.as_deref(), v, bytes) {
        (Some("echo"), Some(v), _) => echo(id, kind, v),
        (Some("large"), _, Some(bytes)) if bytes <= LARGE_MAX => {
            let begin = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{{kind}"content":[{{"type":"text","text":""#
            );
            let end = Bytes::from_static(b"\"}]}}");
            let pieces = vec![begin.into(), large(bytes), end];
            Reply::Message { pieces, is_session: false }
        }
        (Some("ask"), Some(v), _) if is_modern => match params.request_state.as_deref() {
            None => ask(id, v),
            Some(found) if found == state(v) => echo(id, kind, v),
            Some(_) => error(id, INVALID_PARAMS, "this is not the state of this call"),
        },
        _ => error(id, INVALID_PARAMS, "there is no such tool, or it wants other arguments"),
    }
}

fn echo(id: &str, kind: &str, v: u64) -> Reply {
    result(id, &format!(r#"{{{kind}"content":[{{"type":"text","text":"{v}"}}]}}"#))
}

fn ask(id: &str, v: u64) -> Reply {
    result(
        id,
        &format!(
            r#"{{"resultType":"input_required","inputRequests":{{"sure":{{"method":"elicitation/create","params":{{"mode":"form","message":"Sure?","requestedSchema":{{"type":"object","properties":{{"sure":{{"type":"boolean"}}}},"required":["sure"]}}}}}}}},"requestState":"{}"}}"#,
            state(v)
        ),
    )
}

/// What the upstream wants to have back: as long as a state that has something to say.
fn state(v: u64) -> String {
    format!("ask-{v:060}")
}

fn result(id: &str, outcome: &str) -> Reply {
    whole(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{outcome}}}"#))
}

fn error(id: &str, code: i32, message: &str) -> Reply {
    whole(format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#
    ))
}

fn whole(text: String) -> Reply {
    Reply::Message { pieces: vec![text.into()], is_session: false }
}

/// Records as a JSON array, within a JSON string; without the escapes it has about so many bytes.
pub(super) fn records(bytes: u64) -> Bytes {
    let bytes = usize::try_from(bytes.min(LARGE_MAX)).unwrap_or_default();
    // A sixth of it is escapes.
    let mut out = String::with_capacity(bytes + bytes / 4 + 256);
    let (mut number, mut len) = (0_u64, 2);
    out.push('[');
    while len < bytes {
        let before = out.len();
        let comma = if number == 0 { "" } else { "," };
        // Written into memory, which does not fail.
        let _ = write!(
            out,
            r#"{comma}{{\"id\":{number},\"name\":\"customer {number:08}\",\"city\":\"{}\",\"cents\":{}}}"#,
            CITIES.get(usize::try_from(number % 8).unwrap_or_default()).unwrap_or(&""),
            number.wrapping_mul(2_654_435_761) % 1_000_000,
        );
        len += out.len() - before - ESCAPES;
        number += 1;
    }
    out.push(']');
    out.into()
}

/// Backslashes in a record.
const ESCAPES: usize = 12;

const CITIES: [&str; 8] = ["Aarhus", "Bergen", "Cork", "Delft", "Evora", "Faro", "Ghent", "Hilo"];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn ask(message: &Value) -> Value {
        let reply = answer(message.to_string().as_bytes(), records);
        let Reply::Message { pieces, .. } = reply else { return Value::Null };
        serde_json::from_slice(&pieces.concat()).unwrap()
    }

    fn call(params: Value) -> Value {
        ask(&json!({"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params}))
    }

    fn modern(mut params: Value) -> Value {
        params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": MODERN});
        call(params)
    }

    #[test]
    fn says_a_number_again_in_either_era() {
        let params = json!({"name": "echo", "arguments": {"v": 7}});
        let old = call(params.clone());
        assert_eq!(
            old,
            json!({"jsonrpc": "2.0", "id": "a", "result": {"content": [{"type": "text", "text": "7"}]}})
        );
        let new = modern(params);
        assert_eq!(new["result"]["resultType"], "complete");
        assert_eq!(new["result"]["content"], old["result"]["content"]);
    }

    #[test]
    fn records_are_as_long_as_asked_for() {
        for bytes in [100_u64, 1_000_000] {
            let answer = call(json!({"name": "large", "arguments": {"bytes": bytes}}));
            let text = answer["result"]["content"][0]["text"].as_str().unwrap();
            let len = text.len() as u64;
            assert!((bytes..bytes + 200).contains(&len), "{len} for {bytes}");
            let records: Vec<Value> = serde_json::from_str(text).unwrap();
            assert!(records.iter().enumerate().all(|(at, record)| record["id"] == at));
        }
    }

    #[test]
    fn asks_and_takes_back_only_its_own_state() {
        let mut params = json!({"name": "ask", "arguments": {"v": 7}});
        let asked = modern(params.clone())["result"].clone();
        assert_eq!(asked["resultType"], "input_required");
        params["requestState"] = asked["requestState"].clone();
        params["inputResponses"] = json!({"sure": {"action": "accept", "content": {"sure": true}}});
        assert_eq!(modern(params.clone())["result"]["content"][0]["text"], "7");
        params["arguments"]["v"] = 8.into();
        assert_eq!(modern(params)["error"]["code"], INVALID_PARAMS);
    }

    #[test]
    fn answers_the_handshakes_of_both_eras() {
        let shake = |method: &str, params: Value| {
            ask(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))["result"]
                .clone()
        };
        for (asked, given) in [("2025-06-18", "2025-06-18"), ("2026-07-28", LEGACY), ("x", LEGACY)]
        {
            let made = shake("initialize", json!({"protocolVersion": asked}));
            assert_eq!(made["protocolVersion"], given);
        }
        assert_eq!(shake("server/discover", json!({}))["supportedVersions"][0], MODERN);
        assert_eq!(shake("tools/list", json!({}))["tools"].as_array().unwrap().len(), 3);
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(ask(&notification), Value::Null);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert_eq!(call(json!({"name": "other"}))["error"]["code"], INVALID_PARAMS);
        let other = json!({"jsonrpc": "2.0", "id": 1, "method": "x/y"});
        assert_eq!(ask(&other)["error"]["code"], METHOD_NOT_FOUND);
        assert!(matches!(answer(b"{", records), Reply::Message { .. }));
    }
}
