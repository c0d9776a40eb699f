//! Edits of a text: this by that.

use memchr::memmem;
use serde_json::Value;

/// Edits at most that are made at once: each is a pass over the text.
pub const MAX_EDITS: usize = 100;

/// What is to be replaced by what, and how often.
///
/// It is said how often the old text must occur, because an edit that meets another place than the
/// one that was meant is worse than none.
///
/// ```
/// use handback_page::edits::Edits;
/// use serde_json::json;
///
/// let edits = Edits::read(&json!([
///     {"old": "one", "new": "1"},
///     {"old": "two", "new": "2", "count": 2},
///     {"old": "!", "new": ".", "count": "all"},
/// ]))?;
/// assert_eq!(edits.apply("one two! two! three!", 1000)?, "1 2. 2. three.");
/// # Ok::<_, handback_page::edits::EditError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edits(Vec<Edit>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Edit {
    old: String,
    new: String,
    /// How often the old text occurs; without, at least once.
    count: Option<usize>,
}

/// Why a text is not edited. Then nothing of it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// It is not an array of edits.
    #[error("1 to {MAX_EDITS} edits are expected")]
    NotEdits,
    /// An edit is not an object of `old`, `new` and perhaps `count`.
    #[error("edit {number}: '{member}' is missing, unknown or of the wrong type")]
    Member {
        /// Which edit, from 0.
        number: usize,
        /// Which member.
        member: String,
    },
    /// The old text occurs more or less often than it must.
    #[error("edit {number}: the old text occurs {found} times")]
    Count {
        /// Which edit, from 0.
        number: usize,
        /// How often it must occur; without, at least once.
        expected: Option<usize>,
        /// How often it occurs.
        found: usize,
    },
    /// The result is larger than it may be.
    #[error("the result would have more than {limit} bytes")]
    TooLarge {
        /// How many it may have.
        limit: usize,
    },
}

impl Edits {
    /// Reads edits: an array of `{"old": TEXT, "new": TEXT, "count": NUMBER or "all"}`, or one of
    /// them.
    ///
    /// # Errors
    ///
    /// [`EditError::NotEdits`] and [`EditError::Member`].
    pub fn read(edits: &Value) -> Result<Self, EditError> {
        let edits = match edits {
            Value::Array(edits) => edits.as_slice(),
            single => std::slice::from_ref(single),
        };
        if edits.is_empty() || edits.len() > MAX_EDITS {
            return Err(EditError::NotEdits);
        }
        let read = |(number, edit)| {
            Edit::read(edit).map_err(|member| EditError::Member { number, member })
        };
        edits.iter().enumerate().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The text with all edits made, each on what the ones before it made.
    ///
    /// # Errors
    ///
    /// [`EditError`]; then there is no result.
    pub fn apply(&self, text: &str, bytes_max: usize) -> Result<String, EditError> {
        let mut edited = text.to_owned();
        for (number, edit) in self.0.iter().enumerate() {
            edited = edit.apply(&edited, number, bytes_max)?;
        }
        let limit = bytes_max;
        if edited.len() > limit { Err(EditError::TooLarge { limit }) } else { Ok(edited) }
    }
}

impl Edit {
    /// Reads an edit, or names the member that is wrong.
    fn read(edit: &Value) -> Result<Self, String> {
        let Value::Object(members) = edit else { return Err("old".to_owned()) };
        let known = ["old", "new", "count"];
        if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
            return Err(unknown.clone());
        }
        let text = |name: &str| {
            let text = members.get(name).and_then(Value::as_str);
            text.map(str::to_owned).ok_or_else(|| name.to_owned())
        };
        let (old, new) = (text("old")?, text("new")?);
        if old.is_empty() {
            return Err("old".to_owned());
        }
        let count = match members.get("count") {
            None | Some(Value::Null) => Some(1),
            Some(Value::String(all)) if all == "all" => None,
            Some(count) => {
                let count = count.as_u64().and_then(|count| usize::try_from(count).ok());
                Some(count.filter(|count| *count > 0).ok_or_else(|| "count".to_owned())?)
            }
        };
        Ok(Self { old, new, count })
    }

    fn apply(&self, text: &str, number: usize, bytes_max: usize) -> Result<String, EditError> {
        let finder = memmem::Finder::new(self.old.as_bytes());
        let found = finder.find_iter(text.as_bytes()).count();
        let fits = self.count.map_or(found > 0, |count| count == found);
        if !fits {
            return Err(EditError::Count { number, expected: self.count, found });
        }
        let kept = text.len().saturating_sub(found.saturating_mul(self.old.len()));
        let bytes = kept.saturating_add(found.saturating_mul(self.new.len()));
        if bytes > bytes_max {
            return Err(EditError::TooLarge { limit: bytes_max });
        }
        let (mut out, mut from) = (String::with_capacity(bytes), 0);
        for at in finder.find_iter(text.as_bytes()) {
            out.push_str(text.get(from..at).unwrap_or_default());
            out.push_str(&self.new);
            from = at + self.old.len();
        }
        out.push_str(text.get(from..).unwrap_or_default());
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn edited(text: &str, edits: &Value) -> Result<String, EditError> {
        Edits::read(edits)?.apply(text, 100)
    }

    #[test]
    fn an_edit_meets_what_was_meant_or_nothing() {
        let edit = |old: &str, count: Value| json!([{"old": old, "new": "X", "count": count}]);
        assert_eq!(edited("a b a", &edit("b", json!(null))).as_deref(), Ok("a X a"));
        assert_eq!(edited("a b a", &edit("a", json!(2))).as_deref(), Ok("X b X"));
        assert_eq!(edited("a b a", &edit("a", json!("all"))).as_deref(), Ok("X b X"));
        assert_eq!(edited("aaa", &edit("aa", json!(1))).as_deref(), Ok("Xa"));
        for (old, count, expected, found) in [
            ("a", json!(1), Some(1), 2),
            ("a", json!(3), Some(3), 2),
            ("c", json!(1), Some(1), 0),
            ("c", json!("all"), None, 0),
        ] {
            let error = EditError::Count { number: 0, expected, found };
            assert_eq!(edited("a b a", &edit(old, count)), Err(error));
        }
    }

    #[test]
    fn edits_follow_each_other() {
        let edits = json!([{"old": "a", "new": "bb"}, {"old": "bb", "new": "c"}]);
        assert_eq!(edited("a", &edits).as_deref(), Ok("c"));
        let edits = json!([{"old": "a", "new": "b"}, {"old": "a", "new": "c"}]);
        let error = EditError::Count { number: 1, expected: Some(1), found: 0 };
        assert_eq!(edited("a", &edits), Err(error));
        assert_eq!(edited("é€", &json!({"old": "€", "new": ""})).as_deref(), Ok("é"));
    }

    #[test]
    fn what_is_no_edit_is_refused_with_its_place() {
        assert_eq!(edited("a", &json!([])), Err(EditError::NotEdits));
        let good = json!({"old": "a", "new": "b"});
        let many = Value::Array(vec![good.clone(); MAX_EDITS + 1]);
        assert_eq!(edited("a", &many), Err(EditError::NotEdits));
        for (edit, member) in [
            (json!(1), "old"),
            (json!({}), "old"),
            (json!({"old": "", "new": ""}), "old"),
            (json!({"old": "a"}), "new"),
            (json!({"old": "a", "new": 1}), "new"),
            (json!({"old": "a", "new": "b", "count": 0}), "count"),
            (json!({"old": "a", "new": "b", "count": -1}), "count"),
            (json!({"old": "a", "new": "b", "count": 1.5}), "count"),
            (json!({"old": "a", "new": "b", "count": "some"}), "count"),
            (json!({"old": "a", "new": "b", "replace_all": true}), "replace_all"),
        ] {
            let error = EditError::Member { number: 1, member: member.to_owned() };
            assert_eq!(edited("a", &json!([good, edit])), Err(error), "{edit}");
        }
    }

    #[test]
    fn a_result_is_bounded() {
        let grow = |new: usize| json!({"old": "a", "new": "x".repeat(new), "count": "all"});
        assert_eq!(edited(&"a".repeat(10), &grow(10)).unwrap().len(), 100);
        let error = EditError::TooLarge { limit: 100 };
        assert_eq!(edited(&"a".repeat(10), &grow(11)), Err(error));
    }

    proptest! {
        #[test]
        fn edits_are_what_the_standard_library_replaces(
            text in "[abé]{0,30}",
            old in "[abé]{1,3}",
            new in "[abé]{0,3}",
        ) {
            let found = text.matches(old.as_str()).count();
            let edits = json!({"old": old, "new": new, "count": found.max(1)});
            let replaced = text.replace(old.as_str(), &new);
            match edited(&text, &edits) {
                Ok(edited) => prop_assert_eq!(edited, replaced),
                Err(EditError::TooLarge { limit }) => prop_assert!(replaced.len() > limit),
                Err(error) => {
                    let none = EditError::Count { number: 0, expected: Some(1), found: 0 };
                    prop_assert_eq!((found, error), (0, none));
                }
            }
        }
    }
}
