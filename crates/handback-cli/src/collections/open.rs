//! Opens what a `--collection` names.

use std::sync::{Arc, OnceLock};

use handback_collections::files::{
    CsvCollection, FileOptions, JsonFileCollection, JsonFileOptions, JsonlCollection,
    TextFileCollection,
};
use handback_collections::postgres::{PostgresError, PostgresOptions, PostgresSource};
use handback_collections::sqlite::{self, SqliteCollection, SqliteOptions};
use handback_page::Collection;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::runtime::Runtime;

use super::spec::{Key, Source, Spec};
use crate::config;
use crate::error::Failure;
use crate::output::Output;

pub(super) fn open(
    spec: &Spec,
    require_index: bool,
    output: Output,
) -> Result<Arc<dyn Collection>, Failure> {
    let sqlite = SqliteOptions::default().require_index(require_index);
    let opened = match &spec.source {
        Source::Sqlite { file, table } => {
            SqliteCollection::open(file, table, sqlite.key(sqlite_key(&spec.key)))
                .map(shared)
                .map_err(sqlite_failure)
        }
        Source::Postgres { url, table } => open_postgres(url, table, &spec.key, require_index),
        Source::Json { file, pointer } => open_json(file, pointer, &spec.key),
        Source::Text { file } => TextFileCollection::open(file).map(shared).map_err(Failure::new),
        Source::Jsonl { file } => {
            let (data, options) = (config::data_directory()?, file_options(&spec.key, sqlite));
            let progress = Progress::new(&spec.name, output);
            JsonlCollection::open(file, data, options, &mut |done, all| progress.show(done, all))
                .map(shared)
                .map_err(Failure::new)
        }
        Source::Csv { file } => {
            let (data, options) = (config::data_directory()?, file_options(&spec.key, sqlite));
            let progress = Progress::new(&spec.name, output);
            CsvCollection::open(file, data, options, &mut |done, all| progress.show(done, all))
                .map(shared)
                .map_err(Failure::new)
        }
    };
    opened.map_err(|failure| failure.about(format!("cannot open collection '{}'", spec.name)))
}

fn file_options(key: &Key, sqlite: SqliteOptions) -> FileOptions {
    let options = FileOptions::default().reading(sqlite);
    match key {
        Key::Columns(columns) => match columns.first() {
            Some(column) => options.key(column),
            None => options,
        },
        Key::Declared | Key::Rowid => options,
    }
}

fn shared<C: Collection + 'static>(collection: C) -> Arc<dyn Collection> {
    Arc::new(collection)
}

fn sqlite_key(key: &Key) -> sqlite::Key {
    match key {
        Key::Declared => sqlite::Key::Declared,
        Key::Rowid => sqlite::Key::Rowid,
        Key::Columns(columns) => sqlite::Key::Columns(columns.clone()),
    }
}

fn sqlite_failure(error: sqlite::OpenError) -> Failure {
    let hint = error.hint();
    let failure = Failure::new(error);
    match hint {
        // It has names from the database.
        Some(hint) => failure.hint(super::visible(&hint)),
        None => failure,
    }
}

fn open_postgres(
    url: &str,
    table: &str,
    key: &Key,
    require_index: bool,
) -> Result<Arc<dyn Collection>, Failure> {
    let url = with_password(url);
    let source = PostgresSource::connect(&url, runtime()?.handle()).map_err(postgres_failure)?;
    let (schema, table) = table.split_once('.').unwrap_or(("public", table));
    let mut options = PostgresOptions::default().require_index(require_index);
    if let Key::Columns(columns) = key {
        options = options.key(columns.iter().cloned());
    }
    source.open(schema, table, options).map(shared).map_err(postgres_failure)
}

fn postgres_failure(error: PostgresError) -> Failure {
    let hint = match &error {
        PostgresError::NoKey { hint, .. } | PostgresError::BadKey { hint, .. } => {
            Some(hint.clone())
        }
        _ => None,
    };
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Where connections to databases live, until the process ends.
fn runtime() -> Result<&'static Runtime, Failure> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(format!("cannot start a thread for Postgres: {error}")))?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

fn open_json(
    file: &std::path::Path,
    pointer: &str,
    key: &Key,
) -> Result<Arc<dyn Collection>, Failure> {
    let pointer = pointer.parse().map_err(Failure::usage)?;
    let mut options = JsonFileOptions::new().with_pointer(pointer);
    if let Key::Columns(columns) = key
        && let [column] = columns.as_slice()
    {
        options = options.with_key(column);
    }
    JsonFileCollection::open(file, options).map(shared).map_err(Failure::new)
}

/// The URL with the password of `PGPASSWORD`, if it has none of its own.
fn with_password(url: &str) -> String {
    let Some(password) = config::variable("PGPASSWORD").and_then(|text| text.into_string().ok())
    else {
        return url.to_owned();
    };
    add_password(url, &password)
}

fn add_password(url: &str, password: &str) -> String {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    let has_password = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
        || url.split_once('?').is_some_and(|(_, query)| query.contains("password="));
    if has_password {
        return url.to_owned();
    }
    let encoded: String = password
        .bytes()
        .map(|byte| {
            let is_plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            if is_plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
        })
        .collect();
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}password={encoded}")
}

/// A bar while a file is indexed, for people.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(name: &str, output: Output) -> Self {
        let bar = if output.is_for_people() { ProgressBar::new(0) } else { ProgressBar::hidden() };
        let template = "indexing {prefix} {wide_bar} {bytes}/{total_bytes} {eta}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(name.to_owned());
        Self { bar }
    }

    fn show(&self, done: u64, total: u64) {
        self.bar.set_length(total);
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_added_only_where_there_is_none() {
        let add = |url: &str| add_password(url, "p@ss w/rd");
        assert_eq!(add("postgres://u@h/d"), "postgres://u@h/d?password=p%40ss%20w%2Frd");
        assert_eq!(add("postgres://u@h/d?a=b"), "postgres://u@h/d?a=b&password=p%40ss%20w%2Frd");
        assert_eq!(add("postgres://u:x@h/d"), "postgres://u:x@h/d");
        assert_eq!(add("postgres://u@h/d?password=x"), "postgres://u@h/d?password=x");
        assert_eq!(add("postgres://h:5432/d"), "postgres://h:5432/d?password=p%40ss%20w%2Frd");
    }
}
