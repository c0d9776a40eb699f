//! Servers that do what they should not.

use serde_json::json;

use super::{ERAS, World, text};

#[test]
fn what_nobody_understands_is_passed_over() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        for how in ["malformed", "twice"] {
            let result = client.call("wrong", &json!({"how": how}));
            assert_eq!(text(&result), format!("wrong {how}"));
        }
        assert!(client.close().success());
    }
}

#[test]
fn one_that_dies_is_started_again() {
    for era in ERAS {
        let world = World::new();
        let mut client = world.client(era);
        for how in ["die", "half"] {
            let result = client.call("wrong", &json!({"how": how}));
            assert_eq!(
                (&result["isError"], &result["_meta"]["dev.handback/reason"]),
                (&json!(true), &json!("lost"))
            );
            assert!(text(&result).contains("not known"), "{result}");
            let result = client.call("look", &json!({"text": "hello"}));
            assert_eq!(text(&result), "hello");
        }
    }
}
