//! What is selected, and rows of results as items with their places.

use handback_page::scalar::{write_blob, write_decimal, write_integer, write_real, write_text};
use handback_page::{CollectionError, Order, Row, Scalar};

use super::catalog::Layout;
use super::error::Fault;
use super::types::Form;

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
                    let (column, field) = found.ok_or_else(|| {
                        CollectionError::Gone("the table has other columns than before".to_owned())
                    })?;
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
        for member in &self.members {
            item.push_str(&member.prefix);
            member.value.write(row, &mut item)?;
        }
        item.push_str(if self.members.is_empty() { "{}" } else { "}" });
        let place = self.keys.iter().map(|key| key.scalar(row)).collect::<Result<_, _>>()?;
        Ok(Row { item: item.into(), place })
    }
}

impl Key {
    fn scalar(&self, row: &tokio_postgres::Row) -> Result<Scalar, Fault> {
        match self.value.scalar(row)? {
            // It was not null when the table was looked at.
            Scalar::Null if !self.nullable => Err(Fault::Stale("23502".to_owned())),
            scalar => Ok(scalar),
        }
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
            Form::Boolean | Form::Integer | Form::Real => match self.scalar(row)? {
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
            Form::Real => match row.try_get::<_, Option<&str>>(number)? {
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
    text.parse().map_err(|_| CollectionError::Damaged("a double is not one".to_owned()))
}
