//! What can be chosen.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use handback_identity::Glob;
use handback_tool::{Quota, Share, relayed_name};

use crate::bound::Budget;
use crate::reference::{Allowed, DEFAULT_BYTES_MAX};

/// How long an exchange with an upstream may take, if nothing is said.
pub const TIME_LIMIT: Duration = Duration::from_secs(300);

/// Bytes of an answer that is kept in memory; a larger one goes to a file as it arrives.
pub const MEMORY_BYTES_MAX: usize = 8 << 20;

/// Sessions of older clients at most, if nothing is said: each may have a program of its own behind it.
pub const SESSIONS_MAX: u64 = 800;

/// Programs that are started for single callers at most, if nothing is said: one has about 50 MB.
pub const PROGRAMS_MAX: u64 = 256;

/// What can be chosen about a gateway.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct Options {
    /// What a client gets in one answer, if nothing else is said.
    pub budget: Budget,
    /// The same by the name that a client gives itself.
    pub client_budgets: BTreeMap<String, Budget>,
    /// The budget of images, audio and blobs of one answer. Without one, it is
    /// [`Budget::MEDIA_DEFAULT`], and unlimited for who has an unlimited budget of texts.
    pub media_budget: Option<Budget>,
    /// The same by the name that a client gives itself.
    pub client_media_budgets: BTreeMap<String, Budget>,
    /// What is different for some tools. The first that fits holds.
    pub tools: Vec<ToolRule>,
    /// Bytes that references put into the arguments of one call at most.
    pub reference_bytes_max: u64,
    /// From which upstream held values may be passed to which other one.
    pub directions: Vec<Allowed>,
    /// What stands behind is a gateway itself: everything is passed on to the first upstream as it
    /// is, and there is nothing else. Nothing is bounded, sealed or recorded here.
    pub is_direct: bool,
    /// Sessions of older clients over HTTP, of all callers and of each.
    pub sessions: Quota,
    /// Programs that are started for single callers.
    pub programs: Quota,
    /// Upstreams of which only names in the alphabet of the protocol are shown.
    pub strict_names: BTreeSet<String>,
    /// Whether there are collections of our own. If not, our reading tools read held results only.
    pub has_collections: bool,
}

/// The names that a tool goes by. Which of them a client sees depends on what other upstreams have, and
/// what is configured for a tool does not.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct ToolNames<'a> {
    /// The one that clients see.
    pub shown: &'a str,
    /// The one that its upstream has for it.
    pub own: &'a str,
    /// The name of its upstream.
    pub upstream: &'a str,
}

impl ToolNames<'_> {
    fn fit(&self, glob: &Glob) -> bool {
        glob.matches(self.shown)
            || glob.matches(self.own)
            || glob.matches(&relayed_name(self.upstream, self.own))
    }
}

/// What is different for some tools.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal")]
pub struct ToolRule {
    /// The names: as clients see them, as their upstreams have them, or both together.
    pub tools: Glob,
    /// What is given in one answer.
    pub budget: Option<Budget>,
    /// Images, audio and blobs in one answer.
    pub media_budget: Option<Budget>,
    /// How long a call may take.
    pub time_limit: Option<Duration>,
    /// Whether the state of an unfinished exchange is good for one use only.
    pub single_use: Option<bool>,
    /// Whether an identical call within a minute of one whose answer was not delivered is taken for
    /// another try.
    pub retry_identical: Option<bool>,
    /// Whether a call becomes a task at once, for clients that know tasks.
    pub long: Option<bool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            client_budgets: BTreeMap::new(),
            media_budget: None,
            client_media_budgets: BTreeMap::new(),
            tools: Vec::new(),
            reference_bytes_max: DEFAULT_BYTES_MAX,
            directions: Vec::new(),
            is_direct: false,
            sessions: Quota::new(SESSIONS_MAX, Share::WHOLE),
            programs: Quota::new(PROGRAMS_MAX, Share::WHOLE),
            strict_names: BTreeSet::new(),
            has_collections: false,
        }
    }
}

impl Options {
    /// What a client gets in one answer of a tool: what is said of the tool counts more than what is said
    /// of the client, and that more than the budget of all.
    #[must_use]
    pub fn budget(&self, client: Option<&str>, tool: ToolNames<'_>) -> Budget {
        let of_tool = self.rules(tool).find_map(|rule| rule.budget);
        let of_client = || client.and_then(|client| self.client_budgets.get(client)).copied();
        of_tool.or_else(of_client).unwrap_or(self.budget)
    }

    /// The budget of images, audio and blobs in one answer of a tool, found as the budget of texts is.
    #[must_use]
    pub fn media_budget(&self, client: Option<&str>, tool: ToolNames<'_>) -> Budget {
        let of_tool = self.rules(tool).find_map(|rule| rule.media_budget);
        let of_client = || client.and_then(|client| self.client_media_budgets.get(client)).copied();
        let otherwise = || match self.budget(client, tool) == Budget::unlimited() {
            true => Budget::unlimited(),
            false => Budget::MEDIA_DEFAULT,
        };
        of_tool.or_else(of_client).or(self.media_budget).unwrap_or_else(otherwise)
    }

    /// How long a call of a tool may take.
    #[must_use]
    pub fn time_limit(&self, tool: ToolNames<'_>) -> Duration {
        self.rules(tool).find_map(|rule| rule.time_limit).unwrap_or(TIME_LIMIT)
    }

    /// Whether the state of an unfinished exchange is good for one use only.
    #[must_use]
    pub fn is_single_use(&self, tool: ToolNames<'_>) -> bool {
        self.rules(tool).find_map(|rule| rule.single_use).unwrap_or(false)
    }

    /// Whether an identical call is taken for another try.
    #[must_use]
    pub fn retries_identical(&self, tool: ToolNames<'_>) -> bool {
        self.rules(tool).find_map(|rule| rule.retry_identical).unwrap_or(false)
    }

    /// Whether a call becomes a task at once, for clients that know tasks.
    #[must_use]
    pub fn is_long(&self, tool: ToolNames<'_>) -> bool {
        self.rules(tool).find_map(|rule| rule.long).unwrap_or(false)
    }

    fn rules<'a>(&'a self, tool: ToolNames<'a>) -> impl Iterator<Item = &'a ToolRule> {
        self.tools.iter().filter(move |rule| tool.fit(&rule.tools))
    }
}
