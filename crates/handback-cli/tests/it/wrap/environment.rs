//! What programs behind the gateway have in their environment.

use serde_json::{Value, json};

use super::shared::Served;
use super::{World, text};
use crate::mcp_client::Era;
use crate::support::{ATD_KEY, Sandbox, read};

/// A sandbox whose processes have secrets of all kinds in their environment.
fn with_secrets() -> Sandbox {
    let ring = read(&Sandbox::with_ring().key_file());
    Sandbox::new()
        .set("HANDBACK_KEYS", ring)
        .set("HANDBACK_TOKEN", "of-a-client")
        .set("ATD_CURSOR_SIGNING_KEY", ATD_KEY)
        .set("SHOP_AUTHORIZATION", "of-the-shop")
        .set("UP_TOKEN", "of-up")
        .set("BOTH", "of-both")
        .set("PLAIN", "for-everybody")
}

#[track_caller]
fn environment(result: &Value) -> Value {
    serde_json::from_str(text(result)).unwrap()
}

#[test]
fn secrets_of_the_gateway_and_of_others_are_kept_from_programs() {
    let more = "env = { TOKEN = \"env:UP_TOKEN\", BOTH = \"env:BOTH\" }\n[upstreams.shop]\n\
                url = \"http://127.0.0.1:9/mcp\"\nheaders = { Authorization = \
                \"env:SHOP_AUTHORIZATION\", Other = \"env:BOTH\" }\n";
    let served = Served::started(with_secrets(), "both open", more);
    let has = environment(&served.call(&served.alice, "environment", &json!({})));
    let secrets = ["HANDBACK_KEYS", "HANDBACK_TOKEN", "ATD_CURSOR_SIGNING_KEY"];
    for secret in secrets.into_iter().chain(["SHOP_AUTHORIZATION", "UP_TOKEN"]) {
        assert!(has.get(secret).is_none(), "{secret}");
    }
    // What it was given itself it has, and what is no secret of anybody.
    for (name, value) in [("TOKEN", "of-up"), ("BOTH", "of-both"), ("PLAIN", "for-everybody")] {
        assert_eq!(has[name], value, "{name}");
    }
}

#[test]
fn a_wrapped_server_has_what_its_user_set_for_it() {
    let world = World { speaks: "both open", ..World::with(with_secrets()) };
    let mut client = world.client(Era::Newest);
    let has = environment(&client.call("environment", &json!({})));
    for secret in ["HANDBACK_KEYS", "HANDBACK_TOKEN", "ATD_CURSOR_SIGNING_KEY"] {
        assert!(has.get(secret).is_none(), "{secret}");
    }
    for (name, value) in [("SHOP_AUTHORIZATION", "of-the-shop"), ("PLAIN", "for-everybody")] {
        assert_eq!(has[name], value, "{name}");
    }
}
