//! Somebody who reads and writes, and is counted.

use anyhow::Result;
use serde_json::Value;

use crate::client::Client;

/// What a token is taken for, as the gateway does. English text has about four characters in one;
/// JSON and numbers have fewer, on both sides of the comparison.
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
    /// All bytes between the agent's client and the server, in both directions.
    pub(crate) wire: usize,
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
        self.wire += other.wire;
    }
}

/// An agent at work on one question.
#[derive(Debug)]
pub(crate) struct Agent<'a> {
    client: &'a mut Client,
    cost: Cost,
    /// What was told of the tools before the first call.
    pub(crate) told: String,
}

impl<'a> Agent<'a> {
    /// Reads what every conversation begins with: the instructions of the server, and all of its
    /// tools, as they are listed.
    pub(crate) fn new(client: &'a mut Client) -> Result<Self> {
        let mut told = client.instructions().to_owned();
        for tool in client.tools()? {
            told.push_str(&tool.to_string());
        }
        let cost = Cost { read: told.len(), ..Cost::default() };
        Ok(Self { client, cost, told })
    }

    /// What it was so far.
    pub(crate) fn cost(&self) -> Cost {
        Cost { wire: self.client.wire(), ..self.cost }
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
}
