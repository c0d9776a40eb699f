//! Offsets as clients see them.

use std::fmt;
use std::str::FromStr;

/// Digits of an offset: enough for every number that a stream can have.
const DIGITS: usize = 16;

/// What stands before them. Some clients take the place before the first record to be written so.
const FRONT: &str = "0000000000000000_";

/// A place between two records of a stream: behind the one with this number. Its text sorts as the
/// number does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Offset(u64);

impl Offset {
    /// Behind the record of this number.
    #[must_use]
    pub const fn after(number: u64) -> Self {
        Self(number)
    }

    /// The number of the record that it is behind.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Its text, without the machinery that formats numbers in general.
    #[must_use]
    pub fn to_bytes(self) -> [u8; FRONT.len() + DIGITS] {
        let mut text = [b'0'; FRONT.len() + DIGITS];
        let (front, digits) = text.split_at_mut(FRONT.len());
        front.copy_from_slice(FRONT.as_bytes());
        let mut rest = self.0;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
        }
        text
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FRONT}{:0DIGITS$}", self.0)
    }
}

/// A text that is no offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an offset")]
#[non_exhaustive]
pub struct OffsetError;

impl FromStr for Offset {
    type Err = OffsetError;

    fn from_str(text: &str) -> Result<Self, OffsetError> {
        let digits = text.strip_prefix(FRONT).ok_or(OffsetError)?;
        if digits.len() != DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(OffsetError);
        }
        digits.parse().map(Self).map_err(|_| OffsetError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_sort_as_numbers_do() {
        let mut numbers = vec![0, 1, 9, 10, 99, 1 << 32, 9_999_999_999_999_999];
        numbers.sort_by_key(|number| Offset::after(*number).to_string());
        assert!(numbers.is_sorted());
        for number in numbers {
            let offset = Offset::after(number);
            assert_eq!(offset.to_string().parse(), Ok(offset));
            assert_eq!(offset.to_string().as_bytes(), offset.to_bytes());
        }
    }

    #[test]
    fn there_is_one_text_for_an_offset() {
        for text in [
            "",
            "1",
            "-1",
            "now",
            "0000000000000000",
            "0000000000000000_1",
            "0000000000000000_+000000000000001",
            "0000000000000001_0000000000000001",
            "0000000000000000_00000000000000001",
        ] {
            assert_eq!(text.parse::<Offset>(), Err(OffsetError), "{text}");
        }
    }
}
