//! How deep a text is nested, before anything reads it by recursion.

/// How deep a JSON text is nested. Of a text that is none, some number.
#[must_use]
pub fn depth(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut in_string = false;
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            // What follows is a part of the string, whatever it is.
            b'\\' if in_string => drop(bytes.next()),
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn brackets_in_strings_do_not_count() {
        assert_eq!(depth(br#"{"a": "[[[\"[[[\\", "b": []}"#), 2);
        assert_eq!(depth(br#""["#), 0);
        assert_eq!(depth(b"]]]["), 1);
        assert_eq!(depth(br#""\"#), 0);
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "[\\[\\]{}\"\\\\a]{0,6}".prop_map(Value::from)
        ];
        leaf.prop_recursive(6, 40, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec(("[\\[{\"]{0,3}", inner), 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn deepest(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(deepest).max().unwrap_or(0),
            Value::Object(members) => 1 + members.values().map(deepest).max().unwrap_or(0),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_value(value in value()) {
            prop_assert_eq!(depth(value.to_string().as_bytes()), deepest(&value));
        }

        #[test]
        fn no_bytes_break_it(text: Vec<u8>) {
            prop_assert!(depth(&text) <= text.len());
        }
    }
}
