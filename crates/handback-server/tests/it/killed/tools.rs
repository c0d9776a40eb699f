//! Tools of every class, and the book of what they did.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handback_tool::{
    CallContext, Definition, Inputs, Outcome, Position, Registry, Round, TaskMode, Tool, ToolClass,
    ToolError,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::process;
use crate::misbehaved;

pub(crate) const CLASSES: [(ToolClass, &str); 4] = [
    (ToolClass::Transactional, "transactional"),
    (ToolClass::TakesKey, "takes_key"),
    (ToolClass::ReadOnly, "read_only"),
    (ToolClass::Unknown, "unknown"),
];

/// Pages of a walk.
pub(crate) const PAGES: u64 = 3;

/// What was done, whatever became of those who did it.
pub(crate) struct Book(Mutex<Connection>);

impl Book {
    pub(crate) fn open(folder: &Path) -> Self {
        let connection = Connection::open(folder.join("book.db")).unwrap();
        connection.busy_timeout(Duration::from_secs(10)).unwrap();
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = FULL;
                 CREATE TABLE IF NOT EXISTS starts (tag TEXT NOT NULL, key TEXT);
                 CREATE TABLE IF NOT EXISTS effects (
                   number INTEGER PRIMARY KEY AUTOINCREMENT, tag TEXT NOT NULL, key TEXT UNIQUE);",
            )
            .unwrap();
        Self(Mutex::new(connection))
    }

    fn start(&self, tag: &str, key: Option<&str>) {
        let connection = self.0.lock().unwrap();
        connection.execute("INSERT INTO starts VALUES (?1, ?2)", params![tag, key]).unwrap();
    }

    /// An effect, and its number. The same key has one.
    fn act(&self, tag: &str, key: Option<&str>) -> i64 {
        let mut connection = self.0.lock().unwrap();
        let transaction = connection.transaction().unwrap();
        let made = "SELECT number FROM effects WHERE key = ?1";
        let made = transaction.query_row(made, [key], |row| row.get(0)).optional().unwrap();
        let number = made.unwrap_or_else(|| {
            let insert = "INSERT INTO effects (tag, key) VALUES (?1, ?2)";
            transaction.execute(insert, params![tag, key]).unwrap();
            transaction.last_insert_rowid()
        });
        transaction.commit().unwrap();
        number
    }

    /// The numbers of the effects with a tag.
    pub(crate) fn effects(&self, tag: &str) -> Vec<i64> {
        let connection = self.0.lock().unwrap();
        let select = "SELECT number FROM effects WHERE tag = ?1";
        let mut statement = connection.prepare(select).unwrap();
        statement.query_map([tag], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// The keys of the calls with a tag that came to their tool.
    pub(crate) fn starts(&self, tag: &str) -> Vec<String> {
        let connection = self.0.lock().unwrap();
        let mut statement = connection.prepare("SELECT key FROM starts WHERE tag = ?1").unwrap();
        let rows = statement.query_map([tag], |row| row.get::<_, Option<String>>(0)).unwrap();
        rows.map(|key| key.unwrap().unwrap_or_default()).collect()
    }
}

/// Where a tool waits to be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Entered,
    Acted,
}

impl Stop {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Entered => "entered",
            Self::Acted => "acted",
        }
    }
}

/// The file that names where tools stop.
pub(crate) const STOP: &str = "stop";

/// All tools: `act_CLASS`, `long_CLASS`, `ask_CLASS`, `walk_CLASS`, and those that are no good.
pub(crate) fn registry(folder: &Path) -> Registry {
    let mut registry = Registry::new();
    let book = Arc::new(Book::open(folder));
    for (class, name) in CLASSES {
        for kind in [Kind::Act, Kind::Long, Kind::Ask, Kind::Walk] {
            let tool =
                Acts { kind, class, name, book: Arc::clone(&book), folder: folder.to_owned() };
            registry.add(tool).unwrap();
        }
    }
    misbehaved::tools::register(&mut registry);
    registry
}

#[derive(Clone, Copy)]
enum Kind {
    Act,
    Long,
    Ask,
    Walk,
}

struct Acts {
    kind: Kind,
    class: ToolClass,
    name: &'static str,
    book: Arc<Book>,
    folder: PathBuf,
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    tag: String,
    /// Bytes that the result has besides.
    #[serde(default)]
    fill: usize,
}

impl Tool for Acts {
    type Args = Args;

    fn definition(&self) -> Definition {
        let name = self.name;
        let definition = match self.kind {
            Kind::Act => Definition::tool(format!("act_{name}"), "Acts.").tasks(TaskMode::Never),
            Kind::Long => Definition::tool(format!("long_{name}"), "Acts, as a task.").long(),
            Kind::Ask => Definition::tool(format!("ask_{name}"), "Acts if told so.").single_use(),
            Kind::Walk => Definition::tool(format!("walk_{name}"), "Acts per page.").paginated(),
        };
        definition.class(self.class)
    }

    async fn call(&self, args: Args, ctx: &CallContext) -> Result<Outcome, ToolError> {
        if matches!(self.kind, Kind::Ask) && ctx.request_state::<String>()? == Round::First {
            let question = Inputs::new().confirm("sure", "Act?");
            return ctx.needs_input(question, &args.tag);
        }
        Outcome::json(self.act(&args.tag, args.fill, ctx).await)
    }

    async fn call_paginated(
        &self,
        args: Args,
        ctx: &CallContext,
        position: Option<Position>,
    ) -> Result<Outcome, ToolError> {
        let page: u64 = position.map_or(Ok(0), |position| position.read())?;
        let item = self.act(&format!("{}/{page}", args.tag), args.fill, ctx).await;
        let next = page + 1;
        let next = (next < PAGES).then(|| Position::of(&next)).transpose()?;
        Outcome::page([item], next)
    }
}

impl Acts {
    async fn act(&self, tag: &str, fill: usize, ctx: &CallContext) -> Value {
        let key = ctx.effect_key();
        self.book.start(tag, key);
        self.stop(Stop::Entered).await;
        let number = match self.class {
            ToolClass::ReadOnly => 0,
            // It does not know what it did.
            ToolClass::Unknown => self.book.act(tag, None),
            _ => self.book.act(tag, key),
        };
        self.stop(Stop::Acted).await;
        json!({"tag": tag, "number": number, "fill": "x".repeat(fill)})
    }

    /// Waits to be killed, if this is where.
    async fn stop(&self, here: Stop) {
        let there = std::fs::read_to_string(self.folder.join(STOP));
        if there.is_ok_and(|there| there == here.as_str()) {
            process::say(here.as_str());
            std::future::pending::<()>().await;
        }
    }
}
