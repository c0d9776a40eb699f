//! ATD cursors: what `atd-runtime` 1.2.1 issues opens here, and what is issued here verifies there.

use atd_runtime::cursor::{CursorIssuer, CursorPayload};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handback_interop::clock::now;
use handback_token::compat::Acceptance;
use handback_token::compat::atd::{AtdCursors, args_fingerprint};
use handback_token::{AtdSigningKey, Caller, Context, Operation, Reason, UnixTime};
use serde_json::{Value, json};

const ISSUER: &str = "https://accounts.example.com";
const KEY: [u8; 32] = *b"interop-key-interop-key-interop!";

fn ours(session: [u8; 8]) -> AtdCursors {
    let key = AtdSigningKey::from_text(&URL_SAFE_NO_PAD.encode(KEY)).unwrap();
    let acceptance =
        Acceptance { accept_until: UnixTime::from_secs(u64::MAX), issuer: Some(ISSUER.into()) };
    AtdCursors::new(key, session, acceptance)
}

fn caller(id: Option<&str>) -> Caller<'_> {
    id.map_or(Caller::UNAUTHENTICATED, |id| Caller::dangerous_identified(ISSUER, id))
}

/// Tool, caller, arguments, page, state.
type Case = (String, Option<String>, Value, u32, Vec<u8>);

/// Short and long ones, so that every CBOR length form of
/// integers and strings that fits a cursor is met.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for tool in ["t", "acme:search", &"x".repeat(23), &"x".repeat(24), &"ü".repeat(12)] {
        for caller in [None, Some("".to_owned()), Some("alice".to_owned()), Some("c".repeat(30))] {
            for (page, state) in
                [(1, 0), (23, 1), (24, 23), (255, 24), (256, 60), (65_536, 64), (u32::MAX, 70)]
            {
                let arguments =
                    json!({"page": page, "tool": tool, "nested": [1.5, null, {"b": 1, "a": 2}]});
                let state = (0..state).map(|n: u8| n.wrapping_mul(37)).collect();
                cases.push((tool.to_owned(), caller.clone(), arguments, page, state));
            }
        }
    }
    cases
}

#[test]
fn cursors_of_the_published_crate_open_here() {
    let theirs = CursorIssuer::new(KEY);
    let mut opened = 0;
    for (tool, id, arguments, page, state) in cases() {
        let payload = CursorPayload {
            tool_id: tool.clone(),
            caller_id: id.clone(),
            args_fingerprint: atd_runtime::args_fingerprint(&arguments),
            page_index: page,
            issued_at_unix: now().as_secs(),
            server_session: theirs.session_nonce(),
            opaque_state: state.clone(),
        };
        let Ok(cursor) = theirs.issue(payload) else { continue };
        let fingerprint = args_fingerprint(&arguments);
        let context = Context::new(caller(id.as_deref()), Operation::Call)
            .name(&tool)
            .arguments(&fingerprint);
        for session in [theirs.session_nonce(), *b"anything"] {
            let read = ours(session).open(&cursor, &context, now()).unwrap();
            assert_eq!((read.page_index, &read.opaque_state), (page, &state));
            opened += 1;
        }
        let mallory = Context::new(caller(Some("mallory")), Operation::Call)
            .name(&tool)
            .arguments(&fingerprint);
        let refused = ours(*b"anything").open(&cursor, &mallory, now()).unwrap_err();
        assert_eq!(refused.reason(), Reason::NotOpened, "the crate itself does not look");
    }
    assert!(opened > 200, "{opened}");
}

#[test]
fn cursors_issued_here_are_the_same_bytes_and_verify_in_the_published_crate() {
    let theirs = CursorIssuer::new(KEY);
    let ours = ours(theirs.session_nonce());
    let mut same = 0;
    for (tool, id, arguments, page, state) in cases() {
        let fingerprint = args_fingerprint(&arguments);
        assert_eq!(*fingerprint.as_bytes(), atd_runtime::args_fingerprint(&arguments));
        let context = Context::new(caller(id.as_deref()), Operation::Call)
            .name(&tool)
            .arguments(&fingerprint);
        let issued_at = now();
        let made_there = theirs.issue(CursorPayload {
            tool_id: tool.clone(),
            caller_id: id.clone(),
            args_fingerprint: *fingerprint.as_bytes(),
            page_index: page,
            issued_at_unix: issued_at.as_secs(),
            server_session: theirs.session_nonce(),
            opaque_state: state.clone(),
        });
        let made_here = ours.issue(&context, page, &state, issued_at);
        assert_eq!(made_here.as_ref().ok(), made_there.as_ref().ok(), "{tool} {page}");
        let Ok(cursor) = made_here else { continue };
        let read = theirs.verify(&cursor, 300).unwrap();
        assert_eq!(
            (read.tool_id, read.caller_id, read.page_index, read.opaque_state),
            (tool, id, page, state)
        );
        same += 1;
    }
    assert!(same > 100, "{same}");
}

#[test]
fn a_cursor_of_another_key_opens_on_neither_side() {
    let theirs = CursorIssuer::new(*b"another-key-another-key-another!");
    let fingerprint = args_fingerprint(&Value::Null);
    let context = Context::new(caller(None), Operation::Call).name("t").arguments(&fingerprint);
    let made_here = ours(theirs.session_nonce()).issue(&context, 1, b"", now()).unwrap();
    assert!(theirs.verify(&made_here, 300).is_err());
    let made_there = theirs
        .issue(CursorPayload {
            tool_id: "t".into(),
            caller_id: None,
            args_fingerprint: *fingerprint.as_bytes(),
            page_index: 1,
            issued_at_unix: now().as_secs(),
            server_session: theirs.session_nonce(),
            opaque_state: Vec::new(),
        })
        .unwrap();
    let refused = ours(theirs.session_nonce()).open(&made_there, &context, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::NotOpened);
}

#[test]
fn what_the_published_crate_gets_wrong_is_right_here() {
    // Ten years in the future, another instance with the same key, and a forged session: the crate
    // accepts, refuses and calls expired what is here refused, accepted and called invalid.
    let (theirs, replica) = (CursorIssuer::new(KEY), CursorIssuer::new(KEY));
    let fingerprint = args_fingerprint(&Value::Null);
    let context = Context::new(caller(None), Operation::Call).name("t").arguments(&fingerprint);
    let payload = |issued_at_unix| CursorPayload {
        tool_id: "t".into(),
        caller_id: None,
        args_fingerprint: *fingerprint.as_bytes(),
        page_index: 1,
        issued_at_unix,
        server_session: theirs.session_nonce(),
        opaque_state: Vec::new(),
    };
    let future = theirs.issue(payload(now().as_secs() + 315_360_000)).unwrap();
    assert!(theirs.verify(&future, 300).is_ok());
    let refused = ours(theirs.session_nonce()).open(&future, &context, now()).unwrap_err();
    assert_eq!(refused.reason(), Reason::TooFar);
    let shared = theirs.issue(payload(now().as_secs())).unwrap();
    assert!(replica.verify(&shared, 300).is_err());
    assert!(ours(replica.session_nonce()).open(&shared, &context, now()).is_ok());
    let mut forged = URL_SAFE_NO_PAD.decode(&shared).unwrap();
    *forged.last_mut().unwrap() ^= 1;
    let forged = URL_SAFE_NO_PAD.encode(forged);
    assert!(matches!(replica.verify(&forged, 300), Err(atd_runtime::CursorError::Expired)));
    let refused = ours(replica.session_nonce()).open(&forged, &context, now()).unwrap_err();
    assert_eq!((refused.reason(), refused.to_string().as_str()), (Reason::NotOpened, "invalid"));
}
