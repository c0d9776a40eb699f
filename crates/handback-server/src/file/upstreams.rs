//! `[upstreams]` and `[gateway]`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use handback_gateway::bound::Budget;
use handback_gateway::reference::Allowed;
use handback_gateway::upstream::{Place, StartLimits, StderrUse, check_name, shown_url};
use handback_gateway::{Options, ToolRule};
use handback_identity::Glob;
use serde::{Deserialize, Serialize, Serializer};

use super::error::FileError;
use super::settings::Settings;
use super::values::{Parsed, Source, Within};
use crate::config::Upstream;

/// Bytes of a file with a secret at most.
const SECRET_BYTES_MAX: usize = 64 << 10;

/// The variable that has the password of databases.
const DATABASE_PASSWORD: &str = "PGPASSWORD";

/// `[upstreams.NAME]`: at a URL, or started by a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct UpstreamSettings {
    /// The endpoint.
    pub url: Option<Address>,
    /// Headers of every request to it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, Secret>,
    /// The program and its arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// What is added to its environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, Secret>,
    /// Whether all callers share one connection of the older era.
    #[serde(skip_serializing_if = "is_false")]
    pub shared: bool,
    /// Rule for the names of its tools and prompts.
    #[serde(skip_serializing_if = "is_lenient")]
    pub names: NamesName,
    /// Seconds that the start may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_s: Option<Within<1, 3_600>>,
}

/// Rule for the names of tools and prompts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum NamesName {
    /// Shows names of up to 128 characters without control characters.
    #[default]
    Lenient,
    /// Shows names in the alphabet of the protocol.
    Strict,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_lenient(names: &NamesName) -> bool {
    *names == NamesName::Lenient
}

impl UpstreamSettings {
    /// Makes paths that are relative to `folder` what they are to this process.
    pub(super) fn resolve(&mut self, folder: &Path) {
        let url = self.url.iter_mut().map(|Address(url)| url);
        let all = url.chain(self.headers.values_mut()).chain(self.env.values_mut());
        all.for_each(|secret| secret.resolve(folder));
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// A value that may be secret: `env:NAME`, `file:PATH`, or the value itself.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

impl Secret {
    /// Where it comes from; of the value itself, nothing.
    fn shown(&self) -> &str {
        if self.is_elsewhere() { &self.0 } else { "…" }
    }

    /// Whether it is not here, but where this says.
    fn is_elsewhere(&self) -> bool {
        self.0.starts_with("env:") || self.0.starts_with("file:")
    }

    /// The variable that has it, if one does.
    fn variable(&self) -> Option<&str> {
        self.0.strip_prefix("env:")
    }

    /// Makes the path of a file that is relative to `folder` what it is to this process.
    fn resolve(&mut self, folder: &Path) {
        if let Some(path) = self.0.strip_prefix("file:") {
            self.0 = format!("file:{}", folder.join(path).display());
        }
    }

    /// The value.
    fn value(&self, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
        if let Some(name) = self.variable() {
            return environment(name).ok_or_else(|| format!("there is no variable {name}"));
        }
        let Some(path) = self.0.strip_prefix("file:") else { return Ok(self.0.clone()) };
        let text = std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"))?;
        if text.len() > SECRET_BYTES_MAX {
            return Err(format!("{path} has more than {SECRET_BYTES_MAX} bytes"));
        }
        Ok(text.trim_end().to_owned())
    }
}

/// A URL, which may have a key in it: `env:NAME`, `file:PATH`, or the URL itself.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Address(Secret);

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.shown())
    }
}

impl Address {
    /// Where it comes from; of the URL itself, what has no key in it.
    fn shown(&self) -> String {
        let Self(url) = self;
        if url.is_elsewhere() { url.0.clone() } else { shown_url(&url.0) }
    }
}

/// `[gateway]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct GatewaySettings {
    /// How much of a result a client gets at once.
    pub budget: Option<Parsed<Budget>>,
    /// The same by the name that a client gives itself.
    pub clients: BTreeMap<String, Parsed<Budget>>,
    /// Images, audio and blobs that a client gets at once, as base64.
    pub media_budget: Option<Parsed<Budget>>,
    /// The same by the name that a client gives itself.
    pub client_media_budgets: BTreeMap<String, Parsed<Budget>>,
    /// What is different for some tools.
    pub tools: Vec<GatewayToolSettings>,
    /// Which upstream may get what another one gave.
    pub references: Vec<ReferenceSettings>,
    /// Bytes that references put into the arguments of one call at most.
    pub reference_bytes: Option<Within<1, 1_073_741_824>>,
}

/// `[[gateway.tools]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GatewayToolSettings {
    /// Their names, with `*` and `?`.
    pub tools: String,
    /// How much of a result a client gets at once.
    #[serde(default)]
    pub budget: Option<Parsed<Budget>>,
    /// Images, audio and blobs that a client gets at once, as base64.
    #[serde(default)]
    pub media_budget: Option<Parsed<Budget>>,
    /// How long a call may take.
    #[serde(default)]
    pub time_limit_s: Option<Within<1, 86_400>>,
    /// Whether the state of an unfinished exchange is good once only.
    #[serde(default)]
    pub single_use: Option<bool>,
    /// What is taken for another try besides a call with the same key.
    #[serde(default)]
    pub retry: Option<RetryName>,
    /// Whether a call becomes a task at once, for clients that know tasks.
    #[serde(default)]
    pub long: Option<bool>,
}

/// What is taken for another try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum RetryName {
    /// Nothing besides a call with the same key.
    Key,
    /// Also an identical call within a minute of one whose answer was not delivered.
    Identical,
}

/// `[[gateway.references]]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ReferenceSettings {
    /// The upstream that gave a value.
    pub from: String,
    /// The one that may get it.
    pub to: String,
}

impl Settings {
    /// The servers to stand before. `environment` is asked for variables that are named.
    ///
    /// # Errors
    ///
    /// [`FileError::Together`] if one is not described, or a secret is not there.
    pub fn upstreams(
        &self,
        environment: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<Upstream>, FileError> {
        let mut upstreams = Vec::new();
        for (name, settings) in &self.upstreams {
            let wrong = |why: String| FileError::together("upstreams", format!("{name}: {why}"));
            check_name(name).map_err(|bad| wrong(bad.to_string()))?;
            let values = |all: &BTreeMap<String, Secret>| {
                let value = |(name, secret): (&String, &Secret)| {
                    Ok((name.clone(), secret.value(environment)?))
                };
                all.iter().map(value).collect::<Result<Vec<_>, String>>()
            };
            let url = settings.url.as_ref().map(|Address(url)| url.value(environment));
            let url = url.transpose().map_err(wrong)?;
            let place = match (url, settings.command.as_slice()) {
                (Some(url), []) if url.starts_with("http://") || url.starts_with("https://") => {
                    let headers = values(&settings.headers).map_err(wrong)?;
                    Place::Http { url, headers }
                }
                (Some(_), []) => return Err(wrong("the URL is not of HTTP".to_owned())),
                (None, [program, args @ ..]) => Place::Command {
                    program: program.clone(),
                    args: args.to_vec(),
                    env: values(&settings.env).map_err(wrong)?,
                },
                _ => return Err(wrong("it has a `url` or a `command`".to_owned())),
            };
            let (name, is_shared) = (name.clone(), settings.shared);
            let mut start = StartLimits::default();
            if let Some(time) = settings.start_s {
                start.total = Duration::from_secs(time.get().into());
            }
            let stderr = StderrUse::Logged;
            upstreams.push(Upstream { name, place, is_shared, start, stderr });
        }
        Ok(upstreams)
    }

    /// The variables that have secrets in them: those that `env:NAME` names, and the password of
    /// databases, if there are any. What a server is started with has them only if it is to.
    #[must_use]
    pub fn secret_variables(&self) -> Vec<String> {
        let of_upstreams = self.upstreams.values().flat_map(|upstream| {
            let url = upstream.url.iter().map(|Address(url)| url);
            let all = url.chain(upstream.headers.values()).chain(upstream.env.values());
            all.filter_map(Secret::variable)
        });
        let is_database = |source: &Source| source.as_str().starts_with("postgres");
        let password = self.collections.values().any(is_database).then_some(DATABASE_PASSWORD);
        of_upstreams.chain(password).map(str::to_owned).collect()
    }

    /// How results of such servers are treated.
    ///
    /// # Errors
    ///
    /// [`FileError::Together`] if a pattern is none.
    pub fn gateway_options(&self) -> Result<Options, FileError> {
        let GatewaySettings { tools, references, reference_bytes, .. } = &self.gateway;
        let GatewaySettings { budget, clients, media_budget, client_media_budgets, .. } =
            &self.gateway;
        let defaults = Options::default();
        let rule = |rule: &GatewayToolSettings| {
            let pattern = Glob::new(&rule.tools)
                .map_err(|error| FileError::together("gateway.tools", error.to_string()))?;
            Ok(ToolRule {
                tools: pattern,
                budget: rule.budget.as_ref().map(|budget| *budget.get()),
                media_budget: rule.media_budget.as_ref().map(|budget| *budget.get()),
                time_limit: rule.time_limit_s.map(|time| Duration::from_secs(time.get().into())),
                single_use: rule.single_use,
                retry_identical: rule.retry.map(|retry| retry == RetryName::Identical),
                long: rule.long,
            })
        };
        let of_client = |(name, budget): (&String, &Parsed<Budget>)| (name.clone(), *budget.get());
        let direction = |reference: &ReferenceSettings| Allowed {
            from: reference.from.clone(),
            to: reference.to.clone(),
        };
        Ok(Options {
            budget: budget.as_ref().map_or(defaults.budget, |budget| *budget.get()),
            client_budgets: clients.iter().map(of_client).collect(),
            media_budget: media_budget.as_ref().map(|budget| *budget.get()),
            client_media_budgets: client_media_budgets.iter().map(of_client).collect(),
            tools: tools.iter().map(rule).collect::<Result<_, _>>()?,
            reference_bytes_max: reference_bytes
                .map_or(defaults.reference_bytes_max, |bytes| bytes.get().into()),
            directions: references.iter().map(direction).collect(),
            strict_names: self
                .upstreams
                .iter()
                .filter(|(_, settings)| settings.names == NamesName::Strict)
                .map(|(name, _)| name.clone())
                .collect(),
            ..defaults
        })
    }
}
