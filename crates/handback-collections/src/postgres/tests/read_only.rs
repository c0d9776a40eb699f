//! Views whose functions change the settings of their connection.

use std::time::{Duration, Instant};

use handback_page::{Collection as _, CollectionError, Window};
use serde_json::json;

use super::support::{Db, fetch, forward, query};
use crate::postgres::{PostgresCollection, PostgresOptions, PostgresSettings};

/// A view that turns both protections off, one that writes, and one that takes its time.
const VIEWS: &str = "\
CREATE TABLE log (n int);
CREATE FUNCTION open_up() RETURNS text VOLATILE LANGUAGE sql AS $$
    SELECT set_config('default_transaction_read_only', 'off', false)
        || set_config('statement_timeout', '0', false)
        || set_config('lock_timeout', '0', false)
        || set_config('search_path', current_schema, false) $$;
CREATE FUNCTION open_now() RETURNS text VOLATILE LANGUAGE sql AS $$
    SELECT set_config('transaction_read_only', 'off', false) $$;
CREATE FUNCTION write() RETURNS text VOLATILE LANGUAGE plpgsql AS $$
    BEGIN INSERT INTO log VALUES (1); RETURN 'written'; END $$;
CREATE FUNCTION no_limit() RETURNS text IMMUTABLE LANGUAGE sql AS $$
    SELECT set_config('statement_timeout', '0', false) $$;
CREATE VIEW opening AS SELECT n AS id, ''::text AS x FROM generate_series(1, 2) n;
CREATE VIEW opening_now AS SELECT n AS id, ''::text AS x FROM generate_series(1, 2) n;
CREATE VIEW writing AS SELECT n AS id, ''::text AS x FROM generate_series(1, 2) n;
CREATE VIEW slow AS SELECT n AS id, ''::text AS x FROM generate_series(0, 2) n;";

/// Puts the functions into the views, which were opened without them: opening reads all of a view.
fn arm(db: &Db) {
    let schema = &db.schema;
    db.execute(&format!("ALTER FUNCTION write() SET search_path = \"{schema}\""));
    for (view, call) in
        [("opening", "open_up()"), ("opening_now", "open_now()"), ("writing", "write()")]
    {
        db.execute(&format!(
            "CREATE OR REPLACE VIEW {view} AS \
             SELECT n AS id, \"{schema}\".{call} AS x FROM generate_series(1, 2) n"
        ));
    }
}

fn one_connection(settings: PostgresSettings) -> Option<Db> {
    Db::with_settings(VIEWS, &settings.connections_max(1))
}

fn view(db: &Db, name: &str) -> PostgresCollection {
    db.open_with(name, PostgresOptions::default().key(["id"]))
}

/// Settings of the one connection, and the process that serves it.
fn settings(db: &Db) -> (Vec<String>, i32) {
    let names =
        ["default_transaction_read_only", "statement_timeout", "lock_timeout", "search_path"];
    let sql = "SELECT current_setting(name), pg_backend_pid() FROM unnest($1::text[]) name";
    let rows = db.source.run(async |session| session.look(sql, &[&&names[..]]).await).unwrap();
    (rows.iter().map(|row| row.get(0)).collect(), rows[0].get(1))
}

#[test]
fn wound_a9_a_view_that_turns_writing_on_opens_nothing_for_later_reads() {
    let Some(db) = one_connection(PostgresSettings::default()) else { return };
    let [opening, writing] = ["opening", "writing"].map(|name| view(&db, name));
    let all = query(&opening, &json!({}), &[]);
    let (before, _) = settings(&db);
    arm(&db);
    let window = Window::Forward { after: None, limit: 5 };
    for read in 0..3 {
        match read {
            0 => drop(forward(&opening, &all, None, 5)),
            1 => opening.scan(&all, &mut |_| Ok(())).unwrap(),
            _ => drop(opening.count(&query(&opening, &json!({"x": {"ne": "-"}}), &[])).unwrap()),
        }
        assert_eq!(settings(&db).0, before);
        let error = writing.fetch(&fetch(&all, window)).unwrap_err();
        assert!(
            matches!(&error, CollectionError::Damaged(text) if text.contains("25006")),
            "{error}"
        );
        assert!(writing.scan(&all, &mut |_| Ok(())).is_err());
        let filtered = query(&writing, &json!({"x": "written"}), &[]);
        assert!(writing.count(&filtered).is_err());
    }
    assert_eq!(db.texts("SELECT count(*)::text FROM log"), ["0"]);
    assert_eq!(settings(&db).0, before);
}

#[test]
fn wound_a9_a_transaction_is_not_opened_for_writing_by_its_own_statement() {
    let Some(db) = one_connection(PostgresSettings::default()) else { return };
    let opening = view(&db, "opening_now");
    let all = query(&opening, &json!({}), &[]);
    arm(&db);
    let window = Window::Forward { after: None, limit: 5 };
    opening.fetch(&fetch(&all, window)).unwrap_err();
    opening.scan(&all, &mut |_| Ok(())).unwrap_err();
}

#[test]
fn wound_a9_a_connection_with_other_settings_does_not_come_back() {
    let Some(db) = one_connection(PostgresSettings::default()) else { return };
    let (before, first) = settings(&db);
    for (name, value) in [
        ("default_transaction_read_only", "off"),
        ("statement_timeout", "0"),
        ("role", "pg_monitor"),
    ] {
        let (_, process) = settings(&db);
        let sql = format!("SELECT pg_catalog.set_config('{name}', '{value}', false)");
        db.source
            .run(async |session| {
                // Out of the transaction, which would take the change back.
                session.look("COMMIT", &[]).await?;
                session.look(&sql, &[]).await
            })
            .unwrap();
        let (after, other) = settings(&db);
        assert_eq!(after, before, "{name}");
        assert_ne!(other, process, "{name}");
    }
    // A connection that was left as it was does come back.
    let (_, last) = settings(&db);
    assert_ne!(last, first);
    assert_eq!(settings(&db).1, last);
}

#[test]
fn wound_a9_a_statement_without_its_limit_is_cancelled() {
    let limit = Duration::from_millis(100);
    let settings = PostgresSettings::default().statement_timeout(limit).connect_timeout(limit * 10);
    let Some(db) = one_connection(settings) else { return };
    let slow = view(&db, "slow");
    let all = query(&slow, &json!({}), &[]);
    let schema = &db.schema;
    db.execute(&format!(
        "CREATE OR REPLACE VIEW slow AS SELECT n AS id, \"{schema}\".no_limit() || pg_sleep(n * 60) AS x \
         FROM generate_series(0, 2) n"
    ));
    let window = Window::Forward { after: None, limit: 5 };
    let error = slow.fetch(&fetch(&all, window)).unwrap_err();
    assert!(matches!(error, CollectionError::Unavailable(_)), "{error}");
    let running = format!(
        "SELECT pid::text FROM pg_stat_activity \
         WHERE application_name = 'handback' AND state = 'active' AND query LIKE '%{schema}%'"
    );
    let start = Instant::now();
    while !db.texts(&running).is_empty() {
        assert!(start.elapsed() < Duration::from_secs(30), "the statement goes on");
        std::thread::yield_now();
    }
    db.execute(
        "CREATE OR REPLACE VIEW slow AS SELECT n AS id, ''::text AS x FROM generate_series(0, 2) n",
    );
    assert_eq!(slow.count(&all).unwrap(), 3);
}
