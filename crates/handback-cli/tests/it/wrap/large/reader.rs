//! A client that reads a held result to its end, in every way.

use serde_json::{Value, json};

use super::door::Door;

/// Items are in one of so many groups, by a word.
const GROUPS: u64 = 4;

/// Items of a page at most, on defaults.
const PAGE: u64 = 100;

/// Operations of a batch at most, on defaults.
const BATCH: usize = 100;

/// What a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// An object with a list in it, by the tool's output schema.
    Structured,
    /// A text that is a JSON array.
    Array,
    /// A text of lines.
    Log,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Structured, Self::Array, Self::Log];

    pub(super) const fn tool(self) -> &'static str {
        match self {
            Self::Structured => "structured",
            Self::Array => "array",
            Self::Log => "log",
        }
    }

    /// Where an item is in what is held.
    fn pointer(self, number: u64) -> String {
        match self {
            Self::Structured => format!("/items/{number}"),
            Self::Array => format!("/{number}"),
            Self::Log => String::new(),
        }
    }

    /// The members of an item that say which one it is.
    const fn fields(self) -> [&'static str; 1] {
        if matches!(self, Self::Log) { ["line"] } else { ["id"] }
    }

    /// Which item it is.
    #[track_caller]
    fn number(self, item: &Value) -> u64 {
        let number = |name: &str| item[name].as_u64().unwrap_or_else(|| panic!("{item}"));
        if self == Self::Log { number("line") - 1 } else { number("id") }
    }
}

/// How large a result is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    items: u64,
    item_bytes: u64,
}

impl Size {
    pub(super) const fn small() -> Self {
        Self { items: 2_000, item_bytes: 200 }
    }

    /// In some of these the items are so short that the index has not room for all.
    pub(super) const fn of_megabytes(megabytes: u64) -> Self {
        let item_bytes = if megabytes == 100 { 100 } else { 800 };
        Self { items: megabytes * 1_000_000 / item_bytes, item_bytes }
    }

    pub(super) fn arguments(self) -> Value {
        json!({"items": self.items, "item_bytes": self.item_bytes})
    }

    fn padded(self, start: &str, end: &str) -> String {
        let bytes = usize::try_from(self.item_bytes).unwrap();
        format!("{start}{}{end}", "x".repeat(bytes - start.len() - end.len()))
    }

    /// As the server makes it.
    fn item(self, number: u64) -> Value {
        let start = format!(r#"{{"id":{number},"group":"{}","pad":""#, group(number));
        serde_json::from_str(&self.padded(&start, "\"}")).unwrap()
    }

    fn line(self, number: u64) -> String {
        self.padded(&format!("line {number} {} ", group(number)), "")
    }

    fn expected(self, kind: Kind, number: u64) -> Value {
        match kind {
            Kind::Log => json!({"line": number + 1, "text": self.line(number)}),
            _ => self.item(number),
        }
    }
}

fn group(number: u64) -> String {
    format!("group{}x", number % GROUPS)
}

/// A result that is held, and how it is reached.
pub(super) struct Reading<'a, D> {
    pub(super) door: &'a mut D,
    kind: Kind,
    size: Size,
    handle: String,
}

impl<'a, D: Door> Reading<'a, D> {
    /// Has the server called, and looks at what comes in the place of the result.
    pub(super) fn call(door: &'a mut D, kind: Kind, size: Size) -> Self {
        let result = door.call(kind.tool(), &size.arguments());
        let held = &result["_meta"]["dev.handback/held"][0];
        let handle = held["handle"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned();
        assert_eq!((&held["total"], result["isError"].is_null()), (&json!(size.items), true));
        let notice = result["content"][0]["text"].as_str().unwrap();
        assert!(notice.contains(&handle) && notice.contains("mcp_aql_read"), "{notice}");
        let shown = held["shown"].as_u64().unwrap();
        assert!(shown > 0, "{held}");
        let first = match kind {
            Kind::Structured => result["structuredContent"]["items"].clone(),
            Kind::Array => text_of(&result["content"][1]["text"]),
            Kind::Log => {
                let lines = result["content"][1]["text"].as_str().unwrap().lines();
                let lines = lines.take(usize::try_from(shown).unwrap()).enumerate();
                lines.map(|(n, text)| json!({"line": n + 1, "text": text})).collect()
            }
        };
        let expected: Value = (0..shown).map(|number| size.expected(kind, number)).collect();
        assert!(first == expected, "{first}");
        Self { door, kind, size, handle }
    }

    pub(super) fn handle(&self) -> &str {
        &self.handle
    }

    pub(super) fn first_pointer(&self) -> String {
        self.kind.pointer(0)
    }

    pub(super) fn everything(&mut self) {
        self.paged();
        self.shown_whole();
        self.searched();
        self.counted();
        self.sorted();
        match self.kind {
            Kind::Log => self.read_in_pieces(),
            _ => self.pointed(),
        }
    }

    #[track_caller]
    fn ask(&mut self, operation: &str, params: &Value) -> Value {
        let asked = json!({"operation": operation, "element_type": self.handle, "params": params});
        self.answer(&asked)
    }

    #[track_caller]
    fn answer(&mut self, asked: &Value) -> Value {
        let result = self.door.call("mcp_aql_read", asked);
        let answer = text_of(&result["content"][0]["text"]);
        assert_eq!(answer["success"], true, "{answer}");
        answer
    }

    /// Walks, and gives the number of every item to `meet`.
    fn walk(&mut self, operation: &str, mut params: Value, mut meet: impl FnMut(u64)) {
        params["first"] = PAGE.into();
        params["fields"] = json!(self.kind.fields());
        loop {
            let answer = self.ask(operation, &params);
            let data = &answer["data"];
            let items = data["items"].as_array().unwrap();
            items.iter().for_each(|item| meet(self.kind.number(item)));
            if data["pageInfo"]["hasNextPage"] == false {
                return;
            }
            params["after"] = data["pageInfo"]["endCursor"].clone();
        }
    }

    /// Every item once, in order.
    fn paged(&mut self) {
        let mut next = 0;
        self.walk("list_elements", json!({}), |number| {
            assert_eq!(number, next);
            next += 1;
        });
        assert_eq!(next, self.size.items);
    }

    /// Pages of whole items are cut where the client has enough, and go on behind that.
    fn shown_whole(&mut self) {
        let (mut params, mut next) = (json!({"first": PAGE}), 0);
        while next < self.size.items.min(300) {
            let answer = self.ask("list_elements", &params);
            let items = answer["data"]["items"].as_array().unwrap();
            let numbers = next..next + items.len() as u64;
            let expected = numbers.map(|number| self.size.expected(self.kind, number));
            assert!(items.iter().eq(expected.collect::<Vec<_>>().iter()), "{answer}");
            next += items.len() as u64;
            params["after"] = answer["data"]["pageInfo"]["endCursor"].clone();
        }
    }

    /// Every item of every group once: in the order of the result, so that none is met twice.
    fn searched(&mut self) {
        let mut met = 0;
        for number_of_group in 0..GROUPS {
            let mut next = number_of_group;
            self.walk("search_elements", json!({"query": group(number_of_group)}), |number| {
                assert_eq!(number, next);
                next += GROUPS;
                met += 1;
            });
        }
        assert_eq!(met, self.size.items);
    }

    fn counted(&mut self) {
        let answer = self.ask("count_elements", &json!({"query": group(1)}));
        let expected = (0..self.size.items).filter(|number| number % GROUPS == 1).count();
        assert_eq!(answer["data"]["count"], expected);
    }

    /// Those that come first in an order that is not theirs.
    fn sorted(&mut self) {
        let (field, expected): (_, Vec<u64>) = match self.kind {
            Kind::Log => {
                let mut numbers: Vec<u64> = (0..self.size.items).collect();
                numbers.sort_by_cached_key(|number| format!("{number} "));
                ("text", numbers.into_iter().rev().collect())
            }
            _ => ("group", (0..self.size.items).filter(|n| n % GROUPS == GROUPS - 1).collect()),
        };
        let sort = json!({"field": field, "order": "desc"});
        let params = json!({"sort": sort, "first": PAGE, "fields": self.kind.fields()});
        let answer = self.ask("list_elements", &params);
        let items = answer["data"]["items"].as_array().unwrap();
        let numbers = items.iter().map(|item| self.kind.number(item));
        assert!(numbers.eq(expected.into_iter().take(items.len())), "{answer}");
        assert_eq!(items.len() as u64, PAGE, "{answer}");
    }

    /// Every item by its pointer, where that is a matter of seconds; else some of all of them, with the
    /// last one.
    fn pointed(&mut self) {
        let last = self.size.items - 1;
        let step = usize::try_from((self.size.items / POINTED_MAX).max(1)).unwrap();
        let numbers: Vec<u64> = (0..last).step_by(step).chain([last]).collect();
        for some in numbers.chunks(BATCH) {
            let get = |number: &u64| {
                json!({"operation": "get_element", "element_type": self.handle,
                "params": {"pointer": format!("{}/id", self.kind.pointer(*number))}})
            };
            let operations: Vec<_> = some.iter().map(get).collect();
            let answer = self.answer(&json!({"operations": operations}));
            let results = answer["results"].as_array().unwrap();
            let found = results.iter().map(|result| result["result"]["data"].as_u64().unwrap());
            assert!(found.eq(some.iter().copied()), "{answer}");
        }
        let answer = self.ask("get_element", &json!({"pointer": self.kind.pointer(last)}));
        assert_eq!(answer["data"], self.size.item(last));
        let beyond = json!({"pointer": self.kind.pointer(last + 1)});
        let asked =
            json!({"operation": "get_element", "element_type": self.handle, "params": beyond});
        let result = self.door.call("mcp_aql_read", &asked);
        assert!(super::super::text(&result).contains("NOT_FOUND_RESOURCE"), "{result}");
    }

    /// All of a text, piece by piece: every line once.
    fn read_in_pieces(&mut self) {
        let (mut rest, mut next) = (String::new(), 0);
        let mut params = json!({"pointer": "", "from": 0});
        loop {
            let answer = self.ask("get_element", &params);
            rest.push_str(answer["data"]["text"].as_str().unwrap());
            let is_last = answer["data"].get("next").is_none();
            let mut lines = rest.split_inclusive('\n').peekable();
            let mut read = 0;
            while let Some(line) = lines.next() {
                if lines.peek().is_none() && !is_last {
                    break;
                }
                read += line.len();
                assert!(line.trim_end() == self.size.line(next), "{line} is no line {next}");
                next += 1;
            }
            rest.drain(..read);
            if is_last {
                break;
            }
            params["from"] = answer["data"]["next"].clone();
        }
        assert_eq!((next, rest.as_str()), (self.size.items, ""));
    }
}

/// Items that are asked for one by one.
const POINTED_MAX: u64 = 2_000_000;

/// What a text that is JSON stands for.
#[track_caller]
fn text_of(text: &Value) -> Value {
    let text = text.as_str().unwrap_or_else(|| panic!("{text}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
