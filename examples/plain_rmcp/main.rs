//! A plain rmcp server that seals what it hands out: page cursors and request state.
//!
//! Nothing of it is Handback's but `handback-token`. `plain_rmcp KEYS USER` speaks MCP on standard
//! input and output, to USER; KEYS is a key file (`handback keys generate --keys KEYS`). Processes
//! with the same key file take each other's cursors and state, from the same user.

mod clock;

use std::error::Error;
use std::sync::Arc;

use handback_token::ring::file::KeyFile;
use handback_token::{
    Caller, Context, Cursor, CursorIssuer, CursorPayload, Operation, RequestState,
    RequestStateCodec, RequestStateKey, RequestStateScope, RequestStateSecurity, Sealer,
    SealerConfig, args_fingerprint, secure_request_state,
};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequests,
    InputRequiredResult, ListResourcesResult, PaginatedRequestParams, Resource, ServerCapabilities,
    ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, serve_server};
use serde_json::{Value, json};

const NOTES: u32 = 95;
const PAGE: u32 = 20;

/// Notes of one user. What is Handback's are the last two members.
#[derive(Clone)]
struct Notes {
    user: String,
    sealer: Arc<Sealer>,
    states: Arc<RequestStateCodec>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(keys), Some(user)) = (words.next(), words.next()) else {
        return Err("usage: plain_rmcp KEYS USER".into());
    };
    let ring = KeyFile::new(keys).load()?;
    let sealer = Arc::new(Sealer::new(&ring, SealerConfig::default())?);
    let security = RequestStateSecurity::new(RequestStateKey::Ring(Box::new(ring)));
    let states = Arc::new(secure_request_state(security, &mut rand::rng(), clock::now())?);
    serve_server(Notes { user, sealer, states }, stdio()).await?.waiting().await?;
    Ok(())
}

impl Notes {
    /// Who calls. On HTTP it is who a validated access token names.
    fn caller(&self) -> Caller<'_> {
        Caller::dangerous_identified("example", &self.user)
    }

    /// The cursors of this list, for this caller.
    fn cursors(&self) -> Result<CursorIssuer<'_>, ErrorData> {
        let context = Context::new(self.caller(), Operation::List).name("resources");
        let bound = self.sealer.bind::<Cursor>(&context).map_err(internal)?;
        Ok(CursorIssuer::new(bound, clock::now()))
    }
}

impl ServerHandler for Notes {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder().enable_resources().enable_tools().build();
        ServerConfig::new(can)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursors = self.cursors()?;
        let text = request.and_then(|request| request.cursor);
        let opened = text.map(|text| cursors.verify(&text)).transpose();
        let opened = opened.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let place = opened.as_ref().map(|cursor| <[u8; 4]>::try_from(&*cursor.opaque_state));
        let start = place.transpose().map_err(internal)?.map_or(0, u32::from_be_bytes);
        let end = start.saturating_add(PAGE).min(NOTES);
        let notes = (start..end).map(|n| Resource::new(format!("note://{n}"), format!("note {n}")));
        let mut result = ListResourcesResult::with_all_items(notes.collect());
        if end < NOTES {
            let place = end.to_be_bytes();
            let next = match &opened {
                None => CursorPayload::first(place),
                Some(cursor) => cursor.next(place),
            };
            result.next_cursor = Some(cursors.issue(&mut rand::rng(), &next).map_err(internal)?);
        }
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = args_fingerprint(&request.arguments.unwrap_or_default().into());
        let scope = RequestStateScope {
            caller: self.caller(),
            operation: Operation::Call,
            name: &request.name,
            arguments: &arguments,
        };
        let now = clock::now();
        match self.states.decode(request.request_state.as_deref(), &scope, now) {
            RequestState::First => {
                let state = self.states.encode(&mut rand::rng(), now, &scope, b"shown to the user");
                let asked =
                    InputRequiredResult::new(Some(question()?), Some(state.map_err(internal)?));
                Ok(asked.into())
            }
            RequestState::Opened(opened) => {
                let remembered = String::from_utf8_lossy(opened.state()).into_owned();
                let answers = request.input_responses.unwrap_or_default();
                let is_sure =
                    answers.get("sure").and_then(|answer| answer.pointer("/content/sure"));
                let done = if is_sure == Some(&Value::Bool(true)) { "deleted" } else { "kept" };
                let text = ContentBlock::text(format!("{done}; {remembered}"));
                Ok(CallToolResult::success(vec![text]).into())
            }
            RequestState::Expired(refused) | RequestState::Refused(refused) => {
                Err(ErrorData::invalid_params(refused.outside().to_string(), None))
            }
        }
    }
}

fn question() -> Result<InputRequests, ErrorData> {
    let schema = json!({"type": "object", "properties": {"sure": {"type": "boolean"}}});
    let params = json!({"mode": "form", "message": "Delete all?", "requestedSchema": schema});
    let asked = json!({"sure": {"method": "elicitation/create", "params": params}});
    serde_json::from_value(asked).map_err(internal)
}

fn internal(error: impl ToString) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}
