//! What upstreams have, under which names.
//!
//! A name stays as it is, unless two upstreams have it: then each of them goes by the name of its
//! upstream, two underscores, and its own. So does a name of an upstream that is one of our own, which stay as
//! they are whatever upstreams have. A name
//! that begins like that of something of another upstream goes by its own as well: nobody is to take it
//! for the other one's, nor a rule that was made for that.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use handback_mcp::wire::Object;
use handback_tool::{Kind, ToolClass, is_relayed_name, relayed_name, relayed_rest};
use handback_wire::schema::SCHEMA_BYTES_MAX;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep_until};

use crate::gateway::Gateway;
use crate::handbacks::Handbacks;
use crate::late::Late;
use crate::lists::{List, left_out};
use crate::logged::LoggedFaults;
use crate::mirror::Mirrored;
use crate::naming::{Named, prefixed};
use crate::schemas::ToolSchema;
use crate::talk::Talk;
pub(crate) use crate::upstream::OWN;

/// Items of one list of one upstream that are looked at, at most.
pub(crate) const ITEMS_MAX: usize = 10_000;

/// Bytes of the annotations of a tool that are read. Those of published servers have some hundred.
const ANNOTATIONS_BYTES_MAX: usize = 64 << 10;

/// How long what upstreams have is taken to be as it was. After that it is looked at anew, beside the
/// question that finds it old.
const FRESH: Duration = Duration::from_secs(60);

/// The same where an upstream could not be asked, and before a name is said to be unknown.
const FRESH_IF_IN_DOUBT: Duration = Duration::from_secs(5);

/// The time between two looks at least, whatever upstreams say of changes.
const LOOKED_AT_PAUSE: Duration = Duration::from_secs(1);

/// How long the only upstream may take to say what it has.
const ALONE_TIME: Duration = Duration::from_secs(60);

/// What upstreams have, as far as it was looked at.
#[derive(Debug)]
pub(crate) struct Catalogs {
    known: RwLock<Option<Known>>,
    /// One looks; the others wait for what it finds.
    looking: Mutex<()>,
    /// What the first look has found so far.
    early: watch::Sender<Option<Arc<Catalog>>>,
    /// Who did not answer lately.
    pub(crate) late: Late,
    /// The upstreams that are Handbacks. Those of the gateway count, for all sessions.
    pub(crate) handbacks: Handbacks,
    /// Faults of the upstreams that were logged.
    pub(crate) faults: LoggedFaults,
}

impl Default for Catalogs {
    fn default() -> Self {
        let early = watch::Sender::new(None);
        let (late, handbacks, faults) =
            (Late::default(), Handbacks::default(), LoggedFaults::default());
        Self { known: RwLock::default(), looking: Mutex::default(), early, late, handbacks, faults }
    }
}

#[derive(Clone, Debug)]
struct Known {
    catalog: Arc<Catalog>,
    /// When the look began, and when it was over: one that waits for slow upstreams is not old for that.
    begun: Instant,
    since: Instant,
    /// Something is known to have changed since.
    is_outdated: bool,
}

impl Known {
    fn is_older_than(&self, age: Duration) -> bool {
        let age = if self.is_outdated { age.min(LOOKED_AT_PAUSE) } else { age };
        self.since.elapsed() >= age
    }
}

impl Catalogs {
    /// It is looked at anew when it is wanted the next time.
    pub(crate) fn forget(&self) {
        if let Some(known) = &mut *self.known.write().unwrap_or_else(PoisonError::into_inner) {
            known.is_outdated = true;
        }
    }

    /// What there is, as far as it is known already.
    pub(crate) fn now(&self) -> Option<Arc<Catalog>> {
        self.known().map(|known| known.catalog)
    }

    fn known(&self) -> Option<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What there is for this client. What is known is given at once: no client waits for an upstream
    /// that is slow to tell.
    pub(crate) async fn current(&self, gateway: &Gateway, talk: &Talk) -> Arc<Catalog> {
        match self.known() {
            Some(known) => {
                let age = if known.catalog.is_whole() { FRESH } else { FRESH_IF_IN_DOUBT };
                if known.is_older_than(age) && self.looking.try_lock().is_ok() {
                    let (gateway, talk) = (gateway.clone(), talk.without_client());
                    tokio::spawn(async move { gateway.look_again(&talk, age).await });
                }
                known.catalog
            }
            None => self.looked_at(gateway, talk, FRESH).await,
        }
    }

    /// The same for lists, which show what there is after something is said to have changed.
    pub(crate) async fn unless_outdated(&self, gateway: &Gateway, talk: &Talk) -> Arc<Catalog> {
        // One that could not be asked may be back, with names that others have.
        let is_whole = self.known().is_none_or(|known| known.catalog.is_whole());
        let age = if is_whole || gateway.own() == 1 { FRESH } else { FRESH_IF_IN_DOUBT };
        self.looked_at(gateway, talk, age).await
    }

    /// What there is for this client, looked at within the last seconds: before something is said to
    /// be unknown.
    pub(crate) async fn recent(&self, gateway: &Gateway, talk: &Talk) -> Arc<Catalog> {
        self.looked_at(gateway, talk, FRESH_IF_IN_DOUBT).await
    }

    /// What there is after something turned out to be otherwise than it is known; not sooner than it may be
    /// looked at.
    pub(crate) async fn anew(&self, gateway: &Gateway, talk: &Talk) -> Arc<Catalog> {
        if let Some(known) = self.known() {
            sleep_until(known.since + LOOKED_AT_PAUSE).await;
        }
        self.looked_at(gateway, talk, LOOKED_AT_PAUSE).await
    }

    /// What there is under a name. As long as nothing is known, the first upstream that has it is
    /// enough: the others may be slow to tell.
    pub(crate) async fn find<T>(
        &self,
        gateway: &Gateway,
        talk: &Talk,
        find: impl Fn(&Catalog) -> Option<T>,
    ) -> Option<T> {
        if self.known().is_some() {
            return find(&*self.current(gateway, talk).await);
        }
        let mut early = self.early.subscribe();
        let (own, without_client) = (gateway.clone(), talk.without_client());
        // It goes on when somebody has found what it wants.
        let mut looking = tokio::spawn(async move { own.look_again(&without_client, FRESH).await });
        loop {
            let found = early.borrow_and_update().as_deref().and_then(&find);
            if found.is_some() {
                return found;
            }
            tokio::select! {
                _ = &mut looking => break,
                Ok(()) = early.changed() => {}
            }
        }
        self.known().and_then(|known| find(&known.catalog))
    }

    /// Looks at it, unless somebody did within this time.
    pub(crate) async fn looked_at(
        &self,
        gateway: &Gateway,
        talk: &Talk,
        age: Duration,
    ) -> Arc<Catalog> {
        let asked = Instant::now();
        let is_fresh = |known: &Known| !known.is_older_than(age);
        if let Some(known) = self.known().filter(is_fresh) {
            return known.catalog;
        }
        let _looking = self.looking.lock().await;
        let before = self.known();
        // Whoever waited takes what somebody found who began to look after that.
        let is_recent = |known: &&Known| is_fresh(known) || known.begun >= asked;
        if let Some(known) = before.as_ref().filter(is_recent) {
            return Arc::clone(&known.catalog);
        }
        // What changes while it is looked at is looked at again.
        if let Some(known) = &mut *self.known.write().unwrap_or_else(PoisonError::into_inner) {
            known.is_outdated = false;
        }
        let (begun, is_first) = (Instant::now(), before.is_none());
        let before = before.map(|known| known.catalog);
        let told = |early| {
            if is_first {
                self.early.send_replace(Some(Arc::new(early)));
            }
        };
        let catalog = Arc::new(Catalog::load(gateway, talk, before.as_deref(), told).await);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let is_outdated = known.as_ref().is_some_and(|known| known.is_outdated);
        let since = Instant::now();
        *known = Some(Known { catalog: Arc::clone(&catalog), begun, since, is_outdated });
        self.early.send_replace(None);
        catalog
    }
}

/// What upstreams have, under which names.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tools: HashMap<String, Tool>,
    /// Our own tools, which are not shown where there are such tools behind.
    own_tools: HashMap<String, Tool>,
    /// The tools whose name with that of their upstream is too long, by the shorter one.
    shortened: HashMap<String, (usize, String)>,
    prompts: HashMap<String, (usize, String)>,
    resources: HashMap<String, usize>,
    templates: Vec<(String, usize)>,
    /// Names that are not shown as they are: by list, upstream and own name.
    renamed: HashMap<(List, usize, String), String>,
    /// What is not shown at all.
    hidden: HashSet<(List, usize, String)>,
    /// What each upstream listed, without our own.
    parts: Vec<Part>,
    /// The names of upstreams, and the last one is ours.
    upstreams: Vec<String>,
}

/// Whether a list is all that there is: one that is very long is not read to its end.
type Whole = bool;

/// What one upstream listed.
#[derive(Clone, Debug, Default)]
struct Part {
    /// By list, in the order of [`List::ALL`].
    items: [Arc<Vec<Bytes>>; List::ALL.len()],
    /// Which of them it has ever given, and all of it.
    listed: [Option<Whole>; List::ALL.len()],
    /// Whether it said so just now; else it is what it said before, if it said anything.
    is_current: bool,
    /// Whether it said so to all whom the catalog is for, and not to one caller on a line of its own.
    is_for_all: bool,
}

impl Part {
    async fn load(
        gateway: &Gateway,
        talk: &Talk,
        which: usize,
        before: Option<&Catalog>,
    ) -> (usize, Self) {
        let look = |list: List| async move {
            let items = gateway.items(talk, which, list);
            if gateway.own() == 1 {
                // Its start has a limit of its own.
                gateway.line(talk, which).await.ok()?;
                return tokio::time::timeout(ALONE_TIME, items).await.ok().flatten();
            }
            gateway.soon(talk, which, list.method(), items).await.flatten()
        };
        let listed = join_all(List::ALL.map(look)).await;
        let known = before.and_then(|before| before.parts.get(which)).cloned();
        let is_known = known.is_some();
        let nothing = || Self { is_for_all: true, ..Self::default() };
        let mut part = known.unwrap_or_else(nothing);
        let (mut is_current, was_for_all) = (true, part.is_for_all);
        // One list that does not come takes nothing from the others.
        let places = part.items.iter_mut().zip(&mut part.listed);
        for ((items, is_whole), listed) in places.zip(listed) {
            match listed {
                Some(listed) => {
                    *items = Arc::new(listed.items);
                    *is_whole = Some(listed.is_whole);
                }
                None => is_current = false,
            }
        }
        part.is_current = is_current;
        // What is kept of before is for those whom it was for.
        part.is_for_all = gateway.lists_for_all(talk, which) && (was_for_all || is_current);
        if !is_current {
            let upstream = gateway.name_of(which);
            tracing::warn!(upstream, is_known, "it does not say what it has");
        }
        (which, part)
    }
}

/// A tool of an upstream.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    /// The upstream.
    pub(crate) which: usize,
    /// Its name there.
    pub(crate) name: String,
    /// What it promises of being called twice.
    pub(crate) class: ToolClass,
    /// The schema of its arguments.
    pub(crate) input: ToolSchema,
    /// The schema of its structured results.
    pub(crate) output: ToolSchema,
    /// Those of its arguments that go in headers as well.
    pub(crate) mirrored: Arc<Mirrored>,
}

/// A tool or prompt: the upstream, its name there, and what is listed of it.
type Item = (usize, String, Bytes);

impl Catalog {
    /// Asks all upstreams at once. Of one that does not answer, what was known `before` stays. What
    /// there is while some have not answered is `told`.
    async fn load(
        gateway: &Gateway,
        talk: &Talk,
        before: Option<&Self>,
        told: impl Fn(Self),
    ) -> Self {
        let mut looks: FuturesUnordered<_> =
            (0..gateway.own()).map(|which| Part::load(gateway, talk, which, before)).collect();
        let mut parts = vec![Part::default(); gateway.own()];
        while let Some((which, part)) = looks.next().await {
            if let Some(place) = parts.get_mut(which) {
                *place = part;
            }
            if !looks.is_empty() {
                told(Self::of(gateway, parts.clone()));
            }
        }
        Self::of(gateway, parts)
    }

    fn of(gateway: &Gateway, parts: Vec<Part>) -> Self {
        let upstreams = (0..=gateway.own()).map(|which| gateway.name_of(which).to_owned());
        let mut catalog = Self { parts, upstreams: upstreams.collect(), ..Self::default() };
        catalog.resolve(gateway);
        catalog
    }

    /// Whether every upstream said what it has.
    fn is_whole(&self) -> bool {
        self.parts.iter().all(|part| part.is_current)
    }

    /// The first upstream that has never said what it has of this.
    pub(crate) fn unlisted(&self, list: List) -> Option<usize> {
        self.all_unlisted(list).next()
    }

    /// All upstreams that have never listed anything of this.
    pub(crate) fn all_unlisted(&self, list: List) -> impl Iterator<Item = usize> {
        let at = List::ALL.iter().position(|known| *known == list).unwrap_or_default();
        let parts = self.parts.iter().enumerate();
        let is_unlisted = move |part: &Part| part.listed.get(at).is_none_or(Option::is_none);
        parts.filter(move |(_, part)| is_unlisted(part)).map(|(which, _)| which)
    }

    /// Whether what an upstream listed is all that it has of this.
    pub(crate) fn is_all(&self, which: usize, list: List) -> bool {
        let at = List::ALL.iter().position(|known| *known == list);
        let part = self.parts.get(which).zip(at);
        part.and_then(|(part, at)| part.listed.get(at)).is_none_or(|listed| *listed != Some(false))
    }

    /// What an upstream listed when it was asked last, for whoever asks: nothing, if that was said to
    /// one caller.
    pub(crate) fn listed_for_all(&self, which: usize, list: List) -> &[Bytes] {
        let is_for_all = self.parts.get(which).is_some_and(|part| part.is_for_all);
        if is_for_all { self.listed(which, list) } else { &[] }
    }

    /// What an upstream listed when it was asked last.
    fn listed(&self, which: usize, list: List) -> &[Bytes] {
        let at = List::ALL.iter().position(|known| *known == list);
        let part = self.parts.get(which).zip(at);
        part.and_then(|(part, at)| part.items.get(at)).map_or(&[], |items| items.as_slice())
    }

    fn resolve(&mut self, gateway: &Gateway) {
        let upstreams = 0..gateway.own();
        let listed = |list| upstreams.clone().map(move |which| (which, list));
        let (mut resources, mut templates) = (HashMap::new(), Vec::new());
        for (which, list) in listed(List::Resources) {
            for uri in self.listed(which, list).iter().filter_map(|item| member(item, "uri")) {
                resources.entry(uri).or_insert(which);
            }
        }
        for (which, list) in listed(List::Templates) {
            let names = self.listed(which, list).iter();
            templates.extend(
                names.filter_map(|item| member(item, "uriTemplate")).map(|name| (name, which)),
            );
        }
        let named = |list| {
            let mut named = Vec::new();
            for (which, list) in listed(list) {
                for item in self.listed(which, list) {
                    named.extend(member(item, "name").map(|name| (which, name, item.clone())));
                }
            }
            named
        };
        let (mut tools, mut prompts) = (named(List::Tools), named(List::Prompts));
        (self.resources, self.templates) = (resources, templates);
        self.add_own(gateway, &mut tools, &mut prompts);
        for (which, name, shown, item) in self.name(gateway, List::Tools, tools) {
            let tool = Tool::read(which, name, &item);
            self.shorten(gateway, &tool);
            self.tools.insert(shown, tool);
        }
        for (which, name, shown, _) in self.name(gateway, List::Prompts, prompts) {
            self.prompts.insert(shown, (which, name));
        }
    }

    /// Remembers the shorter name of a tool whose name with that of its upstream is too long.
    fn shorten(&mut self, gateway: &Gateway, tool: &Tool) {
        let upstream = gateway.name_of(tool.which);
        let shorter = prefixed(Named::Tool, upstream, &tool.name);
        if shorter != relayed_name(upstream, &tool.name) {
            self.shortened.insert(shorter, (tool.which, tool.name.clone()));
        }
    }

    /// Adds what is our own. It is the same for everybody here; who may use what is decided later.
    fn add_own(&mut self, gateway: &Gateway, tools: &mut Vec<Item>, prompts: &mut Vec<Item>) {
        let own = gateway.own();
        let is_hidden = |name: &str| {
            let handbacks = &gateway.common_catalogs().handbacks;
            !gateway.options().has_collections && handbacks.hide(name, own)
        };
        for definition in gateway.pipeline().registry().all() {
            let name = definition.name().to_owned();
            match definition.kind() {
                Kind::Tool => {
                    let tool = Tool::read(own, name.clone(), &Bytes::new());
                    self.own_tools.insert(name.clone(), tool);
                    match is_hidden(&name) {
                        true => drop(self.hidden.insert((List::Tools, own, name))),
                        false => tools.push((own, name, Bytes::new())),
                    }
                }
                Kind::Prompt => prompts.push((own, name, Bytes::new())),
                // Whatever upstreams list.
                Kind::Resource { .. } => drop(self.resources.insert(name, own)),
                Kind::Template { .. } => self.templates.push((name, own)),
                _ => {}
            }
        }
    }

    /// Gives everything the name that it is shown under.
    fn name(
        &mut self,
        gateway: &Gateway,
        list: List,
        named: Vec<Item>,
    ) -> Vec<(usize, String, String, Bytes)> {
        let own = gateway.own();
        let (hidden, named): (Vec<_>, Vec<_>) =
            named.into_iter().partition(|(which, name, _)| left_out(gateway, list, *which, name));
        self.hidden.extend(hidden.into_iter().map(|(which, name, _)| (list, which, name)));
        let mut owners: HashMap<String, BTreeSet<usize>> = HashMap::new();
        for (which, name, _) in &named {
            owners.entry(name.clone()).or_default().insert(*which);
        }
        let collides = |which: usize, name: &str| {
            let all = owners.get(name);
            let has_own = all.is_some_and(|all| all.contains(&own));
            let others = all.map_or(0, BTreeSet::len) - usize::from(has_own);
            which != own && (has_own || others > 1)
        };
        let kind = list.named().unwrap_or(Named::Tool);
        let prefixed = |which: usize, name: &str| prefixed(kind, gateway.name_of(which), name);
        let is_others = |which: usize, name: &str| {
            let mut others = (0..=own).filter(|other| *other != which);
            others.any(|other| is_relayed_name(gateway.name_of(other), name))
        };
        let given: HashSet<String> = named
            .iter()
            .filter(|(which, name, _)| collides(*which, name))
            .map(|(which, name, _)| prefixed(*which, name))
            .collect();
        let of_own = named.iter().filter(|(which, ..)| *which == own);
        let mut holders: HashMap<String, usize> =
            of_own.map(|(_, name, _)| (name.clone(), own)).collect();
        let mut out = Vec::new();
        for (which, name, item) in named {
            // What is called like something that goes by its server gives way as well.
            let is_changed = which != own
                && (collides(which, &name) || given.contains(&name) || is_others(which, &name));
            let shown = match is_changed {
                true => prefixed(which, &name),
                false => name.clone(),
            };
            if *holders.entry(shown.clone()).or_insert(which) != which {
                let upstream = gateway.name_of(which);
                let why = "another server has this name";
                if gateway.common_catalogs().faults.is_first(upstream, &name, why) {
                    tracing::warn!(upstream, name = shown, why, "left out");
                }
                self.hidden.insert((list, which, name));
                continue;
            }
            if shown != name {
                self.renamed.insert((list, which, name.clone()), shown.clone());
            }
            out.push((which, name, shown, item));
        }
        out
    }

    /// Whether something is not shown at all: its name would be another one's.
    pub(crate) fn is_hidden(&self, list: List, which: usize, name: &str) -> bool {
        self.hidden.contains(&(list, which, name.to_owned()))
    }

    /// The tool that is shown under this name. Else it may be one by the name of its upstream and its own:
    /// it was shown under that while another one had its name, and may be again.
    pub(crate) fn tool(&self, shown: &str) -> Option<&Tool> {
        let of_upstream = || self.by_upstream(shown).find_map(|(at, rest)| self.tool_of(at, rest));
        let of_shortened = || {
            let (which, name) = self.shortened.get(shown)?;
            self.tool_of(*which, name)
        };
        self.tools.get(shown).or_else(of_upstream).or_else(of_shortened)
    }

    /// What a name says that has the name of an upstream in it.
    fn by_upstream<'a>(&'a self, shown: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
        let upstreams = self.upstreams.iter().enumerate();
        upstreams.filter_map(move |(which, name)| Some((which, relayed_rest(name, shown)?)))
    }

    /// The tool that an upstream has under this name.
    pub(crate) fn tool_of(&self, which: usize, name: &str) -> Option<&Tool> {
        if which + 1 == self.upstreams.len() {
            return self.own_tools.get(name);
        }
        let shown = self.renamed(List::Tools, which, name).unwrap_or(name);
        self.tools.get(shown).filter(|tool| tool.which == which && tool.name == name)
    }

    /// The prompt that is shown under this name, or that has it as tools do: its upstream, and its
    /// name there.
    pub(crate) fn prompt(&self, shown: &str) -> Option<(usize, &str)> {
        let known = self.prompts.get(shown).map(|(which, name)| (*which, name.as_str()));
        known.or_else(|| {
            self.by_upstream(shown).find_map(|(which, rest)| self.prompt_of(which, rest))
        })
    }

    /// The prompt that an upstream has under this name.
    fn prompt_of(&self, which: usize, name: &str) -> Option<(usize, &str)> {
        let shown = self.renamed(List::Prompts, which, name).unwrap_or(name);
        let (at, own) = self.prompts.get(shown)?;
        (*at == which && own == name).then_some((*at, own.as_str()))
    }

    /// Whether it is known under which name something is shown. Resources have their own in any case.
    pub(crate) fn has_named(&self, list: List, which: usize, name: &str) -> bool {
        self.is_hidden(list, which, name)
            || match list {
                List::Tools => self.tool_of(which, name).is_some(),
                List::Prompts => self.prompt_of(which, name).is_some(),
                List::Resources | List::Templates => true,
            }
    }

    /// The name for something that was not there when it was looked at: not one that another one has,
    /// or may have. Nothing, if there is none.
    pub(crate) fn name_of_new(&self, list: List, which: usize, name: &str) -> Option<String> {
        let is_shown = |name: &str| match list {
            List::Tools => self.tools.contains_key(name),
            List::Prompts => self.prompts.contains_key(name),
            List::Resources | List::Templates => false,
        };
        let is_others = || self.by_upstream(name).any(|(other, _)| other != which);
        if !is_shown(name) && !is_others() {
            return Some(name.to_owned());
        }
        let together = prefixed(list.named()?, self.upstreams.get(which)?, name);
        (!is_shown(&together)).then_some(together)
    }

    /// The upstream that has a resource: by its list, else by the template that starts alike for
    /// longest. What a template has behind that says nothing of the resource, and where two start alike
    /// the first upstream has it.
    pub(crate) fn resource(&self, uri: &str) -> Option<usize> {
        let fixed = |template: &str| template.find('{').unwrap_or(template.len());
        let listed = self.resources.get(uri).copied();
        let own = self.upstreams.len().wrapping_sub(1);
        let is_of_own = |(template, which): &(String, usize)| {
            let fixed = template.get(..fixed(template)).unwrap_or_default();
            *which == own && !fixed.is_empty() && uri.starts_with(fixed)
        };
        if self.templates.iter().any(is_of_own) {
            return Some(own);
        }
        listed.or_else(|| {
            let alike = self.templates.iter().filter_map(|(template, which)| {
                let fixed = template.get(..fixed(template)).filter(|fixed| !fixed.is_empty())?;
                uri.starts_with(fixed).then_some((fixed.len(), *which))
            });
            let longest = alike.min_by_key(|(length, which)| (Reverse(*length), *which));
            longest.map(|(_, which)| which)
        })
    }

    /// Whether an upstream lists a resource, or a template that it may fit. One that begins anyhow fits
    /// everything.
    pub(crate) fn may_have(&self, which: usize, uri: &str) -> bool {
        let fixed = |template: &str| template.find('{').unwrap_or(template.len());
        let fits =
            |template: &str| template.get(..fixed(template)).is_some_and(|it| uri.starts_with(it));
        let mut templates = self.templates.iter();
        self.resources.get(uri) == Some(&which)
            || templates.any(|(template, of)| *of == which && fits(template))
    }

    /// The name that something is shown under, if it is not its own.
    pub(crate) fn renamed(&self, list: List, which: usize, name: &str) -> Option<&str> {
        self.renamed.get(&(list, which, name.to_owned())).map(String::as_str)
    }

    /// The name under which an upstream shows what it has under this one.
    pub(crate) fn shown_of<'a>(
        &'a self,
        list: List,
        which: usize,
        name: &'a str,
    ) -> Option<&'a str> {
        let is_there = match list {
            List::Tools => self.tool_of(which, name).is_some(),
            List::Prompts => self.prompt_of(which, name).is_some(),
            List::Resources | List::Templates => false,
        };
        is_there.then(|| self.renamed(list, which, name).unwrap_or(name))
    }
}

impl Tool {
    fn read(which: usize, name: String, item: &Bytes) -> Self {
        let (input, output) = (ToolSchema::input(item), ToolSchema::output(item));
        let raw = serde_json::from_slice::<&RawValue>(item).ok();
        let members = raw.and_then(|raw| Object::read(raw).ok()).unwrap_or_default();
        // A tree may take a hundred times the bytes of its text.
        let part = |name: &str, bytes_max: usize| {
            let json = members.get(name).filter(|json| json.len() <= bytes_max)?;
            serde_json::from_str::<Value>(json).ok()
        };
        let annotations = part("annotations", ANNOTATIONS_BYTES_MAX);
        let hint = |hint: &str| {
            annotations.as_ref().and_then(|all| all.get(hint)) == Some(&Value::Bool(true))
        };
        let class = if hint("readOnlyHint") {
            ToolClass::ReadOnly
        } else if hint("idempotentHint") {
            ToolClass::TakesKey
        } else {
            ToolClass::Unknown
        };
        let mirrored = Mirrored::read(part("inputSchema", SCHEMA_BYTES_MAX).as_ref());
        let mirrored = Arc::new(mirrored);
        Self { which, name, class, input, output, mirrored }
    }
}

/// A text in an object.
pub(crate) fn member(item: &[u8], name: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_slice(item).ok()?;
    Object::read(raw).ok()?.text(name).map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A catalog of tools: the name that is shown, the upstream, and the name there.
    fn tools(tools: &[(&str, usize, &str)]) -> Catalog {
        let mut catalog = Catalog {
            upstreams: ["up", "vp", OWN].map(str::to_owned).into(),
            ..Catalog::default()
        };
        for (shown, which, name) in tools {
            let tool = Tool::read(*which, (*name).to_owned(), &Bytes::from_static(b"{}"));
            if *which == 2 {
                catalog.own_tools.insert((*name).to_owned(), tool.clone());
            }
            catalog.tools.insert((*shown).to_owned(), tool);
            if shown != name {
                let key = (List::Tools, *which, (*name).to_owned());
                catalog.renamed.insert(key, (*shown).to_owned());
            }
        }
        catalog
    }

    #[test]
    fn a_tool_is_found_by_its_upstream_unless_another_one_is_shown_so() {
        let shown = [
            ("pay", 0, "pay"),
            ("vp__send", 1, "send"),
            ("vp__vp__x", 1, "vp__x"),
            ("vp__y", 1, "vp__y"),
            ("y", 1, "y"),
            ("read", 2, "read"),
        ];
        let catalog = tools(&shown);
        let found = |name: &str| catalog.tool(name).map(|tool| (tool.which, tool.name.as_str()));
        for (name, which, own) in shown {
            assert_eq!(found(name), Some((which, own)), "{name}");
        }
        assert_eq!(found("up__pay"), Some((0, "pay")));
        assert_eq!(found("handback__read"), Some((2, "read")));
        assert_eq!(found("vp__x"), None, "that is nobody's name for anything");
        for unknown in ["vp__pay", "send", "up__up__pay", "up__", "__pay"] {
            assert_eq!(found(unknown), None, "{unknown}");
        }
        assert!(catalog.tool_of(0, "up__pay").is_none(), "it has none of that name");
    }

    #[test]
    fn wound_a1_listing_makes_no_tree_of_a_large_definition() {
        let read = |annotations: Value, schema: Value| {
            let item = serde_json::json!({"annotations": annotations, "inputSchema": schema});
            Tool::read(0, "t".to_owned(), &Bytes::from(item.to_string()))
        };
        let hints = |fill: usize| serde_json::json!({"readOnlyHint": true, "x": "x".repeat(fill)});
        let schema = |fill: usize| {
            let argument = serde_json::json!({"x-mcp-header": "A", "x": "x".repeat(fill)});
            serde_json::json!({"properties": {"a": argument}})
        };
        let headers = |tool: &Tool| tool.mirrored.headers(Some(r#"{"a":"1"}"#)).unwrap().len();
        let small = read(hints(0), schema(0));
        assert_eq!((small.class, headers(&small)), (ToolClass::ReadOnly, 1));
        let large = read(hints(ANNOTATIONS_BYTES_MAX), schema(SCHEMA_BYTES_MAX));
        assert_eq!((large.class, headers(&large)), (ToolClass::Unknown, 0));
    }

    #[test]
    fn what_is_new_takes_nobodys_name() {
        let catalog =
            tools(&[("pay", 0, "pay"), ("vp__taken", 0, "vp__taken"), ("read", 2, "read")]);
        let named = |name: &str| catalog.name_of_new(List::Tools, 1, name);
        assert_eq!(named("new").as_deref(), Some("new"));
        assert_eq!(named("vp__new").as_deref(), Some("vp__new"));
        assert_eq!(named("pay").as_deref(), Some("vp__pay"));
        assert_eq!(named("read").as_deref(), Some("vp__read"));
        assert_eq!(named("up__x").as_deref(), Some("vp__up__x"));
        assert_eq!(named("handback__x").as_deref(), Some("vp__handback__x"));
        let catalog = tools(&[("pay", 0, "pay"), ("vp__pay", 1, "vp__pay")]);
        assert_eq!(catalog.name_of_new(List::Tools, 1, "pay"), None, "there is none left");
        assert!(catalog.has_named(List::Tools, 0, "pay"));
        assert!(!catalog.has_named(List::Tools, 1, "pay"));
    }

    #[test]
    fn a_resource_belongs_to_the_template_that_starts_alike_for_longest() {
        let templates = [
            ("db://{table}", 0),
            ("db://{table}{?what,has,nothing,to,do,with,it,and,is,only,long}", 1),
            ("db://orders/{id}", 2),
            ("{anything,whatsoever,of,any,kind}", 3),
            ("db://orders/{id}/{line}/{and,more}", 1),
        ];
        let templates: Vec<_> =
            templates.into_iter().map(|(text, which)| (text.to_owned(), which)).collect();
        let check = |templates: Vec<(String, usize)>| {
            let catalog = Catalog { templates, ..Catalog::default() };
            assert_eq!(catalog.resource("db://customers"), Some(0), "the first of two alike");
            assert_eq!(catalog.resource("db://orders/7"), Some(1), "the longest, and the first");
            assert_eq!(catalog.resource("file://x"), None, "what begins anyhow begins nothing");
        };
        check(templates.clone());
        // In whatever order they came.
        check(templates.into_iter().rev().collect());
    }
}
