//! Identities as text: lower-case hexadecimal, which is their only spelling.

use std::fmt;
use std::str::FromStr;

use crate::chain::Head;
use crate::name::StreamId;
use crate::sign::KeyId;

/// A text that is not the lower-case hexadecimal of what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not lower-case hexadecimal of the right length")]
#[non_exhaustive]
pub struct BadHex;

/// The bytes that a text has.
pub(crate) fn decode<const N: usize>(text: &str) -> Result<[u8; N], BadHex> {
    if text.len() != 2 * N {
        return Err(BadHex);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return Err(BadHex) };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Ok(bytes)
}

const fn digit(byte: u8) -> Result<u8, BadHex> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        _ => Err(BadHex),
    }
}

/// Writes bytes.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for StreamId {
    type Err = BadHex;

    fn from_str(text: &str) -> Result<Self, BadHex> {
        decode(text).map(Self::from_bytes)
    }
}

impl FromStr for Head {
    type Err = BadHex;

    fn from_str(text: &str) -> Result<Self, BadHex> {
        decode(text).map(Self::from_bytes)
    }
}

impl FromStr for KeyId {
    type Err = BadHex;

    fn from_str(text: &str) -> Result<Self, BadHex> {
        decode(text).map(Self::from_bytes)
    }
}

impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Hex(self.as_bytes()).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_text_for_an_identity() {
        let head = Head::from_bytes([0xab; 32]);
        assert_eq!(head.to_string(), "ab".repeat(32));
        assert_eq!(head.to_string().parse(), Ok(head));
        for bad in ["", "ab", &"AB".repeat(32), &"ab".repeat(33), &"zz".repeat(32), &"é".repeat(32)]
        {
            assert_eq!(bad.parse::<Head>(), Err(BadHex), "{bad}");
        }
        assert_eq!("0001020304050607".parse(), Ok(KeyId::from_bytes([0, 1, 2, 3, 4, 5, 6, 7])));
        let stream = StreamId::from_bytes([9; 24]);
        assert_eq!(stream.to_string().parse(), Ok(stream));
    }
}
