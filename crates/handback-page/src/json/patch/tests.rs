use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::tests::{any_value, written};
use super::*;

const LARGE: usize = 1 << 20;

fn applied(document: &str, patch: &Value) -> Result<String, PatchError> {
    Patch::read(patch)?.apply(document, LARGE)
}

#[track_caller]
fn check(document: &str, patch: &Value, expected: &str) {
    assert_eq!(applied(document, patch).as_deref(), Ok(expected), "{document} {patch}");
}

#[track_caller]
fn fault(document: &str, patch: &Value) -> (usize, OperationFault) {
    match applied(document, patch) {
        Err(PatchError::Operation { number, fault }) => (number, fault),
        other => panic!("{other:?}"),
    }
}

/// RFC 6902, appendix A, in its order.
#[test]
fn the_examples_of_the_rfc() {
    for (document, patch, expected) in [
        (
            r#"{ "foo": "bar"}"#,
            json!([{"op": "add", "path": "/baz", "value": "qux"}]),
            r#"{ "foo": "bar", "baz": "qux"}"#,
        ),
        (
            r#"{ "foo": [ "bar", "baz" ] }"#,
            json!([{"op": "add", "path": "/foo/1", "value": "qux"}]),
            r#"{ "foo": [ "bar", "qux", "baz" ] }"#,
        ),
        (
            r#"{"baz": "qux","foo": "bar"}"#,
            json!([{"op": "remove", "path": "/baz"}]),
            r#"{"foo": "bar"}"#,
        ),
        (
            r#"{ "foo": [ "bar", "qux", "baz" ] }"#,
            json!([{"op": "remove", "path": "/foo/1"}]),
            r#"{ "foo": [ "bar", "baz" ] }"#,
        ),
        (
            r#"{"baz": "qux", "foo": "bar"}"#,
            json!([{"op": "replace", "path": "/baz", "value": "boo"}]),
            r#"{"baz": "boo", "foo": "bar"}"#,
        ),
        (
            r#"{"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}"#,
            json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
            r#"{"foo": {"bar": "baz"}, "qux": {"corge": "grault","thud": "fred"}}"#,
        ),
        (
            r#"{ "foo": [ "all", "grass", "cows", "eat" ] }"#,
            json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
            r#"{ "foo": [ "all", "cows", "eat", "grass" ] }"#,
        ),
        (
            r#"{"baz": "qux", "foo": [ "a", 2, "c" ]}"#,
            json!([
                {"op": "test", "path": "/baz", "value": "qux"},
                {"op": "test", "path": "/foo/1", "value": 2},
            ]),
            r#"{"baz": "qux", "foo": [ "a", 2, "c" ]}"#,
        ),
        (
            r#"{ "foo": "bar" }"#,
            json!([{"op": "add", "path": "/child", "value": {"grandchild": {}}}]),
            r#"{ "foo": "bar", "child": {"grandchild":{}} }"#,
        ),
        (
            r#"{ "foo": "bar" }"#,
            json!([{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}]),
            r#"{ "foo": "bar", "baz": "qux" }"#,
        ),
        (
            r#"{"/": 9, "~1": 10}"#,
            json!([{"op": "test", "path": "/~01", "value": 10}]),
            r#"{"/": 9, "~1": 10}"#,
        ),
        (
            r#"{ "foo": ["bar"] }"#,
            json!([{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}]),
            r#"{ "foo": ["bar",["abc","def"]] }"#,
        ),
    ] {
        check(document, &patch, expected);
    }
    let test = |value| json!([{"op": "test", "path": "/baz", "value": value}]);
    assert_eq!(fault(r#"{ "baz": "qux" }"#, &test(json!("bar"))), (0, OperationFault::TestFailed));
    assert_eq!(fault(r#"{"baz": 10}"#, &test(json!("10"))), (0, OperationFault::TestFailed));
    let nowhere = json!([{"op": "add", "path": "/baz/bat", "value": "qux"}]);
    assert_eq!(fault(r#"{ "foo": "bar" }"#, &nowhere), (0, OperationFault::Nothing("path")));
}

#[test]
fn what_is_not_changed_stays_as_it_is_written() {
    let document = "{\n  \"big\": 12345678901234567890123,\n  \"price\" : 1.50,\n  \"list\": [\n    \
                    1.0,\n    2e0\n  ],\n  \"text\": \"\\u00e9\\/\"\n}\n";
    let patch = json!([
        {"op": "replace", "path": "/list/1", "value": 3},
        {"op": "add", "path": "/list/0", "value": 0},
        {"op": "add", "path": "/new", "value": null},
        {"op": "remove", "path": "/price"},
    ]);
    let expected = "{\n  \"big\": 12345678901234567890123,\n  \"list\": [\n    0,\n    1.0,\n    \
                    3\n  ],\n  \"text\": \"\\u00e9\\/\",\n  \"new\": null\n}\n";
    check(document, &patch, expected);
    check("[1, 2, 3]", &json!([{"op": "remove", "path": "/0"}]), "[2, 3]");
    check("[1, 2]", &json!([{"op": "add", "path": "/0", "value": 0}]), "[0, 1, 2]");
    check("[ ]", &json!([{"op": "add", "path": "/-", "value": 0}]), "[0 ]");
    check("[1 , 2]", &json!([{"op": "add", "path": "/-", "value": 3}]), "[1 , 2, 3]");
    check("{}", &json!([{"op": "add", "path": "/a\"", "value": []}]), r#"{"a\"":[]}"#);
}

#[test]
fn the_whole_document_is_a_place_as_well() {
    check(" 1 ", &json!([{"op": "add", "path": "", "value": 2}]), " 2 ");
    check("1", &json!([{"op": "replace", "path": "", "value": [2]}]), "[2]");
    check("1", &json!([{"op": "test", "path": "", "value": 1.0}]), "1");
    check(r#"{"a":1}"#, &json!([{"op": "move", "from": "/a", "path": ""}]), "1");
    check(
        r#"{"a":1}"#,
        &json!([{"op": "copy", "from": "", "path": "/b"}]),
        r#"{"a":1,"b":{"a":1}}"#,
    );
    check("[[1]]", &json!([{"op": "move", "from": "/0", "path": "/0"}]), "[[1]]");
    assert_eq!(fault("1", &json!([{"op": "remove", "path": ""}])), (0, OperationFault::Whole));
    for path in ["/a", "/0", "/"] {
        let into = json!([{"op": "move", "from": "", "path": path}]);
        assert_eq!(fault("[1]", &into), (0, OperationFault::IntoItself));
    }
}

#[test]
fn of_several_members_of_one_name_the_last_counts_and_all_go() {
    let twice = r#"{"a":1,"b":2,"\u0061":3}"#;
    check(twice, &json!([{"op": "test", "path": "/a", "value": 3}]), twice);
    check(twice, &json!([{"op": "remove", "path": "/a"}]), r#"{"b":2}"#);
    let replaced = json!([{"op": "replace", "path": "/a", "value": 4}]);
    check(twice, &replaced, r#"{"a":1,"b":2,"\u0061":4}"#);
    let test = json!([{"op": "test", "path": "", "value": {"a": 3, "b": 2}}]);
    assert_eq!(fault(twice, &test), (0, OperationFault::TestFailed));
    let test = json!([{"op": "test", "path": "", "value": {"a": 3, "b": 2, "c": 1}}]);
    assert_eq!(fault(twice, &test), (0, OperationFault::TestFailed));
}

#[test]
fn values_are_compared_as_values() {
    let document =
        r#"{"n":1e2,"big":9007199254740993,"t":"\u00e9","o":{"a":[1,{"b":null}],"c":true}}"#;
    for (path, value) in [
        ("/n", json!(100)),
        ("/n", json!(100.0)),
        ("/big", json!(9_007_199_254_740_993_u64)),
        ("/t", json!("é")),
        ("/o", json!({"c": true, "a": [1.0, {"b": null}]})),
    ] {
        check(document, &json!([{"op": "test", "path": path, "value": value}]), document);
    }
    for (path, value) in [
        ("/n", json!(101)),
        ("/n", json!("1e2")),
        ("/big", json!(9_007_199_254_740_992_u64)),
        ("/t", json!("e")),
        ("/o", json!({"c": true})),
        ("/o", json!({"c": true, "a": [1, {"b": null}], "d": 1})),
        ("/o/a", json!([1])),
        ("/o/c", json!(false)),
        ("/o/a/1/b", json!(false)),
        ("/o", json!([])),
        ("/o/a", json!({})),
    ] {
        let test = json!([{"op": "test", "path": path, "value": value}]);
        assert_eq!(fault(document, &test), (0, OperationFault::TestFailed), "{path} {value}");
    }
}

#[test]
fn what_is_no_patch_is_refused_with_its_place() {
    use OperationFault::{Member, NoPlace, NotAnObject, Nothing, Pointer, UnknownOp};
    let ok = json!({"op": "test", "path": "", "value": [1]});
    for (operation, expected) in [
        (json!(1), NotAnObject),
        (json!({}), Member("op")),
        (json!({"op": 1, "path": ""}), Member("op")),
        (json!({"op": "put", "path": ""}), UnknownOp),
        (json!({"op": "Add", "path": "", "value": 1}), UnknownOp),
        (json!({"op": "add", "value": 1}), Member("path")),
        (json!({"op": "add", "path": ""}), Member("value")),
        (json!({"op": "test", "path": ""}), Member("value")),
        (json!({"op": "move", "path": ""}), Member("from")),
        (json!({"op": "copy", "path": "", "from": 1}), Member("from")),
        (json!({"op": "remove", "path": "0"}), Pointer("path", PointerError::NoSlash)),
        (
            json!({"op": "copy", "path": "/0", "from": "/~"}),
            Pointer("from", PointerError::BadEscape),
        ),
        (json!({"op": "add", "path": "/2", "value": 1}), NoPlace),
        (json!({"op": "add", "path": "/01", "value": 1}), NoPlace),
        (json!({"op": "add", "path": "/x", "value": 1}), NoPlace),
        (json!({"op": "remove", "path": "/1"}), Nothing("path")),
        (json!({"op": "remove", "path": "/-"}), Nothing("path")),
        (json!({"op": "replace", "path": "/0/0", "value": 1}), Nothing("path")),
        (json!({"op": "test", "path": "/1", "value": 1}), Nothing("path")),
        (json!({"op": "move", "path": "/0", "from": "/7"}), Nothing("from")),
        (json!({"op": "copy", "path": "/0", "from": "/7"}), Nothing("from")),
    ] {
        assert_eq!(fault("[1]", &json!([ok, operation])), (1, expected), "{operation}");
    }
    assert_eq!(applied("[1]", &json!({})), Err(PatchError::NotAPatch));
    let many = Value::Array(vec![ok; MAX_OPERATIONS + 1]);
    assert_eq!(applied("[1]", &many), Err(PatchError::NotAPatch));
    for broken in ["", "[1", "[1] 2", "{\"a\":}", "[01]"] {
        let patched = applied(broken, &json!([]));
        assert!(matches!(patched, Err(PatchError::NotJson { .. })), "{broken} {patched:?}");
    }
}

#[test]
fn what_grows_beyond_its_bounds_is_refused() {
    let double = json!({"op": "copy", "from": "", "path": "/0"});
    let patch = Patch::read(&Value::Array(vec![double.clone(); 5])).unwrap();
    let result = patch.apply("[1]", LARGE).unwrap();
    assert_eq!(patch.apply("[1]", result.len()).unwrap(), result);
    let limit = result.len() - 1;
    assert_eq!(patch.apply("[1]", limit), Err(PatchError::TooLarge { limit }));
    // A thousand doublings.
    let patch = Value::Array(vec![double; MAX_OPERATIONS]);
    let document = format!("[{}]", vec!["1"; 1000].join(","));
    assert_eq!(applied(&document, &patch), Err(PatchError::TooMany));
    let deeper = json!({"op": "copy", "from": "", "path": "/a"});
    let patch = Value::Array(vec![deeper; MAX_OPERATIONS]);
    assert_eq!(applied("{}", &patch), Err(PatchError::TooDeep));
    let nested = (0..100).fold(json!(1), |inner, _| json!([inner]));
    let patch = json!([{"op": "add", "path": &"/0".repeat(100), "value": nested}]);
    assert_eq!(applied(&nested.to_string(), &patch), Err(PatchError::TooDeep));
    let long = format!("[{}1]", "1,".repeat(MAX_TAKEN_APART));
    assert_eq!(applied(&long, &json!([{"op": "remove", "path": "/0"}])), Err(PatchError::TooMany));
    check(r#"{"a":[],"b":1}"#, &json!([{"op": "remove", "path": "/b"}]), r#"{"a":[]}"#);
}

/// What is written on the way counts, whatever becomes of it: each of these ends in a small result.
#[test]
fn what_is_written_on_the_way_has_the_bound_of_the_result() {
    let small = json!({"op": "replace", "path": "", "value": 1});
    let then_small = |mut operations: Vec<Value>| {
        operations.push(small.clone());
        Value::Array(operations)
    };
    let too_large = Err(PatchError::TooLarge { limit: LARGE });
    // New elements are spaced as those beside them.
    let spaces = " ".repeat(10_000);
    let add = |path: &str| json!({"op": "add", "path": path, "value": 0});
    let patch = then_small(vec![add("/-"); MAX_OPERATIONS - 1]);
    assert_eq!(applied(&format!("[{spaces}1]"), &patch), too_large);
    check("[ 1]", &patch, "1");
    let members: Vec<_> = (0..MAX_OPERATIONS - 1).map(|n| add(&format!("/{n}"))).collect();
    let patch = then_small(members);
    assert_eq!(applied(&format!("{{\"a\"{spaces}:1}}"), &patch), too_large);
    check("{\"a\" :1}", &patch, "1");
    // Copies of a name double with every copy of what they are in.
    let name = "n".repeat(10_000);
    let copy = |n: u32| json!({"op": "copy", "from": "", "path": format!("/{n}")});
    let mut operations = vec![add(&format!("/{name}"))];
    operations.extend((0..10).map(copy));
    assert_eq!(applied("{}", &then_small(operations.clone())), too_large);
    check("{}", &then_small(operations[..5].to_vec()), "1");
}

/// The operations on trees, as the RFC words them.
fn model(document: &Value, patch: &[Value]) -> Option<Value> {
    let mut document = document.clone();
    for operation in patch {
        let path = operation["path"].as_str()?.to_owned();
        let from = operation["from"].as_str().unwrap_or_default().to_owned();
        match operation["op"].as_str()? {
            "add" => add(&mut document, &path, operation["value"].clone())?,
            "remove" => drop(remove(&mut document, &path)?),
            "replace" => *document.pointer_mut(&path)? = operation["value"].clone(),
            "move" if from == path => drop(document.pointer(&path)?),
            "move" if path.starts_with(&format!("{from}/")) => return None,
            "move" => {
                let value = remove(&mut document, &from)?;
                add(&mut document, &path, value)?;
            }
            "copy" => {
                let value = document.pointer(&from)?.clone();
                add(&mut document, &path, value)?;
            }
            _ => {
                if document.pointer(&path)? != &operation["value"] {
                    return None;
                }
            }
        }
    }
    Some(document)
}

fn split(path: &str) -> Option<(&str, String)> {
    let (parent, last) = path.rsplit_once('/')?;
    Some((parent, last.replace("~1", "/").replace("~0", "~")))
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    let Some((parent, last)) = split(path) else {
        *document = value;
        return Some(());
    };
    match document.pointer_mut(parent)? {
        Value::Object(members) => drop(members.insert(last, value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let at: usize = number(&last).filter(|at| *at <= items.len())?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    let (parent, last) = split(path)?;
    match document.pointer_mut(parent)? {
        Value::Object(members) => members.remove(&last),
        Value::Array(items) => {
            let at = number(&last).filter(|at| *at < items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn small_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        (0..3).prop_map(Value::from),
        Just(json!("é\"")),
        Just(json!(1.5)),
    ];
    leaf.prop_recursive(4, 30, 4, |inner| {
        let name = prop::sample::select(vec!["a", "b", "~", "/", "", "0"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..4).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, v)| (name.to_owned(), v)).collect())
            }),
        ]
    })
}

fn small_path() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec!["a", "b", "~0", "~1", "", "0", "1", "2", "-"]);
    prop::collection::vec(token, 0..4)
        .prop_map(|tokens| tokens.iter().map(|token| format!("/{token}")).collect())
}

fn small_operation() -> impl Strategy<Value = Value> {
    let op = prop::sample::select(vec!["add", "remove", "replace", "move", "copy", "test"]);
    (op, small_path(), small_path(), small_value()).prop_map(
        |(op, path, from, value)| json!({"op": op, "path": path, "from": from, "value": value}),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn text_is_changed_as_trees_are(
        document in small_value(),
        style: u8,
        operations in prop::collection::vec(small_operation(), 0..6),
    ) {
        let text = written(&document, style);
        let result = applied(&text, &Value::Array(operations.clone()));
        match model(&document, &operations) {
            Some(expected) => {
                let result = result.unwrap();
                prop_assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), expected);
            }
            None => prop_assert!(matches!(result, Err(PatchError::Operation { .. })), "{:?}", result),
        }
    }

    #[test]
    fn a_patch_that_changes_nothing_changes_no_byte(value in any_value(), style: u8) {
        let text = written(&value, style);
        let path = value.as_object().and_then(|members| members.keys().next());
        let path = path.map(|name| name.replace('~', "~0").replace('/', "~1"));
        let path = path.map_or_else(String::new, |name| format!("/{name}"));
        let patch = json!([
            {"op": "test", "path": path, "value": value.pointer(&path)},
            {"op": "move", "path": path, "from": path},
        ]);
        prop_assert_eq!(applied(&text, &patch), Ok(text));
    }
}
