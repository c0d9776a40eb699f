//! JSON that all readers read alike.
//!
//! One pass over the bytes, which looks at brackets, commas and the names of members. What a value is
//! does not matter: a reader that gives up over a number or half of a surrogate pair would not see
//! what comes after it, and others would.

use std::borrow::Cow;

/// The deepest nesting that is looked at: more than any reader here goes into.
const MAX_DEPTH: usize = 1_024;

/// Whether no object of a JSON text has a member twice: of two, one reader takes the first and
/// another one the last, and what was checked is not what is done. A name that is no text, or a
/// nesting that nobody reads, is as bad. Of a text that is not JSON this says nothing.
#[must_use]
pub fn is_unambiguous(json: &[u8]) -> bool {
    Look { json, at: 0, names: Vec::new(), open: Vec::new(), is_name: false }.goes_well()
}

struct Look<'a> {
    json: &'a [u8],
    at: usize,
    /// Those of all objects that are open, each after the other.
    names: Vec<Cow<'a, [u8]>>,
    /// What is open: where the names of an object begin; nothing for an array.
    open: Vec<Option<usize>>,
    /// Whether a text that comes now is a name.
    is_name: bool,
}

impl<'a> Look<'a> {
    fn goes_well(mut self) -> bool {
        while let Some(byte) = self.next() {
            let is_well = match byte {
                b'{' => self.opens(Some(self.names.len())),
                b'[' => self.opens(None),
                b'}' | b']' => self.closes(),
                b'"' => self.text(),
                b',' => {
                    self.is_name = matches!(self.open.last(), Some(Some(_)));
                    true
                }
                _ => true,
            };
            if !is_well {
                return false;
            }
        }
        true
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.json.get(self.at).copied();
        self.at += 1;
        byte
    }

    fn opens(&mut self, names: Option<usize>) -> bool {
        self.open.push(names);
        self.is_name = names.is_some();
        self.open.len() <= MAX_DEPTH
    }

    fn closes(&mut self) -> bool {
        self.is_name = false;
        let Some(Some(from)) = self.open.pop() else { return true };
        let Some(names) = self.names.get_mut(from..) else { return true };
        names.sort_unstable();
        let is_twice = names.windows(2).any(|pair| matches!(pair, [one, other] if one == other));
        self.names.truncate(from);
        !is_twice
    }

    /// A text, whose first quote was read. One without an end is no JSON.
    fn text(&mut self) -> bool {
        let from = self.at;
        let mut has_escapes = false;
        loop {
            match self.next() {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    self.at += 1;
                }
                Some(_) => {}
                None => return true,
            }
        }
        if !std::mem::take(&mut self.is_name) {
            return true;
        }
        let quoted = from.saturating_sub(1)..self.at;
        let plain = from..self.at.saturating_sub(1);
        let name = match has_escapes {
            false => self.json.get(plain).map(Cow::Borrowed),
            true => self.json.get(quoted).and_then(|quoted| {
                let name = serde_json::from_slice::<String>(quoted).ok()?;
                Some(Cow::Owned(name.into_bytes()))
            }),
        };
        let is_text = name.is_some();
        self.names.extend(name);
        is_text
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    #[test]
    fn a_member_is_there_once() {
        for text in [
            "{}",
            "",
            "[1, \"a\", null, true, -1.5e3]",
            r#"{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}], "c": "a", "d": ["a", "a"]}"#,
            r#"{"a": "\"a\":1,", "b": "\\"}"#,
            // Not JSON.
            r#"{"a": 1, "a": 1"#,
            r#"{"a"#,
            r#""\"#,
            "]}",
        ] {
            assert!(is_unambiguous(text.as_bytes()), "{text}");
        }
        for text in [
            r#"{"a": 1, "a": 1}"#,
            r#"{"a": 1, "\u0061": 1}"#,
            r#"{"": 1, "b": 2, "": 1}"#,
            r#"[{"b": {"c": [{"a": 1, "x": 2, "a": 3}]}}]"#,
            r#"{"a": 1, "b": 2, "a": {}} trailing"#,
        ] {
            assert!(!is_unambiguous(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_one_reader_gives_up_over_hides_nothing() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for odd in ["1e999", r#""\ud800""#, deep.as_str()] {
            assert!(serde_json::from_str::<serde_json::Value>(odd).is_err());
            assert!(is_unambiguous(format!(r#"{{"n": {odd}, "a": 1}}"#).as_bytes()));
            assert!(!is_unambiguous(format!(r#"{{"n": {odd}, "a": 1, "a": 2}}"#).as_bytes()));
        }
        assert!(!is_unambiguous(br#"{"\ud800": 1}"#), "no reader knows what it is called");
        assert!(is_unambiguous("[".repeat(MAX_DEPTH).as_bytes()));
        assert!(!is_unambiguous("[".repeat(MAX_DEPTH + 1).as_bytes()));
    }

    /// The same, by recursion.
    fn is_twice(json: &RawValue) -> bool {
        if let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json.get()) {
            return items.into_iter().any(is_twice);
        }
        struct Members<'a>(Vec<(String, &'a RawValue)>);
        impl<'de: 'a, 'a> serde::Deserialize<'de> for Members<'a> {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct All;
                impl<'de> serde::de::Visitor<'de> for All {
                    type Value = Vec<(String, &'de RawValue)>;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut all = vec![];
                        while let Some(member) = map.next_entry()? {
                            all.push(member);
                        }
                        Ok(all)
                    }
                }
                from.deserialize_map(All).map(Members)
            }
        }
        let Ok(Members(members)) = serde_json::from_str(json.get()) else { return false };
        let names: BTreeMap<_, _> = members.iter().map(|(name, _)| (name, ())).collect();
        names.len() < members.len() || members.into_iter().any(|(_, value)| is_twice(value))
    }

    /// JSON in which members are often there twice.
    fn json() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("1e999"),
            Just("null"),
            Just(r#""a""#),
            Just(r#""\",{\\""#),
            Just(r#""\ud800""#),
        ];
        scalar.prop_map(str::to_owned).prop_recursive(4, 32, 5, |inner| {
            let name = prop_oneof![Just("a"), Just("b"), Just(r"\u0061"), Just(""), Just(r#"\""#)];
            let list = |items: Vec<String>| items.join(", ");
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4)
                    .prop_map(move |items| format!("[{}]", list(items))),
                prop::collection::vec((name, inner), 0..4).prop_map(move |members| {
                    let member = |(name, value)| format!("\"{name}\" : {value}");
                    format!("{{{}}}", list(members.into_iter().map(member).collect()))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_recursion_finds(text in json()) {
            let raw: &RawValue = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(is_unambiguous(text.as_bytes()), !is_twice(raw), "{}", text);
        }

        #[test]
        fn nothing_is_too_strange(bytes: Vec<u8>, text in r#"[\[\]{},:"\\a]{0,40}"#) {
            let _ = (is_unambiguous(&bytes), is_unambiguous(text.as_bytes()));
        }
    }
}
