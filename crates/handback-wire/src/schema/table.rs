//! A schema that was read: a table of subschemas that refer to each other by number.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde_json::{Number, Value};

use super::draft::Draft;
use super::patterns::Pattern;

/// Number of a subschema in its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub(super) usize);

/// Number of a schema resource: a subschema with an `$id`, or the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ResourceId(pub(super) usize);

/// A schema from outside that was read. [`BoundedValidator`](super::BoundedValidator) checks values.
pub struct ForeignSchema {
    pub(super) nodes: Vec<Node>,
    pub(super) resources: Vec<Resource>,
    pub(super) root: NodeId,
}

impl ForeignSchema {
    /// Number of its subschemas, with those of published meta-schemas that it refers to.
    #[must_use]
    pub fn subschemas(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0)
    }

    pub(super) fn resource(&self, id: ResourceId) -> Option<&Resource> {
        self.resources.get(id.0)
    }
}

impl fmt::Debug for ForeignSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let subschemas = self.nodes.len();
        f.debug_struct("ForeignSchema").field("subschemas", &subschemas).finish_non_exhaustive()
    }
}

/// A subschema.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) resource: Option<ResourceId>,
    /// In the order in which they are checked: what is cheap comes first, `unevaluated…` last.
    pub(super) keywords: Vec<Keyword>,
    /// One of its keywords wants to know which members or items its other keywords evaluated.
    pub(super) wants_evaluated: bool,
}

/// A schema resource.
#[derive(Debug)]
pub(super) struct Resource {
    pub(super) root: NodeId,
    pub(super) draft: Draft,
    pub(super) anchors: HashMap<String, NodeId>,
    pub(super) dynamic_anchors: HashMap<String, NodeId>,
    /// `$recursiveAnchor` is true at its root.
    pub(super) is_recursive: bool,
}

/// A keyword of a subschema. Later ones cost more.
#[derive(Debug)]
pub(super) enum Keyword {
    Never,
    Type(Types),
    Limit(Limit, Number),
    MultipleOf(Number),
    Size(Size, u64),
    Required(Vec<String>),
    DependentRequired(Vec<(String, Vec<String>)>),
    /// One of these values; the number is the size of all together.
    OneOfValues(Vec<Value>, u64),
    Pattern(Arc<Pattern>),
    UniqueItems,
    Members {
        named: BTreeMap<String, NodeId>,
        patterns: Vec<(Arc<Pattern>, NodeId)>,
        other: Option<NodeId>,
    },
    PropertyNames(NodeId),
    Items {
        first: Vec<NodeId>,
        rest: Option<NodeId>,
    },
    Contains {
        item: NodeId,
        min: u64,
        max: Option<u64>,
        evaluates: bool,
    },
    AllOf(Vec<NodeId>),
    AnyOf(Vec<NodeId>),
    OneOf(Vec<NodeId>),
    Not(NodeId),
    If {
        condition: NodeId,
        then: Option<NodeId>,
        otherwise: Option<NodeId>,
    },
    DependentSchemas(Vec<(String, NodeId)>),
    Ref(NodeId),
    /// The name of a dynamic anchor, if the first target has it.
    DynamicRef(NodeId, Option<String>),
    RecursiveRef(NodeId),
    UnevaluatedItems(NodeId),
    UnevaluatedProperties(NodeId),
}

/// The types of a value, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(pub(super) u8);

/// A limit for numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Least,
    Most,
    Above,
    Below,
}

/// A limit for sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    MinLength,
    MaxLength,
    MinItems,
    MaxItems,
    MinProperties,
    MaxProperties,
}
