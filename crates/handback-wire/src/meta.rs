//! What a relay changes in `_meta`: tokens and ids that its own replace, and put back.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::Object;

/// The member of `_meta` that a notification names its subscription by.
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

const TOKEN: &str = "progressToken";

/// Readers may differ about what an object has: a member is there twice, there are too many of them,
/// or a name is no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("readers may differ about what the object has")]
#[expect(clippy::exhaustive_structs, reason = "there is nothing more to say")]
pub struct Unclear;

/// Parameters with the number of the question as their progress token, and the token that was there.
/// None, if they have no token.
///
/// # Errors
///
/// [`Unclear`] if they may have one that cannot be replaced.
///
/// # Security
///
/// Such parameters are not to be passed on: the peer may read a token that its caller chose, and what
/// it says of that reaches whoever has the question of this number.
pub fn take_token(params: &Bytes, number: u64) -> Result<Option<(Bytes, Bytes)>, Unclear> {
    // A name may be written with escapes: then it is looked for the long way.
    let may_have = memchr::memmem::find(params, TOKEN.as_bytes()).is_some()
        || memchr::memmem::find(params, b"\\u").is_some();
    if !may_have {
        return Ok(None);
    }
    change_meta(params, TOKEN, |_| number.to_string())
}

/// The parameters of a notification of progress with the token of the caller.
#[must_use]
pub fn with_token(params: &Bytes, token: &Bytes) -> Option<Bytes> {
    let mut object = Object::read(raw(params)?).ok()?;
    object.set(TOKEN, str::from_utf8(token).ok()?.to_owned());
    Some(Bytes::from(object.to_json()))
}

/// The number in the progress token of a notification.
#[must_use]
pub fn token(params: &Bytes) -> Option<u64> {
    Object::read(raw(params)?).ok()?.get(TOKEN).and_then(number)
}

/// The number in a member, such as `requestId`.
#[must_use]
pub fn member(params: &Bytes, name: &str) -> Option<u64> {
    Object::read(raw(params)?).ok()?.get(name).and_then(number)
}

/// The number of the subscription that a notification belongs to.
#[must_use]
pub fn subscription(params: &Bytes) -> Option<u64> {
    // Its name has a slash, which many servers escape.
    let may_have = memchr::memmem::find(params, SUBSCRIPTION.as_bytes()).is_some()
        || memchr::memchr(b'\\', params).is_some();
    if !may_have {
        return None;
    }
    let object = Object::read(raw(params)?).ok()?;
    let meta: &RawValue = serde_json::from_str(object.get("_meta")?).ok()?;
    Object::read(meta).ok()?.get(SUBSCRIPTION).and_then(number)
}

/// Parameters, or a result, with the subscription as the caller knows it.
#[must_use]
pub fn with_subscription(json: &Bytes, known_by: &Bytes) -> Option<Bytes> {
    let known_by = str::from_utf8(known_by).ok()?;
    let changed = change_meta(json, SUBSCRIPTION, |_| known_by.to_owned());
    changed.ok().flatten().map(|(json, _)| json)
}

/// The number that JSON names, as a number or, as some servers write it, as a text.
#[must_use]
pub fn number(json: &str) -> Option<u64> {
    let digits = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json);
    // No sign: `parse` would take a plus.
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The object with one member of its `_meta` changed, and what it was before. None, if it has none.
fn change_meta(
    json: &Bytes,
    name: &str,
    change: impl FnOnce(&str) -> String,
) -> Result<Option<(Bytes, Bytes)>, Unclear> {
    let Some(mut object) = object(json)? else { return Ok(None) };
    let Some(meta) = object.get("_meta").map(str::to_owned) else { return Ok(None) };
    let Some(mut meta) = self::object(meta.as_bytes())? else { return Ok(None) };
    let Some(before) = meta.get(name).map(str::to_owned) else { return Ok(None) };
    meta.set(name, change(&before));
    let meta = meta.to_json();
    object.set("_meta", meta);
    Ok(Some((Bytes::from(object.to_json()), Bytes::from(before))))
}

/// The members of an object. None, if it is another kind of value.
fn object(json: &[u8]) -> Result<Option<Object<'_>>, Unclear> {
    match raw(json).map(Object::read) {
        Some(Ok(object)) => Ok(Some(object)),
        // One that begins like an object is one to somebody.
        _ if json.trim_ascii_start().starts_with(b"{") => Err(Unclear),
        _ => Ok(None),
    }
}

fn raw(json: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(json).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn tokens_are_replaced_and_put_back() {
        let params = Bytes::from(r#"{"a": 1.0,"_meta":{"x":[ 1 ],"progressToken":"t"}}"#);
        let (changed, token) = take_token(&params, 17).unwrap().unwrap();
        assert_eq!(changed, r#"{"a":1.0,"_meta":{"x":[ 1 ],"progressToken":17}}"#);
        assert_eq!(token, r#""t""#);
        let progress = Bytes::from(r#"{"progressToken":17,"progress":0.50}"#);
        assert_eq!(super::token(&progress), Some(17));
        assert_eq!(
            with_token(&progress, &token).unwrap(),
            r#"{"progressToken":"t","progress":0.50}"#
        );
        for none in [r#"{}"#, r#"{"_meta":{}}"#, r#"{"progressToken":1}"#, r#"{"_meta":[]}"#] {
            assert_eq!(take_token(&Bytes::from_static(none.as_bytes()), 1), Ok(None), "{none}");
        }
        let escaped = Bytes::from(r#"{"\u005fmeta":{"progress\u0054oken":5}}"#);
        assert_eq!(take_token(&escaped, 3).unwrap().unwrap().1, "5");
    }

    #[test]
    fn a_token_that_readers_differ_about_is_unclear() {
        let mut many = vec![r#""progressToken":1"#.to_owned()];
        many.extend((0..crate::MAX_MEMBERS).map(|number| format!(r#""{number}":0"#)));
        let many = format!(r#"{{"_meta":{{{}}}}}"#, many.join(","));
        for params in [
            r#"{"_meta":{"progressToken":1,"progressToken":2}}"#,
            r#"{"_meta":{"progressToken":1,"progress\u0054oken":2}}"#,
            r#"{"_meta":{"progressToken":1},"_meta":{}}"#,
            r#"{"_meta":{},"\u005fmeta":{"progressToken":1}}"#,
            r#"{"_meta":{"\ud800":0,"progressToken":1}}"#,
            r#" {"\ud800":0,"_meta":{"progressToken":1}}"#,
            many.as_str(),
        ] {
            let taken = take_token(&Bytes::copy_from_slice(params.as_bytes()), 1);
            assert_eq!(taken, Err(Unclear), "{}", params.get(..60).unwrap_or(params));
        }
    }

    #[test]
    fn subscriptions_are_found_and_renamed() {
        let params =
            Bytes::from(r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"4"},"uri":"x"}"#);
        assert_eq!(subscription(&params), Some(4));
        assert_eq!(
            with_subscription(&params, &Bytes::from("\"mine\"")).unwrap(),
            r#"{"_meta":{"io.modelcontextprotocol/subscriptionId":"mine"},"uri":"x"}"#
        );
        for escaped in [
            r"io.modelcontextprotocol\/subscriptionId",
            r"io.modelcontextprotocol/subscription\u0049d",
        ] {
            let params = format!(r#"{{"_meta":{{"{escaped}":4}}}}"#);
            assert_eq!(subscription(&Bytes::from(params)), Some(4), "{escaped}");
        }
        assert_eq!(subscription(&Bytes::from("{}")), None);
    }

    #[test]
    fn numbers_are_plain() {
        assert_eq!(number("17"), Some(17));
        assert_eq!(number("\"17\""), Some(17));
        for other in ["+17", "-1", "1.0", "\"\"", "", "\"a\"", "99999999999999999999999"] {
            assert_eq!(number(other), None, "{other}");
        }
    }

    /// Parameters as a client may write them, with or without a token.
    fn any_params() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<u64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
            Just(json!({"progressToken": 1})),
        ];
        let name = prop_oneof![Just(TOKEN.to_owned()), Just(SUBSCRIPTION.to_owned()), ".{0,6}"];
        let meta = prop::collection::btree_map(name.clone(), leaf.clone(), 0..4);
        let meta = prop_oneof![meta.prop_map(|meta| json!(meta)), leaf.clone()];
        let rest = prop::collection::btree_map(name, leaf, 0..4);
        (rest, prop::option::of(meta)).prop_map(|(rest, meta)| {
            let mut params = json!(rest);
            if let Some(meta) = meta {
                params["_meta"] = meta;
            }
            params
        })
    }

    /// Its text, some of it with escapes that it does not need.
    fn written(params: &Value, is_escaped: bool) -> Bytes {
        let text = params.to_string();
        Bytes::from(if is_escaped {
            text.replace('/', "\\/").replace('k', "\\u006b")
        } else {
            text
        })
    }

    fn tree(json: &[u8]) -> Value {
        serde_json::from_slice(json).unwrap()
    }

    proptest! {
        #[test]
        fn a_token_is_the_only_thing_that_changes(params in any_params(), is_escaped: bool) {
            let json = written(&params, is_escaped);
            let expected = params["_meta"].get(TOKEN);
            match (take_token(&json, 17).unwrap(), expected) {
                (None, None) => {}
                (Some((changed, before)), Some(expected)) => {
                    prop_assert_eq!(&tree(&before), expected);
                    let mut with = params.clone();
                    with["_meta"][TOKEN] = 17.into();
                    prop_assert_eq!(tree(&changed), with);
                    let meta = Bytes::from(tree(&changed)["_meta"].to_string());
                    prop_assert_eq!(token(&meta), Some(17));
                    prop_assert_eq!(tree(&with_token(&meta, &before).unwrap()), params["_meta"].clone());
                }
                (taken, expected) => prop_assert!(false, "{taken:?} {expected:?}"),
            }
        }

        #[test]
        fn a_subscription_is_what_the_tree_has(params in any_params(), is_escaped: bool) {
            let json = written(&params, is_escaped);
            let known = params["_meta"].get(SUBSCRIPTION);
            prop_assert_eq!(subscription(&json), known.and_then(|known| number(&known.to_string())));
            let renamed = with_subscription(&json, &Bytes::from_static(b"\"mine\""));
            prop_assert_eq!(renamed.is_some(), known.is_some());
            if let Some(renamed) = renamed {
                let mut expected = params;
                expected["_meta"][SUBSCRIPTION] = "mine".into();
                prop_assert_eq!(tree(&renamed), expected);
            }
        }
    }
}
