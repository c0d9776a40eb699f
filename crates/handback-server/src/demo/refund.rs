//! `shop_refund`: asks back, and acts once.

use std::sync::Arc;

use handback_tool::{CallContext, Definition, Inputs, Outcome, Round, Tool, ToolClass, ToolError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::refunds::{NewRefund, RefundError, Refunds};
use super::shop::{Order, Shop, find_order, money};
use crate::blocking::Room;

/// Characters of a reason at most.
pub const MAX_REASON_CHARS: usize = 200;

pub(super) struct Refund {
    pub(super) shop: Arc<Shop>,
    pub(super) refunds: Arc<Refunds>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    /// The id of the order.
    order: i64,
}

/// What is remembered between the question and the answer.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    total_cents: i64,
}

/// What the form asks.
#[derive(Debug, Deserialize, JsonSchema)]
struct Consent {
    /// Whether to refund the order.
    confirm: bool,
    /// Why it is refunded.
    #[schemars(length(max = MAX_REASON_CHARS))]
    reason: String,
}

const QUESTION: &str = "refund";

impl Tool for Refund {
    type Args = Args;

    fn definition(&self) -> Definition {
        Definition::tool(
            "shop_refund",
            "Refunds an order of the demo shop, after asking for confirmation and a reason.",
        )
        .title("Refund")
        .class(ToolClass::Transactional)
        .single_use()
    }

    async fn call(&self, args: Args, ctx: &CallContext) -> Result<Outcome, ToolError> {
        match ctx.request_state::<Asked>()? {
            Round::Opened(asked) => self.answered(args.order, asked, ctx).await,
            Round::First | Round::Expired => self.ask(args.order, ctx).await,
        }
    }
}

impl Refund {
    async fn ask(&self, id: i64, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let refused = |why: &str| Err(ToolError::new(why).nothing_happened());
        let order = match self.shop.read(move |shop| find_order(shop, id)).await? {
            None => return refused("there is no such order"),
            Some(order) if order.status == "cancelled" => {
                return refused("the order was cancelled: there is nothing to refund");
            }
            Some(order) => order,
        };
        let is_refunded = self.book(move |refunds| refunds.is_refunded(id)).await?;
        if is_refunded.map_err(failed)? {
            return refused("the order was refunded already");
        }
        let Order { quantity, product, total_cents, .. } = order;
        let message = format!("Refund order {id}: {quantity} × {product}, {}?", money(total_cents));
        let inputs = Inputs::new().form::<Consent>(QUESTION, message);
        ctx.needs_input(inputs, &Asked { total_cents })
    }

    async fn answered(
        &self,
        order: i64,
        asked: Asked,
        ctx: &CallContext,
    ) -> Result<Outcome, ToolError> {
        let consent = ctx.answers().accepted::<Consent>(QUESTION)?;
        let Some(Consent { reason, .. }) = consent.filter(|consent| consent.confirm) else {
            return Outcome::json(json!({"refunded": false, "order": order}));
        };
        let Some(key) = ctx.effect_key() else {
            return Err(ToolError::new("a refund needs a key").nothing_happened());
        };
        let new = NewRefund {
            effect_key: key.to_owned(),
            order,
            total_cents: asked.total_cents,
            reason: reason.chars().take(MAX_REASON_CHARS).collect(),
            made_at: ctx.now().as_secs(),
        };
        match self.book(move |refunds| refunds.refund(&new)).await? {
            Ok(made) => Outcome::json(made),
            Err(error) => Err(failed(error)),
        }
    }

    async fn book<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Refunds) -> T + Send + 'static,
    ) -> Result<T, ToolError> {
        let refunds = Arc::clone(&self.refunds);
        let room: &Room = self.refunds.room();
        room.run(move || work(&refunds)).await
    }
}

fn failed(error: RefundError) -> ToolError {
    match error {
        // The outcome of this call, and of every try of it.
        RefundError::AlreadyRefunded => ToolError::new("the order was refunded already"),
        RefundError::Database(error) => {
            tracing::error!(%error, "the refunds of the demo shop cannot be written");
            ToolError::new("the refund cannot be written now").nothing_happened()
        }
    }
}
