//! What a name means that upstreams may have had otherwise before.
//!
//! Which upstream a plain name means depends on what the others have, and so on who has answered yet. A
//! call with a key is found whatever it means now: what a client calls `N` was something of that name
//! at some upstream, or, if `N` begins like one of them, what is called like the rest there. So there
//! are few places where it can be recorded, and it is looked for at all of them. If it is at another
//! one than the name means now, it gets its answer from there, and is not made.

use futures_util::future::join_all;
use handback_store::held::LookUp;
use handback_token::{ArgsFingerprint, Handle, Operation};
use handback_tool::{Candidates, Refusal, is_relayed_name, relayed_rest};
use handback_wire::bound::HELD_URI;
use serde_json::{Value, json};

use crate::catalog::{Catalog, OWN, Tool};
use crate::gateway::{Gateway, cause_of};
use crate::held_links::is_held_here;
use crate::late::started_since;
use crate::lists::{List, fault_of};
use crate::naming::{ALTERNATIVES_MAX, ambiguity};
use crate::options::ToolNames;
use crate::talk::Talk;
use crate::upstream::{Answer, LineError};
use crate::words::{self, INTERNAL_ERROR, INVALID_PARAMS};

/// Progress of a call whose tool may be that of a server that has not listed its tools yet.
pub(crate) const WAITS: &str = "waiting for servers to start and to list what they have";

/// Operations of a batch that are looked at for handles: as many as a configured batch can have.
const BATCH_MAX: usize = 1_000;

/// Where a call goes.
pub(crate) struct Target {
    pub(crate) which: usize,
    /// Its name there, if that is another one.
    pub(crate) renamed: Option<String>,
    pub(crate) tool: Option<Tool>,
    /// The name means something else now, or nothing: it was made there, and is not made again.
    pub(crate) is_recorded_only: bool,
}

impl Target {
    fn at(which: usize) -> Self {
        Self { which, renamed: None, tool: None, is_recorded_only: false }
    }

    /// Where something was made that is called `shown` here.
    pub(crate) fn recorded(which: usize, own_name: &str, shown: &str) -> Self {
        let renamed = (own_name != shown).then(|| own_name.to_owned());
        Self { renamed, is_recorded_only: true, ..Self::at(which) }
    }

    /// The name there of what is called `shown` here.
    pub(crate) fn own_name<'a>(&'a self, shown: &'a str) -> &'a str {
        self.renamed.as_deref().unwrap_or(shown)
    }

    /// The names of what is called `shown` here.
    pub(crate) fn names<'a>(&'a self, gateway: &'a Gateway, shown: &'a str) -> ToolNames<'a> {
        ToolNames { shown, own: self.own_name(shown), upstream: gateway.name_of(self.which) }
    }
}

impl Gateway {
    /// Where a call goes. What a caller may not use is refused later, like what is not there.
    pub(crate) async fn target(
        &self,
        talk: &Talk,
        operation: Operation,
        name: &str,
    ) -> Option<Target> {
        if operation == Operation::Read {
            let (held, owner) = (self.pipeline().held(), talk.caller.principal());
            let now_ms = self.pipeline().clock().now_ms();
            if is_held_here(held, owner, name, now_ms).await {
                return Some(Target::at(self.own()));
            }
            if let Some(which) = upstream_of_held(self, name) {
                return self.may_use_uri(talk, which, name).then(|| Target::at(which));
            }
            return self.has_resource(talk, name).await.map(Target::at);
        }
        let registry = self.pipeline().registry();
        if is_own_name(self, operation, name) {
            // Whatever upstreams have, and whether or not they have said so yet.
            let may_use = registry.named(&talk.caller, operation, name).is_some();
            return may_use.then(|| Target::at(self.own()));
        }
        let has_unlisted = self.has_unlisted();
        let straight = |which| {
            let fault = fault_of(self, list_of(operation)?, which, name);
            fault.is_none().then(|| Target::at(which))
        };
        // The common case is decided without a look at any list.
        if has_unlisted
            && registry.named(&talk.caller, operation, name).is_none()
            && !name.starts_with(OWN)
            && !is_relayed_name(self.name_of(0), name)
        {
            return straight(0);
        }
        let usable = |catalog: &Catalog| usable(self, talk, catalog, (operation, name));
        let target = match self.found(talk, usable).await {
            Some(target) => target,
            None if has_unlisted => return straight(0),
            // It may be new. What is denied is looked for as long as what is not there, so that the time does
            // not tell them apart, and is refused later, with a line in the audit.
            None => match usable(&*self.recent_catalog(talk).await) {
                Some(target) => target,
                None => match target_of_starting(self, talk, operation, name).await {
                    Some(target) => target,
                    None => listed(&*self.catalog(talk).await, operation, name)?,
                },
            },
        };
        // What is ours would be refused in words of its own.
        let is_found = target.which != self.own() || {
            let own = target.names(self, name).own;
            registry.named(&talk.caller, operation, own).is_some()
        };
        is_found.then_some(target)
    }

    /// Whether what is not listed may be there: the only server behind may have it. Where some may not
    /// use what others may, nothing is: the server would answer in its own words, by which what is
    /// denied could be told from what is not there.
    pub(crate) fn has_unlisted(&self) -> bool {
        self.own() == 1 && self.pipeline().registry().is_same_for_all()
    }

    /// What a name may have meant: upstreams, and the names there.
    fn meant(&self, operation: Operation, name: &str) -> Vec<(usize, String)> {
        let mut meant = Vec::new();
        for which in 0..self.own() {
            meant.push((which, name.to_owned()));
            // Resources have no other name.
            let rest = relayed_rest(self.name_of(which), name);
            meant.extend(
                rest.filter(|_| operation != Operation::Read).map(|rest| (which, rest.to_owned())),
            );
        }
        meant
    }

    /// Where a call with a key goes. If it was made elsewhere than its name means now, it gets its answer
    /// from there.
    pub(crate) async fn target_of_key(
        &self,
        talk: &Talk,
        (operation, name): (Operation, &str),
        (key, given): (&str, ArgsFingerprint),
        found: Option<Target>,
    ) -> Result<Option<Target>, Refusal> {
        let now = found.as_ref().map(|target| (target.which, target.own_name(name).to_owned()));
        let mut meant = self.meant(operation, name);
        meant.retain(|place| Some(place) != now.as_ref());
        if let Some(now) = now.filter(|(which, _)| *which != self.own()) {
            meant.insert(0, now);
        }
        let candidates = self.candidates(talk, operation, key, given, &meant);
        let recorded = self.pipeline().first_recorded(&candidates).await?;
        let place = recorded.and_then(|number| meant.get(number));
        Ok(match (place, found) {
            (Some((which, own_name)), Some(found))
                if *which == found.which && own_name == found.own_name(name) =>
            {
                Some(found)
            }
            (Some((which, own_name)), _) => Some(Target::recorded(*which, own_name, name)),
            (None, found) => found,
        })
    }

    /// Where else than at its target a call may be recorded. It is looked for there once more when it is
    /// recorded itself: of two that begin at once, to whom the name means different upstreams, one sees the
    /// other.
    pub(crate) fn elsewhere(
        &self,
        talk: &Talk,
        (operation, name): (Operation, &str),
        (key, given): (&str, ArgsFingerprint),
        target: &Target,
    ) -> Option<Candidates> {
        let mut meant = self.meant(operation, name);
        meant.retain(|(which, own)| *which != target.which || own != target.own_name(name));
        (!meant.is_empty()).then(|| self.candidates(talk, operation, key, given, &meant))
    }

    fn candidates(
        &self,
        talk: &Talk,
        operation: Operation,
        key: &str,
        given: ArgsFingerprint,
        meant: &[(usize, String)],
    ) -> Candidates {
        let place =
            |(which, name): &(usize, String)| (self.name_of(*which).to_owned(), name.clone());
        Candidates {
            principal: talk.caller.principal().clone(),
            operation,
            key: key.to_owned(),
            given,
            places: meant.iter().map(place).collect(),
        }
    }

    /// The answer about what nobody is known to have, and so about what is denied: as long as an
    /// upstream has never said what it has, it may have it.
    pub(crate) async fn unknown(&self, talk: &Talk, operation: Operation, name: &str) -> Answer {
        if let Some(answer) = ambiguous(self, talk, operation, name).await {
            return answer;
        }
        let away = away(self, talk, operation, name).await;
        let Some((sentence, reason)) = words::away(&away) else {
            return words::refusal(talk.era, &Refusal::NotFound);
        };
        match operation {
            Operation::Call => words::tool_error(talk.era, &sentence, reason),
            _ => words::refused(INTERNAL_ERROR, &sentence, Some(json!({"reason": reason}))),
        }
    }

    /// The first upstream that has never said what it has of this.
    pub(crate) async fn unlisted(&self, talk: &Talk, operation: Operation) -> Option<usize> {
        let lists = lists_of(operation);
        let catalog = self.catalog(talk).await;
        lists.iter().find_map(|list| catalog.unlisted(*list))
    }
}

/// The upstreams that may have a name and have never said what they have: the one that the name begins
/// like, or all. Each comes with the reason why it is not there. Where callers may use different things,
/// the first one has to do, without a reason: both would tell what is denied from what nobody has.
async fn away<'a>(
    gateway: &'a Gateway,
    talk: &Talk,
    operation: Operation,
    name: &str,
) -> Vec<(&'a str, LineError)> {
    let catalog = gateway.catalog(talk).await;
    let unlisted = |which: &usize| {
        lists_of(operation).iter().any(|list| catalog.all_unlisted(*list).any(|it| it == *which))
    };
    let mut all: Vec<usize> = (0..gateway.own()).filter(unlisted).collect();
    if !gateway.pipeline().registry().is_same_for_all() {
        let first = all.first().map(|which| gateway.name_of(*which));
        return first
            .map(|name| (name, LineError::Unreachable(String::new())))
            .into_iter()
            .collect();
    }
    let begins = |which: &usize| is_relayed_name(gateway.name_of(*which), name);
    if all.iter().any(begins) {
        all.retain(begins);
    }
    let reason = |which| (gateway.name_of(which), cause_of(gateway, talk, which));
    all.into_iter().map(reason).collect()
}

const fn lists_of(operation: Operation) -> &'static [List] {
    match operation {
        Operation::Call => &[List::Tools],
        Operation::Prompt => &[List::Prompts],
        _ => &[List::Resources, List::Templates],
    }
}

/// Waits for servers that are starting, and gives the target of a name that one of them may have.
async fn target_of_starting(
    gateway: &Gateway,
    talk: &Talk,
    operation: Operation,
    name: &str,
) -> Option<Target> {
    let catalog = gateway.catalog(talk).await;
    let unlisted = lists_of(operation).iter().flat_map(|list| catalog.all_unlisted(*list));
    // A name that begins like one server may be of that server only, or the own name of another one.
    let is_of_listed =
        (0..gateway.own()).any(|which| is_relayed_name(gateway.name_of(which), name));
    let may_have = |which: &usize| !is_of_listed || is_relayed_name(gateway.name_of(*which), name);
    if !came_up(gateway, talk, unlisted.filter(may_have).collect()).await {
        return None;
    }
    usable(gateway, talk, &*gateway.catalog_anew(talk).await, (operation, name))
}

/// Where a call goes, whatever its name means by now. Of a call about a value that is held here, that is our
/// own tool. A call with a key goes where it was made.
pub(crate) async fn target_of_call(
    gateway: &Gateway,
    talk: &Talk,
    what: (Operation, &str),
    (arguments, has_state): (Option<&str>, bool),
    key: Option<(&str, impl FnOnce() -> Result<ArgsFingerprint, Refusal>)>,
) -> Result<Option<Target>, Refusal> {
    let (operation, name) = what;
    let own = match operation {
        Operation::Call => own_instead(gateway, talk, name, arguments).await,
        _ => None,
    };
    let target = match own {
        Some(own) => Some(own),
        None => gateway.target(talk, operation, name).await,
    };
    // Whose the name is may have changed since the first try. The state of a round says whose it is.
    let may_be_elsewhere = !has_state
        && (gateway.own() > 1
            || target.as_ref().is_none_or(|target| target.which == gateway.own())
            || is_relayed_name(gateway.name_of(0), name));
    match key.filter(|_| may_be_elsewhere).map(|(key, given)| (key, given())) {
        Some((key, Ok(given))) => {
            Box::pin(gateway.target_of_key(talk, what, (key, given), target)).await
        }
        // Wrong arguments are refused later.
        _ => Ok(target),
    }
}

/// Returns `true` if our own reading tools are not offered: there are such tools behind, and nothing of our
/// own to read.
fn hides(gateway: &Gateway, name: &str) -> bool {
    let handbacks = &gateway.common_catalogs().handbacks;
    !gateway.options().has_collections && handbacks.hide(name, gateway.own())
}

/// The upstream that a URI of a held value belongs to which is not held here: the only Handback behind. With
/// several of them nobody can tell.
fn upstream_of_held(gateway: &Gateway, uri: &str) -> Option<usize> {
    let handbacks = &gateway.common_catalogs().handbacks;
    uri.starts_with(HELD_URI).then(|| handbacks.only(gateway.own())).flatten()
}

/// Returns `true` if this is the name of something of our own.
fn is_own_name(gateway: &Gateway, operation: Operation, name: &str) -> bool {
    let mut all = gateway.pipeline().registry().all();
    all.any(|own| own.name() == name && own.kind().operation() == operation)
        && !hides(gateway, name)
}

/// Our own tool, in the place of that of its name behind, where a call is about a value that is held here.
async fn own_instead(
    gateway: &Gateway,
    talk: &Talk,
    name: &str,
    arguments: Option<&str>,
) -> Option<Target> {
    if !hides(gateway, name) {
        return None;
    }
    let handles = handles_of(arguments?);
    if handles.is_empty() {
        return None;
    }
    let (held, owner) = (gateway.pipeline().held().clone(), talk.caller.principal().clone());
    let now_ms = gateway.pipeline().now().as_secs().saturating_mul(1000);
    let is_ours = move |handle: Handle| {
        let found = held.look_up(handle, &owner, now_ms);
        matches!(found, Ok(LookUp::Found(_) | LookUp::Expired))
    };
    let found = tokio::task::spawn_blocking(move || handles.into_iter().any(is_ours)).await;
    found.unwrap_or(false).then(|| Target::at(gateway.own()))
}

/// The handles that a request of a reading tool names: in its members, in its `params`, or in a batch.
fn handles_of(arguments: &str) -> Vec<Handle> {
    let request: Value = serde_json::from_str(arguments).unwrap_or_default();
    let batch = request.get("operations").and_then(Value::as_array);
    let all = std::iter::once(&request).chain(batch.into_iter().flatten().take(BATCH_MAX));
    let members = all.flat_map(|one| [Some(one), one.get("params")]).flatten();
    let named = members.filter_map(|one| one.get("element_type")?.as_str());
    named.filter_map(|it| Handle::parse(it.split('#').next().unwrap_or_default()).ok()).collect()
}

/// The list that has what is called so.
const fn list_of(operation: Operation) -> Option<List> {
    match operation {
        Operation::Call => Some(List::Tools),
        Operation::Prompt => Some(List::Prompts),
        _ => None,
    }
}

/// The refusal of a name that several servers have, with the names to use: those of what this caller may
/// use. None, if there are none.
pub(crate) async fn ambiguous(
    gateway: &Gateway,
    talk: &Talk,
    operation: Operation,
    name: &str,
) -> Option<Answer> {
    if gateway.own() < 2 {
        return None;
    }
    let catalog = gateway.catalog(talk).await;
    let mut names = alternatives(gateway, talk, &catalog, list_of(operation)?, name);
    let message = ambiguity(name, &names)?;
    names.truncate(ALTERNATIVES_MAX);
    let data = json!({"names": names, "reason": "ambiguous_name"});
    Some(words::refused(INVALID_PARAMS, &message, Some(data)))
}

/// The names under which servers show what they call `name`, if several do and this is none of them.
fn alternatives(
    gateway: &Gateway,
    talk: &Talk,
    catalog: &Catalog,
    list: List,
    name: &str,
) -> Vec<String> {
    let shown: Vec<_> = (0..gateway.own())
        .filter_map(|which| Some((which, catalog.shown_of(list, which, name)?)))
        .collect();
    if shown.len() < 2 || shown.iter().any(|(_, shown)| *shown == name) {
        return Vec::new();
    }
    let registry = gateway.pipeline().registry();
    let may_use = |(which, shown): &(usize, &str)| {
        registry.allows_relayed(&talk.caller, shown, name, gateway.name_of(*which))
    };
    shown.into_iter().filter(may_use).map(|(_, shown)| shown.to_owned()).collect()
}

/// Where something goes that is listed.
fn listed(catalog: &Catalog, operation: Operation, name: &str) -> Option<Target> {
    let renamed = |own_name: &str| (own_name != name).then(|| own_name.to_owned());
    if operation == Operation::Call {
        let tool = catalog.tool(name)?;
        let renamed = renamed(&tool.name);
        return Some(Target { renamed, tool: Some(tool.clone()), ..Target::at(tool.which) });
    }
    let (which, own_name) = catalog.prompt(name)?;
    Some(Target { renamed: renamed(own_name), ..Target::at(which) })
}

/// The same, if the caller may use it. Whether a caller may use what is ours is decided elsewhere.
fn usable(
    gateway: &Gateway,
    talk: &Talk,
    catalog: &Catalog,
    (operation, name): (Operation, &str),
) -> Option<Target> {
    let registry = gateway.pipeline().registry();
    let target = listed(catalog, operation, name)?;
    let ToolNames { shown, own, upstream } = target.names(gateway, name);
    let may_use = target.which == gateway.own()
        || registry.allows_relayed(&talk.caller, shown, own, upstream);
    may_use.then_some(target)
}

/// Waits for upstreams that are starting, of those that have never listed anything. Returns whether one of
/// them came up: a name that nobody has may be its own.
async fn came_up(gateway: &Gateway, talk: &Talk, unlisted: Vec<usize>) -> bool {
    let late = &gateway.common_catalogs().late;
    let is_hopeful = |which: &usize| !late.unstarted().contains(which);
    let starts = unlisted.into_iter().filter(is_hopeful).map(async |which| {
        let mut line = std::pin::pin!(gateway.line(talk, which));
        // One that is there, and only says nothing, is not starting.
        if futures_util::poll!(&mut line).is_ready() {
            return started_since(gateway, talk, which).await;
        }
        if line.await.is_err() {
            late.unstarted().insert(which);
            return false;
        }
        // It answers now what it did not answer before.
        late.forget(which);
        if let Some(session) = &talk.session {
            session.catalogs.late.forget(which);
        }
        true
    });
    join_all(starts).await.into_iter().any(|came_up| came_up)
}
