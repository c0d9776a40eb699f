//! Statements that are the same in every SQL dialect but for spelling.

mod condition;
mod index;

pub(crate) use condition::{Conditions, joined};
pub(crate) use index::{Index, IndexColumn, Serves, fixed_columns, serves};

use handback_page::{CollectionError, Column, FieldPath, Schema, Shape};

/// How a dialect spells what differs.
pub(crate) trait Dialect {
    /// A placeholder for parameter `number` (from 1), of the type of `column`.
    fn parameter(number: usize, column: &TableColumn) -> String;

    /// A placeholder for parameter `number` (from 1), which is text.
    fn text_parameter(number: usize) -> String;

    /// That `column` is of the kind of values that a comparison is about, where columns may hold
    /// several kinds.
    fn same_kind(column: &str, value: &handback_page::Scalar) -> Option<String>;

    /// `column` as the left side of a comparison with `value`.
    fn compared(column: &TableColumn, _value: &handback_page::Scalar) -> String {
        column.sql_name.clone()
    }

    /// How a comparison with `column` is spelled that is `operator` in SQL.
    fn operator(_column: &TableColumn, operator: &'static str) -> String {
        operator.to_owned()
    }

    /// That the text of `column` has the text `parameter` in it.
    fn contains(column: &str, parameter: &str) -> String;

    /// That the text of `column` starts with the text `parameter`.
    fn starts_with(column: &str, parameter: &str) -> String;

    /// That one of the texts `parameters` occurs in the text of `column`, whose ASCII letters count
    /// as lower case.
    fn finds(column: &str, parameters: &[String]) -> String;
}

/// A table or view, as its database described it.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    /// Quoted, and with its schema if it has one.
    pub(crate) name: String,
    pub(crate) columns: Vec<TableColumn>,
    /// What makes rows unique, none of them nullable.
    pub(crate) key: Vec<String>,
    pub(crate) indexes: Vec<Index>,
}

/// A column, as its database described it.
#[derive(Clone, Debug)]
pub(crate) struct TableColumn {
    /// What pages know.
    pub(crate) column: Column,
    /// Its name as an identifier, quoted.
    pub(crate) sql_name: String,
    /// The name of its type in the database's own words.
    pub(crate) sql_type: String,
}

impl Table {
    pub(crate) fn column(&self, name: &str) -> Option<&TableColumn> {
        self.columns.iter().find(|column| column.column.name == name)
    }

    pub(crate) fn schema(&self) -> Schema {
        let columns = self.columns.iter().map(|column| column.column.clone()).collect();
        Schema::new(columns, self.key.clone(), Shape::Closed).with_part(&self.name)
    }
}

/// The error about a column of a query that its table does not have any more.
pub(crate) fn column_gone(path: &FieldPath) -> CollectionError {
    CollectionError::ColumnGone { column: path.to_string() }
}

/// A name as an identifier.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
