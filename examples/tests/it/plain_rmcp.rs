//! `plain_rmcp`, with rmcp's own client.

use std::path::Path;
use std::process::Stdio;

use handback_token::ring::file::KeyFile;
use handback_token::{KeyRing, Mode, UnixTime};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, ElicitRequestParams,
    ElicitResult, ElicitationAction, PaginatedRequestParams, ProtocolVersion,
};
use rmcp::service::{RequestContext, RunningService, ServiceError};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ErrorData, RoleClient};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// A client whose user says yes.
struct Agrees;

impl ClientHandler for Agrees {
    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.capabilities = ClientCapabilities::builder().enable_elicitation().build();
        info
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"sure": true})))
    }
}

type Client = RunningService<RoleClient, Agrees>;

fn keys() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let ring = KeyRing::generate(&mut rand::rng(), Mode::Sealed, UnixTime::from_secs(1));
    KeyFile::new(folder.path().join("keys.json")).create(&ring).unwrap();
    folder
}

/// The process is killed when it is dropped.
async fn connect(folder: &Path, user: &str) -> (Client, Child) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_plain_rmcp"))
        .arg(folder.join("keys.json"))
        .arg(user)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let transport = (process.stdout.take().unwrap(), process.stdin.take().unwrap());
    let lifecycle =
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    (Agrees.serve_with_lifecycle(transport, lifecycle).await.unwrap(), process)
}

/// A page: how many, and the cursor of the next.
async fn page(client: &Client, cursor: Option<&str>) -> Result<(usize, Option<String>), String> {
    let params = PaginatedRequestParams::default().with_cursor(cursor.map(str::to_owned));
    match client.list_resources(Some(params)).await {
        Ok(page) => Ok((page.resources.len(), page.next_cursor)),
        Err(ServiceError::McpError(error)) => Err(error.message.into_owned()),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn cursors_are_good_for_their_user_in_every_process() {
    let keys = keys();
    let (alice, _one) = connect(keys.path(), "alice").await;
    let all = alice.list_all_resources().await.unwrap();
    assert_eq!(all.len(), 95);
    assert_eq!((&*all[0].name, &*all[94].name), ("note 0", "note 94"));

    let (count, cursor) = page(&alice, None).await.unwrap();
    let cursor = cursor.unwrap();
    assert_eq!(count, 20);
    let (again, _two) = connect(keys.path(), "alice").await;
    assert_eq!(page(&again, Some(&cursor)).await.unwrap().0, 20, "another process");
    let (bob, _three) = connect(keys.path(), "bob").await;
    let foreign = page(&bob, Some(&cursor)).await.unwrap_err();
    for at in 0..cursor.len() {
        let mut edited = cursor.clone().into_bytes();
        edited[at] = if edited[at] == b'A' { b'B' } else { b'A' };
        let edited = String::from_utf8(edited).unwrap();
        assert_eq!(page(&alice, Some(&edited)).await.unwrap_err(), foreign, "{at}");
    }
}

#[tokio::test]
async fn request_state_is_good_for_its_user_and_call() {
    let keys = keys();
    let (alice, _one) = connect(keys.path(), "alice").await;
    let call = CallToolRequestParams::new("delete_all");
    let result = alice.call_tool(call.clone()).await.unwrap();
    let result = serde_json::to_value(&result).unwrap();
    assert_eq!(result["content"][0]["text"], "deleted; shown to the user");

    let CallToolResponse::InputRequired(asked) = alice.call_tool_once(call.clone()).await.unwrap()
    else {
        panic!("it did not ask");
    };
    let state = asked.request_state.unwrap();
    let mut answered = call.clone();
    answered.request_state = Some(state.clone());
    let (bob, _two) = connect(keys.path(), "bob").await;
    assert!(bob.call_tool_once(answered.clone()).await.is_err(), "another user");
    let other = answered.clone().with_arguments(json!({"of": 1}).as_object().unwrap().clone());
    assert!(alice.call_tool_once(other).await.is_err(), "other arguments");
    let mut edited = answered.clone();
    edited.request_state = Some(format!("{state}A"));
    assert!(alice.call_tool_once(edited).await.is_err(), "edited");
    let (again, _three) = connect(keys.path(), "alice").await;
    let result = again.call_tool_once(answered).await.unwrap();
    assert!(matches!(result, CallToolResponse::Complete(_)), "another process");
}
