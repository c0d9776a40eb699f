//! What somebody has to have read before he can write a request.

use serde_json::Value;

/// Tests of a filter, and what connects them.
const OPERATORS: [&str; 14] = [
    "eq",
    "ne",
    "gt",
    "gte",
    "lt",
    "lte",
    "in",
    "not_in",
    "contains",
    "starts_with",
    "is_null",
    "and",
    "or",
    "not",
];

/// The names in the parameters of a request: those of the protocol, and those of the data.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) protocol: Vec<String>,
    pub(crate) data: Vec<String>,
}

impl Words {
    /// Of parameters.
    pub(crate) fn of(params: &Value) -> Self {
        let mut words = Self::default();
        for (name, value) in params.as_object().into_iter().flatten() {
            words.protocol.push(name.clone());
            match name.as_str() {
                "filter" => words.filter(value),
                "sort" => words.sort(value),
                "fields" => words.fields(value),
                "edits" => words.edits(value),
                "patch" => words.patch(value),
                _ => {}
            }
        }
        words
    }

    fn filter(&mut self, filter: &Value) {
        for (name, value) in filter.as_object().into_iter().flatten() {
            if OPERATORS.contains(&name.as_str()) {
                self.protocol.push(name.clone());
            } else {
                self.data.extend(name.split('.').map(str::to_owned));
            }
            match value {
                Value::Array(inner) => inner.iter().for_each(|inner| self.filter(inner)),
                inner => self.filter(inner),
            }
        }
    }

    fn sort(&mut self, sort: &Value) {
        let keys = sort.as_array().map_or_else(|| std::slice::from_ref(sort), Vec::as_slice);
        for (name, value) in keys.iter().filter_map(Value::as_object).flatten() {
            self.protocol.push(name.clone());
            if name == "field" {
                self.data.extend(
                    value.as_str().into_iter().flat_map(|path| path.split('.')).map(str::to_owned),
                );
            }
        }
    }

    /// What is replaced was read, to the letter.
    fn edits(&mut self, edits: &Value) {
        for (name, value) in edits.as_array().into_iter().flatten().flat_map(members) {
            self.protocol.push(name.clone());
            if name == "old" {
                self.data.extend(value.as_str().map(str::to_owned));
            }
        }
    }

    /// The members of an operation are those of RFC 6902; which operations there are is said.
    fn patch(&mut self, patch: &Value) {
        for (name, value) in patch.as_array().into_iter().flatten().flat_map(members) {
            let text = value.as_str().unwrap_or_default();
            match name.as_str() {
                "op" => self.protocol.push(text.to_owned()),
                "path" => self.data.extend(text.split('/').map(str::to_owned)),
                _ => {}
            }
        }
    }

    fn fields(&mut self, fields: &Value) {
        let paths = fields.as_array().into_iter().flatten().filter_map(Value::as_str);
        self.data.extend(paths.flat_map(|path| path.split('.')).map(str::to_owned));
    }
}

fn members(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// Whether a text names a word of the protocol: in quotes, or in a list, so that it is not just a
/// word of its sentences.
pub(crate) fn names(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).unwrap_or_default().trim_end_matches(' ').chars().next_back();
        let after = text.get(at + word.len()..).unwrap_or_default().chars().next();
        before.is_some_and(|letter| "\"'({[,:;".contains(letter))
            && after.is_none_or(|letter| "\"')}],:; .".contains(letter))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn finds_the_names_of_a_request() {
        let words = Words::of(&json!({
            "filter": {"or": [{"a.b": 1}, {"c": {"gt": 2}}]},
            "sort": [{"field": "d", "order": "desc"}],
            "fields": ["e.f"],
            "first": 3,
        }));
        assert_eq!(words.data, ["e", "f", "a", "b", "c", "d"]);
        assert_eq!(
            words.protocol,
            ["fields", "filter", "or", "gt", "first", "sort", "field", "order"]
        );
    }

    #[test]
    fn finds_the_names_of_a_change() {
        let edits = Words::of(&json!({"edits": [{"old": "a b", "new": "c"}]}));
        assert_eq!(edits.data, ["a b"]);
        assert_eq!(edits.protocol, ["edits", "new", "old"]);
        let patch = Words::of(&json!({"patch": [{"op": "replace", "path": "/a/b", "value": 1}]}));
        assert_eq!(patch.data, ["", "a", "b"]);
        assert_eq!(patch.protocol, ["patch", "replace"]);
    }

    #[test]
    fn a_word_of_a_sentence_is_no_name() {
        assert!(!names("Call introspect first to see", "first"));
        for text in
            ["\"first\": 3", "with 'first', and", "(first, after)", "(query, first)", "{first: 1}"]
        {
            assert!(names(text, "first"), "{text}");
        }
    }
}
