//! From the text of a schema to its table.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use referencing::Uri;
use serde_json::{Map, Value};

use super::draft::Draft;
use super::error::Unusable;
use super::patterns::{Pattern, Patterns};
use super::table::{ForeignSchema, Node, NodeId, Resource, ResourceId};

/// Bytes of the text of a schema. The largest of published servers have some 100 KiB.
pub const SCHEMA_BYTES_MAX: usize = 1 << 20;

/// Subschemas of a schema: each takes some 200 bytes.
pub const SUBSCHEMAS_MAX: usize = 20_000;

/// Objects in the values of `enum` and `const`, which stay in memory. An object of 7 bytes takes 600
/// there; published schemas list texts and numbers.
pub const LISTED_OBJECTS_MAX: usize = 10_000;

impl ForeignSchema {
    /// Reads the text of a schema. The time is linear in its bytes.
    ///
    /// # Errors
    ///
    /// [`Unusable`] says why the schema cannot be used.
    pub fn read(text: &[u8], stop: &AtomicBool) -> Result<Self, Unusable> {
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(Unusable::TooLarge);
        }
        let document: Value = serde_json::from_slice(text).map_err(|_| Unusable::Malformed)?;
        Self::of(&document, stop)
    }

    /// Reads a schema that is a value already.
    ///
    /// # Errors
    ///
    /// [`Unusable`] says why the schema cannot be used.
    pub fn of(document: &Value, stop: &AtomicBool) -> Result<Self, Unusable> {
        Reader::new(stop).read(document)
    }
}

/// Reads one schema.
pub(super) struct Reader<'v, 's> {
    stop: &'s AtomicBool,
    pub(super) nodes: Vec<Node>,
    pub(super) resources: Vec<Resource>,
    pub(super) origins: Vec<Origin<'v>>,
    pub(super) by_uri: HashMap<String, ResourceId>,
    /// Subschemas by the address of their value.
    known: HashMap<usize, NodeId>,
    /// Subschemas whose keywords were not read yet.
    waiting: VecDeque<(NodeId, &'v Value, ResourceId)>,
    patterns: Patterns,
    /// Objects in the values of `enum` and `const` so far.
    pub(super) listed_objects: usize,
}

/// The place of a resource in its document.
#[derive(Clone)]
pub(super) struct Origin<'v> {
    pub(super) base: Uri<String>,
    pub(super) root: &'v Value,
}

impl<'v, 's> Reader<'v, 's> {
    pub(super) fn new(stop: &'s AtomicBool) -> Self {
        Self {
            stop,
            nodes: vec![],
            resources: vec![],
            origins: vec![],
            by_uri: HashMap::new(),
            known: HashMap::new(),
            waiting: VecDeque::new(),
            patterns: Patterns::default(),
            listed_objects: 0,
        }
    }

    pub(super) fn read(mut self, document: &'v Value) -> Result<ForeignSchema, Unusable> {
        let draft = match document.get("$schema") {
            None => Draft::Draft202012,
            Some(name) => {
                let draft = name.as_str().ok_or(Unusable::Malformed).map(Draft::of)?;
                draft.ok_or(Unusable::UnknownDraft)?
            }
        };
        let base = referencing::uri::from_str("").map_err(|_| Unusable::Malformed)?;
        let root = self.document(document, base, draft)?;
        while let Some((id, value, resource)) = self.waiting.pop_front() {
            if self.stop.load(Ordering::Relaxed) {
                return Err(Unusable::Stopped);
            }
            let (keywords, wants_evaluated) = self.keywords(value, resource)?;
            if let Some(node) = self.nodes.get_mut(id.0) {
                node.keywords = keywords;
                node.wants_evaluated = wants_evaluated;
            }
        }
        Ok(ForeignSchema { nodes: self.nodes, resources: self.resources, root })
    }

    /// Adds a document under a base address.
    pub(super) fn document(
        &mut self,
        root: &'v Value,
        base: Uri<String>,
        draft: Draft,
    ) -> Result<NodeId, Unusable> {
        // The root is the next node.
        let id = NodeId(self.nodes.len());
        let resource = self.add_resource(root, id, base, draft);
        self.index(root, resource)
    }

    /// The number of a subschema. Its keywords are read later.
    pub(super) fn subschema(
        &mut self,
        value: &'v Value,
        within: ResourceId,
    ) -> Result<NodeId, Unusable> {
        match self.known.get(&address(value)) {
            Some(known) => Ok(*known),
            None => self.index(value, within),
        }
    }

    /// The resource that a subschema is in, if it was read.
    pub(super) fn resource_of(&self, value: &Value) -> Option<ResourceId> {
        let id = self.known.get(&address(value))?;
        self.nodes.get(id.0)?.resource
    }

    /// Gives a number to a subschema and to all that it has in it.
    fn index(&mut self, start: &'v Value, within: ResourceId) -> Result<NodeId, Unusable> {
        let first = NodeId(self.nodes.len());
        let mut open = vec![(start, within)];
        while let Some((value, within)) = open.pop() {
            if self.known.contains_key(&address(value)) {
                continue;
            }
            if self.nodes.len() >= SUBSCHEMAS_MAX {
                return Err(Unusable::TooLarge);
            }
            let id = NodeId(self.nodes.len());
            self.nodes.push(Node::default());
            self.known.insert(address(value), id);
            let resource = self.enter(value, id, within)?;
            if let Some(node) = self.nodes.get_mut(id.0) {
                node.resource = Some(resource);
            }
            self.waiting.push_back((id, value, resource));
            if let Value::Object(schema) = value {
                let draft = self.draft(resource);
                open.extend(subschemas(schema, draft).into_iter().map(|value| (value, resource)));
            }
        }
        Ok(first)
    }

    /// A pattern, compiled. One may take milliseconds, so the flag is read before each.
    pub(super) fn pattern(&mut self, pattern: &str) -> Result<Arc<Pattern>, Unusable> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Unusable::Stopped);
        }
        self.patterns.get(pattern)
    }

    pub(super) fn draft(&self, resource: ResourceId) -> Draft {
        let resource = self.resources.get(resource.0);
        resource.map_or(Draft::Draft202012, |resource| resource.draft)
    }
}

fn address(value: &Value) -> usize {
    std::ptr::from_ref(value).addr()
}

/// Keywords whose value is a schema, or an array of schemas.
const SCHEMAS: [&str; 16] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];

/// Keywords whose value is an object of schemas.
const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// The subschemas of a schema.
fn subschemas(schema: &Map<String, Value>, draft: Draft) -> Vec<&Value> {
    let is_schema = |value: &&Value| value.is_object() || value.is_boolean();
    let mut found = Vec::new();
    let is_alone = draft.ref_stands_alone() && schema.contains_key("$ref");
    for keyword in SCHEMAS.iter().filter(|keyword| draft.has(keyword) && !is_alone) {
        match schema.get(*keyword) {
            Some(Value::Array(items)) => found.extend(items.iter().filter(is_schema)),
            Some(value) => found.extend(Some(value).filter(is_schema)),
            None => {}
        }
    }
    for keyword in MAPS.iter().filter(|keyword| draft.has(keyword)) {
        // Definitions beside a reference are still referred to.
        if is_alone && !matches!(*keyword, "$defs" | "definitions") {
            continue;
        }
        if let Some(Value::Object(members)) = schema.get(*keyword) {
            found.extend(members.values().filter(is_schema));
        }
    }
    found
}
