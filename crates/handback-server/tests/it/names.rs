//! Where a server listens, and by which names it is asked for.

use handback_identity::roster::FIRST_LINE;
use handback_server::{IdentityMode, StartError};

use crate::support::{Running, config};

#[tokio::test]
async fn without_identities_only_loopback_is_listened_on() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let started = Running::try_start(config().listen(address.parse().unwrap())).await;
        assert!(matches!(started, Err(StartError::NotLoopback(_))), "{address}");
    }
}

#[tokio::test]
async fn where_others_reach_it_the_server_has_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("identities");
    std::fs::write(&file, FIRST_LINE).unwrap();
    let mode = || IdentityMode::Static { file: file.clone() };
    let on_all = || config().listen("0.0.0.0:0".parse().unwrap()).identity(mode());
    assert!(matches!(Running::try_start(on_all()).await, Err(StartError::NoHosts(_))));
    let server = Running::start(on_all().host("tools.example")).await;
    let ask = |host: &'static str| {
        let address = format!("127.0.0.1:{}", server.address.port());
        async move {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            crate::support::ask_over(stream, host, "GET /healthz", &[], "").await.status
        }
    };
    assert_eq!(ask("tools.example").await, 200);
    assert_eq!(ask("evil.example").await, 421);
}
