//! A test for each shape of a result.

use super::*;

const BUDGET: usize = 10_000;

fn rows(count: usize) -> Value {
    (0..count).map(|id| json!({"id": id, "name": format!("row {id}"), "ok": true})).collect()
}

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("This is line {line} of the log.\n")).collect()
}

fn held(outcome: &Outcome) -> Value {
    serde_json::from_slice(outcome.held(outcome.part())).unwrap()
}

#[test]
fn a_list_in_structured_content_is_cut_at_items() {
    let result = json!({
        "content": [],
        "structuredContent": {"rows": rows(5000), "next": "abc", "count": 5000},
        "resultType": "complete",
    });
    let outcome = cut(&result, BUDGET);
    let part = outcome.part();
    assert_eq!((part.path.to_string().as_str(), part.kind), ("/structuredContent", JSON));
    assert_eq!((part.items.to_string().as_str(), part.total), ("/rows", 5000));
    assert!(part.shown > 150, "{}", part.shown);
    assert!(outcome.bounded.result.len() > BUDGET * 9 / 10, "room is left");
    let shown = &outcome.shown["structuredContent"];
    assert_eq!((&shown["next"], &shown["count"]), (&json!("abc"), &json!(5000)));
    assert_eq!(outcome.shown["resultType"], "complete");
    assert_eq!(outcome.shown.get("isError"), None);
    assert_eq!(held(&outcome), result["structuredContent"]);
}

#[test]
fn the_notice_has_the_facts_and_operations_that_exist() {
    let result = json!({"structuredContent": {"rows": rows(5000)}});
    let outcome = cut(&result, BUDGET);
    let Part { shown, bytes, .. } = outcome.part();
    let size = result.to_string().len();
    let handle = handle(0);
    let expected = format!(
        "CUT to fit: the whole result has {size} bytes. Nothing is lost; it is held for you until \
         2027-01-15T08:00:00Z (longer while you read it):\n\
         - {handle}: structuredContent, {shown} of 5000 items at /rows shown, {bytes} bytes\n\
         Ask it with tool mcp_aql_read: {{\"operation\":\"search_elements\",\"element_type\":\
         \"{handle}\",\"params\":{{\"query\":\"WORDS\"}}}}. Also query_elements (filter, sort, \
         fields), count_elements (filter), get_element (id: item number from 0), list_elements \
         (offset, limit). Pass it on unread: {{\"$held\":HANDLE}}, or the text \"$held:HANDLE\", as \
         an argument of another tool."
    );
    assert_eq!(outcome.notice(), expected);
    assert!(expected.len() < 700, "{}", expected.len());
    let how = Bounding::new(Budget::bytes(BUDGET))
        .reading_tool("held_read")
        .without_offsets()
        .in_chunks_of(1000);
    let source = InMemory::new(result.to_string(), 0);
    let bounded = bound(&source, &how, &mut Shelf::default()).unwrap();
    let text = String::from_utf8(bounded.result).unwrap();
    assert!(text.contains("with tool held_read:") && text.contains("(first, after)"));
    assert!(!text.contains("mcp_aql_read") && !text.contains("offset"));
}

#[test]
fn what_is_said_for_programs() {
    let outcome = cut(&json!({"structuredContent": {"rows": rows(5000)}}), BUDGET);
    let Part { shown, bytes, .. } = outcome.part();
    let expected = json!([{
        "handle": handle(0).to_string(),
        "path": "/structuredContent",
        "kind": "application/json",
        "items": "/rows",
        "shown": shown,
        "total": 5000,
        "bytes": bytes,
        "until": "2027-01-15T08:00:00Z",
    }]);
    assert_eq!(outcome.shown["_meta"][HELD_KEY], expected);
}

#[test]
fn a_document_that_is_also_a_text_is_kept_once_and_cut_in_the_same_way() {
    let document = json!({"rows": rows(5000), "total": 5000});
    for written in [document.to_string(), serde_json::to_string_pretty(&document).unwrap()] {
        let result = json!({"content": [text(written)], "structuredContent": document});
        let outcome = cut(&result, BUDGET);
        assert_eq!(outcome.shelf.parts.len(), 1);
        let [one, other] = outcome.bounded.parts.as_slice() else { panic!() };
        assert_eq!((one.handle, one.shown), (other.handle, other.shown));
        assert!(one.shown > 50, "{}", one.shown);
        let shown = outcome.shown["content"][1]["text"].as_str().unwrap();
        let shown: Value = serde_json::from_str(shown).unwrap();
        assert_eq!(shown, outcome.shown["structuredContent"]);
        let labels = format!("- {}: text and structuredContent, {} of", one.handle, one.shown);
        assert!(outcome.notice().contains(&labels), "{}", outcome.notice());
        assert!(outcome.notice().len() < 700);
    }
}

#[test]
fn another_document_in_the_text_is_kept_beside() {
    let result = json!({
        "content": [text(rows(3000).to_string())],
        "structuredContent": {"rows": rows(3001)},
    });
    let outcome = cut(&result, BUDGET);
    assert_eq!(outcome.shelf.parts.len(), 2);
    assert_eq!(outcome.bounded.parts.len(), 2);
}

#[test]
fn a_text_that_is_json_stays_json() {
    let outcome = cut(&json!({"content": [text(rows(5000).to_string())]}), BUDGET);
    let part = outcome.part();
    assert_eq!((part.path.to_string().as_str(), part.kind), ("/content/0/text", JSON));
    assert_eq!((part.items.to_string().as_str(), part.total), ("", 5000));
    assert!(part.shown > 100);
    assert_eq!(held(&outcome), rows(5000));
}

#[test]
fn a_text_is_cut_at_a_line() {
    let outcome = cut(&json!({"content": [text(lines(5000))]}), BUDGET);
    let part = outcome.part();
    assert_eq!((part.path.to_string().as_str(), part.kind), ("/content/0/text", TEXT));
    assert_eq!(part.total, 5000);
    assert!(part.shown > 200, "{}", part.shown);
    let shown = outcome.shown["content"][1]["text"].as_str().unwrap();
    let last = usize::try_from(part.shown).unwrap();
    let mark = format!("\n[cut here; the rest is held under {}]", handle(0));
    assert_eq!(shown.strip_suffix(&mark).unwrap(), lines(last));
    assert!(outcome.notice().contains("line number from 1"));
}

#[test]
fn a_text_without_lines_is_cut_at_a_character() {
    let outcome = cut(&json!({"content": [text("€".repeat(20_000))]}), BUDGET);
    let shown = outcome.shown["content"][1]["text"].as_str().unwrap();
    let (shown, _) = shown.rsplit_once("\n[cut here;").unwrap();
    assert!(shown.len() > 7000 && shown.chars().all(|c| c == '€'));
    assert_eq!((outcome.part().shown, outcome.part().total), (0, 1));
    assert!(outcome.notice().contains("0 of 1 lines shown in full"), "{}", outcome.notice());
}

#[test]
fn other_texts_are_no_json() {
    for other in [
        "7".repeat(20_000),
        format!("\"{}\"", "a".repeat(20_000)),
        format!("{}\n", rows(10)).repeat(50),
        format!("{}x", rows(1000)),
        format!("{{\"a\":{}", rows(1000)),
        format!("[1e999,{}]", rows(1000)),
    ] {
        assert_eq!(cut(&json!({"content": [text(other)]}), BUDGET).part().kind, TEXT);
    }
}

#[test]
fn blocks_that_are_not_known_are_replaced_by_what_names_them() {
    let data = "AAAA".repeat(10_000);
    for (block, label) in [
        (json!({"type": "other]\n<x>", "payload": data}), "otherx"),
        (json!({"payload": data}), "block"),
        (json!([data]), "block"),
    ] {
        let result = json!({"content": [text("A block:"), block, text("That was it.")]});
        let outcome = cut(&result, BUDGET);
        let part = outcome.part();
        assert_eq!((part.path.to_string().as_str(), part.kind), ("/content/1", JSON));
        assert_eq!(held(&outcome), block);
        let bytes = block.to_string().len();
        let expected = text(format!("[{label}, {bytes} bytes: held under {}]", handle(0)));
        assert_eq!(outcome.shown["content"][2], expected);
        assert!(outcome.notice().contains(": block 2, not shown here"), "{}", outcome.notice());
    }
}

#[test]
fn the_text_of_a_resource_is_cut_like_a_text() {
    let block =
        json!({"type": "resource", "resource": {"uri": "file:///log", "text": lines(5000)}});
    let outcome = cut(&json!({"content": [block]}), BUDGET);
    assert_eq!(outcome.part().path.to_string(), "/content/0/resource/text");
    assert_eq!(outcome.shown["content"][1]["resource"]["uri"], "file:///log");
    assert!(outcome.part().shown > 100);
}

#[test]
fn a_text_with_much_beside_it_is_held_as_a_block() {
    let mut block = text("short");
    block["annotations"] = json!({"x": "y".repeat(20_000)});
    let outcome = cut(&json!({"content": [block]}), BUDGET);
    assert_eq!(outcome.part().path.to_string(), "/content/0");
}

#[test]
fn several_large_texts_share_the_room() {
    let blocks: Vec<_> = (0..5).map(|_| text(lines(3000))).chain([text("short")]).collect();
    let outcome = cut(&json!({"content": blocks}), 20_000);
    assert_eq!(outcome.bounded.parts.len(), 5);
    assert_eq!(outcome.shelf.parts.len(), 1, "they are the same");
    assert!(outcome.bounded.parts.iter().all(|part| part.shown > 40));
    assert_eq!(outcome.shown["content"][6], text("short"));
}

#[test]
fn many_blocks_are_cut_at_blocks() {
    for (count, size) in [(500, 100), (70_000, 1), (30, 1000), (12, 5000)] {
        let blocks: Vec<_> =
            (0..count).map(|n| text(format!("{n} {}", "x".repeat(size)))).collect();
        let outcome = cut(&json!({"content": blocks, "isError": false}), BUDGET);
        let part = outcome.part();
        assert_eq!((part.path.to_string().as_str(), part.kind), ("/content", JSON));
        assert_eq!((part.items.to_string().as_str(), part.total), ("", count));
        assert!(part.shown > 0 || size == 5000, "{count} {size}");
        assert_eq!(outcome.shown["content"].as_array().unwrap().len() as u64, part.shown + 1);
        let said = format!("content, {} of {count} blocks shown", part.shown);
        assert!(outcome.notice().contains(&said), "{}", outcome.notice());
    }
}

#[test]
fn blocks_are_the_items_of_their_array_even_if_there_is_one() {
    let mut block = text("");
    block["annotations"] = rows(150);
    let result = json!({"content": [block], "_meta": null});
    let outcome = cut(&result, 0);
    let part = outcome.bounded.parts.iter().find(|part| part.path.to_string() == "/content");
    assert_eq!(part.map(|part| (part.shown, part.total)), Some((0, 1)));
}

#[test]
fn many_small_blocks_beside_a_large_part_are_all_shown() {
    let blocks: Vec<_> = (0..100).map(|n| text(n.to_string())).collect();
    let result = json!({"content": blocks, "structuredContent": {"rows": rows(5000)}});
    let outcome = cut(&result, BUDGET);
    assert_eq!(outcome.part().path.to_string(), "/structuredContent");
    assert_eq!(outcome.shown["content"].as_array().unwrap()[1..], blocks);
}

#[test]
fn a_first_item_that_is_too_large_is_not_shown_and_that_is_said() {
    let items = json!([{"id": 0, "blob": "x".repeat(50_000)}, {"id": 1}, {"id": 2}]);
    let outcome = cut(&json!({"structuredContent": {"items": items, "n": 3}}), BUDGET);
    assert_eq!(outcome.shown["structuredContent"], json!({"items": [], "n": 3}));
    assert_eq!((outcome.part().shown, outcome.part().total), (0, 3));
    let said = "0 of 3 items at /items shown: the first one alone does not fit";
    assert!(outcome.notice().contains(said), "{}", outcome.notice());
}

#[test]
fn the_list_is_found_where_most_of_the_document_is() {
    for (document, items) in [
        (json!({"a": {"b": [{"c": rows(2000)}]}}), "/a/b/0/c"),
        (json!({"small": rows(20), "large": rows(2000)}), "/large"),
        (json!([[rows(2000)]]), "/0/0"),
        (json!({"a/b": {"m~n \"q\"": rows(2000)}}), "/a~1b/m~0n \"q\""),
        (json!({"text": "x".repeat(90_000), "rows": rows(2000)}), "/rows"),
        (json!([rows(1000), rows(1000)]), ""),
        (json!({"x".repeat(120): rows(2000)}), ""),
    ] {
        let outcome = cut(&json!({"structuredContent": document}), BUDGET);
        assert_eq!(outcome.part().items.to_string(), items);
    }
}

#[test]
fn members_of_one_name_are_not_pointed_at() {
    let rows = rows(2000);
    let result = format!(r#"{{"structuredContent":{{"a":[1],"a":{rows}}}}}"#);
    let outcome = cut_text(&result, BUDGET, None, 100);
    assert_eq!(outcome.part().items.to_string(), "");
    assert_eq!(outcome.held(outcome.part()), format!(r#"{{"a":[1],"a":{rows}}}"#).as_bytes());
}

#[test]
fn an_object_with_many_members_is_a_list_of_them() {
    let members: serde_json::Map<_, _> =
        (0..3000).map(|n| (format!("key-{n:05}"), json!({"value": n}))).collect();
    let outcome = cut(&json!({"structuredContent": {"byId": members}}), BUDGET);
    let part = outcome.part();
    assert_eq!((part.items.to_string().as_str(), part.total), ("/byId", 3000));
    assert!(part.shown > 100);
    let shown = outcome.shown["structuredContent"]["byId"].as_object().unwrap();
    assert_eq!(shown.len() as u64, part.shown);
}

#[test]
fn what_is_beside_the_list_is_cut_too_and_named() {
    let document = json!({
        "rows": rows(5000), "errors": rows(2000), "note": "n".repeat(30_000), "id": 7,
    });
    let outcome = cut(&json!({"structuredContent": document}), BUDGET);
    let shown = &outcome.shown["structuredContent"];
    assert_eq!(shown["id"], 7);
    assert!(shown["note"].as_str().unwrap().ends_with("n… [cut: 30002 bytes in all]"));
    assert!(shown["rows"].as_array().unwrap().len() > 20);
    let errors = shown["errors"].as_array().unwrap().len();
    assert!(errors > 20);
    let said = format!("; also cut: {errors} of 2000 of 'errors'");
    assert!(outcome.notice().contains(&said), "{}", outcome.notice());
}

#[test]
fn a_document_without_a_list_is_outlined() {
    let document = json!({
        "title": "t", "left": "l".repeat(40_000), "right": "r".repeat(50_000), "n": 5,
        "small": {"a": 1},
    });
    let outcome = cut(&json!({"structuredContent": document}), BUDGET);
    let said = "structuredContent, 90056 bytes without a list; it has left (text, 40002 bytes), n \
                (number, 1 bytes), right (text, 50002 bytes), small (object, 7 bytes), title \
                (text, 3 bytes)";
    assert!(outcome.notice().contains(said), "{}", outcome.notice());
    assert_eq!(outcome.shown["structuredContent"]["n"], 5);
    assert_eq!((outcome.part().shown, outcome.part().total), (0, 5));
}

#[test]
fn members_that_are_shown_count_without_a_list() {
    let long = |letter: &str| letter.repeat(20_000);
    let document = json!({"a": 1, "b": "x".repeat(500), "c": long("c"), "d": 2, "e": long("e")});
    let outcome = cut(&json!({"structuredContent": document}), BUDGET);
    assert_eq!((outcome.part().shown, outcome.part().total), (2, 5));
    let shown = &outcome.shown["structuredContent"];
    assert_eq!((&shown["b"], &shown["d"]), (&document["b"], &document["d"]));
}

#[test]
fn a_document_that_is_shown_whole_is_told_so() {
    let space = " ".repeat(20_000);
    for (document, shown) in [("[ \"a\" ]", 1), ("[]", 0), ("{\"a\": {\"b\": 1}}", 1), ("{}", 0)] {
        let (first, rest) = document.split_at(1);
        let result = format!(r#"{{"structuredContent":{first}{space}{rest}}}"#);
        let outcome = cut_text(&result, BUDGET, None, 100);
        let value: Value = serde_json::from_str(document).unwrap();
        assert_eq!(outcome.shown["structuredContent"], value);
        assert_eq!((outcome.part().shown, outcome.part().total), (shown, shown));
        let said = format!("structuredContent, {shown} of {shown} items shown, ");
        assert!(outcome.notice().contains(&said), "{}", outcome.notice());
    }
}

#[test]
fn members_with_long_names_are_shown() {
    let name = "n".repeat(1000);
    let item = |id: usize| json!({name.as_str(): id, "id": id});
    let items: Value = (0..1000).map(item).collect();
    let outcome = cut(&json!({"structuredContent": {"items": items}}), BUDGET);
    assert!(outcome.part().shown > 5, "{}", outcome.part().shown);
    let document = json!({name.as_str(): 1, "rows": rows(5000)});
    let outcome = cut(&json!({"structuredContent": document}), BUDGET);
    assert_eq!(outcome.part().items.to_string(), "/rows");
    assert!(outcome.part().shown > 100, "{}", outcome.part().shown);
    assert_eq!(outcome.shown["structuredContent"][&name], 1);
    // One that takes most of the room would leave none for others.
    let document = json!({"n".repeat(5000): 1, "rows": rows(5000)});
    let outcome = cut(&json!({"structuredContent": document}), BUDGET);
    assert!(outcome.shown["structuredContent"]["rows"].as_array().unwrap().len() > 100);
    assert!(outcome.notice().contains("1 of 2 inside"), "{}", outcome.notice());
    // Behind one that is not shown, nothing is shown from the first one on.
    let document = json!({"a": 0, "n".repeat(5000): 1, "o": 2, "p": "p".repeat(20_000)});
    let outcome = cut(&json!({"structuredContent": document}), BUDGET);
    assert_eq!(outcome.shown["structuredContent"]["o"], 2);
    assert_eq!((outcome.part().shown, outcome.part().total), (1, 4));
    let many =
        |name: String| (0..50).map(move |n| (format!("{name}{n:02}"), json!("x".repeat(500))));
    let mut members: serde_json::Map<_, _> =
        many("a".to_owned()).chain(many("z".to_owned())).collect();
    members.insert(format!("a01{}", "n".repeat(5000)), json!(1));
    let outcome = cut(&json!({"structuredContent": members}), BUDGET);
    assert_eq!((outcome.part().shown, outcome.part().total), (2, 101));
}

#[test]
fn a_nested_document_without_a_list_is_outlined_as_it_is_read() {
    let text = |letter: &str| letter.repeat(20_000);
    let inner = json!({"left": text("l"), "right": text("r"), "n": 5});
    let regions = json!({"north": inner, "south": inner, "zones": ["a", "b"]});
    let document = json!({"defaults": {"a": 1}, "places": {"here": regions}, "version": "3.2"});
    let outcome = cut(&json!({"structuredContent": document}), BUDGET);
    let said = "bytes without a list; it has defaults (object, 7 bytes), places (object, 80102 \
                bytes), version (text, 5 bytes); also cut: 0 of 2 of 'zones'\n";
    assert!(outcome.notice().contains(said), "{}", outcome.notice());
    assert_eq!(outcome.part().total, 3);
}

#[test]
fn the_one_long_text_of_a_document_is_held_as_lines() {
    let document = json!({"exit": 0, "out": {"log": lines(5000)}});
    let as_text = json!({"content": [text(serde_json::to_string_pretty(&document).unwrap())]});
    let as_document = json!({"content": [], "structuredContent": document});
    for (result, path) in [(as_text, "/content/0/text"), (as_document, "/structuredContent")] {
        let outcome = cut(&result, BUDGET);
        let part = outcome.part();
        assert_eq!((part.path.to_string().as_str(), part.kind), (path, TEXT));
        assert_eq!((part.inside.to_string().as_str(), part.total), ("/out/log", 5000));
        assert!(part.shown > 100);
        assert_eq!(outcome.shown["_meta"][HELD_KEY][0]["inside"], "/out/log");
        assert_eq!(outcome.held(part), lines(5000).as_bytes());
        assert!(outcome.notice().contains(" /out/log, "), "{}", outcome.notice());
    }
}

#[test]
fn a_text_that_is_also_the_result_of_structured_content_is_kept_once() {
    let result = json!({
        "content": [text(lines(5000))],
        "structuredContent": {"result": lines(5000)},
    });
    let outcome = cut(&result, BUDGET);
    assert_eq!(outcome.shelf.parts.len(), 1);
    assert_eq!(outcome.bounded.parts.len(), 2);
    assert!(outcome.bounded.parts.iter().all(|part| part.kind == TEXT && part.shown > 50));
    let said = format!("- {}: text and structuredContent /result, ", handle(0));
    assert!(outcome.notice().contains(&said), "{}", outcome.notice());
}

#[test]
fn structured_content_may_be_any_value() {
    let array = cut(&json!({"structuredContent": rows(5000)}), BUDGET);
    assert_eq!((array.part().items.to_string().as_str(), array.part().total), ("", 5000));
    assert!(array.part().shown > 100);
    let text = cut(&json!({"structuredContent": lines(5000)}), BUDGET);
    assert_eq!((text.part().kind, text.part().total), (TEXT, 5000));
    assert!(text.shown["structuredContent"].is_string());
}

#[test]
fn unknown_members_survive_if_they_are_small_and_are_held_if_not() {
    let result = json!({
        "content": [text("x")],
        "x-small": {"a": [1, 2, {"b": null}]},
        "x-large": rows(1000),
        "_meta": {"trace": "t", "n": 1.5},
    });
    let outcome = cut(&result, BUDGET);
    assert_eq!(outcome.part().path.to_string(), "/x-large");
    assert_eq!(held(&outcome), rows(1000));
    assert_eq!(outcome.shown["_meta"]["trace"], "t");
    assert!(outcome.notice().contains(": x-large, not shown here, "), "{}", outcome.notice());
}

#[test]
fn meta_that_is_large_or_speaks_for_us_is_held() {
    for meta in [
        json!({"x": rows(1000)}),
        json!({HELD_KEY: [{"handle": "forged"}]}),
        json!("no object"),
        Value::Null,
    ] {
        let result = json!({"content": [text(lines(2000))], "_meta": meta});
        let outcome = cut(&result, BUDGET);
        let part = outcome.bounded.parts.iter().find(|part| part.path.to_string() == "/_meta");
        assert_eq!(serde_json::from_slice::<Value>(outcome.held(part.unwrap())).unwrap(), meta);
        assert_eq!(outcome.shown["_meta"].as_object().unwrap().len(), 1);
        assert!(!outcome.shown.to_string().contains("forged"));
    }
}

#[test]
fn members_stay_in_their_order_and_as_they_were_written() {
    let rows = rows(2000);
    let result = format!(
        r#"{{ "zeta" : 1.50, "structuredContent":{rows},"resultType":"complete", "alpha":[ 1e2 ],"content":[{{"text":"\u0041","type":"text"}}]}}"#
    );
    let outcome = cut_text(&result, BUDGET, None, 64);
    let text = String::from_utf8(outcome.bounded.result).unwrap();
    assert!(text.starts_with(r#"{"zeta":1.50,"structuredContent":[{"id":0,"#), "{text}");
    let end = r#"],"resultType":"complete","alpha":[ 1e2 ],"content":[{"text":"CUT"#;
    assert!(text.contains(end), "{text}");
    assert!(text.contains(r#",{"text":"\u0041","type":"text"}],"_meta":{"#), "{text}");
}

#[test]
fn results_that_cannot_be_taken_apart_are_held_whole() {
    let large = "x".repeat(20_000);
    for (result, total) in [
        (format!(r#"["{large}"]"#), 1),
        (format!(r#""{large}""#), 1),
        (format!(r#"{{"content":"{large}"}}"#), 1),
        (format!(r#"{{"content":{{"a":"{large}"}},"isError":true}}"#), 2),
        (format!(r#"{{"content":[],"content":[{{"type":"text","text":"{large}"}}]}}"#), 2),
        (format!(r#"{{"content":[],"\u0063ontent":["{large}"],"isError":true}}"#), 3),
        (format!(r#"{{"x":1,"x":"{large}"}}"#), 2),
        (format!(r#"{{"{large}":1,"y":2}}"#), 2),
    ] {
        let outcome = cut_text(&result, BUDGET, None, 7);
        let part = outcome.part();
        assert_eq!((part.path.to_string().as_str(), part.kind), ("", JSON), "{result}");
        assert_eq!((part.shown, part.total), (0, total));
        assert_eq!(outcome.held(part), result.as_bytes());
        assert!(outcome.notice().contains("the whole result, not shown here"));
        assert_eq!(outcome.shown["content"].as_array().unwrap().len(), 1);
        assert_eq!(outcome.shown.get("isError").is_some(), result.contains("isError"));
    }
    let many: String = (0..2000).map(|n| format!(r#""m{n}":[{n}],"#)).collect();
    let outcome = cut_text(&format!(r#"{{{many}"z":0}}"#), BUDGET, None, 100);
    assert_eq!((outcome.part().path.to_string().as_str(), outcome.part().total), ("", 2001));
}

#[test]
fn what_collections_cannot_read_is_held_as_text_and_not_shown() {
    let deep = |depth| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let large = "x".repeat(20_000);
    for odd in [
        format!(r#"{{"deep":{},"large":"{large}"}}"#, deep(200)),
        format!(r#"{{"half":"\ud800","large":["{large}",1]}}"#),
        format!("{{\"huge\":1e999,\n\n\"large\":[\"{large}\",\n1]\n}}"),
        deep(20_000),
    ] {
        let result =
            format!(r#"{{"structuredContent":{odd},"content":[{{"type":"text","text":"hi"}}]}}"#);
        let outcome = cut_text(&result, BUDGET, None, 50);
        let part = outcome.part();
        assert_eq!((part.path.to_string().as_str(), part.kind), ("/structuredContent", TEXT));
        assert_eq!((part.shown, part.total), (0, odd.lines().count() as u64));
        assert_eq!(outcome.held(part), odd.as_bytes());
        let source = InMemory::new(odd.clone(), 0);
        assert_eq!(count(&TextCollection::open(source).unwrap()), part.total);
        assert!(outcome.notice().contains(": structuredContent, not shown here, "));
        assert_eq!(outcome.shown.get("structuredContent"), None);
        assert_eq!(outcome.shown["content"][1], text("hi"));
    }
}

#[test]
fn a_text_with_half_a_character_is_held_as_it_was_written() {
    let filler = "line\\n".repeat(5000);
    for quoted in [
        format!(r#""{filler}\ud800{filler}""#),
        format!(r#""a\udc00{filler}""#),
        format!(r#""{filler}\ud83d""#),
    ] {
        let result = format!(r#"{{"content":[{{"type":"text","text":{quoted}}}]}}"#);
        let outcome = cut_text(&result, BUDGET, None, 50);
        let part = outcome.part();
        assert_eq!((part.kind, part.shown, part.total), (TEXT, 0, 1));
        assert_eq!(outcome.held(part), quoted.as_bytes());
        assert!(outcome.shown["content"][1]["text"].as_str().unwrap().contains("[cut here;"));
    }
}

#[test]
fn what_is_not_json_is_refused() {
    let large = "x".repeat(20_000).into_bytes();
    for (start, end) in [
        (&b"{\"content\":[{\"type\":\"text\",\"text\":\""[..], &b"\"}]"[..]),
        (b"{\"a\":\"", b"\xff\"}"),
        (b"{\"a\":\"", b"\n\"}"),
        (b"{\"a\":\"", b"\"}}"),
        (b"{\"a\":\"", b"\",}"),
        (b"{\"a\":\"\\x", b"\"}"),
    ] {
        let bytes = [start, &large, end].concat();
        let how = Bounding::new(Budget::bytes(BUDGET)).in_chunks_of(100);
        let mut shelf = Shelf::default();
        let error = bound(&InMemory::new(bytes, 0), &how, &mut shelf).unwrap_err();
        assert!(matches!(error, super::super::BoundError::NotJson(_)), "{error}");
        assert!(shelf.parts.is_empty());
    }
}

#[test]
fn a_result_within_the_budget_is_as_it_was() {
    let result = " {\"content\" : [ ] }\n";
    let outcome = cut_text(result, 100, None, 3);
    assert_eq!(outcome.bounded.result, result.as_bytes());
    assert!(outcome.bounded.parts.is_empty());
}

#[test]
fn white_space_alone_is_no_reason_to_hold_anything() {
    let result = format!("{{\"content\":[]{}}}", " ".repeat(20_000));
    let outcome = cut_text(&result, BUDGET, None, 100);
    assert_eq!(outcome.bounded.result, b"{\"content\":[]}");
    assert!(outcome.bounded.parts.is_empty());
}

#[test]
fn the_smallest_budgets_have_a_floor() {
    let result = json!({
        "content": [text(lines(2000)), {"type": "image", "data": "A".repeat(9000), "mimeType": "image/png"}, text(rows(1000).to_string())],
        "structuredContent": {"rows": rows(1000)},
        "x-more": rows(1000),
        "_meta": {"y": rows(1000)},
    });
    for budget in [0, 1, 1000, 4096] {
        cut(&result, budget);
    }
}

#[test]
fn lists_beside_a_long_text_are_counted() {
    let tags: Vec<_> = (0..500).map(|number| format!("{number:0>98}")).collect();
    let document = json!({"summary": "word ".repeat(60_000), "tags": tags});
    let result = json!({"content": [], "structuredContent": document});
    let outcome = cut(&result, 40 << 10);
    let shown = outcome.shown["structuredContent"]["tags"].as_array().unwrap().len();
    assert!((100..500).contains(&shown), "{shown}");
    let notice = outcome.notice();
    assert!(notice.contains(&format!("; also cut: {shown} of 500 of 'tags'\n")), "{notice}");
    assert!(notice.contains("it has summary (text, 300002 bytes), tags (array, "), "{notice}");
}

#[test]
fn a_notice_says_whether_reading_prolongs_what_is_held() {
    let result = json!({"content": [text(lines(2000))]}).to_string();
    let source = InMemory::new(result, 0);
    let notice = |until_at_most_ms| {
        let mut small = Small { room: 1_000_000, until_at_most_ms, ..Small::default() };
        let how = Bounding::new(Budget::bytes(BUDGET));
        let bounded = bound(&source, &how, &mut small).unwrap();
        let shown: Value = serde_json::from_slice(&bounded.result).unwrap();
        shown["content"][0]["text"].as_str().unwrap().lines().next().unwrap().to_owned()
    };
    let (longer, fixed) = (notice(UNTIL_MS + 1), notice(UNTIL_MS));
    assert!(longer.ends_with("until 2027-01-15T08:00:00Z (longer while you read it):"), "{longer}");
    assert!(fixed.ends_with("until 2027-01-15T08:00:00Z:"), "{fixed}");
}

#[test]
fn what_is_reserved_is_left() {
    let result = json!({"content": [text(lines(2000))], "structuredContent": rows(1000)});
    for budget in [0, 4096, BUDGET] {
        let how = Bounding::new(Budget::bytes(budget)).reserving(200);
        let source = InMemory::new(result.to_string(), 0);
        let bounded = bound(&source, &how, &mut Shelf::default()).unwrap();
        let room = budget.max(Budget::FLOOR_BYTES) - 200;
        assert!(bounded.result.len() <= room, "{} > {room}", bounded.result.len());
    }
    let how = Bounding::new(Budget::bytes(9000)).reserving(200);
    assert!(how.allows(8800) && !how.allows(8801));
}

#[derive(Debug, thiserror::Error)]
#[error("full")]
struct Full;

/// Has room for so many bytes.
#[derive(Debug, Default)]
struct Small {
    room: usize,
    kept: Vec<(Handle, usize)>,
    forgotten: usize,
    until_at_most_ms: u64,
}

struct SmallWriter<'a>(&'a mut Small, usize);

impl Keep for Small {
    type Error = Full;
    type Writer<'a> = SmallWriter<'a>;

    fn part(&mut self, _part: &NewPart) -> Result<SmallWriter<'_>, Full> {
        Ok(SmallWriter(self, 0))
    }

    fn forget(&mut self, handle: Handle) {
        let at = self.kept.iter().position(|(other, _)| *other == handle).unwrap();
        self.room += self.kept.remove(at).1;
        self.forgotten += 1;
    }
}

impl PartWriter for SmallWriter<'_> {
    type Error = Full;

    fn write(&mut self, bytes: &[u8]) -> Result<(), Full> {
        self.1 += bytes.len();
        if self.1 > self.0.room { Err(Full) } else { Ok(()) }
    }

    fn finish(self) -> Result<Kept, Full> {
        let Self(small, bytes) = self;
        small.room -= bytes;
        let handle = handle(small.kept.len());
        small.kept.push((handle, bytes));
        let until_at_most_ms = small.until_at_most_ms;
        Ok(Kept { handle, until_ms: UNTIL_MS, until_at_most_ms })
    }
}

#[test]
fn a_full_shelf_is_told_and_left_as_it_was() {
    let part = |word: &str| text(word.repeat(7_000));
    // What is there twice is kept once, and forgotten once.
    let blocks = [part("one "), part("two "), part("one "), part("six ")];
    let result = json!({"content": blocks}).to_string();
    let how = Bounding::new(Budget::bytes(BUDGET)).in_chunks_of(1000);
    let source = InMemory::new(result, 0);
    let mut large = Small { room: 100_000, ..Small::default() };
    let bounded = bound(&source, &how, &mut large).unwrap();
    assert_eq!((large.kept.len(), large.room), (3, 100_000 - 3 * 28_000));
    bounded.forget(&mut large);
    assert_eq!((large.kept.len(), large.room, large.forgotten), (0, 100_000, 3));
    for (room, forgotten) in [(10_000, 0), (30_000, 1), (60_000, 2)] {
        let mut small = Small { room, ..Small::default() };
        let error = bound(&source, &how, &mut small).unwrap_err();
        assert!(matches!(error, super::super::BoundError::Keep(Full)));
        assert_eq!((small.kept.len(), small.room, small.forgotten), (0, room, forgotten));
    }
}

#[test]
fn what_does_not_fit_in_parts_is_kept_once() {
    // Every part has room for what is said of it, unless the tool that reads it has such a name.
    let tool = "read".repeat(1000);
    let result = json!({"content": [text(lines(2000))], "structuredContent": rows(1000)});
    let (result, room) = (result.to_string(), 300_000);
    let mut shelf = Small { room, ..Small::default() };
    let how = Bounding::new(Budget::bytes(0)).reading_tool(&tool);
    let bounded = bound(&InMemory::new(result.clone(), 0), &how, &mut shelf).unwrap();
    let [whole] = bounded.parts.as_slice() else { panic!("{:?}", bounded.parts) };
    assert_eq!((whole.path.to_string(), whole.bytes), (String::new(), result.len() as u64));
    assert_eq!((shelf.kept.len(), shelf.room), (1, room - result.len()));
    assert!(shelf.forgotten > 0);
}
