//! What cursors and task ids of upstreams are made of, once they are opened.
//!
//! ```text
//! upstream = length u8 || its name
//! payload = 00 || upstream                                  the start of its list
//!         | 00 || upstream || 00 || its own cursor
//!         | 01 || upstream || id of a spilled one, 16 bytes
//! task id = "t" || the id of a spilled value, 32 lower-case hexadecimal digits
//! ```

const INLINE: u8 = 0;
const SPILLED: u8 = 1;

/// Bytes of the id of something that was spilled.
pub const ID_BYTES: usize = 16;

/// A place in a list over several upstreams.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct Payload {
    /// The name of the upstream, of 255 bytes at most.
    pub upstream: String,
    /// Where in its list.
    pub at: At,
}

/// A place in the list of one upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "a format, which has these")]
pub enum At {
    /// Its start.
    Start,
    /// At a cursor of the upstream.
    Cursor(String),
    /// At one that was spilled under an id.
    Spilled([u8; ID_BYTES]),
}

impl Payload {
    /// Its bytes; nothing, if the name is too long.
    #[must_use]
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let name = self.upstream.as_bytes();
        let length = u8::try_from(name.len()).ok()?;
        let (kind, separator, rest): (_, &[u8], &[u8]) = match &self.at {
            At::Start => (INLINE, &[], &[]),
            At::Cursor(cursor) => (INLINE, &[0], cursor.as_bytes()),
            At::Spilled(id) => (SPILLED, &[], id),
        };
        Some([&[kind, length], name, separator, rest].concat())
    }

    /// The payload that has these bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let [kind, length, rest @ ..] = bytes else { return None };
        let (name, rest) = rest.split_at_checked(usize::from(*length))?;
        let upstream = str::from_utf8(name).ok()?.to_owned();
        let at = match (*kind, rest) {
            (INLINE, []) => At::Start,
            (INLINE, [0, cursor @ ..]) => At::Cursor(str::from_utf8(cursor).ok()?.to_owned()),
            (SPILLED, id) => At::Spilled(id.try_into().ok()?),
            _ => return None,
        };
        Some(Self { upstream, at })
    }
}

/// The id of a task as clients have it.
#[must_use]
pub fn task_id(id: [u8; ID_BYTES]) -> String {
    format!("t{:032x}", u128::from_be_bytes(id))
}

/// The id of the spilled value that a task id names. It has one form only.
#[must_use]
pub fn read_task_id(text: &str) -> Option<[u8; ID_BYTES]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let hex = text.strip_prefix('t').filter(|hex| hex.len() == 2 * ID_BYTES)?;
    // A sign would be read as well.
    let number = hex.bytes().all(is_digit).then(|| u128::from_str_radix(hex, 16).ok())??;
    Some(number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_at() -> impl Strategy<Value = At> {
        prop_oneof![
            Just(At::Start),
            any::<String>().prop_map(At::Cursor),
            any::<[u8; ID_BYTES]>().prop_map(At::Spilled),
        ]
    }

    #[test]
    fn a_name_that_is_too_long_has_no_place() {
        let named = |length| Payload { upstream: "x".repeat(length), at: At::Start }.to_bytes();
        assert_eq!((named(255).map(|bytes| bytes.len()), named(256)), (Some(257), None));
    }

    #[test]
    fn a_task_id_has_one_form() {
        let good = task_id([0xa1; ID_BYTES]);
        assert_eq!(read_task_id(&good), Some([0xa1; ID_BYTES]));
        let others = [
            good.to_uppercase(),
            good.replace('a', "A"),
            format!("t+{}", &good[2..]),
            good[1..].to_owned(),
            format!("{good}0"),
            good[..32].to_owned(),
            String::new(),
            "t".to_owned(),
            format!("té{}", &good[3..]),
        ];
        for other in others {
            assert_eq!(read_task_id(&other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            upstream in "[a-zß]{0,127}", at in any_at(), id: [u8; ID_BYTES],
        ) {
            let payload = Payload { upstream, at };
            prop_assert_eq!(Payload::read(&payload.to_bytes().unwrap()), Some(payload));
            prop_assert_eq!(read_task_id(&task_id(id)), Some(id));
        }

        #[test]
        fn other_bytes_have_no_second_form(bytes in prop::collection::vec(0_u8..4, 0..20)) {
            if let Some(payload) = Payload::read(&bytes) {
                prop_assert_eq!(payload.to_bytes(), Some(bytes));
            }
        }
    }
}
