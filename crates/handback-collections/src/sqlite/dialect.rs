//! How SQLite compares.
//!
//! A column of SQLite may hold values of any storage class, whatever its declared type is; the
//! type only gives it an affinity, by which values are converted when they are stored, and *when
//! they are compared*. Handback compares values of one kind only, and converts none: `5` is not
//! `'5'`. So a comparison says which storage class it is about, and where the affinity of the
//! column would convert the value that it is compared with, the column is written `+column`, which
//! has none.
//!
//! | filter value | storage classes it is compared with |
//! |---|---|
//! | number, `true` (as 1), `false` (as 0) | integer, real |
//! | text | text, by the collation of the column |
//! | bytes | blob |
//!
//! What a text contains or starts with is found by bytes, whatever the collation.

use handback_page::Scalar;
use handback_page::filter::{Filter, Test};
use handback_page::scalar::{Among, Decimal};

use crate::sql::{Dialect, TableColumn, joined};

/// The dialect of SQLite.
#[derive(Debug)]
pub(crate) enum Sqlite {}

impl Dialect for Sqlite {
    fn parameter(number: usize, _column: &TableColumn) -> String {
        format!("?{number}")
    }

    fn text_parameter(number: usize) -> String {
        format!("?{number}")
    }

    fn same_kind(column: &str, value: &Scalar) -> Option<String> {
        match value {
            Scalar::Null => None,
            Scalar::Bool(_) | Scalar::Int(_) | Scalar::Real(_) | Scalar::Decimal(_) => {
                Some(format!("typeof({column}) IN ('integer', 'real')"))
            }
            Scalar::Text(_) => Some(format!("typeof({column}) = 'text'")),
            Scalar::Blob(_) => Some(format!("typeof({column}) = 'blob'")),
        }
    }

    fn compared(column: &TableColumn, value: &Scalar) -> String {
        if Affinity::of(column).converts(value) {
            format!("+{}", column.sql_name)
        } else {
            column.sql_name.clone()
        }
    }

    // `instr` and `lower` go by the length of a text, `length` and `substr` of a text only up to
    // its first NUL. So the latter are given bytes.

    fn contains(column: &str, parameter: &str) -> String {
        format!("(typeof({column}) = 'text' AND instr({column}, {parameter}) > 0)")
    }

    fn starts_with(column: &str, parameter: &str) -> String {
        let start = format!("CAST({parameter} AS BLOB)");
        // A part of no bytes is null, and not empty.
        format!(
            "(typeof({column}) = 'text' AND ({parameter} = '' \
             OR substr(CAST({column} AS BLOB), 1, length({start})) = {start}))"
        )
    }

    fn finds(column: &str, parameters: &[String]) -> String {
        let test = |parameter: &String| format!("instr(lower({column}), {parameter}) > 0");
        let tests: Vec<_> = parameters.iter().map(test).collect();
        // `lower` makes text of everything else.
        format!("(typeof({column}) = 'text' AND {})", joined(&tests, "OR"))
    }
}

/// What SQLite converts values of a column to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    Text,
    Integer,
    Real,
    Numeric,
    /// Nothing.
    Blob,
}

impl Affinity {
    /// By the rules of <https://sqlite.org/datatype3.html>, section 3.1. In a `STRICT` table, `ANY`
    /// is left alone.
    pub(crate) fn of_declared(declared: &str, strict: bool) -> Self {
        let declared = declared.to_ascii_uppercase();
        let has = |part: &str| declared.contains(part);
        if has("INT") {
            Self::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Self::Text
        } else if has("BLOB") || declared.is_empty() || (strict && declared == "ANY") {
            Self::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Self::Real
        } else {
            Self::Numeric
        }
    }

    /// As it is written in [`TableColumn::sql_type`].
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Numeric => "NUMERIC",
            Self::Blob => "BLOB",
        }
    }

    fn of(column: &TableColumn) -> Self {
        Self::of_declared(&column.sql_type, false)
    }

    /// Whether a value is converted when it is compared with a column of this affinity.
    fn converts(self, value: &Scalar) -> bool {
        match (self, value) {
            (
                Self::Text,
                Scalar::Bool(_) | Scalar::Int(_) | Scalar::Real(_) | Scalar::Decimal(_),
            ) => true,
            (Self::Integer | Self::Real | Self::Numeric, Scalar::Text(text)) => looks_numeric(text),
            _ => false,
        }
    }
}

/// Whether numeric affinity makes a number of this text: perhaps with space around it, a sign,
/// digits with at most one point, and an exponent. SQLite reads up to the first NUL.
pub(super) fn looks_numeric(text: &str) -> bool {
    let text = text.split('\0').next().unwrap_or_default();
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_fits = exponent.is_none_or(|exponent| {
        let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !digits.is_empty() && all_digits(digits)
    });
    whole.len() + fraction.len() > 0 && all_digits(whole) && all_digits(fraction) && exponent_fits
}

/// How values of filters are told to a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Values {
    /// As SQLite has them: `true` is 1.
    Plain,
    /// As [`encode`](super::source::encode) keeps the values of JSON members.
    Json,
}

/// The filter in values that SQLite has: it knows neither truth values, nor NaN, nor decimals, nor
/// integers beyond 64 bits.
pub(super) fn adapted(filter: &Filter, values: Values) -> Filter {
    let all = |filters: &[Filter]| filters.iter().map(|f| adapted(f, values)).collect();
    match filter {
        Filter::All(filters) => Filter::All(all(filters)),
        Filter::Any(filters) => Filter::Any(all(filters)),
        Filter::Not(filter) => Filter::Not(Box::new(adapted(filter, values))),
        Filter::Field(path, test) => {
            let tests = adapted_test(test, values);
            let mut fields = tests.into_iter().map(|test| Filter::Field(path.clone(), test));
            match (fields.next(), fields.next()) {
                (Some(only), None) => only,
                (first, second) => {
                    Filter::Any(first.into_iter().chain(second).chain(fields).collect())
                }
            }
        }
    }
}

/// Tests of which one holds where `test` does.
fn adapted_test(test: &Test, values: Values) -> Vec<Test> {
    type Make = fn(Scalar) -> Test;
    let (value, make, round, below): (_, Make, _, _) = match test {
        Test::Equal(value) => {
            return stored(value, values).map(Test::Equal).into_iter().collect();
        }
        Test::In(list) => {
            let list = list.iter().filter_map(|value| stored(value, values)).collect();
            return vec![Test::In(list)];
        }
        Test::Contains(_) | Test::StartsWith(_) | Test::IsNull => return vec![test.clone()],
        Test::Less(value) => (value, Test::Less as Make, Round::Up, true),
        Test::LessOrEqual(value) => (value, Test::LessOrEqual as Make, Round::Down, true),
        Test::Greater(value) => (value, Test::Greater as Make, Round::Down, false),
        Test::GreaterOrEqual(value) => (value, Test::GreaterOrEqual as Make, Round::Up, false),
    };
    if let Scalar::Decimal(decimal) = value {
        return adapted_test(&beside(decimal, test), values);
    }
    if let (Values::Json, Scalar::Bool(_)) = (values, value) {
        let passing =
            [false, true].map(Scalar::Bool).into_iter().filter(|value| passes(test, value));
        let list = passing.filter_map(|value| stored(&value, values)).collect();
        return vec![Test::In(list)];
    }
    let mut tests = match (value, stored(value, values)) {
        // NaN is above every number.
        (Scalar::Real(real), _) if real.is_nan() && below => {
            vec![Test::Less(Scalar::Int(0)), Test::GreaterOrEqual(Scalar::Int(0))]
        }
        (Scalar::Real(real), _) if real.is_nan() => vec![],
        (_, Some(value)) => vec![make(value)],
        (Scalar::Int(int), None) => vec![make(Scalar::Real(rounded(*int, round)))],
        (_, None) => vec![],
    };
    let nan = Scalar::Real(f64::NAN);
    if values == Values::Json && passes(test, &nan) {
        tests.extend(stored(&nan, values).map(Test::Equal));
    }
    tests
}

/// The same comparison with a number that is not a decimal.
fn beside(decimal: &Decimal, test: &Test) -> Test {
    match (decimal.among_numbers(), test) {
        (Among::At(number), Test::Less(_)) => Test::Less(number),
        (Among::At(number), Test::LessOrEqual(_)) => Test::LessOrEqual(number),
        (Among::At(number), Test::Greater(_)) => Test::Greater(number),
        (Among::At(number), _) => Test::GreaterOrEqual(number),
        (Among::Between(below, _), Test::Less(_) | Test::LessOrEqual(_)) => {
            Test::LessOrEqual(below)
        }
        (Among::Between(_, above), _) => Test::GreaterOrEqual(above),
    }
}

fn passes(test: &Test, value: &Scalar) -> bool {
    test.holds(&handback_page::Member::Scalar(std::borrow::Cow::Borrowed(value)))
}

/// The value as it is kept, if it can be.
fn stored(value: &Scalar, values: Values) -> Option<Scalar> {
    match value {
        Scalar::Null => None,
        Scalar::Bool(_) | Scalar::Real(_) | Scalar::Blob(_) if values == Values::Json => {
            Some(super::source::encode(value.clone()))
        }
        Scalar::Real(real) if real.is_nan() => None,
        Scalar::Bool(truth) => Some(Scalar::Int((*truth).into())),
        Scalar::Int(int) if i64::try_from(*int).is_ok() => Some(value.clone()),
        Scalar::Int(int) => {
            let (down, up) = (rounded(*int, Round::Down), rounded(*int, Round::Up));
            // Members of JSON beyond 64 bits are kept as the nearest double.
            let exact = down.to_bits() == up.to_bits() || values == Values::Json;
            #[expect(clippy::cast_precision_loss, reason = "to the nearest is what is meant")]
            exact.then_some(Scalar::Real(*int as f64))
        }
        Scalar::Decimal(decimal) => match decimal.among_doubles() {
            Among::At(real) => Some(Scalar::Real(real)),
            Among::Between(..) if values == Values::Json => {
                Some(super::source::encode(value.clone()))
            }
            Among::Between(..) => None,
        },
        Scalar::Real(_) | Scalar::Text(_) | Scalar::Blob(_) => Some(value.clone()),
    }
}

#[derive(Clone, Copy)]
enum Round {
    Down,
    Up,
}

/// The double next to an integer, on one side of it, or the same.
fn rounded(int: i128, round: Round) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "corrected below")]
    let near = int as f64;
    match (Scalar::Int(int).order(&Scalar::Real(near)), round) {
        (std::cmp::Ordering::Less, Round::Down) => near.next_down(),
        (std::cmp::Ordering::Greater, Round::Up) => near.next_up(),
        _ => near,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;

    use super::*;

    #[test]
    fn texts_that_look_numeric_are_those_that_sqlite_converts() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch("CREATE TABLE t(v NUMERIC)").unwrap();
        let check = |text: &str| {
            let sql = "INSERT INTO t VALUES (?1) RETURNING typeof(v)";
            let mut insert = db.prepare_cached(sql).unwrap();
            let class: String = insert.query_row([text], |row| row.get(0)).unwrap();
            (class != "text", looks_numeric(text))
        };
        for text in
            ["5", " 5", "5 ", "+5", "-5.", ".5", "5e3", "5E-3", "1e400", "\t7\n", "\u{b}7", "5\0x"]
        {
            assert_eq!(check(text), (true, true), "{text:?}");
        }
        for text in
            ["", " ", "5x", "0x10", "Inf", "NaN", "2024-01-01", "5e", "--5", ".", "e5", "\0 5"]
        {
            assert_eq!(check(text), (false, false), "{text:?}");
        }
        proptest!(|(text in "[-+. eE0-9x\t\0]{0,6}")| {
            let (converted, looks) = check(&text);
            // Rather one too many.
            prop_assert!(!converted || looks, "{:?}", text);
        });
    }

    #[test]
    fn integers_beyond_doubles_are_between_their_neighbours() {
        for int in [(1_i128 << 70) + 1, -(1 << 70) - 1, i128::MAX, i128::MIN + 1] {
            let (down, up) = (rounded(int, Round::Down), rounded(int, Round::Up));
            assert!(Scalar::Real(down).order(&Scalar::Int(int)).is_lt(), "{int}");
            assert!(Scalar::Real(up).order(&Scalar::Int(int)).is_gt(), "{int}");
            assert_eq!(down.next_up().to_bits(), up.to_bits(), "{int}");
        }
        for int in [0, 1 << 70, i128::MIN] {
            assert_eq!(rounded(int, Round::Down).to_bits(), rounded(int, Round::Up).to_bits());
        }
    }
}
