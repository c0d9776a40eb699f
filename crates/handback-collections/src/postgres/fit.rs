//! Values of filters and places, made to fit their columns.
//!
//! The server refuses a statement with a value that is not of the type of its column. What can be
//! known without it is found out here: a value of another kind is an error that names the column,
//! and a comparison that no value of the column can pass, or that all pass, is said so.

use std::cmp::Ordering;

use handback_page::filter::Test;
use handback_page::scalar::{self, Decimal};
use handback_page::{CollectionError, FieldPath, Filter, Kind, Order, Query, Scalar, Search};

use super::catalog::Layout;
use crate::sql::{TableColumn, column_gone};

/// The query, in values that fit their columns.
pub(super) fn query(query: &Query, layout: &Layout) -> Result<Query, CollectionError> {
    let order = layout.order(&query.order);
    let mut fitted = Query { filter: filter(&query.filter, layout)?, order, ..query.clone() };
    if query.search.words().iter().any(|word| has_nul(word)) {
        // No text of the server has that character in it.
        let words: Vec<_> =
            query.search.words().iter().map(String::as_str).filter(|word| !has_nul(word)).collect();
        fitted.search = Search::new(&words.join(" "));
        if words.is_empty() {
            fitted.filter = NOTHING;
        }
    }
    Ok(fitted)
}

/// Checks that a place has one value for each key of the order, and that it can be one of its
/// column.
pub(super) fn place(
    place: &[Scalar],
    order: &Order,
    layout: &Layout,
) -> Result<(), CollectionError> {
    if place.len() != order.keys().len() {
        return Err(CollectionError::BadPlace);
    }
    for (key, value) in order.keys().iter().zip(place) {
        let column = column(&key.field, layout)?;
        let fits = match (&column.column.kind, value) {
            (_, Scalar::Null) => key.nullable,
            (Kind::Boolean, Scalar::Bool(_)) | (Kind::Blob, Scalar::Blob(_)) => true,
            (Kind::Integer, Scalar::Int(int)) => i64::try_from(*int).is_ok(),
            (Kind::Number, Scalar::Real(_)) => column.sql_type != "numeric",
            (Kind::Number, Scalar::Text(_)) => column.sql_type == "numeric",
            (Kind::Text | Kind::Named(_), Scalar::Text(text)) => !has_nul(text),
            _ => false,
        };
        if !fits {
            return Err(CollectionError::BadPlace);
        }
    }
    Ok(())
}

/// That a value is not one of its column, in words.
pub(super) fn bad_value(column: &TableColumn) -> CollectionError {
    let expected = match &column.column.kind {
        Kind::Boolean => "true or false".to_owned(),
        Kind::Integer => "an integer".to_owned(),
        Kind::Number if column.sql_type == "numeric" => "a number".to_owned(),
        Kind::Text => "text without U+0000".to_owned(),
        Kind::Blob => "bytes".to_owned(),
        Kind::Json => "no comparison but with null".to_owned(),
        _ => {
            let name = column.sql_type.strip_prefix("text::").unwrap_or(&column.sql_type);
            format!("a value of type {name}")
        }
    };
    CollectionError::BadValue { field: column.column.name.clone(), expected }
}

/// The column whose value, of this type, is in the filter.
pub(super) fn column_of<'a>(
    value: &Scalar,
    sql_type: &str,
    query: &Query,
    layout: &'a Layout,
) -> Option<&'a TableColumn> {
    let mut found = None;
    query.filter.for_each_field(&mut |path, test| {
        let same = match test {
            Test::Equal(other)
            | Test::Less(other)
            | Test::LessOrEqual(other)
            | Test::Greater(other)
            | Test::GreaterOrEqual(other) => other == value,
            Test::In(others) => others.contains(value),
            Test::Contains(_) | Test::StartsWith(_) | Test::IsNull => false,
        };
        if same && let Ok(column) = column(path, layout) {
            found = found.or_else(|| (column.sql_type == sql_type).then_some(column));
        }
    });
    found
}

const NOTHING: Filter = Filter::Any(Vec::new());

fn has_nul(text: &str) -> bool {
    text.contains('\0')
}

fn column<'a>(path: &FieldPath, layout: &'a Layout) -> Result<&'a TableColumn, CollectionError> {
    path.column().and_then(|name| layout.table.column(name)).ok_or_else(|| column_gone(path))
}

fn filter(given: &Filter, layout: &Layout) -> Result<Filter, CollectionError> {
    let all = |filters: &[Filter]| -> Result<Vec<_>, _> {
        filters.iter().map(|given| filter(given, layout)).collect()
    };
    Ok(match given {
        Filter::All(filters) => Filter::All(all(filters)?),
        Filter::Any(filters) => Filter::Any(all(filters)?),
        Filter::Not(given) => Filter::Not(Box::new(filter(given, layout)?)),
        Filter::Field(path, given) => {
            let column = column(path, layout)?;
            let fitted = test(given, column)?;
            let field = |test| Filter::Field(path.clone(), test);
            match fitted {
                Fitted::Nothing => NOTHING,
                Fitted::NotNull => Filter::Not(Box::new(field(Test::IsNull))),
                Fitted::To(Test::In(mut values)) => match values.len() {
                    1 => values.pop().map_or(NOTHING, |value| field(Test::Equal(value))),
                    // `IN` takes the operator from the search path.
                    _ if is_foreign(column) => Filter::Any(
                        values.into_iter().map(|value| field(Test::Equal(value))).collect(),
                    ),
                    _ => field(Test::In(values)),
                },
                Fitted::To(test) => field(test),
            }
        }
    })
}

fn is_foreign(column: &TableColumn) -> bool {
    super::types::schema_of_operators(&column.sql_type).is_some()
}

enum Fitted {
    To(Test),
    /// No value passes.
    Nothing,
    /// Every value passes, but not null.
    NotNull,
}

fn test(given: &Test, column: &TableColumn) -> Result<Fitted, CollectionError> {
    match (&column.column.kind, column.sql_type.as_str()) {
        (Kind::Integer, _) => return integer_test(given, column),
        (Kind::Number, "double precision") => return real_test(given, column, among_doubles),
        (Kind::Number, "real") => return real_test(given, column, among_singles),
        _ => {}
    }
    // Which text is above or below one that cannot be: the server has no answer.
    let compared = |value: &Scalar| match check(value, column)? {
        Check::Fits => Ok(Fitted::To(given.clone())),
        Check::EqualsNothing => Err(bad_value(column)),
    };
    Ok(match given {
        Test::IsNull => Fitted::To(Test::IsNull),
        Test::Less(value)
        | Test::LessOrEqual(value)
        | Test::Greater(value)
        | Test::GreaterOrEqual(value) => compared(value)?,
        Test::Equal(value) => match check(value, column)? {
            Check::Fits => Fitted::To(given.clone()),
            Check::EqualsNothing => Fitted::Nothing,
        },
        Test::In(values) => {
            let mut fitting = Vec::with_capacity(values.len());
            for value in values {
                if let Check::Fits = check(value, column)? {
                    fitting.push(value.clone());
                }
            }
            Fitted::To(Test::In(fitting))
        }
        Test::Contains(Scalar::Text(text)) | Test::StartsWith(text) => {
            if column.column.kind != Kind::Text {
                return Err(bad_value(column));
            }
            if has_nul(text) { Fitted::Nothing } else { Fitted::To(given.clone()) }
        }
        Test::Contains(_) => return Err(bad_value(column)),
    })
}

enum Check {
    Fits,
    /// It is of the right kind, but the column cannot hold it.
    EqualsNothing,
}

fn check(value: &Scalar, column: &TableColumn) -> Result<Check, CollectionError> {
    match (&column.column.kind, value) {
        (Kind::Boolean, Scalar::Bool(_))
        | (Kind::Blob, Scalar::Blob(_))
        | (Kind::Number, Scalar::Int(_) | Scalar::Real(_) | Scalar::Decimal(_)) => Ok(Check::Fits),
        (Kind::Text, Scalar::Text(text)) if has_nul(text) => Ok(Check::EqualsNothing),
        (Kind::Text, Scalar::Text(_)) => Ok(Check::Fits),
        // The type that has room for one byte takes the first of more.
        (Kind::Named(_), Scalar::Text(text)) if column.sql_type == "\"char\"" => {
            let one = text.len() <= 1 || (text.len() == 4 && text.starts_with('\\'));
            if one && !has_nul(text) { Ok(Check::Fits) } else { Err(bad_value(column)) }
        }
        (Kind::Named(_), Scalar::Text(text)) if !has_nul(text) => Ok(Check::Fits),
        _ => Err(bad_value(column)),
    }
}

/// Where a number lies among the integers that a column holds.
enum Among {
    At(i64),
    /// Between this one and the next.
    Behind(i64),
    Above,
    Below,
}

fn among(value: &Scalar) -> Option<Among> {
    /// 2^63: from here on, a double is above every `bigint`.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Scalar::Int(int) => Some(match i64::try_from(*int) {
            Ok(int) => Among::At(int),
            Err(_) if *int > 0 => Among::Above,
            Err(_) => Among::Below,
        }),
        // The server has NaN above all other numbers.
        Scalar::Real(real) if real.is_nan() || *real >= LIMIT => Some(Among::Above),
        Scalar::Real(real) if *real < -LIMIT => Some(Among::Below),
        Scalar::Real(real) => {
            #[expect(clippy::cast_possible_truncation, reason = "within ±2^63")]
            let floor = real.floor() as i64;
            Some(if real.fract() == 0.0 { Among::At(floor) } else { Among::Behind(floor) })
        }
        // Never one of these integers: it would be one itself.
        Scalar::Decimal(decimal) => Some(match decimal.floor().map(i64::try_from) {
            Some(Ok(floor)) => Among::Behind(floor),
            _ if decimal.is_negative() => Among::Below,
            _ => Among::Above,
        }),
        _ => None,
    }
}

fn integer_test(given: &Test, column: &TableColumn) -> Result<Fitted, CollectionError> {
    let place = |value| among(value).ok_or_else(|| bad_value(column));
    let to = |make: fn(Scalar) -> Test, int: i64| Fitted::To(make(Scalar::Int(int.into())));
    Ok(match given {
        Test::IsNull => Fitted::To(Test::IsNull),
        Test::Equal(value) => match place(value)? {
            Among::At(int) => to(Test::Equal, int),
            _ => Fitted::Nothing,
        },
        Test::In(values) => {
            let mut fitting = Vec::with_capacity(values.len());
            for value in values {
                if let Among::At(int) = place(value)? {
                    fitting.push(Scalar::Int(int.into()));
                }
            }
            Fitted::To(Test::In(fitting))
        }
        Test::Less(value) => match place(value)? {
            Among::At(int) => to(Test::Less, int),
            Among::Behind(int) => to(Test::LessOrEqual, int),
            Among::Above => Fitted::NotNull,
            Among::Below => Fitted::Nothing,
        },
        Test::LessOrEqual(value) => match place(value)? {
            Among::At(int) | Among::Behind(int) => to(Test::LessOrEqual, int),
            Among::Above => Fitted::NotNull,
            Among::Below => Fitted::Nothing,
        },
        Test::Greater(value) => match place(value)? {
            Among::At(int) | Among::Behind(int) => to(Test::Greater, int),
            Among::Above => Fitted::Nothing,
            Among::Below => Fitted::NotNull,
        },
        Test::GreaterOrEqual(value) => match place(value)? {
            Among::At(int) => to(Test::GreaterOrEqual, int),
            Among::Behind(int) => to(Test::Greater, int),
            Among::Above => Fitted::Nothing,
            Among::Below => Fitted::NotNull,
        },
        Test::Contains(_) | Test::StartsWith(_) => return Err(bad_value(column)),
    })
}

/// Where a number lies among what values of type `double precision` stand for.
fn among_doubles(value: &Scalar) -> Option<scalar::Among<f64>> {
    match value {
        Scalar::Real(real) => Some(scalar::Among::At(*real)),
        Scalar::Int(int) => Some(Decimal::of_integer(*int).among_doubles()),
        Scalar::Decimal(decimal) => Some(decimal.among_doubles()),
        _ => None,
    }
}

/// Where a number lies among what values of type `real` stand for: each for the shortest text that
/// is read as it, which is how it is shown. They are given as the doubles of these texts.
fn among_singles(value: &Scalar) -> Option<scalar::Among<f64>> {
    let decimal = match value {
        Scalar::Real(real) if !real.is_finite() => return Some(scalar::Among::At(*real)),
        Scalar::Real(real) => Decimal::parse(&real.to_string())?,
        Scalar::Int(int) => Decimal::of_integer(*int),
        Scalar::Decimal(decimal) => decimal.clone(),
        _ => return None,
    };
    // Both read and write the infinities as well.
    let near: f32 = decimal.as_str().parse().ok()?;
    let shown = |single: f32| single.to_string().parse::<f64>().ok();
    let order = match Decimal::parse(&near.to_string()) {
        Some(near) => decimal.order(&near),
        None if near > 0.0 => Ordering::Less,
        None => Ordering::Greater,
    };
    Some(match order {
        Ordering::Equal => scalar::Among::At(shown(near)?),
        Ordering::Less => scalar::Among::Between(shown(near.next_down())?, shown(near)?),
        Ordering::Greater => scalar::Among::Between(shown(near)?, shown(near.next_up())?),
    })
}

fn real_test(
    given: &Test,
    column: &TableColumn,
    among: fn(&Scalar) -> Option<scalar::Among<f64>>,
) -> Result<Fitted, CollectionError> {
    use scalar::Among::{At, Between};
    let place = |value| among(value).ok_or_else(|| bad_value(column));
    let to = |make: fn(Scalar) -> Test, real: f64| Fitted::To(make(Scalar::Real(real)));
    Ok(match given {
        Test::IsNull => Fitted::To(Test::IsNull),
        Test::Equal(value) => match place(value)? {
            At(real) => to(Test::Equal, real),
            Between(..) => Fitted::Nothing,
        },
        Test::In(values) => {
            let mut fitting = Vec::with_capacity(values.len());
            for value in values {
                if let At(real) = place(value)? {
                    fitting.push(Scalar::Real(real));
                }
            }
            Fitted::To(Test::In(fitting))
        }
        Test::Less(value) => match place(value)? {
            At(real) => to(Test::Less, real),
            Between(below, _) => to(Test::LessOrEqual, below),
        },
        Test::LessOrEqual(value) => match place(value)? {
            At(real) | Between(real, _) => to(Test::LessOrEqual, real),
        },
        Test::Greater(value) => match place(value)? {
            At(real) => to(Test::Greater, real),
            Between(_, above) => to(Test::GreaterOrEqual, above),
        },
        Test::GreaterOrEqual(value) => match place(value)? {
            At(real) | Between(_, real) => to(Test::GreaterOrEqual, real),
        },
        Test::Contains(_) | Test::StartsWith(_) => return Err(bad_value(column)),
    })
}

#[cfg(test)]
mod tests {
    use handback_page::{Column, Member, Preset};
    use proptest::prelude::*;

    use super::*;

    fn of_type(kind: Kind, sql_type: &str) -> TableColumn {
        let name = "n".to_owned();
        let column = Column { name, kind, nullable: true, preset: Preset::Full };
        TableColumn { column, sql_name: "n".into(), sql_type: sql_type.into() }
    }

    fn integers() -> TableColumn {
        of_type(Kind::Integer, "bigint")
    }

    fn any_test() -> impl Strategy<Value = fn(Scalar) -> Test> {
        prop::sample::select(vec![
            Test::Equal as fn(Scalar) -> Test,
            Test::Less,
            Test::LessOrEqual,
            Test::Greater,
            Test::GreaterOrEqual,
            |number| Test::In(vec![number]),
        ])
    }

    /// Doubles around which something happens, and numbers close to them.
    fn any_near() -> impl Strategy<Value = (f64, Scalar)> {
        let edges = [0.1, 1.5, 16_777_216.0, 9_007_199_254_740_992.0, 1e23, 3e38, 1e300, f64::MAX];
        let edge = prop_oneof![prop::sample::select(edges.to_vec()), any::<f64>()];
        (edge, any::<bool>(), -2..3, 0..4).prop_map(|(edge, negative, steps, form)| {
            let edge = if negative { -edge } else { edge };
            let mut near = edge;
            for _ in 0..steps {
                near = near.next_up();
            }
            for _ in steps..0 {
                near = near.next_down();
            }
            #[expect(clippy::cast_possible_truncation, reason = "any integer will do")]
            let int = (near as i128).saturating_add(steps.into());
            let tagged = |text: String| {
                Scalar::from_json(&serde_json::json!({"$decimal": text})).unwrap_or(Scalar::Null)
            };
            let number = match form {
                0 => Scalar::Real(near),
                1 => Scalar::Int(int),
                2 => tagged(format!("{int}.5")),
                _ => tagged(format!("{near:.1}01")),
            };
            let number = if number.is_null() { Scalar::Real(near) } else { number };
            (edge, number)
        })
    }

    fn any_number() -> impl Strategy<Value = Scalar> {
        let edges = [i64::MIN, -1, 0, 1, i64::MAX].map(i128::from);
        prop_oneof![
            prop::sample::select(edges.to_vec()).prop_map(Scalar::Int),
            (-3i128..3).prop_map(Scalar::Int),
            prop::sample::select(vec![i128::MIN, i128::MAX, 1 << 63]).prop_map(Scalar::Int),
            (-3.0f64..3.0).prop_map(Scalar::Real),
            prop::sample::select(vec![
                f64::NAN,
                f64::INFINITY,
                f64::NEG_INFINITY,
                9_223_372_036_854_775_808.0,
                -9_223_372_036_854_775_808.0,
                1.0,
                -0.0,
                0.5,
            ])
            .prop_map(Scalar::Real),
        ]
    }

    fn passes(fitted: &Fitted, value: f64) -> bool {
        match fitted {
            Fitted::To(test) => holds(test, Scalar::Real(value)),
            Fitted::Nothing => false,
            Fitted::NotNull => true,
        }
    }

    fn holds(test: &Test, value: Scalar) -> bool {
        test.holds(&Member::Scalar(std::borrow::Cow::Owned(value)))
    }

    /// A number by its shortest text, which beyond 2^53 may not be its exact value.
    fn written(number: f64, text: &str) -> Scalar {
        Decimal::parse(text).map_or(Scalar::Real(number), Scalar::Decimal)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn doubles_pass_a_fitted_test_as_they_pass_the_one_given(
            (edge, number) in any_near(),
            make in any_test(),
        ) {
            let test = make(number);
            let fitted = super::test(&test, &of_type(Kind::Number, "double precision")).unwrap();
            for value in [edge, edge.next_up(), edge.next_down(), f64::INFINITY, f64::NAN] {
                let expected = holds(&test, Scalar::Real(value));
                prop_assert_eq!(passes(&fitted, value), expected, "{:?} {:?}", value, test);
            }
        }

        #[test]
        fn singles_pass_a_fitted_test_as_what_is_shown_of_them_does(
            (edge, number) in any_near(),
            make in any_test(),
        ) {
            let fitted = test(&make(number.clone()), &of_type(Kind::Number, "real")).unwrap();
            let given = make(match number {
                Scalar::Real(real) => written(real, &real.to_string()),
                other => other,
            });
            #[expect(clippy::cast_possible_truncation, reason = "the nearest one will do")]
            let edge = edge as f32;
            for value in [edge, edge.next_up(), edge.next_down(), f32::INFINITY, f32::NAN] {
                let shown = value.to_string();
                let expected = holds(&given, written(value.into(), &shown));
                let found = passes(&fitted, shown.parse().unwrap());
                prop_assert_eq!(found, expected, "{:?} {:?}", value, given);
            }
        }
    }

    proptest! {
        #[test]
        fn integers_pass_a_fitted_test_as_they_pass_the_one_given(
            value in prop_oneof![Just(i64::MIN), Just(i64::MAX), -4i64..4],
            number in any_number(),
            which in 0..6,
        ) {
            let test = match which {
                0 => Test::Equal(number),
                1 => Test::Less(number),
                2 => Test::LessOrEqual(number),
                3 => Test::Greater(number),
                4 => Test::GreaterOrEqual(number),
                _ => Test::In(vec![number]),
            };
            let scalar = Scalar::Int(value.into());
            let holds = |test: &Test| {
                test.holds(&Member::Scalar(std::borrow::Cow::Borrowed(&scalar)))
            };
            let expected = holds(&test);
            let found = match super::test(&test, &integers()).unwrap() {
                Fitted::To(test) => holds(&test),
                Fitted::Nothing => false,
                Fitted::NotNull => true,
            };
            prop_assert_eq!(found, expected);
        }
    }
}
