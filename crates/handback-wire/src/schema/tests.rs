//! Schemas against an independent validator, and schemas that are made to be expensive.

mod differential;
mod hostile;
mod look_around;
mod published;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use super::{BoundedValidator, ForeignSchema, Unusable, Verdict};

fn read(schema: &Value) -> Result<Arc<ForeignSchema>, Unusable> {
    ForeignSchema::of(schema, &AtomicBool::new(false)).map(Arc::new)
}

#[track_caller]
fn validator(schema: &Value) -> BoundedValidator {
    BoundedValidator::new(read(schema).unwrap())
}

#[test]
fn names_the_first_fault() {
    let schema = json!({
        "type": "object",
        "required": ["a"],
        "properties": {"a": {"items": {"type": ["string", "null"]}}, "b": {"maxLength": 2}},
        "additionalProperties": false,
    });
    let validator = validator(&schema);
    let fault = |value: Value| match validator.check(&value) {
        Verdict::Misfit(misfit) => (misfit.pointer, misfit.message),
        verdict => panic!("{verdict:?}"),
    };
    let of = |pointer: &str, message: &str| (pointer.to_owned(), message.to_owned());
    assert_eq!(fault(json!({})), of("", "a required member is missing, of `a`"));
    assert_eq!(fault(json!([])), of("", "the value is not of type object"));
    let nested = fault(json!({"a": ["x", 7]}));
    assert_eq!(nested, of("/a/1", "the value is not of type null or string"));
    assert_eq!(fault(json!({"a": [], "x/~": 1})), of("/x~1~0", "nothing is allowed here"));
    let secret = fault(json!({"a": [], "b": "a secret"}));
    assert_eq!(secret, of("/b", "the value has more than 2 characters"));
    assert!(validator.fits(&json!({"a": ["x", null], "b": "ok"})));
}

#[test]
fn holds_a_guard_for_each_check_and_no_longer() {
    let guards = Arc::new(());
    let is_open = Arc::new(AtomicBool::new(true));
    let (given, open) = (Arc::clone(&guards), Arc::clone(&is_open));
    let validator = validator(&json!({"type": "object"})).admitted_by(move || {
        let guard = Box::new(Arc::clone(&given)) as Box<dyn Send>;
        open.load(Ordering::Relaxed).then_some(guard)
    });
    assert!(validator.fits(&json!({})) && !validator.fits(&json!([])));
    assert!(!validator.is_over());
    assert_eq!(Arc::strong_count(&guards), 2, "the validator itself has one");
    is_open.store(false, Ordering::Relaxed);
    assert_eq!(validator.check(&json!({})), Verdict::Unknown);
    assert!(validator.is_over());
}

#[test]
fn cannot_use_what_is_no_schema_or_refers_elsewhere() {
    for (schema, expected) in [
        (json!("object"), Unusable::Malformed),
        (json!(null), Unusable::Malformed),
        (json!({"type": "nonsense"}), Unusable::Malformed),
        (json!({"properties": []}), Unusable::Malformed),
        (json!({"properties": {"a": {"pattern": "(?<=x)["}}}), Unusable::Malformed),
        (json!({"pattern": "("}), Unusable::Malformed),
        (json!({"$ref": "#/$defs/absent"}), Unusable::Elsewhere),
        (json!({"$ref": "#absent"}), Unusable::Elsewhere),
        (json!({"$ref": "https://schemas.invalid/x"}), Unusable::Elsewhere),
        (json!({"$ref": "file:///etc/passwd"}), Unusable::Elsewhere),
        (json!({"$schema": "https://schemas.invalid/draft"}), Unusable::UnknownDraft),
        (json!({"allOf": []}), Unusable::Malformed),
        (json!({"multipleOf": 0}), Unusable::Malformed),
        (json!({"minLength": -1}), Unusable::Malformed),
        (json!({"required": true}), Unusable::Malformed),
        (json!({"$defs": {"unused": {"type": 7}}}), Unusable::Malformed),
    ] {
        assert_eq!(read(&schema).unwrap_err(), expected, "{schema}");
    }
}

#[test]
fn a_text_that_reaches_a_pattern_with_a_backreference_cannot_be_checked() {
    let schema = json!({"properties": {"a": {"pattern": r"^([a-z])\1$"}, "b": {"type": "null"}}});
    let validator = validator(&schema);
    assert!(validator.fits(&json!({"b": null})));
    assert!(!validator.is_over());
    assert_eq!(validator.check(&json!({"a": "yy"})), Verdict::Unknown);
    assert!(validator.is_over());
}

#[test]
fn the_flag_ends_reading_and_checking() {
    let flag = Arc::new(AtomicBool::new(true));
    let schema = json!({"items": {"type": "integer"}});
    assert_eq!(ForeignSchema::of(&schema, &flag).unwrap_err(), Unusable::Stopped);
    let numbers: Value = (0..10_000).collect();
    let stopped = validator(&schema).stopped_by(flag);
    assert_eq!(stopped.check(&numbers), Verdict::Unknown);
    assert!(stopped.steps() < 5000, "{}", stopped.steps());
    assert!(validator(&schema).fits(&numbers));
}

#[test]
fn all_checks_of_a_validator_share_its_steps() {
    let validator = validator(&json!({"items": {"type": "integer"}})).with_steps(5_000);
    let numbers: Value = (0..1_000).collect();
    assert_eq!(validator.check(&numbers), Verdict::Fits);
    assert_eq!(validator.check(&numbers), Verdict::Fits);
    assert_eq!(validator.check(&numbers), Verdict::Unknown);
}

#[test]
fn by_a_schema_that_cannot_be_used_no_value_fits() {
    let validator = BoundedValidator::unusable();
    assert!(!validator.fits(&json!({})) && !validator.fits(&json!(null)));
    assert!(!validator.is_over());
}
