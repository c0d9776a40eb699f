//! The members of an object, and the object with some of them changed.

use std::borrow::Cow;

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

/// Members of one object that is looked into at most.
pub const MAX_MEMBERS: usize = 10_000;

/// Why a value is not an object that can be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// Another kind of value.
    #[error("this is not an object")]
    NotAnObject,
    /// A member is there twice: what one reader takes, another does not see.
    #[error("a member of the object is there twice")]
    Twice,
    /// It has more than [`MAX_MEMBERS`].
    #[error("the object has too many members")]
    TooMany,
}

/// The members of an object, in their order, in slices of its bytes.
#[derive(Clone, Debug, Default)]
pub struct Object<'a> {
    members: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

impl<'a> Object<'a> {
    /// Looks into an object. Values are passed over, not read.
    ///
    /// # Errors
    ///
    /// [`ObjectError`] if it is none, or one that readers differ about.
    pub fn read(raw: &'a RawValue) -> Result<Self, ObjectError> {
        let members = serde_json::Deserializer::from_str(raw.get())
            .deserialize_map(Members)
            .map_err(|_| ObjectError::NotAnObject)?
            .ok_or(ObjectError::TooMany)?;
        let mut names: Vec<&str> = members.iter().map(|(name, _)| name.as_ref()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
            return Err(ObjectError::Twice);
        }
        let raw = |value: &'a RawValue| Cow::Borrowed(value.get());
        Ok(Self { members: members.into_iter().map(|(name, value)| (name, raw(value))).collect() })
    }

    /// The JSON of a member.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// A member that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.get(name)?;
        // Most have no escapes, and are slices.
        let plain = value.strip_prefix('"')?.strip_suffix('"')?;
        match plain.contains('\\') {
            false => Some(Cow::Borrowed(plain)),
            true => serde_json::from_str(value).ok().map(Cow::Owned),
        }
    }

    /// The names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.members.iter().map(|(name, _)| name.as_ref())
    }

    /// Puts JSON into a member: where it stands, or at the end if it is new.
    pub fn set(&mut self, name: &'a str, json: String) {
        match self.members.iter_mut().find(|(known, _)| known == name) {
            Some((_, value)) => *value = Cow::Owned(json),
            None => self.members.push((Cow::Borrowed(name), Cow::Owned(json))),
        }
    }

    /// Takes a member away.
    pub fn remove(&mut self, name: &str) -> Option<Cow<'a, str>> {
        let at = self.members.iter().position(|(known, _)| known == name)?;
        Some(self.members.remove(at).1)
    }

    /// Its JSON: what was not changed is as it was, but for space between members.
    #[must_use]
    pub fn to_json(&self) -> String {
        let length: usize =
            self.members.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        let mut out = String::with_capacity(length + 2);
        out.push('{');
        for (number, (name, value)) in self.members.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            out.push_str(&serde_json::Value::from(name.as_ref()).to_string());
            out.push(':');
            out.push_str(value);
        }
        out.push('}');
        out
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    /// Nothing, if there are too many.
    type Value = Option<Vec<(Cow<'de, str>, &'de RawValue)>>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(Name(name)) = map.next_key()? {
            let value = map.next_value()?;
            if members.len() < MAX_MEMBERS + 1 {
                members.push((name, value));
            }
        }
        Ok((members.len() <= MAX_MEMBERS).then_some(members))
    }
}

/// A name, borrowed if it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value};

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    #[test]
    fn what_is_not_changed_stays_as_it_was() {
        let raw = raw(r#"{ "a" : 1.50, "\u0062":{"x" : [ 1 , 2e0 ]},"requestState":"s\/1" }"#);
        let mut object = Object::read(&raw).unwrap();
        assert_eq!(object.get("b"), Some(r#"{"x" : [ 1 , 2e0 ]}"#));
        assert_eq!(object.text("requestState").as_deref(), Some("s/1"));
        assert_eq!(object.text("a"), None);
        object.set("requestState", "\"sealed\"".to_owned());
        object.set("new", "[]".to_owned());
        assert_eq!(
            object.to_json(),
            r#"{"a":1.50,"b":{"x" : [ 1 , 2e0 ]},"requestState":"sealed","new":[]}"#
        );
        assert_eq!(object.remove("a").as_deref(), Some("1.50"));
        assert_eq!(object.names().collect::<Vec<_>>(), ["b", "requestState", "new"]);
    }

    #[test]
    fn what_readers_differ_about_is_refused() {
        let read = |text: &str| Object::read(&raw(text)).map(|object| object.to_json());
        assert_eq!(read("[]"), Err(ObjectError::NotAnObject));
        assert_eq!(read("7"), Err(ObjectError::NotAnObject));
        assert_eq!(read(r#"{"a":1,"b":2,"\u0061":3}"#), Err(ObjectError::Twice));
        let many: Vec<String> = (0..=MAX_MEMBERS).map(|n| format!("\"m{n}\":{n}")).collect();
        assert_eq!(read(&format!("{{{}}}", many.join(","))), Err(ObjectError::TooMany));
        assert!(read(&format!("{{{}}}", many[1..].join(","))).is_ok());
        assert_eq!(read("{}").as_deref(), Ok("{}"));
    }

    proptest::proptest! {
        #[test]
        fn the_same_as_a_tree(
            members in proptest::collection::btree_map(".{0,6}", "[a-z\"\\\\é\n]{0,8}", 0..8),
            changed in 0..9_usize,
        ) {
            let mut tree: Map<String, Value> =
                members.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
            let raw = raw(&Value::Object(tree.clone()).to_string());
            let mut object = Object::read(&raw).unwrap();
            for (name, text) in &members {
                let read = object.text(name);
                proptest::prop_assert_eq!(read.as_deref(), Some(text.as_str()));
            }
            let name = members.keys().nth(changed).map_or("new", String::as_str);
            object.set(name, "{\"x\":1}".to_owned());
            tree.insert(name.to_owned(), serde_json::json!({"x": 1}));
            let written: Value = serde_json::from_str(&object.to_json()).unwrap();
            proptest::prop_assert_eq!(written, Value::Object(tree));
        }
    }
}
