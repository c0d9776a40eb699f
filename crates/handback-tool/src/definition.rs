//! What a server says of something that can be called, and what the pipeline must know of it.

use std::time::Duration;

use handback_store::journal::ToolClass;
use handback_token::Operation;
use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::input::Inputs;

/// Characters of a name at most.
pub const MAX_NAME_CHARS: usize = 128;

/// How long a call may take unless its definition says otherwise.
pub const DEFAULT_TIME_LIMIT: Duration = Duration::from_secs(300);

/// When a call becomes a task, for clients that know tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TaskMode {
    /// Never.
    Never,
    /// When it has not ended after a moment.
    #[default]
    IfSlow,
    /// At once.
    AtOnce,
    /// At once; other clients cannot call it.
    Required,
    /// As soon as its first questions are answered; other clients cannot call it.
    RequiredAfterAnswers,
}

/// What can be called: a tool, a prompt, or what a URI names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// One resource, whose name is its URI.
    Resource {
        /// What its contents are.
        mime_type: Option<String>,
    },
    /// Resources whose URIs fit a template, which is the name: `{word}` stands for one segment.
    Template {
        /// What their contents are.
        mime_type: Option<String>,
    },
    /// A tool whose caller goes on sending while it works.
    Duplex,
}

impl Kind {
    /// What a call of it is called in contexts of tokens.
    #[must_use]
    pub const fn operation(&self) -> Operation {
        match self {
            Self::Tool => Operation::Call,
            Self::Duplex => Operation::Duplex,
            Self::Prompt => Operation::Prompt,
            Self::Resource { .. } | Self::Template { .. } => Operation::Read,
        }
    }
}

/// What a server says of something that can be called.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Definition {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) title: Option<String>,
    pub(crate) description: String,
    pub(crate) input_schema: Option<Value>,
    pub(crate) output_schema: Option<Value>,
    pub(crate) class: ToolClass,
    pub(crate) scopes: Vec<String>,
    pub(crate) is_paginated: bool,
    pub(crate) page_arguments: Vec<String>,
    pub(crate) is_single_use: bool,
    pub(crate) takes_expired_state: bool,
    pub(crate) up_front: Inputs,
    pub(crate) tasks: TaskMode,
    pub(crate) is_cancellable: bool,
    pub(crate) time_limit: Duration,
    pub(crate) checks_its_arguments: bool,
    pub(crate) extra: Map<String, Value>,
}

impl Definition {
    /// A tool.
    pub fn tool(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(Kind::Tool, name.into(), description.into())
    }

    /// A tool whose caller goes on sending while it works, as the handler of a duplex
    /// (`/v1/duplex?handler=NAME`). Its name has letters, digits and `_-.`, 64 at most.
    pub fn duplex(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(Kind::Duplex, name.into(), description.into())
    }

    /// A prompt.
    pub fn prompt(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self::new(Kind::Prompt, name.into(), description.into()).class(ToolClass::ReadOnly)
    }

    /// A resource.
    pub fn resource(uri: impl Into<String>, description: impl Into<String>) -> Self {
        let kind = Kind::Resource { mime_type: None };
        Self::new(kind, uri.into(), description.into()).class(ToolClass::ReadOnly)
    }

    /// Resources whose URIs fit a template.
    pub fn template(uri: impl Into<String>, description: impl Into<String>) -> Self {
        let kind = Kind::Template { mime_type: None };
        Self::new(kind, uri.into(), description.into()).class(ToolClass::ReadOnly)
    }

    fn new(kind: Kind, name: String, description: String) -> Self {
        Self {
            kind,
            name,
            title: None,
            description,
            input_schema: None,
            output_schema: None,
            class: ToolClass::Unknown,
            scopes: Vec::new(),
            is_paginated: false,
            page_arguments: Vec::new(),
            is_single_use: false,
            takes_expired_state: false,
            up_front: Inputs::new(),
            tasks: TaskMode::IfSlow,
            is_cancellable: true,
            time_limit: DEFAULT_TIME_LIMIT,
            checks_its_arguments: false,
            extra: Map::new(),
        }
    }

    /// A name for people.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What the contents of a resource are.
    pub fn mime_type(mut self, mime: impl Into<String>) -> Self {
        if let Kind::Resource { mime_type } | Kind::Template { mime_type } = &mut self.kind {
            *mime_type = Some(mime.into());
        }
        self
    }

    /// The schema of the arguments, in the place of the one that their type has.
    pub fn input_schema(mut self, schema: Value) -> Self {
        self.input_schema = Some(schema);
        self
    }

    /// The schema of what it gives.
    pub fn output_schema(mut self, schema: Value) -> Self {
        self.output_schema = Some(schema);
        self
    }

    /// It gives values of this type.
    pub fn output<T: JsonSchema>(self) -> Self {
        self.output_schema(schema_of::<T>())
    }

    /// What is known of its effects: whether a call that was cut off may be made again.
    pub const fn class(mut self, class: ToolClass) -> Self {
        self.class = class;
        self
    }

    /// A scope that a caller needs; all of them, if there are several.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.scopes.push(scope.into());
        self
    }

    /// It gives pages: it is called by
    /// [`Tool::call_paginated`](crate::Tool::call_paginated).
    pub const fn paginated(mut self) -> Self {
        self.is_paginated = true;
        self
    }

    /// An argument that may differ between the pages of one walk, as the size of a page may.
    pub fn page_argument(mut self, name: impl Into<String>) -> Self {
        self.page_arguments.push(name.into());
        self
    }

    /// What it asks back is answered once: the same answer again gets the same result, another one
    /// is refused.
    pub const fn single_use(mut self) -> Self {
        self.is_single_use = true;
        self
    }

    /// State that opens and is too old does not end the exchange: the tool is called and told so.
    pub const fn takes_expired_state(mut self) -> Self {
        self.takes_expired_state = true;
        self
    }

    /// Questions that a caller who knows them may answer with its first call. Their answers are
    /// checked as if the tool had asked; nothing says that the caller has seen the questions, so this
    /// is not for what has to be confirmed, and a tool whose state is used once takes none.
    pub fn answers_up_front(mut self, inputs: Inputs) -> Self {
        self.up_front = inputs;
        self
    }

    /// It takes long: clients that know tasks get a handle at once.
    pub const fn long(self) -> Self {
        self.tasks(TaskMode::AtOnce)
    }

    /// When a call of it becomes a task.
    pub const fn tasks(mut self, mode: TaskMode) -> Self {
        self.tasks = mode;
        self
    }

    /// Once started, it runs to its end, whether its caller is still there or not.
    pub const fn not_cancellable(mut self) -> Self {
        self.is_cancellable = false;
        self
    }

    /// How long a call may take.
    pub const fn time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Its schema is shown, and not checked: it says itself, in its own words, what does not fit. It
    /// must bound what it takes, depth included.
    pub const fn checks_its_arguments(mut self) -> Self {
        self.checks_its_arguments = true;
        self
    }

    /// A further member of the entry in lists, as MCP has `icons` and `_meta`.
    pub fn extra(mut self, name: impl Into<String>, value: Value) -> Self {
        self.extra.insert(name.into(), value);
        self
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// What it is called by: a name, a URI, or a template of URIs.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its name for people.
    #[must_use]
    pub fn shown_title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// What it does, for models.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The schema of its arguments.
    #[must_use]
    pub fn schema(&self) -> &Value {
        static ANY: std::sync::LazyLock<Value> =
            std::sync::LazyLock::new(|| json!({"type": "object"}));
        self.input_schema.as_ref().unwrap_or(&ANY)
    }

    /// The schema of what it gives.
    #[must_use]
    pub const fn result_schema(&self) -> Option<&Value> {
        self.output_schema.as_ref()
    }

    /// What is known of its effects.
    #[must_use]
    pub const fn known_class(&self) -> ToolClass {
        self.class
    }

    /// The scopes that a caller needs.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Whether it gives pages.
    #[must_use]
    pub const fn is_paginated(&self) -> bool {
        self.is_paginated
    }

    /// When a call of it becomes a task.
    #[must_use]
    pub const fn task_mode(&self) -> TaskMode {
        self.tasks
    }

    /// How long a call may take.
    #[must_use]
    pub const fn longest_call(&self) -> Duration {
        self.time_limit
    }

    /// Further members of the entry in lists.
    #[must_use]
    pub const fn extra_members(&self) -> &Map<String, Value> {
        &self.extra
    }

    pub(crate) fn fault(&self) -> Option<&'static str> {
        let is_uri = !matches!(self.kind, Kind::Tool | Kind::Prompt | Kind::Duplex);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./".contains(&byte);
        if self.name.is_empty() {
            return Some("is empty");
        }
        if is_uri {
            return (self.name.len() > MAX_URI_BYTES).then_some("is too long");
        }
        if self.name.len() > MAX_NAME_CHARS {
            return Some("is too long");
        }
        if self.kind == Kind::Duplex && !is_handler(&self.name) {
            return Some("cannot be that of a duplex");
        }
        (!self.name.bytes().all(is_name)).then_some("may have letters, digits and `_-./` only")
    }
}

/// Characters of the name of a duplex at most: it is a part of the names of its streams.
const MAX_HANDLER_CHARS: usize = 64;

/// Handlers of duplexes that are there already.
const HANDLERS: [&str; 2] = ["echo", "relay"];

/// Whether a name can be a segment of a path, and is not taken.
fn is_handler(name: &str) -> bool {
    name.len() <= MAX_HANDLER_CHARS
        && !name.contains('/')
        && !matches!(name, "." | "..")
        && !HANDLERS.contains(&name)
}

/// Bytes of a URI at most: more than any browser sends.
const MAX_URI_BYTES: usize = 8_192;

/// The JSON Schema of a type, as an object schema has to be for arguments.
pub(crate) fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = schemars::schema_for!(T).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.remove("title");
        // `()` and types that take anything have no type of their own.
        let is_object = object.get("type").is_some_and(|kind| kind == "object");
        if !is_object && !object.contains_key("$ref") && !object.contains_key("oneOf") {
            object.insert("type".to_owned(), "object".into());
        }
    }
    schema
}
