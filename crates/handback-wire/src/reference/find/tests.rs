use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn handle(number: u8) -> Handle {
    Handle::from_bytes([number; 16])
}

/// What was found: the text that is replaced, whether text is wanted, the path, and the place.
fn found(arguments: &str) -> Vec<(&str, bool, String, String)> {
    let all = find(arguments).unwrap_or_else(|error| panic!("{arguments}: {error}"));
    let told = |one: Reference| {
        assert_eq!(one.handle, handle(1));
        (&arguments[one.range], one.is_text, one.pointer.to_string(), one.place)
    };
    all.into_iter().map(told).collect()
}

#[track_caller]
fn check(arguments: &str, expected: &[(&str, bool, &str, &str)]) {
    let h = handle(1).to_string();
    let arguments = arguments.replace('H', &h);
    assert!(mentions_held(&arguments) || expected.is_empty(), "{arguments}");
    let found = found(&arguments);
    let found: Vec<_> = found
        .iter()
        .map(|(text, is_text, path, place)| {
            (text.replace(&h, "H"), *is_text, path.as_str(), place.as_str())
        })
        .collect();
    let expected: Vec<_> = expected
        .iter()
        .map(|(text, is_text, path, place)| ((*text).to_owned(), *is_text, *path, *place))
        .collect();
    assert_eq!(found, expected, "{arguments}");
}

#[test]
fn references_are_found_wherever_they_are() {
    check(r#"{"a":1,"held":2}"#, &[]);
    check(r#"{"a":{"$held":"H"}}"#, &[(r#"{"$held":"H"}"#, false, "", "/a")]);
    check(r#"{"$held":"H"}"#, &[(r#"{"$held":"H"}"#, false, "", "")]);
    check(
        r#" { "a" : [ 1 , { "path" : "/x~1y/0" , "$held" : "H" } ] } "#,
        &[(r#"{ "path" : "/x~1y/0" , "$held" : "H" }"#, false, "/x~1y/0", "/a/1")],
    );
    check(r#"{"a":"$held:H"}"#, &[(r#""$held:H""#, true, "", "/a")]);
    check(
        r##"["$held:H#","$held:H#/a/0", -1.5e3, true, null, "$held"]"##,
        &[(r##""$held:H#""##, true, "", "/0"), (r##""$held:H#/a/0""##, true, "/a/0", "/1")],
    );
    check(
        r#"{"a~/\u00e9":{"x":{"$held":"H","path":""}},"b":"$held:H"}"#,
        &[(r#"{"$held":"H","path":""}"#, false, "", "/a~0~1é/x"), (r#""$held:H""#, true, "", "/b")],
    );
    // A member of another name, and texts that do not start with it.
    check(r#"{"path":"/x","a":["x $held:H","$HELD:H"," $held:H","$held"],"$held ":"H"}"#, &[]);
    check(r#"{"a":{"path":"$held:H"}}"#, &[(r#""$held:H""#, true, "", "/a/path")]);
    check(r#""$held:H""#, &[(r#""$held:H""#, true, "", "")]);
}

#[test]
fn escapes_hide_nothing() {
    for arguments in [
        r#"{"\u0024held":"H"}"#,
        r#"{"$\u0068\u0065\u006c\u0064":"H"}"#,
        r#"{"\u0024\u0068\u0065\u006C\u0064":"H"}"#,
        r#"{"$hel\u0064":"H","\u0070ath":"\/a"}"#,
    ] {
        let path = if arguments.contains("ath") { "/a" } else { "" };
        check(arguments, &[(arguments, false, path, "")]);
    }
    check(r#"["\u0024hel\u0064\u003aH"]"#, &[(r#""\u0024hel\u0064\u003aH""#, true, "", "/0")]);
    check(r##"["$held:H#\/a"]"##, &[(r##""$held:H#\/a""##, true, "/a", "/0")]);
    assert!(!mentions_held(r#"{"a":"hold","b":"\u0041"}"#));
}

#[track_caller]
fn refused(arguments: &str) -> (String, Fault) {
    let arguments = arguments.replace('H', &handle(1).to_string());
    let error = find(&arguments).expect_err(&arguments);
    (error.place().to_owned(), error.fault().clone())
}

#[test]
fn what_looks_like_a_reference_and_is_none_is_refused() {
    use handback_page::json::PointerError::{BadEscape, NoSlash};
    let invalid = || Fault::Handle(HandleRefusal::Unknown);
    for (arguments, place, fault) in [
        (r#"{"a":{"$held":"H","x":1}}"#, "/a", Fault::Members),
        (r#"{"a":{"x":1,"$held":"H"}}"#, "/a", Fault::Members),
        (r#"{"a":{"$held":"H","$held":"H"}}"#, "/a", Fault::Members),
        (r#"{"$held":"H","path":"","path":""}"#, "", Fault::Members),
        (r#"{"a":{"$held":"H","x":{"$held":"H"}}}"#, "/a", Fault::Members),
        (r#"{"a":{"$held":7}}"#, "/a/$held", Fault::NotText("$held")),
        (r#"{"a":{"$held":{"$held":"H"}}}"#, "/a/$held", Fault::NotText("$held")),
        (r#"{"a":{"$held":"H","path":7}}"#, "/a", Fault::NotText("path")),
        (r#"{"a":{"$held":"H","path":null}}"#, "/a", Fault::NotText("path")),
        (r#"{"a":{"$held":"H","path":{"$held":"H"}}}"#, "/a", Fault::NotText("path")),
        (r#"{"a":{"$held":"H","path":"\ud800"}}"#, "/a", Fault::NotText("path")),
        (r#"{"a":{"$held":"H","path":"/x\ud800"}}"#, "/a", Fault::NotText("path")),
        (r#"{"a":{"$held":"H","path":"x"}}"#, "/a", Fault::Pointer(NoSlash)),
        (r#"{"a":{"path":"$held:H","$held":"H"}}"#, "/a", Fault::Pointer(NoSlash)),
        (r##"{"a":"$held:H#x"}"##, "/a", Fault::Pointer(NoSlash)),
        (r##"{"a":"$held:H#/~"}"##, "/a", Fault::Pointer(BadEscape)),
        (r#"{"a":{"$held":""}}"#, "/a", invalid()),
        (r#"{"a":{"$held":"no handle"}}"#, "/a", invalid()),
        (r#"{"a":{"$held":"\ud800"}}"#, "/a", invalid()),
        (r#"{"a":{"$held":"$held:H"}}"#, "/a", invalid()),
        (r#"{"a":"$held:"}"#, "/a", invalid()),
        (r#"{"a":"$held: H"}"#, "/a", invalid()),
        (r#"{"a":"$held:H "}"#, "/a", invalid()),
        (r#"{"a":"$held:H/x"}"#, "/a", invalid()),
        (r#"{"a":"$held:H"#, "", Fault::NotJson),
        (r#"{"a":"$held:H"} x"#, "", Fault::NotJson),
        (r#"{"a":"$held:H",}"#, "", Fault::NotJson),
    ] {
        assert_eq!(refused(arguments), (place.to_owned(), fault), "{arguments}");
    }
}

#[test]
fn a_mistyped_handle_is_told_apart() {
    let good = handle(1).to_string();
    let last = if good.ends_with('0') { "1" } else { "0" };
    let wrong = format!("{}{last}", &good[..29]);
    let mistyped = ("/a".to_owned(), Fault::Handle(HandleRefusal::Mistyped));
    assert_eq!(refused(&format!(r#"{{"a":{{"$held":"{wrong}"}}}}"#)), mistyped);
    assert_eq!(refused(&format!(r#"{{"a":"$held:{wrong}"}}"#)), mistyped);
}

#[test]
fn depth_and_number_are_bounded() {
    let nested =
        |depth: usize| format!("{}\"$held:{}\"{}", "[".repeat(depth), handle(1), "]".repeat(depth));
    assert_eq!(find(&nested(MAX_ARGUMENTS_DEPTH)).unwrap().len(), 1);
    let error = find(&nested(MAX_ARGUMENTS_DEPTH + 1)).unwrap_err();
    assert_eq!(error.fault(), &Fault::TooDeep);
    assert_eq!(error.place(), "/0".repeat(MAX_ARGUMENTS_DEPTH));
    assert_eq!(find(&nested(100_000)).unwrap_err().fault(), &Fault::TooDeep);
    let many = |count: usize| Value::from(vec![json!({"$held": handle(1).to_string()}); count]);
    assert_eq!(find(&many(MAX_REFERENCES).to_string()).unwrap().len(), MAX_REFERENCES);
    let error = find(&many(MAX_REFERENCES + 1).to_string()).unwrap_err();
    assert_eq!((error.place(), error.fault()), ("/16", &Fault::TooMany));
}

proptest! {
    #[test]
    fn every_text_is_looked_through_or_refused(text in r#"[\[\]{}":,a0 $held\\u0123456789path#/]{0,40}"#) {
        if find(&text).is_ok() {
            prop_assert!(serde_json::from_str::<IgnoredAny>(&text).is_ok());
        }
    }

    #[test]
    fn what_is_not_mentioned_is_not_there(text: String) {
        let arguments = json!({"a": text, text.as_str(): [text]}).to_string();
        if !mentions_held(&arguments) {
            prop_assert_eq!(find(&arguments).unwrap(), vec![]);
        }
    }

    #[test]
    fn the_same_as_in_a_tree(arguments in any_arguments(), is_pretty: bool, is_escaped: bool) {
        let mut text = match is_pretty {
            true => serde_json::to_string_pretty(&arguments).unwrap(),
            false => arguments.to_string(),
        };
        if is_escaped {
            text = text.replace('$', "\\u0024").replace("held", "hel\\u0064");
        }
        let mut expected = Vec::new();
        let is_good = walk(&arguments, String::new(), &mut expected);
        let found = find(&text).map(|found| {
            let told = |one: Reference| {
                let range = serde_json::from_str(&text[one.range]).unwrap();
                (one.place, one.is_text, one.pointer.to_string(), range)
            };
            found.into_iter().map(told).collect::<Vec<_>>()
        });
        prop_assert_eq!(found.is_ok(), is_good && expected.len() <= MAX_REFERENCES, "{}", text);
        if let Ok(found) = found {
            prop_assert_eq!(found, expected);
            prop_assert!(mentions_held(&text) || !text.contains("held"));
        }
    }
}

/// Trees with references, things that look like some, and nothing of the kind.
fn any_arguments() -> impl Strategy<Value = Value> {
    let h = handle(1).to_string();
    let leaf = prop_oneof![
        4 => Just(json!({"$held": h})),
        2 => Just(json!({"$held": h, "path": "/a~1b/0"})),
        4 => Just(json!(format!("$held:{h}"))),
        2 => Just(json!(format!("$held:{h}#/x"))),
        1 => Just(json!({"$held": h, "other": 1})),
        1 => Just(json!({"$held": 7})),
        1 => Just(json!("$held:")),
        4 => Just(json!({"path": "/x", "held": h})),
        4 => "[a$held:#/~ ]{0,8}".prop_map(Value::from),
        4 => any::<i32>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a~/é]{0,3}", inner, 0..4).prop_map(|all| json!(all)),
        ]
    })
}

/// What a walk over the tree finds, and whether nothing in it is wrong.
fn walk(value: &Value, place: String, found: &mut Vec<(String, bool, String, Value)>) -> bool {
    let is_handle = |text: &str| text == handle(1).to_string();
    match value {
        Value::String(text) => {
            let Some(named) = text.strip_prefix("$held:") else { return true };
            let (name, path) = named.split_once('#').unwrap_or((named, ""));
            found.push((place, true, path.to_owned(), value.clone()));
            is_handle(name) && path.parse::<Pointer>().is_ok()
        }
        Value::Array(all) => all
            .iter()
            .enumerate()
            .all(|(number, inner)| walk(inner, format!("{place}/{number}"), found)),
        Value::Object(members) => match members.get("$held") {
            None => members.iter().all(|(name, inner)| {
                let token = name.replace('~', "~0").replace('/', "~1");
                walk(inner, format!("{place}/{token}"), found)
            }),
            Some(held) => {
                let path = members.get("path").map_or(Some(""), Value::as_str);
                let others = members.keys().any(|name| name != "$held" && name != "path");
                let path = path.filter(|path| path.parse::<Pointer>().is_ok());
                found.push((place, false, path.unwrap_or_default().to_owned(), value.clone()));
                held.as_str().is_some_and(is_handle) && path.is_some() && !others
            }
        },
        _ => true,
    }
}
