//! Errors of the protocol that are over a budget.

use std::fmt::Write as _;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::cut::Bounding;
use crate::object::Object;

/// The member of `data` that says how many bytes of an error were left out.
pub const OMITTED_KEY: &str = "dev.handback/omitted";

/// The code of an error that says none: an internal one.
const INTERNAL_ERROR: &str = "-32603";

/// A longer code is none.
const CODE_BYTES_MAX: usize = 20;

/// What an error has besides its message and its code: names, brackets, and what was left out.
const BESIDE_BYTES: usize = 128;

const NO_MESSAGE: &str = "the server gave an error without a message";

/// Makes an error object of JSON-RPC fit a budget, or [`Budget::FLOOR_BYTES`](super::Budget::FLOOR_BYTES)
/// if that is more, less what is reserved of it.
///
/// Nothing, if it fits as it is. Else it has its code; its message, which ends in a mark if it is cut; and
/// under [`OMITTED_KEY`] of `data` how many bytes all other members had, which are left out, and so are a
/// code that is none and a message that is no text. Nothing is held: an error is told, and not read on.
#[must_use]
pub fn bound_error(error: &[u8], how: &Bounding<'_>) -> Option<Vec<u8>> {
    let room = how.room();
    if error.len() <= room {
        return None;
    }
    let raw = serde_json::from_slice::<&RawValue>(error).ok();
    let members = raw.and_then(|raw| Object::read(raw).ok()).unwrap_or_default();
    let is_code = |code: &&str| code.len() <= CODE_BYTES_MAX && code.parse::<i64>().is_ok();
    let (code, message) = (members.get("code").filter(is_code), members.text("message"));
    let is_told = |name: &str| match name {
        "code" => code.is_some(),
        "message" => message.is_some(),
        _ => false,
    };
    let others = members.names().filter(|name| !is_told(name));
    let mut omitted: usize = others.filter_map(|name| members.get(name)).map(str::len).sum();
    if members.names().next().is_none() {
        // It is no object, or one that readers differ about.
        omitted = error.len();
    }
    let (code, message) = (code.unwrap_or(INTERNAL_ERROR), message.as_deref());
    let most = room.saturating_sub(BESIDE_BYTES + CODE_BYTES_MAX);
    let message = shortened(message.unwrap_or(NO_MESSAGE), most);
    let mut out = format!(r#"{{"code":{code},"message":{}"#, Value::from(message));
    if omitted > 0 {
        let _ = write!(out, r#","data":{}"#, json!({OMITTED_KEY: omitted}));
    }
    out.push('}');
    Some(out.into_bytes())
}

/// A text that takes at most so many bytes in JSON, with a mark if something is missing.
fn shortened(text: &str, most: usize) -> String {
    let fits = |most: usize| {
        let mut left = most;
        let over = text.char_indices().find(|(_, character)| {
            let rest = left.checked_sub(json_bytes(*character));
            left = rest.unwrap_or(left);
            rest.is_none()
        });
        over.map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
    };
    if fits(most).len() == text.len() {
        return text.to_owned();
    }
    let mark = format!("… [cut: {} bytes in all]", text.len());
    format!("{}{mark}", fits(most.saturating_sub(mark.len())))
}

/// What a character takes in JSON.
const fn json_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Budget;
    use super::super::tests::any_value;
    use super::*;

    fn bounded(error: &Value, budget: usize) -> Option<Value> {
        let how = Bounding::new(Budget::bytes(budget));
        let bounded = bound_error(error.to_string().as_bytes(), &how)?;
        assert!(bounded.len() <= budget.max(Budget::FLOOR_BYTES), "{}", bounded.len());
        Some(serde_json::from_slice(&bounded).unwrap())
    }

    #[test]
    fn an_error_that_fits_is_as_it_was() {
        let error = json!({"code": -1, "message": "x".repeat(4000), "data": [1]});
        assert_eq!(bounded(&error, 0), None);
        assert_eq!(bounded(&error, 5000), None);
        assert_eq!(bounded(&error, usize::MAX), None);
    }

    #[test]
    fn what_is_left_out_is_told() {
        let data = json!({"trace": "x".repeat(7_000_000)});
        let error = json!({"code": -32001, "message": "no such order", "data": data});
        let omitted = json!({OMITTED_KEY: data.to_string().len()});
        let expected = json!({"code": -32001, "message": "no such order", "data": omitted});
        assert_eq!(bounded(&error, 40 << 10), Some(expected));
        let error = json!({"code": 7, "message": "é\n\u{1}".repeat(9000), "x": 1, "data": null});
        for budget in [0, 5000, 30_000] {
            let told = bounded(&error, budget).unwrap();
            let message = told["message"].as_str().unwrap();
            assert!(message.starts_with("é\n\u{1}é"));
            assert!(message.ends_with("… [cut: 36000 bytes in all]"), "{message}");
            assert!(message.len() > budget.max(Budget::FLOOR_BYTES) / 4);
            assert_eq!((&told["code"], &told["data"]), (&json!(7), &json!({OMITTED_KEY: 5})));
        }
        let error = json!({"code": 7, "message": "x".repeat(9000)});
        assert!(bounded(&error, 0).unwrap().get("data").is_none(), "there was none");
    }

    #[test]
    fn what_is_reserved_is_left() {
        let error = |bytes: usize| json!({"code": 7, "message": "x".repeat(bytes)}).to_string();
        for budget in [0, 9000] {
            let room = budget.max(Budget::FLOOR_BYTES) - 200;
            let how = Bounding::new(Budget::bytes(budget)).reserving(200);
            let beside = error(0).len();
            assert_eq!(bound_error(error(room - beside).as_bytes(), &how), None);
            let told = bound_error(error(room - beside + 1).as_bytes(), &how).unwrap();
            assert!(told.len() <= room, "{} > {room}", told.len());
        }
    }

    #[test]
    fn what_is_no_error_is_one() {
        let filler = "x".repeat(5000);
        for (error, omitted) in [
            (format!(r#"["{filler}"]"#), 5004),
            (format!(r#"{{"code":1,"code":2,"message":"{filler}"}}"#), 5032),
            (format!(r#"{{"code":"{filler}","message":{{}}}}"#), 5004),
            (format!(r#"{{"code":1.5,"message":"\ud800{filler}"}}"#), 5011),
        ] {
            let how = Bounding::new(Budget::bytes(0));
            let told = bound_error(error.as_bytes(), &how).unwrap();
            let told: Value = serde_json::from_slice(&told).unwrap();
            assert_eq!((&told["code"], &told["message"]), (&json!(-32603), &json!(NO_MESSAGE)));
            assert_eq!(told["data"], json!({OMITTED_KEY: omitted}), "{}", &error[..20]);
        }
    }

    proptest! {
        #[test]
        fn whatever_it_is_it_fits(
            code: i64,
            message in any_value(),
            data in any_value(),
            budget in 0_usize..20_000,
        ) {
            let error = json!({"code": code, "message": message, "data": data});
            if let Some(told) = bounded(&error, budget) {
                prop_assert_eq!(&told["code"], &error["code"]);
                prop_assert!(told["message"].is_string());
            }
        }
    }
}
