//! The server in front of the upstream: what an agent talks to.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::client::Client;
use crate::data::DataSet;

/// What there is to talk to.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// This program.
    pub(crate) own: PathBuf,
    /// The gateway, if it takes part.
    pub(crate) handback: Option<PathBuf>,
}

impl Programs {
    /// The upstream alone.
    pub(crate) fn upstream(&self, record: &Path) -> Result<Client> {
        Client::start(Command::new(&self.own).args(["upstream", "--record"]).arg(record))
    }

    /// The upstream, with Handback in front.
    pub(crate) fn front(&self, record: &Path, folder: &Path) -> Result<Client> {
        let Some(handback) = &self.handback else {
            return Client::start(Command::new(&self.own).arg("held").arg(folder));
        };
        let mut wrap = Command::new(handback);
        wrap.env("HANDBACK_DATA", folder).args(["wrap", "--"]).arg(&self.own);
        Client::start(wrap.args(["upstream", "--record"]).arg(record))
    }

    /// Whether what stands in front is the gateway.
    pub(crate) const fn has_gateway(&self) -> bool {
        self.handback.is_some()
    }
}

/// Calls the tool that gives the data, through the server in front: a notice with a handle comes
/// back, and a first page. Gives the blocks, and the handle.
pub(crate) fn first_answer(
    agent: &mut Agent<'_>,
    data: DataSet,
    has_gateway: bool,
) -> Result<(Vec<String>, String)> {
    let answer = agent.send(data.tool(), &json!({}))?;
    let blocks = if has_gateway { answer } else { placeholder(data, &answer.join("")) };
    blocks.iter().for_each(|block| agent.take(block));
    let notice = blocks.first().map(String::as_str).unwrap_or_default();
    let handle = notice.split(|letter: char| !letter.is_ascii_alphanumeric()).find(is_handle);
    let handle = handle.context("a first answer without a handle")?.to_owned();
    Ok((blocks, handle))
}

fn is_handle(word: &&str) -> bool {
    word.len() == 30 && word.starts_with('h')
}

/// What a client may get in one answer: the gateway's default.
pub(crate) const BUDGET_BYTES: usize = 40 << 10;

/// PLACEHOLDER: what the gateway will say and show, while there is none.
fn placeholder(data: DataSet, handle: &str) -> Vec<String> {
    let whole = data.text();
    let mut end = BUDGET_BYTES - 1_000;
    while !whole.is_char_boundary(end) {
        end -= 1;
    }
    let (shown, bytes) = (whole.get(..end).unwrap_or_default(), whole.len());
    let ask = json!({
        "operation": "search_elements",
        "element_type": handle,
        "params": {"query": "WORDS"},
    });
    let notice = format!(
        "CUT to fit: the whole result has {bytes} bytes. Nothing is lost; it is held for you until \
         2026-01-01T00:00:00Z (longer while you read it):\n\
         - {handle}: text, 20 of 1000 items shown, {bytes} bytes\n\
         Ask it with tool mcp_aql_read: {ask}. Also query_elements (filter, sort, fields), \
         count_elements (filter), get_element (id: item number from 0), list_elements (offset, \
         limit)."
    );
    vec![notice, shown.to_owned()]
}

/// The tools that Handback adds to those of the upstream.
pub(crate) fn added_tools(tools: &[Value]) -> impl Iterator<Item = &Value> {
    tools.iter().filter(|tool| {
        tool.get("name").and_then(Value::as_str).is_some_and(|name| name.starts_with("mcp_aql"))
    })
}
