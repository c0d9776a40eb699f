//! What a relay finds and changes in `_meta` is what `serde_json` has there, and nothing else changes.
#![no_main]

use bytes::Bytes;
use handback_wire::meta;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;

fuzz_target!(|data: &[u8]| {
    let params = Bytes::copy_from_slice(data);
    if meta::take_token(&params, 17) == Ok(None)
        && let Ok(tree) = serde_json::from_slice::<Value>(data)
    {
        // Nobody who gets them as they are finds one.
        assert_eq!(tree.get("_meta").and_then(|meta| meta.get("progressToken")), None);
    }
    let Some(meta) = member(data, "_meta").filter(|_| is_plain(data)) else {
        assert_eq!(meta::take_token(&params, 17).ok().flatten(), None);
        assert_eq!(meta::subscription(&params), None);
        assert_eq!(meta::with_subscription(&params, &Bytes::from_static(b"1")), None);
        return;
    };
    let inner = |name: &str| {
        member(meta.get().as_bytes(), name).filter(|_| is_plain(meta.get().as_bytes()))
    };
    let token = inner("progressToken");
    let taken = meta::take_token(&params, 17).ok().flatten();
    assert_eq!(
        taken.as_ref().map(|(_, before)| before.as_ref()),
        token.as_ref().map(|raw| raw.get().as_bytes())
    );
    if let Some((changed, before)) = taken {
        let now = member(&changed, "_meta").expect("a member");
        assert_eq!(member(now.get().as_bytes(), "progressToken").expect("a member").get(), "17");
        same_but(data, &changed, "_meta");
        same_but(meta.get().as_bytes(), now.get().as_bytes(), "progressToken");
        let progress = Bytes::from(now.get().to_owned());
        assert_eq!(meta::token(&progress), Some(17));
        let back = meta::with_token(&progress, &before).expect("an object");
        same_but(meta.get().as_bytes(), &back, "");
    }
    let subscription = inner(meta::SUBSCRIPTION);
    let number = subscription.as_ref().and_then(|raw| as_number(raw.get()));
    assert_eq!(meta::subscription(&params), number);
    let renamed = meta::with_subscription(&params, &Bytes::from_static(b"\"mine\""));
    assert_eq!(renamed.is_some(), subscription.is_some());
    if let Some(renamed) = renamed {
        same_but(data, &renamed, "_meta");
    }
});

fn member(json: &[u8], name: &str) -> Option<Box<RawValue>> {
    let members = handback_fuzz::members::read(json)?;
    members.into_iter().find(|(known, _)| known == name).map(|(_, value)| value)
}

/// Nothing in it is there twice.
fn is_plain(json: &[u8]) -> bool {
    let mut names: Vec<String> = handback_fuzz::members::read(json)
        .unwrap_or_default()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    names.len() == count
}

#[track_caller]
fn same_but(one: &[u8], other: &[u8], name: &str) {
    let members = |json: &[u8]| -> Vec<(String, String)> {
        let members = handback_fuzz::members::read(json).expect("an object");
        let others = members.into_iter().filter(|(known, _)| known != name);
        others.map(|(name, value)| (name, value.get().to_owned())).collect()
    };
    assert_eq!(members(one), members(other));
}

/// A number, or a text that is one, without a sign.
fn as_number(json: &str) -> Option<u64> {
    match serde_json::from_str(json).ok()? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) if json.len() == text.len() + 2 && !text.starts_with('+') => {
            text.parse().ok()
        }
        _ => None,
    }
}
