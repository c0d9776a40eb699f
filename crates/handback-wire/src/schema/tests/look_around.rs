//! Patterns with look-around: those of published generators, against an independent validator, and those that
//! are made to be expensive.

use std::time::Instant;

use proptest::prelude::*;

use super::*;
use crate::schema::CHECK_STEPS_MAX;
use crate::schema::look_around::LOOK_AROUND_TEXT_BYTES_MAX;

/// `z.email()` of Zod 4.
const EMAIL: &str = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$";

/// `z.hostname()` of Zod 4.
const HOST: &str = r"^(?=.{1,253}\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\.?$";

/// `z.iso.duration()` of Zod 4.
const DURATION: &str = r"^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$";

#[track_caller]
fn check(pattern: &str, fits: &[&str], misfits: &[&str]) {
    let validator = validator(&json!({"pattern": pattern}));
    for (texts, expected) in [(fits, true), (misfits, false)] {
        for text in texts {
            let verdict = validator.check(&json!(text));
            assert_eq!(verdict == Verdict::Fits, expected, "{pattern}: {text:?}, {verdict:?}");
            assert_ne!(verdict, Verdict::Unknown, "{pattern}: {text:?}");
        }
    }
}

#[test]
fn patterns_of_published_generators_are_checked() {
    check(
        EMAIL,
        &["a@b.co", "first.last+tag@mail.example.org", "o'hara@x-y.museum"],
        &["", ".a@b.co", "a..b@c.org", "a.@b.co", "a@b", "a@.org", "a@b.c", "ä@b.co", "a@b.co\n"],
    );
    let long = format!("{}.org", "a.".repeat(150));
    check(HOST, &["example.org", "a-b.c.", "localhost"], &["", "-a.org", "a..b", "a_b", &long]);
    check(
        DURATION,
        &["P1Y2M3DT4H5M6.5S", "P3W", "PT1S", "P1D"],
        &["P", "PT", "P1DT", "P1Y1W", "1D", "PW", "P1S", "P١D"],
    );
    check(r"^(?=.*[A-Z])(?=.*\d)(?=.*[^\w\s]).{8,}$", &["Passw0rd!"], &["password", "P0!"]);
    check(r"(?<=\$)\d+(?!\d|\.)", &["a $7"], &["7", "$7.5", "$"]);
    check(r"(?<!\\)(?:\\\\)*'", &["it's", r"\\'"], &[r"it\'s", "its"]);
    check(r"^(?:(?!(?:^|-)x(?=-|$)).)*$", &["a-y", "xy-xx"], &["x", "a-x-b", "x-xy"]);
    check(r"(?=a)b|^(?=é)é+(?!ü)$", &["é", "éé"], &["b", "ab", "éü"]);
    check(r"^(?i:(?!ADMIN)[a-z]+)$|^(?:(?=x)){3}xy$", &["user", "xy"], &["Admins", "1y"]);
}

#[test]
fn names_of_members_are_matched_as_well() {
    let schema = json!({
        "patternProperties": {"^(?!_)": {"type": "integer"}},
        "additionalProperties": {"type": "string"},
    });
    let validator = validator(&schema);
    assert!(validator.fits(&json!({"a": 1, "_b": "x"})));
    assert!(!validator.fits(&json!({"_b": 1})) && !validator.fits(&json!({"a": "x"})));
    assert!(!validator.is_over());
}

#[test]
fn wound_a1_look_around_costs_steps() {
    let validator = validator(&json!({"items": {"pattern": EMAIL}}));
    let mails: Value = (0..1_000).map(|n| format!("first.last{n}@mail.example.org")).collect();
    assert!(validator.fits(&mails));
    let steps = validator.steps();
    assert!((100_000..3_000_000).contains(&steps), "{steps}");
}

#[test]
fn wound_a1_no_pattern_with_look_around_is_catastrophic() {
    let counted = (0..8).fold("a".to_owned(), |inner, _| format!("(?:(?={inner})a){{400}}"));
    let starred = (0..8).fold("a".to_owned(), |inner, _| format!("(?:(?=(?:{inner})*b)a*)*")) + "c";
    let text = "a".repeat(LOOK_AROUND_TEXT_BYTES_MAX - 1) + "!";
    for pattern in [
        "(?=a)(?:(?=a)){4000000000}x",
        "^(?=a)(a+)+$",
        "^(?=a)(a|a)*$",
        "^(?=a)(a|aa|aaa)*?$",
        "(?=a)(.*)*(.*)*(.*)*(.*)*y",
        "^(?!(((a*)*)*)*b)(((a*)*)*)*c",
        "(?:(?=a{4000})){4000}b",
        counted.as_str(),
        starred.as_str(),
    ] {
        let (validator, began) =
            (validator(&json!({"items": {"pattern": pattern}})), Instant::now());
        // One check after another, until the steps are used up or each has its answer.
        let verdict = validator.check(&json!(vec![text.as_str(); 2]));
        let (steps, time) = (validator.steps(), began.elapsed());
        assert!(steps <= CHECK_STEPS_MAX && time.as_secs() < 20, "{pattern}: {steps}, {time:?}");
        assert_ne!(verdict, Verdict::Fits, "{pattern}");
        assert_eq!(verdict == Verdict::Unknown, validator.is_over(), "{pattern}");
    }
}

#[test]
fn wound_a1_the_flag_ends_a_search_with_look_around() {
    let flag = Arc::new(AtomicBool::new(true));
    let text = "a".repeat(LOOK_AROUND_TEXT_BYTES_MAX);
    let validator = validator(&json!({"pattern": "^(?=(a?){4000}b)"})).stopped_by(flag);
    assert_eq!(validator.check(&json!(text)), Verdict::Unknown);
    assert!(validator.steps() < 3 * LOOK_AROUND_TEXT_BYTES_MAX as u64, "{}", validator.steps());
}

#[test]
fn wound_a1_look_around_is_bounded_in_text_and_pattern() {
    let unknown = |pattern: &str, text: &str| {
        let validator = validator(&json!({"pattern": pattern}));
        let verdict = validator.check(&json!(text));
        assert_eq!(validator.is_over(), verdict == Verdict::Unknown);
        verdict == Verdict::Unknown
    };
    let text = "a".repeat(LOOK_AROUND_TEXT_BYTES_MAX);
    assert!(!unknown("^(?!b)a*$", &text));
    assert!(unknown("^(?!b)a*$", &(text + "a")));
    // Too many look-arounds, too many levels, and too large when it was read.
    assert!(!unknown(&"(?=a)".repeat(16), "a"));
    assert!(unknown(&"(?=a)".repeat(17), "a"));
    let nested = |levels: usize| "(?:b".repeat(levels) + "(?=a)" + &")?".repeat(levels);
    assert!(!unknown(&nested(20), "a"));
    assert!(unknown(&nested(100), "a"));
    assert!(unknown(&format!("(?=a){}", r"\p{L}".repeat(40)), "a"));
    // What a group has matched is not known, and no pattern has the names of our groups.
    assert!(unknown(r"^(?=(a))\1$", "a"));
    assert!(unknown("^(?=a)(?<handback_look_around_0>a)$", "a"));
    let many: Vec<_> =
        (0..250).map(|n| json!({"pattern": format!("^(?!{n}){}", "[a-c]".repeat(600))})).collect();
    assert_eq!(read(&json!({"anyOf": many})).unwrap_err(), Unusable::TooLarge);
}

/// A pattern over `a`, `b` and `é`, with look-around.
fn any_pattern() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "a", "b", "é", ".", "[ab]", "[^a]", "^", "$", r"\b", r"\B", "ab", "",
    ]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let around = prop::sample::select(vec!["(?=", "(?!", "(?:", "("]);
        let count = prop::sample::select(vec!["*", "+", "?", "{2}", "{1,2}", "{0,3}?", "*?"]);
        prop_oneof![
            3 => (around, inner.clone()).prop_map(|(open, body)| format!("{open}{body})")),
            2 => (inner.clone(), count).prop_map(|(body, count)| format!("(?:{body}){count}")),
            2 => (inner.clone(), inner.clone()).prop_map(|(a, b)| a + &b),
            1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
            1 => prop::sample::select(vec!["(?<=a)", "(?<!b)", "(?<=^|é)", "(?<!ab)"])
                .prop_map(str::to_owned),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn look_around_means_what_it_means_elsewhere(
        pattern in any_pattern(),
        texts in prop::collection::vec("[abé \n]{0,6}", 1..6),
    ) {
        let schema = json!({"pattern": pattern});
        let Ok(independent) = jsonschema::validator_for(&schema) else { return Ok(()) };
        let validator = validator(&schema);
        for text in texts {
            let value = json!(text);
            let verdict = validator.check(&value);
            prop_assert_ne!(&verdict, &Verdict::Unknown, "{}", pattern);
            let fits = verdict == Verdict::Fits;
            prop_assert_eq!(fits, independent.is_valid(&value), "{} {:?}", pattern, text);
        }
    }
}
