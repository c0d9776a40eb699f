use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use handback_page::json::InMemory;
use proptest::prelude::*;
use serde_json::json;

use super::super::error::HandleRefusal;
use super::super::rules::Allowed;
use super::*;
use crate::schema::ForeignSchema;

/// Values by handle, as a store without owners has them.
#[derive(Default)]
struct Values {
    held: HashMap<Handle, (String, HeldNote, Vec<u8>)>,
    /// How many were asked for.
    asked: usize,
}

impl Values {
    fn hold(&mut self, kind: &str, upstream: Option<&str>, bytes: impl Into<Vec<u8>>) -> Handle {
        let handle = Handle::from_bytes([u8::try_from(self.held.len()).unwrap() + 1; 16]);
        let upstream = upstream.map(str::to_owned);
        let note = HeldNote { upstream, tool: "read".to_owned(), ..HeldNote::default() };
        self.held.insert(handle, (kind.to_owned(), note, bytes.into()));
        handle
    }
}

impl Fetch for Values {
    fn fetch(&mut self, handle: Handle) -> Result<Source, Fault> {
        self.asked += 1;
        let found = self.held.get(&handle).ok_or(Fault::Handle(HandleRefusal::Unknown))?;
        let (kind, note, bytes) = found.clone();
        Ok(Source { kind, note, bytes: Box::new(InMemory::new(bytes, 0)) })
    }
}

fn call(rules: &Rules) -> Call<'_> {
    Call { upstream: "files", tool: "write", rules, schema: None }
}

fn resolved(arguments: &str, values: &mut Values) -> Result<String, ReferenceError> {
    let rules = Rules::default();
    let resolution = resolve(arguments, &call(&rules), values)?;
    Ok(resolution.arguments.into_owned())
}

const JSON: &str = "application/json";
const FILES: Option<&str> = Some("files");

#[test]
fn arguments_that_name_nothing_are_not_copied() {
    let rules = Rules::default();
    for arguments in [r#"{"a": 1}"#, r#"{"a":"is held"}"#, "no JSON", r#"{"$HELD":"x"}"#] {
        let resolution = resolve(arguments, &call(&rules), &mut Values::default()).unwrap();
        assert!(matches!(resolution.arguments, Cow::Borrowed(text) if text == arguments));
        assert_eq!(resolution.resolved, []);
    }
}

#[test]
fn each_form_gives_what_it_says() {
    let mut values = Values::default();
    let document = "{ \"n\": 1.50, \"t\": \"a\\u00e9\\n\",\n \"l\": [ 1, {\"x\": null} ] }\n";
    let json = values.hold(JSON, FILES, document);
    let text = values.hold("text/markdown", FILES, "line \"1\"\n\u{e9}\u{1}");
    let word = values.hold(JSON, FILES, " \"w\\t\" ");
    let api = values.hold("application/vnd.api+json", FILES, "[]");
    let trimmed = document.trim();
    let quoted = |text: &str| json!(text).to_string();
    for (written, expected) in [
        (format!(r#"{{"$held":"{json}"}}"#), trimmed.to_owned()),
        (format!(r#"{{"$held":"{json}","path":"/n"}}"#), "1.50".to_owned()),
        (format!(r#"{{"$held":"{json}","path":"/t"}}"#), r#""a\u00e9\n""#.to_owned()),
        (format!(r#"{{"$held":"{json}","path":"/l/1"}}"#), r#"{"x": null}"#.to_owned()),
        (format!(r#""$held:{json}""#), quoted(trimmed)),
        (format!(r##""$held:{json}#/n""##), r#""1.50""#.to_owned()),
        (format!(r##""$held:{json}#/t""##), r#""a\u00e9\n""#.to_owned()),
        (format!(r##""$held:{json}#/l""##), r#""[ 1, {\"x\": null} ]""#.to_owned()),
        (format!(r#"{{"$held":"{text}"}}"#), r#""line \"1\"\né\u0001""#.to_owned()),
        (format!(r#""$held:{text}""#), r#""line \"1\"\né\u0001""#.to_owned()),
        (format!(r##""$held:{text}#""##), r#""line \"1\"\né\u0001""#.to_owned()),
        (format!(r#"{{"$held":"{word}"}}"#), r#""w\t""#.to_owned()),
        (format!(r#""$held:{word}""#), r#""w\t""#.to_owned()),
        (format!(r#"{{"$held":"{api}"}}"#), "[]".to_owned()),
    ] {
        let around = |inner: &str| format!(r#" {{"a" : {inner} , "b":[{inner},1e5]}} "#);
        let result = resolved(&around(&written), &mut values).unwrap();
        assert_eq!(result, around(&expected), "{written}");
    }
}

#[test]
fn what_was_put_in_is_not_looked_into() {
    let mut values = Values::default();
    let own = Handle::from_bytes([1; 16]);
    let reference = json!({"$held": own.to_string()}).to_string();
    assert_eq!(values.hold(JSON, FILES, reference.clone()), own);
    let text = values.hold("text/plain", FILES, format!("$held:{own}"));
    assert_eq!(resolved(&reference, &mut values).unwrap(), reference);
    let arguments = format!(r#"["$held:{text}"]"#);
    assert_eq!(resolved(&arguments, &mut values).unwrap(), format!(r#"["$held:{own}"]"#));
}

#[track_caller]
fn refused(arguments: &str, values: &mut Values) -> (String, Fault) {
    let error = resolved(arguments, values).expect_err(arguments);
    (error.place().to_owned(), error.fault().clone())
}

#[test]
fn what_cannot_be_put_in_is_refused_with_its_place() {
    let mut values = Values::default();
    let json = values.hold(JSON, FILES, r#"{"a":[1]}"#);
    let text = values.hold("text/plain", FILES, "text");
    let latin = values.hold("text/plain", FILES, b"\xe9".as_slice());
    let two = values.hold(JSON, FILES, r#"1,"admin":true"#);
    let image = values.hold("image/png", FILES, b"\x89PNG".as_slice());
    let broken = values.hold(JSON, FILES, r#"{"a":[1]"#);
    let unknown = Handle::from_bytes([99; 16]);
    for (handle, path, fault) in [
        (json, "/b", Fault::Nothing),
        (json, "/a/1", Fault::Nothing),
        (json, "/a/-", Fault::Nothing),
        (text, "/a", Fault::TextHasNoParts),
        (latin, "", Fault::Unreadable),
        (two, "", Fault::Unreadable),
        (two, "/a", Fault::Unreadable),
        (image, "", Fault::Unreadable),
        (broken, "", Fault::Unreadable),
        (broken, "/a/0", Fault::Unreadable),
        (unknown, "", Fault::Handle(HandleRefusal::Unknown)),
    ] {
        let arguments = json!({"x": [{"$held": handle.to_string(), "path": path}]}).to_string();
        assert_eq!(refused(&arguments, &mut values), ("/x/0".to_owned(), fault.clone()), "{path}");
        let arguments = json!({"x": [format!("$held:{handle}#{path}")]}).to_string();
        assert_eq!(refused(&arguments, &mut values), ("/x/0".to_owned(), fault), "{path}");
    }
}

#[test]
fn nothing_is_looked_up_while_something_is_mistyped() {
    let mut values = Values::default();
    let json = values.hold(JSON, FILES, "1");
    let arguments = json!([{"$held": json.to_string()}, {"$held": "no handle"}]).to_string();
    let error = resolved(&arguments, &mut values).unwrap_err();
    assert_eq!((values.asked, error.reason()), (0, "unknown_handle"));
}

#[test]
fn values_go_where_they_may() {
    let mut values = Values::default();
    let files = values.hold(JSON, FILES, "1");
    let mail = values.hold(JSON, Some("mail"), "1");
    let own = values.hold(JSON, None, "1");
    let arguments = |handle: Handle| json!({"x": {"$held": handle.to_string()}}).to_string();
    let rule = |from: &str, to: &str| Allowed { from: from.to_owned(), to: to.to_owned() };
    let direction = |from: &str| Fault::Direction { from: from.to_owned(), to: "files".to_owned() };
    let mut with = |handle: Handle, allowed: &[Allowed]| {
        let rules = Rules { allowed: allowed.to_vec(), ..Rules::default() };
        let arguments = arguments(handle);
        let resolution = resolve(&arguments, &call(&rules), &mut values);
        resolution
            .map(|resolution| resolution.resolved.len())
            .map_err(|error| error.fault().clone())
    };
    assert_eq!(with(files, &[]), Ok(1));
    assert_eq!(with(mail, &[]), Err(direction("mail")));
    assert_eq!(with(own, &[]), Err(direction("handback")));
    assert_eq!(with(mail, &[rule("mail", "files")]), Ok(1));
    assert_eq!(with(mail, &[rule("files", "mail")]), Err(direction("mail")));
    assert_eq!(with(own, &[rule("*", "*")]), Err(direction("handback")));
    assert_eq!(with(own, &[rule("handback", "files")]), Ok(1));
}

#[test]
fn sizes_are_bounded_before_anything_is_read() {
    /// A value that is never read.
    #[derive(Debug)]
    struct Large;

    impl ByteSource for Large {
        fn size_bytes(&self) -> u64 {
            1 << 40
        }

        fn edition(&self) -> u64 {
            0
        }

        fn read(&self, _range: Range<u64>) -> Result<Cow<'_, [u8]>, CollectionError> {
            panic!("it is too large to be read")
        }
    }

    struct AllLarge;

    impl Fetch for AllLarge {
        fn fetch(&mut self, _handle: Handle) -> Result<Source, Fault> {
            let note = HeldNote { upstream: Some("files".to_owned()), ..HeldNote::default() };
            Ok(Source { kind: JSON.to_owned(), note, bytes: Box::new(Large) })
        }
    }

    let rules = Rules::default();
    let arguments = json!([{"$held": Handle::from_bytes([1; 16]).to_string()}]).to_string();
    let error = resolve(&arguments, &call(&rules), &mut AllLarge).unwrap_err();
    assert_eq!(error.fault(), &Fault::TooLarge { limit: 8 << 20 });

    let mut values = Values::default();
    let ten = values.hold("text/plain", FILES, "0123456789");
    let marks = values.hold("text/plain", FILES, "\u{1}\u{1}\u{1}\u{1}");
    let of =
        |handle: Handle, count: usize| json!(vec![format!("$held:{handle}"); count]).to_string();
    let with = |arguments: &str, bytes_max, values: &mut Values| {
        let rules = Rules { bytes_max, ..Rules::default() };
        let resolution = resolve(arguments, &call(&rules), values);
        resolution.map(|_| ()).map_err(|error| error.place().to_owned())
    };
    assert_eq!(with(&of(ten, 3), 36, &mut values), Ok(()));
    assert_eq!(with(&of(ten, 3), 35, &mut values), Err("/2".to_owned()), "with its quotes");
    assert_eq!(with(&of(ten, 3), 29, &mut values), Err("/2".to_owned()));
    assert_eq!(with(&of(marks, 1), 26, &mut values), Ok(()));
    assert_eq!(with(&of(marks, 1), 25, &mut values), Err("/0".to_owned()), "with its escapes");
}

#[test]
fn what_comes_out_fits_the_schema_of_the_tool() {
    let mut values = Values::default();
    let json = values.hold(JSON, FILES, r#"{"secret":[1,2]}"#);
    let deep = values.hold(JSON, FILES, format!("{}{}", "[".repeat(200), "]".repeat(200)));
    let schema = json!({
        "type": "object",
        "properties": {"content": {"type": "string"}, "tags": {"type": "array"}},
        "required": ["content"],
        "additionalProperties": false,
    });
    let schema = ForeignSchema::of(&schema, &AtomicBool::new(false)).unwrap();
    let validator = BoundedValidator::new(Arc::new(schema));
    let rules = Rules::default();
    let call = Call { schema: Some(&validator), ..call(&rules) };
    let mut with = |arguments: Value| {
        let arguments = arguments.to_string();
        resolve(&arguments, &call, &mut values).map(|resolution| resolution.resolved.len())
    };
    assert_eq!(with(json!({"content": format!("$held:{json}")})), Ok(1));
    let error = with(json!({"content": {"$held": json.to_string()}})).unwrap_err();
    assert_eq!((error.place(), error.reason()), ("/content", "bad_arguments"));
    assert!(!error.to_string().contains("secret"), "{error}");
    assert!(error.to_string().starts_with("`/content`: "), "{error}");
    let tags = json!({"content": "x", "tags": {"$held": json.to_string(), "path": "/secret"}});
    assert_eq!(with(tags), Ok(1));
    let missing = with(json!({"tags": {"$held": json.to_string(), "path": "/secret"}}));
    assert!(missing.unwrap_err().to_string().starts_with("the arguments: "));
    let deep = with(json!({"content": "x", "tags": {"$held": deep.to_string()}}));
    assert!(matches!(deep.unwrap_err().fault(), Fault::Schema(what) if what.contains("too deep")));
    // Without references nothing is checked: that is the upstream's part.
    assert_eq!(with(json!({"content": 7, "x": "held"})), Ok(0));
}

#[test]
fn the_audit_is_told_what_went_where() {
    let mut values = Values::default();
    let json = values.hold(JSON, FILES, r#"{"a":[1,23]}"#);
    let arguments =
        json!({"x": {"$held": json.to_string(), "path": "/a"}, "y": format!("$held:{json}")});
    let rules = Rules::default();
    let arguments = arguments.to_string();
    let resolution = resolve(&arguments, &call(&rules), &mut values).unwrap();
    let lines = serde_json::to_value(&resolution.resolved).unwrap();
    let handle = TokenFingerprint::of(&json.to_string()).to_string();
    let line = |place: &str, path: &str, bytes: u64| {
        json!({
            "from_upstream": "files",
            "from_tool": "read",
            "to_upstream": "files",
            "to_tool": "write",
            "place": place,
            "handle": handle,
            "path": path,
            "bytes": bytes,
        })
    };
    assert_eq!(lines, json!([line("/x", "/a", 6), line("/y", "", 12)]));
    assert!(!lines.to_string().contains(&json.to_string()));
}

#[test]
fn the_sentences_about_handles_are_frozen() {
    let told = |refusal| ReferenceError::new("/a".to_owned(), Fault::Handle(refusal)).to_string();
    assert_eq!(told(HandleRefusal::Unknown), "invalid handle");
    assert_eq!(told(HandleRefusal::Revoked), "invalid handle");
    assert_eq!(
        told(HandleRefusal::Expired),
        "expired handle: make the call that gave it once more"
    );
    assert_eq!(
        told(HandleRefusal::Mistyped),
        "mistyped handle: copy it again, a character of it is another one"
    );
}

/// Arguments with references in them, and what they become.
#[derive(Clone, Debug)]
enum Tree {
    Plain(Value),
    /// The number of a held value, and how it is named.
    Reference(usize, u8),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

/// Held values: kind, text, a path, and what is there as JSON and as a string.
const HELD: [(&str, &str, &str, &str, &str); 4] = [
    (
        JSON,
        "{\"a\": [1.50, \"x\\\"\"] }",
        "",
        "{\"a\": [1.50, \"x\\\"\"] }",
        "\"{\\\"a\\\": [1.50, \\\"x\\\\\\\"\\\"] }\"",
    ),
    (JSON, "{\"a\": [1.50, \"x\\\"\"] }", "/a/1", "\"x\\\"\"", "\"x\\\"\""),
    ("text/plain", "$held:\n", "", "\"$held:\\n\"", "\"$held:\\n\""),
    (JSON, "[]", "", "[]", "\"[]\""),
];

impl Tree {
    fn write(&self, spaces: &str, values: Option<&[Handle]>, out: &mut String) {
        match self {
            Self::Plain(value) => out.push_str(&value.to_string()),
            Self::Reference(number, form) => {
                let (_, _, path, json, text) = HELD[*number];
                match values {
                    None => out.push_str(if form % 3 == 0 { text } else { json }),
                    Some(handles) => out.push_str(&written(handles[*number], path, *form, spaces)),
                }
            }
            Self::Array(items) => {
                out.push('[');
                for (number, item) in items.iter().enumerate() {
                    out.push_str(if number > 0 { "," } else { "" });
                    out.push_str(spaces);
                    item.write(spaces, values, out);
                }
                out.push_str(spaces);
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (number, (name, item)) in members.iter().enumerate() {
                    out.push_str(if number > 0 { "," } else { "" });
                    out.push_str(&format!("{spaces}{}{spaces}:{spaces}", json!(name)));
                    item.write(spaces, values, out);
                    out.push_str(spaces);
                }
                out.push('}');
            }
        }
    }
}

fn written(handle: Handle, path: &str, form: u8, spaces: &str) -> String {
    match form % 3 {
        0 => format!("\"$held:{handle}#{path}\""),
        1 => format!("{{{spaces}\"path\":\"{path}\"{spaces},\"$held\":\"{handle}\"}}"),
        _ => format!("{{\"\\u0024he\\u006cd\":{spaces}\"{handle}\", \"path\":\"{path}\"{spaces}}}"),
    }
}

fn any_tree() -> impl Strategy<Value = Tree> {
    let text = prop_oneof!["[a-z$:#held\"\\\\\u{e9}\n]{0,12}", any::<String>()]
        .prop_filter("a reference", |text| !text.starts_with("$held:"));
    let name = text.clone().prop_filter("a reference", |name| name != "$held");
    let plain = prop_oneof![
        text.prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        Just(json!(null)),
        Just(json!({"held": [{}, []]})),
    ];
    let leaf = prop_oneof![
        3 => plain.prop_map(Tree::Plain),
        1 => (0..HELD.len(), any::<u8>()).prop_map(|(number, form)| Tree::Reference(number, form)),
    ];
    leaf.prop_recursive(8, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::Array),
            prop::collection::vec((name.clone(), inner), 0..5).prop_map(Tree::Object),
        ]
    })
}

fn count(tree: &Tree) -> usize {
    match tree {
        Tree::Plain(_) => 0,
        Tree::Reference(..) => 1,
        Tree::Array(items) => items.iter().map(count).sum(),
        Tree::Object(members) => members.iter().map(|(_, item)| count(item)).sum(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

    #[test]
    fn all_bytes_but_the_references_stay(tree in any_tree(), spaces in "[ \n\t]{0,2}") {
        let mut values = Values::default();
        let handles: Vec<_> =
            HELD.iter().map(|(kind, text, ..)| values.hold(kind, FILES, *text)).collect();
        let (mut arguments, mut expected) = (String::new(), String::new());
        tree.write(&spaces, Some(&handles), &mut arguments);
        tree.write(&spaces, None, &mut expected);
        let result = resolved(&arguments, &mut values);
        if count(&tree) <= super::super::MAX_REFERENCES {
            prop_assert_eq!(result.unwrap(), expected);
        } else {
            let error = result.unwrap_err();
            prop_assert_eq!(error.fault(), &Fault::TooMany);
        }
    }
}
