//! Going over a value that is longer than what is in memory of it.
//!
//! [`Scan::value`] sees a whole value at once, which is fast, and keeps nothing when it runs out of
//! bytes. A [`Skim`] knows where it is in a value, down to the middle of a text, and goes on with the
//! bytes that come next: a value of a gigabyte takes as much memory as one of a kilobyte. It accepts
//! the same values and finds the same faults.

use super::scan::{Fault, MAX_DEPTH, Scan, Stop, bad};

/// A value that is being gone over.
pub(super) struct Skim {
    /// How many arrays and objects the value is in.
    depth: u32,
    /// One bit per open array or object, the innermost lowest: 1 is an object.
    kinds: u128,
    open: u32,
    next: Next,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Value,
    /// A value, or the end of an array that has just begun.
    ValueOrEnd,
    /// The rest of a text that is a value.
    Text,
    Name,
    /// A name, or the end of an object that has just begun.
    NameOrEnd,
    /// The rest of a name.
    NameText,
    Colon,
    /// What follows a value in an array or object.
    Between,
}

impl Skim {
    /// Before a value in so many arrays and objects.
    pub(super) const fn new(depth: u32) -> Self {
        Self { depth, kinds: 0, open: 0, next: Next::Value }
    }

    /// Goes on from `at` to the end of the value, or as far as there are bytes: then `at` is where to go
    /// on with more of them, never inside of a character.
    pub(super) fn run(&mut self, scan: &Scan<'_>, at: &mut usize) -> Result<(), Stop> {
        loop {
            if !matches!(self.next, Next::Text | Next::NameText) {
                *at = scan.space(*at);
            }
            let is_over = match self.next {
                Next::Value => self.value(scan, at)?,
                Next::ValueOrEnd if scan.byte(*at)? == b']' => self.close(at),
                Next::ValueOrEnd => self.value(scan, at)?,
                Next::NameOrEnd if scan.byte(*at)? == b'}' => self.close(at),
                Next::Name | Next::NameOrEnd => self.name(scan, at)?,
                Next::Text => {
                    scan.rest_of_text(at)?;
                    self.after_value()
                }
                Next::NameText => {
                    scan.rest_of_text(at)?;
                    self.go(Next::Colon)
                }
                Next::Colon if scan.byte(*at)? == b':' => {
                    *at += 1;
                    self.go(Next::Value)
                }
                Next::Colon => return bad(*at, "':' is expected"),
                Next::Between => self.between(scan, at)?,
            };
            if is_over {
                return Ok(());
            }
        }
    }

    fn value(&mut self, scan: &Scan<'_>, at: &mut usize) -> Result<bool, Stop> {
        let (kind, next) = match scan.byte(*at)? {
            b'"' => {
                *at += 1;
                return Ok(self.go(Next::Text));
            }
            b'{' => (1, Next::NameOrEnd),
            b'[' => (0, Next::ValueOrEnd),
            _ => {
                // Short, or not JSON.
                *at = scan.value(*at, self.depth + self.open, &mut ())?;
                return Ok(self.after_value());
            }
        };
        if self.depth + self.open >= MAX_DEPTH {
            return Err(Stop::Bad(Fault::too_deep(*at)));
        }
        self.kinds = self.kinds << 1 | kind;
        self.open += 1;
        *at += 1;
        Ok(self.go(next))
    }

    fn name(&mut self, scan: &Scan<'_>, at: &mut usize) -> Result<bool, Stop> {
        if scan.byte(*at)? != b'"' {
            return bad(*at, "the name of a member is expected, in quotes");
        }
        *at += 1;
        Ok(self.go(Next::NameText))
    }

    fn between(&mut self, scan: &Scan<'_>, at: &mut usize) -> Result<bool, Stop> {
        let is_object = self.kinds & 1 == 1;
        let close = if is_object { b'}' } else { b']' };
        match scan.byte(*at)? {
            b',' => {
                *at += 1;
                Ok(self.go(if is_object { Next::Name } else { Next::Value }))
            }
            byte if byte == close => Ok(self.close(at)),
            _ => Err(Stop::Bad(Fault::not_between(*at, close))),
        }
    }

    fn close(&mut self, at: &mut usize) -> bool {
        *at += 1;
        self.kinds >>= 1;
        self.open -= 1;
        self.after_value()
    }

    const fn after_value(&mut self) -> bool {
        self.next = Next::Between;
        self.open == 0
    }

    const fn go(&mut self, next: Next) -> bool {
        self.next = next;
        false
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{any_value, written};
    use super::*;

    /// Goes over a value that comes in pieces: its end, or the place and the text of the fault.
    fn skim(text: &[u8], piece: usize) -> Result<usize, Option<Fault>> {
        let mut skim = Skim::new(0);
        let (mut done, mut end) = (0, piece);
        loop {
            let end_now = end.min(text.len());
            let is_last = end_now == text.len();
            let bytes = &text[done..end_now];
            let scan = if is_last { Scan::whole(bytes) } else { Scan::part(bytes) };
            let mut at = 0;
            let result = skim.run(&scan, &mut at);
            match result {
                Ok(()) => return Ok(done + at),
                Err(Stop::Incomplete) if is_last => return Err(None),
                Err(Stop::Incomplete) => {}
                Err(Stop::Bad(fault)) => {
                    return Err(Some(Fault { at: done + fault.at, ..fault }));
                }
            }
            assert!(str::from_utf8(&bytes[..at]).is_ok() || str::from_utf8(text).is_err());
            done += at;
            end = end_now + piece;
        }
    }

    fn scan(text: &[u8]) -> Result<usize, Option<Fault>> {
        match Scan::whole(text).value(0, 0, &mut ()) {
            Ok(end) => Ok(end),
            Err(Stop::Incomplete) => Err(None),
            Err(Stop::Bad(fault)) => Err(Some(fault)),
        }
    }

    #[test]
    fn a_text_is_cut_anywhere() {
        let text = r#"{"a":"x\u00e9\ud834\udd1eä€𝄞\\","b":[-1.5e3,true,null,{}]} "#;
        for piece in 1..=text.len() {
            assert_eq!(skim(text.as_bytes(), piece), Ok(text.len() - 1), "{piece}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        for (depth, is_good) in [(128, true), (129, false)] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(skim(text.as_bytes(), 7).is_ok(), is_good);
            assert_eq!(skim(text.as_bytes(), 7), scan(text.as_bytes()));
        }
    }

    proptest! {
        #[test]
        fn a_skim_ends_where_a_scan_does(
            value in any_value(),
            style: u8,
            piece in 1_usize..40,
        ) {
            let text = written(&value, style);
            let text = text.trim_start();
            prop_assert_eq!(skim(text.as_bytes(), piece), scan(text.as_bytes()));
        }

        #[test]
        fn a_skim_finds_what_a_scan_finds(
            value in any_value(),
            style: u8,
            piece in 1_usize..40,
            place: prop::sample::Index,
            byte in prop::sample::select(b"\"\\{}[],:0-1.eEtfnu \x01\xc3".to_vec()),
            cut: bool,
        ) {
            let text = written(&value, style);
            let mut text = text.trim_start().as_bytes().to_vec();
            let place = place.index(text.len());
            if cut {
                text.truncate(place);
            } else {
                text[place] = byte;
            }
            prop_assume!(text.first() != Some(&b' '));
            prop_assert_eq!(skim(&text, piece), scan(&text));
        }
    }
}
