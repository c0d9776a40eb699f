//! What upstreams have, under which names.
//!
//! A name stays as it is, unless two upstreams have it: then each of them goes by the name of its
//! upstream, two underscores, and its own. Of our own tools and those of an upstream, ours give way.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use handback_mcp::wire::Object;
use handback_tool::ToolClass;
use jsonschema::Validator;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::gateway::Gateway;
use crate::lists::List;
use crate::talk::Talk;

/// Items of one list of one upstream that are looked at, at most.
pub(crate) const ITEMS_MAX: usize = 10_000;

/// What is between the name of an upstream and that of its tool.
const SEPARATOR: &str = "__";

/// The name that our own tools collide under.
pub(crate) const OWN: &str = "handback";

/// What upstreams have, as far as it was looked at.
#[derive(Debug, Default)]
pub(crate) struct Catalogs(RwLock<Option<Arc<Catalog>>>);

impl Catalogs {
    /// It is looked at anew when it is wanted the next time.
    pub(crate) fn forget(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn known(&self) -> Option<Arc<Catalog>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What there is for this client.
    pub(crate) async fn current(&self, gateway: &Gateway, talk: &Talk) -> Arc<Catalog> {
        if let Some(known) = self.known() {
            return known;
        }
        let loaded = Arc::new(Catalog::load(gateway, talk).await);
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&loaded));
        loaded
    }
}

/// What upstreams have, under which names.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    tools: HashMap<String, Tool>,
    prompts: HashMap<String, (usize, String)>,
    resources: HashMap<String, usize>,
    templates: Vec<(String, usize)>,
    /// Names that are not shown as they are: by list, upstream and own name.
    renamed: HashMap<(List, usize, String), String>,
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
    /// What its arguments fit.
    pub(crate) input: Option<Arc<Validator>>,
    /// What its structured results fit.
    pub(crate) output: Option<Arc<Validator>>,
}

impl Catalog {
    async fn load(gateway: &Gateway, talk: &Talk) -> Self {
        let mut catalog = Self::default();
        let own = gateway.own();
        let mut tools = Vec::new();
        let mut prompts = Vec::new();
        for which in 0..=own {
            tools.push(gateway.items(talk, which, List::Tools).await);
            prompts.push(gateway.items(talk, which, List::Prompts).await);
            for item in gateway.items(talk, which, List::Resources).await {
                if let Some(uri) = member(&item, "uri") {
                    catalog.resources.entry(uri).or_insert(which);
                }
            }
            for item in gateway.items(talk, which, List::Templates).await {
                if let Some(template) = member(&item, "uriTemplate") {
                    catalog.templates.push((template, which));
                }
            }
        }
        for (which, name, shown, item) in catalog.name(gateway, List::Tools, tools) {
            catalog.tools.insert(shown, Tool::read(which, name, &item));
        }
        for (which, name, shown, _) in catalog.name(gateway, List::Prompts, prompts) {
            catalog.prompts.insert(shown, (which, name));
        }
        catalog
    }

    /// Gives everything the name that it is shown under.
    fn name(
        &mut self,
        gateway: &Gateway,
        list: List,
        items: Vec<Vec<Bytes>>,
    ) -> Vec<(usize, String, String, Bytes)> {
        let own = gateway.own();
        let mut owners: HashMap<String, BTreeSet<usize>> = HashMap::new();
        let mut named = Vec::new();
        for (which, items) in items.into_iter().enumerate() {
            for item in items {
                let Some(name) = member(&item, "name") else { continue };
                owners.entry(name.clone()).or_default().insert(which);
                named.push((which, name, item));
            }
        }
        let mut out = Vec::new();
        for (which, name, item) in named {
            let all = owners.get(&name);
            let has_own = all.is_some_and(|all| all.contains(&own));
            let others = all.map_or(0, BTreeSet::len) - usize::from(has_own);
            let collides = if which == own { others > 0 } else { others > 1 };
            let shown = match collides {
                true => format!("{}{SEPARATOR}{name}", gateway.name_of(which)),
                false => name.clone(),
            };
            if shown != name {
                self.renamed.insert((list, which, name.clone()), shown.clone());
            }
            out.push((which, name, shown, item));
        }
        out
    }

    /// The tool that is shown under this name.
    pub(crate) fn tool(&self, shown: &str) -> Option<&Tool> {
        self.tools.get(shown)
    }

    /// The prompt that is shown under this name: its upstream, and its name there.
    pub(crate) fn prompt(&self, shown: &str) -> Option<(usize, &str)> {
        self.prompts.get(shown).map(|(which, name)| (*which, name.as_str()))
    }

    /// The upstream that has a resource: by its list, else by a template that starts alike.
    pub(crate) fn resource(&self, uri: &str) -> Option<usize> {
        let listed = self.resources.get(uri).copied();
        listed.or_else(|| {
            let fits = |template: &str| {
                let fixed = template.split('{').next().unwrap_or_default();
                !fixed.is_empty() && uri.starts_with(fixed)
            };
            let longest = self.templates.iter().filter(|(template, _)| fits(template));
            longest.max_by_key(|(template, _)| template.len()).map(|(_, which)| *which)
        })
    }

    /// The name that something is shown under, if it is not its own.
    pub(crate) fn renamed(&self, list: List, which: usize, name: &str) -> Option<&str> {
        self.renamed.get(&(list, which, name.to_owned())).map(String::as_str)
    }

    /// The name under which a tool of ours is shown.
    pub(crate) fn shown_own<'a>(&'a self, own: usize, name: &'a str) -> &'a str {
        self.renamed(List::Tools, own, name).unwrap_or(name)
    }
}

impl Tool {
    fn read(which: usize, name: String, item: &Bytes) -> Self {
        let item: Value = serde_json::from_slice(item).unwrap_or_default();
        let hint = |hint: &str| {
            item.get("annotations").and_then(|all| all.get(hint)) == Some(&Value::Bool(true))
        };
        let class = if hint("readOnlyHint") {
            ToolClass::ReadOnly
        } else if hint("idempotentHint") {
            ToolClass::TakesKey
        } else {
            ToolClass::Unknown
        };
        let schema = |member: &str| {
            let schema = item.get(member).filter(|schema| schema.is_object())?;
            jsonschema::validator_for(schema).ok().map(Arc::new)
        };
        let (input, output) = (schema("inputSchema"), schema("outputSchema"));
        Self { which, name, class, input, output }
    }
}

/// A text in an object.
pub(crate) fn member(item: &[u8], name: &str) -> Option<String> {
    let raw: &RawValue = serde_json::from_slice(item).ok()?;
    Object::read(raw).ok()?.text(name).map(std::borrow::Cow::into_owned)
}
