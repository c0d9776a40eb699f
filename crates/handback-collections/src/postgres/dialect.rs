//! How PostgreSQL compares.

use handback_page::Scalar;

use super::types::schema_of_operators;
use crate::sql::{Dialect, TableColumn, joined};

/// The dialect of PostgreSQL.
///
/// What a text contains or starts with is found by bytes, whatever its collation, also where the
/// collation takes different texts for equal.
#[derive(Debug)]
pub(super) enum Postgres {}

impl Dialect for Postgres {
    fn parameter(number: usize, column: &TableColumn) -> String {
        format!("${number}::{}", column.sql_type)
    }

    fn text_parameter(number: usize) -> String {
        format!("${number}::text")
    }

    fn same_kind(_column: &str, _value: &Scalar) -> Option<String> {
        None
    }

    /// By its full name where it belongs to an extension: the search path has none of them, and
    /// `citext` would silently be compared as `text`.
    fn operator(column: &TableColumn, operator: &'static str) -> String {
        match schema_of_operators(&column.sql_type) {
            Some(schema) => format!("OPERATOR({schema}.{operator})"),
            None => operator.to_owned(),
        }
    }

    fn contains(column: &str, parameter: &str) -> String {
        format!("strpos({column}::text COLLATE \"C\", {parameter}) > 0")
    }

    fn starts_with(column: &str, parameter: &str) -> String {
        format!("starts_with({column}::text COLLATE \"C\", {parameter})")
    }

    fn finds(column: &str, parameters: &[String]) -> String {
        let text = format!("lower({column}::text COLLATE \"C\")");
        let test = |parameter: &String| format!("strpos({text}, {parameter}) > 0");
        joined(&parameters.iter().map(test).collect::<Vec<_>>(), "OR")
    }
}
