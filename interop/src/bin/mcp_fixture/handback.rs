//! The same tools, prompts and resources, offered by Handback.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use handback_interop::clock;
use handback_interop::fixture::{self, Call, Failure, Host, List, Reply, Tasks as Mode};
use handback_mcp::server::tasks::Tasks;
use handback_mcp::{About, Changes, Front, FrontOptions, McpServer, Stores};
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal};
use handback_store::{Kv, MemoryStore};
use handback_token::{KeyRing, Sealer, SealerConfig, ring};
use handback_tool::audit::NoAudit;
use handback_tool::{
    CallContext, Clock, Content, Definition, Event, IN_FLIGHT_MAX, InputRequest, Inputs,
    MAX_RESULT_BYTES, Outcome, Pipeline, PipelineParts, Registry, RevocationWatch, Round, TaskMode,
    Tool, ToolError,
};
use serde_json::{Map, Value, json};

/// A server of its own.
pub(crate) fn server() -> Result<Front<McpServer>> {
    let kv: Arc<dyn Kv> = Arc::new(MemoryStore::new());
    let ring = KeyRing::generate(&mut rand::rng(), ring::Mode::Sealed, clock::now());
    let sealer = Arc::new(Sealer::new(&ring, SealerConfig::default())?);
    let instance = InstanceId::generate(&mut rand::rng());
    let held = HeldStore::new(Arc::clone(&kv), HeldOptions::new())?;
    let changes = Changes::default();
    let pipeline = Pipeline::new(PipelineParts {
        registry: registry(&changes)?,
        sealer: Arc::clone(&sealer),
        journal: Arc::new(Journal::open(Arc::clone(&kv), instance, clock::now_ms())?),
        held: held.clone(),
        revocations: RevocationWatch::new(Arc::clone(&kv), clock::now_ms())?,
        audit: Arc::new(NoAudit),
        clock: Arc::new(Now),
        in_flight_max: IN_FLIGHT_MAX,
        counts_recorded: true,
        result_bytes_max: MAX_RESULT_BYTES,
    });
    let about = About {
        name: fixture::NAME.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instructions: None,
    };
    let tasks = Tasks::new(Arc::clone(&kv), held, Arc::new(clock::now_ms), instance);
    let server = McpServer::new(Arc::new(pipeline), about, tasks).changes(changes);
    let stores = Stores { kv, sealer, clock: Arc::new(clock::now_ms) };
    Ok(Front::new(move || server.for_session(), stores, FrontOptions::default()))
}

#[derive(Debug)]
struct Now;

impl Clock for Now {
    fn now_ms(&self) -> u64 {
        clock::now_ms()
    }
}

fn registry(changes: &Changes) -> Result<Registry> {
    let mut registry = Registry::new();
    for entry in fixture::tools() {
        let name = text(&entry, "name")?;
        let mode = match fixture::tasks(&name) {
            Mode::Never => TaskMode::Never,
            Mode::IfPossible => TaskMode::AtOnce,
            Mode::Required => TaskMode::Required,
            Mode::RequiredAfterAnswers => TaskMode::RequiredAfterAnswers,
        };
        let definition = Definition::tool(&name, text(&entry, "description")?)
            .input_schema(entry.get("inputSchema").cloned().context("no schema")?)
            .tasks(mode)
            .answers_up_front(up_front(&name));
        let definition = with_rest(definition, &entry, &["name", "description", "inputSchema"]);
        registry.add(OfSuite { definition, changes: changes.clone() })?;
    }
    for entry in fixture::prompts() {
        let definition = Definition::prompt(text(&entry, "name")?, text(&entry, "description")?);
        let definition = with_rest(definition, &entry, &["name", "description"]);
        registry.add(OfSuite { definition, changes: changes.clone() })?;
    }
    for entry in fixture::resources() {
        let about = text(&entry, "description").unwrap_or_default();
        let definition = Definition::resource(text(&entry, "uri")?, about);
        let definition = with_rest(definition, &entry, &["uri", "description"]);
        registry.add(OfSuite { definition, changes: changes.clone() })?;
    }
    for entry in fixture::templates() {
        let about = text(&entry, "description").unwrap_or_default();
        let definition = Definition::template(text(&entry, "uriTemplate")?, about);
        let definition = with_rest(definition, &entry, &["uriTemplate", "description"]);
        registry.add(OfSuite { definition, changes: changes.clone() })?;
    }
    Ok(registry)
}

/// What the suite answers before it was asked.
fn up_front(tool: &str) -> Inputs {
    let name = InputRequest::Form {
        message: "What is your name?".to_owned(),
        schema: json!({"type": "object", "properties": {"name": {"type": "string"}}}),
    };
    match tool {
        "test_input_required_result_elicitation" => Inputs::new().ask("user_name", name),
        _ => Inputs::new(),
    }
}

fn text(entry: &Value, name: &str) -> Result<String> {
    let text = entry.get(name).and_then(Value::as_str);
    text.map(str::to_owned).with_context(|| format!("no {name} in {entry}"))
}

fn with_rest(mut definition: Definition, entry: &Value, known: &[&str]) -> Definition {
    for (name, value) in entry.as_object().into_iter().flatten() {
        if !known.contains(&name.as_str()) {
            definition = definition.extra(name, value.clone());
        }
    }
    definition
}

/// One of them.
struct OfSuite {
    definition: Definition,
    changes: Changes,
}

impl Tool for OfSuite {
    type Args = Value;

    fn definition(&self) -> Definition {
        self.definition.clone()
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let state = match ctx.request_state::<Value>()? {
            Round::Opened(Value::Null) | Round::First | Round::Expired => None,
            Round::Opened(state) => Some(state),
        };
        let can = ctx.abilities();
        let capabilities = [
            ("sampling", can.sampling),
            ("elicitation", can.forms || can.urls),
            ("roots", can.roots),
        ];
        let capabilities: Map<_, _> = capabilities
            .into_iter()
            .filter(|(_, can)| *can)
            .map(|(name, _)| (name.to_owned(), json!({})))
            .collect();
        let call = Call {
            arguments: args.as_object().cloned().unwrap_or_default(),
            answers: ctx
                .answers()
                .iter()
                .map(|(name, value)| (name.to_owned(), value.clone()))
                .collect(),
            state,
            capabilities: capabilities.into(),
            log_level: ctx.log_level().map(str::to_owned),
        };
        let host = OfCall { ctx, changes: &self.changes };
        let name = self.definition.name();
        let reply = match self.definition.kind() {
            handback_tool::Kind::Tool => fixture::call_tool(name, &call, &host).await,
            handback_tool::Kind::Prompt => fixture::get_prompt(name, &call),
            _ => fixture::read_resource(ctx.name()).map(Reply::Done),
        };
        match reply.map_err(error)? {
            Reply::Done(result) => Ok(Outcome::Done(Content::Result(result))),
            Reply::Ask { questions, state } => {
                let mut inputs = Inputs::new();
                for (name, question) in questions {
                    inputs = inputs.ask(name, input(&question));
                }
                ctx.needs_input(inputs, &state)
            }
        }
    }

    fn complete(&self, _: &str, _: &str) -> Vec<String> {
        ["paris", "park", "party"].map(str::to_owned).to_vec()
    }
}

fn error(failure: Failure) -> ToolError {
    let Failure { code, message, data } = failure;
    let error = ToolError::new(message).code(code);
    match data {
        Some(data) => error.data(data),
        None => error,
    }
}

fn input(question: &Value) -> InputRequest {
    let params = question.get("params").cloned().unwrap_or_default();
    match question.get("method").and_then(Value::as_str) {
        Some("elicitation/create") => InputRequest::Form {
            message: params.get("message").and_then(Value::as_str).unwrap_or_default().to_owned(),
            schema: params.get("requestedSchema").cloned().unwrap_or_default(),
        },
        Some("sampling/createMessage") => InputRequest::Sample(params),
        _ => InputRequest::Roots,
    }
}

struct OfCall<'a> {
    ctx: &'a CallContext,
    changes: &'a Changes,
}

impl Host for OfCall<'_> {
    async fn log(&self, level: &str, text: &str) {
        self.ctx.emit(Event::Log { level: level.to_owned(), data: text.into() }).await;
    }

    async fn progress(&self, done: f64, total: f64, text: &str) {
        let message = Some(text.to_owned());
        self.ctx.emit(Event::Progress { done, total: Some(total), message }).await;
    }

    async fn changed(&self, list: List) {
        match list {
            List::Tools => self.changes.tools().await,
            List::Prompts => self.changes.prompts().await,
        }
    }

    async fn pause(&self, milliseconds: u64) {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
}
