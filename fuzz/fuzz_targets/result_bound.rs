//! A result that is cut is JSON within its budget, and what is not in it is held to the byte, however
//! the result is read. The input is three bytes, for the budget and the pieces, and the result.
#![no_main]

use std::convert::Infallible;

use handback_page::json::InMemory;
use handback_token::Handle;
use handback_wire::bound::{
    BoundError, Bounded, Bounding, Budget, JSON, Keep, Kept, NewPart, Part, PartWriter, bound,
    bound_error,
};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use serde_json::value::RawValue;

fuzz_target!(|data: &[u8]| {
    let [high, low, piece, result @ ..] = data else { return };
    let budget = usize::from(u16::from_be_bytes([*high, *low]));
    let is_json = serde_json::from_slice::<&RawValue>(result).is_ok();
    if let Some(error) = bound_error(result, &Bounding::new(Budget::bytes(budget))) {
        assert!(error.len() <= budget.max(Budget::FLOOR_BYTES));
        assert!(serde_json::from_slice::<&RawValue>(&error).is_ok(), "no JSON");
    }
    let Some((bounded, shelf)) = cut(result, budget, 1 << 20) else {
        return assert!(!is_json, "refused");
    };
    let in_pieces = cut(result, budget, usize::from(*piece));
    assert!(in_pieces == Some((bounded.clone(), shelf.clone())), "pieces make a difference");
    if result.len() <= budget.max(Budget::FLOOR_BYTES) {
        return assert!(bounded.result == result && bounded.parts.is_empty());
    }
    // As much of texts, and as much of media.
    let most = 2 * budget.max(Budget::FLOOR_BYTES);
    assert!(bounded.result.len() <= most);
    assert_eq!(bounded.is_as_given, bounded.result == result);
    assert!(serde_json::from_slice::<&RawValue>(&bounded.result).is_ok(), "no JSON");
    let original = serde_json::from_slice::<Value>(result).ok();
    for part in &bounded.parts {
        check(part, original.as_ref(), &shelf);
    }
    let kept: usize = shelf.0.iter().map(Vec::len).sum();
    assert_eq!(kept as u64, bounded.held_bytes, "something is kept for nobody");
});

/// What was kept, in the order of its handles.
#[derive(Clone, Default, PartialEq)]
struct Shelf(Vec<Vec<u8>>);

struct Writer<'a>(&'a mut Shelf, Vec<u8>);

impl Keep for Shelf {
    type Error = Infallible;
    type Writer<'a> = Writer<'a>;

    fn part(&mut self, _part: &NewPart) -> Result<Writer<'_>, Infallible> {
        Ok(Writer(self, Vec::new()))
    }

    fn forget(&mut self, handle: Handle) {
        let at = (0..self.0.len()).find(|number| self::handle(*number) == handle);
        self.0[at.expect("what is forgotten was kept")].clear();
    }
}

impl PartWriter for Writer<'_> {
    type Error = Infallible;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Infallible> {
        self.1.extend_from_slice(bytes);
        Ok(())
    }

    fn finish(self) -> Result<Kept, Infallible> {
        self.0.0.push(self.1);
        let until_ms = 1_800_000_000_000;
        let handle = handle(self.0.0.len() - 1);
        Ok(Kept { handle, until_ms, until_at_most_ms: until_ms })
    }
}

fn handle(number: usize) -> Handle {
    Handle::from_bytes((number as u128).to_be_bytes())
}

fn cut(result: &[u8], budget: usize, chunk: usize) -> Option<(Bounded, Shelf)> {
    let budget = Budget::bytes(budget);
    let how = Bounding::new(budget).media(budget).in_chunks_of(chunk);
    let mut shelf = Shelf::default();
    match bound(&InMemory::new(result.to_vec(), 0), &how, &mut shelf) {
        Ok(bounded) => Some((bounded, shelf)),
        Err(BoundError::NotJson(_)) => None,
        Err(other) => panic!("{other}"),
    }
}

/// What is held is what was there.
fn check(part: &Part, original: Option<&Value>, shelf: &Shelf) {
    let at = (0..shelf.0.len()).find(|number| handle(*number) == part.handle).expect("a handle");
    let held = &shelf.0[at];
    assert_eq!(held.len() as u64, part.bytes);
    assert!(part.shown <= part.total);
    // Names that are there twice have no place that `serde_json` finds.
    let Some(outer) = original.and_then(|value| value.pointer(&part.path.to_string())) else {
        return;
    };
    let inner = |value: &Value| value.pointer(&part.inside.to_string()).cloned();
    let as_json = outer.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let candidates = [inner(outer), as_json.as_ref().and_then(inner)];
    let is_same = |candidate: &Value| match part.kind {
        JSON => serde_json::from_slice::<Value>(held).is_ok_and(|held| held == *candidate),
        _ => match candidate {
            Value::String(text) => text.as_bytes() == held,
            _ => false,
        },
    };
    // What cannot be read as a collection is held as it was written.
    let is_written = part.kind != JSON && part.inside.tokens().is_empty();
    let found = candidates.iter().flatten().any(is_same);
    assert!(found || is_written || has_twice(held), "{}", part.path);
}

/// Whether something in it may be there twice: then it is not known which is meant.
fn has_twice(json: &[u8]) -> bool {
    serde_json::from_slice::<Value>(json).is_ok_and(|value| value.to_string().len() < json.len())
}
