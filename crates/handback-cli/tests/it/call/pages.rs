//! Walks: what becomes of pages, and how far they go.

use serde_json::Value;

use super::world::{World, after, ids};

const ARGUMENTS: &str = r#"{"customer":7,"page_size":3}"#;

#[test]
fn all_pages_become_what_was_asked_for() {
    let world = World::new();
    for url in world.urls() {
        let all = |more: &[&str]| {
            world.call(&url, &[&["shop_orders", ARGUMENTS, "--all"], more].concat())
        };
        let whole = all(&[]).expect_code(0).json();
        let orders = ids(&whole);
        assert!(orders.len() > 20, "{orders:?}");
        assert!(orders.is_sorted_by(|a, b| a > b), "each once, the newest first: {orders:?}");

        let lines = all(&["--merge", "lines"]).expect_code(0);
        let items: Vec<Value> =
            lines.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(Value::Array(items), whole);
        assert!(lines.stderr.contains(&format!("{} lines", orders.len())), "{lines:?}");

        let first = all(&["--merge", "first-page"]).expect_code(0);
        assert_eq!(ids(&first.json()), orders[..3]);
        assert!(first.stderr.contains("--cursor"), "{first:?}");
        let last = all(&["--merge", "last-page"]).expect_code(0).json();
        assert!(orders.ends_with(&ids(&last)) && last.as_array().unwrap().len() <= 3);
        // These pages are no objects.
        let ran = all(&["--merge", "concat-field=orders"]).expect_code(1);
        assert!(ran.stderr.contains("page 2 cannot be merged"), "{ran:?}");
        all(&["--merge", "shuffle"]).expect_code(2);

        let told = all(&["--progress"]).expect_code(0);
        assert!(told.stderr.contains("page: 2, "), "{told:?}");
    }
}

#[test]
fn a_walk_that_stops_says_where_to_go_on() {
    let world = World::new();
    for url in world.urls() {
        let all = |more: &[&str]| {
            world.call(&url, &[&["shop_orders", ARGUMENTS, "--all"], more].concat())
        };
        let orders = ids(&all(&[]).expect_code(0).json());
        for limit in [["--max-pages", "2"], ["--max-bytes", "1000"]] {
            let stopped = all(&limit).expect_code(1);
            let got = ids(&stopped.json());
            assert!(!got.is_empty() && orders.starts_with(&got), "{stopped:?}");
            assert!(stopped.stdout.len() < 1100, "no more than was allowed: {stopped:?}");
            assert!(stopped.stderr.contains("stopped after"), "{stopped:?}");
            let cursor = after(&stopped.stderr, "--cursor=");
            let rest = ids(&all(&["--cursor", cursor]).expect_code(0).json());
            assert_eq!([got, rest].concat(), orders);
        }
        let members = all(&["--max-pages", "2", "--output", "json"]).expect_code(1).json();
        assert_eq!((&members["pages"], ids(&members["result"]).len()), (&2.into(), 6));
        let cursor = members["next_cursor"].as_str().unwrap().to_owned();
        let lines = all(&["--cursor", &cursor, "--merge", "lines"]).expect_code(0).stdout;
        assert_eq!(lines.lines().count() + 6, orders.len());
        // Not even one page.
        let none = all(&["--max-bytes", "10"]).expect_code(1);
        assert_eq!(none.stdout, "");
        assert!(none.stderr.contains("the first page is too large"), "{none:?}");
    }
}

#[test]
fn a_reader_that_leaves_ends_the_walk() {
    let world = World::new();
    let program = env!("CARGO_BIN_EXE_handback");
    let url = world.http();
    let line =
        format!("{program} call shop_orders --url {url} --all --merge lines | /usr/bin/head -n 1");
    let ran = world.shell(&line).expect_code(0);
    assert_eq!(ran.stdout.lines().count(), 1);
}
