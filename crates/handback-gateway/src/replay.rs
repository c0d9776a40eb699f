//! The answer to an earlier try of a call, for another one.
//!
//! It is what was recorded, with a mark. What was recorded may refer to values that are held, for as long
//! as the record is kept: of those that are gone all the same, it says so, and not until when they are
//! held.

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_mcp::server::REPLAYED_META;
use handback_mcp::wire::Object;
use handback_token::Handle;
use handback_tool::Entered;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::bound::HELD_KEY;
use crate::calls::says;
use crate::reference::{Fault, Fetch, HandleRefusal, HeldValues};
use crate::upstream::{Answer, Raw};

/// Where a replay says how to have the call made once more.
const AGAIN_META: &str = "dev.handback/again";

/// How a call is made once more that has its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// It has a key of its client.
    OtherKey,
    /// It is taken for another try because it is identical: until an answer was delivered.
    Identical,
}

impl Again {
    const fn words(self) -> &'static str {
        match self {
            Self::OtherKey => "to run it once more, call with another idempotency key",
            Self::Identical => "to run it once more, make the same call again",
        }
    }
}

/// Where a replay has what stood in the place of its mark and has no room for one: a text, a number, an
/// array or nothing.
const DATA_META: &str = "dev.handback/data";

/// Bytes that a mark adds to a result at most.
pub(crate) const MARK_BYTES: usize = 160;

/// What was recorded, as it is told now.
pub(crate) async fn answer(
    json: Bytes,
    owner: &VerifiedPrincipal,
    entered: &Entered,
    again: Again,
) -> Bytes {
    let handles = handles(&json).unwrap_or_default();
    let json = match handles.is_empty() {
        true => json,
        false => {
            let (owner, held) = (owner.clone(), entered.held().clone());
            let (revocations, now_ms) = (entered.revocations().clone(), entered.now_ms());
            let look = move || {
                let mut values = HeldValues::of(&owner, &held, &revocations, now_ms);
                handles.into_iter().filter(|handle| is_gone(&mut values, *handle)).collect()
            };
            let gone: Vec<Handle> = tokio::task::spawn_blocking(look).await.unwrap_or_default();
            if gone.is_empty() { json } else { without(&json, &gone, again).unwrap_or(json) }
        }
    };
    marked(&json, "_meta", again).unwrap_or(json)
}

/// Whether it was held for this caller, and is not any more. What never was may be an upstream's own.
fn is_gone(values: &mut impl Fetch, handle: Handle) -> bool {
    let gone = [HandleRefusal::Expired, HandleRefusal::Revoked];
    matches!(values.fetch(handle), Err(Fault::Handle(why)) if gone.contains(&why))
}

/// What a result says that is held.
pub(crate) fn handles(json: &[u8]) -> Option<Vec<Handle>> {
    if !says(json, HELD_KEY.as_bytes()) {
        return None;
    }
    let result = Object::read(serde_json::from_slice(json).ok()?).ok()?;
    let meta = Object::read(serde_json::from_str(result.get("_meta")?).ok()?).ok()?;
    let entries: Vec<&RawValue> = serde_json::from_str(meta.get(HELD_KEY)?).ok()?;
    Some(entries.into_iter().filter_map(handle_of).collect())
}

fn handle_of(entry: &RawValue) -> Option<Handle> {
    let entry = Object::read(entry).ok()?;
    Handle::parse(&entry.text("handle")?).ok()
}

/// The same result, which says that some of what it refers to is gone. It is shorter than with its
/// notice.
fn without(json: &[u8], gone: &[Handle], again: Again) -> Option<Bytes> {
    let mut result = Object::read(serde_json::from_slice(json).ok()?).ok()?;
    let (content, meta) = (result.get("content")?.to_owned(), result.get("_meta")?.to_owned());
    let mut meta = Object::read(serde_json::from_str(&meta).ok()?).ok()?;
    let entries = meta.get(HELD_KEY)?.to_owned();
    let mut entries: Vec<&RawValue> = serde_json::from_str(&entries).ok()?;
    entries.retain(|entry| handle_of(entry).is_none_or(|handle| !gone.contains(&handle)));
    let blocks: Vec<&RawValue> = serde_json::from_str(&content).ok()?;
    let (_notice, blocks) = blocks.split_first()?;
    let left: Vec<_> = entries.iter().filter_map(|entry| handle_of(entry)).collect();
    let notice = serde_json::json!({"type": "text", "text": told(gone, &left, again)}).to_string();
    let blocks = std::iter::once(notice.as_str()).chain(blocks.iter().map(|block| block.get()));
    let content = format!("[{}]", blocks.collect::<Vec<_>>().join(","));
    let entries: Vec<_> = entries.into_iter().map(RawValue::get).collect();
    meta.set(HELD_KEY, format!("[{}]", entries.join(",")));
    let meta = meta.to_json();
    result.set("content", content);
    result.set("_meta", meta);
    Some(result.to_json().into())
}

/// What takes the place of the notice.
fn told(gone: &[Handle], left: &[Handle], again: Again) -> String {
    let list = |handles: &[Handle]| {
        let mut names: Vec<_> = handles.iter().map(Handle::to_string).collect();
        names.dedup();
        names.join(", ")
    };
    let still = match left {
        [] => String::new(),
        left => format!(" Still held: {}.", list(left)),
    };
    format!(
        "CUT to fit when the call was made. Not held any more, and what is missing of it here cannot \
         be read: {}.{still} The call was made; {}.",
        list(gone),
        again.words()
    )
}

/// An error that was recorded, as it is told now.
pub(crate) fn error(json: &Bytes, again: Again) -> Bytes {
    marked(json, "data", again).unwrap_or_else(|| json.clone())
}

/// What is told in the place of an outcome that was recorded without what the call gave.
pub(crate) fn refusal(told: Answer, again: Again) -> Answer {
    match told {
        Answer::Error(json) => Answer::Error(error(&json, again)),
        Answer::Result(Raw::Memory(json)) => {
            let json = marked(&json, "_meta", again).unwrap_or(json);
            Answer::Result(Raw::Memory(json))
        }
        other => other,
    }
}

/// The same result or error, which says in this member that it is the answer to an earlier try. A member
/// that is no object becomes one, with what it was inside.
pub(crate) fn marked(json: &[u8], member: &str, again: Again) -> Option<Bytes> {
    let raw: &RawValue = serde_json::from_slice(json).ok()?;
    let mut result = Object::read(raw).ok()?;
    let marks = {
        let given = result.get(member);
        let read = given.and_then(|given| serde_json::from_str::<&RawValue>(given).ok());
        let mut marks = read.and_then(|raw| Object::read(raw).ok()).unwrap_or_else(|| {
            let mut marks = Object::default();
            given.into_iter().for_each(|given| marks.set(DATA_META, given.to_owned()));
            marks
        });
        marks.set(REPLAYED_META, "true".to_owned());
        marks.set(AGAIN_META, Value::from(again.words()).to_string());
        marks.to_json()
    };
    result.set(member, marks);
    Some(result.to_json().into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct Known(Vec<(Handle, HandleRefusal)>);

    impl Fetch for Known {
        fn fetch(&mut self, handle: Handle) -> Result<crate::reference::Source, Fault> {
            let known = self.0.iter().find(|(other, _)| *other == handle);
            Err(known.map_or(Fault::Unavailable, |(_, why)| Fault::Handle(*why)))
        }
    }

    fn handle(number: u8) -> Handle {
        Handle::from_bytes([number; 16])
    }

    fn result() -> Value {
        let entry = |number| json!({"handle": handle(number).to_string(), "until": "then"});
        json!({
            "content": [{"type": "text", "text": "CUT to fit: held until then"}, {"type": "x"}],
            "structuredContent": {"a": 1},
            "_meta": {"x": 1, HELD_KEY: [entry(1), entry(2), entry(3)]},
        })
    }

    #[test]
    fn what_is_gone_is_not_said_to_be_held() {
        let json = result().to_string();
        let all = handles(json.as_bytes()).unwrap();
        assert_eq!(all, [1, 2, 3].map(handle));
        let gone = [(handle(1), HandleRefusal::Expired), (handle(3), HandleRefusal::Revoked)];
        let mut known = Known(gone.to_vec());
        let gone: Vec<_> = all.into_iter().filter(|handle| is_gone(&mut known, *handle)).collect();
        assert_eq!(gone, [1, 3].map(handle), "of the other one nothing is known");
        let told: Value =
            serde_json::from_slice(&without(json.as_bytes(), &gone, Again::OtherKey).unwrap())
                .unwrap();
        let notice = told["content"][0]["text"].as_str().unwrap();
        let named =
            format!("cannot be read: {}, {}. Still held: {}.", handle(1), handle(3), handle(2));
        assert!(notice.contains(&named) && !notice.contains("until"), "{notice}");
        assert_eq!(told["content"][1], json!({"type": "x"}));
        assert_eq!(told["structuredContent"], json!({"a": 1}));
        let left = json!([{"handle": handle(2).to_string(), "until": "then"}]);
        assert_eq!(told["_meta"], json!({"x": 1, HELD_KEY: left}));
    }

    #[test]
    fn a_mark_has_few_bytes() {
        for json in ["{}", r#"{"a":1,"_meta":{}}"#, r#"{"_meta":{"x":1}}"#, r#"{"_meta":null}"#] {
            for again in [Again::OtherKey, Again::Identical] {
                let marked = marked(json.as_bytes(), "_meta", again).unwrap();
                assert!(marked.len() <= json.len() + MARK_BYTES, "{}", marked.len() - json.len());
                let told: Value = serde_json::from_slice(&marked).unwrap();
                assert_eq!(told["_meta"][REPLAYED_META], true);
                assert_eq!(told["_meta"][AGAIN_META], again.words());
            }
        }
    }

    #[test]
    fn who_sent_no_key_is_told_of_none() {
        let marked = marked(b"{}", "_meta", Again::Identical).unwrap();
        assert!(!std::str::from_utf8(&marked).unwrap().contains("key"));
        let notice = told(&[handle(1)], &[], Again::Identical);
        assert!(!notice.contains("key"), "{notice}");
    }

    #[test]
    fn what_stands_for_a_result_that_was_too_large_is_marked() {
        let result = Answer::Result(Raw::Memory(Bytes::from_static(br#"{"_meta":{"x":1}}"#)));
        let Answer::Result(Raw::Memory(json)) = refusal(result, Again::OtherKey) else {
            panic!("a result");
        };
        let told: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&told["_meta"]["x"], &told["_meta"][REPLAYED_META]), (&json!(1), &json!(true)));
    }

    #[test]
    fn whatever_stands_in_the_place_of_the_mark_stays() {
        for given in [r#""text""#, "null", "[1,2]", "1.50", "true", r#"{"a":1,"a":2}"#] {
            let json = format!(r#"{{"code":-32000,"message":"no","data":{given}}}"#);
            let marked = error(&json.clone().into(), Again::OtherKey);
            assert!(marked.len() <= json.len() + MARK_BYTES, "{}", marked.len() - json.len());
            let marks = format!(
                r#"{{"{DATA_META}":{given},"{REPLAYED_META}":true,"{AGAIN_META}":"{}"}}"#,
                Again::OtherKey.words()
            );
            let expected = format!(r#"{{"code":-32000,"message":"no","data":{marks}}}"#);
            assert_eq!(std::str::from_utf8(&marked).unwrap(), expected);
        }
        let given = Bytes::from_static(br#"{"code":1,"message":"no","data":{"x":1}}"#);
        let told = error(&given, Again::OtherKey);
        let told: Value = serde_json::from_slice(&told).unwrap();
        assert_eq!((&told["data"]["x"], &told["data"][DATA_META]), (&json!(1), &Value::Null));
    }

    #[test]
    fn what_never_was_is_left_to_whoever_named_it() {
        let mut known = Known(vec![(handle(1), HandleRefusal::Unknown)]);
        assert!(!is_gone(&mut known, handle(1)));
        for json in [r#"{}"#, r#"{"_meta":{}}"#, r#"{"_meta":{"dev.handback/held":7}}"#, "7"] {
            assert!(handles(json.as_bytes()).unwrap_or_default().is_empty(), "{json}");
        }
    }
}
