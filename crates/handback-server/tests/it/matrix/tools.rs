//! The tools and collections that hand the continuations out.

use std::path::Path;
use std::sync::Arc;

use handback_collections::sqlite::{SqliteCollection, SqliteOptions};
use handback_page::aql::Catalog;
use handback_tool::{
    CallContext, Definition, Inputs, Outcome, Position, Registry, Round, Tool, ToolClass, ToolError,
};
use rusqlite::Connection;
use serde_json::{Value, json};

/// Two of each, as a continuation of one is no good for the other; and more than fit a page of a
/// list.
pub(crate) fn registry() -> Registry {
    let mut registry = Registry::new();
    for name in ["numbers", "others"] {
        registry.add(Numbers(name)).unwrap();
    }
    for name in ["pay", "pay_too"] {
        registry.add(Pay(name)).unwrap();
    }
    registry.add(Work).unwrap();
    registry.add(Keep).unwrap();
    for number in 0..120 {
        registry.add(Filler(number)).unwrap();
    }
    registry
}

/// `things` and `others`, the same rows under two names.
pub(crate) fn catalog(folder: &Path) -> Catalog {
    let file = folder.join("things.db");
    if !file.exists() {
        let mut db = Connection::open(&file).unwrap();
        let table = "CREATE TABLE things (id INTEGER PRIMARY KEY, even INTEGER)";
        db.execute_batch(table).unwrap();
        let all = db.transaction().unwrap();
        for id in 0..20 {
            all.execute("INSERT INTO things VALUES (?1, ?2)", (id, id % 2 == 0)).unwrap();
        }
        all.commit().unwrap();
    }
    let mut catalog = Catalog::new();
    for name in ["things", "others"] {
        let things = SqliteCollection::open(&file, "things", SqliteOptions::default()).unwrap();
        catalog.add(name, "", Arc::new(things)).unwrap();
    }
    catalog
}

struct Numbers(&'static str);

impl Tool for Numbers {
    type Args = Value;

    fn definition(&self) -> Definition {
        let schema = json!({"type": "object", "properties": {"below": {"type": "integer"}}});
        Definition::tool(self.0, "Numbers.")
            .input_schema(schema)
            .class(ToolClass::ReadOnly)
            .paginated()
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        self.call_paginated(args, ctx, None).await
    }

    async fn call_paginated(
        &self,
        args: Value,
        _ctx: &CallContext,
        position: Option<Position>,
    ) -> Result<Outcome, ToolError> {
        let start: u64 = position.map(|position| position.read()).transpose()?.unwrap_or(0);
        let below = args["below"].as_u64().unwrap_or(12);
        let end = below.min(start + 4);
        let next = (end < below).then(|| Position::of(&end)).transpose()?;
        Outcome::page(start..end, next)
    }
}

struct Pay(&'static str);

impl Tool for Pay {
    type Args = Value;

    fn definition(&self) -> Definition {
        let schema = json!({"type": "object", "properties": {"amount": {"type": "integer"}}});
        Definition::tool(self.0, "Pays, after asking.")
            .input_schema(schema)
            .class(ToolClass::TakesKey)
            .single_use()
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        if ctx.request_state::<Value>()? == Round::First {
            return ctx.needs_input(Inputs::new().confirm("sure", "Pay?"), &json!({}));
        }
        let paid = ctx.answers().is_confirmed("sure").then_some(&args["amount"]);
        Outcome::json(json!({"paid": paid}))
    }
}

struct Work;

impl Tool for Work {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("work", "Works.").class(ToolClass::ReadOnly).long()
    }

    async fn call(&self, _args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        Outcome::json(json!({"worked": true}))
    }
}

struct Keep;

impl Tool for Keep {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("keep", "Keeps some rows.")
    }

    async fn call(&self, _args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let rows: Value = (0..5).map(|id| json!({"id": id})).collect();
        ctx.hold("application/json", rows.to_string()).await
    }
}

struct Filler(u32);

impl Tool for Filler {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool(format!("z_filler_{:03}", self.0), "Is there.")
    }

    async fn call(&self, _args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        Ok(Outcome::text("here"))
    }
}
