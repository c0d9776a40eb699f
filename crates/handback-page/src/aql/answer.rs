//! Answers as MCP-AQL writes them.

use serde_json::{Value, json};

use super::failure::{Failure, Inside};
use super::table::Operation;
use crate::collection::{ItemText, Unread};

/// The answer to a request: a success with data, or a failure.
#[derive(Clone, Debug)]
pub struct Answer {
    pub(crate) operation: Option<Operation>,
    pub(crate) body: Body,
    pub(crate) warnings: Vec<Warning>,
}

#[derive(Clone, Debug)]
pub(crate) enum Body {
    Page(Page),
    /// JSON text.
    Data(String),
    Batch(Vec<(String, Answer)>),
    Failure(Failure),
}

/// How many warnings an answer has at most, says the specification.
const MAX_WARNINGS: usize = 10;

impl Answer {
    pub(crate) fn new(operation: Operation, body: Body, mut warnings: Vec<Warning>) -> Self {
        warnings.dedup();
        warnings.truncate(MAX_WARNINGS);
        Self { operation: Some(operation), body, warnings }
    }

    pub(crate) fn failure_of(operation: Option<Operation>, failure: Failure) -> Self {
        Self { operation, body: Body::Failure(failure), warnings: vec![] }
    }

    /// Whether it says `"success": true`.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        !matches!(self.body, Body::Failure(_))
    }

    /// MCP's `isError`: a failure that the caller can do nothing about.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(&self.body, Body::Failure(failure) if !failure.code().is_recoverable())
    }

    /// Why it failed, if it did.
    #[must_use]
    pub const fn failure(&self) -> Option<&Failure> {
        match &self.body {
            Body::Failure(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether it says that there was too much to answer with.
    pub(crate) fn is_too_large(&self) -> bool {
        let limit = self.failure().and_then(|failure| failure.details().get("limit_type"));
        limit.is_some_and(|limit| limit == "response_size")
    }

    /// What the audit is told of it: of the first operation of a batch that has something to tell.
    #[must_use]
    pub fn inside(&self) -> Option<&Inside> {
        match &self.body {
            Body::Failure(failure) => failure.inside(),
            Body::Batch(answers) => answers.iter().find_map(|(_, answer)| answer.inside()),
            Body::Page(_) | Body::Data(_) => None,
        }
    }

    /// The page, if it is one.
    #[must_use]
    pub const fn page(&self) -> Option<&Page> {
        match &self.body {
            Body::Page(page) => Some(page),
            _ => None,
        }
    }

    /// The warnings.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The whole envelope as JSON text.
    #[must_use]
    pub fn to_json(&self) -> String {
        let items = self.page().map_or(0, |page| {
            let bytes =
                |item: &Item| item.json.len() + item.cursor.as_ref().map_or(1, |c| c.len() + 24);
            page.items.iter().map(bytes).sum()
        });
        // Besides the items: page info with two cursors.
        let mut out = String::with_capacity(items + 1536);
        self.write(&mut out, true);
        out
    }

    fn write(&self, out: &mut String, with_warnings: bool) {
        match &self.body {
            Body::Failure(failure) => {
                // The closed schema of introspection has no place for details.
                let with_details = self.operation != Some(Operation::Introspect);
                let error = failure.to_value(with_details);
                out.push_str(&json!({"success": false, "error": error}).to_string());
                return;
            }
            Body::Page(page) => {
                out.push_str(r#"{"success":true,"data":"#);
                page.write(out);
            }
            Body::Data(data) => {
                out.push_str(r#"{"success":true,"data":"#);
                out.push_str(data);
            }
            Body::Batch(answers) => {
                out.push_str(r#"{"success":true,"data":null,"results":"#);
                write_batch(answers, out);
            }
        }
        if with_warnings && !self.warnings.is_empty() {
            let warnings: Vec<_> = self.warnings.iter().map(Warning::to_value).collect();
            out.push_str(r#","warnings":"#);
            out.push_str(&Value::Array(warnings).to_string());
        }
        out.push('}');
    }
}

/// Results in the order of the request. Neither schema of the specification lets warnings into
/// them: only the outermost answer has some.
fn write_batch(answers: &[(String, Answer)], out: &mut String) {
    out.push('[');
    for (index, (operation, answer)) in answers.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push_str(&format!(r#"{{"index":{index},"operation":"#));
        crate::scalar::write_text(operation, out);
        out.push_str(r#","result":"#);
        answer.write(out, false);
        out.push('}');
    }
    let succeeded = answers.iter().filter(|(_, answer)| answer.is_success()).count();
    let total = answers.len();
    let failed = total - succeeded;
    let summary = json!({"total": total, "succeeded": succeeded, "failed": failed});
    out.push_str(&format!(r#"],"summary":{summary}"#));
}

/// One page of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub(crate) items: Vec<Item>,
    pub(crate) edges: bool,
    pub(crate) info: Info,
}

/// An item of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub(crate) json: ItemText,
    pub(crate) cursor: Option<String>,
}

impl Item {
    /// The item as JSON text.
    #[must_use]
    pub fn json(&self) -> &str {
        &self.json
    }

    /// Its cursor, on a page with edges.
    #[must_use]
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
}

/// What is said about a page besides its items, in the style of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Info {
    Cursor(PageInfo),
    Numbered { page: u64, size: u64, total: Option<u64>, more: bool },
    Offset { limit: u64, offset: u64, total: Option<u64>, more: bool },
}

/// `pageInfo`: what is before and after a page, and how to go there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageInfo {
    /// Whether items exist after the last one.
    pub has_next_page: bool,
    /// Whether items exist before the first one.
    pub has_previous_page: bool,
    /// The cursor of the first item.
    pub start_cursor: Option<String>,
    /// The cursor of the last item.
    pub end_cursor: Option<String>,
    /// How many items match, on all pages together.
    pub total_count: Option<u64>,
}

impl Page {
    /// The items.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// `pageInfo`, unless the request was in another style.
    #[must_use]
    pub const fn page_info(&self) -> Option<&PageInfo> {
        match &self.info {
            Info::Cursor(info) => Some(info),
            _ => None,
        }
    }

    /// Whether items follow the last one.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        match &self.info {
            Info::Cursor(info) => info.has_next_page,
            Info::Numbered { more, .. } | Info::Offset { more, .. } => *more,
        }
    }

    /// How many items match, on all pages together, if that is told.
    #[must_use]
    pub const fn total_count(&self) -> Option<u64> {
        match &self.info {
            Info::Cursor(info) => info.total_count,
            Info::Numbered { total, .. } | Info::Offset { total, .. } => *total,
        }
    }

    /// The parameter of the page that follows, in the style of this one, and its value. Nothing
    /// where nothing follows.
    #[must_use]
    pub fn next(&self) -> Option<(&'static str, Value)> {
        if !self.has_more() {
            return None;
        }
        let returned = self.items.len() as u64;
        match &self.info {
            Info::Cursor(info) => info.end_cursor.clone().map(|cursor| ("after", cursor.into())),
            Info::Numbered { page, .. } => Some(("page", page.saturating_add(1).into())),
            Info::Offset { offset, .. } => Some(("offset", offset.saturating_add(returned).into())),
        }
    }

    fn write(&self, out: &mut String) {
        out.push_str(if self.edges { r#"{"edges":["# } else { r#"{"items":["# });
        for (number, item) in self.items.iter().enumerate() {
            if number > 0 {
                out.push(',');
            }
            match (&item.cursor, self.edges) {
                (Some(cursor), true) => {
                    out.push_str(r#"{"node":"#);
                    out.push_str(&item.json);
                    out.push_str(r#","cursor":"#);
                    crate::scalar::write_text(cursor, out);
                    out.push('}');
                }
                _ => out.push_str(&item.json),
            }
        }
        out.push_str("],");
        self.info.write(self.items.len() as u64, out);
        out.push('}');
    }
}

impl Info {
    fn write(&self, returned: u64, out: &mut String) {
        let number = |name: &str, value: u64, out: &mut String| {
            out.push_str(name);
            out.push_str(itoa::Buffer::new().format(value));
        };
        let truth = |name: &str, value: bool, out: &mut String| {
            out.push_str(name);
            out.push_str(if value { "true" } else { "false" });
        };
        match self {
            Self::Cursor(info) => {
                truth(r#""pageInfo":{"hasNextPage":"#, info.has_next_page, out);
                truth(r#","hasPreviousPage":"#, info.has_previous_page, out);
                for (name, cursor) in [
                    (r#","startCursor":"#, &info.start_cursor),
                    (r#","endCursor":"#, &info.end_cursor),
                ] {
                    if let Some(cursor) = cursor {
                        out.push_str(name);
                        crate::scalar::write_text(cursor, out);
                    }
                }
                if let Some(total) = info.total_count {
                    number(r#","totalCount":"#, total, out);
                }
            }
            Self::Numbered { page, size, total, more } => {
                number(r#""pagination":{"page":"#, *page, out);
                number(r#","page_size":"#, *size, out);
                if let Some(total) = total {
                    number(r#","total_items":"#, *total, out);
                    number(r#","total_pages":"#, total.div_ceil(*size), out);
                }
                truth(r#","has_more":"#, *more, out);
            }
            Self::Offset { limit, offset, total, more } => {
                number(r#""pagination":{"limit":"#, *limit, out);
                number(r#","offset":"#, *offset, out);
                number(r#","returned":"#, returned, out);
                if let Some(total) = total {
                    number(r#","total_items":"#, *total, out);
                }
                truth(r#","has_more":"#, *more, out);
            }
        }
        out.push('}');
    }
}

/// Something that a caller should know about a success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    code: &'static str,
    message: String,
    details: Value,
    severity: &'static str,
}

/// The member of details that says what was not looked at.
const UNREAD: &str = "unread";

impl Warning {
    /// The code.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn deprecated(name: &str, instead: &str) -> Self {
        Self {
            code: "DEPRECATION_WARNING",
            message: format!("Parameter '{name}' is deprecated; use '{instead}'"),
            details: json!({"param_name": name, "replacement": instead}),
            severity: "low",
        }
    }

    /// A page that is shorter than what was asked for, though there was more.
    pub(crate) fn truncated(shown: usize, limit: u64, total: Option<u64>) -> Self {
        let mut details = json!({"field": "items", "truncated_count": shown, "limit": limit});
        if let (Some(total), Value::Object(members)) = (total, &mut details) {
            members.insert("original_count".to_owned(), total.into());
        }
        Self {
            code: "VALIDATION_TRUNCATED_WARNING",
            message: format!("Response truncated to {shown} items"),
            details,
            severity: "medium",
        }
    }

    /// The same, where it is shorter for the sake of the client: with how to go on.
    pub(crate) fn over_budget(self, hint: &str) -> Self {
        let mut details = self.details;
        if let Value::Object(members) = &mut details {
            members.insert("hint".to_owned(), hint.into());
        }
        Self { details, ..self }
    }

    /// Something is shown in part.
    pub(crate) fn excerpt(field: &str, hint: &str) -> Self {
        Self {
            code: "VALIDATION_TRUNCATED_WARNING",
            message: "What is larger than this client takes at once is shown in part".to_owned(),
            details: json!({"field": field, "hint": hint}),
            severity: "medium",
        }
    }

    /// Items that are too long to be read are shown in part.
    pub(crate) fn long(field: &str, hint: &str) -> Self {
        let message = "What is longer than is read at once is shown in part";
        Self { message: message.to_owned(), ..Self::excerpt(field, hint) }
    }

    /// Items that were not looked into, because they are too long.
    pub(crate) fn unread(unread: &Unread) -> Self {
        let Unread { count, first, limit_bytes } = unread;
        let which: Vec<_> = first.iter().map(u64::to_string).collect();
        let more = if *count > first.len() as u64 { " and more" } else { "" };
        Self {
            code: "VALIDATION_TRUNCATED_WARNING",
            message: format!(
                "{count} items of more than {limit_bytes} bytes were not looked into: {}{more}",
                which.join(", ")
            ),
            details: json!({
                "field": "items",
                UNREAD: first,
                "unread_count": count,
                "limit": limit_bytes,
                "hint": "List without 'query', 'filter' and 'sort' to see where they are, and read \
                         them with 'pointer'",
            }),
            severity: "medium",
        }
    }

    /// The same of operations of a batch, whose results have no warnings.
    pub(crate) fn unread_in(operations: &[usize]) -> Self {
        Self {
            code: "VALIDATION_TRUNCATED_WARNING",
            message: "Some operations did not look into items that are too long".to_owned(),
            details: json!({
                "field": "operations",
                UNREAD: operations.get(..Unread::NAMED_MAX).unwrap_or(operations),
                "unread_count": operations.len(),
                "hint": "Send one of them alone to see which items",
            }),
            severity: "medium",
        }
    }

    /// Whether it is about items that were not looked into.
    pub(crate) fn is_unread(&self) -> bool {
        self.details.get(UNREAD).is_some()
    }

    /// A batch of which only the first operations were made.
    pub(crate) fn batch(made: usize, of: usize) -> Self {
        Self {
            code: "VALIDATION_TRUNCATED_WARNING",
            message: format!("Only the first {made} of {of} operations were made"),
            details: json!({
                "field": "operations",
                "truncated_count": made,
                "original_count": of,
                "hint": "The answer is as large as this client takes at once: send the others again",
            }),
            severity: "medium",
        }
    }

    /// A list in which not everything is that is held for the caller.
    pub(crate) fn more_held(listed: usize) -> Self {
        Self {
            code: "VALIDATION_TRUNCATED_WARNING",
            message: format!("Only {listed} of your held results are listed"),
            details: json!({"field": "held results", "limit": listed}),
            severity: "medium",
        }
    }

    pub(crate) fn slow(hint: &str) -> Self {
        Self {
            code: "PERFORMANCE_SLOW_QUERY_WARNING",
            message: "No index serves this order: everything matching was read".to_owned(),
            details: json!({"hint": super::failure::cut_hint(hint)}),
            severity: "medium",
        }
    }

    pub(crate) fn to_value(&self) -> Value {
        json!({
            "code": self.code,
            "message": self.message,
            "details": self.details,
            "severity": self.severity,
        })
    }
}
