//! What is selected, and rows of results as items with their places.

use handback_page::scalar::{write_blob, write_decimal, write_integer, write_real, write_text};
use handback_page::{CollectionError, ItemText, Order, Places, Row, Scalar};
use tokio_postgres::types::{FromSql, Type};

use super::catalog::Layout;
use super::error::Fault;
use super::types::Form;
use crate::sql::column_gone;

/// How many rows room is made for in advance.
const ROWS_EXPECTED_MAX: usize = 1024;

/// How many bytes of items room is made for in advance.
const BYTES_EXPECTED_MAX: usize = 64 * 1024;

/// The columns that a statement reads: those of the item, and the sort keys.
#[derive(Debug)]
pub(super) struct Selection {
    /// The expressions, each with a comma in front.
    pub(super) list: String,
    /// As many nulls of the same types.
    pub(super) nulls: String,
    /// How many they are.
    pub(super) width: usize,
    members: Vec<Member>,
    keys: Vec<Key>,
}

#[derive(Debug)]
struct Key {
    value: Selected,
    nullable: bool,
}

#[derive(Debug)]
struct Member {
    /// What stands in front of the value: `{"id":`.
    prefix: String,
    value: Selected,
}

/// Where a value is in a row of the result, and in what form.
#[derive(Clone, Copy, Debug)]
struct Selected {
    number: usize,
    form: Form,
}

impl Selection {
    /// The columns of `asked` (all, if there is no list) and the keys of the order. The first value
    /// of each row is left to the statement.
    pub(super) fn new(
        layout: &Layout,
        asked: Option<&[String]>,
        order: &Order,
    ) -> Result<Self, CollectionError> {
        let (list, nulls) = (String::new(), String::new());
        let mut selection = Self { list, nulls, width: 0, members: vec![], keys: vec![] };
        let mut selected: Vec<(&str, Selected)> = Vec::new();
        let fields = || layout.table.columns.iter().zip(&layout.fields);
        for (column, field) in fields() {
            let name = &column.column.name;
            if asked.is_some_and(|asked| !asked.contains(name)) {
                continue;
            }
            let value = selection.add(selected.len() + 1, field.form, &field.select);
            selected.push((name, value));
            let mut prefix = if selection.members.is_empty() { "{" } else { "," }.to_owned();
            write_text(name, &mut prefix);
            prefix.push(':');
            selection.members.push(Member { prefix, value });
        }
        for key in order.keys() {
            let name = key.field.column();
            let known = selected.iter().find(|(selected, _)| Some(*selected) == name);
            let value = match known {
                Some((_, value)) => *value,
                None => {
                    let found =
                        fields().find(|(column, _)| Some(column.column.name.as_str()) == name);
                    let (column, field) = found.ok_or_else(|| column_gone(&key.field))?;
                    let value = selection.add(selected.len() + 1, field.form, &field.select);
                    selected.push((&column.column.name, value));
                    value
                }
            };
            selection.keys.push(Key { value, nullable: key.nullable });
        }
        selection.width = selected.len();
        Ok(selection)
    }

    fn add(&mut self, number: usize, form: Form, expression: &str) -> Selected {
        self.list.push_str(", ");
        self.list.push_str(expression);
        self.nulls.push_str(", NULL::");
        self.nulls.push_str(form.sql_type());
        Selected { number, form }
    }

    /// The item of a row, and its place.
    pub(super) fn row(&self, row: &tokio_postgres::Row) -> Result<Row, Fault> {
        let mut item = String::with_capacity(row.raw_size_bytes() + 16 * self.members.len());
        self.write_item(row, &mut item)?;
        Ok(Row { item: item.into(), place: self.place(row)? })
    }

    fn write_item(&self, row: &tokio_postgres::Row, out: &mut String) -> Result<(), Fault> {
        for member in &self.members {
            out.push_str(&member.prefix);
            member.value.write(row, out)?;
        }
        out.push_str(if self.members.is_empty() { "{}" } else { "}" });
        Ok(())
    }

    fn place(&self, row: &tokio_postgres::Row) -> Result<Vec<Scalar>, Fault> {
        self.keys.iter().map(|key| key.scalar(row)).collect()
    }
}

/// Rows of a page, one after the other.
#[derive(Debug)]
pub(super) struct Gathered<'s> {
    selection: &'s Selection,
    asked: Places,
    /// All items in one text, and where each ends.
    items: String,
    ends: Vec<usize>,
    places: Vec<Vec<Scalar>>,
    /// The last row, if its place is not among the others.
    last: Option<tokio_postgres::Row>,
}

impl<'s> Gathered<'s> {
    /// Room for so many rows.
    pub(super) fn new(selection: &'s Selection, limit: usize, asked: Places) -> Self {
        let rows = limit.min(ROWS_EXPECTED_MAX);
        let prefixes = selection.members.iter().map(|member| member.prefix.len() + 16);
        let bytes = prefixes.sum::<usize>().saturating_mul(rows).min(BYTES_EXPECTED_MAX);
        let (items, ends) = (String::with_capacity(bytes), Vec::with_capacity(rows));
        Self { selection, asked, items, ends, places: Vec::with_capacity(rows), last: None }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// How long the items are together.
    pub(super) fn bytes(&self) -> usize {
        self.items.len()
    }

    pub(super) fn add(&mut self, row: tokio_postgres::Row) -> Result<(), Fault> {
        self.selection.write_item(&row, &mut self.items)?;
        if self.asked == Places::All || self.ends.is_empty() {
            self.places.push(self.selection.place(&row)?);
        } else {
            self.selection.keys.iter().try_for_each(|key| key.check(&row))?;
            self.places.push(Vec::new());
            self.last = Some(row);
        }
        self.ends.push(self.items.len());
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Vec<Row>, Fault> {
        if let (Some(row), Some(place)) = (&self.last, self.places.last_mut()) {
            *place = self.selection.place(row)?;
        }
        let rows = ItemText::parts(&self.items, self.ends).zip(self.places);
        Ok(rows.map(|(item, place)| Row { item, place }).collect())
    }
}

impl Key {
    fn scalar(&self, row: &tokio_postgres::Row) -> Result<Scalar, Fault> {
        self.check(row)?;
        self.value.scalar(row)
    }

    /// That it is not null, if it was not when the table was looked at.
    fn check(&self, row: &tokio_postgres::Row) -> Result<(), Fault> {
        if self.nullable || row.try_get::<_, Option<Anything>>(self.value.number)?.is_some() {
            return Ok(());
        }
        Err(Fault::Stale("23502".to_owned()))
    }
}

/// A value of which only matters that it is there.
struct Anything;

impl<'a> FromSql<'a> for Anything {
    fn from_sql(_: &Type, _: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Selected {
    fn write(self, row: &tokio_postgres::Row, out: &mut String) -> Result<(), Fault> {
        match self.form {
            Form::Json | Form::Text | Form::Decimal => match row.try_get(self.number)? {
                None => out.push_str("null"),
                Some(text) if self.form == Form::Text => write_text(text, out),
                Some(text) if self.form == Form::Decimal => write_decimal(text, out),
                Some(text) => out.push_str(text),
            },
            Form::Bytes => match row.try_get(self.number)? {
                None => out.push_str("null"),
                Some(bytes) => write_blob(bytes, out),
            },
            Form::Boolean | Form::Integer | Form::Real | Form::Single => match self.scalar(row)? {
                Scalar::Int(int) => write_integer(int, out),
                Scalar::Real(real) => write_real(real, out),
                other => other.write_json(out),
            },
        }
        Ok(())
    }

    fn scalar(self, row: &tokio_postgres::Row) -> Result<Scalar, Fault> {
        let number = self.number;
        let found = match self.form {
            Form::Boolean => row.try_get::<_, Option<bool>>(number)?.map(Scalar::Bool),
            Form::Integer => {
                row.try_get::<_, Option<i64>>(number)?.map(|int| Scalar::Int(int.into()))
            }
            Form::Real => row.try_get::<_, Option<f64>>(number)?.map(Scalar::Real),
            Form::Single => match row.try_get::<_, Option<&str>>(number)? {
                None => None,
                Some(text) => Some(Scalar::Real(real(text)?)),
            },
            Form::Decimal | Form::Text | Form::Json => {
                row.try_get::<_, Option<String>>(number)?.map(Scalar::Text)
            }
            Form::Bytes => row.try_get::<_, Option<Vec<u8>>>(number)?.map(Scalar::Blob),
        };
        Ok(found.unwrap_or(Scalar::Null))
    }
}

fn real(text: &str) -> Result<f64, CollectionError> {
    text.parse().map_err(|_| CollectionError::Damaged("a real is not one".to_owned()))
}
