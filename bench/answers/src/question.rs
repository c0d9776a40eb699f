//! The questions, with their answers. They were written down before anybody looked at how well they
//! can be answered, and are not changed to suit the result.

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;

use crate::data::DataSet;

const FILE: &str = include_str!("../questions.json");

/// A question.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    pub(crate) id: String,
    pub(crate) data: DataSet,
    /// In words.
    pub(crate) asks: String,
    /// Why it is hard to answer without reading everything, where it is.
    #[serde(default)]
    pub(crate) hard: Option<String>,
    pub(crate) answer: Value,
}

impl Question {
    /// Whether it wants something changed: the answer is the digest of the new document.
    pub(crate) fn is_edit(&self) -> bool {
        self.id.ends_with("-edit")
    }
}

/// All of them, in the order of the file.
pub(crate) fn all() -> Result<Vec<Question>> {
    serde_json::from_str(FILE).context("questions.json")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::known::Known;
    use crate::plain;

    #[test]
    fn the_answers_are_those_of_the_data() {
        for data in DataSet::ALL {
            let known = Known::from_text(data, &data.text());
            for question in all().unwrap().iter().filter(|question| question.data == data) {
                assert_eq!(plain::answer(&question.id, &known), question.answer, "{}", question.id);
            }
        }
    }

    #[test]
    fn no_answer_is_empty_and_no_question_is_there_twice() {
        let questions = all().unwrap();
        assert!(questions.len() >= 16);
        for (place, question) in questions.iter().enumerate() {
            assert!(!question.answer.is_null(), "{}", question.id);
            assert!(questions[..place].iter().all(|other| other.id != question.id));
        }
    }
}
