//! Operators take back what was handed out, and connections end with their credentials.

use handback_stream::duplex::{Code, Hello, ServerFrame};
use serde_json::{Value, json};

use crate::clock::now;
use crate::matrix::wire::{self, Duplex, Http};
use crate::matrix::world::{People, Site, Start, Who, World};

const PATH: &str = "/v1/revocations";

struct Stage {
    people: People,
    world: World,
    // Last: the server is on it.
    site: Site,
}

impl Stage {
    fn new(start: Start, people: People) -> Self {
        let site = Site::new(&Site::ring(), "one", &people);
        Self { people, world: site.start(start), site }
    }

    fn ask(&self, who: Who, line: &str, body: &Value) -> Http {
        let bearer = self.people.bearer(who);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        wire::http(&self.world, line, &[("authorization", bearer.as_deref())], &body)
    }

    fn revoke(&self, who: Who, what: &Value) -> Http {
        self.ask(who, &format!("POST {PATH}"), what)
    }

    fn duplex(&self, who: Who) -> (Duplex, ServerFrame) {
        let hello = Hello { idempotency_key: "k".to_owned(), ..Hello::default() };
        let bearer = self.people.bearer(who);
        let mut duplex = Duplex::open(&self.world, bearer.as_deref(), "echo", hello);
        let (first, _) = duplex.hear();
        (duplex, first)
    }

    /// How a connection is ended by the server, as the client and the audit see it.
    fn ends(&self, mut duplex: Duplex, reason: &str) {
        let len = self.world.audit_len();
        let (frame, _) = duplex.hear();
        assert!(matches!(frame, ServerFrame::Error { code: Code::Unauthorized, .. }), "{frame:?}");
        assert!(duplex.closed().starts_with("4401 "));
        let lines = self.world.audit_since(0);
        let ended = |line: &&Value| line["decision"] == "ended" && line["reason"] == reason;
        let ended = lines.iter().find(ended).unwrap_or_else(|| panic!("{lines:#?} from {len}"));
        assert_eq!((&ended["surface"], &ended["subject"]), (&json!("duplex"), &json!("alice")));
    }
}

fn alice() -> Value {
    json!({"principal": {"issuer": "static:test", "subject": "alice"}})
}

#[test]
fn only_who_was_granted_it_by_name_can_revoke() {
    let stage = Stage::new(Start::default(), People::new());
    let nothing = stage.ask(Who::Bob, "GET /v1/nothing", &Value::Null);
    assert_eq!(nothing.status, 404);
    for line in [format!("GET {PATH}"), format!("POST {PATH}"), format!("DELETE {PATH}/1")] {
        let answer = stage.ask(Who::Bob, &line, &alice());
        assert_eq!(answer.raw(), nothing.raw(), "{line}: as if there were nothing");
        assert_eq!(stage.ask(Who::Anonymous, &line, &alice()).status, 401);
    }
    let none = Stage::new(Start { is_anonymous: true, ..Start::default() }, People::new());
    assert_eq!(none.revoke(Who::Anonymous, &alice()).status, 404, "nobody granted it by name");
}

#[test]
fn what_is_revoked_is_one_thing_and_can_be_lifted_once() {
    let stage = Stage::new(Start::default(), People::new());
    for bad in [
        json!({}),
        json!([]),
        json!({"key": 16}),
        json!({"key": -1}),
        json!({"session": "s", "key": 1}),
        json!({"principal": {"issuer": "", "subject": "alice"}}),
        json!({"principal": {"issuer": "static:test"}}),
        json!({"everything": true}),
        json!({"session": "s".repeat(20_000)}),
    ] {
        assert_eq!(stage.revoke(Who::Operator, &bad).status, 400, "{bad}");
    }
    let mut wanted = alice();
    wanted["before_ms"] = 1.into();
    let good =
        [alice(), wanted, json!({"session": "s"}), json!({"key": 3}), json!({"before_ms": 1})];
    for what in &good {
        assert_eq!(stage.revoke(Who::Operator, what).status, 201, "{what}");
    }
    let listed = stage.ask(Who::Operator, &format!("GET {PATH}"), &Value::Null).json();
    let whats: Vec<_> = listed["revocations"].as_array().unwrap().iter().collect();
    assert_eq!(whats.len(), good.len(), "{listed}");
    assert_eq!(whats[1], &json!({"number": 2, "what": "principal", "before_ms": 1}));
    let lift = |number: u32| {
        stage.ask(Who::Operator, &format!("DELETE {PATH}/{number}"), &Value::Null).status
    };
    assert_eq!((lift(1), lift(1), lift(9)), (200, 404, 404));
    let lines = stage.world.audit_since(0);
    let decided = |wanted: &str| {
        let is_it = |line: &&Value| line["event"] == "revocation" && line["decision"] == wanted;
        lines.iter().filter(is_it).all(|line| line["subject"] == "operator")
            && lines.iter().any(|line| is_it(&line))
    };
    assert!(decided("revoked") && decided("lifted"), "{lines:#?}");
}

#[test]
fn a_duplex_ends_when_its_caller_is_revoked() {
    let stage = Stage::new(Start::default(), People::new());
    let (duplex, welcome) = stage.duplex(Who::Alice);
    assert!(matches!(welcome, ServerFrame::Welcome(_)), "{welcome:?}");
    let (mut other, _) = stage.duplex(Who::Bob);
    let revoked = stage.revoke(Who::Operator, &alice());
    stage.ends(duplex, "revoked");
    // Who comes again is welcomed and sent away; who is somebody else notices nothing.
    let (again, _) = stage.duplex(Who::Alice);
    stage.ends(again, "revoked");
    other.say(&handback_stream::duplex::ClientFrame::Chunk { seqno: 0, data: "x".into() });
    assert!(matches!(other.hear().0, ServerFrame::Ack { seqno: 0 } | ServerFrame::Event(_)));
    let number = &revoked.json()["number"];
    stage.ask(Who::Operator, &format!("DELETE {PATH}/{number}"), &Value::Null);
    let (mut duplex, _) = stage.duplex(Who::Alice);
    duplex.say(&handback_stream::duplex::ClientFrame::Chunk { seqno: 0, data: "x".into() });
    assert!(matches!(duplex.hear().0, ServerFrame::Ack { seqno: 0 } | ServerFrame::Event(_)));
}

#[test]
fn a_duplex_ends_with_its_credential() {
    let stage = Stage::new(Start::default(), People::until(now() + 3));
    let (duplex, welcome) = stage.duplex(Who::Alice);
    assert!(matches!(welcome, ServerFrame::Welcome(_)), "{welcome:?}");
    stage.ends(duplex, "credential_expired");
}

#[test]
fn a_duplex_ends_when_its_credential_is_removed() {
    let mut stage = Stage::new(Start::default(), People::new());
    let (duplex, welcome) = stage.duplex(Who::Alice);
    assert!(matches!(welcome, ServerFrame::Welcome(_)), "{welcome:?}");
    let (mut other, _) = stage.duplex(Who::Bob);
    stage.people.remove(Who::Alice);
    stage.site.identify(&stage.people);
    stage.ends(duplex, "credential_gone");
    // Nobody comes in with it any more; who has another one notices nothing.
    assert_eq!(stage.ask(Who::Alice, "GET /v1/tools", &Value::Null).status, 401);
    other.say(&handback_stream::duplex::ClientFrame::Chunk { seqno: 0, data: "x".into() });
    assert!(matches!(other.hear().0, ServerFrame::Ack { seqno: 0 } | ServerFrame::Event(_)));
}
