//! Lines of JSON.

use handback_collections::files::{FileOptions, MAX_JSONL_COLUMNS, MAX_LINE_BYTES};
use handback_page::{
    Collection, InMemory, JsonCollection, JsonOptions, Kind, Preset, Query, Search, Served, Window,
};
use serde_json::{Value, json};

use super::support::*;
use crate::engine::Asker;
use crate::support::*;

const LINES: &str = concat!(
    "{\"id\": 1, \"name\":\"b\",  \"v\": true}\r\n",
    "\n",
    "  {\"id\": 2, \"name\":\"a\", \"v\": 1, \"deep\": {\"text\": \"Needle\"}}\n",
    "{\"id\": 3, \"v\": null, \"list\": [\"x\", {\"y\": \"hay\"}]}\n",
    "   \t\n",
    "{\"id\": 4, \"name\": \"A\", \"v\": \"1\"}",
);

#[test]
fn an_item_is_its_line() {
    let file = TestFile::new(LINES);
    let t = file.jsonl();
    let rows = walk(&t, &sorted(&t, &[]), 3);
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0].item, "{\"id\": 1, \"name\":\"b\",  \"v\": true}");
    assert_eq!(rows[1].item, LINES.lines().nth(2).unwrap().trim());
    assert_eq!(walk_back(&t, &sorted(&t, &[]), 3), rows);
    assert_eq!(t.count(&sorted(&t, &[])).unwrap(), 4);
    let about = t.about().unwrap();
    assert_eq!((about.source.as_str(), about.items), ("jsonl file", Some(4)));
    assert_eq!(about.bytes, Some(LINES.len() as u64));
}

#[test]
fn columns_are_the_members_in_the_order_in_which_they_appear() {
    let schema = TestFile::new(LINES).jsonl().schema().unwrap();
    let columns: Vec<_> = schema
        .columns()
        .iter()
        .map(|column| (column.name.as_str(), column.nullable, column.preset))
        .collect();
    assert_eq!(
        columns,
        [
            ("id", false, Preset::Minimal),
            ("name", true, Preset::Minimal),
            ("v", true, Preset::Standard),
            ("deep", true, Preset::Standard),
            ("list", true, Preset::Standard),
        ]
    );
    assert!(schema.columns().iter().all(|column| column.kind == Kind::Any));
    assert!(schema.key().is_empty());
}

#[test]
fn json_types_are_kept_apart() {
    let file = TestFile::new(
        r#"{"id":1,"v":true}
           {"id":2,"v":false}
           {"id":3,"v":1}
           {"id":4,"v":0}
           {"id":5,"v":"1"}
           {"id":6,"v":1.5}
           {"id":7,"v":null}
           {"id":8}
           {"id":9,"v":[1]}
           {"id":10,"v":{"a":1}}
           {"id":11,"v":18446744073709551615}
           {"id":12,"v":{"$blob":"aGk"}}
           {"id":13,"v":1e300}"#,
    );
    let t = file.jsonl();
    for (filter, expected) in [
        (json!({"v": true}), vec![1]),
        (json!({"v": {"ne": true}}), (2..14).collect()),
        (json!({"v": {"gt": false}}), vec![1]),
        (json!({"v": {"lte": true}}), vec![1, 2]),
        (json!({"v": {"lt": false}}), vec![]),
        (json!({"v": {"in": [true, "1"]}}), vec![1, 5]),
        (json!({"v": 1}), vec![3]),
        (json!({"v": {"gte": 1}}), vec![3, 6, 11, 13]),
        (json!({"v": "1"}), vec![5]),
        (json!({"v": null}), vec![7, 8]),
        (json!({"v": {"is_null": false}}), vec![1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13]),
        (json!({"v": 18_446_744_073_709_551_615_u64}), vec![11]),
        (json!({"v": {"$blob": "aGk"}}), vec![12]),
        (json!({"v": {"$blob": "AQ"}}), vec![]),
        (json!({"v": {"starts_with": ""}}), vec![5]),
    ] {
        assert_eq!(found(&t, &filter, "id"), expected, "{filter}");
    }
    let query = sorted(&t, &["v"]);
    let ids = [4, 3, 6, 11, 13, 5, 2, 1, 9, 10, 12, 7, 8];
    for limit in [1, 4, 100] {
        assert_eq!(member(&walk(&t, &query, limit), "id"), ids);
        assert_eq!(member(&walk_back(&t, &query, limit), "id"), ids);
    }
}

#[test]
fn a_search_looks_into_everything_but_names() {
    let file = TestFile::new(LINES);
    let t = file.jsonl();
    let search = |text: &str| {
        let query = Query { search: Search::new(text), ..sorted(&t, &[]) };
        member(&walk(&t, &query, 3), "id")
    };
    assert_eq!(search("NEEDLE"), [2]);
    assert_eq!(search("hay b"), [1, 3]);
    assert_eq!(search("text"), [] as [i32; 0]);
    assert_eq!(search("a"), [2, 3, 4]);
}

#[test]
fn lines_need_not_be_objects() {
    let file = TestFile::new("5\n\"text\"\n[1, \"two\"]\nnull\n{}\n");
    let t = file.jsonl();
    let rows = walk(&t, &sorted(&t, &[]), 2);
    let items: Vec<_> = rows.iter().map(|row| &*row.item).collect();
    assert_eq!(items, ["5", "\"text\"", "[1, \"two\"]", "null", "{}"]);
    let query = Query { search: Search::new("two"), ..sorted(&t, &[]) };
    assert_eq!(walk(&t, &query, 2).len(), 1);
}

#[test]
fn names_may_be_anything() {
    let names = [
        "n",
        "item",
        "nested",
        "line",
        "nested text",
        "line_",
        "ID",
        "id",
        "a\"b",
        "c.d",
        "\u{0}",
        "",
    ];
    let object: serde_json::Map<String, Value> =
        names.iter().enumerate().map(|(n, name)| ((*name).to_owned(), json!(n))).collect();
    let file = TestFile::new(format!("{}\n{{\"x\":\"y\"}}\n", Value::Object(object)));
    let t = file.jsonl();
    for (number, name) in names.iter().enumerate() {
        assert_eq!(found(&t, &json!({*name: number}), name), [number], "{name}");
        let rows = walk(&t, &sorted(&t, &[&format!("-{name}")]), 1);
        assert_eq!(rows[1].item, r#"{"x":"y"}"#);
    }
}

#[test]
fn only_so_many_members_are_columns() {
    let many: serde_json::Map<String, Value> =
        (0..MAX_JSONL_COLUMNS + 5).map(|n| (format!("m{n:03}"), json!(format!("v{n}")))).collect();
    let file = TestFile::new(Value::Object(many).to_string());
    let t = file.jsonl();
    assert_eq!(t.schema().unwrap().columns().len(), MAX_JSONL_COLUMNS);
    let last = format!("v{}", MAX_JSONL_COLUMNS + 4);
    let query = Query { search: Search::new(&last), ..sorted(&t, &[]) };
    assert!(walk(&t, &query, 1)[0].item.contains(&last));
}

#[test]
fn bad_lines_are_told_by_number() {
    let long = format!("{{\"a\": \"{}\"}}\n", "x".repeat(MAX_LINE_BYTES));
    for (content, expected) in [
        (&b"{}\n\n{\"a\": }\n"[..], "line 3 is not JSON, at column 7"),
        (b"{}\n{} {}\n", "line 2 is not JSON, at column 4"),
        (b"{}\n{\"a\": \"\xff\"}\n", "line 2 is not UTF-8"),
        (long.as_bytes(), "line 1 is longer than 16777216 bytes"),
    ] {
        let file = TestFile::new(content);
        assert_eq!(damage(file.try_jsonl(FileOptions::default())), expected);
    }
    let deep = format!("{}1{}", "[".repeat(500), "]".repeat(500));
    assert!(damage(TestFile::new(deep).try_jsonl(FileOptions::default())).starts_with("line 1"));
}

#[test]
fn a_byte_order_mark_is_skipped_and_an_empty_file_is_empty() {
    let file = TestFile::new("\u{feff}{\"a\":1}\n");
    let t = file.jsonl();
    assert_eq!(walk(&t, &sorted(&t, &[]), 2)[0].item, "{\"a\":1}");
    let file = TestFile::new("");
    let t = file.jsonl();
    assert!(walk(&t, &sorted(&t, &[]), 2).is_empty());
}

#[test]
fn a_key_must_be_there_and_unique() {
    let key = |name: &str| FileOptions::default().key(name);
    let file = TestFile::new(LINES);
    assert_eq!(damage(file.try_jsonl(key("name"))), "line 4 has no 'name'");
    assert_eq!(damage(file.try_jsonl(key("nope"))), "line 1 has no 'nope'");
    let twice = TestFile::new("{\"k\":1}\n{\"k\":1.0}\n");
    assert_eq!(damage(twice.try_jsonl(key("k"))), "the key 'k' is not unique");
    let t = file.try_jsonl(key("id")).unwrap();
    assert_eq!(t.schema().unwrap().key(), ["id"]);
    assert_eq!(member(&walk(&t, &sorted(&t, &["-id"]), 3), "id"), [4, 3, 2, 1]);
    assert_eq!(found(&t, &json!({"id": 3}), "id"), [3]);
}

#[test]
fn an_index_can_be_asked_for() {
    let file = TestFile::new(LINES);
    let options = FileOptions::default().index(["name"]);
    let t = file.try_jsonl(options.clone()).unwrap();
    let query = sorted(&t, &["-name!"]);
    let page = fetch(&t, &query, Window::Forward { after: None, limit: 2 }).unwrap();
    assert_eq!(page.served, Served::Directly);
    assert_eq!(member(&walk(&t, &query, 1), "id"), [3, 1, 2, 4]);
    assert_eq!(t.about().unwrap().indexes, ["(line) unique", "(name, line)"]);
    let t = file.try_jsonl(options.key("id")).unwrap();
    let query = sorted(&t, &["name"]);
    let page = fetch(&t, &query, Window::Forward { after: None, limit: 2 }).unwrap();
    assert_eq!(page.served, Served::Directly);
    let bad = FileOptions::default().index(["nope"]);
    assert_eq!(damage(file.try_jsonl(bad)), "no column 'nope'");
}

#[test]
fn only_the_fields_that_are_asked_for_are_shown() {
    let line = r#"{"id":1,"name":"a","secret":"s1","deep":{"x":1,"y":2}}"#;
    for options in [FileOptions::default(), FileOptions::default().key("id")] {
        let file = TestFile::new(line);
        let t = file.try_jsonl(options).unwrap();
        let has_key = !t.schema().unwrap().key().is_empty();
        let asker = Asker::new(t);
        for (params, expected) in [
            (json!({"fields": ["id"]}), json!({"id": 1})),
            (json!({"fields": "minimal"}), json!({"id": 1, "name": "a"})),
            (json!({"fields": ["id"], "snapshot": true}), json!({"id": 1})),
            (json!({"fields": ["deep.x", "nope"]}), json!({"deep": {"x": 1}})),
            (json!({"fields": []}), json!({})),
            (json!({}), serde_json::from_str(line).unwrap()),
        ] {
            assert_eq!(asker.page(&params)["items"], json!([expected]), "{params}");
        }
        let id = i32::from(has_key);
        let get = json!({"operation": "get_element", "element_type": "t",
            "params": {"id": id, "fields": ["name"]}});
        assert_eq!(asker.ask(&get)["data"], json!({"name": "a"}));
    }
}

#[test]
fn members_beyond_the_columns_are_shown_when_they_are_asked_for() {
    let members: serde_json::Map<String, Value> =
        (0..MAX_JSONL_COLUMNS + 5).map(|n| (format!("c{n:03}"), n.into())).collect();
    let file = TestFile::new(Value::Object(members).to_string());
    let asker = Asker::new(file.jsonl());
    let page = asker.page(&json!({"fields": ["c001", "c203"]}));
    assert_eq!(page["items"], json!([{"c001": 1, "c203": 203}]));
}

#[test]
fn a_preset_always_shows_something() {
    let file = TestFile::new(r#"{"a":1,"b":2}"#);
    let asker = Asker::new(file.jsonl());
    assert_eq!(asker.page(&json!({"fields": "minimal"}))["items"], json!([{"a": 1}]));
    let file = TestFile::new("a,b\n1,2\n");
    let asker = Asker::new(file.csv());
    assert_eq!(asker.page(&json!({"fields": "minimal"}))["items"], json!([{"a": 1}]));
}

#[test]
fn nan_is_found_as_in_json() {
    let lines = r#"{"id":1,"v":{"$real":"NaN"}}
        {"id":2,"v":1}
        {"id":3,"v":{"$real":"Infinity"}}
        {"id":4,"v":"x"}
        {"id":5,"v":null}
        {"id":6,"v":[1]}
        {"id":7,"v":-2.5}"#;
    let file = TestFile::new(lines);
    let jsonl = file.jsonl();
    let array = format!("[{}]", lines.lines().collect::<Vec<_>>().join(","));
    let json = JsonCollection::open(InMemory::hashed(array), JsonOptions::new()).unwrap();
    let nan = json!({"$real": "NaN"});
    let mut tests = vec![json!({"v": nan}), json!({"v": {"in": [1, nan]}})];
    for operator in ["ne", "gt", "gte", "lt", "lte"] {
        for value in [nan.clone(), json!(1), json!({"$real": "Infinity"}), json!("x")] {
            tests.push(json!({"v": {operator: value}}));
        }
    }
    for filter in tests {
        let expected = found(&json, &filter, "id");
        assert_eq!(found(&jsonl, &filter, "id"), expected, "{filter}");
    }
    assert_eq!(found(&jsonl, &json!({"v": {"$real": "NaN"}}), "id"), [1]);
}

#[test]
fn decimals_are_numbers_and_compared_exactly() {
    let lines = [
        r#"{"id": 1, "v": 1.5}"#,
        r#"{"id": 2, "v": "1.5"}"#,
        r#"{"id": 3, "v": 9007199254740993}"#,
        r#"{"id": 4, "v": 0.1}"#,
        r#"{"id": 5, "v": {"$decimal": "0.1000000000000000000001"}}"#,
        r#"{"id": 6, "v": {"$decimal": "1.50"}}"#,
        r#"{"id": 7, "v": [1.5]}"#,
    ];
    let file = TestFile::new(lines.join("\n"));
    let jsonl = file.jsonl();
    let source = InMemory::hashed(format!("[{}]", lines.join(",")));
    let json = JsonCollection::open(source, JsonOptions::new()).unwrap();
    for (test, expected) in [
        (json!({"$decimal": "1.5"}), vec![1, 6]),
        (json!({"gt": {"$decimal": "1.5"}}), vec![3]),
        (json!({"gte": {"$decimal": "1.49999999999999999999"}}), vec![1, 3, 6]),
        (json!({"$decimal": "0.1"}), vec![4]),
        (json!({"$decimal": "0.1000000000000000000001"}), vec![5]),
        (json!({"in": [{"$decimal": "0.10000000000000000000010"}, 0]}), vec![5]),
        (json!({"lt": {"$decimal": "9007199254740992.5"}, "gt": 0.2}), vec![1, 6]),
        (json!({"gt": {"$decimal": "9007199254740992.5"}}), vec![3]),
    ] {
        let filter = json!({"v": test});
        assert_eq!(found(&jsonl, &filter, "id"), expected, "{filter}");
        assert_eq!(found(&json, &filter, "id"), expected, "{filter}");
    }
    let filter = json!({"v": {"contains": {"$decimal": "1.5"}}});
    assert_eq!(found(&json, &filter, "id"), [7]);
    // An index of lines has no place for decimals among its numbers.
    let filter = json!({"v": {"gt": 0.1, "lt": 1}});
    assert_eq!(found(&json, &filter, "id"), [5]);
    assert!(found(&jsonl, &filter, "id").is_empty());
    let sorted = walk(&json, &sorted(&json, &["v"]), 2);
    assert_eq!(member(&sorted, "id"), [4, 5, 1, 6, 3, 2, 7]);
}

#[test]
fn json_that_cannot_be_kept_is_told_apart_from_what_is_none() {
    let nested = |levels: usize| format!("1\n{}{}\n", "[".repeat(levels), "]".repeat(levels));
    TestFile::new(nested(127)).jsonl();
    for (content, expected) in [
        (nested(128), "line 2 has arrays and objects in more than 127 levels, at column 128"),
        (
            "{\"a\":1}\n\n{\"a\":1e400}\n".to_owned(),
            "line 3 has a number that no double holds, at column 10",
        ),
        ("[1]\n[-1e999]".to_owned(), "line 2 has a number that no double holds, at column 7"),
        ("{\"a\":1}\n{\"a\"}\n".to_owned(), "line 2 is not JSON, at column 5"),
    ] {
        assert_eq!(damage(TestFile::new(content).try_jsonl(FileOptions::default())), expected);
    }
}

#[test]
fn kinds_and_ties_are_ordered_as_the_specification_says() {
    let lines = [
        r#"{"id": 1, "v": true}"#,
        r#"{"id": 2, "v": [9]}"#,
        r#"{"id": 3, "v": {"a": 1}}"#,
        r#"{"id": 4, "v": [1]}"#,
        r#"{"id": 5, "v": "x"}"#,
        r#"{"id": 6, "v": 5}"#,
        r#"{"id": 7, "v": 5.0}"#,
    ];
    let file = TestFile::new(lines.join("\n"));
    let jsonl = file.jsonl();
    let source = InMemory::hashed(format!("[{}]", lines.join(",")));
    let json = JsonCollection::open(source, JsonOptions::new()).unwrap();
    let ids = |t: &dyn Collection, key: &str| member(&walk(t, &sorted(t, &[key]), 2), "id");
    assert_eq!(ids(&json, "v"), [1, 6, 7, 5, 4, 2, 3]);
    assert_eq!(ids(&json, "-v"), [3, 2, 4, 5, 6, 7, 1]);
    assert_eq!(ids(&jsonl, "v"), [6, 7, 5, 1, 2, 3, 4]);
    assert_eq!(ids(&jsonl, "-v"), [4, 3, 2, 1, 5, 7, 6]);
}
