//! The upstream: a small server of the Model Context Protocol (2025-11-25, standard streams) with a
//! tool for each set of data, and one that takes a document and writes down what it got.

use std::fs::OpenOptions;
use std::io::{self, BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::client::REVISION;
use crate::data::DataSet;
use crate::plain;

/// The tool that takes a document.
pub(crate) const WRITE: &str = "write_document";

/// JSON-RPC: there is no such method.
const METHOD_NOT_FOUND: i64 = -32601;

/// JSON-RPC: the parameters are wrong.
const INVALID_PARAMS: i64 = -32602;

impl DataSet {
    /// The tool that gives it.
    pub(crate) const fn tool(self) -> &'static str {
        match self {
            Self::Issues => "list_issues",
            Self::Orders => "export_orders",
            Self::Log => "read_log",
            Self::Config => "get_config",
            Self::Results => "web_search",
            Self::Handbook => "read_handbook",
        }
    }

    /// Where it is written back to.
    pub(crate) const fn path(self) -> &'static str {
        match self {
            Self::Handbook => "handbook.md",
            Self::Log => "log.txt",
            Self::Issues => "issues.json",
            Self::Orders => "orders.json",
            Self::Config => "config.json",
            Self::Results => "results.json",
        }
    }
}

/// Answers until the input ends. Documents are noted in the file `record`, a line of JSON each.
pub(crate) fn serve(record: Option<&Path>) -> Result<()> {
    let server = Upstream { record: record.map(Path::to_owned) };
    let mut output = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line?)?;
        let Some(id) = message.get("id") else { continue };
        let answer = match server.answer(&message) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err(error) => json!({"jsonrpc": "2.0", "id": id, "error": error}),
        };
        writeln!(output, "{answer}")?;
        output.flush()?;
    }
    Ok(())
}

/// The digest of the document that was written last, from the record of an upstream.
pub(crate) fn last_written(record: &Path) -> Result<Option<String>> {
    let lines = match std::fs::read_to_string(record) {
        Ok(lines) => lines,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let Some(last) = lines.lines().last() else { return Ok(None) };
    let last: Value = serde_json::from_str(last)?;
    Ok(last.get("digest").and_then(Value::as_str).map(str::to_owned))
}

struct Upstream {
    record: Option<PathBuf>,
}

impl Upstream {
    fn answer(&self, message: &Value) -> Result<Value, Value> {
        let params = message.get("params").unwrap_or(&Value::Null);
        match message.get("method").and_then(Value::as_str).unwrap_or_default() {
            "initialize" => Ok(json!({
                "protocolVersion": REVISION,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "answers-upstream", "version": "1"},
            })),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({"tools": tools()})),
            "tools/call" => self.call(params),
            other => Err(json!({"code": METHOD_NOT_FOUND, "message": other})),
        }
    }

    fn call(&self, params: &Value) -> Result<Value, Value> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        if let Some(data) = DataSet::ALL.into_iter().find(|data| data.tool() == name) {
            return Ok(text(&data.text()));
        }
        let wrong = |message: &str| json!({"code": INVALID_PARAMS, "message": message});
        if name != WRITE {
            return Err(wrong("there is no such tool"));
        }
        let argument = |name: &str| params.pointer(&format!("/arguments/{name}"))?.as_str();
        let (Some(path), Some(document)) = (argument("path"), argument("text")) else {
            return Err(wrong("`path` and `text` are texts"));
        };
        self.note(path, document).map_err(|error| wrong(&format!("{error:#}")))?;
        Ok(text(&format!("{path} has {} bytes now", document.len())))
    }

    /// Writes down what came. Of JSON its members count, and not how they are indented.
    fn note(&self, path: &str, document: &str) -> Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        let value = match path.ends_with(".json") {
            true => serde_json::from_str(document).context("it is not JSON")?,
            false => Value::from(document),
        };
        let digest = plain::document_digest(&value);
        let line = json!({"path": path, "bytes": document.len(), "digest": digest});
        let mut file = OpenOptions::new().append(true).create(true).open(record)?;
        Ok(writeln!(file, "{line}")?)
    }
}

fn tools() -> Vec<Value> {
    let reading = DataSet::ALL.map(|data| {
        let schema = json!({"type": "object", "properties": {}});
        let hints = json!({"readOnlyHint": true});
        let description = format!("Gives {}.", data.about());
        let name = data.tool();
        json!({"name": name, "description": description, "inputSchema": schema, "annotations": hints})
    });
    let write = json!({
        "name": WRITE,
        "description": "Replaces a document by the given text.",
        "inputSchema": {
            "type": "object",
            "properties": {"path": {"type": "string"}, "text": {"type": "string"}},
            "required": ["path", "text"],
        },
    });
    reading.into_iter().chain([write]).collect()
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(server: &Upstream, name: &str, arguments: &Value) -> Result<Value, Value> {
        let params = json!({"name": name, "arguments": arguments});
        server.answer(&json!({"id": 1, "method": "tools/call", "params": params}))
    }

    #[test]
    fn gives_the_data_as_text() {
        let server = Upstream { record: None };
        let result = call(&server, "read_handbook", &json!({})).unwrap();
        assert_eq!(result["content"][0]["text"], DataSet::Handbook.text());
        assert!(call(&server, "nothing", &json!({})).is_err());
    }

    #[test]
    fn writes_down_what_it_got() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("record");
        assert_eq!(last_written(&record).unwrap(), None);
        let server = Upstream { record: Some(record.clone()) };
        call(&server, WRITE, &json!({"path": "a.md", "text": "x"})).unwrap();
        call(&server, WRITE, &json!({"path": "b.json", "text": "{ \"b\": 1, \"a\": 2 }"})).unwrap();
        let digest = plain::document_digest(&json!({"a": 2, "b": 1}));
        assert_eq!(last_written(&record).unwrap(), Some(digest));
        assert!(call(&server, WRITE, &json!({"path": "b.json", "text": "{"})).is_err());
        assert!(call(&server, WRITE, &json!({"path": "b.json"})).is_err());
    }
}
