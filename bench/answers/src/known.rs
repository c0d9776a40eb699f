//! What somebody knows who has read a text of the data, or the first part of it.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::data::DataSet;
use crate::data::issues::Issue;
use crate::data::log;
use crate::data::orders::Order;
use crate::data::results::Article;

/// The records that were read whole.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    Issues(Vec<Issue>),
    Orders(Vec<Order>),
    Lines(Vec<String>),
    Config(Value),
    Results(Vec<Article>),
}

impl Known {
    /// From the text that a tool gave. If it is cut off, what is whole in it counts: a reader does not
    /// throw a list away because its end is missing.
    pub(crate) fn from_text(data: DataSet, text: &str) -> Self {
        match data {
            DataSet::Log | DataSet::Handbook => Self::Lines(log::lines(text)),
            _ => Self::from_json(data, &mend(text)),
        }
    }

    /// From the items of all pages of a walk over what is held.
    pub(crate) fn from_pages(data: DataSet, items: &[Value]) -> Self {
        let text = |item: &Value| item.get("text").and_then(Value::as_str).map(str::to_owned);
        match data {
            DataSet::Log | DataSet::Handbook => {
                Self::Lines(items.iter().filter_map(text).collect())
            }
            DataSet::Config => {
                let member = |item: &Value| {
                    let key = item.get("key").and_then(Value::as_str)?;
                    Some((key.to_owned(), item.get("value")?.clone()))
                };
                Self::Config(Value::Object(items.iter().filter_map(member).collect()))
            }
            _ => Self::from_items(data, items),
        }
    }

    fn from_json(data: DataSet, json: &Value) -> Self {
        let items = match data {
            DataSet::Config => return Self::Config(json.clone()),
            DataSet::Orders => json.get("orders"),
            DataSet::Results => json.get("results"),
            _ => Some(json),
        };
        Self::from_items(data, items.and_then(Value::as_array).map_or(&[], Vec::as_slice))
    }

    fn from_items(data: DataSet, items: &[Value]) -> Self {
        match data {
            DataSet::Orders => Self::Orders(records(items)),
            DataSet::Results => Self::Results(records(items)),
            _ => Self::Issues(records(items)),
        }
    }
}

/// Items that have all that their kind has.
fn records<T: DeserializeOwned>(items: &[Value]) -> Vec<T> {
    items.iter().filter_map(|item| serde_json::from_value(item.clone()).ok()).collect()
}

/// A JSON text that may end anywhere: everything that is whole in it.
fn mend(text: &str) -> Value {
    if let Ok(whole) = serde_json::from_str(text) {
        return whole;
    }
    let cut = Cut::of(text);
    let mut mended = text.get(..cut.end).unwrap_or_default().to_owned();
    mended.extend(cut.open.iter().rev());
    serde_json::from_str(&mended).unwrap_or_default()
}

/// Where a text can be cut, and what has to be closed there.
#[derive(Debug, Default)]
struct Cut {
    end: usize,
    open: Vec<char>,
}

impl Cut {
    fn of(text: &str) -> Self {
        let mut last = Self::default();
        let mut open = Vec::new();
        let (mut in_text, mut is_escaped) = (false, false);
        for (at, letter) in text.char_indices() {
            if in_text {
                in_text = is_escaped || letter != '"';
                is_escaped = letter == '\\' && !is_escaped;
                continue;
            }
            let end = match letter {
                '"' => {
                    in_text = true;
                    continue;
                }
                '{' | '[' => {
                    open.push(if letter == '{' { '}' } else { ']' });
                    at + 1
                }
                '}' | ']' => {
                    open.pop();
                    at + 1
                }
                ',' => at,
                _ => continue,
            };
            last = Self { end, open: open.clone() };
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keeps_what_is_whole() {
        let text = r#"{"a":{"b":[1,{"c":"x,]"},2]},"d":"e\"}"}"#;
        for (cut, expected) in [
            (text.len(), json!({"a": {"b": [1, {"c": "x,]"}, 2]}, "d": "e\"}"})),
            (text.len() - 1, json!({"a": {"b": [1, {"c": "x,]"}, 2]}})),
            (27, json!({"a": {"b": [1, {"c": "x,]"}, 2]}})),
            (24, json!({"a": {"b": [1, {"c": "x,]"}]}})),
            (20, json!({"a": {"b": [1, {}]}})),
            (11, json!({"a": {"b": []}})),
            (3, json!({})),
        ] {
            assert_eq!(mend(&text[..cut]), expected, "{}", &text[..cut]);
        }
    }

    #[test]
    fn a_cut_list_has_its_whole_records() {
        let text = DataSet::Issues.text();
        let Known::Issues(all) = Known::from_text(DataSet::Issues, &text) else { panic!() };
        let Known::Issues(some) = Known::from_text(DataSet::Issues, &text[..100_000]) else {
            panic!()
        };
        assert_eq!(some.last().unwrap().number, all[some.len() - 1].number);
        assert!((20..200).contains(&some.len()), "{}", some.len());
    }
}
