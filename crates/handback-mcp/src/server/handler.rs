//! The methods of the protocol.

#![expect(deprecated, reason = "log levels and subscriptions of older clients")]

use std::sync::Arc;

use handback_token::Operation;
use handback_tool::{Answer, Continuation, Definition, Kind, Refusal, Reply, TaskMode};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, Implementation, InputRequest,
    InputRequiredResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    Reference, ServerCapabilities, ServerConfig, ServerRequest, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::McpServer;
use super::answers::{
    Brought, prompt_result, protocol_error, questions, resource_result, tool_refusal, tool_result,
    typed,
};
use super::calls::{Incoming, is_modern, level_name};
use super::lists::{List, entry_of};
use super::session::RESOURCES_MAX;
use super::tasks::{NewTask, OwnRounds, SLOW_AFTER, TaskTool};

/// Values of a completion at most, as the protocol has it.
const COMPLETIONS_MAX: usize = 100;

/// How a call with all its questions ended.
enum Ended {
    Answered(Answer),
    /// Questions for a client that takes them inside of results.
    Asks(InputRequiredResult),
    /// The client did not answer.
    Unanswered(String),
}

impl McpServer {
    /// Makes a call. Older clients are asked on the way.
    async fn settle(
        &self,
        incoming: &Incoming,
        context: &RequestContext<RoleServer>,
    ) -> Result<Result<Ended, Refusal>, ErrorData> {
        let mut continuation = incoming.continuation.clone();
        loop {
            let mut running = self.start(incoming, continuation.take(), context.ct.clone());
            let answer = match running.told(context).await {
                Ok(answer) => answer,
                Err(refusal) => return Ok(Err(refusal)),
            };
            let Reply::NeedsInput { inputs, state } = answer.reply else {
                return Ok(Ok(Ended::Answered(answer)));
            };
            let requests = questions(&inputs, incoming.abilities)?;
            if is_modern(context) {
                let asks = InputRequiredResult::new(Some(requests), Some(state));
                return Ok(Ok(Ended::Asks(asks)));
            }
            let mut answers = Map::new();
            for (name, request) in requests {
                match ask(context, request).await? {
                    Ok(answer) => answers.insert(name, answer),
                    Err(message) => return Ok(Ok(Ended::Unanswered(message))),
                };
            }
            continuation = Some(Continuation::State { state: Some(state), answers });
        }
    }

    /// A tool for a client that knows tasks: a call that takes long goes on without it.
    async fn call_or_task(
        &self,
        incoming: Incoming,
        context: &RequestContext<RoleServer>,
        is_at_once: bool,
    ) -> Result<CallToolResponse, ErrorData> {
        let cancel = CancellationToken::new();
        let mut running = self.start(&incoming, incoming.continuation.clone(), cancel.clone());
        if !is_at_once {
            let ended = tokio::select! {
                ended = running.told(context) => Some(ended),
                () = context.ct.cancelled() => return Err(protocol_error(&Refusal::Cancelled)),
                () = tokio::time::sleep(SLOW_AFTER) => None,
            };
            if let Some(ended) = ended {
                return self.told_result(&incoming, ended);
            }
        }
        let longest = self.definition(&incoming).map(|known| known.longest_call());
        let new = NewTask {
            owner: incoming.caller.principal().clone(),
            tool: TaskTool {
                name: incoming.name.clone(),
                own_name: incoming.name.clone(),
                upstream: None,
            },
            longest: longest.unwrap_or_default(),
            patience: self.pipeline.sealer().state_life(),
            cancel: cancel.clone(),
        };
        let rounds = OwnRounds {
            server: self.clone(),
            incoming: incoming.clone(),
            call: running.call,
            cancel,
            sealed: None,
        };
        match self.tasks.adopt(new, rounds).await {
            Ok(task) => return Ok(CallToolResponse::Task(task)),
            // Nothing has begun.
            Err((_, error)) if is_at_once => return Err(error),
            Err((rounds, _)) => running.call = rounds.call,
        }
        // It is at work: refused now, it might be made again.
        let ended = tokio::select! {
            ended = running.told(context) => ended,
            () = context.ct.cancelled() => return Err(protocol_error(&Refusal::Cancelled)),
        };
        self.told_result(&incoming, ended)
    }

    /// What a round of a modern client's call is answered with.
    fn told_result(
        &self,
        incoming: &Incoming,
        ended: Result<Answer, Refusal>,
    ) -> Result<CallToolResponse, ErrorData> {
        match ended {
            Ok(Answer { reply: Reply::NeedsInput { inputs, state }, .. }) => {
                let requests = questions(&inputs, incoming.abilities)?;
                Ok(InputRequiredResult::new(Some(requests), Some(state)).into())
            }
            Ok(answer) => Ok(CallToolResponse::Complete(tool_result(answer)?)),
            Err(refusal) => {
                Ok(CallToolResponse::Complete(tool_refusal(&refusal, incoming.brought())?))
            }
        }
    }

    pub(super) fn definition(&self, incoming: &Incoming) -> Option<Definition> {
        let Incoming { caller, operation, name, .. } = incoming;
        let tool = self.pipeline.registry().named(caller, *operation, name)?;
        Some(tool.definition().clone())
    }
}

/// Asks an older client; its error, in words, if it does not answer.
async fn ask(
    context: &RequestContext<RoleServer>,
    request: InputRequest,
) -> Result<Result<Value, String>, ErrorData> {
    let request = match request {
        InputRequest::CreateMessage(request) => ServerRequest::CreateMessageRequest(request),
        InputRequest::Elicitation(request) => ServerRequest::ElicitRequest(request),
        InputRequest::ListRoots(request) => ServerRequest::ListRootsRequest(request),
        _ => return Err(ErrorData::internal_error("this cannot be asked", None)),
    };
    let answered = tokio::select! {
        answered = context.peer.send_request(request) => answered,
        () = context.ct.cancelled() => return Err(protocol_error(&Refusal::Cancelled)),
    };
    match answered {
        Ok(answer) => {
            let answer = serde_json::to_value(answer);
            answer.map(Ok).map_err(|_| ErrorData::internal_error("the answer is no JSON", None))
        }
        Err(error) => Ok(Err(format!("the client did not answer: {error}"))),
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
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
        for name in self.extensions {
            let declared = || ((*name).to_owned(), Default::default());
            capabilities.extensions.get_or_insert_default().extend([declared()]);
            capabilities.experimental.get_or_insert_default().extend([declared()]);
        }
        let info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new(&self.about.name, &self.about.version));
        match &self.about.instructions {
            Some(instructions) => info.with_instructions(instructions),
            None => info,
        }
    }

    /// rmcp compares headers with arguments for the tools that it finds here. It does not say who
    /// calls: only what everybody may see is found.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let everybody = handback_identity::Caller::unauthenticated();
        let tool = self.pipeline.registry().named(&everybody, Operation::Call, name)?;
        typed(entry_of(tool.definition())).ok()
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let caller = self.caller(&context)?;
        let (items, next) = List::Tools.page(&self.pipeline, &caller, cursor.as_deref()).await?;
        let mut result = ListToolsResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let came_back = (request.request_state, request.input_responses);
        let name = request.name.into_owned();
        let incoming =
            Incoming::read(self, &context, Operation::Call, name, request.arguments, came_back)?;
        // Older clients may name the extension, but have no results that are tasks or questions.
        let knows_tasks = is_modern(&context)
            && context.client_capabilities().is_some_and(|can| can.supports_tasks());
        let mode = self.definition(&incoming).map_or(TaskMode::Never, |known| known.task_mode());
        match mode {
            TaskMode::Required | TaskMode::RequiredAfterAnswers if !knows_tasks => {
                let tasks = ClientCapabilities::builder().enable_tasks().build();
                return Err(ErrorData::missing_required_client_capability(tasks));
            }
            TaskMode::AtOnce | TaskMode::Required if knows_tasks => {
                return self.call_or_task(incoming, &context, true).await;
            }
            TaskMode::RequiredAfterAnswers if incoming.brought() == Brought::State => {
                return self.call_or_task(incoming, &context, true).await;
            }
            TaskMode::IfSlow if knows_tasks => {
                return self.call_or_task(incoming, &context, false).await;
            }
            _ => {}
        }
        let result = match self.settle(&incoming, &context).await? {
            Ok(Ended::Answered(answer)) => tool_result(answer)?,
            Ok(Ended::Asks(asks)) => return Ok(asks.into()),
            Ok(Ended::Unanswered(message)) => {
                CallToolResult::error(vec![ContentBlock::text(message)])
            }
            Err(refusal) => tool_refusal(&refusal, incoming.brought())?,
        };
        Ok(CallToolResponse::Complete(result))
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let caller = self.caller(&context)?;
        let (items, next) = List::Prompts.page(&self.pipeline, &caller, cursor.as_deref()).await?;
        let mut result = ListPromptsResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let came_back = (request.request_state, request.input_responses);
        let operation = Operation::Prompt;
        let incoming =
            Incoming::read(self, &context, operation, request.name, request.arguments, came_back)?;
        match self.settle(&incoming, &context).await? {
            Ok(Ended::Answered(answer)) => Ok(prompt_result(answer.reply)?.into()),
            Ok(Ended::Asks(asks)) => Ok(asks.into()),
            Ok(Ended::Unanswered(message)) => Err(ErrorData::internal_error(message, None)),
            Err(refusal) => Err(protocol_error(&refusal)),
        }
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let caller = self.caller(&context)?;
        let (items, next) =
            List::Resources.page(&self.pipeline, &caller, cursor.as_deref()).await?;
        let mut result = ListResourcesResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        let caller = self.caller(&context)?;
        let (items, next) =
            List::Templates.page(&self.pipeline, &caller, cursor.as_deref()).await?;
        let mut result = ListResourceTemplatesResult::with_all_items(items);
        result.next_cursor = next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let came_back = (request.request_state, request.input_responses);
        let uri = request.uri;
        let operation = Operation::Read;
        let incoming = Incoming::read(self, &context, operation, uri.clone(), None, came_back)?;
        let mime_type = self.definition(&incoming).and_then(|known| match known.kind() {
            Kind::Resource { mime_type } => mime_type.clone(),
            _ => None,
        });
        match self.settle(&incoming, &context).await? {
            Ok(Ended::Answered(answer)) => {
                Ok(resource_result(&uri, mime_type.as_deref(), answer.reply)?.into())
            }
            Ok(Ended::Asks(asks)) => Ok(asks.into()),
            Ok(Ended::Unanswered(message)) => Err(ErrorData::internal_error(message, None)),
            Err(Refusal::NotFound) => {
                let data = serde_json::json!({"uri": uri});
                Err(ErrorData::resource_not_found("there is no such resource", Some(data)))
            }
            Err(refusal) => Err(protocol_error(&refusal)),
        }
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.changes.tell(context.peer, &self.session);
    }

    /// One resource of those that the caller may read. To others, and of others, nothing is said.
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context)?;
        if self.pipeline.registry().named(&caller, Operation::Read, &request.uri).is_none() {
            let data = serde_json::json!({"uri": request.uri});
            return Err(ErrorData::resource_not_found("there is no such resource", Some(data)));
        }
        self.changes.tell(context.peer, &self.session);
        match self.session.follow(request.uri) {
            true => Ok(()),
            false => Err(protocol_error(&Refusal::Busy)),
        }
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.unfollow(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.supported_by(&self.get_info().capabilities);
        if let Some(resources) = &mut accepted.resource_subscriptions {
            resources.truncate(RESOURCES_MAX);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let caller = self.caller(context.request_context())?;
        let pipeline = Arc::clone(&self.pipeline);
        let may_read =
            move |uri: &str| pipeline.registry().named(&caller, Operation::Read, uri).is_some();
        let _listening = self.changes.enter(context.sink().clone(), Arc::new(may_read));
        context.cancelled().await;
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let caller = self.caller(&context)?;
        let (operation, name) = match &request.r#ref {
            Reference::Prompt(prompt) => (Operation::Prompt, prompt.name.as_str()),
            Reference::Resource(resource) => (Operation::Read, resource.uri.as_str()),
            _ => return Err(ErrorData::invalid_params("nothing is completed there", None)),
        };
        let argument = &request.argument;
        let found =
            self.pipeline.complete(&caller, operation, name, &argument.name, &argument.value);
        let mut values = found.ok_or_else(|| protocol_error(&Refusal::NotFound))?;
        values.truncate(COMPLETIONS_MAX);
        let values = CompletionInfo::with_all_values(values);
        values.map(CompleteResult::new).map_err(|why| ErrorData::internal_error(why, None))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if let Some(level) = level_name(Some(request.level)) {
            self.session.set_level(&level);
        }
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let caller = self.caller(&context)?;
        self.tasks.get(&self.pipeline, &caller, &request.task_id).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context)?;
        let answers = request.input_responses.into_iter().collect();
        self.tasks.update(&self.pipeline, &caller, &request.task_id, answers).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let caller = self.caller(&context)?;
        self.tasks.cancel(&self.pipeline, &caller, &request.task_id).await
    }
}
