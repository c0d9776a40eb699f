//! `handback query` and `handback collections` on real files and databases.

use std::io::Read as _;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::support::{Ran, Sandbox};

const ROWS: i64 = 250;

/// A shop with 250 orders, and files of every kind.
fn shop() -> Sandbox {
    let sandbox = Sandbox::new();
    let shop = Connection::open(sandbox.path("shop.db")).unwrap();
    shop.execute_batch(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT NOT NULL, total REAL,
                              \"we\"\"ird, name\" TEXT, data BLOB);
         CREATE INDEX by_status ON orders (status);
         CREATE TABLE keyless (a INTEGER, b TEXT);
         INSERT INTO keyless VALUES (1, 'x'), (1, 'x');
         CREATE VIEW open_orders AS SELECT id, total FROM orders WHERE status = 'open';",
    )
    .unwrap();
    for id in 1..=ROWS {
        let status = if id % 3 == 0 { "open" } else { "done" };
        let total = (id % 7 != 0).then_some(id as f64 / 2.0);
        shop.execute("INSERT INTO orders VALUES (?, ?, ?, 'odd', x'00ff')", (id, status, total))
            .unwrap();
    }
    sandbox.write("people.json", r#"{"people":[{"id":1,"name":"Ada"},{"id":2,"name":"Grace"}]}"#);
    sandbox.write("people.csv", "name,age\nAda,36\nGrace,85\n");
    sandbox.write("people.jsonl", "{\"name\":\"Ada\"}\n{\"name\":\"Grace\"}\n");
    sandbox.write("app.log", "one\ntwo\nthree\n");
    sandbox
}

const ORDERS: &str = "orders=sqlite:shop.db#orders";

#[track_caller]
fn query(sandbox: &Sandbox, flags: &[&str], collection: &str, request: &Value) -> Ran {
    let request = request.to_string();
    let mut words = vec!["query", "--collection", collection];
    words.extend(flags);
    words.push(&request);
    sandbox.run_words(&words)
}

fn list(collection: &str, params: Value) -> Value {
    json!({"operation": "list_elements", "element_type": collection, "params": params})
}

#[test]
fn the_envelope_is_one_line_on_stdout() {
    let sandbox = shop();
    let ran = query(&sandbox, &[], ORDERS, &list("orders", json!({"first": 10})));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.stdout.lines().count(), 1);
    assert!(ran.stderr.contains("made a key ring"), "{ran:?}");
    let answer = ran.json();
    assert_eq!(answer["success"], true);
    assert_eq!(answer["data"]["items"].as_array().unwrap().len(), 10);
    // The ring is made once.
    let again = query(&sandbox, &[], ORDERS, &list("orders", json!({"first": 10})));
    assert_eq!(again.stderr, "");
    assert_eq!(again.json()["data"]["items"], answer["data"]["items"]);
}

#[test]
fn every_kind_of_source_is_paged_from_process_to_process() {
    let sandbox = shop();
    for collection in [
        "x=sqlite:shop.db#orders",
        "x=sqlite:shop.db#keyless?order=rowid",
        "x=sqlite:shop.db#open_orders?key=id",
        "x=json:people.json#/people",
        "x=json:people.json#/people?key=id",
        "x=jsonl:people.jsonl",
        "x=csv:people.csv",
        "x=text:app.log",
    ] {
        let first = query(&sandbox, &[], collection, &list("x", json!({"first": 1})));
        let first = first.expect_code(0).json();
        let after = &first["data"]["pageInfo"]["endCursor"];
        let next =
            query(&sandbox, &[], collection, &list("x", json!({"first": 1, "after": after})));
        let next = next.expect_code(0).json();
        assert_eq!(next["data"]["items"].as_array().unwrap().len(), 1, "{collection}");
        assert_eq!(next["data"]["pageInfo"]["hasPreviousPage"], true, "{collection}");
    }
}

#[test]
fn a_postgres_table_is_paged_where_there_is_one() {
    let Some(url) = crate::config::postgres() else { return };
    let sandbox = shop();
    // A table that every database has.
    let collection = format!("x={url}#pg_catalog.pg_type?key=oid");
    let request = list("x", json!({"first": 2, "fields": ["oid", "typname"]}));
    let ran = query(&sandbox, &[], &collection, &request).expect_code(0);
    assert_eq!(ran.json()["data"]["items"].as_array().unwrap().len(), 2);
    let wrong = format!("x={}x#public.orders", url.replace("handback:", "nobody:"));
    let ran = query(&sandbox, &[], &wrong, &request).expect_code(1);
    let password = url.split(':').nth(2).unwrap().split('@').next().unwrap();
    assert!(!ran.stderr.contains(password), "{ran:?}");
}

#[test]
fn all_writes_every_item_once_as_lines() {
    let sandbox = shop();
    let request = list("orders", json!({"filter": {"status": "open"}, "sort": {"field": "total"}}));
    let ran = query(&sandbox, &["--all", "--max-page-size", "7"], ORDERS, &request);
    let ran = ran.expect_code(0);
    let mut ids: Vec<i64> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_i64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..=ROWS).filter(|id| id % 3 == 0).collect::<Vec<_>>());
    let ran = query(&sandbox, &["--all"], "log=text:app.log", &list("log", json!({})));
    assert_eq!(ran.expect_code(0).stdout.lines().count(), 3);
}

#[test]
fn all_refuses_what_cannot_be_walked() {
    let sandbox = shop();
    for params in
        [json!({"last": 5}), json!({"page": 1}), json!({"offset": 5}), json!({"first": 0})]
    {
        query(&sandbox, &["--all"], ORDERS, &list("orders", params)).expect_code(2);
    }
    let count = json!({"operation": "count_elements", "element_type": "orders"});
    query(&sandbox, &["--all"], ORDERS, &count).expect_code(2);
    let ran = query(&sandbox, &["--all"], ORDERS, &list("orders", json!({"zz": 1})));
    let ran = ran.expect_code(1);
    assert!(ran.stderr.contains("VALIDATION_UNKNOWN_PARAM"), "{ran:?}");
    assert_eq!(ran.stdout, "");
}

#[test]
fn a_table_is_drawn_for_people() {
    let sandbox = shop();
    let request = list("orders", json!({"first": 8, "fields": "full"}));
    let ran = query(&sandbox, &["--table"], ORDERS, &request).expect_code(0);
    insta::assert_snapshot!(ran.stdout);
    assert!(ran.stderr.contains("the next page is \"after\": "), "{ran:?}");
}

#[test]
fn a_table_says_how_to_go_on_in_every_style() {
    let sandbox = shop();
    let note = |params: Value| {
        query(&sandbox, &["--table"], ORDERS, &list("orders", params)).expect_code(0).stderr
    };
    let next = "the next page is";
    let stderr = note(json!({"page": 2, "page_size": 3}));
    assert!(stderr.contains(&format!("3 items; {next} \"page\": 3")), "{stderr}");
    let stderr = note(json!({"limit": 4, "offset": 6, "include_total": true}));
    assert!(stderr.contains(&format!("4 items of 250; {next} \"offset\": 10")), "{stderr}");
    let stderr = note(json!({"limit": 4, "offset": 248}));
    assert!(stderr.contains("2 items; the end"), "{stderr}");
}

#[test]
fn a_table_of_nothing_is_nothing() {
    let sandbox = shop();
    let request = list("orders", json!({"filter": {"id": -1}}));
    let ran = query(&sandbox, &["--table"], ORDERS, &request).expect_code(0);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("0 items; the end"), "{ran:?}");
}

#[test]
fn hints_are_written_as_they_are_meant() {
    let sandbox = shop();
    let request = list("x", json!({}));
    let ran = query(&sandbox, &[], "x=sqlite:shop.db#keyless", &request).expect_code(1);
    assert!(ran.stderr.contains("name unique columns with 'key'"), "{ran:?}");
}

#[test]
fn failures_are_envelopes_with_an_exit_code() {
    let sandbox = shop();
    let ran = query(&sandbox, &[], ORDERS, &list("orders", json!({"first": 1, "last": 1})));
    assert_eq!(ran.expect_code(1).json()["error"]["code"], "VALIDATION_INVALID_TYPE");
    let bad = list("orders", json!({"first": 1, "after": "nonsense"}));
    let ran = query(&sandbox, &[], ORDERS, &bad).expect_code(3);
    assert_eq!(ran.json()["error"]["details"]["actual_type"], "invalid cursor");
    let ran = sandbox.run_words(&["query", "--collection", ORDERS, "{not json"]);
    assert_eq!(ran.expect_code(1).json()["success"], false);
    let words = format!("query --collection {ORDERS} -");
    let ran = sandbox.run_with_stdin(&words, list("orders", json!({})).to_string().as_bytes());
    assert_eq!(ran.expect_code(0).json()["success"], true);
    let ran = sandbox.run_with_stdin(&words, &vec![b' '; 1_100_000]);
    assert_eq!(ran.expect_code(1).json()["error"]["code"], "VALIDATION_PAYLOAD_TOO_LARGE");
}

#[test]
fn sources_that_cannot_be_opened_say_why() {
    let sandbox = shop();
    for (collection, code) in [
        ("x=nonsense", 2),
        ("x=sqlite:shop.db", 2),
        ("UPPER=sqlite:shop.db#orders", 2),
        ("x=sqlite:missing.db#orders", 1),
        ("x=sqlite:shop.db#missing", 1),
        ("x=sqlite:shop.db#keyless", 1),
        ("x=sqlite:shop.db#keyless?key=a", 1),
        ("x=sqlite:shop.db#open_orders", 1),
        ("x=sqlite:app.log#orders", 1),
        ("x=json:app.log", 1),
        ("x=json:people.json#/nobody", 1),
        ("x=json:people.json#people", 2),
        ("x=csv:missing.csv", 1),
        ("x=text:.", 1),
        ("x=postgres://nobody@127.0.0.1:1/none#t", 1),
    ] {
        let ran = query(&sandbox, &[], collection, &list("x", json!({})));
        assert_eq!(ran.code, code, "{collection}: {ran:?}");
        assert!(ran.stderr.starts_with("error: "), "{collection}: {ran:?}");
        assert_eq!(ran.stdout, "");
    }
    assert!(!sandbox.path("missing.db").exists());
    let twice = ["query", "--collection", ORDERS, "--collection", ORDERS, "{}"];
    sandbox.run_words(&twice).expect_code(2);
}

#[test]
fn an_order_without_an_index_warns_or_is_refused() {
    let sandbox = shop();
    let request = list("orders", json!({"first": 1, "sort": {"field": "total"}}));
    let ran = query(&sandbox, &[], ORDERS, &request).expect_code(0);
    assert_eq!(ran.json()["warnings"][0]["code"], "PERFORMANCE_SLOW_QUERY_WARNING");
    let ran = query(&sandbox, &["--require-index"], ORDERS, &request).expect_code(1);
    let error = ran.json()["error"].clone();
    assert_eq!(error["details"]["hint"], "an index on (total, id) would serve this order");
    let served = list("orders", json!({"first": 1, "sort": {"field": "status"}}));
    let ran = query(&sandbox, &["--require-index"], ORDERS, &served).expect_code(0);
    assert!(ran.json().get("warnings").is_none());
}

#[test]
fn a_snapshot_outlives_the_process_and_the_rows() {
    let sandbox = shop();
    let params = json!({"first": 2, "snapshot": true, "filter": {"status": "open"}});
    let first = query(&sandbox, &[], ORDERS, &list("orders", params.clone())).expect_code(0).json();
    assert_eq!(first["data"]["pageInfo"]["totalCount"], 83);
    let shop = Connection::open(sandbox.path("shop.db")).unwrap();
    shop.execute("DELETE FROM orders", []).unwrap();
    let mut next = params;
    next["after"] = first["data"]["pageInfo"]["endCursor"].clone();
    let next = query(&sandbox, &[], ORDERS, &list("orders", next)).expect_code(0).json();
    assert_eq!(next["data"]["items"][0]["id"], 9);
    assert_eq!(next["data"]["pageInfo"]["totalCount"], 83);
}

#[test]
fn a_waiting_page_sees_what_comes() {
    let sandbox = shop();
    let last = query(&sandbox, &[], ORDERS, &list("orders", json!({"last": 1}))).json();
    let after = last["data"]["pageInfo"]["endCursor"].clone();
    let wait = json!({"first": 5, "after": after, "stream": true, "poll_interval_ms": 20_000});
    let request = list("orders", wait).to_string();
    let words = ["query", "--collection", ORDERS, &request];
    let child = sandbox.command(&words).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let shop = Connection::open(sandbox.path("shop.db")).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    shop.execute("INSERT INTO orders VALUES (999, 'new', 1, '', x'')", []).unwrap();
    let output = child.wait_with_output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["data"]["items"][0]["id"], 999);
}

#[test]
fn collections_show_what_is_there() {
    let sandbox = shop();
    let words = [
        "collections",
        "--collection",
        ORDERS,
        "--collection",
        "people=json:people.json#/people",
        "--collection",
        "log=text:app.log",
    ];
    let ran = sandbox.run_words(&words).expect_code(0);
    insta::assert_snapshot!(ran.stdout);
    let mut json = words.to_vec();
    json.extend(["--output", "json"]);
    let answer = sandbox.run_words(&json).expect_code(0).json();
    let orders = &answer["collections"][1];
    assert_eq!(orders["name"], "orders");
    assert_eq!(orders["key"], json!(["id"]));
    assert_eq!(orders["columns"][3]["name"], "we\"ird, name");
    assert!(!sandbox.key_file().exists(), "looking needs no keys");
}

#[test]
fn nobody_else_can_use_a_cursor() {
    let sandbox = shop();
    let first = query(&sandbox, &[], ORDERS, &list("orders", json!({"first": 1}))).json();
    let after = &first["data"]["pageInfo"]["endCursor"];
    let other = shop();
    let ran = query(&other, &[], ORDERS, &list("orders", json!({"first": 1, "after": after})));
    ran.expect_code(3);
}

#[test]
fn presets_come_from_the_command_line() {
    let sandbox = shop();
    let request = list("orders", json!({"page_preset": "small"}));
    let flags = ["--page-preset", "small=3,total,edges"];
    let answer = query(&sandbox, &flags, ORDERS, &request).expect_code(0).json();
    assert_eq!(answer["data"]["edges"].as_array().unwrap().len(), 3);
    assert_eq!(answer["data"]["pageInfo"]["totalCount"], ROWS);
    query(&sandbox, &[], ORDERS, &request).expect_code(1);
    for wrong in ["=5", "=", "small", "small=x", "small=3,more", "small=1000"] {
        query(&sandbox, &["--page-preset", wrong], ORDERS, &request).expect_code(2);
    }
}

#[test]
fn a_password_is_never_repeated() {
    let sandbox = shop();
    for collection in [
        "x=posgres://u:s3cret@127.0.0.1:1/d#t",
        "postgres://u:s3cret@127.0.0.1:1/d#t",
        "x=postgres://u:s3cret@127.0.0.1:1/d#t?bad=1",
        "x=postgres:u:s3cret@127.0.0.1:1/d",
        "x=postgres://u:s3cret@127.0.0.1:1/d#t",
    ] {
        let ran = query(&sandbox, &[], collection, &list("x", json!({})));
        assert_ne!(ran.code, 0);
        assert!(!ran.stderr.contains("s3cret"), "{collection}: {ran:?}");
    }
}

/// Starts a walk, does something in its middle, and gives its code and what it says.
fn interrupted(sandbox: &Sandbox, collection: &str, middle: impl FnOnce()) -> (i32, String) {
    let request = list("x", json!({"first": 5})).to_string();
    let words = ["query", "--collection", collection, "--all", &request];
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut command = sandbox.command(&words);
    let child = command.stdout(writer).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The last end that is written to is the child's.
    drop(command);
    // It has begun, and waits until more than a pipe holds is read.
    reader.read_exact(&mut [0; 100]).unwrap();
    middle();
    std::io::copy(&mut reader, &mut std::io::sink()).unwrap();
    let output = child.wait_with_output().unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_walk_that_fails_tells_how_it_goes_on_only_if_it_does() {
    let sandbox = shop();
    query(&sandbox, &[], ORDERS, &list("orders", json!({}))).expect_code(0);
    let shop = Connection::open(sandbox.path("shop.db")).unwrap();
    shop.execute_batch(
        "CREATE TABLE big (id INTEGER PRIMARY KEY, v TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)
         INSERT INTO big SELECT i, hex(zeroblob(2000)) FROM n;",
    )
    .unwrap();
    let big = "x=sqlite:shop.db#big";
    let (code, stderr) =
        interrupted(&sandbox, big, || shop.execute_batch("BEGIN EXCLUSIVE").unwrap());
    assert!(code == 1 && stderr.contains("\"after\": \""), "{code} {stderr}");
    assert!(stderr.contains("items were written"), "{stderr}");
    shop.execute_batch("COMMIT").unwrap();
    let (code, stderr) =
        interrupted(&sandbox, big, || shop.execute_batch("DROP TABLE big").unwrap());
    assert!(code == 1 && stderr.contains("NOT_FOUND_RESOURCE"), "{code} {stderr}");
    assert!(!stderr.contains("after"), "{stderr}");
    let items: Vec<_> = (0..200).map(|n| json!({"n": n, "v": "x".repeat(4000)})).collect();
    sandbox.write("big.json", &json!(items).to_string());
    let (code, stderr) = interrupted(&sandbox, "x=json:big.json#", || {
        // At once: a file that is half written is another fault.
        sandbox.write("next.json", &json!(items[1..]).to_string());
        std::fs::rename(sandbox.path("next.json"), sandbox.path("big.json")).unwrap();
    });
    assert!(code == 3 && stderr.contains("'after'"), "{code} {stderr}");
    assert!(!stderr.contains("\"after\""), "{stderr}");
}

#[test]
fn what_a_terminal_would_act_on_is_escaped_and_nothing_is_lost() {
    let sandbox = shop();
    let shop = Connection::open(sandbox.path("shop.db")).unwrap();
    shop.execute_batch(
        "CREATE TABLE odd (\"\u{1b}]0;pwn\u{7}k\" INTEGER PRIMARY KEY, v TEXT);
         CREATE INDEX odd_v ON odd (v);
         INSERT INTO odd VALUES (1, 'a' || char(127) || char(155) || '2J' || char(8238));",
    )
    .unwrap();
    let odd = "odd=sqlite:shop.db#odd";
    for flags in [&[][..], &["--all"]] {
        let ran = query(&sandbox, flags, odd, &list("odd", json!({}))).expect_code(0);
        assert!(ran.stdout.trim_end().chars().all(|c| !c.is_control()), "{ran:?}");
        let answer: Value = serde_json::from_str(&ran.stdout).unwrap();
        let item = if flags.is_empty() { &answer["data"]["items"][0] } else { &answer };
        assert_eq!(item["v"], "a\u{7f}\u{9b}2J\u{202e}");
    }
    let ran = sandbox.run_words(&["collections", "--collection", odd]).expect_code(0);
    assert!(ran.stdout.chars().all(|c| c == '\n' || !c.is_control()), "{ran:?}");
    let ran = query(&sandbox, &[], "x=sqlite:shop.db#nope", &list("x", json!({}))).expect_code(1);
    assert!(ran.stderr.chars().all(|c| c == '\n' || !c.is_control()), "{ran:?}");
}

#[test]
fn a_cursor_is_bound_to_the_table_and_its_key() {
    let sandbox = shop();
    let shop = Connection::open(sandbox.path("shop.db")).unwrap();
    shop.execute_batch("CREATE TABLE other (id INTEGER PRIMARY KEY); INSERT INTO other VALUES (1)")
        .unwrap();
    let page = query(&sandbox, &[], "x=sqlite:shop.db#orders", &list("x", json!({"first": 1})));
    let after = page.json()["data"]["pageInfo"]["endCursor"].clone();
    let next = list("x", json!({"first": 1, "after": after}));
    query(&sandbox, &[], "x=sqlite:shop.db#other", &next).expect_code(3);
    shop.execute_batch("DROP TABLE orders; CREATE TABLE orders (id TEXT PRIMARY KEY NOT NULL)")
        .unwrap();
    query(&sandbox, &[], "x=sqlite:shop.db#orders", &next).expect_code(3);
    sandbox.write("k.json", r#"[{"a":1,"b":2},{"a":2,"b":1}]"#);
    let page = query(&sandbox, &[], "k=json:k.json#?key=a", &list("k", json!({"first": 1})));
    let after = page.json()["data"]["pageInfo"]["endCursor"].clone();
    let next = list("k", json!({"first": 1, "after": after}));
    query(&sandbox, &[], "k=json:k.json#?key=b", &next).expect_code(3);
}

#[test]
fn a_key_that_is_none_is_refused_when_it_is_opened() {
    let sandbox = shop();
    sandbox.write("k.json", r#"[{"id":1},{"id":1},{"id":null}]"#);
    let ran = query(&sandbox, &[], "k=json:k.json#?key=id", &list("k", json!({})));
    assert!(ran.expect_code(1).stderr.contains("key"));
}

#[test]
fn a_text_that_was_cut_or_replaced_ends_its_cursors_and_one_that_grew_does_not() {
    let sandbox = shop();
    let log = "log=text:app.log";
    let page = query(&sandbox, &[], log, &list("log", json!({"first": 2}))).json();
    let after = page["data"]["pageInfo"]["endCursor"].clone();
    let next = list("log", json!({"first": 5, "after": after}));
    sandbox.write("app.log", "one\ntwo\nthree\nfour\n");
    let grown = query(&sandbox, &[], log, &next).expect_code(0).json();
    assert_eq!(grown["data"]["items"].as_array().unwrap().len(), 2);
    for text in ["new1\nnew2\nnew3\n", "one\n", "", "one\ntw"] {
        sandbox.write("app.log", text);
        let answer = query(&sandbox, &[], log, &next).expect_code(3).json();
        assert_eq!(answer["error"]["details"]["actual_type"], "expired cursor", "{text:?}");
    }
}

#[test]
fn a_compound_view_is_walked_whole() {
    let sandbox = shop();
    let shop = Connection::open(sandbox.path("shop.db")).unwrap();
    shop.execute_batch(
        "CREATE TABLE txt (id INTEGER PRIMARY KEY, v TEXT);
         CREATE TABLE num (id INTEGER PRIMARY KEY, v INTEGER);
         INSERT INTO txt (v) VALUES ('1'), ('10'), ('2'), (NULL), ('a'), ('9');
         INSERT INTO num (v) VALUES (1), (10), (2), (NULL), ('a'), (9);
         CREATE VIEW both AS
           SELECT 'a' || id AS k, v FROM txt UNION ALL SELECT 'b' || id, v FROM num;",
    )
    .unwrap();
    for (order, nulls) in [("asc", "first"), ("asc", "last"), ("desc", "first"), ("desc", "last")] {
        let sort = json!({"field": "v", "order": order, "nulls": nulls});
        let request = list("both", json!({"sort": sort, "first": 2}));
        let ran = query(&sandbox, &["--all"], "both=sqlite:shop.db#both?key=k", &request);
        let mut keys: Vec<String> = ran
            .expect_code(0)
            .stdout
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["k"].to_string())
            .collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 12, "{order} {nulls}");
    }
}
