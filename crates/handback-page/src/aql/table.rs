//! The operation table: what there is, what it takes, and what it is called. Routing, validation
//! and introspection all read it, so that they cannot disagree.

use serde_json::{Value, json};

use super::engine::Endpoint;
use super::settings::Settings;
use crate::schema::Preset;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the table has a line for each")]
pub enum Operation {
    /// Describes operations and types.
    Introspect,
    /// Lists the collections.
    ListCollections,
    /// Lists the elements of a collection.
    ListElements,
    /// Finds elements by words.
    SearchElements,
    /// Finds elements by words and filter.
    QueryElements,
    /// Reads one element.
    GetElement,
    /// Counts elements.
    CountElements,
    /// Makes a held value of another one.
    DeriveElement,
}

impl Operation {
    /// All operations, in the order of introspection.
    pub const ALL: [Self; 8] = [
        Self::Introspect,
        Self::ListCollections,
        Self::ListElements,
        Self::SearchElements,
        Self::QueryElements,
        Self::GetElement,
        Self::CountElements,
        Self::DeriveElement,
    ];

    /// The operation of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Introspect => "introspect",
            Self::ListCollections => "list_collections",
            Self::ListElements => "list_elements",
            Self::SearchElements => "search_elements",
            Self::QueryElements => "query_elements",
            Self::GetElement => "get_element",
            Self::CountElements => "count_elements",
            Self::DeriveElement => "derive_element",
        }
    }

    /// Where it belongs in semantic mode: which kind of operation it is.
    #[must_use]
    pub const fn endpoint(self) -> Endpoint {
        match self {
            Self::DeriveElement => Endpoint::Create,
            _ => Endpoint::Read,
        }
    }

    /// Whether its answers are pages.
    #[must_use]
    pub const fn is_paged(self) -> bool {
        matches!(
            self,
            Self::ListCollections | Self::ListElements | Self::SearchElements | Self::QueryElements
        )
    }

    /// Whether it is about the elements of one collection.
    #[must_use]
    pub const fn takes_collection(self) -> bool {
        !matches!(self, Self::Introspect | Self::ListCollections)
    }

    /// The preset of fields when none is asked for.
    pub(crate) const fn default_preset(self) -> Preset {
        match self {
            Self::SearchElements => Preset::Minimal,
            Self::GetElement => Preset::Full,
            _ => Preset::Standard,
        }
    }

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Introspect => {
                "Describe the operations and types of this server. Start here: the list of \
                 operations, then one operation by name."
            }
            Self::ListCollections => {
                "List the collections: their names, sources, keys and columns. A name is the \
                 'element_type' of the other operations."
            }
            Self::ListElements => {
                "List the elements of a collection, page by page, optionally filtered and sorted."
            }
            Self::SearchElements => {
                "Find elements in which one of the words of 'query' occurs in a text. ASCII \
                 letters match in either case. Words are separated by white space."
            }
            Self::QueryElements => {
                "Find elements by 'query' (words, one of which must occur), 'filter' and 'sort'. \
                 Filter grammar: {\"column\": value} or {\"column\": {operator: value}}, operators \
                 eq, ne, gt, gte, lt, lte, in, not_in, contains, starts_with, is_null; members are \
                 combined with AND; {\"and\": [..]}, {\"or\": [..]} and {\"not\": {..}} nest. A \
                 comparison with null or a missing member is false."
            }
            Self::GetElement => {
                "Read one element by its key, or any value of a JSON collection by its pointer; one \
                 that is too large piece by piece."
            }
            Self::CountElements => "Count the elements that match 'query' and 'filter'.",
            Self::DeriveElement => {
                "Make a new held value of one that is held for you: a copy with 'edits' of its text \
                 or a JSON Patch (RFC 6902) applied. The answer is its handle; the source stays as \
                 it is. Either all changes are made or none."
            }
        }
    }

    pub(crate) const fn returns(self) -> (&'static str, &'static str) {
        match self {
            Self::Introspect => ("IntrospectionResult", "object"),
            Self::GetElement => ("Element", "object"),
            Self::CountElements => ("ElementCount", "object"),
            Self::DeriveElement => ("DerivedElement", "object"),
            _ => ("ElementConnection", "object"),
        }
    }

    pub(crate) fn examples(self) -> Value {
        let request = |params: Value| json!({"operation": self.name(), "params": params});
        let example = |description: &str, params: Value| json!({"description": description, "request": request(params)});
        match self {
            Self::Introspect => json!([
                example("All operations", json!({"query": "operations"})),
                example("One operation", json!({"query": "operations", "name": "list_elements"})),
                example("The columns of a collection", json!({"query": "types", "name": "orders"})),
            ]),
            Self::ListCollections => json!([example("What there is", json!({"first": 20}))]),
            Self::ListElements => json!([
                example("First page", json!({"element_type": "orders", "first": 10})),
                example(
                    "Next page, filtered and sorted: repeat everything, add the end cursor",
                    json!({
                        "element_type": "orders",
                        "filter": {"status": "open", "total": {"gte": 100}},
                        "sort": {"field": "created_at", "order": "desc"},
                        "first": 10,
                        "after": "CURSOR",
                    }),
                ),
            ]),
            Self::SearchElements => json!([example(
                "Elements with one of two words",
                json!({"element_type": "orders", "query": "tea coffee", "first": 10}),
            )]),
            Self::QueryElements => json!([example(
                "Words, a filter and a sort together",
                json!({
                    "element_type": "orders",
                    "query": "tea",
                    "filter": {"or": [{"status": "open"}, {"total": {"gt": 500}}]},
                    "sort": [{"field": "total", "order": "desc", "nulls": "last"}],
                    "fields": ["id", "customer.name"],
                    "first": 10,
                }),
            )]),
            Self::GetElement => json!([
                example("By key", json!({"element_type": "orders", "id": 17})),
                example(
                    "By pointer",
                    json!({"element_type": "HANDLE", "pointer": "/rows/17/name"})
                ),
            ]),
            Self::CountElements => json!([example(
                "How many are open",
                json!({"element_type": "orders", "filter": {"status": "open"}}),
            )]),
            Self::DeriveElement => json!([
                example(
                    "Replace a text occurring once, and another wherever it occurs",
                    json!({
                        "element_type": "HANDLE",
                        "edits": [
                            {"old": "draft", "new": "final"},
                            {"old": "colour", "new": "color", "count": "all"},
                        ],
                    }),
                ),
                example(
                    "Edit one string of a JSON value",
                    json!({
                        "element_type": "HANDLE",
                        "path": "/content/0/text",
                        "edits": {"old": "draft", "new": "final"},
                    }),
                ),
                example(
                    "Change a JSON value, if it is still what you have seen",
                    json!({
                        "element_type": "HANDLE",
                        "patch": [
                            {"op": "test", "path": "/orders/0/status", "value": "open"},
                            {"op": "replace", "path": "/orders/0/status", "value": "paid"},
                            {"op": "add", "path": "/orders/-", "value": {"id": 18}},
                        ],
                    }),
                ),
            ]),
        }
    }

    /// Its parameters, under these settings.
    pub(crate) fn parameters(self, settings: &Settings) -> Vec<Parameter> {
        let mut parameters = Vec::new();
        if self.takes_collection() {
            parameters.push(if self == Self::DeriveElement { HANDLE } else { ELEMENT_TYPE });
        }
        match self {
            Self::DeriveElement => parameters.extend([EDITS, EDITED_PATH, PATCH]),
            Self::Introspect => parameters.extend([INTROSPECT_QUERY, INTROSPECT_NAME]),
            Self::SearchElements => parameters.push(Parameter { required: true, ..QUERY }),
            Self::QueryElements | Self::CountElements => parameters.push(QUERY),
            Self::GetElement => parameters.extend([ID, POINTER, FROM, LENGTH]),
            Self::ListCollections | Self::ListElements => {}
        }
        if self.is_paged() {
            parameters.extend([FIRST, AFTER, LAST, BEFORE]);
            if settings.page_style {
                parameters.extend([PAGE, PAGE_SIZE]);
            }
            if settings.offset_style {
                parameters.extend([LIMIT, OFFSET]);
            }
        }
        if self.is_paged() || self == Self::CountElements {
            parameters.push(FILTER);
        }
        if self.is_paged() {
            parameters.extend([SORT, FIELDS, PRESET, INCLUDE_EDGES, INCLUDE_TOTAL]);
            if !settings.presets.is_empty() {
                parameters.push(PAGE_PRESET);
            }
            if self != Self::ListCollections {
                parameters.extend([STREAM, POLL_INTERVAL, SNAPSHOT]);
            }
        }
        if self == Self::GetElement {
            parameters.extend([FIELDS, PRESET]);
        }
        parameters
    }
}

/// The parameters of every operation, under the settings of an engine.
#[derive(Clone, Debug)]
pub(crate) struct Table([Vec<Parameter>; Operation::ALL.len()]);

impl Table {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self(Operation::ALL.map(|operation| operation.parameters(settings)))
    }

    pub(crate) fn parameters(&self, operation: Operation) -> &[Parameter] {
        let [introspect, collections, list, search, query, get, count, derive] = &self.0;
        match operation {
            Operation::Introspect => introspect,
            Operation::ListCollections => collections,
            Operation::ListElements => list,
            Operation::SearchElements => search,
            Operation::QueryElements => query,
            Operation::GetElement => get,
            Operation::CountElements => count,
            Operation::DeriveElement => derive,
        }
    }
}

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) kind: ParameterKind,
    pub(crate) required: bool,
    /// One that makes it unnecessary.
    pub(crate) unless: Option<&'static str>,
    pub(crate) description: &'static str,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParameterKind {
    /// An integer, not below the minimum. A size is clamped above, and says so.
    Size {
        minimum: u64,
    },
    /// An integer within these bounds.
    Range {
        minimum: u64,
        maximum: u64,
    },
    /// A text of one of these.
    OneOf(&'static [&'static str]),
    Text,
    Boolean,
    Object,
    /// An object or an array of objects.
    Objects,
    /// A text or an array of texts.
    Texts,
    /// Any value but an array.
    Any,
}

/// Parameters of a page that may differ from page to page: a cursor is not bound to them.
pub(crate) const FREE: [&str; 16] = [
    "first",
    "after",
    "last",
    "before",
    "page",
    "page_size",
    "limit",
    "offset",
    "fields",
    "preset",
    "include_edges",
    "include_total",
    "page_preset",
    "stream",
    "poll_interval_ms",
    "element_type",
];

/// Bounds of `poll_interval_ms`, in milliseconds.
pub(crate) const POLL_MS: (u64, u64) = (250, 60_000);

/// `poll_interval_ms` when none is given.
pub(crate) const DEFAULT_POLL_MS: u64 = 5000;

const fn parameter(
    name: &'static str,
    kind: ParameterKind,
    description: &'static str,
) -> Parameter {
    Parameter { name, kind, required: false, unless: None, description }
}

const ELEMENT_TYPE: Parameter = Parameter {
    required: true,
    ..parameter(
        "element_type",
        ParameterKind::Text,
        "The collection; see list_collections. Behind a handle of held JSON may be a pointer, as in \
         HANDLE#/items: then the elements are those of the array or object there.",
    )
};
const HANDLE: Parameter = Parameter {
    required: true,
    ..parameter("element_type", ParameterKind::Text, "The handle of the held value.")
};
const EDITS: Parameter = parameter(
    "edits",
    ParameterKind::Objects,
    "{old, new, count}, or an array of up to 100 of these, made one after the other: 'old' must \
     occur 'count' times (default 1; \"all\" for at least once), and is replaced by 'new' \
     everywhere.",
);
const EDITED_PATH: Parameter = parameter(
    "path",
    ParameterKind::Text,
    "With 'edits' of JSON: the JSON pointer of the string to edit. The result is the whole value \
     with the string changed.",
);
const PATCH: Parameter = parameter(
    "patch",
    ParameterKind::Objects,
    "Instead of 'edits', for JSON: operations of RFC 6902 (add, remove, replace, move, copy, test), \
     at most 1000. Everything they do not touch stays as written.",
);
const INTROSPECT_QUERY: Parameter = Parameter {
    required: true,
    ..parameter(
        "query",
        ParameterKind::OneOf(&["operations", "types"]),
        "What to describe: 'operations' or 'types'.",
    )
};
const INTROSPECT_NAME: Parameter =
    parameter("name", ParameterKind::Text, "One operation or type, in detail.");
const QUERY: Parameter = parameter(
    "query",
    ParameterKind::Text,
    "Words, one of which must occur in a text of the element; ASCII letters match in either case.",
);
const ID: Parameter = Parameter {
    required: true,
    unless: Some("pointer"),
    ..parameter(
        "id",
        ParameterKind::Any,
        "The key of the element: its value, or an object with a value per key column. Elements \
         without a key are numbered from 0.",
    )
};
const POINTER: Parameter = parameter(
    "pointer",
    ParameterKind::Text,
    "Instead of 'id': a JSON pointer to any value, such as /items/3/name. It starts at the whole of a \
     held result, else at the array or object whose elements these are.",
);
const FROM: Parameter = parameter(
    "from",
    ParameterKind::Size { minimum: 0 },
    "Answer with a piece of the JSON text of the element or value, from this byte on. The answer says \
     which byte is 'next'.",
);
const LENGTH: Parameter = parameter(
    "length",
    ParameterKind::Size { minimum: 1 },
    "With 'from': bytes of the piece, 65536 unless given. It is cut between characters.",
);
const FIRST: Parameter = parameter(
    "first",
    ParameterKind::Size { minimum: 0 },
    "Number of elements from the start, or after the cursor 'after'. Larger values than the \
     maximum are clamped to it. The default applies when none of first, after, last and before is \
     given.",
);
const AFTER: Parameter = parameter(
    "after",
    ParameterKind::Text,
    "Cursor to go on after; only with 'first', and with the same filter, sort and query.",
);
const LAST: Parameter = parameter(
    "last",
    ParameterKind::Size { minimum: 0 },
    "Number of elements from the end, or before the cursor 'before'; in the same order as forward. \
     Larger values than the maximum are clamped to it.",
);
const BEFORE: Parameter = parameter(
    "before",
    ParameterKind::Text,
    "Cursor to go back from; only with 'last', and with the same filter, sort and query.",
);
const PAGE: Parameter = parameter(
    "page",
    ParameterKind::Size { minimum: 1 },
    "Page number from 1, instead of a cursor. Elements shift between pages when others change.",
);
const PAGE_SIZE: Parameter = parameter(
    "page_size",
    ParameterKind::Size { minimum: 1 },
    "Elements per page, with 'page'. Larger values than the maximum are clamped to it.",
);
const LIMIT: Parameter = parameter(
    "limit",
    ParameterKind::Size { minimum: 0 },
    "Number of elements, with 'offset'. Larger values than the maximum are clamped to it.",
);
const OFFSET: Parameter = parameter(
    "offset",
    ParameterKind::Size { minimum: 0 },
    "Number of elements to leave out, instead of a cursor. Elements shift when others change.",
);
const FILTER: Parameter = parameter(
    "filter",
    ParameterKind::Object,
    "Conditions by column: a value, or operators eq, ne, gt, gte, lt, lte, in, not_in, contains, \
     starts_with, is_null; nested with and, or, not.",
);
const SORT: Parameter = parameter(
    "sort",
    ParameterKind::Objects,
    "{field, order: asc or desc (default asc), nulls: first or last (default last)}, or an array \
     of up to 8 of these. The key of the collection follows, so that the order is total.",
);
const FIELDS: Parameter = parameter(
    "fields",
    ParameterKind::Texts,
    "'minimal', 'standard' or 'full', or an array of column names and dotted paths.",
);
const PRESET: Parameter = parameter(
    "preset",
    ParameterKind::OneOf(&["minimal", "standard", "full"]),
    "Deprecated: use 'fields'. With an array in 'fields', both are shown.",
);
const INCLUDE_EDGES: Parameter = parameter(
    "include_edges",
    ParameterKind::Boolean,
    "Whether to answer with edges, each with its own cursor, instead of items.",
);
const INCLUDE_TOTAL: Parameter = parameter(
    "include_total",
    ParameterKind::Boolean,
    "Whether to count what matches. By default only where counting is cheap.",
);
const PAGE_PRESET: Parameter =
    parameter("page_preset", ParameterKind::Text, "A configured page size, total and edges.");
const STREAM: Parameter = parameter(
    "stream",
    ParameterKind::Boolean,
    "Whether an empty page waits for elements after the cursor; only with 'first'.",
);
const POLL_INTERVAL: Parameter = parameter(
    "poll_interval_ms",
    ParameterKind::Range { minimum: POLL_MS.0, maximum: POLL_MS.1 },
    "How long a page with 'stream' waits, in milliseconds; 5000 by default.",
);
const SNAPSHOT: Parameter = parameter(
    "snapshot",
    ParameterKind::Boolean,
    "Whether to copy what matches aside on the first page and to page the copy: nothing changes \
     under the walk.",
);
