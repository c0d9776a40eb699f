//! Pages one after another, within limits.

use serde_json::value::RawValue;

use super::answer::{Answer, Asks, Event, Failed, Given};
use super::call::Call;
use super::client::Tools;
use super::error::ToolsError;
use super::merge::{Merge, Merger};

/// Pages of a walk, unless said otherwise.
pub const DEFAULT_MAX_PAGES: u32 = 100;

/// Bytes of the results of a walk, unless said otherwise.
pub const DEFAULT_MAX_BYTES: u64 = 32 << 20;

/// How far a walk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing else to bound")]
pub struct Limits {
    /// So many pages at most.
    pub pages: u32,
    /// So many bytes of results at most.
    pub bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { pages: DEFAULT_MAX_PAGES, bytes: DEFAULT_MAX_BYTES }
    }
}

/// Which limit was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "one for each limit")]
pub enum Limit {
    /// Of pages.
    Pages,
    /// Of bytes.
    Bytes,
}

/// The pages of a call, one by one: see [`Tools::walk`].
#[derive(Debug)]
#[must_use]
pub struct Walk<'a> {
    tools: &'a Tools,
    call: Call,
    limits: Limits,
    pages: u32,
    bytes: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Going,
    Over,
    Stopped(Limit),
}

impl<'a> Walk<'a> {
    pub(super) const fn new(tools: &'a Tools, call: Call, limits: Limits) -> Self {
        Self { tools, call, limits, pages: 0, bytes: 0, state: State::Going }
    }

    /// The next page, or whatever else the tool gave, which is the last then. Nothing at the end, and
    /// where a limit is [reached](Self::stopped).
    ///
    /// # Errors
    ///
    /// [`ToolsError`] if there is no answer. The walk is where it was, so that it can be tried again.
    pub async fn next(&mut self) -> Result<Option<Answer>, ToolsError> {
        if self.state == State::Going && self.pages >= self.limits.pages {
            self.state = State::Stopped(Limit::Pages);
        }
        if self.state != State::Going {
            return Ok(None);
        }
        let answer = self.tools.call(&self.call).await?;
        let Answer::Given(given) = &answer else {
            self.state = State::Over;
            return Ok(Some(answer));
        };
        let bytes = self.bytes.saturating_add(given.result.get().len() as u64);
        if bytes > self.limits.bytes {
            self.state = State::Stopped(Limit::Bytes);
            return Ok(None);
        }
        self.bytes = bytes;
        self.pages += 1;
        self.tools.tell(Event::Page { pages: self.pages, bytes });
        match &given.next_cursor {
            Some(cursor) => self.call = self.call.clone().cursor(cursor),
            None => self.state = State::Over,
        }
        Ok(Some(answer))
    }

    /// The limit that was reached before the end.
    #[must_use]
    pub const fn stopped(&self) -> Option<Limit> {
        match self.state {
            State::Stopped(limit) => Some(limit),
            _ => None,
        }
    }

    /// Where the page is that comes next; nothing before the first one and after the end.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.call.at().filter(|_| self.state != State::Over)
    }

    /// How far it goes.
    #[must_use]
    pub const fn limits(&self) -> Limits {
        self.limits
    }

    /// How many pages were given.
    #[must_use]
    pub const fn pages(&self) -> u32 {
        self.pages
    }

    /// How many bytes of results were given.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// How all pages are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct AllOptions {
    /// How far to go.
    pub limits: Limits,
    /// How pages become one value.
    pub merge: Merge,
}

/// What came of all pages.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Walked {
    /// What the pages come to, also if they are not all.
    pub merged: Option<Box<RawValue>>,
    /// How many there were.
    pub pages: u32,
    /// How many bytes their results had.
    pub bytes: u64,
    /// How it ended.
    pub ended: Ended,
}

/// How a walk ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Ended {
    /// All pages are there.
    Complete,
    /// A limit was reached; of [`Merge::FirstPageOnly`], there is more.
    Stopped {
        /// Which; none if no more was wanted.
        limit: Option<Limit>,
        /// Where to go on; nothing if not even the first page is within the limits.
        cursor: Option<String>,
    },
    /// The tool asked for something.
    Asks(Asks),
    /// The tool failed.
    Failed(Failed),
    /// There was no answer any more.
    Broken {
        /// Why.
        error: ToolsError,
        /// Where to go on.
        cursor: Option<String>,
    },
}

/// Merges all pages of a walk.
pub(super) async fn all(mut walk: Walk<'_>, merge: &Merge) -> Result<Walked, ToolsError> {
    let mut merger = Merger::new(merge.clone());
    let ended = loop {
        if *merge == Merge::FirstPageOnly && walk.pages == 1 {
            break match walk.cursor() {
                Some(cursor) => Ended::Stopped { limit: None, cursor: Some(cursor.to_owned()) },
                None => Ended::Complete,
            };
        }
        let cursor = walk.cursor().map(str::to_owned);
        match walk.next().await {
            Ok(Some(Answer::Given(Given { result, .. }))) => merger.add(result)?,
            Ok(Some(Answer::Asks(asks))) => break Ended::Asks(asks),
            Ok(Some(Answer::Failed(failed))) => break Ended::Failed(failed),
            Ok(None) => {
                break match walk.stopped() {
                    Some(limit) => Ended::Stopped { limit: Some(limit), cursor },
                    None => Ended::Complete,
                };
            }
            Err(error) if walk.pages == 0 => return Err(error),
            Err(error) => break Ended::Broken { error, cursor },
        }
    };
    Ok(Walked { merged: merger.finish(), pages: walk.pages, bytes: walk.bytes, ended })
}
