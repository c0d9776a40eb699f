//! Reading a schema takes as many entries as its text has room for, a check takes no step more than its
//! budget, and a verdict within a small budget is that within a large one. The input is a line with
//! the schema, and the value.
#![no_main]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use handback_wire::schema::{BoundedValidator, ForeignSchema, Verdict};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

/// Subschemas of all published meta-schemas together, at most.
const PUBLISHED: usize = 2_000;

fuzz_target!(|data: &[u8]| {
    let at = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (schema, value) = data.split_at(at);
    let Ok(schema) = ForeignSchema::read(schema, &AtomicBool::new(false)) else { return };
    assert!(schema.subschemas() <= at / 2 + 1 + PUBLISHED, "{} of {at}", schema.subschemas());
    let Ok(value) = serde_json::from_slice::<Value>(value) else { return };
    let schema = Arc::new(schema);
    let check = |steps: u64| {
        let validator = BoundedValidator::new(Arc::clone(&schema)).with_steps(steps);
        let verdict = validator.check(&value);
        assert!(validator.steps() <= steps);
        assert!(verdict != Verdict::Unknown || validator.is_over());
        verdict
    };
    let (few, many) = (check(1_000), check(100_000));
    assert!(few == Verdict::Unknown || few == many, "{few:?} {many:?}");
});
