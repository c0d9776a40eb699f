//! Going over a value that need not fit into memory.

use super::scan::{Fault, Guide, MAX_DEPTH, Stop};
use super::window::Window;
use crate::collection::CollectionError;

/// Goes over the value that starts where the window is, below `depth` arrays and objects. However
/// long it is, the window has no more of it at once than one number, name or literal needs.
pub(super) fn skip(
    window: &mut Window<'_>,
    depth: u32,
    guide: &mut impl Guide,
) -> Result<(), CollectionError> {
    // Most values are there as a whole.
    match window.scan().value(window.done(), depth, guide) {
        Ok(end) => {
            window.set_done(end);
            Ok(())
        }
        Err(Stop::Incomplete) => Pieces::new(window, depth).skip(),
        Err(stop) => window.go_on(stop),
    }
}

/// A value that is gone over in pieces.
struct Pieces<'w, 's> {
    window: &'w mut Window<'s>,
    /// How many arrays and objects the value is in.
    depth: u32,
    /// One bit per open array or object, the innermost lowest: 1 is an object.
    kinds: u128,
    open: u32,
    /// Where the value starts.
    start: u64,
    /// Bytes that were looked at in vain.
    wasted: u64,
}

impl<'w, 's> Pieces<'w, 's> {
    fn new(window: &'w mut Window<'s>, depth: u32) -> Self {
        let start = window.offset(window.done());
        let wasted = (window.bytes().len() - window.done()) as u64;
        Self { window, depth, kinds: 0, open: 0, start, wasted }
    }

    fn skip(mut self) -> Result<(), CollectionError> {
        loop {
            let is_over = match self.peek()? {
                b'"' => self.text().map(|()| true)?,
                first @ (b'{' | b'[') => self.whole()? || !self.enter(first == b'{')?,
                _ => self.scalar().map(|()| true)?,
            };
            if is_over && !self.next()? {
                return Ok(());
            }
        }
    }

    /// Goes over an array or object at once, if the window has all of it. That it has not is found
    /// out by looking at the rest of the window: it is not tried more often than pays.
    fn whole(&mut self) -> Result<bool, CollectionError> {
        let at = self.window.done();
        if self.wasted > self.window.offset(at) - self.start {
            return Ok(false);
        }
        match self.window.scan().value(at, self.depth + self.open, &mut ()) {
            Ok(end) => {
                self.window.set_done(end);
                Ok(true)
            }
            Err(Stop::Incomplete) => {
                self.wasted += (self.window.bytes().len() - at) as u64;
                Ok(false)
            }
            Err(stop) => self.window.go_on(stop).map(|()| false),
        }
    }

    /// Goes into an array or object, up to its first value; whether it has one. Else it is over.
    fn enter(&mut self, is_object: bool) -> Result<bool, CollectionError> {
        let depth = self.depth + self.open;
        self.window.step(|_, at| match depth {
            0..MAX_DEPTH => Ok(((), at + 1)),
            _ => Err(Stop::Bad(Fault::too_deep(at))),
        })?;
        if self.peek()? == close(is_object) {
            self.window.set_done(self.window.done() + 1);
            return Ok(false);
        }
        self.kinds = self.kinds << 1 | u128::from(is_object);
        self.open += 1;
        if is_object {
            self.name()?;
        }
        Ok(true)
    }

    /// Goes on to the next value, out of what ends here; whether there is one.
    fn next(&mut self) -> Result<bool, CollectionError> {
        while self.open > 0 {
            let is_object = self.kinds & 1 == 1;
            let byte = self.peek()?;
            let at = self.window.done();
            if byte == b',' {
                self.window.set_done(at + 1);
                self.peek()?;
                if is_object {
                    self.name()?;
                }
                return Ok(true);
            }
            if byte != close(is_object) {
                self.window.go_on(Stop::Bad(Fault::not_between(at, close(is_object))))?;
            }
            self.window.set_done(at + 1);
            self.kinds >>= 1;
            self.open -= 1;
        }
        Ok(false)
    }

    fn text(&mut self) -> Result<(), CollectionError> {
        self.window.set_done(self.window.done() + 1);
        loop {
            match self.window.scan().string_part(self.window.done()) {
                Ok((end, ends)) => {
                    self.window.set_done(end);
                    if ends {
                        return Ok(());
                    }
                    self.window.go_on(Stop::Incomplete)?;
                }
                Err(stop) => self.window.go_on(stop)?,
            }
        }
    }

    fn scalar(&mut self) -> Result<(), CollectionError> {
        let depth = self.depth + self.open;
        self.window.step(|scan, at| Ok(((), scan.value(at, depth, &mut ())?)))
    }

    fn name(&mut self) -> Result<(), CollectionError> {
        self.window.step(|scan, at| Ok(((), scan.name(at)?)))
    }

    /// Goes on to the next byte that is not white space.
    fn peek(&mut self) -> Result<u8, CollectionError> {
        self.window.step(|scan, at| {
            let at = scan.space(at);
            Ok((scan.byte(at)?, at))
        })
    }
}

const fn close(is_object: bool) -> u8 {
    if is_object { b'}' } else { b']' }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::ops::Range;
    use std::sync::atomic::{AtomicU64, Ordering};

    use proptest::prelude::*;
    use serde_json::Value;

    use super::super::index::locate;
    use super::super::pointer::Pointer;
    use super::super::source::{ByteSource, InMemory};
    use super::super::tests::{any_value, written};
    use super::super::window::READ_BYTES;
    use super::*;

    /// Goes over a text in windows of `chunk` bytes.
    fn skipped(text: &[u8], chunk: usize) -> Result<u64, String> {
        let source = InMemory::new(text, 0);
        let mut window = Window::new(&source, chunk).map_err(|error| error.to_string())?;
        let skipped = Pieces::new(&mut window, 0).skip().and_then(|()| window.check_utf8());
        skipped.map_err(|error| error.to_string())?;
        Ok(window.offset(window.done()))
    }

    #[track_caller]
    fn check(text: &str) {
        let whole = serde_json::from_str::<Value>(text).is_ok();
        for chunk in [1, 2, 3, 7, 64] {
            let end = skipped(text.as_bytes(), chunk);
            let is_whole = end == Ok(text.len() as u64);
            assert_eq!(is_whole, whole, "{text} {chunk} {end:?}");
        }
    }

    #[test]
    fn values_are_gone_over_and_faults_are_found() {
        for text in [
            "1",
            "-1.5e3",
            "true",
            "null",
            r#""""#,
            r#""aé😀\n\u00e9\ud83d\ude00""#,
            "[]",
            "{}",
            "[ [ ] , { } ]",
            r#"{"a" : [1, {"b\"":"}"}] , "c":{}}"#,
            "[1 2]",
            r#"{"a";1}"#,
            r#"{"a":1]"#,
            "[1,]",
            "[,1]",
            r#""\ud83d""#,
            r#""\x""#,
            "\"\u{1}\"",
            "[\"",
            "nul",
        ] {
            check(text);
        }
        assert!(skipped(b"\"\xc3\"", 1).is_err());
        assert!(skipped(b"\"\xed\xa0\x80\"", 2).is_err());
    }

    #[test]
    fn the_depth_is_bounded() {
        let nested = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        for chunk in [1, 200, READ_BYTES] {
            assert_eq!(skipped(nested(128).as_bytes(), chunk), Ok(256));
            assert!(skipped(nested(129).as_bytes(), chunk).is_err());
        }
    }

    proptest! {
        #[test]
        fn every_value_is_gone_over_in_every_window(value in any_value(), style: u8, chunk in 1_usize..40) {
            let text = written(&value, style);
            let trimmed = text.trim();
            prop_assert_eq!(skipped(trimmed.as_bytes(), chunk), Ok(trimmed.len() as u64));
        }

        #[test]
        fn what_is_located_is_what_serde_json_finds(value in any_value(), style: u8) {
            let text = written(&value, style);
            let source = InMemory::new(text.as_str(), 0);
            for pointer in pointers(&value) {
                let parsed: Pointer = pointer.parse().unwrap();
                let range = locate(&source, &parsed).unwrap().unwrap();
                let found = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                let found: Value = serde_json::from_str(&text[found]).unwrap();
                prop_assert_eq!(Some(&found), value.pointer(&pointer));
                let missing = format!("{pointer}/no such thing").parse().unwrap();
                prop_assert_eq!(locate(&source, &missing).unwrap(), None);
            }
        }
    }

    fn pointers(value: &Value) -> Vec<String> {
        let below = |token: String, inner: &Value| -> Vec<String> {
            let token = token.replace('~', "~0").replace('/', "~1");
            pointers(inner).into_iter().map(|rest| format!("/{token}{rest}")).collect()
        };
        let inner: Vec<Vec<String>> = match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(at, item)| below(at.to_string(), item)).collect()
            }
            Value::Object(members) => {
                members.iter().map(|(name, item)| below(name.clone(), item)).collect()
            }
            _ => vec![],
        };
        std::iter::once(String::new()).chain(inner.into_iter().flatten()).collect()
    }

    /// A source that notes the most that was asked for at once.
    #[derive(Debug)]
    struct Measured {
        text: String,
        most: AtomicU64,
    }

    impl ByteSource for Measured {
        fn size_bytes(&self) -> u64 {
            self.text.len() as u64
        }

        fn edition(&self) -> u64 {
            0
        }

        fn read(&self, range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
            self.most.fetch_max(range.end - range.start, Ordering::Relaxed);
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            Ok(Cow::Borrowed(&self.text.as_bytes()[range]))
        }
    }

    #[test]
    fn long_values_are_never_in_memory_at_once() {
        let long = "x\u{e9}".repeat(2 << 20);
        let many = vec![r#"{"a":[1,2,3]}"#; 500_000].join(",");
        let text = format!(r#"{{"long":"{long}","many":[{many}],"wanted":[7]}}"#);
        let source = Measured { text, most: AtomicU64::new(0) };
        let range = locate(&source, &"/wanted".parse().unwrap()).unwrap().unwrap();
        let end = source.text.len() as u64;
        assert_eq!(range, end - 4..end - 1);
        let range = locate(&source, &"/many".parse().unwrap()).unwrap().unwrap();
        assert_eq!(range.end - range.start, many.len() as u64 + 2);
        let most = source.most.load(Ordering::Relaxed);
        assert!(most <= READ_BYTES as u64, "{most} bytes at once");
    }
}
