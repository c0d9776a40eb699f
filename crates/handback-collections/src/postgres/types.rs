//! From a type of the catalog to what pages know of a column, and how its values are read.

use handback_page::{Column, Kind, Preset};

use crate::sql::{TableColumn, quoted};

/// In what form the server gives values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Boolean,
    /// As `bigint`.
    Integer,
    /// As `double precision`.
    Real,
    /// As text, the shortest of a `real`: as a double it would have other digits.
    Single,
    /// As text with all digits.
    Decimal,
    Text,
    Bytes,
    /// As text that is JSON.
    Json,
}

impl Form {
    /// The type of the server that it has in results.
    pub(super) const fn sql_type(self) -> &'static str {
        match self {
            Self::Boolean => "boolean",
            Self::Integer => "bigint",
            Self::Real => "double precision",
            Self::Bytes => "bytea",
            Self::Single | Self::Decimal | Self::Text | Self::Json => "text",
        }
    }
}

/// A column as the catalog describes it. Types are those under all domains.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) name: String,
    /// Its number in the table, which it keeps.
    pub(super) number: i16,
    pub(super) not_null: bool,
    /// The name of its type for statements: with its schema, unless it is the system's.
    pub(super) type_name: String,
    /// The bare name of its type, if it is one of the system's.
    pub(super) system_type: Option<String>,
    pub(super) is_enum: bool,
    /// Whether `<`, `<=`, `=`, `>=` and `>` order it, and are found in the schema of the system
    /// (for enums, too) or else in that of the type.
    pub(super) is_ordered: bool,
}

/// How a column is read.
#[derive(Clone, Debug)]
pub(super) struct Field {
    /// The number of the column in the table.
    pub(super) number: i16,
    pub(super) form: Form,
    /// The expression that gives it this form.
    pub(super) select: String,
}

/// The alias under which every statement reads its table. Names with it in front can not be taken
/// for names of results, which `ORDER BY` looks for first.
pub(super) const ALIAS: &str = "t";

/// What pages know of the columns of a table with this key, and how they are read.
pub(super) fn columns(described: &[Described], key: &[String]) -> (Vec<TableColumn>, Vec<Field>) {
    let read = |described: &Described| column(described, key.contains(&described.name));
    let (mut columns, fields): (Vec<_>, Vec<_>) = described.iter().map(read).unzip();
    if let Some(title) = title(&columns).and_then(|title| columns.get_mut(title)) {
        title.column.preset = Preset::Minimal;
    }
    (columns, fields)
}

/// The number of the column that says what an item is called: as in SQLite, `name`, else `title`,
/// else the first one of text.
fn title(columns: &[TableColumn]) -> Option<usize> {
    let named = |name: &str| {
        columns.iter().position(|column| column.column.name.eq_ignore_ascii_case(name))
    };
    named("name")
        .or_else(|| named("title"))
        .or_else(|| columns.iter().position(|column| column.column.kind == Kind::Text))
}

/// What pages know of a column, and how it is read.
pub(super) fn column(described: &Described, is_key: bool) -> (TableColumn, Field) {
    let name = format!("{ALIAS}.{}", quoted(&described.name));
    let (kind, form, select, sql_type) = classify(described, &name);
    let column = Column {
        name: described.name.clone(),
        nullable: !described.not_null && !is_key,
        preset: preset(&kind, is_key),
        kind,
    };
    let field = Field { number: described.number, form, select };
    (TableColumn { column, sql_name: name, sql_type }, field)
}

fn classify(described: &Described, name: &str) -> (Kind, Form, String, String) {
    let cast = |to: &str| format!("{name}::{to}");
    let own = || described.type_name.clone();
    let Some(system_type) = &described.system_type else { return classify_user(described, name) };
    match system_type.as_str() {
        "bool" => (Kind::Boolean, Form::Boolean, cast("boolean"), own()),
        // All of them are compared with `bigint`, whose operators are of the same family.
        "int2" | "int4" | "int8" => {
            (Kind::Integer, Form::Integer, cast("bigint"), "bigint".to_owned())
        }
        "float4" => (Kind::Number, Form::Single, cast("text"), own()),
        "float8" => (Kind::Number, Form::Real, cast("double precision"), own()),
        "numeric" => (Kind::Number, Form::Decimal, cast("text"), own()),
        // A longer text would be cut to a `name`, and then be equal to one.
        "text" | "varchar" | "name" => (Kind::Text, Form::Text, cast("text"), "text".to_owned()),
        "bpchar" => (Kind::Text, Form::Text, cast("text"), own()),
        "bytea" => (Kind::Blob, Form::Bytes, cast("bytea"), own()),
        "json" | "jsonb" => (Kind::Json, Form::Json, cast("text"), own()),
        // `to_json` writes times by ISO 8601, with a `T`, and an address without the length of a
        // prefix that says nothing.
        "timestamp" | "timestamptz" | "inet" => {
            (Kind::Named(own()), Form::Text, format!("to_json({name}) #>> '{{}}'"), own())
        }
        // The text of `regclass` and its like depends on what else there is.
        other if described.is_ordered && !other.starts_with("reg") => {
            (Kind::Named(own()), Form::Text, cast("text"), own())
        }
        _ => (Kind::Json, Form::Json, format!("to_json({name})::text"), own()),
    }
}

/// Types that are not the system's: enums, those of extensions, composites.
fn classify_user(described: &Described, name: &str) -> (Kind, Form, String, String) {
    let text = format!("{name}::text");
    let own = described.type_name.clone();
    if !described.is_ordered {
        return (Kind::Json, Form::Json, format!("to_json({name})::text"), own);
    }
    if described.is_enum {
        // By way of text: so the driver need not ask what the type is.
        return (Kind::Named(own.clone()), Form::Text, text, format!("text::{own}"));
    }
    let is_text = own.rsplit('.').next() == Some("citext");
    let kind = if is_text { Kind::Text } else { Kind::Named(own.clone()) };
    (kind, Form::Text, text, own)
}

fn preset(kind: &Kind, is_key: bool) -> Preset {
    if is_key {
        Preset::Minimal
    } else if matches!(kind, Kind::Blob) {
        Preset::Full
    } else {
        Preset::Standard
    }
}

/// The schema of a type that is not the system's and whose operators are not, either; as it is
/// written in statements.
pub(super) fn schema_of_operators(sql_type: &str) -> Option<&str> {
    if sql_type.starts_with("text::") {
        return None;
    }
    let mut quoted = false;
    let dots = sql_type.char_indices().filter_map(|(at, c)| {
        quoted ^= c == '"';
        (c == '.' && !quoted).then_some(at)
    });
    sql_type.get(..dots.last()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_type_is_found_through_quotes() {
        for (name, schema) in [
            ("bigint", None),
            ("timestamp with time zone", None),
            ("\"char\"", None),
            ("public.citext", Some("public")),
            ("\"a.b\".citext", Some("\"a.b\"")),
            ("\"a\"\".b\".\"c.d\"", Some("\"a\"\".b\"")),
            ("text::public.mood", None),
        ] {
            assert_eq!(schema_of_operators(name), schema, "{name}");
        }
    }
}
