//! What a tool asks back, and what comes as an answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::definition::schema_of;
use crate::outcome::ToolError;

/// Questions of one round at most.
pub const MAX_INPUTS: usize = 32;

/// Questions, by names that the answers have too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[must_use]
pub struct Inputs(BTreeMap<String, InputRequest>);

/// One question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputRequest {
    /// A form for the user.
    Form {
        /// What the user reads.
        message: String,
        /// The JSON Schema of what is filled in.
        schema: Value,
    },
    /// A page that the user is to visit.
    Url {
        /// What the user reads.
        message: String,
        /// The address.
        url: String,
        /// What the visit is known by.
        id: String,
    },
    /// The client's model is to write something: the parameters of `sampling/createMessage`.
    Sample(Value),
    /// The client's roots.
    Roots,
}

impl Inputs {
    /// No question.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Asks the user for a value of this type.
    pub fn form<T: JsonSchema>(self, name: impl Into<String>, message: impl Into<String>) -> Self {
        let schema = schema_of::<T>();
        self.ask(name, InputRequest::Form { message: message.into(), schema })
    }

    /// Asks the user whether it should be done: a form with one box, `confirm`.
    pub fn confirm(self, name: impl Into<String>, message: impl Into<String>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {"confirm": {"type": "boolean", "title": "Confirm"}},
            "required": ["confirm"],
        });
        self.ask(name, InputRequest::Form { message: message.into(), schema })
    }

    /// Asks something.
    pub fn ask(mut self, name: impl Into<String>, request: InputRequest) -> Self {
        self.0.insert(name.into(), request);
        self
    }

    /// The questions.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &InputRequest)> {
        self.0.iter().map(|(name, request)| (name.as_str(), request))
    }

    /// Those that are not among these answers.
    pub(crate) fn without(&self, answers: &Map<String, Value>) -> Self {
        let open = self.0.iter().filter(|(name, _)| !answers.contains_key(*name));
        Self(open.map(|(name, request)| (name.clone(), request.clone())).collect())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the answers to these questions out of what came, and gives those questions that are
    /// not answered. What was not asked for is dropped.
    ///
    /// # Errors
    ///
    /// [`BadAnswer`] if an answer is not what was asked for.
    pub(crate) fn match_answers(
        &self,
        mut given: Map<String, Value>,
    ) -> Result<(Answers, Self), BadAnswer> {
        let mut answers = BTreeMap::new();
        let mut missing = Self::new();
        for (name, request) in &self.0 {
            match given.remove(name) {
                Some(answer) => {
                    request.check(&answer).map_err(|why| BadAnswer { name: name.clone(), why })?;
                    answers.insert(name.clone(), answer);
                }
                None => missing = missing.ask(name, request.clone()),
            }
        }
        Ok((Answers(answers), missing))
    }

    pub(crate) fn fault(&self) -> Option<String> {
        if self.0.is_empty() {
            return Some("it asks for input, and asks nothing".to_owned());
        }
        if self.0.len() > MAX_INPUTS {
            return Some(format!("it asks more than {MAX_INPUTS} questions"));
        }
        let bad = |request: &InputRequest| match request {
            InputRequest::Form { schema, .. } => jsonschema::validator_for(schema).is_err(),
            _ => false,
        };
        let (name, _) = self.0.iter().find(|(_, request)| bad(request))?;
        Some(format!("the schema of its question `{name}` is none"))
    }
}

impl InputRequest {
    /// Refuses what is no answer to it.
    fn check(&self, answer: &Value) -> Result<(), &'static str> {
        let object = answer.as_object().ok_or("is no object")?;
        match self {
            Self::Form { schema, .. } => {
                if object.get("action").and_then(Value::as_str).ok_or("has no action")? != "accept"
                {
                    return check_action(object);
                }
                let content = object.get("content").ok_or("has no content")?;
                let validator =
                    jsonschema::validator_for(schema).map_err(|_| "cannot be checked")?;
                validator.is_valid(content).then_some(()).ok_or("is not what was asked for")
            }
            Self::Url { .. } => check_action(object),
            Self::Sample(_) => {
                let has = |name: &str| object.contains_key(name);
                (has("role") && has("content")).then_some(()).ok_or("is no message")
            }
            Self::Roots => {
                let is_list = object.get("roots").is_some_and(Value::is_array);
                is_list.then_some(()).ok_or("has no roots")
            }
        }
    }
}

fn check_action(answer: &Map<String, Value>) -> Result<(), &'static str> {
    match answer.get("action").and_then(Value::as_str) {
        Some("accept" | "decline" | "cancel") => Ok(()),
        _ => Err("has no action"),
    }
}

/// An answer that is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer `{name}` {why}")]
pub(crate) struct BadAnswer {
    name: String,
    why: &'static str,
}

/// The answers to what a tool asked, and to nothing else.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers(BTreeMap<String, Value>);

impl Answers {
    /// What was filled in, if the user accepted.
    ///
    /// # Errors
    ///
    /// [`ToolError`] if it is of another type.
    pub fn accepted<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, ToolError> {
        let Some(answer) = self.0.get(name) else { return Ok(None) };
        if answer.get("action").and_then(Value::as_str) != Some("accept") {
            return Ok(None);
        }
        let content = answer.get("content").cloned().unwrap_or_default();
        let read = serde_json::from_value(content).map(Some);
        read.map_err(|_| ToolError::new(format!("the answer `{name}` is not what was asked for")))
    }

    /// Whether the user confirmed what [`Inputs::confirm`] asked.
    #[must_use]
    pub fn is_confirmed(&self, name: &str) -> bool {
        let answer = self.0.get(name);
        answer.is_some_and(|answer| {
            answer.get("action").and_then(Value::as_str) == Some("accept")
                && answer.pointer("/content/confirm") == Some(&Value::Bool(true))
        })
    }

    /// All answers as they came, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, answer)| (name.as_str(), answer))
    }

    /// An answer as it came.
    #[must_use]
    pub fn raw(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All answers, for the fingerprint of a redemption.
    pub(crate) fn to_value(&self) -> Value {
        Value::Object(self.to_map())
    }

    pub(crate) fn to_map(&self) -> Map<String, Value> {
        self.0.clone().into_iter().collect()
    }
}
