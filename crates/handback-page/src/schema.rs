//! What a collection says of itself: columns, key, and how its order is served.

use crate::order::{Direction, Nulls, Order, SortKey};

/// A member of an item: the name of a column, or a dotted path into a JSON item.
///
/// The parts come from the caller, except in [`SortKey`]s and filters that were checked against a
/// [`Schema`]: a path of a closed schema names one of its columns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldPath(Vec<String>);

impl FieldPath {
    /// One member, whatever characters its name has.
    #[must_use]
    pub fn name(name: impl Into<String>) -> Self {
        Self(vec![name.into()])
    }

    /// The members from the outside in.
    #[must_use]
    pub fn from_parts(parts: Vec<String>) -> Self {
        Self(parts)
    }

    /// The members from the outside in.
    #[must_use]
    pub fn parts(&self) -> &[String] {
        &self.0
    }

    /// The outermost member.
    #[must_use]
    pub fn first(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The name of a column, if the path has one part.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        match self.0.as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }
}

impl std::fmt::Display for FieldPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// What values a column holds, as far as its collection knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Anything: the members of JSON items, columns without a type.
    Any,
    /// Truth values.
    Boolean,
    /// Integers.
    Integer,
    /// Integers and doubles, or decimals.
    Number,
    /// Text.
    Text,
    /// Bytes.
    Blob,
    /// Arrays and objects. Neither sorted by nor compared, but tested for null.
    Json,
    /// A type that is written as text and compared by its own rules, such as a date: its name.
    Named(String),
}

impl Kind {
    /// The name in introspection and in error details.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Any => "any",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "string",
            Self::Blob => "blob",
            Self::Json => "object",
            Self::Named(name) => name,
        }
    }
}

/// The smallest preset of `fields` that shows a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the specification names these three")]
pub enum Preset {
    /// Enough to know which item it is.
    Minimal,
    /// What a list shows.
    Standard,
    /// Everything.
    Full,
}

/// One column of a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "collections write it as a literal")]
pub struct Column {
    /// Its name, as the source spells it.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may hold null.
    pub nullable: bool,
    /// The smallest preset that shows it.
    pub preset: Preset,
}

impl Column {
    /// Whether items can be sorted by it, and compared with it.
    #[must_use]
    pub const fn is_comparable(&self) -> bool {
        !matches!(self.kind, Kind::Json)
    }

    /// Whether a search looks into it.
    #[must_use]
    pub const fn is_searchable(&self) -> bool {
        matches!(self.kind, Kind::Text | Kind::Any)
    }
}

/// Whether items have the schema's columns only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a schema is one or the other")]
pub enum Shape {
    /// The columns are all there is; another name is an error.
    Closed,
    /// Items may have other members, and members of members: any path is legal.
    Open,
}

/// What a collection says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    columns: Vec<Column>,
    key: Vec<String>,
    shape: Shape,
    counts_always: bool,
    /// Where the key is in an item, if that is not a member of its name.
    key_path: Option<FieldPath>,
    part: String,
    /// Whether kinds are guessed from what there is.
    guessed: bool,
    /// The canonical JSON of [`identity`](Self::identity), which every request needs.
    canonical_identity: Vec<u8>,
}

impl Schema {
    /// A schema. `key` names the columns that together tell items apart, none of them nullable; it
    /// is empty where the place of an item in its file does that.
    #[must_use]
    pub fn new(columns: Vec<Column>, key: Vec<String>, shape: Shape) -> Self {
        let (part, canonical_identity) = (String::new(), Vec::new());
        let (counts_always, key_path, guessed) = (false, None, false);
        let mut schema = Self {
            columns,
            key,
            shape,
            counts_always,
            key_path,
            part,
            guessed,
            canonical_identity,
        };
        schema.canonical_identity = handback_token::canonical_json(&schema.identity(), &[]);
        schema
    }

    /// Says that counting costs next to nothing, so that every page tells the total.
    #[must_use]
    pub fn with_cheap_counts(mut self) -> Self {
        self.counts_always = true;
        self
    }

    /// Says which part of its source the collection is, such as a table. Cursors of one part do not
    /// open for another, even under the same name.
    #[must_use]
    pub fn with_part(mut self, part: impl Into<String>) -> Self {
        self.part = part.into();
        self.canonical_identity = handback_token::canonical_json(&self.identity(), &[]);
        self
    }

    /// Says that the kinds of columns are guessed from the values that there are, and may be others
    /// when items come and go. Cursors are not bound to them: the collection itself has to notice
    /// a place whose values have another order now.
    #[must_use]
    pub fn with_guessed_kinds(mut self) -> Self {
        self.guessed = true;
        self.canonical_identity = handback_token::canonical_json(&self.identity(), &[]);
        self
    }

    /// Says where in an item the column is that is called like this path: the key of items whose key
    /// is a member of a member.
    #[must_use]
    pub fn with_key_path(mut self, path: FieldPath) -> Self {
        self.key_path = (path.parts().len() > 1).then_some(path);
        self
    }

    /// Where the column of this name is in an item.
    #[must_use]
    pub fn member_path(&self, column: &str) -> FieldPath {
        match &self.key_path {
            Some(path) if path.to_string() == column => path.clone(),
            _ => FieldPath::name(column),
        }
    }

    /// What cursors are bound to besides the collection's name: the part of the source, and the key
    /// columns with their types. A table that is made anew with another key is another collection.
    #[must_use]
    pub fn identity(&self) -> serde_json::Value {
        let kind = |name: &String| match self.column(name) {
            Some(column) if !self.guessed => column.kind.name(),
            _ => "any",
        };
        let key: Vec<_> = self.key.iter().map(|name| [name.as_str(), kind(name)]).collect();
        serde_json::json!({"part": self.part, "key": key})
    }

    pub(crate) fn canonical_identity(&self) -> &[u8] {
        &self.canonical_identity
    }

    /// The columns, in the order of the source.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns that tell items apart.
    #[must_use]
    pub fn key(&self) -> &[String] {
        &self.key
    }

    /// Whether items have these columns only.
    #[must_use]
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether every page tells the total.
    #[must_use]
    pub const fn counts_always(&self) -> bool {
        self.counts_always
    }

    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The path that a caller's `name` means: a column by its whole name, else, where the schema is
    /// open, the parts between dots. `column:` in front takes the rest as one name, for columns
    /// that are called `and`, `or` or `not`.
    #[must_use]
    pub fn resolve(&self, name: &str) -> Option<FieldPath> {
        let literal = name.strip_prefix("column:");
        let whole = literal.unwrap_or(name);
        if self.column(whole).is_some() {
            return Some(FieldPath::name(whole));
        }
        match self.shape {
            Shape::Closed => None,
            Shape::Open if literal.is_some() => Some(FieldPath::name(whole)),
            Shape::Open => Some(FieldPath(whole.split('.').map(str::to_owned).collect())),
        }
    }

    /// The order of these sort keys, made total by the key of the collection: key columns that are
    /// not sorted by yet follow in the direction of the last sort key, so that one index serves
    /// both.
    #[must_use]
    pub fn total_order(&self, mut keys: Vec<SortKey>) -> Order {
        let direction = keys.last().map_or(Direction::Ascending, |last| last.direction);
        for name in &self.key {
            if keys.iter().all(|key| key.field.column() != Some(name)) {
                let nulls = Nulls::Last;
                let field = FieldPath::name(name);
                keys.push(SortKey { field, direction, nulls, nullable: false });
            }
        }
        Order::new(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str) -> Column {
        Column { name: name.into(), kind: Kind::Any, nullable: true, preset: Preset::Full }
    }

    #[test]
    fn a_name_is_a_column_before_it_is_a_path() {
        let columns = || vec![column("a.b"), column("and"), column("plain")];
        let closed = Schema::new(columns(), vec![], Shape::Closed);
        let open = Schema::new(columns(), vec![], Shape::Open);
        let parts = |path: Option<FieldPath>| path.map(|path| path.parts().join("|"));
        for schema in [&closed, &open] {
            assert_eq!(parts(schema.resolve("a.b")).as_deref(), Some("a.b"));
            assert_eq!(parts(schema.resolve("column:and")).as_deref(), Some("and"));
        }
        assert_eq!(closed.resolve("a"), None);
        assert_eq!(closed.resolve("plain.x"), None);
        assert_eq!(parts(open.resolve("a.c")).as_deref(), Some("a|c"));
        assert_eq!(parts(open.resolve("column:a.c")).as_deref(), Some("a.c"));
    }

    #[test]
    fn an_order_is_made_total_in_the_direction_of_its_last_key() {
        let schema = Schema::new(vec![], vec!["x".into(), "y".into()], Shape::Closed);
        let key = |name: &str, direction| SortKey {
            field: FieldPath::name(name),
            direction,
            nulls: Nulls::First,
            nullable: true,
        };
        let order = schema
            .total_order(vec![key("y", Direction::Ascending), key("z", Direction::Descending)]);
        let shown: Vec<_> =
            order.keys().iter().map(|key| (key.field.first(), key.direction)).collect();
        assert_eq!(
            shown,
            [
                ("y", Direction::Ascending),
                ("z", Direction::Descending),
                ("x", Direction::Descending)
            ]
        );
        assert_eq!(schema.total_order(vec![]).keys().len(), 2);
    }
}
