//! `shop_report`: takes its time, and tells how far it is.

use std::sync::Arc;
use std::time::Duration;

use handback_tool::{CallContext, Definition, Event, Outcome, Tool, ToolClass, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::generate::categories;
use super::shop::{Shop, money, sales_of};

/// Milliseconds before each part of the report unless told: ten seconds in all.
pub const DEFAULT_PAUSE_MS: u32 = 1_000;

/// Milliseconds before each part at most: a minute in all.
pub const MAX_PAUSE_MS: u32 = 6_000;

pub(super) struct Report {
    pub(super) shop: Arc<Shop>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// Milliseconds before each of the ten parts, 1,000 unless told.
    #[serde(default)]
    #[schemars(range(max = MAX_PAUSE_MS))]
    pause_ms: Option<u32>,
}

impl Tool for Report {
    type Args = Args;

    fn definition(&self) -> Definition {
        Definition::tool(
            "shop_report",
            "Adds up the sales of the demo shop by category. It takes about ten seconds, tells how \
             far it is, and can be cancelled.",
        )
        .title("Sales report")
        .class(ToolClass::ReadOnly)
        .long()
    }

    async fn call(&self, args: Args, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let pause = args.pause_ms.unwrap_or(DEFAULT_PAUSE_MS).min(MAX_PAUSE_MS);
        let pause = Duration::from_millis(pause.into());
        let count = f64::from(u32::try_from(categories().len()).unwrap_or(u32::MAX));
        let (mut parts, mut total_cents, mut done) = (Vec::new(), 0, 0.0);
        for category in categories() {
            // Who does not want it any more drops it here.
            tokio::time::sleep(pause).await;
            let (orders, cents) = self.shop.read(move |shop| sales_of(shop, category)).await?;
            let part = json!({"category": category, "orders": orders, "total_cents": cents});
            total_cents += cents;
            done += 1.0;
            ctx.emit(Event::Part(part.clone())).await;
            let message = Some(format!("{category}: {orders} orders, {}", money(cents)));
            ctx.emit(Event::Progress { done, total: Some(count), message }).await;
            parts.push(part);
        }
        Outcome::json(json!({"total_cents": total_cents, "categories": parts}))
    }
}
