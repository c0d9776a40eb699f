//! Somebody who reads and writes, and is counted.

use anyhow::Result;
use serde_json::Value;

use crate::client::Client;

/// What a token is taken for. English text has about four characters in one.
pub(crate) const BYTES_PER_TOKEN: usize = 4;

/// What was read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    pub(crate) read: usize,
    pub(crate) written: usize,
    /// Calls of tools.
    pub(crate) trips: usize,
    /// What a model goes through that reads all that was before again for each call and for the
    /// answer.
    pub(crate) again: usize,
}

impl Cost {
    pub(crate) const fn bytes(self) -> usize {
        self.read + self.written
    }

    pub(crate) const fn tokens(self) -> usize {
        self.bytes().div_ceil(BYTES_PER_TOKEN)
    }

    /// Tokens, if nothing is remembered from one call to the next.
    pub(crate) const fn tokens_again(self) -> usize {
        (self.again + self.bytes()).div_ceil(BYTES_PER_TOKEN)
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.read += other.read;
        self.written += other.written;
        self.trips += other.trips;
        self.again += other.again;
    }
}

/// An agent at work on one question.
#[derive(Debug)]
pub(crate) struct Agent<'a> {
    client: &'a mut Client,
    pub(crate) cost: Cost,
}

impl<'a> Agent<'a> {
    pub(crate) fn new(client: &'a mut Client) -> Self {
        Self { client, cost: Cost::default() }
    }

    /// Calls a tool and reads the answer.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        let answer = self.send(tool, arguments)?.join("\n");
        self.take(&answer);
        Ok(answer)
    }

    /// Calls a tool. The blocks of the answer count once they are taken.
    pub(crate) fn send(&mut self, tool: &str, arguments: &Value) -> Result<Vec<String>> {
        self.cost.trips += 1;
        self.cost.again += self.cost.bytes();
        self.cost.written += tool.len() + arguments.to_string().len();
        self.client.call(tool, arguments)
    }

    /// Reads a text.
    pub(crate) const fn take(&mut self, text: &str) {
        self.cost.read += text.len();
    }

    /// The tools of the server. They count once they are taken.
    pub(crate) fn tools(&mut self) -> Result<Vec<Value>> {
        self.client.tools()
    }
}
