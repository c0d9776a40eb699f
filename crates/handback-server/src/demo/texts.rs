//! A prompt and a resource.

use std::sync::Arc;

use handback_tool::{CallContext, Content, Definition, Outcome, Tool, ToolError};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::generate::SCHEMA;
use super::shop::{Shop, customer_name};

/// The prompt `shop_letter`.
pub(super) struct Letter {
    pub(super) shop: Arc<Shop>,
}

/// Arguments of prompts are texts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LetterArgs {
    /// The id of a customer.
    customer: String,
}

impl Tool for Letter {
    type Args = LetterArgs;

    fn definition(&self) -> Definition {
        Definition::prompt("shop_letter", "Writes to a customer of the demo shop.")
            .title("Letter to a customer")
    }

    async fn call(&self, args: LetterArgs, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        let unknown = || ToolError::new("there is no such customer").nothing_happened();
        let id: i64 = args.customer.parse().map_err(|_| unknown())?;
        let name = self.shop.read(move |shop| customer_name(shop, id)).await?;
        let name = name.ok_or_else(unknown)?;
        let text = format!(
            "Look at the last orders of customer {id}, {name}, with the tool shop_orders. Then write \
             a short letter that thanks for them and names what was bought most often."
        );
        Ok(Outcome::Done(Content::Result(json!({
            "description": "A letter to a customer",
            "messages": [{"role": "user", "content": {"type": "text", "text": text}}],
        }))))
    }
}

/// The resource `shop://schema`.
pub(super) struct SchemaText;

const SCHEMA_URI: &str = "shop://schema";
const SCHEMA_MIME: &str = "application/sql";

/// A resource takes nothing.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Nothing {}

impl Tool for SchemaText {
    type Args = Nothing;

    fn definition(&self) -> Definition {
        Definition::resource(SCHEMA_URI, "The tables of the demo shop.")
            .title("Tables")
            .mime_type(SCHEMA_MIME)
    }

    async fn call(&self, _args: Nothing, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        let contents = json!([{"uri": SCHEMA_URI, "mimeType": SCHEMA_MIME, "text": SCHEMA}]);
        Ok(Outcome::Done(Content::Result(json!({"contents": contents}))))
    }
}
