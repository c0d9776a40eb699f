//! Parameters of a request, checked against the operation table in the order of the
//! specification: sizes, required, types, unknown ones, constraints; then which of them go together.

use handback_token::{ArgsFingerprint, canonical_json};
use serde_json::{Map, Value, json};

use super::failure::{Code, Failure, shortened};
use super::settings::{PagePreset, Settings};
use super::sort;
use super::table::{DEFAULT_POLL_MS, FREE, Operation, Parameter, ParameterKind, Table};
use crate::filter::json_type;
use crate::schema::Schema;

/// The parameters of one operation: known ones only, of the right types. A null stands for an
/// absent one.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    pub(crate) operation: Operation,
    /// An object.
    values: Value,
}

impl Params {
    /// Resolves and checks a request.
    pub(crate) fn resolve(request: &Value, table: &Table) -> Result<Self, Failure> {
        let Value::Object(request) = request else {
            return Err(Failure::invalid_type("request", "object", json_type(request)));
        };
        let operation = operation(request)?;
        let inner = match request.get("params") {
            None | Some(Value::Null) => &Map::new(),
            Some(Value::Object(params)) => params,
            Some(other) => return Err(Failure::invalid_type("params", "object", json_type(other))),
        };
        let parameters = table.parameters(operation);
        let given = Given::of(request, inner, parameters);
        if operation != Operation::Introspect {
            given
                .known
                .iter()
                .try_for_each(|(_, known, value)| sort::check_size(known.name, value))?;
        }
        for parameter in parameters.iter().filter(|parameter| parameter.required) {
            let is_given = |name| given.known.iter().any(|(_, known, _)| known.name == name);
            if !is_given(parameter.name) && !parameter.unless.is_some_and(is_given) {
                return Err(Failure::missing_param(parameter.name, operation.name()));
            }
        }
        given.known.iter().try_for_each(|(_, parameter, value)| parameter.check_type(value))?;
        given.reject_unknown(operation, parameters)?;
        let mut values = Map::new();
        for (_, parameter, value) in given.known {
            parameter.check_constraint(value)?;
            values.insert(parameter.name.to_owned(), value.clone());
        }
        Ok(Self { operation, values: Value::Object(values) })
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Those of these that are given.
    pub(crate) fn copied(&self, names: &[&str]) -> Map<String, Value> {
        let copied = |name: &&str| Some(((*name).to_owned(), self.get(name)?.clone()));
        names.iter().filter_map(copied).collect()
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    pub(crate) fn flag(&self, name: &str) -> Option<bool> {
        self.get(name).and_then(Value::as_bool)
    }

    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.get(name).and_then(integer)
    }

    /// What a cursor is bound to besides its collection's name: the operation, all parameters but
    /// those that may differ from page to page, and what the collection is. This is the fingerprint
    /// of the object with these three as members. A snapshot is what it is whatever becomes of the
    /// collection: without a schema, two.
    pub(crate) fn fingerprint(&self, schema: Option<&Schema>) -> ArgsFingerprint {
        let params = canonical_json(&self.values, &FREE);
        let Some(schema) = schema else {
            return ArgsFingerprint::of_canonical(&[
                br#"{"operation":""#,
                self.operation.name().as_bytes(),
                br#"","params":"#,
                &params,
                b"}",
            ]);
        };
        // In the order of canonical JSON.
        ArgsFingerprint::of_canonical(&[
            br#"{"collection":"#,
            schema.canonical_identity(),
            br#","operation":""#,
            self.operation.name().as_bytes(),
            br#"","params":"#,
            &params,
            b"}",
        ])
    }

    /// Which page is asked for.
    pub(crate) fn page(&self, settings: &Settings) -> Result<PageRequest, Failure> {
        let preset = self.preset(settings)?;
        let ask = self.ask(preset.page_size.unwrap_or(settings.default_page_size) as u64)?;
        let wait_ms = self.wait_ms(&ask)?;
        let snapshot = self.flag("snapshot").unwrap_or(false);
        if snapshot && !matches!(ask, Ask::Forward { .. } | Ask::Backward { .. }) {
            return Err(Failure::combination(
                "Cannot use 'snapshot' with page numbers or offsets",
                "conflicting parameters",
                &self.given(&["snapshot", "page", "page_size", "limit", "offset"]),
                "Use 'first' and 'after' to walk a snapshot",
            ));
        }
        Ok(PageRequest {
            ask,
            wait_ms,
            snapshot,
            edges: self.flag("include_edges").or(preset.include_edges).unwrap_or(false),
            total: self.flag("include_total").or(preset.include_total),
        })
    }

    fn preset(&self, settings: &Settings) -> Result<PagePreset, Failure> {
        let Some(name) = self.text("page_preset") else { return Ok(PagePreset::default()) };
        settings.presets.get(name).copied().ok_or_else(|| {
            let names: Vec<_> = settings.presets.keys().map(String::as_str).collect();
            let expected = format!("one of {}", names.join(", "));
            Failure::invalid_type("page_preset", &expected, "unknown name")
        })
    }

    fn ask(&self, default_size: u64) -> Result<Ask, Failure> {
        let cursor = self.given(&["first", "after", "last", "before"]);
        let numbered = self.given(&["page", "page_size"]);
        let offset = self.given(&["limit", "offset"]);
        let styles = [&cursor, &numbered, &offset];
        if styles.iter().filter(|style| !style.is_empty()).count() > 1 {
            return Err(Failure::combination(
                "Cannot mix cursors, page numbers and offsets",
                "conflicting parameters",
                &[cursor, numbered, offset].concat(),
                "Use one style: 'first' and 'after', or 'page' and 'page_size', or 'limit' and \
                 'offset'",
            ));
        }
        if !numbered.is_empty() {
            return Ok(Ask::Numbered {
                page: self.size("page").unwrap_or(1),
                size: self.size("page_size").unwrap_or(default_size),
            });
        }
        if !offset.is_empty() {
            return Ok(Ask::Offset {
                offset: self.size("offset").unwrap_or(0),
                limit: self.size("limit").unwrap_or(default_size),
            });
        }
        check_combination(&cursor)?;
        if let Some(size) = self.size("last") {
            return Ok(Ask::Backward { size, before: self.text("before").map(str::to_owned) });
        }
        let size = self.size("first").unwrap_or(default_size);
        Ok(Ask::Forward { size, after: self.text("after").map(str::to_owned) })
    }

    fn wait_ms(&self, ask: &Ask) -> Result<Option<u64>, Failure> {
        let interval = self.get("poll_interval_ms").and_then(integer);
        if self.flag("stream") != Some(true) {
            if interval.is_some() {
                return Err(Failure::combination(
                    "Cannot use 'poll_interval_ms' without 'stream'",
                    "incomplete parameters",
                    &["poll_interval_ms"],
                    "Add 'stream': true",
                ));
            }
            return Ok(None);
        }
        if !matches!(ask, Ask::Forward { .. }) || self.flag("snapshot") == Some(true) {
            return Err(Failure::combination(
                "Cannot use 'stream' except going forward with 'first' and 'after'",
                "conflicting parameters",
                &self.given(&[
                    "stream",
                    "snapshot",
                    "last",
                    "before",
                    "page",
                    "page_size",
                    "limit",
                    "offset",
                ]),
                "Use 'first' and 'after' with 'stream'",
            ));
        }
        Ok(Some(interval.unwrap_or(DEFAULT_POLL_MS)))
    }

    pub(crate) fn given(&self, names: &[&'static str]) -> Vec<&'static str> {
        names.iter().copied().filter(|name| self.get(name).is_some()).collect()
    }
}

/// A page that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PageRequest {
    pub(crate) ask: Ask,
    pub(crate) wait_ms: Option<u64>,
    pub(crate) snapshot: bool,
    pub(crate) edges: bool,
    pub(crate) total: Option<bool>,
}

/// Which page, in the style of the request; sizes as they were asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Forward { size: u64, after: Option<String> },
    Backward { size: u64, before: Option<String> },
    Numbered { page: u64, size: u64 },
    Offset { offset: u64, limit: u64 },
}

impl Ask {
    pub(crate) const fn size(&self) -> u64 {
        match self {
            Self::Forward { size, .. }
            | Self::Backward { size, .. }
            | Self::Numbered { size, .. }
            | Self::Offset { limit: size, .. } => *size,
        }
    }

    /// The parameter that holds a cursor, and the cursor.
    pub(crate) fn cursor(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::Forward { after: Some(cursor), .. } => Some(("after", cursor)),
            Self::Backward { before: Some(cursor), .. } => Some(("before", cursor)),
            _ => None,
        }
    }
}

fn operation(request: &Map<String, Value>) -> Result<Operation, Failure> {
    match request.get("operation") {
        None | Some(Value::Null) => Err(Failure::new(
            Code::MissingParam,
            "Missing required parameter 'operation'",
            json!({"param_name": "operation"}),
        )),
        Some(Value::String(name)) => Operation::named(name).ok_or_else(|| {
            let name = shortened(name);
            let available = Operation::ALL.map(Operation::name);
            Failure::new(
                Code::NotFoundOperation,
                format!("Unknown operation: '{name}'"),
                json!({"operation": name, "available": available}),
            )
        }),
        Some(other) => Err(Failure::invalid_type("operation", "string", json_type(other))),
    }
}

/// What a request has: known parameters that are not null, in the order of the table, and names
/// that are unknown.
struct Given<'a> {
    known: Vec<(usize, &'a Parameter, &'a Value)>,
    unknown: Vec<&'a str>,
}

impl<'a> Given<'a> {
    fn of(
        request: &'a Map<String, Value>,
        inner: &'a Map<String, Value>,
        parameters: &'a [Parameter],
    ) -> Self {
        let mut given = Self { known: Vec::with_capacity(8), unknown: Vec::new() };
        // `params.X` beats a top-level `X`, unless it is null.
        let is_within = |name: &str| inner.get(name).is_some_and(|value| !value.is_null());
        let outer = request
            .iter()
            .filter(|(name, _)| !matches!(name.as_str(), "operation" | "params"))
            .filter(|(name, _)| !is_within(name));
        for (name, value) in inner.iter().chain(outer) {
            match parameters.iter().enumerate().find(|(_, known)| known.name == name) {
                Some(_) if value.is_null() => {}
                Some((number, parameter)) => given.known.push((number, parameter, value)),
                None if name.starts_with('_') => {}
                None => given.unknown.push(name),
            }
        }
        given.known.sort_by_key(|(number, ..)| *number);
        given
    }

    fn reject_unknown(
        &self,
        operation: Operation,
        parameters: &[Parameter],
    ) -> Result<(), Failure> {
        if self.unknown.is_empty() {
            return Ok(());
        }
        let mut unknown = self.unknown.clone();
        unknown.sort_unstable();
        unknown.dedup();
        let valid: Vec<_> = parameters.iter().map(|parameter| parameter.name).collect();
        Err(Failure::unknown_param(operation.name(), &unknown, &valid))
    }
}

/// The eleven combinations of cursor parameters that are none.
fn check_combination(given: &[&'static str]) -> Result<(), Failure> {
    let has = |name: &str| given.contains(&name);
    let (message, actual, hint) = if has("first") && has("last") {
        (
            "Cannot use 'first' and 'last' together",
            "conflicting parameters",
            "Use 'first' for forward pagination or 'last' for backward pagination",
        )
    } else if has("first") && has("before") {
        (
            "Cannot use 'first' and 'before' together",
            "conflicting parameters",
            "Use 'first' with 'after', or 'last' with 'before'",
        )
    } else if has("last") && has("after") {
        (
            "Cannot use 'last' and 'after' together",
            "conflicting parameters",
            "Use 'first' with 'after', or 'last' with 'before'",
        )
    } else if has("after") && has("before") {
        (
            "Cannot use 'after' without 'first', nor together with 'before'",
            "conflicting parameters",
            "Use 'first' with 'after', or 'last' with 'before'",
        )
    } else if has("after") && !has("first") {
        (
            "Cannot use 'after' without 'first'",
            "incomplete parameters",
            "Add 'first' with the number of items",
        )
    } else if has("before") && !has("last") {
        (
            "Cannot use 'before' without 'last'",
            "incomplete parameters",
            "Add 'last' with the number of items",
        )
    } else {
        return Ok(());
    };
    Err(Failure::combination(message, actual, given, hint))
}

impl Parameter {
    fn check_type(&self, value: &Value) -> Result<(), Failure> {
        let fits = match self.kind {
            ParameterKind::Size { .. } | ParameterKind::Range { .. } => integer(value).is_some(),
            ParameterKind::Text | ParameterKind::OneOf(_) => value.is_string(),
            ParameterKind::Boolean => value.is_boolean(),
            ParameterKind::Object => value.is_object(),
            ParameterKind::Objects => is_one_or_many(value, Value::is_object),
            ParameterKind::Texts => is_one_or_many(value, Value::is_string),
            ParameterKind::Any => !value.is_array(),
        };
        if fits { Ok(()) } else { Err(self.wrong(actual_type(self.kind, value))) }
    }

    fn check_constraint(&self, value: &Value) -> Result<(), Failure> {
        match self.kind {
            ParameterKind::Size { minimum } if integer(value).is_some_and(|n| n < minimum) => {
                Err(self.wrong("smaller integer"))
            }
            ParameterKind::Range { minimum, maximum }
                if integer(value).is_some_and(|n| !(minimum..=maximum).contains(&n)) =>
            {
                Err(self.wrong("integer out of range"))
            }
            ParameterKind::OneOf(names)
                if value.as_str().is_some_and(|text| !names.contains(&text)) =>
            {
                Err(self.wrong("other text"))
            }
            _ => Ok(()),
        }
    }

    fn wrong(&self, actual: &str) -> Failure {
        Failure::invalid_type(self.name, &self.kind.expected(), actual)
    }
}

impl ParameterKind {
    /// What error details call it.
    pub(crate) fn expected(self) -> String {
        match self {
            Self::Size { minimum } => format!("integer >= {minimum}"),
            Self::Range { minimum, maximum } => format!("integer from {minimum} to {maximum}"),
            Self::OneOf(names) => format!("one of {}", names.join(", ")),
            Self::Text => "string".to_owned(),
            Self::Boolean => "boolean".to_owned(),
            Self::Object => "object".to_owned(),
            Self::Objects => "object or array of objects".to_owned(),
            Self::Texts => "string or array of strings".to_owned(),
            Self::Any => "value or object".to_owned(),
        }
    }
}

fn is_one_or_many(value: &Value, is: fn(&Value) -> bool) -> bool {
    match value {
        Value::Array(values) => values.iter().all(is),
        value => is(value),
    }
}

fn actual_type(kind: ParameterKind, value: &Value) -> &'static str {
    match (kind, value) {
        (ParameterKind::Size { .. } | ParameterKind::Range { .. }, Value::Number(number)) => {
            if number.as_f64().is_some_and(|real| real < 0.0) {
                "negative number"
            } else {
                "number with a fraction"
            }
        }
        (ParameterKind::Size { .. } | ParameterKind::Range { .. }, value)
            if long_integer(value).is_some() =>
        {
            "negative number"
        }
        (_, value) => json_type(value),
    }
}

/// The text of an integer beyond 64 bits, as requests are read.
fn long_integer(value: &Value) -> Option<&str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    let text = members.get("$integer")?.as_str()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_long =
        digits.len() >= 19 && text.parse::<u64>().is_err() && text.parse::<i64>().is_err();
    (is_long && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

/// A JSON-Schema integer that is not negative: also `10.0`; beyond 64 bits the largest one.
fn integer(value: &Value) -> Option<u64> {
    if long_integer(value).is_some_and(|text| !text.starts_with('-')) {
        return Some(u64::MAX);
    }
    let number = value.as_number()?;
    if let Some(integer) = number.as_u64() {
        return Some(integer);
    }
    let real = number.as_f64()?;
    if real < 0.0 || real.fract() != 0.0 {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "integral, not negative, and saturating above"
    )]
    let integer = real as u64;
    Some(integer)
}
