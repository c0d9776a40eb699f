//! A message is what `serde_json` says it is, nothing of it is there twice, and what is written is read
//! again.
#![no_main]

use handback_wire::{MAX_ID_BYTES, MAX_METHOD_BYTES, Message};
use libfuzzer_sys::fuzz_target;
use serde_json::value::RawValue;

const MEMBERS: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

fuzz_target!(|data: &[u8]| {
    let members = handback_fuzz::members::read(data);
    let Ok(message) = Message::read(data) else {
        if let Some(members) = &members {
            assert!(!is_message(members), "{}", String::from_utf8_lossy(data));
        }
        return;
    };
    let members = members.expect("an object");
    assert!(is_message(&members));
    let written = message.to_bytes();
    let again = handback_fuzz::members::read(&written).expect("an object");
    let own = own_members(&message);
    assert!(again.iter().all(|(name, _)| own.contains(&name.as_str())));
    for &name in own {
        let texts = |members: &[(String, Box<RawValue>)]| -> Vec<String> {
            let those = members.iter().filter(|(known, _)| known == name);
            those.map(|(_, value)| value.get().to_owned()).collect()
        };
        match name {
            // They may have been written with escapes, or an absent id as null.
            "jsonrpc" | "method" => {
                let text = |json: String| serde_json::from_str::<String>(&json).expect("a text");
                let read = |texts: Vec<String>| texts.into_iter().map(text).collect::<Vec<_>>();
                assert_eq!(read(texts(&again)), read(texts(&members)));
            }
            "id" if matches!(message, Message::Error { id: None, .. }) => {}
            _ => assert_eq!(texts(&again), texts(&members), "{name}"),
        }
    }
    assert_eq!(Message::read(&written).expect("a message").to_bytes(), written);
});

/// What a message of its kind is made of. Others are not passed on, whatever their names: an answer may
/// have `params`, or a method that is `null`.
fn own_members(message: &Message<'_>) -> &'static [&'static str] {
    match message {
        Message::Result { .. } => &["jsonrpc", "id", "result"],
        Message::Error { .. } => &["jsonrpc", "id", "error"],
        _ => &["jsonrpc", "id", "method", "params"],
    }
}

/// By the rules of JSON-RPC, and our bounds.
fn is_message(members: &[(String, Box<RawValue>)]) -> bool {
    let count = |name: &str| members.iter().filter(|(known, _)| known == name).count();
    if MEMBERS.iter().any(|name| count(name) > 1) {
        return false;
    }
    let get =
        |name: &str| members.iter().find(|(known, _)| known == name).map(|(_, raw)| raw.get());
    let text = |json: &str| serde_json::from_str::<String>(json).ok();
    if get("jsonrpc").and_then(text).as_deref() != Some("2.0") {
        return false;
    }
    let method = match get("method") {
        // As if it were not there.
        None | Some("null") => None,
        Some(method) => match text(method) {
            Some(method) if method.len() <= MAX_METHOD_BYTES => Some(method),
            _ => return false,
        },
    };
    let id = get("id");
    let is_good = |id: &str| {
        let is_number = id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        id.len() <= MAX_ID_BYTES && (id.starts_with('"') || is_number)
    };
    let has_id = id.is_some_and(is_good);
    if id.is_some_and(|id| id != "null") && !has_id {
        return false;
    }
    match (method, get("result"), get("error")) {
        (Some(_), None, None) => id != Some("null"),
        (None, Some(_), None) => has_id,
        (None, None, Some(_)) => true,
        _ => false,
    }
}
