//! Other ids in a stream of events.
//!
//! A stream of events is lines; those that start with `id:` have the id of an event. All others pass
//! as they are, and are not held back.

use std::fmt;

use bytes::{Bytes, BytesMut};

const FIELD: &[u8] = b"id:";

/// Lines of a stream of events, as they come. `R` gives the id that takes the place of another; without
/// one, the line goes.
pub struct Lines<R> {
    replace: R,
    /// The start of a line that has an id, or may turn out to.
    line: BytesMut,
    place: Place,
}

/// Where in a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the first bytes of one that may have an id.
    Start,
    /// In one that has none.
    Other,
}

impl<R: Fn(&str) -> Option<String>> Lines<R> {
    /// A stream from its start.
    pub fn new(replace: R) -> Self {
        Self { replace, line: BytesMut::new(), place: Place::Start }
    }

    /// What can go on, once this has come.
    pub fn push(&mut self, mut data: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(data.len() + 64);
        while !data.is_empty() {
            let end = data.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let (piece, rest) = data.split_at(end.unwrap_or(data.len()));
            data = rest;
            match self.place {
                Place::Other => out.extend_from_slice(piece),
                Place::Start => {
                    self.line.extend_from_slice(piece);
                    if !may_have_id(&self.line) {
                        out.extend_from_slice(&self.line.split());
                        self.place = Place::Other;
                    }
                }
            }
            if end.is_some() {
                if self.place == Place::Start {
                    let line = self.line.split();
                    self.put(&line, &mut out);
                }
                self.place = Place::Start;
            }
        }
        out.freeze()
    }

    /// A whole line that starts as one with an id does.
    fn put(&self, line: &[u8], out: &mut BytesMut) {
        let Some(id) = line.strip_prefix(FIELD) else {
            out.extend_from_slice(line);
            return;
        };
        let id = std::str::from_utf8(id).unwrap_or_default();
        let id = id.strip_prefix(' ').unwrap_or(id).trim_end_matches(['\r', '\n']);
        if let Some(id) = (self.replace)(id) {
            out.extend_from_slice(b"id: ");
            out.extend_from_slice(id.as_bytes());
            out.extend_from_slice(b"\n");
        }
    }
}

impl<R> fmt::Debug for Lines<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lines(..)")
    }
}

fn may_have_id(line: &[u8]) -> bool {
    line.iter().zip(FIELD).all(|(a, b)| a == b)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn lines() -> Lines<impl Fn(&str) -> Option<String>> {
        Lines::new(|id: &str| (id != "0").then(|| format!("<{id}>")))
    }

    fn check(input: &str, expected: &str) {
        assert_eq!(lines().push(input.as_bytes()), expected);
        // The same in pieces of every length.
        for length in 1..input.len() {
            let mut lines = lines();
            let pieces = input.as_bytes().chunks(length).map(|piece| lines.push(piece));
            assert_eq!(pieces.collect::<Vec<_>>().concat(), expected.as_bytes(), "{length}");
        }
    }

    #[test]
    fn ids_are_replaced_and_nothing_else() {
        check("id: 7\ndata: {\"id\":7}\n\n", "id: <7>\ndata: {\"id\":7}\n\n");
        check("data: id: 7\nid:8\n\n", "data: id: 7\nid: <8>\n\n");
        check(":\n\nretry: 3000\nid: a/b\n\n", ":\n\nretry: 3000\nid: <a/b>\n\n");
        check("ida: 7\ni\n\nid\n", "ida: 7\ni\n\nid\n");
    }

    #[test]
    fn an_id_without_another_goes() {
        check("id: 0\nretry: 3000\ndata: \n\n", "retry: 3000\ndata: \n\n");
    }

    #[test]
    fn what_has_no_id_is_not_held_back() {
        let mut lines = lines();
        assert_eq!(lines.push(b"data: so f"), "data: so f");
        assert_eq!(lines.push(b"ar"), "ar");
        assert_eq!(lines.push(b"\ni"), "\n");
        assert_eq!(lines.push(b"d: 5"), "");
        assert_eq!(lines.push(b"\n"), "id: <5>\n");
    }

    /// The same, line by line.
    fn expected(input: &str) -> String {
        let lines = input.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let line = |line: &str| match line.strip_prefix("id:") {
            None => line.to_owned(),
            Some(id) => match id.strip_prefix(' ').unwrap_or(id).trim_end_matches(['\r', '\n']) {
                "0" => String::new(),
                id => format!("id: <{id}>\n"),
            },
        };
        let whole: String = lines.map(line).collect();
        // Of a line that is not over, what cannot become an id has gone on.
        let rest = input.rsplit('\n').next().unwrap_or_default();
        if may_have_id(rest.as_bytes()) { whole } else { whole + rest }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(input in "(id:? ?|data: |[a0i\\r\\n]){0,40}", cuts: Vec<Index>) {
            let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(input.len() + 1)).collect();
            cuts.extend([0, input.len()]);
            cuts.sort_unstable();
            let mut lines = lines();
            let pieces = cuts.windows(2).map(|cut| lines.push(&input.as_bytes()[cut[0]..cut[1]]));
            let out = pieces.collect::<Vec<_>>().concat();
            prop_assert_eq!(String::from_utf8(out).unwrap(), expected(&input));
        }

        #[test]
        fn no_bytes_break_it(input: Vec<u8>) {
            let out = lines().push(&input);
            prop_assert!(out.len() <= 8 * (input.len() + 1));
        }
    }
}
