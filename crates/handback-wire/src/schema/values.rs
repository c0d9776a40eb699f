//! Comparison of JSON values: `1` and `1.0` are the same number.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Values in a value, itself included, and a share of the bytes of its texts.
pub(super) fn size(value: &Value) -> u64 {
    1 + match value {
        Value::String(text) => text.len() as u64 / 64,
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len() as u64 / 64 + size(value)).sum()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

/// Objects in a value, itself included.
pub(super) fn objects(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(objects).sum(),
        Value::Object(members) => 1 + members.values().map(objects).sum::<usize>(),
        _ => 0,
    }
}

pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let is_in = |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| equal(a, b));
            a.len() == b.len() && a.iter().all(is_in)
        }
        (Value::Number(a), Value::Number(b)) => compare(a, b).is_eq(),
        (a, b) => a == b,
    }
}

/// A total order of values, in which those that are equal are side by side.
pub(super) fn order(a: &Value, b: &Value) -> Ordering {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            let first = a.iter().zip(b).map(|(a, b)| order(a, b)).find(|order| order.is_ne());
            first.unwrap_or_else(|| a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => order_of_members(a, b),
        (Value::Number(a), Value::Number(b)) => compare(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (a, b) => kind(a).cmp(&kind(b)),
    }
}

/// Orders objects by their number of members first. Else a sorting could read a large object once for
/// each of many small ones.
fn order_of_members(a: &Map<String, Value>, b: &Map<String, Value>) -> Ordering {
    fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
        let mut members: Vec<_> = members.iter().collect();
        members.sort_by_key(|(name, _)| *name);
        members
    }
    if a.len() != b.len() {
        return a.len().cmp(&b.len());
    }
    let members = sorted(a).into_iter().zip(sorted(b));
    let of = |((name, a), (other, b)): ((&String, &Value), (&String, &Value))| {
        name.cmp(other).then_with(|| order(a, b))
    };
    members.map(of).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

const fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Compares numbers exactly, also an integer beyond 2^53 with a double.
pub(super) fn compare(a: &Number, b: &Number) -> Ordering {
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => with_double(a, double(b)),
        (None, Some(b)) => with_double(b, double(a)).reverse(),
        (None, None) => double(a).total_cmp(&double(b)),
    }
}

/// A number as a double, and zero without a sign.
fn double(number: &Number) -> f64 {
    number.as_f64().unwrap_or_default() + 0.0
}

fn with_double(integer: i128, double: f64) -> Ordering {
    // Beyond all integers of JSON as serde_json has them.
    if double >= 18_446_744_073_709_551_616.0 {
        return Ordering::Less;
    }
    if double < -9_223_372_036_854_775_808.0 {
        return Ordering::Greater;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was compared with the limits")]
    let whole = double.floor() as i128;
    integer.cmp(&whole).then(if double > double.floor() { Ordering::Less } else { Ordering::Equal })
}

/// Reports an integer, also one that is written with a fraction of zero.
pub(super) fn is_integer(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || double(number).fract() == 0.0
}

/// Reports that `number` is a multiple, by their decimal digits: 0.3 is one of 0.1.
pub(super) fn is_multiple(number: &Number, of: &Number) -> bool {
    let in_decimals = || {
        let (number, of) = (decimal(number)?, decimal(of)?);
        let exponent = number.1.min(of.1);
        let scaled = |(digits, own): (i128, i32)| {
            let power = 10_i128.checked_pow(u32::try_from(own - exponent).ok()?)?;
            digits.checked_mul(power)
        };
        scaled(number)?.checked_rem(scaled(of)?).map(|rest| rest == 0)
    };
    in_decimals().unwrap_or_else(|| {
        let rest = double(number) % double(of);
        rest == 0.0
    })
}

/// The shortest digits of a number, and the power of ten that they are multiplied with.
fn decimal(number: &Number) -> Option<(i128, i32)> {
    let text = number.to_string();
    let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, exponent - i32::try_from(fraction.len()).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn compares_numbers_exactly() {
        for (a, b, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("9007199254740993", "9007199254740992.0", Ordering::Greater),
            ("18446744073709551615", "18446744073709551616.0", Ordering::Less),
            ("-0.0", "0", Ordering::Equal),
            ("-0.0", "0.0", Ordering::Equal),
            ("-1", "-0.5", Ordering::Less),
            ("-1", "-1.5", Ordering::Greater),
            ("1e300", "1e299", Ordering::Greater),
        ] {
            assert_eq!(compare(&number(a), &number(b)), expected, "{a} {b}");
            assert_eq!(compare(&number(b), &number(a)), expected.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn multiples_are_of_decimals() {
        for (a, b, expected) in [
            ("0.3", "0.1", true),
            ("0.0075", "0.0001", true),
            ("0.00751", "0.0001", false),
            ("7", "2", false),
            ("1e308", "0.5", true),
            ("4.0", "2", true),
            ("0", "3", true),
        ] {
            assert_eq!(is_multiple(&number(a), &number(b)), expected, "{a} {b}");
        }
    }
}
