//! Someone who calls tools: a connection that stays open, the handshake of an era, and calls whose
//! answers are checked.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use bench_kit::http::{Connection, Head};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// A revision of the protocol with the handshake that it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Era {
    /// 2025-11-25: `initialize`, then a session.
    Legacy,
    /// 2026-07-28: every request says all that is to be known.
    Modern,
}

impl Era {
    /// The revision.
    pub(crate) fn version(self) -> &'static str {
        match self {
            Self::Legacy => "2025-11-25",
            Self::Modern => "2026-07-28",
        }
    }
}

/// Where tools are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) path: &'static str,
    /// What is in front of the names of the upstream's tools.
    pub(crate) prefix: &'static str,
}

/// The `_meta` of a modern request, without its braces.
const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}"#;

/// Someone who calls.
#[derive(Debug)]
pub(crate) struct Caller {
    connection: Connection,
    endpoint: Endpoint,
    era: Era,
    /// Headers of every request.
    fixed: String,
    /// Of this one.
    headers: String,
    body: String,
    /// The last answer.
    answer: Vec<u8>,
    /// The id of the next request, and what is echoed: nobody else has it.
    next: u64,
}

/// The outcome of a call.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Outcome<'a> {
    #[serde(borrow, default)]
    pub(crate) content: Vec<Block<'a>>,
    #[serde(default)]
    pub(crate) is_error: bool,
    #[serde(borrow, default)]
    pub(crate) request_state: Option<Cow<'a, str>>,
    #[serde(default, rename = "_meta")]
    pub(crate) meta: Option<Value>,
}

/// A piece of content.
#[derive(Debug, Deserialize)]
pub(crate) struct Block<'a> {
    #[serde(borrow, default)]
    pub(crate) text: Cow<'a, str>,
}

impl Outcome<'_> {
    /// Whether it is one text, and this one.
    fn is_text(&self, text: &str) -> bool {
        !self.is_error && matches!(self.content.as_slice(), [block] if block.text == text)
    }
}

#[derive(Debug, Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    id: Option<u64>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl Caller {
    /// Connects and shakes hands. `number` is one that no other caller of the endpoint has.
    pub(crate) async fn open(endpoint: Endpoint, era: Era, number: u64) -> Result<Self> {
        Self::open_as(endpoint, era, number, "").await
    }

    /// The same with a header that says who calls: a whole line, or nothing.
    pub(crate) async fn open_as(
        endpoint: Endpoint,
        era: Era,
        number: u64,
        authorization: &str,
    ) -> Result<Self> {
        let connection = Connection::open(endpoint.address).await?;
        let fixed = format!(
            "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             MCP-Protocol-Version: {}\r\n{authorization}",
            era.version()
        );
        let (headers, body, answer) = (String::new(), String::new(), Vec::new());
        // Room for all the calls of a caller.
        let next = number * 1_000_000_000 + 1;
        let mut caller = Self { connection, endpoint, era, fixed, headers, body, answer, next };
        caller.shake().await.context("the handshake failed")?;
        Ok(caller)
    }

    /// Has a number said again, and says how long that took.
    pub(crate) async fn echo(&mut self) -> Result<Duration> {
        self.echo_as("").await
    }

    /// The same with something more in `_meta`.
    pub(crate) async fn echo_as(&mut self, meta: &str) -> Result<Duration> {
        let number = self.next;
        self.say_echo(number, meta).await
    }

    /// Has this number said again.
    pub(crate) async fn say_echo(&mut self, number: u64, meta: &str) -> Result<Duration> {
        self.begin("echo", true);
        let _ = write!(self.body, r#""v":{number}"#);
        let took = self.end("", meta).await?;
        let (outcome, number) = (self.outcome()?, number.to_string());
        ensure!(outcome.is_text(&number), "{number} was answered with {outcome:?}");
        Ok(took)
    }

    /// Calls a tool; `arguments` are members of an object, and `rest` members of the parameters, each
    /// with a comma in front.
    pub(crate) async fn call(
        &mut self,
        tool: &str,
        is_upstream: bool,
        arguments: &str,
        rest: &str,
    ) -> Result<Duration> {
        self.begin(tool, is_upstream);
        self.body.push_str(arguments);
        self.end(rest, "").await
    }

    /// What the last call gave.
    pub(crate) fn outcome(&self) -> Result<Outcome<'_>> {
        Ok(serde_json::from_str(self.result()?.get())?)
    }

    /// A number that was never used.
    pub(crate) fn fresh(&self) -> u64 {
        self.next
    }

    async fn shake(&mut self) -> Result<()> {
        if self.era == Era::Legacy {
            let version = self.era.version();
            let hello = format!(
                r#""protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1"}}"#
            );
            let head = self.ask("initialize", &hello).await?;
            if let Some(session) = head.header("mcp-session-id") {
                let _ = write!(self.fixed, "Mcp-Session-Id: {session}\r\n");
            }
            self.result().context("to `initialize`")?;
            self.notify("notifications/initialized").await?;
        } else {
            self.ask("server/discover", "").await?;
            self.result().context("to `server/discover`")?;
        }
        self.ask("tools/list", "").await?;
        let wanted = format!(r#""{}echo""#, self.endpoint.prefix);
        let list = self.result().context("to `tools/list`")?.get();
        ensure!(list.contains(&wanted), "there is no tool {wanted} in {list}");
        Ok(())
    }

    /// The method and the parameters of a call up to the first argument.
    fn begin(&mut self, tool: &str, is_upstream: bool) {
        let prefix = if is_upstream { self.endpoint.prefix } else { "" };
        self.headers.clear();
        self.headers.push_str(&self.fixed);
        if self.era == Era::Modern {
            // Written into memory, which does not fail; below as well.
            let _ = write!(self.headers, "Mcp-Method: tools/call\r\nMcp-Name: {prefix}{tool}\r\n");
        }
        self.body.clear();
        let _ = write!(
            self.body,
            r#"{{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{{"name":"{prefix}{tool}","arguments":{{"#,
            self.next
        );
    }

    /// What follows the arguments; sends it and reads the answer.
    async fn end(&mut self, rest: &str, meta: &str) -> Result<Duration> {
        self.body.push('}');
        self.body.push_str(rest);
        match (self.era, meta) {
            (Era::Legacy, "") => {}
            (Era::Legacy, meta) => {
                let _ = write!(self.body, r#","_meta":{{{meta}}}"#);
            }
            (Era::Modern, "") => {
                let _ = write!(self.body, r#","_meta":{{{META}}}"#);
            }
            (Era::Modern, meta) => {
                let _ = write!(self.body, r#","_meta":{{{META},{meta}}}"#);
            }
        }
        self.body.push_str("}}");
        let start = Instant::now();
        self.exchange().await?;
        Ok(start.elapsed())
    }

    /// A request that is no call.
    async fn ask(&mut self, method: &str, params: &str) -> Result<Head> {
        self.headers.clear();
        self.headers.push_str(&self.fixed);
        self.body.clear();
        let id = self.next;
        if self.era == Era::Modern {
            let _ = write!(self.headers, "Mcp-Method: {method}\r\n");
            let _ = write!(
                self.body,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{{META}}}}}}}"#
            );
        } else {
            let _ = write!(
                self.body,
                r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}}}}}"#
            );
        }
        self.exchange().await
    }

    async fn notify(&mut self, method: &str) -> Result<()> {
        let message = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        let connection = &mut self.connection;
        let head = connection
            .exchange("POST", self.endpoint.path, &self.fixed, message.as_bytes())
            .await?;
        ensure!((200..300).contains(&head.status), "`{method}` was answered with {}", head.status);
        Ok(())
    }

    async fn exchange(&mut self) -> Result<Head> {
        self.next += 1;
        let Self { connection, endpoint, headers, body, answer, .. } = self;
        connection.send("POST", endpoint.path, headers, body.as_bytes()).await?;
        let mut head = connection.head().await?;
        answer.clear();
        connection.body(&mut head, |piece| answer.extend_from_slice(piece)).await?;
        if head.status != 200 {
            bail!("{} with {}", head.status, String::from_utf8_lossy(answer));
        }
        Ok(head)
    }

    /// The result of the last request, which must have one.
    fn result(&self) -> Result<&RawValue> {
        let id = self.next - 1;
        let answer = messages(&self.answer)
            .filter_map(|message| serde_json::from_slice::<Answer<'_>>(message).ok())
            .find(|answer| answer.id == Some(id));
        let answer = answer.with_context(|| {
            let text = self.answer.get(..self.answer.len().min(500)).unwrap_or_default();
            format!("no answer to {id} in {}", String::from_utf8_lossy(text))
        })?;
        match (answer.result, answer.error) {
            (Some(result), None) => Ok(result),
            (_, error) => bail!("an error: {}", error.map(RawValue::get).unwrap_or_default()),
        }
    }
}

/// The messages of a body: the whole, or the data of its events.
fn messages(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    let is_whole = body.trim_ascii_start().first() == Some(&b'{');
    let whole = is_whole.then_some(body).into_iter();
    let lines = (!is_whole).then(|| body.split(|&byte| byte == b'\n')).into_iter().flatten();
    whole.chain(lines.filter_map(|line| line.strip_prefix(b"data:")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: &[&str]) {
        let found: Vec<&str> = messages(body.as_bytes())
            .map(|message| std::str::from_utf8(message).unwrap().trim())
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn finds_messages_in_either_form() {
        check("{\"id\":1}", &["{\"id\":1}"]);
        check("id: 0\ndata:\n\nevent: message\r\ndata: {\"id\":1}\r\n\r\n", &["", "{\"id\":1}"]);
        check("", &[]);
    }

    #[test]
    fn an_error_is_not_the_text_that_was_asked_for() {
        let read = |text: &str| -> bool {
            serde_json::from_str::<Outcome<'_>>(text).unwrap().is_text("7")
        };
        assert!(read(r#"{"content":[{"type":"text","text":"7"}]}"#));
        assert!(!read(r#"{"content":[{"type":"text","text":"7"}],"isError":true}"#));
        assert!(!read(r#"{"content":[{"type":"text","text":"7"},{"type":"text","text":"8"}]}"#));
        assert!(!read(r#"{"content":[]}"#));
    }
}
