//! Values of sort keys as bytes that are ordered like the values.
//!
//! Sorting a million items by bytes in one buffer takes a fraction of the memory that a million
//! lists of values take, and comparing them is comparing memory. One value after the other:
//!
//! | value | bytes |
//! |---|---|
//! | null, first | `00` |
//! | null, last | `ff` |
//! | boolean | `01`, then `00` or `01` |
//! | number | `02`, the greatest double that is not above it (8 bytes, ordered), what is left as a length and that many bytes |
//! | text | `03`, its bytes with `00` written as `00 ff`, then `00 00` |
//! | bytes | `04`, as text |
//!
//! A descending key has all bytes of a value that is not null inverted. No value's bytes are the
//! start of another's, so that a run of them is compared value by value.

use crate::order::{Direction, Nulls, Order, SortKey};
use crate::scalar::Scalar;

/// Appends the bytes of one value per sort key.
pub(crate) fn write(order: &Order, values: impl IntoIterator<Item = Scalar>, out: &mut Vec<u8>) {
    for (key, value) in order.keys().iter().zip(values) {
        write_value(key, &value, out);
    }
}

fn write_value(key: &SortKey, value: &Scalar, out: &mut Vec<u8>) {
    if value.is_null() {
        out.push(match key.nulls {
            Nulls::First => 0x00,
            Nulls::Last => 0xff,
        });
        return;
    }
    let start = out.len();
    out.push(value.rank());
    match value {
        Scalar::Null => {}
        Scalar::Bool(value) => out.push(u8::from(*value)),
        Scalar::Int(int) => write_int(*int, out),
        Scalar::Real(real) => write_number(*real, 0, out),
        // Items are sorted by the nearest double.
        Scalar::Decimal(decimal) => write_number(decimal.nearest(), 0, out),
        Scalar::Text(text) => write_bytes(text.as_bytes(), out),
        Scalar::Blob(bytes) => write_bytes(bytes, out),
    }
    if key.direction == Direction::Descending {
        out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a whole number within ±2^127")]
#[expect(clippy::cast_precision_loss, reason = "what is lost is written as well")]
fn write_int(int: i128, out: &mut Vec<u8>) {
    /// 2^127, to which integers just below it are rounded.
    const LIMIT: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;
    let mut double = int as f64;
    if double >= LIMIT || double as i128 > int {
        double = double.next_down();
    }
    write_number(double, int.abs_diff(double as i128), out);
}

fn write_number(double: f64, rest: u128, out: &mut Vec<u8>) {
    // Both zeros are one value, and so are all NaNs.
    let bits = match double {
        0.0 => 0,
        double if double.is_nan() => f64::NAN.to_bits() & !SIGN,
        double => double.to_bits(),
    };
    let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    out.extend_from_slice(&ordered.to_be_bytes());
    let rest = rest.to_be_bytes();
    let zeros = rest.iter().take_while(|byte| **byte == 0).count();
    let rest = rest.get(zeros..).unwrap_or_default();
    out.push(u8::try_from(rest.len()).unwrap_or(u8::MAX));
    out.extend_from_slice(rest);
}

const SIGN: u64 = 1 << 63;

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    let mut parts = bytes.split(|byte| *byte == 0);
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        out.extend_from_slice(&[0x00, 0xff]);
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&[0x00, 0x00]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schema::FieldPath;

    fn any_scalar() -> impl Strategy<Value = Scalar> {
        let edge = prop_oneof![
            Just(0_i128),
            Just(1 << 53),
            Just((1 << 53) + 1),
            Just(i128::from(u64::MAX)),
            Just(i128::MAX),
            Just(i128::MIN),
            Just(1 << 126),
        ];
        let near = (edge, -3_i128..4).prop_map(|(edge, by)| edge.saturating_add(by));
        prop_oneof![
            Just(Scalar::Null),
            any::<bool>().prop_map(Scalar::Bool),
            near.clone().prop_map(Scalar::Int),
            any::<i128>().prop_map(Scalar::Int),
            #[expect(clippy::cast_precision_loss, reason = "any double will do")]
            near.prop_map(|int| Scalar::Real(int as f64)),
            any::<f64>().prop_map(Scalar::Real),
            prop_oneof![
                Just(0.0),
                Just(-0.0),
                Just(f64::NAN),
                Just(-f64::NAN),
                Just(f64::INFINITY),
                Just(f64::NEG_INFINITY),
                Just(0.5),
            ]
            .prop_map(Scalar::Real),
            "[\0\u{1}a\u{ff}]{0,3}".prop_map(Scalar::Text),
            prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255)], 0..3)
                .prop_map(Scalar::Blob),
        ]
    }

    fn any_order() -> impl Strategy<Value = Order> {
        let key = (any::<bool>(), any::<bool>()).prop_map(|(descending, nulls_first)| SortKey {
            field: FieldPath::name("x"),
            direction: if descending { Direction::Descending } else { Direction::Ascending },
            nulls: if nulls_first { Nulls::First } else { Nulls::Last },
            nullable: true,
        });
        prop::collection::vec(key, 2).prop_map(Order::new)
    }

    fn bytes(order: &Order, values: &[Scalar]) -> Vec<u8> {
        let mut out = vec![];
        write(order, values.iter().cloned(), &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(5000))]

        #[test]
        fn bytes_are_ordered_like_values(
            order in any_order(),
            a in prop::collection::vec(any_scalar(), 2),
            b in prop::collection::vec(any_scalar(), 2),
        ) {
            prop_assert_eq!(bytes(&order, &a).cmp(&bytes(&order, &b)), order.order(&a, &b));
        }
    }
}
