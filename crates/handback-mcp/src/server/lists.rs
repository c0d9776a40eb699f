//! What is listed, in pages.

use handback_identity::Caller;
use handback_token::{Context, Cursor, Operation};
use handback_tool::{Definition, Kind, Pipeline, Surface, ToolClass};
use rmcp::ErrorData;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::CURSOR_ARGUMENT;
use super::answers::{refused_list, typed};

/// Items of a page.
const PAGE: usize = 100;

/// A list of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    const fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resources/templates",
        }
    }

    const fn has(self, kind: &Kind) -> bool {
        matches!(
            (self, kind),
            (Self::Tools, Kind::Tool)
                | (Self::Prompts, Kind::Prompt)
                | (Self::Resources, Kind::Resource { .. })
                | (Self::Templates, Kind::Template { .. })
        )
    }

    /// A page for a caller, and the cursor of the next one, which holds the last name that was
    /// shown: what comes and goes shifts nothing.
    pub(super) async fn page<T: DeserializeOwned>(
        self,
        pipeline: &Pipeline,
        caller: &Caller,
        cursor: Option<&str>,
    ) -> Result<(Vec<T>, Option<String>), ErrorData> {
        let now = pipeline.now();
        let context = Context::new(caller.principal().caller(), Operation::List).name(self.name());
        let bound = pipeline.sealer().bind::<Cursor>(&context);
        let bound = bound.map_err(|_| ErrorData::internal_error("the list has no name", None))?;
        let opened = match cursor {
            None => None,
            Some(cursor) => {
                let opened = pipeline.open_list(Surface::Mcp, caller, self.name(), cursor).await;
                Some(opened.map_err(refused_list)?)
            }
        };
        let after = opened.as_ref().map(|opened| opened.payload().to_vec());
        let mut rest = pipeline.registry().visible(caller).filter(|entry| self.has(entry.kind()));
        if let Some(after) = after {
            // One that is not there any more leads nowhere.
            let is_there = rest.by_ref().any(|entry| entry.name().as_bytes() == after);
            if !is_there {
                let cursor = cursor.unwrap_or_default();
                let reason = pipeline.refuse_list(Surface::Mcp, caller, self.name(), cursor);
                return Err(refused_list(reason));
            }
        }
        let shown: Vec<_> = rest.by_ref().take(PAGE).collect();
        let next = match (shown.last(), rest.next()) {
            (Some(last), Some(_)) => {
                let name = last.name().as_bytes();
                let sealed = match &opened {
                    Some(opened) => bound.seal_after(opened, &mut rand::rng(), now, name),
                    None => bound.seal(&mut rand::rng(), now, name),
                };
                let failed = |_| ErrorData::internal_error("the list cannot go on", None);
                Some(sealed.map_err(failed)?.into_string())
            }
            _ => None,
        };
        let items =
            shown.into_iter().map(|entry| typed(entry_of(entry))).collect::<Result<_, _>>()?;
        Ok((items, next))
    }
}

/// An entry as the protocol has it.
pub(super) fn entry_of(definition: &Definition) -> Value {
    let mut entry = Map::new();
    match definition.kind() {
        Kind::Tool => {
            entry.insert("name".to_owned(), definition.name().into());
            entry.insert("inputSchema".to_owned(), input_schema(definition));
            if let Some(schema) = definition.result_schema() {
                entry.insert("outputSchema".to_owned(), schema.clone());
            }
            if definition.known_class() == ToolClass::ReadOnly {
                entry.insert("annotations".to_owned(), json!({"readOnlyHint": true}));
            }
        }
        Kind::Prompt => {
            entry.insert("name".to_owned(), definition.name().into());
            entry.insert("arguments".to_owned(), arguments(definition.schema()));
        }
        Kind::Resource { mime_type } => {
            entry.insert("uri".to_owned(), definition.name().into());
            name_of_uri(&mut entry, definition, mime_type.as_deref());
        }
        Kind::Template { mime_type } => {
            entry.insert("uriTemplate".to_owned(), definition.name().into());
            name_of_uri(&mut entry, definition, mime_type.as_deref());
        }
        _ => {}
    }
    if let Some(title) = definition.shown_title() {
        entry.insert("title".to_owned(), title.into());
    }
    if !definition.description().is_empty() {
        entry.insert("description".to_owned(), definition.description().into());
    }
    entry.extend(definition.extra_members().clone());
    entry.into()
}

fn name_of_uri(entry: &mut Map<String, Value>, definition: &Definition, mime: Option<&str>) {
    let uri = definition.name();
    let name = definition.shown_title().unwrap_or(uri);
    entry.insert("name".to_owned(), name.into());
    if let Some(mime) = mime {
        entry.insert("mimeType".to_owned(), mime.into());
    }
}

/// The schema of a tool; one that pages takes its cursor back among its arguments.
fn input_schema(definition: &Definition) -> Value {
    let mut schema = definition.schema().clone();
    if definition.is_paginated()
        && let Some(object) = schema.as_object_mut()
    {
        let properties = object.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            let about = "The cursor of the page before, to go on; with the same other arguments.";
            let cursor = json!({"type": "string", "description": about});
            properties.insert(CURSOR_ARGUMENT.to_owned(), cursor);
        }
    }
    schema
}

/// The arguments of a prompt, from their schema.
fn arguments(schema: &Value) -> Value {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let properties = schema.get("properties").and_then(Value::as_object);
    let arguments = properties.into_iter().flatten().map(|(name, property)| {
        let mut argument = json!({"name": name, "required": is_required(name)});
        if let (Some(text), Some(argument)) =
            (property.get("description"), argument.as_object_mut())
        {
            argument.insert("description".to_owned(), text.clone());
        }
        argument
    });
    Value::Array(arguments.collect())
}
