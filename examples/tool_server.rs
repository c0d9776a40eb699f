//! Two tools over MCP and HTTP. The first one pages; the second one asks back, and streams.
#![expect(clippy::print_stdout, reason = "it tells where it listens")]

use handback_server::prelude::*;
use schemars::JsonSchema;
use serde::Deserialize;

struct Squares;
struct Print;

impl Tool for Squares {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("squares", "Square numbers, ten a page.").paginated()
    }

    async fn call_paginated(&self, _: Value, _: &CallContext, at: Option<Position>) -> ToolResult {
        let start: u64 = at.map_or(Ok(1), |at| at.read())?;
        Outcome::page_then((start..start + 10).map(|n| n * n), (start < 91).then_some(start + 10))
    }
}

#[derive(Deserialize, JsonSchema)]
struct Job {
    copies: u32,
}

impl Tool for Print {
    type Args = Job;

    fn definition(&self) -> Definition {
        Definition::tool("print", "Prints copies, if the price is fine.").single_use()
    }

    async fn call(&self, Job { copies }: Job, ctx: &CallContext) -> ToolResult {
        let Round::Opened(cents) = ctx.request_state::<u32>()? else {
            let cents = copies.saturating_mul(5);
            let question = format!("{copies} copies for {cents} cents?");
            return ctx.needs_input(Inputs::new().confirm("pay", question), &cents);
        };
        let copies = if ctx.answers().is_confirmed("pay") { copies } else { 0 };
        for copy in 1..=copies {
            ctx.progress(copy.into(), Some(copies.into())).await;
            ctx.emit(Event::Part(json!({"copy": copy}))).await;
        }
        Outcome::json(json!({"printed": copies, "cents": cents}))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen = std::env::args().nth(1).map_or(Ok(DEFAULT_LISTEN), |word| word.parse())?;
    let config = ServerConfig::open("data")?.listen(listen).tool(Squares)?.tool(Print)?;
    let server = Server::start(config).await?;
    println!("http://{}/mcp", server.address());
    server.run_until(tokio::signal::ctrl_c()).await;
    Ok(())
}
