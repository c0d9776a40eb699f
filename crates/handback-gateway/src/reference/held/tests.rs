use handback_identity::UnixPeers;
use handback_page::json::Pointer;
use handback_store::MemoryStore;
use handback_store::held::{HeldOptions, HeldStore, NewValue};
use handback_store::revocations::{Revocation, RevocationStore};
use serde_json::json;

use super::super::{Call, Resolution, Rules, resolve};
use super::*;

const NOW: Millis = 1_800_000_000_000;
const HOUR: Millis = 60 * 60 * 1_000;

struct World {
    held: CallHeld,
    revocations: RevocationStore<Arc<dyn Kv>>,
}

fn who(number: u32) -> VerifiedPrincipal {
    UnixPeers::new("test").unwrap().caller(number).principal().clone()
}

impl World {
    fn new(options: HeldOptions) -> Self {
        let kv: Arc<dyn Kv> = Arc::new(MemoryStore::new());
        let held = HeldStore::new(Arc::clone(&kv), options).unwrap();
        Self { held, revocations: RevocationStore::new(kv) }
    }

    fn hold(&self, owner: u32, kind: &str, bytes: &[u8]) -> Handle {
        let note = HeldNote {
            upstream: Some("files".to_owned()),
            tool: "read".to_owned(),
            ..HeldNote::default()
        };
        let new = NewValue::new(kind).note(note.to_bytes());
        let held = self.held.put(&who(owner), new, bytes, &mut rand::rng(), NOW);
        held.unwrap().handle().unwrap()
    }

    fn resolve(&self, caller: u32, arguments: &str, now: Millis) -> Result<String, String> {
        let revocations = self.revocations.load(now).unwrap();
        let principal = who(caller);
        let mut values = HeldValues::of(&principal, &self.held, &revocations, now);
        let rules = Rules::default();
        let call = Call { upstream: "files", tool: "write", rules: &rules, schema: None };
        match resolve(arguments, &call, &mut values) {
            Ok(Resolution { arguments, .. }) => Ok(arguments.into_owned()),
            Err(error) => Err(format!("{error} ({}, {})", error.reason(), error.outside())),
        }
    }
}

fn naming(handle: Handle) -> String {
    json!({"content": {"$held": handle.to_string()}}).to_string()
}

#[test]
fn a_value_is_put_in_for_its_owner_and_for_nobody_else() {
    let world = World::new(HeldOptions::new());
    let handle = world.hold(1, "application/json", b"[1, 2]");
    assert_eq!(world.resolve(1, &naming(handle), NOW).unwrap(), r#"{"content":[1, 2]}"#);
    let unknown = Handle::generate(&mut rand::rng());
    let nothing = world.resolve(1, &naming(unknown), NOW).unwrap_err();
    assert_eq!(nothing, "invalid handle (unknown_handle, invalid)");
    assert_eq!(world.resolve(2, &naming(handle), NOW), Err(nothing.clone()));
    // Its end is told to its owner, and for a day.
    let late = NOW + 2 * HOUR;
    assert_eq!(world.resolve(2, &naming(handle), late), Err(nothing.clone()));
    assert_eq!(
        world.resolve(1, &naming(handle), late).unwrap_err(),
        "expired handle: make the call that gave it once more (expired_handle, expired)"
    );
    assert_eq!(world.resolve(1, &naming(handle), NOW + 48 * HOUR), Err(nothing));
    let good = handle.to_string();
    let wrong = format!("{}{}", &good[..29], if good.ends_with('0') { '1' } else { '0' });
    let mistyped = naming(handle).replace(&good, &wrong);
    for caller in [1, 2] {
        assert_eq!(
            world.resolve(caller, &mistyped, NOW).unwrap_err(),
            "mistyped handle: copy it again, a character of it is another one \
             (mistyped_handle, mistyped)"
        );
    }
}

#[test]
fn a_revoked_value_is_an_unknown_one() {
    let world = World::new(HeldOptions::new());
    let handle = world.hold(1, "application/json", b"1");
    let other = world.hold(2, "application/json", b"2");
    world.revocations.revoke(Revocation::principal(&who(1)), NOW).unwrap();
    let refused = world.resolve(1, &naming(handle), NOW).unwrap_err();
    assert_eq!(refused, "invalid handle (revoked, invalid)");
    assert_eq!(world.resolve(2, &naming(other), NOW).unwrap(), r#"{"content":2}"#);
}

#[test]
fn parts_of_large_values_are_put_in_from_the_store_and_from_files() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(HeldOptions::new().folder(folder.path()));
    for items in [1_000, 300_000] {
        let items: Vec<String> =
            (0..items).map(|n| format!(r#"{{"id":{n},"name":"item {n}"}}"#)).collect();
        let document = format!(r#"{{"items":[{}],"end":"\u00e9"}}"#, items.join(","));
        let handle = world.hold(1, "application/json", document.as_bytes());
        let last = items.len() - 1;
        let arguments = json!({
            "one": {"$held": handle.to_string(), "path": format!("/items/{last}")},
            "text": format!("$held:{handle}#/items/0/name"),
            "end": format!("$held:{handle}#/end"),
        });
        let resolved = world.resolve(1, &arguments.to_string(), NOW).unwrap();
        let expected = format!(r#"{{"end":"\u00e9","one":{},"text":"item 0"}}"#, items[last]);
        assert_eq!(resolved, expected);
    }
    let files = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files, 1, "the large one is a file");
}

#[test]
fn a_source_is_what_was_held() {
    let world = World::new(HeldOptions::new());
    let handle = world.hold(1, "text/plain", "h\u{e9}ld".as_bytes());
    let revocations = world.revocations.load(NOW).unwrap();
    let principal = who(1);
    let mut values = HeldValues::of(&principal, &world.held, &revocations, NOW);
    let source = values.fetch(handle).unwrap();
    assert_eq!((source.kind.as_str(), source.note.tool.as_str()), ("text/plain", "read"));
    assert_eq!(source.bytes.read(0..5).unwrap(), "h\u{e9}ld".as_bytes());
    assert!(source.bytes.read(0..6).is_err());
    assert!(handback_page::json::locate(&*source.bytes, &Pointer::whole()).is_err());
}
