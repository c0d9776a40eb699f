//! rmcp's own client, in both eras.

use std::collections::HashMap;

use rmcp::model::{CallToolRequestParams, ProtocolVersion};
use rmcp::service::RunningService;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, UnixSocketHttpClient};
use rmcp::{ClientLifecycleMode, ClientServiceExt as _, RoleClient};

use crate::world::{USER, World};

const URL: &str = "http://localhost/mcp";

async fn connect(
    world: &World,
    user: u32,
    lifecycle: ClientLifecycleMode,
) -> RunningService<RoleClient, ()> {
    let client = UnixSocketHttpClient::new(world.socket.to_str().unwrap(), URL);
    let user = (USER.parse().unwrap(), user.to_string().parse().unwrap());
    let config =
        StreamableHttpClientTransportConfig::with_uri(URL).custom_headers(HashMap::from([user]));
    let transport = StreamableHttpClientTransport::with_client(client, config);
    ().serve_with_lifecycle(transport, lifecycle).await.unwrap()
}

async fn check(lifecycle: ClientLifecycleMode) {
    let world = World::new().await;
    for user in [7, 8] {
        let client = connect(&world, user, lifecycle.clone()).await;
        let tools = client.list_all_tools().await.unwrap();
        assert_eq!(tools.len(), 3);
        let result = client.call_tool(CallToolRequestParams::new("whoami")).await.unwrap();
        let text = serde_json::to_value(&result).unwrap();
        assert_eq!(text["content"][0]["text"], user.to_string(), "{text}");
        client.cancel().await.unwrap();
    }
}

#[tokio::test]
async fn serves_a_client_with_a_session() {
    check(ClientLifecycleMode::Initialize).await;
}

#[tokio::test]
async fn serves_a_client_without_one() {
    check(ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    })
    .await;
}
