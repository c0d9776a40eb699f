//! Schemas that are made to be expensive: reading takes as many entries as the text has subschemas, and
//! no check takes more steps than its budget.

use std::collections::BTreeMap;

use super::*;
use crate::schema::read::Reader;
use crate::schema::{CHECK_STEPS_MAX, LISTED_OBJECTS_MAX, PATTERNS_MAX, SUBSCHEMAS_MAX};

/// Makes a schema that refers to the next one.
type Step = fn(Value) -> Value;

/// A budget that is used up within milliseconds.
const FEW_STEPS: u64 = 300_000;

/// Definitions that each refer to the next, in a schema that `make` writes of the reference; the last
/// one is `last`.
fn ladder(levels: usize, make: impl Fn(Value) -> Value, last: &Value) -> Value {
    let level = |number: usize| {
        let next = json!({"$ref": format!("#/$defs/d{}", number + 1)});
        let schema = if number == levels { last.clone() } else { make(next) };
        (format!("d{number}"), schema)
    };
    let definitions: BTreeMap<_, _> = (0..=levels).map(level).collect();
    json!({"$defs": definitions, "$ref": "#/$defs/d0"})
}

/// The schema of a hostile upstream: 1.8 KB that general validators expand to 33 million schemas.
pub(super) fn unevaluated_ladder() -> Value {
    let mut schema = ladder(25, |next| json!({"anyOf": [next, next]}), &json!({"type": "string"}));
    schema["type"] = json!("object");
    schema["unevaluatedProperties"] = json!(false);
    schema
}

/// Checks that a value cannot be checked within a budget, and that no step more is taken.
#[track_caller]
fn exceeds(schema: &Value, value: &Value) {
    let read = read(schema).unwrap();
    let text = schema.to_string().len();
    assert!(read.subschemas() <= text / 4 + 1, "{} of {text} bytes", read.subschemas());
    let validator = BoundedValidator::new(read).with_steps(FEW_STEPS);
    assert_eq!(validator.check(value), Verdict::Unknown, "{} steps", validator.steps());
    assert!(validator.is_over());
    assert!(validator.steps() <= FEW_STEPS, "{}", validator.steps());
}

#[test]
fn wound_a1_a_ladder_below_unevaluated_properties_is_read_once() {
    let schema = unevaluated_ladder();
    assert!(schema.to_string().len() < 1_900);
    let read = read(&schema).unwrap();
    assert_eq!(read.subschemas(), 1 + 26 + 2 * 25 + 1);
    exceeds(&schema, &json!({"a": 1}));
}

#[test]
fn wound_a1_diamonds_end_at_the_budget() {
    let schema = ladder(27, |next| json!({"allOf": [next, next]}), &json!({"type": "object"}));
    exceeds(&schema, &json!({}));
    // With the budget of a request as well, which is a second of one core at most.
    let validator = validator(&schema);
    assert_eq!(validator.check(&json!({})), Verdict::Unknown);
    assert!(validator.steps() <= CHECK_STEPS_MAX);
    // A value that fails early is refused at once.
    let quick = self::validator(&schema);
    assert!(matches!(quick.check(&json!([])), Verdict::Misfit(_)));
    assert!(quick.steps() < 1_000);
    // Ten levels are no attack.
    let schema = ladder(10, |next| json!({"allOf": [next, next]}), &json!({"type": "object"}));
    assert!(self::validator(&schema).fits(&json!({})));
}

#[test]
fn wound_a1_every_keyword_with_subschemas_is_counted() {
    let any = json!({"type": "string"});
    let object = json!({"a": 1});
    let cases: Vec<(Step, Value)> = vec![
        (|next| json!({"anyOf": [next, next]}), any.clone()),
        (|next| json!({"allOf": [next, next]}), json!(true)),
        (|next| json!({"oneOf": [next, next]}), json!(false)),
        (|next| json!({"not": {"anyOf": [next, next]}}), json!(false)),
        (|next| json!({"if": next, "then": next, "else": next}), json!(true)),
        (|next| json!({"if": true, "then": {"allOf": [next]}, "allOf": [next]}), json!(true)),
        (|next| json!({"dependentSchemas": {"a": {"allOf": [next, next]}}}), json!(true)),
        (|next| json!({"dependencies": {"a": {"allOf": [next, next]}}}), json!(true)),
        (|next| json!({"$ref": next["$ref"], "$dynamicRef": next["$ref"]}), json!(true)),
        (|next| json!({"anyOf": [next, next], "unevaluatedProperties": next}), json!(true)),
        (|next| json!({"anyOf": [next, next], "unevaluatedItems": next}), json!(true)),
    ];
    for (make, last) in cases {
        exceeds(&ladder(40, make, &last), &object);
    }
}

#[test]
fn wound_a1_members_and_items_are_counted() {
    let nest = |levels: usize, around: fn(Value) -> Value| {
        (0..levels).fold(json!(1), |inner, _| around(inner))
    };
    let members = nest(60, |inner| json!({"a": inner}));
    let items = nest(60, |inner| json!([inner]));
    let cases: [(Value, &Value); 5] = [
        (
            json!({"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}}),
            &members,
        ),
        (
            json!({"additionalProperties": {"$ref": "#"}, "allOf": [{"properties": {"a": {"$ref": "#"}}}]}),
            &members,
        ),
        (json!({"items": {"$ref": "#"}, "contains": {"$ref": "#"}}), &items),
        (json!({"items": {"$ref": "#"}, "allOf": [{"prefixItems": [{"$ref": "#"}]}]}), &items),
        (
            json!({
                "$schema": "https://json-schema.org/draft/2019-09/schema",
                "unevaluatedItems": {"$ref": "#"},
                "contains": {"$ref": "#"},
            }),
            &items,
        ),
    ];
    for (schema, value) in cases {
        exceeds(&schema, value);
    }
    // Each of a thousand names is checked by a ladder.
    let names = ladder(8, |next| json!({"allOf": [next, next]}), &json!({"minLength": 1}));
    let names = json!({"$defs": names["$defs"], "propertyNames": {"$ref": "#/$defs/d0"}});
    let many: Value = (0..2_000)
        .map(|n| (format!("n{n}"), n))
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .map(|(k, v)| (k, json!(v)))
        .collect();
    exceeds(&names, &many);
}

#[test]
fn wound_a1_dynamic_scopes_are_no_copies() {
    // Each level is a resource of its own, so that every path has another scope.
    let level = |number: usize, side: &str| {
        let next = |side: &str| json!({"$ref": format!("l{}{side}", number + 1)});
        let rule =
            if number == 20 { json!(true) } else { json!({"allOf": [next("a"), next("b")]}) };
        let name = format!("l{number}{side}");
        (name.clone(), json!({"$id": name, "$dynamicAnchor": "x", "allOf": [rule]}))
    };
    let levels = (0..=20).flat_map(|number| ["a", "b"].map(|side| level(number, side)));
    let definitions: BTreeMap<_, _> = levels.collect();
    let schema = json!({"$id": "https://x.invalid/", "$defs": definitions, "$ref": "l0a"});
    exceeds(&schema, &json!({}));
}

#[test]
fn wound_a1_references_without_end_do_not_take_the_stack() {
    let last = json!(true);
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}),
        json!({"$dynamicAnchor": "x", "$dynamicRef": "#x", "unevaluatedProperties": false}),
        ladder(5_000, |next| next, &json!({"type": "object"})),
        ladder(5_000, |next| json!({"not": next, "unevaluatedItems": false}), &last),
        ladder(5_000, |next| json!({"if": next, "then": next}), &last),
        ladder(3_000, |next| json!({"oneOf": [next], "unevaluatedProperties": next}), &last),
        ladder(5_000, |next| json!({"dependentSchemas": {"a": next}}), &last),
        ladder(3_000, |next| json!({"propertyNames": {"not": next}, "allOf": [next]}), &last),
    ] {
        // The stack of a thread of tokio, which checks run on.
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let checked = thread.spawn(move || validator(&schema).check(&json!({"a": 1})));
        assert_eq!(checked.unwrap().join().unwrap(), Verdict::Unknown);
    }
}

#[test]
fn wound_a1_values_are_compared_within_the_budget() {
    let numbers: Value = (0..50_000).collect();
    let unique = json!({"uniqueItems": true});
    exceeds(&unique, &numbers);
    assert!(validator(&unique).fits(&numbers));
    assert!(!validator(&unique).fits(&json!([{"a": 1, "b": [2]}, 3, {"b": [2.0], "a": 1.0}])));
    // A thousand alternatives for each item.
    let allowed: Value = (0..1_000).map(|n| json!(format!("v{n}"))).collect();
    exceeds(&json!({"items": {"not": {"enum": allowed}}}), &numbers);
}

/// A merge compares the large object with each of the small ones. Reading it each time takes minutes, and
/// the flag that ends a check is not read in between.
#[test]
fn wound_a1_a_large_item_is_not_read_once_for_each_small_one() {
    const MANY: usize = 100_000;
    let large: serde_json::Map<_, _> = (0..MANY).map(|n| (format!("m{n}"), json!(n))).collect();
    let mut items: Vec<_> = (0..1_000).map(Value::from).collect();
    items.push(Value::Object(large));
    items.extend(std::iter::repeat_n(json!({}), MANY));
    let (validator, start) = (validator(&json!({"uniqueItems": true})), std::time::Instant::now());
    assert!(matches!(validator.check(&Value::from(items)), Verdict::Misfit(_)));
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
}

#[test]
fn wound_a1_listed_objects_are_bounded() {
    let listed = |count: usize| vec![json!({"": 0}); count];
    for keyword in ["enum", "const"] {
        assert!(read(&json!({keyword: listed(LISTED_OBJECTS_MAX)})).is_ok());
        let more = json!({"anyOf": [{keyword: listed(LISTED_OBJECTS_MAX)}, {keyword: listed(1)}]});
        assert_eq!(read(&more).unwrap_err(), Unusable::TooLarge);
    }
    let texts: Vec<_> = (0..50_000).map(|n| n.to_string()).collect();
    assert!(validator(&json!({"enum": texts})).fits(&json!("49999")));
}

#[test]
fn wound_a1_reading_ends_between_patterns() {
    let flag = AtomicBool::new(true);
    assert_eq!(Reader::new(&flag).pattern("a").unwrap_err(), Unusable::Stopped);
}

#[test]
fn wound_a1_classes_that_ignore_case_are_bounded() {
    // Folding the case of all characters takes 5 ms for each class.
    let class = "[ -\u{10FFFF}]";
    for flags in ["(?i)", "(?s-u)(?i:a)", "(?x)( ?mi)"] {
        let pattern = format!("{flags}{}", class.repeat(100));
        assert_eq!(read(&json!({"pattern": pattern})).unwrap_err(), Unusable::TooLarge, "{flags}");
    }
    let properties = json!({"pattern": format!("(?i){}", r"\p{Any}".repeat(100))});
    assert_eq!(read(&properties).unwrap_err(), Unusable::TooLarge);
    assert!(read(&json!({"pattern": class.repeat(100)})).is_ok());
    let mail = r"(?i)^[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}$";
    assert!(validator(&json!({"pattern": mail})).fits(&json!("A@Example.Org")));
}

#[test]
fn wound_a1_patterns_are_bounded() {
    let slow = json!({"items": {"not": {"pattern": "^(a+)+$"}}});
    let text = "a".repeat(50_000) + "!";
    let many: Value = (0..40).map(|_| text.as_str()).collect();
    exceeds(&slow, &many);
    assert!(validator(&slow).fits(&json!([text])), "in linear time");
    for pattern in ["(a{1000}){1000}", "((a{100}){100}){100}", r"^(\p{L}{1000}){20}$"] {
        assert_eq!(
            read(&json!({"pattern": pattern})).unwrap_err(),
            Unusable::TooLarge,
            "{pattern}"
        );
    }
    assert_eq!(read(&json!({"pattern": "x".repeat(10_000)})).unwrap_err(), Unusable::TooLarge);
    // Translating these goes over them once for each escape: 140 s for the longest.
    for pattern in [r"\d", r"\w", r"\s", r"\cA", r"[^\s]"].map(|escape| escape.repeat(1_300)) {
        assert_eq!(read(&json!({"pattern": pattern})).unwrap_err(), Unusable::TooLarge);
    }
    // A date is none of them.
    let date = r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$";
    assert!(validator(&json!({"pattern": date})).fits(&json!("2026-11-19T06:40:00.5Z")));
    // A search that is in thousands of states at once costs as many steps.
    let states = validator(&json!({"pattern": "[ab]*a[ab]{4000}"}));
    assert!(states.fits(&json!("ab".repeat(5_000))));
    assert!(states.steps() > 10_000 * 4_000 / 8, "{}", states.steps());
    let nested = "(?=".repeat(2_000) + &")".repeat(2_000);
    let nested = std::thread::spawn(move || read(&json!({"pattern": nested})).map(drop));
    assert!(nested.join().is_ok(), "the stack suffices");
    let patterns = |count: usize| {
        let all = (0..count).map(|n| (format!("^p{n}$"), json!(true)));
        json!({"patternProperties": all.collect::<serde_json::Map<_, _>>()})
    };
    assert!(read(&patterns(100)).is_ok());
    assert_eq!(read(&patterns(PATTERNS_MAX + 1)).unwrap_err(), Unusable::TooLarge);
    let large: Vec<_> =
        (0..100).map(|n| json!({"pattern": format!("^[a-z]{{9{n:02}}}$")})).collect();
    assert_eq!(read(&json!({"anyOf": large})).unwrap_err(), Unusable::TooLarge);
}

#[test]
fn wound_a1_names_and_subschemas_are_bounded() {
    let many: Vec<_> = (0..=SUBSCHEMAS_MAX).map(|_| json!({})).collect();
    assert_eq!(read(&json!({"anyOf": many})).unwrap_err(), Unusable::TooLarge);
    let long = format!("https://x.invalid/{}/", "a".repeat(5_000));
    let nested: Vec<_> = (0..100).map(|n| json!({"$id": format!("r{n}")})).collect();
    assert_eq!(read(&json!({"$id": long, "allOf": nested})).unwrap_err(), Unusable::TooLarge);
}
