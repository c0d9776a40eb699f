//! The handler.

#![expect(deprecated, reason = "log levels are a part of what the suite looks at")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use handback_interop::fixture::{self, Call, Reply, Tasks};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, CompletionInfo, CreateTaskResult,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult,
    Implementation, InputResponses, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, Prompt, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, RequestStateCodec,
    Resource, ResourceTemplate, ServerCapabilities, ServerConfig, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::task_manager::{TaskManager, TaskOptions};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::asking::{by_requests, complete, error, in_result, in_task, plain};
use crate::host::OfRequest;

/// Of a server that nobody trusts with anything.
const STATE_KEY: &[u8] = b"the fixture's request state is worth nothing";

/// rmcp makes a new handler for every request: clones share everything.
#[derive(Clone)]
pub(crate) struct Fixture {
    lists: Arc<Lists>,
    listeners: Listeners,
    tasks: TaskManager,
    states: RequestStateCodec,
}

/// What is listed, in rmcp's types.
struct Lists {
    tools: Vec<Tool>,
    prompts: Vec<Prompt>,
    resources: Vec<Resource>,
    templates: Vec<ResourceTemplate>,
}

impl Fixture {
    /// A server of its own.
    pub(crate) fn new() -> Result<Self> {
        let lists = Lists {
            tools: all(fixture::tools())?,
            prompts: all(fixture::prompts())?,
            resources: all(fixture::resources())?,
            templates: all(fixture::templates())?,
        };
        Ok(Self {
            lists: Arc::new(lists),
            listeners: Listeners::default(),
            tasks: TaskManager::new(),
            states: RequestStateCodec::try_new(STATE_KEY)?,
        })
    }

    /// What a request brings along; refused if its state was not sealed here.
    fn call(
        &self,
        arguments: Option<JsonObject>,
        answers: Option<InputResponses>,
        state: Option<&str>,
        context: &RequestContext<RoleServer>,
    ) -> Result<Call, ErrorData> {
        let state = state.map(|state| self.states.open_json(state)).transpose();
        let state =
            state.map_err(|_| ErrorData::invalid_params("the request state is not ours", None))?;
        let level = context.meta.log_level().map(plain).transpose()?;
        Ok(Call {
            arguments: arguments.unwrap_or_default(),
            answers: answers.unwrap_or_default().into_iter().collect(),
            state,
            capabilities: plain(context.client_capabilities())?,
            log_level: level.and_then(|level| level.as_str().map(str::to_owned)),
        })
    }

    /// Starts a task, which can be asked about as soon as this returns.
    fn start(&self, name: String, call: Call) -> CreateTaskResult {
        let task = self.tasks.spawn(TaskOptions::default(), move |task| {
            Box::pin(async move { in_task(&name, call, &task).await })
        });
        CreateTaskResult::new(task)
    }
}

impl ServerHandler for Fixture {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tasks()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(fixture::NAME, env!("CARGO_PKG_VERSION")))
    }

    /// rmcp compares headers with arguments for the tools that it finds here.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.lists.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.lists.tools.clone())
            .with_ttl_ms(fixture::CACHE_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let state = request.request_state.as_deref();
        let call = self.call(request.arguments, request.input_responses, state, &context)?;
        let name = request.name;
        let capabilities = context.client_capabilities();
        let knows_tasks = capabilities.is_some_and(|capabilities| capabilities.supports_tasks());
        match fixture::tasks(&name) {
            Tasks::Required | Tasks::RequiredAfterAnswers if !knows_tasks => {
                let tasks = ClientCapabilities::builder().enable_tasks().build();
                return Err(ErrorData::missing_required_client_capability(tasks));
            }
            Tasks::IfPossible | Tasks::Required if knows_tasks => {
                return Ok(self.start(name.into_owned(), call).into());
            }
            Tasks::RequiredAfterAnswers if !call.answers.is_empty() => {
                return Ok(self.start(name.into_owned(), call).into());
            }
            _ => {}
        }
        let host = OfRequest { context: &context, listeners: &self.listeners };
        if !is_modern(&context) {
            return by_requests(&context.peer, &name, call, &host).await.map(Into::into);
        }
        match fixture::call_tool(&name, &call, &host).await.map_err(error)? {
            Reply::Done(result) => Ok(CallToolResponse::Complete(complete(result)?)),
            Reply::Ask { questions, state } => {
                Ok(in_result(&self.states, questions, state.as_ref())?.into())
            }
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(self.lists.prompts.clone())
            .with_ttl_ms(fixture::CACHE_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let state = request.request_state.as_deref();
        let call = self.call(request.arguments, request.input_responses, state, &context)?;
        match fixture::get_prompt(&request.name, &call).map_err(error)? {
            Reply::Done(result) => Ok(complete::<GetPromptResult>(result)?.into()),
            Reply::Ask { questions, state } => {
                Ok(in_result(&self.states, questions, state.as_ref())?.into())
            }
        }
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(self.lists.resources.clone())
            .with_ttl_ms(fixture::CACHE_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.lists.templates.clone())
            .with_ttl_ms(fixture::CACHE_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let contents = fixture::read_resource(&request.uri).map_err(error)?;
        Ok(complete::<ReadResourceResult>(contents)?
            .with_ttl_ms(fixture::CACHE_TTL_MS)
            .with_cache_scope(CacheScope::Public)
            .into())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.supported_by(&self.get_info().capabilities))
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let _entry = self.listeners.enter(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = ["paris", "park", "party"].map(str::to_owned).to_vec();
        let values = CompletionInfo::with_all_values(values);
        values.map(CompleteResult::new).map_err(|why| ErrorData::internal_error(why, None))
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.tasks.get_task(&request.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

/// Who wants to hear of changes, over all connections.
#[derive(Clone, Default)]
pub(crate) struct Listeners(Arc<Mutex<Entries>>);

#[derive(Default)]
struct Entries {
    next: u64,
    sinks: BTreeMap<u64, SubscriptionSink>,
}

impl Listeners {
    /// All of them, at this moment.
    pub(crate) fn all(&self) -> Vec<SubscriptionSink> {
        self.lock().sinks.values().cloned().collect()
    }

    fn enter(&self, sink: SubscriptionSink) -> Entry {
        let mut entries = self.lock();
        let key = entries.next;
        entries.next += 1;
        entries.sinks.insert(key, sink);
        Entry { listeners: self.clone(), key }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Leaves on drop.
struct Entry {
    listeners: Listeners,
    key: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.listeners.lock().sinks.remove(&self.key);
    }
}

fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version >= ProtocolVersion::V_2026_07_28)
}

fn all<T: DeserializeOwned>(values: Vec<Value>) -> Result<Vec<T>> {
    Ok(values.into_iter().map(serde_json::from_value).collect::<Result<_, _>>()?)
}
