//! Reading a held result: an agent that knows the tools of Handback only by what it has read of them.
//!
//! It writes no operation, parameter or operator that was not named to it, in the description of the
//! tool, in the notice or by `introspect`, which it asks where something is missing; and no column
//! that it has not seen. So descriptions that say less cost more.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use crate::agent::{Agent, Cost};
use crate::client::Client;
use crate::question::Question;
use crate::vocabulary::{self, Words};

/// The tool that reads.
const READ: &str = "mcp_aql_read";

/// The tool that makes new held values.
const CREATE: &str = "mcp_aql_create";

/// How a manual says that a place in a held value can be read like a collection.
const PLACES: &str = "HANDLE#/";

/// What a page should about have: as much as the gateway shows of a result at once.
const PAGE_BYTES: usize = 40 << 10;

/// The longest page, in items.
const PAGE_MAX: usize = 100;

/// The first page of a walk, in items: how large they are is not known yet.
const PAGE_FIRST: usize = 10;

/// An agent with a handle.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    agent: Agent<'a>,
    pub(crate) handle: String,
    /// What is written about the tools, as far as it was read.
    manual: String,
    /// What was seen of the data, and the question.
    seen: String,
    /// The first page.
    pub(crate) page: String,
    parts: Parts,
}

/// What the cost is made of, in bytes. The rest are requests and answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts {
    /// The descriptions of all tools.
    pub(crate) tools: usize,
    /// The first call: the data, or notice and first page.
    pub(crate) first: usize,
    /// What was looked up about the tools.
    pub(crate) introspection: usize,
}

impl<'a> Reader<'a> {
    /// Reads the descriptions of the tools, calls the one that gives the data, and reads what comes: a
    /// notice with a handle, and a first page.
    pub(crate) fn new(client: &'a mut Client, question: &Question) -> Result<Self> {
        let mut agent = Agent::new(client)?;
        let mut manual = agent.told.clone();
        let tools = agent.cost().bytes();
        let blocks = agent.send(question.data.tool(), &json!({}))?;
        blocks.iter().for_each(|block| agent.take(block));
        let (notice, page) = blocks.split_first().context("an empty answer")?;
        let mut words = notice.split(|letter: char| !letter.is_ascii_alphanumeric());
        let handle = words.find(is_handle).context("a notice without a handle")?.to_owned();
        let parts = Parts { tools, first: agent.cost().bytes() - tools, introspection: 0 };
        manual.push_str(notice);
        let page = page.join("\n");
        let seen = format!("{} {page}", question.asks);
        Ok(Self { agent, handle, manual, seen, page, parts })
    }

    pub(crate) fn cost(&self) -> Cost {
        self.agent.cost()
    }

    pub(crate) const fn parts(&self) -> Parts {
        self.parts
    }

    /// One operation; gives the data of its answer.
    pub(crate) fn ask(&mut self, operation: &str, params: Value) -> Result<Value> {
        self.ask_of(&self.handle.clone(), operation, params)
    }

    fn ask_of(&mut self, collection: &str, operation: &str, params: Value) -> Result<Value> {
        self.learn(collection, operation, &params)?;
        let request = json!({"operation": operation, "element_type": collection, "params": params});
        self.read(READ, &request)
    }

    /// Several operations of one kind at once; gives the data of each.
    pub(crate) fn ask_all(&mut self, operation: &str, all: &[Value]) -> Result<Vec<Value>> {
        let handle = self.handle.clone();
        self.must_know("operations")?;
        all.iter().try_for_each(|params| self.learn(&handle, operation, params))?;
        let with_handle = |params: &Value| json!({"operation": operation, "element_type": handle, "params": params});
        let operations: Vec<_> = all.iter().map(with_handle).collect();
        let answer = self.answer(READ, &json!({"operations": operations}))?;
        let results = answer.get("results").and_then(Value::as_array).context("no results")?;
        let data = results.iter().map(|result| result.pointer("/result/data").cloned());
        data.map(|data| data.context("a result without data")).collect()
    }

    /// The value at a place in the document.
    pub(crate) fn value(&mut self, place: &str) -> Result<Value> {
        self.must_have_seen(place)?;
        self.ask("get_element", json!({"pointer": place}))
    }

    /// The items of one page of the array or object at a place in the document.
    pub(crate) fn items_at(
        &mut self,
        place: &str,
        operation: &str,
        params: Value,
    ) -> Result<Vec<Value>> {
        self.must_have_seen(place)?;
        items(&self.ask_of(&format!("{}#{place}", self.handle), operation, params)?)
    }

    /// Makes a new held value of the one in hand; gives its handle.
    pub(crate) fn derive(&mut self, how: Value) -> Result<String> {
        self.learn(&self.handle.clone(), "derive_element", &how)?;
        let request = json!({
            "operation": "derive_element",
            "element_type": self.handle,
            "params": how,
        });
        let data = self.read(CREATE, &request)?;
        let handle = data.get("handle").and_then(Value::as_str);
        Ok(handle.context("no handle of what was derived")?.to_owned())
    }

    /// Whether something of the protocol was named, in what was read about the tools.
    pub(crate) fn must_know(&self, word: &str) -> Result<()> {
        ensure!(vocabulary::names(&self.manual, word), "nothing that was read names `{word}`");
        Ok(())
    }

    /// Whether all names of a pointer were seen, or are in the question.
    fn must_have_seen(&self, pointer: &str) -> Result<()> {
        let unseen = pointer.split('/').find(|name| !self.seen.contains(name));
        ensure!(unseen.is_none(), "nothing that was read has {unseen:?} of {pointer}");
        Ok(())
    }

    /// Any other tool.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<String> {
        self.agent.call(tool, arguments)
    }

    /// How many there are.
    pub(crate) fn count(&mut self, params: Value) -> Result<u64> {
        let data = self.ask("count_elements", params)?;
        data.get("count").and_then(Value::as_u64).context("no count")
    }

    /// The items of one page.
    pub(crate) fn items(&mut self, operation: &str, params: Value) -> Result<Vec<Value>> {
        items(&self.ask(operation, params)?)
    }

    /// All items of a walk, page by page; ends early once `is_enough` says so of the last two pages.
    pub(crate) fn walk(
        &mut self,
        operation: &str,
        mut params: Value,
        is_enough: impl Fn(&[Value]) -> bool,
    ) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let (mut size, mut start) = (PAGE_FIRST, 0);
        loop {
            set(&mut params, "first", json!(size));
            let page = self.ask(operation, params.clone())?;
            let items = items(&page)?.into_iter().map(|item| self.whole(item));
            let items = items.collect::<Result<Vec<_>>>()?;
            let bytes: usize = items.iter().map(|item| item.to_string().len()).sum();
            size = (PAGE_BYTES * items.len() / bytes.max(1)).clamp(1, PAGE_MAX);
            let last = std::mem::replace(&mut start, all.len());
            all.extend(items);
            let info = page.get("pageInfo").context("a page without page info")?;
            let recent = all.get(last..).unwrap_or_default();
            if info.get("hasNextPage") != Some(&Value::Bool(true)) || is_enough(recent) {
                return Ok(all);
            }
            let cursor = info.get("endCursor").context("no cursor to go on with")?;
            set(&mut params, "after", cursor.clone());
        }
    }

    /// An item of a page; one of which there is an excerpt is read to its end, as the excerpt says.
    fn whole(&mut self, item: Value) -> Result<Value> {
        let Some(excerpt) = item.get("$excerpt") else { return Ok(item) };
        let text = |piece: &Value| piece.get("text").and_then(Value::as_str).map(str::to_owned);
        let mut json = text(excerpt).context("an excerpt without a text")?;
        let mut request = excerpt.get("read_on").context("nothing says how to read on")?.clone();
        loop {
            let piece = self.read(READ, &request)?;
            json.push_str(&text(&piece).context("a piece without a text")?);
            match piece.get("next") {
                Some(next) => {
                    let params = request.get_mut("params").context("it has no parameters")?;
                    set(params, "from", next.clone());
                }
                None => return Ok(serde_json::from_str(&json)?),
            }
        }
    }

    fn read(&mut self, tool: &str, request: &Value) -> Result<Value> {
        let mut answer = self.answer(tool, request)?;
        Ok(answer.get_mut("data").map(Value::take).unwrap_or_default())
    }

    fn answer(&mut self, tool: &str, request: &Value) -> Result<Value> {
        let text = self.agent.call(tool, request)?;
        self.seen.push_str(&text);
        let answer: Value = serde_json::from_str(&text)?;
        ensure!(answer.get("success") == Some(&Value::Bool(true)), "{request}: {text}");
        Ok(answer)
    }

    /// Looks up what was not read yet, and fails if it is nowhere.
    fn learn(&mut self, collection: &str, operation: &str, params: &Value) -> Result<()> {
        let mut words = Words::of(params);
        if collection.contains('#') {
            words.protocol.push(PLACES.to_owned());
        }
        if !self.manual.contains(operation) || !self.knows(&words) {
            if !self.manual.contains("\"name\":") || !self.manual.contains(operation) {
                self.introspect(json!({"query": "operations"}))?;
            }
            if !self.knows(&words) {
                self.introspect(json!({"query": "operations", "name": operation}))?;
            }
        }
        if !self.sees(&words) {
            let types = self.introspect(json!({"query": "types", "name": collection}))?;
            self.seen.push_str(&types);
        }
        let unknown = words.protocol.iter().find(|word| !self.is_named(word));
        let unseen = words.data.iter().find(|word| !self.seen.contains(word.as_str()));
        match unknown.or(unseen) {
            Some(word) => bail!("nothing that was read names `{word}`"),
            None => Ok(()),
        }
    }

    fn introspect(&mut self, params: Value) -> Result<String> {
        let request = json!({"operation": "introspect", "params": params});
        let before = self.agent.cost().bytes();
        let text = self.agent.call(READ, &request)?;
        self.parts.introspection += self.agent.cost().bytes() - before;
        self.manual.push_str(&text);
        Ok(text)
    }

    fn knows(&self, words: &Words) -> bool {
        words.protocol.iter().all(|word| self.is_named(word))
    }

    fn is_named(&self, word: &str) -> bool {
        if word == PLACES {
            self.manual.contains(word)
        } else {
            vocabulary::names(&self.manual, word)
        }
    }

    fn sees(&self, words: &Words) -> bool {
        words.data.iter().all(|word| self.seen.contains(word.as_str()))
    }
}

fn is_handle(word: &&str) -> bool {
    word.len() == 30 && word.starts_with('h')
}

fn set(params: &mut Value, name: &str, value: Value) {
    if let Value::Object(members) = params {
        members.insert(name.to_owned(), value);
    }
}

fn items(page: &Value) -> Result<Vec<Value>> {
    Ok(page.get("items").and_then(Value::as_array).context("a page without items")?.clone())
}
