//! Statements with their values, as they are sent.

use std::fmt::Write as _;

use handback_page::Scalar;

/// A statement, and what is bound to it.
#[derive(Debug)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
}

/// A parameter of a statement.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) value: Bound,
    /// The type of its column.
    pub(super) sql_type: String,
}

/// The value of a parameter.
#[derive(Debug)]
pub(super) enum Bound {
    /// One of the query.
    Value(Scalar),
    /// That of a sort key, by its number: each page of a walk has another.
    OfPlace(usize),
}

/// A statement with all values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call<'a> {
    statement: &'a Statement,
    place: &'a [Scalar],
}

impl Statement {
    /// With a place: one value for each sort key, or the offset.
    pub(super) const fn at<'a>(&'a self, place: &'a [Scalar]) -> Call<'a> {
        Call { statement: self, place }
    }

    /// About how many bytes it takes.
    pub(super) fn weight(&self) -> usize {
        let values = self.parameters.iter().map(|parameter| match &parameter.value {
            Bound::Value(Scalar::Text(text)) => text.len(),
            Bound::Value(Scalar::Decimal(decimal)) => decimal.as_str().len(),
            Bound::Value(Scalar::Blob(bytes)) => bytes.len(),
            Bound::Value(_) | Bound::OfPlace(_) => 0,
        });
        self.sql.len() + values.sum::<usize>()
    }
}

impl<'a> Call<'a> {
    pub(super) fn sql(self) -> &'a str {
        &self.statement.sql
    }

    /// The values in the order of their numbers, each with the type of its column.
    pub(super) fn values(self) -> impl ExactSizeIterator<Item = (&'a Scalar, &'a str)> {
        self.statement.parameters.iter().map(move |parameter| {
            let value = match &parameter.value {
                Bound::Value(value) => value,
                Bound::OfPlace(key) => self.place.get(*key).unwrap_or(&Scalar::Null),
            };
            (value, parameter.sql_type.as_str())
        })
    }
}

/// A value in the words of the server.
pub(super) fn text(value: &Scalar) -> String {
    match value {
        // Nulls are tested for, never bound.
        Scalar::Null => String::new(),
        Scalar::Bool(truth) => truth.to_string(),
        Scalar::Int(int) => int.to_string(),
        Scalar::Real(real) if real.is_infinite() && *real > 0.0 => "Infinity".to_owned(),
        Scalar::Real(real) if real.is_infinite() => "-Infinity".to_owned(),
        // The shortest text of a double, which a `real` came from and goes back to.
        Scalar::Real(real) => format!("{real:?}"),
        Scalar::Decimal(decimal) => decimal.as_str().to_owned(),
        Scalar::Text(text) => text.clone(),
        Scalar::Blob(bytes) => bytes.iter().fold("\\x".to_owned(), |mut text, byte| {
            write!(text, "{byte:02x}").expect("a String takes everything");
            text
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_the_server_reads_them() {
        for (value, expected) in [
            (Scalar::Bool(true), "true"),
            (Scalar::Int(-5), "-5"),
            (Scalar::Real(0.1), "0.1"),
            (Scalar::Real(1e300), "1e300"),
            (Scalar::Real(f64::NAN), "NaN"),
            (Scalar::Real(f64::NEG_INFINITY), "-Infinity"),
            (Scalar::Text("it's".into()), "it's"),
            (Scalar::Blob(vec![0, 255]), "\\x00ff"),
        ] {
            assert_eq!(text(&value), expected);
        }
    }
}
