//! `NAME=SOURCE`: what a `--collection` says.
//!
//! ```text
//! sqlite:FILE#TABLE          a table or view of a SQLite database
//! postgres://…/DB#TABLE      a table or view of a Postgres database
//! json:FILE#POINTER          an array in a JSON file, by JSON pointer; the whole file without one
//! jsonl:FILE                 a file with one JSON value per line
//! csv:FILE                   a file of comma-separated values with a header
//! text:FILE                  a file of lines
//! ```
//!
//! Options follow the last `#` after a `?`: `key=COLUMN,…` names what makes items unique,
//! `order=rowid` reads a SQLite table without a key in the order of its rowids.

use std::path::PathBuf;

/// One `--collection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) key: Key,
}

/// Where items come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Sqlite { file: PathBuf, table: String },
    Postgres { url: String, table: String },
    Json { file: PathBuf, pointer: String },
    Jsonl { file: PathBuf },
    Csv { file: PathBuf },
    Text { file: PathBuf },
}

/// What makes items unique.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Key {
    #[default]
    Declared,
    Rowid,
    Columns(Vec<String>),
}

/// Reads one `--collection`. The errors are for people, and never repeat a URL: it may hold a
/// password.
pub(crate) fn parse(text: &str) -> Result<Spec, String> {
    let (name, source) = text.split_once('=').ok_or("it is NAME=SOURCE")?;
    let (place, fragment) = source.rsplit_once('#').unwrap_or((source, ""));
    let (fragment, options) = fragment.split_once('?').unwrap_or((fragment, ""));
    let key = parse_options(options)?;
    let (scheme, rest) = place.split_once(':').ok_or("a source starts with its kind: sqlite:…")?;
    if rest.is_empty() {
        return Err(format!("{scheme}: is followed by a file"));
    }
    let file = PathBuf::from(rest);
    let table = || match fragment {
        "" => Err("a database is followed by # and the name of a table".to_owned()),
        table => Ok(table.to_owned()),
    };
    let without_fragment = |source| match fragment {
        "" => Ok(source),
        _ => Err(format!("{scheme}: takes nothing after #")),
    };
    let source = match scheme {
        "sqlite" => Source::Sqlite { file, table: table()? },
        "postgres" | "postgresql" => Source::Postgres { url: place.to_owned(), table: table()? },
        "json" => Source::Json { file, pointer: fragment.to_owned() },
        "jsonl" => without_fragment(Source::Jsonl { file })?,
        "csv" => without_fragment(Source::Csv { file })?,
        "text" => without_fragment(Source::Text { file })?,
        _ => return Err("kinds are sqlite, postgres, json, jsonl, csv and text".to_owned()),
    };
    check_key(&source, &key)?;
    Ok(Spec { name: name.to_owned(), source, key })
}

fn parse_options(text: &str) -> Result<Key, String> {
    let mut key = Key::Declared;
    for option in text.split('&').filter(|option| !option.is_empty()) {
        key = match option.split_once('=') {
            Some(("key", columns)) if !columns.is_empty() => {
                Key::Columns(columns.split(',').map(str::to_owned).collect())
            }
            Some(("order", "rowid")) => Key::Rowid,
            _ => return Err("options are key=COLUMN,… and order=rowid".to_owned()),
        };
    }
    Ok(key)
}

fn check_key(source: &Source, key: &Key) -> Result<(), String> {
    match (source, key) {
        (_, Key::Declared) | (Source::Sqlite { .. }, _) => Ok(()),
        (_, Key::Rowid) => Err("only SQLite tables have rowids".to_owned()),
        (Source::Text { .. }, Key::Columns(_)) => Err("lines have their number as key".to_owned()),
        (Source::Postgres { .. }, Key::Columns(_)) => Ok(()),
        (_, Key::Columns(columns)) if columns.len() > 1 => {
            Err("a file has one column as key".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, source: Source, key: Key) {
        assert_eq!(parse(text), Ok(Spec { name: "x".to_owned(), source, key }));
    }

    #[test]
    fn every_kind_is_read() {
        let sqlite = |file: &str| Source::Sqlite { file: file.into(), table: "orders".into() };
        check("x=sqlite:shop.db#orders", sqlite("shop.db"), Key::Declared);
        check("x=sqlite:a#b=c.db#orders", sqlite("a#b=c.db"), Key::Declared);
        check("x=sqlite:shop.db#orders?order=rowid", sqlite("shop.db"), Key::Rowid);
        let columns = Key::Columns(vec!["a".into(), "b".into()]);
        check("x=sqlite:shop.db#orders?key=a,b", sqlite("shop.db"), columns.clone());
        let url = "postgres://u:p@h:5/d?application_name=x";
        let table = "public.orders".to_owned();
        let source = Source::Postgres { url: url.to_owned(), table };
        check(&format!("x={url}#public.orders?key=a,b"), source, columns);
        let pointer = "/a/0".to_owned();
        check("x=json:d.json#/a/0", Source::Json { file: "d.json".into(), pointer }, Key::Declared);
        check(
            "x=json:d.json#?key=id",
            Source::Json { file: "d.json".into(), pointer: String::new() },
            Key::Columns(vec!["id".into()]),
        );
        check("x=jsonl:d.jsonl", Source::Jsonl { file: "d.jsonl".into() }, Key::Declared);
        check("x=csv:d.csv", Source::Csv { file: "d.csv".into() }, Key::Declared);
        check("x=text:d.txt", Source::Text { file: "d.txt".into() }, Key::Declared);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in [
            "",
            "x",
            "x=",
            "x=shop.db",
            "x=sqlite:",
            "x=sqlite:shop.db",
            "x=sqlite:shop.db#",
            "x=mysql:shop#orders",
            "x=csv:d.csv#part",
            "x=csv:d.csv#?order=rowid",
            "x=csv:d.csv#?key=a,b",
            "x=text:d.txt#?key=a",
            "x=sqlite:shop.db#orders?key=",
            "x=sqlite:shop.db#orders?limit=1",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = parse("x=postgres://u:secret@h/d").unwrap_err();
        assert!(!error.contains("secret"));
    }
}
