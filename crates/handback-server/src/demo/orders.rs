//! `shop_orders`: pages.

use std::sync::Arc;

use handback_tool::{CallContext, Definition, Outcome, Position, Tool, ToolClass, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::shop::{Shop, customer_name, orders_before};

/// Orders of a page unless told.
pub const DEFAULT_PAGE_SIZE: u32 = 20;

/// Orders of a page at most.
pub const MAX_PAGE_SIZE: u32 = 100;

pub(super) struct Orders {
    pub(super) shop: Arc<Shop>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The id of a customer; without it, the orders of all.
    #[serde(default)]
    customer: Option<i64>,
    /// Orders of a page, 20 unless told. It may differ from page to page.
    #[serde(default)]
    #[schemars(range(min = 1, max = MAX_PAGE_SIZE))]
    page_size: Option<u32>,
}

impl Tool for Orders {
    type Args = Args;

    fn definition(&self) -> Definition {
        Definition::tool(
            "shop_orders",
            "Lists the orders of the demo shop, the newest first: of one customer, or all.",
        )
        .title("Orders")
        .class(ToolClass::ReadOnly)
        .paginated()
        .page_argument("page_size")
    }

    async fn call(&self, args: Args, ctx: &CallContext) -> Result<Outcome, ToolError> {
        self.call_paginated(args, ctx, None).await
    }

    async fn call_paginated(
        &self,
        args: Args,
        _ctx: &CallContext,
        position: Option<Position>,
    ) -> Result<Outcome, ToolError> {
        let size = args.page_size.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE);
        // An order that is deleted or added under a walk shifts no page.
        let before = position.as_ref().map_or(Ok(i64::MAX), Position::read::<i64>)?;
        let Args { customer, .. } = args;
        let found = self.shop.read(move |shop| {
            let is_known = match customer {
                Some(id) => customer_name(shop, id)?.is_some(),
                None => true,
            };
            // One more than the page has tells whether there is another.
            is_known.then(|| orders_before(shop, customer, before, size + 1)).transpose()
        });
        let Some(mut orders) = found.await? else {
            return Err(ToolError::new("there is no such customer").nothing_happened());
        };
        let size = size as usize;
        let has_more = orders.len() > size;
        orders.truncate(size);
        let last = orders.last().filter(|_| has_more);
        let next = last.map(|order| Position::of(&order.id)).transpose()?;
        Outcome::page(orders, next)
    }
}
