//! Lists of all upstreams, as one.

use bytes::Bytes;
use futures_util::future::join_all;
use handback_mcp::Era;
use handback_mcp::wire::Object;
use handback_token::{Outside, Reason};
use handback_tool::Kind;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::catalog::{Catalog, ITEMS_MAX, member};
use crate::gateway::{Gateway, cause_of};
use crate::hop::ListPlace;
use crate::naming::{self, Named};
use crate::talk::{Question, Talk};
use crate::upstream::{Answer, Ask, LineError, Raw, own_params};
use crate::words::{self, INVALID_PARAMS, METHOD_NOT_FOUND};

/// Pages of one list of one upstream that are looked at, at most: some may be empty.
const PAGES_MAX: usize = 1_000;

/// Bytes of such a list at most: every session of an older client has it in memory.
const BYTES_MAX: usize = 16 << 20;

/// A list of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl List {
    pub(crate) const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    pub(crate) fn of_method(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|list| list.method() == method)
    }

    pub(crate) const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The kind of its items, if they have names that are no URIs.
    pub(crate) const fn named(self) -> Option<Named> {
        match self {
            Self::Tools => Some(Named::Tool),
            Self::Prompts => Some(Named::Prompt),
            Self::Resources | Self::Templates => None,
        }
    }

    /// The member of a result that has the items.
    const fn items(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member of an item that it is told by.
    const fn name(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }
}

/// Items of a list.
#[derive(Debug, Default)]
pub(crate) struct Items {
    pub(crate) items: Vec<Bytes>,
    /// Whether there are no more.
    pub(crate) is_whole: bool,
}

impl Gateway {
    /// All items of a list of one upstream, as far as they are looked at. One that has no such list has
    /// none; nothing, if it cannot be asked.
    pub(crate) async fn items(&self, talk: &Talk, which: usize, list: List) -> Option<Items> {
        let (mut items, mut is_whole) = (Vec::new(), false);
        let mut cursor: Option<String> = None;
        let line = self.line(talk, which).await.ok()?;
        if let Some(hello) = line.hello() {
            self.common_catalogs().handbacks.note(which, hello);
        }
        let mut bytes = 0;
        for _ in 0..PAGES_MAX {
            let ask = Ask {
                method: list.method().to_owned(),
                params: Some(own_params(line.era(), cursor.as_deref())),
                headers: Vec::new(),
                heard: None,
                time_limit: None,
                subscription: None,
                owner: None,
            };
            let Answer::Result(result) = line.ask(ask).await.ok()? else {
                // It has no such list.
                is_whole = cursor.is_none();
                break;
            };
            let Raw::Memory(result) = result else { break };
            bytes += result.len();
            let Ok(raw) = serde_json::from_slice::<&RawValue>(&result) else { break };
            let Ok(page) = Object::read(raw) else { break };
            let Some(found) = page.get(list.items()) else { break };
            let Ok(found) = serde_json::from_str::<Vec<&RawValue>>(found) else { break };
            items.extend(found.iter().map(|item| Bytes::copy_from_slice(item.get().as_bytes())));
            if items.len() >= ITEMS_MAX || bytes >= BYTES_MAX {
                break;
            }
            match page.text("nextCursor") {
                Some(next) if cursor.as_deref() != Some(&*next) => cursor = Some(next.into_owned()),
                next => {
                    is_whole = next.is_none();
                    break;
                }
            }
        }
        Some(Items { items, is_whole })
    }

    /// A page of a list.
    pub(crate) async fn list(&self, talk: &Talk, question: &Question<'_>, list: List) -> Answer {
        let params = question.params.map(Object::read);
        let Ok(params) = params.transpose() else {
            return words::refused(INVALID_PARAMS, "the parameters are no object", None);
        };
        let mut params = params.unwrap_or_default();
        let place = match params.remove("cursor") {
            None => Place { which: 0, cursor: None },
            Some(cursor) => {
                let cursor = serde_json::from_str::<String>(&cursor).unwrap_or_default();
                let opened = self.hop(&talk.caller).open_cursor(list.items(), &cursor).await;
                let place = opened.and_then(|ListPlace { upstream, cursor }| {
                    // The upstream may be gone since.
                    let which = self.number_of(&upstream).ok_or(Reason::Expired)?;
                    Ok(Place { which, cursor })
                });
                match place {
                    Ok(place) => place,
                    Err(reason) => return refused_cursor(reason),
                }
            }
        };
        if let Some(cursor) = &place.cursor {
            params.set("cursor", Value::from(cursor.as_str()).to_string());
        }
        let is_empty = params.names().next().is_none();
        let asked = (!is_empty).then(|| Bytes::from(params.to_json()));
        let answer = Box::pin(self.pass_soon(talk, place.which, question, asked.clone())).await;
        let refused = |why: &LineError| words::unanswered(self.name_of(place.which), why);
        let result = match answer {
            Answer::Result(Raw::Memory(result)) if is_page(list, &result) => result,
            Answer::Result(Raw::File { .. }) => return refused(&LineError::TooLarge),
            Answer::Error(error) if is_unknown_method(&error) => {
                // Held results are resources, and our tools are always there.
                let may_be_none = list == List::Prompts && place.cursor.is_none();
                let others = (question, asked.as_ref(), Some(place.which));
                if may_be_none
                    && !own_prompts(self, talk)
                    && is_unsupported(self, talk, others).await
                {
                    return Answer::Error(error);
                }
                page_of(talk.era, list, &[])
            }
            // It is away, and the others are not: it has what it had. What it had for another caller
            // alone is nothing to this one.
            Answer::Error(_) | Answer::Result(_) if self.own() > 1 && place.cursor.is_none() => {
                let catalog = self.catalog(talk).await;
                let page = page_of(talk.era, list, catalog.listed_for_all(place.which, list));
                with_cause(self, talk, place.which, page)
            }
            Answer::Result(_) => return refused(&UNREADABLE),
            other @ Answer::Error(_) => return other,
        };
        match self.merge(talk, list, &place, &result).await {
            Some(Ok(json)) => Answer::Result(Raw::Memory(json)),
            Some(Err(answer)) => answer,
            None => Answer::Result(Raw::Memory(result)),
        }
    }

    /// The page of an upstream as the client gets it; nothing, if it is that of the upstream.
    async fn merge(
        &self,
        talk: &Talk,
        list: List,
        place: &Place,
        result: &Bytes,
    ) -> Option<Result<Bytes, Answer>> {
        let mut catalog = self.catalog_of_lists(talk).await;
        let raw: &RawValue = serde_json::from_slice(result).ok()?;
        let mut page = Object::read(raw).ok()?;
        let items: Vec<&RawValue> = serde_json::from_str(page.get(list.items())?).ok()?;
        let is_new = |item: &&RawValue| {
            let name = member(item.get().as_bytes(), list.name());
            name.is_some_and(|name| !catalog.has_named(list, place.which, &name))
        };
        // Under which names new ones are shown depends on what the others have by now. Where what is
        // known is not all that this caller is shown, it is looked at less often.
        if items.iter().any(is_new) {
            let is_all = catalog.is_all(place.which, list) && self.lists_for_all(talk, place.which);
            catalog = match is_all {
                true => self.catalog_anew(talk).await,
                false => self.recent_catalog(talk).await,
            };
        }
        let count = items.len();
        let mut shown: Vec<Option<String>> = Vec::new();
        let mut is_changed = false;
        for item in &items {
            match self.shown(talk, list, place.which, item, &catalog) {
                Shown::AsIs => shown.push(None),
                Shown::Renamed(json) => {
                    is_changed = true;
                    shown.push(Some(json));
                }
                Shown::Hidden => {
                    is_changed = true;
                    shown.push(Some(String::new()));
                }
            }
        }
        let next = page.text("nextCursor").map(std::borrow::Cow::into_owned);
        let own = self.own();
        let next = match next {
            Some(cursor) => Some((place.which, Some(cursor))),
            None if place.which + 1 < own => Some((place.which + 1, None)),
            None => None,
        };
        let next = next.map(|(which, cursor)| {
            let upstream = self.name_of(which).to_owned();
            ListPlace { upstream, cursor }
        });
        let mut texts: Vec<String> = Vec::new();
        if next.is_none() && place.which < own {
            for item in self.items(talk, own, list).await.unwrap_or_default().items {
                let Ok(raw) = serde_json::from_slice::<&RawValue>(&item) else { continue };
                match self.shown(talk, list, own, raw, &catalog) {
                    Shown::AsIs => texts.push(raw.get().to_owned()),
                    Shown::Renamed(json) => texts.push(json),
                    Shown::Hidden => {}
                }
            }
        }
        // Others may see another one.
        let is_own = is_changed
            || !texts.is_empty()
            || next.is_some()
            || !self.pipeline().registry().is_same_for_all();
        let is_public = page.text("cacheScope").is_some_and(|scope| scope != "private");
        let becomes_private = is_own && is_public;
        if !is_changed && texts.is_empty() && next.is_none() && !becomes_private {
            return None;
        }
        if is_changed || !texts.is_empty() {
            let mut all: Vec<&str> = Vec::with_capacity(count + texts.len());
            for (item, shown) in items.iter().zip(&shown) {
                match shown {
                    None => all.push(item.get()),
                    Some(json) if json.is_empty() => {}
                    Some(json) => all.push(json),
                }
            }
            all.extend(texts.iter().map(String::as_str));
            let json = format!("[{}]", all.join(","));
            page.set(list.items(), json);
        }
        match next {
            None => drop(page.remove("nextCursor")),
            Some(next) => match self.hop(&talk.caller).seal_cursor(list.items(), &next).await {
                Ok(cursor) => page.set("nextCursor", Value::from(cursor).to_string()),
                Err(refusal) => return Some(Err(words::refusal(talk.era, &refusal))),
            },
        }
        if becomes_private {
            page.set("cacheScope", "\"private\"".to_owned());
        }
        Some(Ok(page.to_json().into()))
    }

    fn shown(
        &self,
        talk: &Talk,
        list: List,
        which: usize,
        item: &RawValue,
        catalog: &Catalog,
    ) -> Shown {
        // One reader may take another member for its name.
        let Some(name) = member(item.get().as_bytes(), list.name()) else {
            without_name(self, list, which);
            return Shown::Hidden;
        };
        if catalog.is_hidden(list, which, &name) || left_out(self, list, which, &name) {
            return Shown::Hidden;
        }
        let new = match catalog.has_named(list, which, &name) {
            true => None,
            false => match catalog.name_of_new(list, which, &name) {
                Some(new) => Some(new).filter(|new| *new != name),
                None => return Shown::Hidden,
            },
        };
        if new.is_some() {
            // Who calls it by this name is to find it.
            self.forget(talk);
        }
        let renamed = catalog.renamed(list, which, &name).or(new.as_deref());
        let registry = self.pipeline().registry();
        // What is ours was chosen for the caller before.
        let (shown, upstream) = (renamed.unwrap_or(&name), self.name_of(which));
        if which != self.own() && !registry.allows_relayed(&talk.caller, shown, &name, upstream) {
            return Shown::Hidden;
        }
        let Some(renamed) = renamed else { return Shown::AsIs };
        let Ok(mut object) = Object::read(item) else { return Shown::Hidden };
        object.set(list.name(), Value::from(renamed).to_string());
        Shown::Renamed(object.to_json())
    }
}

/// Characters of a name that is left out, in the log.
const LOGGED_CHARS: usize = 64;

/// The reason why something of an upstream is not shown, if there is one.
pub(crate) fn fault_of(
    gateway: &Gateway,
    list: List,
    which: usize,
    name: &str,
) -> Option<&'static str> {
    if which == gateway.own() {
        return None;
    }
    let is_strict = gateway.options().strict_names.contains(gateway.name_of(which));
    naming::fault(list.named()?, name, is_strict)
}

/// Returns `true` if something that an upstream lists is left out. The first time it is logged.
pub(crate) fn left_out(gateway: &Gateway, list: List, which: usize, name: &str) -> bool {
    let Some(why) = fault_of(gateway, list, which, name) else { return false };
    let upstream = gateway.name_of(which);
    let shown: String = name.chars().take(LOGGED_CHARS).collect();
    if gateway.common_catalogs().faults.is_first(upstream, &shown, why) {
        // Characters that cannot be seen are escaped.
        tracing::warn!(upstream, name = ?shown, list = list.method(), why, "left out");
    }
    true
}

/// Logs, the first time, that an upstream lists something whose name cannot be read.
fn without_name(gateway: &Gateway, list: List, which: usize) {
    let upstream = gateway.name_of(which);
    let why = "it has no name, or two";
    if gateway.common_catalogs().faults.is_first(upstream, list.method(), why) {
        tracing::warn!(upstream, list = list.method(), why, "left out");
    }
}

/// True if a page of a list can be read by every reader in the same way: an object with its items, and with
/// no member twice.
fn is_page(list: List, result: &[u8]) -> bool {
    let Ok(raw) = serde_json::from_slice::<&RawValue>(result) else { return false };
    let Ok(page) = Object::read(raw) else { return false };
    let Some(items) = page.get(list.items()) else { return false };
    serde_json::from_str::<Vec<&RawValue>>(items).is_ok()
}

/// The reason why a page is refused that [`is_page`] is false for: no rule for names can be applied to it.
const UNREADABLE: LineError = LineError::Protocol("its list cannot be read");

/// A place in the list of an upstream.
struct Place {
    which: usize,
    cursor: Option<String>,
}

enum Shown {
    AsIs,
    Renamed(String),
    Hidden,
}

/// A whole list, as one page.
fn page_of(era: Era, list: List, items: &[Bytes]) -> Bytes {
    let items: Vec<&str> = items.iter().filter_map(|item| std::str::from_utf8(item).ok()).collect();
    let kind = match era {
        Era::Modern => r#","resultType":"complete","ttlMs":0,"cacheScope":"private""#,
        _ => "",
    };
    format!(r#"{{"{}":[{}]{kind}}}"#, list.items(), items.join(",")).into()
}

/// A page of an upstream that is not there, with the reason in its `_meta`. Where callers may use different
/// things, some of them may not know of the upstream.
fn with_cause(gateway: &Gateway, talk: &Talk, which: usize, page: Bytes) -> Bytes {
    let is_for_all = gateway.pipeline().registry().is_same_for_all();
    let Some(members) = page.strip_suffix(b"}").filter(|_| is_for_all) else { return page };
    let upstream = gateway.name_of(which);
    let (message, _) = words::unanswered_words(upstream, &cause_of(gateway, talk, which));
    let meta = json!({UNAVAILABLE_META: [{"upstream": upstream, "message": message}]});
    [members, br#","_meta":"#, meta.to_string().as_bytes(), b"}"].concat().into()
}

/// The member of `_meta` of a page with the upstreams whose part of the list is missing or old.
const UNAVAILABLE_META: &str = "dev.handback/unavailable";

/// True if every upstream, but for one that said so already, answers a request with -32601. One that
/// cannot be reached now may support the method.
pub(crate) async fn is_unsupported(
    gateway: &Gateway,
    talk: &Talk,
    (question, params, except): (&Question<'_>, Option<&Bytes>, Option<usize>),
) -> bool {
    let others = (0..gateway.own()).filter(|which| Some(*which) != except);
    let asked = others.map(|which| gateway.pass_soon(talk, which, question, params.cloned()));
    let is_unknown = |answer: &Answer| match answer {
        Answer::Error(error) => is_unknown_method(error),
        Answer::Result(_) => false,
    };
    join_all(asked).await.iter().all(is_unknown)
}

/// True if there are prompts of our own for the caller.
fn own_prompts(gateway: &Gateway, talk: &Talk) -> bool {
    let mut listed = gateway.pipeline().registry().visible(&talk.caller);
    listed.any(|it| matches!(it.kind(), Kind::Prompt))
}

/// True if an error says that there is no such method.
fn is_unknown_method(error: &[u8]) -> bool {
    let error: Value = serde_json::from_slice(error).unwrap_or_default();
    error.get("code").and_then(Value::as_i64) == Some(METHOD_NOT_FOUND.into())
}

fn refused_cursor(reason: Reason) -> Answer {
    let outside = reason.outside();
    let message = match outside {
        Outside::Expired => "expired cursor",
        _ => "invalid cursor",
    };
    words::refused(INVALID_PARAMS, message, Some(json!({"reason": outside.as_str()})))
}
