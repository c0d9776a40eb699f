//! What can be called, and by whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use handback_identity::Caller;
use handback_identity::permissions::Permissions;
use handback_token::Operation;
use jsonschema::Validator;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use crate::definition::{Definition, Kind};
use crate::tool::{AnyTool, Tool};

/// Arguments of one name are this deep at most: what is deeper is refused before a schema sees it.
pub const MAX_ARGUMENTS_DEPTH: usize = 32;

/// What a server can do: tools, prompts and resources.
#[derive(Debug, Default)]
pub struct Registry {
    entries: BTreeMap<(&'static str, String), Arc<Registered>>,
    /// All of them, in the order in which they were added.
    order: Vec<Arc<Registered>>,
    templates: Vec<Arc<Registered>>,
    permissions: Permissions,
}

/// Something that can be called.
#[derive(Debug)]
pub struct Registered {
    definition: Definition,
    pub(crate) tool: Arc<dyn AnyTool>,
    validator: Validator,
    is_listed: bool,
}

/// Something that cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Its name is none.
    #[error("the name `{name}` {why}")]
    Name {
        /// The name.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// There is another one of this name.
    #[error("there is another one called `{0}`")]
    Taken(String),
    /// Its schema is none.
    #[error("the {which} schema of `{name}` is none: {why}")]
    Schema {
        /// The name.
        name: String,
        /// `input` or `output`.
        which: &'static str,
        /// Why.
        why: String,
    },
}

impl Registry {
    /// Nothing, for everybody who is let in.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// With rules about who may use what.
    #[must_use]
    pub fn permissions(mut self, permissions: Permissions) -> Self {
        self.permissions = permissions;
        self
    }

    /// With one more.
    ///
    /// # Errors
    ///
    /// [`RegistryError`] if its name or its schema is none, or there is another one of the name.
    pub fn add<T: Tool>(&mut self, tool: T) -> Result<(), RegistryError> {
        self.insert(tool, true)
    }

    /// The same, left out of lists: callers learn its name from elsewhere.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn add_unlisted<T: Tool>(&mut self, tool: T) -> Result<(), RegistryError> {
        self.insert(tool, false)
    }

    fn insert<T: Tool>(&mut self, tool: T, is_listed: bool) -> Result<(), RegistryError> {
        let tool: Arc<dyn AnyTool> = Arc::new(tool);
        let definition = tool.definition();
        let name = definition.name.clone();
        if let Some(why) = definition.fault() {
            return Err(RegistryError::Name { name, why });
        }
        let compile = |which, schema: &Value| {
            jsonschema::validator_for(schema).map_err(|error| RegistryError::Schema {
                name: name.clone(),
                which,
                why: error.to_string(),
            })
        };
        let validator = compile("input", definition.schema())?;
        if let Some(schema) = definition.result_schema() {
            compile("output", schema)?;
        }
        let operation = definition.kind.operation().as_str();
        let is_template = matches!(definition.kind, Kind::Template { .. });
        let registered = Arc::new(Registered { definition, tool, validator, is_listed });
        let key = (operation, name);
        if self.entries.contains_key(&key) {
            return Err(RegistryError::Taken(key.1));
        }
        if is_template {
            self.templates.push(Arc::clone(&registered));
        }
        self.order.push(Arc::clone(&registered));
        self.entries.insert(key, registered);
        Ok(())
    }

    /// Everything, whoever may call it, in the order in which it was added.
    pub fn all(&self) -> impl Iterator<Item = &Definition> {
        self.order.iter().map(|entry| &entry.definition)
    }

    /// Everything that is listed and that this caller may call, in the order in which it was added.
    pub fn visible<'a>(&'a self, caller: &'a Caller) -> impl Iterator<Item = &'a Definition> {
        let listed = self.order.iter().filter(|entry| entry.is_listed);
        let entries = listed.map(|entry| &entry.definition);
        entries.filter(|definition| self.allows(caller, definition))
    }

    /// What is registered under this very name, if the caller may use it: a template by itself.
    #[must_use]
    pub fn named(
        &self,
        caller: &Caller,
        operation: Operation,
        name: &str,
    ) -> Option<Arc<Registered>> {
        let entry = self.entries.get(&(operation.as_str(), name.to_owned()))?;
        self.allows(caller, &entry.definition).then(|| Arc::clone(entry))
    }

    /// What a caller asks for, if it is there and the caller may use it; with what a URI says.
    pub(crate) fn find(
        &self,
        caller: &Caller,
        operation: Operation,
        name: &str,
    ) -> Option<(Arc<Registered>, Map<String, Value>)> {
        let exact = self.entries.get(&(operation.as_str(), name.to_owned()));
        let is_callable =
            |entry: &&Arc<Registered>| !matches!(entry.definition.kind, Kind::Template { .. });
        let found = exact.filter(is_callable).map(|entry| (entry, Map::new()));
        let found = found.or_else(|| {
            let is_read = operation == Operation::Read;
            let mut templates = self.templates.iter().filter(|_| is_read);
            templates.find_map(|entry| Some((entry, matched(&entry.definition.name, name)?)))
        });
        let (entry, arguments) = found?;
        self.allows(caller, &entry.definition).then(|| (Arc::clone(entry), arguments))
    }

    /// Whether this caller may use what is not registered here, under the name that it goes by.
    #[must_use]
    pub fn allows_name(&self, caller: &Caller, name: &str) -> bool {
        self.permissions.allows::<&str>(caller, name, &[])
    }

    /// The same for what an upstream has. It is denied by the name that it goes by, by its own, and by
    /// [both together](relayed_name): which of them it goes by depends on what other upstreams have.
    #[must_use]
    pub fn allows_relayed(
        &self,
        caller: &Caller,
        shown: &str,
        own_name: &str,
        upstream: &str,
    ) -> bool {
        if self.permissions.rules().is_empty() {
            return self.allows_name(caller, shown);
        }
        let together = relayed_name(upstream, own_name);
        self.permissions.allows_by_names(caller, &[shown, &together], &[own_name])
    }

    /// Whether all callers may use the same.
    #[must_use]
    pub fn is_same_for_all(&self) -> bool {
        self.permissions.rules().is_empty()
    }

    fn allows(&self, caller: &Caller, definition: &Definition) -> bool {
        self.permissions.allows(caller, &definition.name, &definition.scopes)
    }
}

/// What something of an upstream is called where its own name does not tell it from others.
#[must_use]
pub fn relayed_name(upstream: &str, own_name: &str) -> String {
    format!("{upstream}{BETWEEN}{own_name}")
}

/// Whether a name is one that something of this upstream may be called.
#[must_use]
pub fn is_relayed_name(upstream: &str, name: &str) -> bool {
    relayed_rest(upstream, name).is_some()
}

/// The name at its upstream of what is called so, if that is a name for something of this upstream.
#[must_use]
pub fn relayed_rest<'a>(upstream: &str, name: &'a str) -> Option<&'a str> {
    name.strip_prefix(upstream)?.strip_prefix(BETWEEN)
}

/// What stands between the name of an upstream and that of what it has.
const BETWEEN: &str = "__";

impl Registered {
    /// What the server says of it.
    pub const fn definition(&self) -> &Definition {
        &self.definition
    }

    /// What is wrong with these arguments, as its schema has it.
    pub(crate) fn fault_of(&self, arguments: &Value) -> Option<String> {
        if self.definition.checks_its_arguments {
            return None;
        }
        if depth_exceeds(arguments, MAX_ARGUMENTS_DEPTH) {
            return Some(format!("the arguments are deeper than {MAX_ARGUMENTS_DEPTH}"));
        }
        let error = self.validator.iter_errors(arguments).next()?;
        let at = error.instance_path().as_str().to_owned();
        let what: String = error.to_string().chars().take(FAULT_CHARS_MAX).collect();
        let place = if at.is_empty() { "the arguments".to_owned() } else { format!("`{at}`") };
        Some(format!("{place}: {what}"))
    }
}

/// Characters of a message about arguments: it repeats a part of them.
const FAULT_CHARS_MAX: usize = 300;

fn depth_exceeds(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(items) => {
            limit == 0 || items.iter().any(|item| depth_exceeds(item, limit - 1))
        }
        Value::Object(map) => limit == 0 || map.values().any(|item| depth_exceeds(item, limit - 1)),
        _ => false,
    }
}

/// The words of a template that a URI fits.
fn matched(template: &str, uri: &str) -> Option<Map<String, Value>> {
    let mut words = Map::new();
    let (mut template, mut uri) = (template, uri);
    while let Some((literal, rest)) = template.split_once('{') {
        let (word, rest) = rest.split_once('}')?;
        uri = uri.strip_prefix(literal)?;
        let next = rest.chars().next();
        let end = match next {
            Some('{') | None => uri.len(),
            Some(next) => uri.find(next)?,
        };
        let (value, after) = uri.split_at(end);
        if value.is_empty() || value.contains('/') {
            return None;
        }
        let value = percent_decode_str(value).decode_utf8().ok()?;
        words.insert(word.to_owned(), value.into_owned().into());
        (template, uri) = (rest, after);
    }
    (template == uri).then_some(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(template: &str, uri: &str, expected: Option<Value>) {
        assert_eq!(matched(template, uri).map(Value::Object), expected, "{template} {uri}");
    }

    #[test]
    fn templates_take_one_segment_per_word() {
        check("a://{id}", "a://7", Some(json!({"id": "7"})));
        check("a://{id}/data", "a://7/data", Some(json!({"id": "7"})));
        check("a://{x}/{y}.txt", "a://1/b%20c.txt", Some(json!({"x": "1", "y": "b c"})));
        check("a://{id}", "a://", None);
        check("a://{id}", "a://7/8", None);
        check("a://{id}/data", "a://7/other", None);
        check("a://{id}", "b://7", None);
        check("a://x", "a://x", Some(json!({})));
        check("a://{id", "a://7", None);
    }

    #[test]
    fn depth_is_counted() {
        let nest = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert!(!depth_exceeds(&nest(32), 32));
        assert!(depth_exceeds(&nest(33), 32));
    }
}
