//! JSON that all readers read alike.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Whether no object of a JSON text has a member twice: of two, one reader takes the first and
/// another one the last, and what was checked is not what is done. A text that is not JSON has none.
#[must_use]
pub fn is_unambiguous(json: &[u8]) -> bool {
    let mut text = serde_json::Deserializer::from_slice(json);
    let mut is_twice = false;
    let _ = Look(&mut is_twice).deserialize(&mut text);
    !is_twice
}

/// The name of a member: a slice of the text, unless it is written with escapes.
#[derive(Deserialize, PartialEq, Eq, Hash)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Look<'a>(&'a mut bool);

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Look(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut names = HashSet::new();
        while let Some(name) = members.next_key::<Name<'de>>()? {
            if !names.insert(name) {
                *self.0 = true;
                members.next_value::<IgnoredAny>()?;
                return Err(A::Error::custom("twice"));
            }
            members.next_value_seed(Look(&mut *self.0))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_member_is_there_once() {
        for text in [
            "{}",
            "",
            "[1, \"a\", null, true, -1.5e3]",
            r#"{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}"#,
            // Not JSON before it comes to that.
            r#"{"a": x, "a": 1}"#,
        ] {
            assert!(is_unambiguous(text.as_bytes()), "{text}");
        }
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 1}"#,
            r#"[{"b": {"c": [{"a": 1, "x": 2, "a": 3}]}}]"#,
            r#"{"a": 1, "b": 2, "a": {}} trailing"#,
        ] {
            assert!(!is_unambiguous(text.as_bytes()), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_by_a_tree_is_unambiguous(text: String, names: Vec<String>) {
            let _ = is_unambiguous(text.as_bytes());
            let object: serde_json::Map<_, _> =
                names.iter().map(|name| (name.clone(), 1.into())).collect();
            let written = serde_json::Value::Object(object).to_string();
            prop_assert!(is_unambiguous(written.as_bytes()));
            let twice = names.first().map(|name| {
                let name = serde_json::Value::from(name.as_str());
                format!("{{{name}:1,\"\u{1F600}other\":2,{name}:3}}")
            });
            if let Some(twice) = twice {
                prop_assert!(!is_unambiguous(twice.as_bytes()));
            }
        }
    }
}
