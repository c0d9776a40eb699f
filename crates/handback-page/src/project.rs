//! Field selection: which members of an item are shown.
//!
//! Items are JSON text and stay that: chosen members are copied as they are, so that no number is
//! read and written again.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::collection::Columns;
use crate::scalar::write_text;
use crate::schema::{FieldPath, Preset, Schema, Shape};

/// Which members of an item are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// All of them, as they are.
    Everything,
    /// Those at these paths.
    Paths(Vec<FieldPath>),
}

impl Selection {
    /// What a preset shows of a collection.
    pub(crate) fn preset(preset: Preset, schema: &Schema) -> Self {
        let shown: Vec<_> =
            schema.columns().iter().filter(|column| column.preset <= preset).collect();
        let everything = match schema.shape() {
            Shape::Closed => shown.len() == schema.columns().len(),
            // Items may have members that are in no column.
            Shape::Open => preset >= Preset::Standard || shown.is_empty(),
        };
        if everything {
            return Self::Everything;
        }
        Self::Paths(shown.into_iter().map(|column| schema.member_path(&column.name)).collect())
    }

    /// What either of two shows.
    pub(crate) fn union(self, other: Self) -> Self {
        match (self, other) {
            (Self::Paths(mut paths), Self::Paths(more)) => {
                paths.extend(more);
                Self::Paths(paths)
            }
            _ => Self::Everything,
        }
    }

    /// The columns that are needed for it; all if there is no list. Names that no column has are
    /// left out.
    pub(crate) fn columns(&self, schema: &Schema) -> Option<Vec<String>> {
        let Self::Paths(paths) = self else { return None };
        if schema.shape() == Shape::Open {
            return None;
        }
        let is_needed = |name: &str| paths.iter().any(|path| path.first() == name);
        let names = schema.columns().iter().map(|column| column.name.clone());
        Some(names.filter(|name| is_needed(name)).collect())
    }

    /// Whether items are right as they are that have this of what was asked for by
    /// [`columns`](Self::columns).
    pub(crate) fn is_done(&self, has: Columns, schema: &Schema) -> bool {
        match (self, has) {
            (Self::Everything, _) => true,
            (Self::Paths(_), Columns::All) => false,
            // A longer path leads into a column.
            (Self::Paths(paths), Columns::Asked) => {
                schema.shape() == Shape::Closed && paths.iter().all(|path| path.parts().len() == 1)
            }
        }
    }

    /// The item with only these members. What is not there is left out without a word, as the
    /// specification says; an item that is no object stays as it is.
    pub(crate) fn apply(&self, item: &str) -> Result<String, serde_json::Error> {
        match self {
            Self::Everything => Ok(item.to_owned()),
            Self::Paths(paths) => {
                let paths: Vec<&[String]> = paths.iter().map(FieldPath::parts).collect();
                let mut out = String::with_capacity(item.len());
                pick(item, &paths, &mut out)?;
                Ok(out)
            }
        }
    }
}

/// Copies the members of `text` that the paths lead to; through arrays, they lead into each
/// element. The depth is that of the longest path, not that of the text.
fn pick(text: &str, paths: &[&[String]], out: &mut String) -> Result<(), serde_json::Error> {
    let text = text.trim_ascii();
    if text.starts_with('[') {
        let elements: Vec<&RawValue> = serde_json::from_str(text)?;
        out.push('[');
        for (number, element) in elements.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            pick(element.get(), paths, out)?;
        }
        out.push(']');
        return Ok(());
    }
    if !text.starts_with('{') {
        out.push_str(text);
        return Ok(());
    }
    let Members(members) = serde_json::from_str(text)?;
    // Of a member that is there twice the last counts.
    let last: HashMap<&str, usize> =
        members.iter().enumerate().map(|(number, (name, _))| (name.as_str(), number)).collect();
    out.push('{');
    let mut first = true;
    for (number, (name, value)) in members.iter().enumerate() {
        if last.get(name.as_str()) != Some(&number) {
            continue;
        }
        let below: Vec<&[String]> = paths
            .iter()
            .filter_map(|path| path.split_first())
            .filter(|(start, _)| *start == name)
            .map(|(_, rest)| rest)
            .collect();
        if below.is_empty() {
            continue;
        }
        if !first {
            out.push(',');
        }
        first = false;
        write_text(name, out);
        out.push(':');
        if below.iter().any(|rest| rest.is_empty()) {
            out.push_str(value.get());
        } else {
            pick(value.get(), &below, out)?;
        }
    }
    out.push('}');
    Ok(())
}

/// The members of an object in their order, their values unread.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = access.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(InOrder).map(Members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(item: &str, paths: &[&str], expected: &str) {
        let paths = paths
            .iter()
            .map(|path| FieldPath::from_parts(path.split('.').map(str::to_owned).collect()))
            .collect();
        let shown = Selection::Paths(paths).apply(item).unwrap();
        assert_eq!(shown, expected);
        assert!(serde_json::from_str::<&RawValue>(&shown).is_ok());
    }

    #[test]
    fn members_are_copied_as_they_are() {
        let item =
            r#"{"id": 123456789012345678901234567890, "a": {"b": 1.10, "c": [1e400]}, "d": null}"#;
        check(item, &["id"], r#"{"id":123456789012345678901234567890}"#);
        check(item, &["a.b"], r#"{"a":{"b":1.10}}"#);
        check(item, &["a.b", "a"], r#"{"a":{"b": 1.10, "c": [1e400]}}"#);
        check(item, &["a.b", "a.c"], r#"{"a":{"b":1.10,"c":[1e400]}}"#);
        check(item, &["d", "id"], r#"{"id":123456789012345678901234567890,"d":null}"#);
    }

    #[test]
    fn what_is_not_there_is_left_out() {
        check(r#"{"a":1}"#, &["b", "a.b.c"], r#"{"a":1}"#);
        check(r#"{"a":{"x":1}}"#, &["a.b.c"], r#"{"a":{}}"#);
        check("{}", &["a"], "{}");
        check("17", &["a"], "17");
        check(r#""text""#, &["a"], r#""text""#);
    }

    #[test]
    fn a_path_leads_into_each_element_of_an_array() {
        check(
            r#"{"lines":[{"sku":"a","n":1},{"n":2},3]}"#,
            &["lines.sku"],
            r#"{"lines":[{"sku":"a"},{},3]}"#,
        );
    }

    #[test]
    fn of_a_member_that_is_there_twice_the_last_counts() {
        check(r#"{"a":1,"b":2,"a":3}"#, &["a"], r#"{"a":3}"#);
        check(r#"{"a":1,"\u0061":3}"#, &["a"], r#"{"a":3}"#);
    }
}
