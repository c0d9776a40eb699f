//! The members of an object in their order, those that are there twice as well.

use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

/// Nothing, if it is no object, or a name stands for no text.
pub fn read(json: &[u8]) -> Option<Vec<(String, Box<RawValue>)>> {
    let mut json = serde_json::Deserializer::from_str(str::from_utf8(json).ok()?);
    let members = json.deserialize_map(Members).ok()?;
    json.end().ok()?;
    Some(members)
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Vec<(String, Box<RawValue>)>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(member) = map.next_entry()? {
            members.push(member);
        }
        Ok(members)
    }
}
