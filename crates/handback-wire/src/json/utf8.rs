//! UTF-8 in pieces.

/// What is left of a character whose other bytes are in the next piece.
#[derive(Debug)]
pub(crate) struct Utf8 {
    bytes: [u8; 4],
    length: usize,
}

impl Utf8 {
    pub(crate) const fn new() -> Self {
        Self { bytes: [0; 4], length: 0 }
    }

    /// Checks bytes that follow those before; otherwise tells where the fault is, from their start:
    /// the character may have begun before.
    pub(crate) fn check(&mut self, piece: &[u8]) -> Result<(), i64> {
        let mut rest = piece;
        let begun = -i64::try_from(self.length).unwrap_or_default();
        while self.length > 0 {
            let Some((&byte, after)) = rest.split_first() else { return Ok(()) };
            let Some(place) = self.bytes.get_mut(self.length) else { return Err(begun) };
            *place = byte;
            self.length += 1;
            rest = after;
            match str::from_utf8(self.bytes.get(..self.length).unwrap_or_default()) {
                Ok(_) => self.length = 0,
                Err(error) if error.error_len().is_some() => return Err(begun),
                Err(_) => {}
            }
        }
        // Most text is ASCII, and that is seen in half the time.
        if rest.is_ascii() {
            return Ok(());
        }
        let Err(error) = str::from_utf8(rest) else { return Ok(()) };
        if error.error_len().is_some() {
            let at = piece.len() - rest.len() + error.valid_up_to();
            return Err(i64::try_from(at).unwrap_or(i64::MAX));
        }
        let tail = rest.get(error.valid_up_to()..).unwrap_or_default();
        self.length = tail.len();
        self.bytes.iter_mut().zip(tail).for_each(|(place, byte)| *place = *byte);
        Ok(())
    }
}

/// The longest start of `text` that has at most `most` bytes and ends with a character.
pub(crate) fn floor(text: &[u8], most: usize) -> usize {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let most = most.min(text.len());
    (0..=most).rev().find(|at| !is_inside(*at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(bytes: &[u8], chunk: usize) -> bool {
        let mut utf8 = Utf8::new();
        bytes.chunks(chunk).all(|piece| utf8.check(piece).is_ok()) && utf8.length == 0
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(
            text: String,
            damage in proptest::option::of((any::<prop::sample::Index>(), any::<u8>())),
            chunk in 1_usize..7,
        ) {
            let mut bytes = text.into_bytes();
            if let (Some((at, byte)), false) = (damage, bytes.is_empty()) {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            prop_assert_eq!(check(&bytes, chunk), str::from_utf8(&bytes).is_ok());
        }

        #[test]
        fn a_floor_is_a_boundary(text: String, most in 0_usize..40) {
            let at = floor(text.as_bytes(), most);
            prop_assert!(text.is_char_boundary(at) && at <= most);
            prop_assert!(most >= text.len() || most - at < 4);
        }
    }
}
