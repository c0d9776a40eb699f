//! Which tools there are.

use std::fmt;

use handback_client::tools::{ToolInfo, Tools, ToolsError};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::failure::failure;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

#[derive(Serialize)]
struct Listed<'a> {
    tools: Vec<&'a RawValue>,
    /// Sentences about upstreams that are not there.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unavailable: &'a [String],
    #[serde(skip)]
    infos: &'a [ToolInfo],
}

pub(super) async fn list(tools: &Tools, output: Output) -> Result<Exit, Failure> {
    let listed = tools.list_all().await.map_err(unlisted)?;
    for sentence in &listed.unavailable {
        output.note("warning", &text::one_line(sentence));
    }
    let infos = listed.tools;
    let tools = infos.iter().map(|info| &*info.text).collect();
    output.answer(&Listed { tools, unavailable: &listed.unavailable, infos: &infos })?;
    Ok(Exit::OK)
}

pub(super) async fn describe(tools: &Tools, tool: &str, output: Output) -> Result<Exit, Failure> {
    let info = tools.describe(tool).await.map_err(unlisted)?;
    if !output.is_for_people() {
        output.text(&text::plain_json(info.text.get()))?;
        return Ok(Exit::OK);
    }
    let all: Value = serde_json::from_str(info.text.get()).map_err(Failure::new)?;
    let pretty = serde_json::to_string_pretty(&all).map_err(Failure::new)?;
    output.text(&text::plain_json(&pretty))?;
    Ok(Exit::OK)
}

/// Nothing was called.
fn unlisted(error: ToolsError) -> Failure {
    match error {
        ToolsError::Lost(why) => Failure::new(format!("the server did not answer: {why}")),
        error => failure(error, false),
    }
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = text::one_line;
        let pairs: Vec<_> = self
            .infos
            .iter()
            .map(|info| (plain(&info.name), plain(info.description.lines().next().unwrap_or(""))))
            .collect();
        let pairs: Vec<_> =
            pairs.iter().map(|(name, what)| (name.as_str(), what.as_str())).collect();
        text::write_pairs(f, &pairs)
    }
}
