//! Rows of CSV files.

use handback_collections::files::{FileOptions, MAX_CSV_COLUMNS, MAX_LINE_BYTES};
use handback_page::{Collection, Fetch, Kind, Places, Preset, Query, Search, Window};
use serde_json::json;

use super::support::*;
use crate::support::*;

#[test]
fn rows_are_objects_with_typed_columns() {
    let file = TestFile::new(
        "\u{feff}id,name,price,code,empty\r\n1,\"a, \"\"b\"\"\nc\",1.5,007,\r\n\r\n2,,2,8,\r\n-3,x,1e300,9,\r\n",
    );
    let t = file.csv();
    let rows = walk(&t, &sorted(&t, &[]), 2);
    assert_eq!(rows.len(), 3);
    assert_eq!(
        rows[0].item,
        r#"{"id":1,"name":"a, \"b\"\nc","price":1.5,"code":"007","empty":null}"#
    );
    assert_eq!(rows[1].item, r#"{"id":2,"name":null,"price":2,"code":"8","empty":null}"#);
    assert_eq!(rows[2].item, r#"{"id":-3,"name":"x","price":1e+300,"code":"9","empty":null}"#);
    let schema = t.schema().unwrap();
    let columns: Vec<_> = schema
        .columns()
        .iter()
        .map(|column| (column.name.as_str(), column.kind.clone(), column.nullable, column.preset))
        .collect();
    assert_eq!(
        columns,
        [
            ("id", Kind::Integer, false, Preset::Minimal),
            ("name", Kind::Text, true, Preset::Minimal),
            ("price", Kind::Number, false, Preset::Standard),
            ("code", Kind::Text, false, Preset::Standard),
            ("empty", Kind::Any, true, Preset::Standard),
        ]
    );
    assert_eq!(found(&t, &json!({"price": {"gt": 1.5}}), "id"), [2, -3]);
    assert_eq!(found(&t, &json!({"code": "8"}), "id"), [2]);
    assert_eq!(member(&walk(&t, &sorted(&t, &["id"]), 1), "id"), [-3, 1, 2]);
    assert_eq!(member(&walk(&t, &sorted(&t, &["name"]), 1), "id"), [1, -3, 2]);
}

#[test]
fn only_numbers_that_lose_nothing_are_numbers() {
    for (cells, kind) in [
        ("1\n0\n-5\n9007199254740991", Kind::Integer),
        ("1\n2.5", Kind::Number),
        ("2.5\n1", Kind::Number),
        ("0.1\n1e+300\n-0.5", Kind::Number),
        ("1\n01", Kind::Text),
        ("1\n+2", Kind::Text),
        ("1\n-0", Kind::Text),
        ("1.50", Kind::Text),
        ("1\n 2", Kind::Text),
        ("9223372036854775808", Kind::Text),
        ("1\nNaN", Kind::Text),
        ("inf", Kind::Text),
        ("1\nx", Kind::Text),
        ("x\n1\n2", Kind::Text),
        ("0.1000000000000000055", Kind::Text),
        ("true", Kind::Text),
    ] {
        let file = TestFile::new(format!("v\n{cells}\n"));
        let t = file.csv();
        assert_eq!(t.schema().unwrap().columns()[0].kind, kind, "{cells:?}");
        let rows = walk(&t, &sorted(&t, &[]), 2);
        let text = |value: serde_json::Value| match value {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        };
        let read: Vec<_> = member(&rows, "v").into_iter().map(text).collect();
        assert_eq!(read.join("\n"), cells);
    }
}

#[test]
fn names_are_made_unique() {
    let file = TestFile::new("a,,a,a_2,,A\n1,2,3,4,5,6\n");
    let t = file.csv();
    let schema = t.schema().unwrap();
    let names: Vec<_> = schema.columns().iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["a", "column_2", "a_3", "a_2", "column_5", "A"]);
    let rows = walk(&t, &sorted(&t, &[]), 2);
    assert_eq!(rows[0].item, r#"{"a":1,"column_2":2,"a_3":3,"a_2":4,"column_5":5,"A":6}"#);
}

#[test]
fn bad_rows_are_told_by_line() {
    let open_quote = format!("a,b\n1,\"{}\n", "x,\n".repeat(MAX_LINE_BYTES / 2));
    let long = format!("a,b\n1,2\n3,{}\n", "x".repeat(MAX_LINE_BYTES + (1 << 16)));
    for (content, expected) in [
        (&b"a,b\n1,2\n3\n"[..], "line 3 has 1 cells, and not 2"),
        (b"a,b\n\"1\n1\",2\n3,4,5\n", "line 4 has 3 cells, and not 2"),
        (b"a,b\n1,2\n\xff,4\n", "line 3 is not UTF-8"),
        (b"a,\xff\n1,2\n", "line 1 is not UTF-8"),
        (b"", "there is no first line with names"),
        (
            open_quote.as_bytes(),
            "the quote that begins in line 2 is not closed within 16777216 bytes",
        ),
        (long.as_bytes(), "line 3 is longer than 16777216 bytes"),
        (b"a,b\r\n1,2\r\n3\r\n", "line 3 has 1 cells, and not 2"),
        (b"a,b\r\n\r\n\r\n1,2,3\r\n", "line 4 has 3 cells, and not 2"),
        (b"a,b\r\n\"1\r\n1\",2\r\n3,\xff\r\n", "line 4 is not UTF-8"),
        (b"\xef\xbb\xbfa,b\r1,2\r3,4,5\r", "line 3 has 3 cells, and not 2"),
    ] {
        assert_eq!(damage(TestFile::new(content).try_csv(FileOptions::default())), expected);
    }
    let wide = vec!["x"; 1001].join(",");
    let expected = "line 1 has more than 1000 columns";
    assert_eq!(damage(TestFile::new(wide).try_csv(FileOptions::default())), expected);
}

#[test]
fn a_quote_that_is_never_closed_is_told_by_the_line_in_which_it_begins() {
    for (content, line) in [
        ("a,b\n1,\"2\n3,4\n5,6\n", 2),
        ("a,b\r\n1,2\r\n\"3,4\r\n5,6\r\n", 3),
        ("a,b\n\"1\n1\",\"2\n\"\"", 3),
        ("a,b\n1,2\n\n3,\"", 4),
        ("a,\"b\n1,2\n", 1),
        ("\u{feff}\"a", 1),
        // Other cells are in the quote as well.
        ("a,b,c\n1,\"2,3\n4,5,6\n", 2),
        ("a,b\n1,\"2\"\"\n", 2),
    ] {
        let expected = format!("the quote that begins in line {line} is never closed");
        let found = damage(TestFile::new(content).try_csv(FileOptions::default()));
        assert_eq!(found, expected, "{content:?}");
    }
    // These quotes are closed, or are none.
    for content in [
        "a,b\n1,\"2\n\"",
        "a,b\n1,2\"\n",
        "a,b\n1,\"2\"\"\"\n\n",
        "a\n\"1\"x\"\n",
        "\"a\"",
        "a\n\"\"",
    ] {
        TestFile::new(content).csv();
    }
}

#[test]
fn a_header_alone_is_an_empty_collection() {
    let file = TestFile::new("a,b");
    let t = file.csv();
    assert!(walk(&t, &sorted(&t, &["-b"]), 2).is_empty());
    assert_eq!(t.schema().unwrap().columns().len(), 2);
}

#[test]
fn other_delimiters_keys_and_columns() {
    let file = TestFile::new("id;name\n2;b,c\n1;a\n");
    let options = FileOptions::default().delimiter(b';').key("id");
    let t = file.try_csv(options.clone()).unwrap();
    assert_eq!(member(&walk(&t, &sorted(&t, &[]), 1), "name"), ["a", "b,c"]);
    let query = sorted(&t, &[]);
    let columns = ["name".to_owned()];
    let window = Window::Forward { after: None, limit: 1 };
    let asked = Fetch {
        query: &query,
        window,
        columns: Some(&columns),
        budget_bytes: 100,
        places: Places::All,
        total: false,
    };
    assert_eq!(t.fetch(&asked).unwrap().rows[0].item, r#"{"name":"a"}"#);
    let twice = TestFile::new("id;name\n2;b\n2;a\n");
    assert_eq!(damage(twice.try_csv(options.clone())), "the key 'id' is not unique");
    let none = TestFile::new("id;name\r\n2;b\r\n;a\r\n");
    assert_eq!(damage(none.try_csv(options.key("id"))), "line 3 has no 'id'");
}

#[test]
fn the_widest_file_is_searched_and_keeps_its_index() {
    let names: Vec<_> = (0..MAX_CSV_COLUMNS).map(|number| format!("c{number}")).collect();
    let cells: Vec<_> = (0..MAX_CSV_COLUMNS).map(|number| format!("cell{number}")).collect();
    let file = TestFile::new(format!("{}\n{}\n", names.join(","), cells.join(",")));
    let t = file.csv();
    let indexes = file.indexes();
    let words: Vec<_> = (0..32).map(|number| format!("nothing{number}")).collect();
    for (text, expected) in [
        ("CELL999".to_owned(), 1),
        ("cell0 nothing".to_owned(), 1),
        ("cell1000".to_owned(), 0),
        (words.join(" "), 0),
    ] {
        let query = Query { search: Search::new(&text), ..sorted(&t, &["c5"]) };
        assert_eq!(walk(&t, &query, 2).len(), expected, "{text}");
        assert_eq!(t.count(&query).unwrap(), expected as u64);
    }
    assert_eq!(file.indexes(), indexes);
}
