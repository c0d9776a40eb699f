//! The same verdicts as an independent validator, for schemas that a general one can take.

use proptest::prelude::*;

use super::*;

/// Definitions of a schema. Each refers to later ones beside, and to any one below members and items.
const DEFINITIONS: usize = 3;

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3_i64..6).prop_map(Value::from),
        prop_oneof![Just(0.5), Just(1.0), Just(-2.0), Just(1e19), Just(0.3)].prop_map(Value::from),
        "[abé]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4).prop_map(|members| json!(members)),
        ]
    })
}

/// One keyword with its value.
fn any_assertion() -> BoxedStrategy<Value> {
    let size = 0_u64..4;
    let number =
        prop_oneof![(-2_i64..4).prop_map(|n| json!(n)), Just(json!(0.5)), Just(json!(1e19))];
    let types = ["null", "boolean", "number", "integer", "string", "array", "object"];
    let size_names =
        ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"];
    let limit_names = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    prop_oneof![
        prop::sample::subsequence(types.to_vec(), 1..4).prop_map(|types| json!({"type": types})),
        (prop::sample::select(size_names.to_vec()), size.clone())
            .prop_map(|(name, size)| json!({name: size})),
        (prop::sample::select(limit_names.to_vec()), number.clone())
            .prop_map(|(name, limit)| json!({name: limit})),
        prop_oneof![Just(json!(2)), Just(json!(0.1)), Just(json!(0.5))]
            .prop_map(|of| json!({"multipleOf": of})),
        prop::collection::vec(any_value(), 1..4).prop_map(|all| json!({"enum": all})),
        any_value().prop_map(|value| json!({"const": value})),
        Just(json!({"uniqueItems": true})),
        prop::sample::select(vec!["^a", "b$", "^[ab]*$", "é", "\\w+", "^(?:a|b)+$"])
            .prop_map(|pattern| json!({"pattern": pattern})),
        prop::sample::subsequence(vec!["a", "b", "c"], 1..3)
            .prop_map(|all| json!({"required": all})),
        prop::sample::subsequence(vec!["a", "b"], 1..2)
            .prop_map(|all| json!({"dependentRequired": {"c": all}})),
        Just(json!({})),
    ]
    .boxed()
}

fn merged(schemas: Vec<Value>) -> Value {
    let mut all = serde_json::Map::new();
    for schema in schemas {
        if let Value::Object(members) = schema {
            all.extend(members);
        }
    }
    Value::Object(all)
}

/// A subschema of the definition with this number.
fn any_schema(of: usize) -> BoxedStrategy<Value> {
    let reference = |number: usize| json!({"$ref": format!("#/$defs/d{number}")});
    // Beside, only later definitions: else a check would not end.
    let beside: BoxedStrategy<Value> = match of + 1 < DEFINITIONS {
        true => (of + 1..DEFINITIONS).prop_map(reference).boxed(),
        false => Just(json!({"type": "object"})).boxed(),
    };
    let assertions = prop::collection::vec(any_assertion(), 1..3).prop_map(merged);
    let leaf = prop_oneof![
        6 => assertions,
        1 => any::<bool>().prop_map(Value::from),
        3 => beside,
    ];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        let list = || prop::collection::vec(inner.clone(), 1..4);
        // Below a member or an item, any definition.
        let below = prop_oneof![
            3 => inner.clone(),
            1 => (0..DEFINITIONS).prop_map(reference),
        ];
        let members = || prop::collection::btree_map("[abc]", below.clone(), 1..3);
        let keyword = prop_oneof![
            list().prop_map(|all| json!({"allOf": all})),
            list().prop_map(|all| json!({"anyOf": all})),
            list().prop_map(|all| json!({"oneOf": all})),
            inner.clone().prop_map(|one| json!({"not": one})),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            prop::collection::btree_map("[ab]", inner.clone(), 1..3)
                .prop_map(|all| json!({"dependentSchemas": all})),
            members().prop_map(|all| json!({"properties": all})),
            below.clone().prop_map(|one| json!({"patternProperties": {"^[ab]": one}})),
            below.clone().prop_map(|one| json!({"additionalProperties": one})),
            inner.clone().prop_map(|one| json!({"propertyNames": one})),
            below.clone().prop_map(|one| json!({"items": one})),
            prop::collection::vec(below.clone(), 1..3).prop_map(|all| json!({"prefixItems": all})),
            (below.clone(), 0_u64..3, 1_u64..4).prop_map(
                |(one, min, max)| json!({"contains": one, "minContains": min, "maxContains": max})
            ),
            below.clone().prop_map(|one| json!({"contains": one})),
            below.clone().prop_map(|one| json!({"unevaluatedProperties": one})),
            Just(json!({"unevaluatedProperties": false})),
            Just(json!({"unevaluatedItems": false})),
            below.clone().prop_map(|one| json!({"unevaluatedItems": one})),
        ];
        prop::collection::vec(prop_oneof![2 => keyword, 1 => any_assertion()], 1..4)
            .prop_map(merged)
    })
    .boxed()
}

fn any_document() -> impl Strategy<Value = Value> {
    (any_schema(0), any_schema(1), any_schema(2)).prop_map(|(first, second, third)| {
        json!({"$defs": {"d0": first, "d1": second, "d2": third}, "$ref": "#/$defs/d0"})
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn wound_a1_verdicts_are_those_of_an_independent_validator(
        schema in any_document(),
        values in prop::collection::vec(any_value(), 1..6),
    ) {
        let independent = jsonschema::validator_for(&schema).unwrap();
        for value in values {
            let validator = validator(&schema);
            let expected = independent.is_valid(&value);
            let verdict = validator.check(&value);
            prop_assert!(verdict != Verdict::Unknown, "{} steps", validator.steps());
            prop_assert_eq!(verdict == Verdict::Fits, expected, "{} {}", &schema, &value);
        }
    }

    #[test]
    fn wound_a1_a_check_takes_no_step_more_than_its_budget(
        schema in any_document(),
        value in any_value(),
        budget in 0_u64..200,
    ) {
        let schema = read(&schema).unwrap();
        let unbounded = BoundedValidator::new(schema.clone());
        let expected = unbounded.check(&value);
        let validator = BoundedValidator::new(schema).with_steps(budget);
        let verdict = validator.check(&value);
        prop_assert!(validator.steps() <= budget);
        // What is known within the budget is right.
        prop_assert!(verdict == Verdict::Unknown || verdict == expected);
        prop_assert_eq!(verdict == Verdict::Unknown, unbounded.steps() > budget);
    }
}
