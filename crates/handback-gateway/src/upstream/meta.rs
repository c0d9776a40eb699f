//! What a relay changes in `_meta`: tokens and ids that its own replace, and put back.

use bytes::Bytes;
use handback_mcp::wire::Object;
use serde_json::value::RawValue;

/// The member of `_meta` that a notification names its subscription by.
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

const TOKEN: &str = "progressToken";

/// Parameters with the number of the question as their progress token, and the token that was there.
/// None, if they have no token.
pub(super) fn take_token(params: &Bytes, number: u64) -> Option<(Bytes, Bytes)> {
    // A name may be written with escapes: then it is looked for the long way.
    let may_have = memchr::memmem::find(params, TOKEN.as_bytes()).is_some()
        || memchr::memmem::find(params, b"\\u").is_some();
    if !may_have {
        return None;
    }
    change_meta(params, TOKEN, |_| Some(number.to_string()))
}

/// The parameters of a notification of progress with the token of the caller.
pub(super) fn with_token(params: &Bytes, token: &Bytes) -> Option<Bytes> {
    let mut object = Object::read(raw(params)?).ok()?;
    object.set(TOKEN, str::from_utf8(token).ok()?.to_owned());
    Some(Bytes::from(object.to_json()))
}

/// The number in the progress token of a notification.
pub(super) fn token(params: &Bytes) -> Option<u64> {
    Object::read(raw(params)?).ok()?.get(TOKEN).and_then(number)
}

/// The number in a member, such as `requestId`.
pub(super) fn member(params: &Bytes, name: &str) -> Option<u64> {
    Object::read(raw(params)?).ok()?.get(name).and_then(number)
}

/// The number of the subscription that a notification belongs to.
pub(super) fn subscription(params: &Bytes) -> Option<u64> {
    memchr::memmem::find(params, SUBSCRIPTION.as_bytes())?;
    let object = Object::read(raw(params)?).ok()?;
    let meta: &RawValue = serde_json::from_str(object.get("_meta")?).ok()?;
    Object::read(meta).ok()?.get(SUBSCRIPTION).and_then(number)
}

/// Parameters, or a result, with the subscription as the caller knows it.
pub(super) fn with_subscription(json: &Bytes, known_by: &Bytes) -> Option<Bytes> {
    let known_by = str::from_utf8(known_by).ok()?;
    change_meta(json, SUBSCRIPTION, |_| Some(known_by.to_owned())).map(|(json, _)| json)
}

/// The number that JSON names, as a number or, as some servers write it, as a text.
pub(super) fn number(json: &str) -> Option<u64> {
    let digits = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(json);
    // No sign: `parse` would take a plus.
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The object with one member of its `_meta` changed, and what it was before.
fn change_meta(
    json: &Bytes,
    name: &str,
    change: impl FnOnce(&str) -> Option<String>,
) -> Option<(Bytes, Bytes)> {
    let mut object = Object::read(raw(json)?).ok()?;
    let meta: Box<RawValue> = serde_json::from_str(object.get("_meta")?).ok()?;
    let mut meta = Object::read(&meta).ok()?;
    let before = meta.get(name)?.to_owned();
    meta.set(name, change(&before)?);
    let meta = meta.to_json();
    object.set("_meta", meta);
    Some((Bytes::from(object.to_json()), Bytes::from(before)))
}

fn raw(json: &[u8]) -> Option<&RawValue> {
    serde_json::from_slice(json).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_replaced_and_put_back() {
        let params = Bytes::from(r#"{"a": 1.0,"_meta":{"x":[ 1 ],"progressToken":"t"}}"#);
        let (changed, token) = take_token(&params, 17).unwrap();
        assert_eq!(changed, r#"{"a":1.0,"_meta":{"x":[ 1 ],"progressToken":17}}"#);
        assert_eq!(token, r#""t""#);
        let progress = Bytes::from(r#"{"progressToken":17,"progress":0.50}"#);
        assert_eq!(super::token(&progress), Some(17));
        assert_eq!(
            with_token(&progress, &token).unwrap(),
            r#"{"progressToken":"t","progress":0.50}"#
        );
        for none in [r#"{}"#, r#"{"_meta":{}}"#, r#"{"progressToken":1}"#, r#"{"_meta":[]}"#] {
            assert_eq!(take_token(&Bytes::from_static(none.as_bytes()), 1), None, "{none}");
        }
        let escaped = Bytes::from(r#"{"\u005fmeta":{"progress\u0054oken":5}}"#);
        assert_eq!(take_token(&escaped, 3).unwrap().1, "5");
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
}
