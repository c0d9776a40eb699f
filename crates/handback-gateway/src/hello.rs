//! What all servers behind say of themselves, as one.

use bytes::Bytes;
use futures_util::future::join_all;
use handback_identity::Caller;
use handback_mcp::Era;
use handback_tool::{Definition, Kind};
use serde_json::{Map, Value, json};

use crate::catalog::OWN;
use crate::gateway::Gateway;
use crate::talk::{Question, Talk};
use crate::upstream::{Answer, LineError, Raw};
use crate::words::{self, INTERNAL_ERROR, METHOD_NOT_FOUND};

impl Gateway {
    /// What an older client is greeted with.
    pub(crate) fn welcome_legacy(
        &self,
        caller: &Caller,
        opened: &[Result<Bytes, LineError>],
    ) -> Result<Bytes, Answer> {
        if let ([Ok(hello)], true) = (opened, self.is_direct()) {
            return Ok(hello.clone());
        }
        let own = self.own();
        let mut hellos = Vec::new();
        for (which, line) in opened.iter().enumerate() {
            match line {
                Ok(hello) => {
                    if which != own {
                        self.common_catalogs().handbacks.note(which, hello);
                    }
                    hellos.extend(self.said(caller, Era::Legacy, which, hello));
                }
                // It is there, and the caller may have no more of it: a session without it would
                // look like one of another server.
                Err(error @ LineError::OverQuota(_)) => {
                    return Err(words::unanswered(self.name_of(which), error));
                }
                // With one server behind, there is nothing without it.
                Err(error) if own == 1 && which == 0 => {
                    return Err(words::unanswered(self.name_of(which), error));
                }
                Err(error) => {
                    tracing::warn!(upstream = self.name_of(which), %error, "it is left out");
                }
            }
        }
        self.merged(hellos).ok_or_else(|| {
            words::refused(INTERNAL_ERROR, "no server behind this one can be reached", None)
        })
    }

    /// What a server says of itself; our own, only of what it has for this caller.
    fn said(
        &self,
        caller: &Caller,
        era: Era,
        which: usize,
        hello: &Bytes,
    ) -> Option<Map<String, Value>> {
        let mut hello: Map<String, Value> = serde_json::from_slice(hello).ok()?;
        if which != self.own() {
            return Some(hello);
        }
        let kinds: Vec<&Kind> =
            self.pipeline().registry().visible(caller).map(Definition::kind).collect();
        let has = |name: &str| match name {
            "tools" => kinds.iter().any(|kind| matches!(kind, Kind::Tool)),
            "prompts" => kinds.iter().any(|kind| matches!(kind, Kind::Prompt)),
            "resources" => kinds
                .iter()
                .any(|kind| matches!(kind, Kind::Resource { .. } | Kind::Template { .. })),
            // The client gets a log message after the restart of an upstream that has a session of its own.
            "logging" => era == Era::Legacy && has_unshared(self),
            // Calls of any upstream become tasks, for those who know them.
            "extensions" => era == Era::Modern,
            // The older era has no extensions: what a server says beyond the protocol is here.
            "experimental" => era == Era::Legacy,
            _ => false,
        };
        if let Some(Value::Object(capabilities)) = hello.get_mut("capabilities") {
            capabilities.retain(|name, _| has(name));
        }
        Some(hello)
    }

    /// What servers say of themselves, as one: the first one's words, and what any of them can do.
    fn merged(&self, hellos: Vec<Map<String, Value>>) -> Option<Bytes> {
        let mut hellos = hellos.into_iter();
        let mut first = hellos.next()?;
        let rest: Vec<_> = hellos.collect();
        let is_alone = self.own() == 1;
        let mut instructions: Vec<String> = Vec::new();
        let said = |hello: &Map<String, Value>| {
            hello.get("instructions").and_then(Value::as_str).map(str::to_owned)
        };
        instructions.extend(said(&first));
        let mut lowest = first.get("protocolVersion").cloned();
        for hello in &rest {
            if let Some(more) = hello.get("capabilities") {
                let capabilities = first.entry("capabilities").or_insert_with(|| json!({}));
                unite(capabilities, more);
            }
            if let (Some(low), Some(version)) = (&lowest, hello.get("protocolVersion"))
                && version.as_str() < low.as_str()
            {
                lowest = Some(version.clone());
            }
            instructions.extend(said(hello));
        }
        if let Some(lowest) = lowest {
            first.insert("protocolVersion".to_owned(), lowest);
        }
        if !is_alone {
            // Tasks of the older era go by their servers' own ids, and it would not be known whose.
            if let Some(Value::Object(capabilities)) = first.get_mut("capabilities") {
                capabilities.remove("tasks");
            }
            let info = json!({"name": OWN, "version": env!("CARGO_PKG_VERSION")});
            if first.contains_key("serverInfo") {
                first.insert("serverInfo".to_owned(), info);
            }
        }
        if !instructions.is_empty() {
            first.insert("instructions".to_owned(), instructions.join("\n\n").into());
        }
        // Of our own it says what this caller may use.
        if first.contains_key("cacheScope") {
            first.insert("cacheScope".to_owned(), "private".into());
        }
        Some(Value::Object(first).to_string().into())
    }

    /// What a newer client is told that asks what this is.
    pub(crate) async fn discover(&self, talk: &Talk, question: Question<'_>) -> Answer {
        let asked = (0..=self.own())
            .map(|which| self.pass_soon(talk, which, &question, question.params_bytes()));
        let answers = join_all(asked).await;
        let mut hellos = Vec::new();
        for (which, answer) in answers.into_iter().enumerate() {
            match answer {
                Answer::Result(raw) => {
                    let hello = raw.in_memory();
                    let said = |hello| self.said(&talk.caller, talk.era, which, hello);
                    hellos.extend(hello.and_then(said));
                }
                // The one server behind does not speak this era, or is not there.
                error if self.own() == 1 && which == 0 => return error,
                Answer::Error(_) => {}
            }
        }
        match self.merged(hellos) {
            Some(hello) => Answer::Result(Raw::Memory(hello)),
            None => words::refused(METHOD_NOT_FOUND, "no server behind this one knows it", None),
        }
    }
}

/// True if sessions have an upstream for themselves.
fn has_unshared(gateway: &Gateway) -> bool {
    (0..gateway.own()).any(|which| gateway.shared(which).is_none())
}

/// Adds what another one can do.
fn unite(all: &mut Value, more: &Value) {
    match (all, more) {
        (Value::Object(all), Value::Object(more)) => {
            for (name, value) in more {
                match all.get_mut(name) {
                    Some(known) => unite(known, value),
                    None => drop(all.insert(name.clone(), value.clone())),
                }
            }
        }
        (all @ Value::Bool(false), Value::Bool(true)) => *all = Value::Bool(true),
        _ => {}
    }
}
