//! Places in an order as bytes: the payload of page cursors.
//!
//! | bytes | meaning |
//! |---|---|
//! | `01` values | a place: one value after the other, to the end |
//! | `02` id (16) | a place that is too long for a cursor, kept on the shelf under this id |
//! | `03` id (16) values | a place in a snapshot that is kept on the shelf under this id |
//!
//! A value is one byte and what follows it: `00` null, `01` false, `02` true, `03` an integer
//! (zigzag, LEB128), `04` a double (8 bytes, big endian), `05` text and `06` bytes (length in
//! LEB128, then the bytes). Leftover or missing bytes, overlong lengths and text that is not UTF-8
//! are errors.

use crate::scalar::Scalar;
use crate::shelf::{SHELF_ID_BYTES, ShelfId};

/// How many values a place may have: sort keys, key columns and what a collection adds.
pub(crate) const MAX_PLACE_VALUES: usize = 4096;

/// What a cursor stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A place in a collection.
    Here(Vec<Scalar>),
    /// The same, kept elsewhere because it is long.
    Kept(ShelfId),
    /// A place in a snapshot.
    InSnapshot(ShelfId, Vec<Scalar>),
}

impl Place {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        match self {
            Self::Here(values) => {
                out.push(1);
                encode_values(values, &mut out);
            }
            Self::Kept(id) => {
                out.push(2);
                out.extend_from_slice(id.as_bytes());
            }
            Self::InSnapshot(id, values) => {
                out.push(3);
                out.extend_from_slice(id.as_bytes());
                encode_values(values, &mut out);
            }
        }
        out
    }

    /// Reads what [`encode`](Self::encode) wrote; nothing else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            1 => Some(Self::Here(decode_values(rest)?)),
            2 => Some(Self::Kept(ShelfId::from_bytes(rest.try_into().ok()?))),
            3 => {
                let (id, rest) = rest.split_first_chunk::<SHELF_ID_BYTES>()?;
                Some(Self::InSnapshot(ShelfId::from_bytes(*id), decode_values(rest)?))
            }
            _ => None,
        }
    }
}

fn encode_values(values: &[Scalar], out: &mut Vec<u8>) {
    for value in values {
        match value {
            Scalar::Null => out.push(0),
            Scalar::Bool(false) => out.push(1),
            Scalar::Bool(true) => out.push(2),
            Scalar::Int(int) => {
                out.push(3);
                #[expect(clippy::cast_sign_loss, reason = "zigzag: the sign goes to the last bit")]
                leb128(((int << 1) ^ (int >> 127)) as u128, out);
            }
            Scalar::Real(real) => {
                out.push(4);
                out.extend_from_slice(&real.to_be_bytes());
            }
            Scalar::Decimal(decimal) => {
                // No collection has one in a place; this is where it would be.
                out.push(4);
                out.extend_from_slice(&decimal.nearest().to_be_bytes());
            }
            Scalar::Text(text) => {
                out.push(5);
                leb128(text.len() as u128, out);
                out.extend_from_slice(text.as_bytes());
            }
            Scalar::Blob(bytes) => {
                out.push(6);
                leb128(bytes.len() as u128, out);
                out.extend_from_slice(bytes);
            }
        }
    }
}

fn decode_values(mut bytes: &[u8]) -> Option<Vec<Scalar>> {
    let mut values = Vec::new();
    while let Some((kind, rest)) = bytes.split_first() {
        if values.len() == MAX_PLACE_VALUES {
            return None;
        }
        bytes = rest;
        values.push(match kind {
            0 => Scalar::Null,
            1 => Scalar::Bool(false),
            2 => Scalar::Bool(true),
            3 => {
                let zigzag = take_leb128(&mut bytes)?;
                let half = i128::try_from(zigzag >> 1).ok()?;
                Scalar::Int(if zigzag & 1 == 0 { half } else { !half })
            }
            4 => {
                let (real, rest) = bytes.split_first_chunk()?;
                bytes = rest;
                Scalar::Real(f64::from_be_bytes(*real))
            }
            5 => Scalar::Text(String::from_utf8(take_bytes(&mut bytes)?).ok()?),
            6 => Scalar::Blob(take_bytes(&mut bytes)?),
            _ => return None,
        });
    }
    Some(values)
}

fn leb128(mut value: u128, out: &mut Vec<u8>) {
    loop {
        let low = u8::try_from(value & 0x7f).expect("seven bits");
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn take_leb128(bytes: &mut &[u8]) -> Option<u128> {
    let mut value = 0u128;
    for shift in (0..128).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u128::from(byte & 0x7f);
        let shifted = low << shift;
        if shifted >> shift != low {
            return None;
        }
        value |= shifted;
        if byte & 0x80 == 0 {
            // A last byte of zero would be a second spelling of the same number.
            return (*byte != 0 || shift == 0).then_some(value);
        }
    }
    None
}

fn take_bytes(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(take_leb128(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(taken.to_vec())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_scalar() -> impl Strategy<Value = Scalar> {
        prop_oneof![
            Just(Scalar::Null),
            any::<bool>().prop_map(Scalar::Bool),
            any::<i128>().prop_map(Scalar::Int),
            any::<i16>().prop_map(|int| Scalar::Int(int.into())),
            any::<f64>().prop_map(Scalar::Real),
            any::<String>().prop_map(Scalar::Text),
            any::<Vec<u8>>().prop_map(Scalar::Blob),
        ]
    }

    fn any_place() -> impl Strategy<Value = Place> {
        let values = prop::collection::vec(any_scalar(), 0..6);
        (0..3, any::<[u8; 16]>(), values).prop_map(|(kind, id, values)| match kind {
            0 => Place::Here(values),
            1 => Place::Kept(ShelfId::from_bytes(id)),
            _ => Place::InSnapshot(ShelfId::from_bytes(id), values),
        })
    }

    proptest! {
        #[test]
        fn a_place_round_trips(place in any_place()) {
            prop_assert_eq!(Place::decode(&place.encode()), Some(place));
        }

        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes: Vec<u8>) {
            if let Some(place) = Place::decode(&bytes) {
                prop_assert_eq!(place.encode(), bytes);
            }
        }

        #[test]
        fn a_cut_place_is_no_longer_place(place in any_place()) {
            let bytes = place.encode();
            for len in 0..bytes.len() {
                prop_assert_ne!(Place::decode(&bytes[..len]), Some(place.clone()));
            }
        }
    }

    #[test]
    fn overlong_numbers_are_refused() {
        assert_eq!(Place::decode(&[1, 3, 0x80, 0]), None);
        assert_eq!(Place::decode(&[1, 3, 0x02]), Some(Place::Here(vec![Scalar::Int(1)])));
        let mut longest = vec![1, 3];
        longest.extend([0xff; 18]);
        for last in [0x03, 0x04] {
            let mut bytes = longest.clone();
            bytes.push(last);
            assert_eq!(Place::decode(&bytes).is_some(), last == 0x03);
        }
        assert_eq!(Place::decode(&[1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f, b'x']), None);
        assert_eq!(Place::decode(&[]), None);
        assert_eq!(Place::decode(&[9]), None);
        let many = [vec![1], vec![0; MAX_PLACE_VALUES + 1]].concat();
        assert_eq!(Place::decode(&many), None);
    }
}
