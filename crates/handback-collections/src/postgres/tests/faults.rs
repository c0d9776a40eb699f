//! Tables that change, servers that do not answer, users that may not.

use std::time::{Duration, Instant};

use handback_page::{Collection as _, CollectionError, Window};
use serde_json::json;

use super::support::{Db, fetch, forward, ids, query};
use crate::postgres::{PostgresError, PostgresOptions, PostgresSettings, PostgresSource};

const NUMBERS: &str = "\
CREATE TABLE t (id int PRIMARY KEY, a int, b int);
INSERT INTO t SELECT n, n % 3, n FROM generate_series(1, 9) n;";

#[test]
fn a_dropped_table_is_gone_and_one_that_comes_back_is_there() {
    let Some(db) = Db::new(NUMBERS) else { return };
    let t = db.open("t");
    let all = query(&t, &json!({}), &[]);
    let first = forward(&t, &all, None, 3);
    let after = first.rows.last().map(|row| row.place.clone());
    let window = Window::Forward { after: after.as_deref(), limit: 3 };
    db.execute("DROP TABLE t");
    let error = t.fetch(&fetch(&all, window)).unwrap_err();
    assert!(matches!(error, CollectionError::Gone(_)), "{error}");
    assert!(matches!(t.count(&all), Err(CollectionError::Gone(_))));
    assert!(matches!(t.about(), Err(CollectionError::Gone(_))));
    assert!(matches!(t.scan(&all, &mut |_| Ok(())), Err(CollectionError::Gone(_))));
    db.execute("CREATE TABLE t (id bigint PRIMARY KEY, other text); INSERT INTO t VALUES (7, 'x')");
    let page = t.fetch(&fetch(&all, window)).unwrap();
    assert_eq!(page.rows[0].item, r#"{"id":7,"other":"x"}"#);
}

#[test]
fn wound_a13_a_column_that_goes_or_comes_in_a_walk_is_noticed() {
    let Some(db) = Db::new(NUMBERS) else { return };
    let t = db.open("t");
    let by_a = query(&t, &json!({}), &["a"]);
    let page = forward(&t, &by_a, None, 2);
    let after = page.rows.last().unwrap().place.clone();
    db.execute("ALTER TABLE t DROP COLUMN b; ALTER TABLE t ADD COLUMN c text DEFAULT 'new'");
    let page = forward(&t, &by_a, Some(&after), 2);
    assert_eq!(page.rows[0].item, r#"{"id":9,"a":0,"c":"new"}"#);
    db.execute("ALTER TABLE t ALTER c DROP DEFAULT, ALTER a TYPE bigint, ALTER c TYPE int USING 5");
    let page = forward(&t, &by_a, Some(&after), 2);
    assert_eq!(ids(&page.rows), [9, 1]);
    db.execute("ALTER TABLE t DROP COLUMN a");
    let window = Window::Forward { after: Some(&after), limit: 2 };
    let error = t.fetch(&fetch(&by_a, window)).unwrap_err();
    assert!(matches!(&error, CollectionError::ColumnGone { column } if column == "a"), "{error}");
    assert!(t.schema().unwrap().column("a").is_none());
    assert_eq!(forward(&t, &query(&t, &json!({}), &[]), None, 9).rows.len(), 9);
}

#[test]
fn a_key_that_goes_is_noticed() {
    let Some(db) = Db::new(NUMBERS) else { return };
    let t = db.open("t");
    db.execute("ALTER TABLE t DROP COLUMN id");
    let all = query(&t, &json!({}), &[]);
    let window = Window::Forward { after: None, limit: 2 };
    let error = t.fetch(&fetch(&all, window)).unwrap_err();
    assert!(matches!(error, CollectionError::Gone(_)), "{error}");
}

#[test]
fn a_connection_that_was_ended_is_replaced() {
    let settings = PostgresSettings::default().connections_max(1);
    let Some(db) = Db::with_settings(NUMBERS, &settings) else { return };
    let t = db.open("t");
    let all = query(&t, &json!({}), &[]);
    let mut after = None;
    for page in 0..3 {
        let found = forward(&t, &all, after.as_deref(), 3);
        assert_eq!(ids(&found.rows), [page * 3 + 1, page * 3 + 2, page * 3 + 3]);
        after = found.rows.last().map(|row| row.place.clone());
        let process = db.source.run(async |session| {
            let rows = session.look("SELECT pg_backend_pid()::text", &[]).await?;
            Ok(rows[0].get::<_, String>(0))
        });
        let end = format!("SELECT pg_terminate_backend({})::text", process.unwrap());
        let ended = db.texts(&end);
        assert!(!ended.is_empty());
    }
    let mut count = 0;
    t.scan(&all, &mut |_| {
        count += 1;
        Ok(())
    })
    .unwrap();
    assert_eq!(count, 9);
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let settings = PostgresSettings::default().statement_timeout(Duration::from_millis(100));
    let Some(db) = Db::with_settings(
        "CREATE VIEW v AS SELECT n AS id, ''::text AS x FROM generate_series(0, 5) n",
        &settings,
    ) else {
        return;
    };
    let v = db.open_with("v", PostgresOptions::default().key(["id"]));
    let all = query(&v, &json!({}), &[]);
    db.execute(
        "CREATE OR REPLACE VIEW v AS SELECT n AS id, pg_sleep(n)::text AS x FROM generate_series(0, 5) n",
    );
    let start = Instant::now();
    let window = Window::Forward { after: None, limit: 5 };
    let error = v.fetch(&fetch(&all, window)).unwrap_err();
    assert!(matches!(error, CollectionError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("took too long"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(2));
    db.execute(
        "CREATE OR REPLACE VIEW v AS SELECT n AS id, ''::text AS x FROM generate_series(0, 5) n",
    );
    assert_eq!(forward(&v, &all, None, 9).rows.len(), 6);
}

#[test]
fn a_locked_table_is_not_waited_for_for_long() {
    let settings = PostgresSettings::default().lock_timeout(Duration::from_millis(50));
    let Some(db) = Db::with_settings(NUMBERS, &settings) else { return };
    let t = db.open("t");
    let all = query(&t, &json!({}), &[]);
    db.execute("BEGIN; LOCK TABLE t");
    let window = Window::Forward { after: None, limit: 5 };
    let error = t.fetch(&fetch(&all, window)).unwrap_err();
    assert!(matches!(error, CollectionError::Unavailable(_)), "{error}");
    assert!(error.to_string().contains("locked"), "{error}");
    db.execute("COMMIT");
    assert_eq!(forward(&t, &all, None, 5).rows.len(), 5);
}

#[test]
fn a_pool_that_is_used_up_is_told() {
    let settings =
        PostgresSettings::default().connections_max(1).connect_timeout(Duration::from_millis(100));
    let Some(db) = Db::with_settings(NUMBERS, &settings) else { return };
    let t = db.open("t");
    let all = query(&t, &json!({}), &[]);
    let mut inner = None;
    t.scan(&all, &mut |_| {
        inner.get_or_insert_with(|| t.count(&all));
        Ok(())
    })
    .unwrap();
    let error = inner.unwrap().unwrap_err();
    assert!(error.to_string().contains("all connections are in use"), "{error}");
    assert_eq!(t.count(&all).unwrap(), 9);
}

#[test]
fn nothing_is_written_whatever_a_view_does() {
    let Some(db) = Db::new("CREATE TABLE log (n int); CREATE SEQUENCE seq") else { return };
    db.execute(&format!(
        "CREATE FUNCTION note() RETURNS int LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO \"{0}\".log VALUES (1); RETURN 1; END $$;
         CREATE FUNCTION open_up() RETURNS text LANGUAGE sql AS
             $$ SELECT set_config('transaction_read_only', 'off', false) $$;
         CREATE VIEW v AS SELECT n AS id, ''::text AS x FROM generate_series(1, 2) n",
        db.schema
    ));
    let v = db.open_with("v", PostgresOptions::default().key(["id"]));
    let all = query(&v, &json!({}), &[]);
    for evil in ["note()::text", "nextval('seq')::text", "open_up() || note()"] {
        db.execute(&format!(
            "CREATE OR REPLACE VIEW v AS SELECT n AS id, {evil} AS x FROM generate_series(1, 2) n"
        ));
        let window = Window::Forward { after: None, limit: 5 };
        let error = v.fetch(&fetch(&all, window)).unwrap_err();
        assert!(matches!(error, CollectionError::Damaged(_)), "{evil}: {error}");
        assert!(v.scan(&all, &mut |_| Ok(())).is_err());
    }
    assert_eq!(db.texts("SELECT count(*)::text FROM log"), ["0"]);
}

#[test]
fn a_view_that_fails_is_not_blamed_on_the_caller() {
    let Some(db) = Db::new(
        "CREATE VIEW v AS SELECT n AS id, (ARRAY['1', 'oops'])[n]::int AS x, 1 / (2 - n) AS y
             FROM generate_series(1, 2) n",
    ) else {
        return;
    };
    let v = db.open_with("v", PostgresOptions::default().key(["id"]));
    let filtered = query(&v, &json!({"id": {"gte": 1}}), &[]);
    for columns in [["x".to_owned()], ["y".to_owned()]] {
        let window = Window::Forward { after: None, limit: 5 };
        let mut fetch = fetch(&filtered, window);
        fetch.columns = Some(&columns);
        let error = v.fetch(&fetch).unwrap_err();
        assert!(matches!(error, CollectionError::Damaged(_)), "{error}");
        assert!(!error.to_string().contains("oops"), "{error}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_told_without_secrets() {
    let Some(db) = Db::new("") else { return };
    let connect = |url: &str| {
        let settings = PostgresSettings::default().connect_timeout(Duration::from_secs(2));
        PostgresSource::connect_with(url, &settings, db.runtime.handle()).unwrap_err()
    };
    let (scheme, rest) = db.url.split_once("://").unwrap();
    let (login, place) = rest.split_once('@').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let (address, _) = place.split_once('/').unwrap();
    let (host, port) = address.split_once(':').unwrap();
    for (url, expected) in [
        (format!("{scheme}://{user}:hunter2@{place}"), "refused the user or the password"),
        (format!("{scheme}://hunter2:hunter2@{place}"), "refused the user or the password"),
        (format!("{scheme}://{user}@{place}"), "the login failed"),
        (format!("{scheme}://{login}@{address}/hunter2"), "no such database"),
        (format!("{scheme}://{login}@{host}:1/x"), "cannot connect: connection refused"),
        (format!("{scheme}://{login}@hunter2.invalid/x"), "cannot connect"),
        (format!("{scheme}://{login}@{place}?sslmode=require"), "TLS"),
    ] {
        let error = connect(&url);
        let shown = format!("{error} {error:?}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        for secret in ["hunter2", password, host, port] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }
    let shown = format!("{:?}", db.source);
    assert!(!shown.contains(password) && !shown.contains(host), "{shown}");
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let settings = PostgresSettings::default().connect_timeout(Duration::from_millis(100));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://me:hunter2@{}/x", listener.local_addr().unwrap());
    let connect =
        || PostgresSource::connect_with(&url, &settings, runtime.handle()).unwrap_err().to_string();
    assert_eq!(connect(), "the source is not available: connecting took too long");
    let hangs_up = std::thread::spawn(move || while listener.accept().is_ok() {});
    let error = connect();
    assert!(error.starts_with("the source is not available: cannot connect"), "{error}");
    assert!(!error.contains("hunter2") && !error.contains("127.0.0.1"), "{error}");
    drop(hangs_up);
}

#[test]
fn a_server_calls_it_where_blocking_is_allowed() {
    let Some(db) = Db::new(NUMBERS) else { return };
    let t = db.open("t");
    let all = query(&t, &json!({}), &[]);
    let count = db.runtime.block_on(async {
        tokio::task::spawn_blocking(move || t.count(&all)).await.unwrap().unwrap()
    });
    assert_eq!(count, 9);
}

#[test]
fn a_runtime_without_threads_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let error = PostgresSource::connect("postgres://localhost/x", runtime.handle()).unwrap_err();
    assert!(matches!(error, PostgresError::UnfitRuntime));
}

#[test]
fn statements_of_all_shapes_do_not_pile_up() {
    let Some(db) = Db::with_settings(NUMBERS, &PostgresSettings::default().connections_max(1))
    else {
        return;
    };
    let t = db.open("t");
    for count in 1..300 {
        let values: Vec<_> = (0..=count).collect();
        t.count(&query(&t, &json!({"id": {"in": values}}), &[])).unwrap();
    }
    db.execute("CREATE VIEW prepared AS SELECT 1 AS id, count(*) AS n FROM pg_prepared_statements");
    let v = db.open_with("prepared", PostgresOptions::default().key(["id"]));
    let page = forward(&v, &query(&v, &json!({}), &[]), None, 1);
    let count = super::support::json(&page.rows[0])["n"].as_i64().unwrap();
    assert!(count < 140, "{count}");
}
