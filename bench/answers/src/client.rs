//! A client of the Model Context Protocol, revision 2025-11-25, on the standard streams of a program.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

/// The revision that is spoken.
pub(crate) const REVISION: &str = "2025-11-25";

/// A server that runs, and is ended with this.
#[derive(Debug)]
pub(crate) struct Client {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    requests: u64,
    /// What the server says of how to use it.
    instructions: String,
    /// Bytes that went over the streams, in both directions.
    wire: usize,
}

impl Client {
    /// Starts a server and introduces itself.
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {name}"))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut client = Self {
            child,
            input: input.context("no standard input")?,
            output: BufReader::new(output.context("no standard output")?),
            requests: 0,
            instructions: String::new(),
            wire: 0,
        };
        let about = json!({"name": "bench-answers", "version": "1"});
        let hello = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": about});
        let told = client.request("initialize", &hello);
        let told = told.with_context(|| format!("{name} does not answer"))?;
        let instructions = told.get("instructions").and_then(Value::as_str);
        client.instructions = instructions.unwrap_or_default().to_owned();
        client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        Ok(client)
    }

    /// What it says of how to use it: clients put that before the model.
    pub(crate) fn instructions(&self) -> &str {
        &self.instructions
    }

    /// Bytes that went over the streams so far, in both directions: all of every message.
    pub(crate) const fn wire(&self) -> usize {
        self.wire
    }

    /// Its tools, as they are listed.
    pub(crate) fn tools(&mut self) -> Result<Vec<Value>> {
        let mut tools = Vec::new();
        let mut params = json!({});
        loop {
            let page = self.request("tools/list", &params)?;
            let listed = page.get("tools").and_then(Value::as_array);
            tools.extend(listed.context("a list without tools")?.iter().cloned());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({"cursor": cursor}),
                None => return Ok(tools),
            }
        }
    }

    /// Calls a tool. What a model sees of the result are its texts.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Vec<String>> {
        let result = self.request("tools/call", &json!({"name": tool, "arguments": arguments}))?;
        let blocks = result.get("content").and_then(Value::as_array).context("no content")?;
        let text = |block: &Value| block.get("text")?.as_str().map(str::to_owned);
        let texts: Vec<_> = blocks.iter().filter_map(text).collect();
        if result.get("isError") == Some(&Value::Bool(true)) {
            bail!("{tool} failed: {}", texts.join("\n"));
        }
        Ok(texts)
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))?;
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line)? == 0 {
                bail!("the server ended during {method}");
            }
            self.wire += line.len();
            let mut message: Value = serde_json::from_str(&line)?;
            if message.get("id").and_then(Value::as_u64) != Some(id) {
                continue;
            }
            if let Some(error) = message.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(message.get_mut("result").map(Value::take).unwrap_or_default());
        }
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        self.wire += line.len();
        self.input.write_all(line.as_bytes())?;
        Ok(self.input.flush()?)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // It keeps nothing that anybody wants.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
