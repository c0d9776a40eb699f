//! The protocol on the pipeline, over real sockets: whose continuation is whose.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use handback_mcp::server::tasks::Tasks;
use handback_mcp::{About, Changes, Front, FrontOptions, McpServer, Stores};
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal};
use handback_store::{Kv, MemoryStore};
use handback_token::{KeyRing, Sealer, SealerConfig, UnixTime, ring};
use handback_tool::audit::NoAudit;
use handback_tool::{
    CallContext, Clock, Definition, Event, Inputs, Outcome, Pipeline, PipelineParts, Position,
    Registry, RevocationWatch, Round, Tool, ToolClass, ToolError,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::world::{Ask, Open, initialize, serve};

const ALICE: Option<u32> = Some(1);
const BOB: Option<u32> = Some(2);
const NOBODY: Option<u32> = None;

const START_MS: u64 = 1_900_000_000_000;

#[derive(Clone, Debug)]
struct Hands(Arc<AtomicU64>);

impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What survives a restart.
struct Disk {
    kv: Arc<dyn Kv>,
    ring: KeyRing,
    instance: InstanceId,
    time: Arc<AtomicU64>,
    config: SealerConfig,
}

impl Disk {
    fn new() -> Self {
        let now = UnixTime::from_secs(START_MS / 1000);
        Self {
            kv: Arc::new(MemoryStore::new()),
            ring: KeyRing::generate(&mut rand::rng(), ring::Mode::Sealed, now),
            instance: InstanceId::generate(&mut rand::rng()),
            time: Arc::new(AtomicU64::new(START_MS)),
            config: SealerConfig::default(),
        }
    }
}

struct Site {
    address: SocketAddr,
    effects: Arc<Effects>,
    changes: Changes,
}

struct Effects {
    count: AtomicUsize,
    entered: Semaphore,
    go_on: Semaphore,
    dropped: AtomicUsize,
}

impl Site {
    async fn on(disk: &Disk) -> Self {
        let hands = Hands(Arc::clone(&disk.time));
        let clock = {
            let hands = hands.clone();
            Arc::new(move || hands.now_ms())
        };
        let sealer = Arc::new(Sealer::new(&disk.ring, disk.config.clone()).unwrap());
        let effects = Arc::new(Effects {
            count: AtomicUsize::new(0),
            entered: Semaphore::new(0),
            go_on: Semaphore::new(0),
            dropped: AtomicUsize::new(0),
        });
        let mut registry = Registry::new();
        registry.add(Numbers).unwrap();
        registry.add(Pay(Arc::clone(&effects))).unwrap();
        registry.add(Work { name: "work", effects: Arc::clone(&effects) }).unwrap();
        registry.add(Work { name: "long_work", effects: Arc::clone(&effects) }).unwrap();
        registry.add(TwoRounds).unwrap();
        registry.add(Note).unwrap();
        registry.add(Chatter).unwrap();
        registry.add(Mirror { is_paginated: false }).unwrap();
        registry.add(Mirror { is_paginated: true }).unwrap();
        for number in 0..250 {
            registry.add(Filler(number)).unwrap();
        }
        let kv = &disk.kv;
        let held = HeldStore::new(Arc::clone(kv), HeldOptions::new()).unwrap();
        let pipeline = Pipeline::new(PipelineParts {
            registry,
            sealer: Arc::clone(&sealer),
            journal: Arc::new(
                Journal::open(Arc::clone(kv), disk.instance, hands.now_ms()).unwrap(),
            ),
            held: held.clone(),
            revocations: RevocationWatch::new(Arc::clone(kv), hands.now_ms()).unwrap(),
            audit: Arc::new(NoAudit),
            clock: Arc::new(hands),
            in_flight_max: 100,
            result_bytes_max: 1 << 20,
            counts_recorded: true,
        });
        let about = About { name: "test".to_owned(), version: "0".to_owned(), instructions: None };
        let tasks = Tasks::new(Arc::clone(kv), held, Arc::clone(&clock) as _, disk.instance);
        let changes = Changes::default();
        let server = McpServer::new(Arc::new(pipeline), about, tasks).changes(changes.clone());
        let stores = Stores { kv: Arc::clone(kv), sealer, clock };
        let front = Front::new(move || server.for_session(), stores, FrontOptions::default());
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = tcp.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = tcp.accept().await {
                tokio::spawn(serve(front.clone(), stream));
            }
        });
        Self { address, effects, changes }
    }

    /// A session of an older client.
    async fn begin(&self, user: Option<u32>) -> String {
        let answer = Ask::post(self.address, user, &initialize()).send().await;
        let session = answer.headers.get("mcp-session-id").unwrap().to_str().unwrap().to_owned();
        self.say(user, &session, &json!({"method": "notifications/initialized"})).await;
        session
    }

    /// What a session is told outside of answers.
    async fn listen(&self, user: Option<u32>, session: &str) -> Open {
        let ask = Ask::get(self.address, user).session(session);
        ask.header("mcp-protocol-version", "2025-11-25").open().await
    }

    /// A message of an older client, and what it is answered with.
    async fn say(&self, user: Option<u32>, session: &str, message: &Value) -> String {
        let mut message = message.clone();
        message["jsonrpc"] = "2.0".into();
        Ask::post(self.address, user, &message).session(session).send().await.body
    }

    fn ask(&self, user: Option<u32>, method: &str, params: &Value) -> Ask {
        let mut params = params.clone();
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": {},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
        });
        let entry = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
        entry.as_object_mut().unwrap().extend(meta.as_object().unwrap().clone());
        let named = ["name", "taskId", "uri"].iter().find_map(|name| params[*name].as_str());
        let name = named.unwrap_or_default().to_owned();
        let message = json!({"jsonrpc": "2.0", "id": 2, "method": method, "params": params});
        Ask::post(self.address, user, &message).modern(method, &name)
    }

    /// The whole body of the answer, and the message in it.
    async fn send(&self, user: Option<u32>, method: &str, params: &Value) -> (String, Value) {
        let body = self.ask(user, method, params).send().await.body;
        let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        let message = serde_json::from_str(data.unwrap_or(&body));
        let message = message.unwrap_or_else(|error| panic!("{error}: {body}"));
        (body, message)
    }

    async fn result(&self, user: Option<u32>, method: &str, params: &Value) -> Value {
        let (_, message) = self.send(user, method, params).await;
        assert!(message["error"].is_null(), "{message}");
        message["result"].clone()
    }

    async fn call(&self, user: Option<u32>, name: &str, arguments: Value) -> Value {
        self.result(user, "tools/call", &json!({"name": name, "arguments": arguments})).await
    }

    async fn entered(&self) {
        self.effects.entered.acquire().await.unwrap().forget();
    }
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

struct Numbers;

impl Tool for Numbers {
    type Args = Value;

    fn definition(&self) -> Definition {
        let schema = json!({"type": "object", "properties": {"below": {"type": "integer"}}});
        Definition::tool("numbers", "Numbers.")
            .input_schema(schema)
            .class(ToolClass::ReadOnly)
            .paginated()
    }

    async fn call(&self, args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        self.call_paginated(args, ctx, None).await
    }

    async fn call_paginated(
        &self,
        args: Value,
        _ctx: &CallContext,
        position: Option<Position>,
    ) -> Result<Outcome, ToolError> {
        let start: u64 = position.map(|position| position.read()).transpose()?.unwrap_or(0);
        let below = args["below"].as_u64().unwrap_or(9);
        let end = below.min(start + 4);
        let next = (end < below).then(|| Position::of(&end)).transpose()?;
        Outcome::page(start..end, next)
    }
}

struct Pay(Arc<Effects>);

impl Tool for Pay {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("pay", "Pays, after asking.").single_use()
    }

    async fn call(&self, _args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        if ctx.request_state::<Value>()? == Round::First {
            return ctx.needs_input(Inputs::new().confirm("sure", "Pay?"), &json!({}));
        }
        let is_sure = ctx.answers().is_confirmed("sure");
        Outcome::json(is_sure.then(|| self.0.count.fetch_add(1, Ordering::SeqCst) + 1))
    }
}

/// Works until it may go on.
struct Work {
    name: &'static str,
    effects: Arc<Effects>,
}

impl Tool for Work {
    type Args = Value;

    fn definition(&self) -> Definition {
        let definition = Definition::tool(self.name, "Works.");
        if self.name == "work" { definition } else { definition.long() }
    }

    async fn call(&self, _args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        struct Dropped<'a>(&'a Effects, bool);

        impl Drop for Dropped<'_> {
            fn drop(&mut self) {
                if !self.1 {
                    self.0.dropped.fetch_add(1, Ordering::SeqCst);
                }
            }
        }

        let mut dropped = Dropped(&self.effects, false);
        self.effects.entered.add_permits(1);
        self.effects.go_on.acquire().await.unwrap().forget();
        dropped.1 = true;
        Outcome::json(json!({"worked": self.effects.count.fetch_add(1, Ordering::SeqCst) + 1}))
    }
}

/// A task that asks the same question twice.
struct TwoRounds;

impl Tool for TwoRounds {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("two_rounds", "Asks twice.").long()
    }

    async fn call(&self, _args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let asked = match ctx.request_state::<u32>()? {
            Round::Opened(2) => return Ok(Outcome::text("sure")),
            Round::Opened(_) => 2,
            _ => 1,
        };
        ctx.needs_input(Inputs::new().confirm("sure", format!("Sure, {asked}?")), &asked)
    }
}

/// A resource that changes.
struct Note;

impl Tool for Note {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::resource("note:1", "A note.")
    }

    async fn call(&self, _args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        Ok(Outcome::text("noted"))
    }
}

/// Says things of some importance, and of much.
struct Chatter;

impl Tool for Chatter {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool("chatter", "Talks.")
    }

    async fn call(&self, _args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        for level in ["info", "error"] {
            ctx.emit(Event::Log { level: level.into(), data: format!("said {level}").into() })
                .await;
        }
        Ok(Outcome::text("over"))
    }
}

/// Gives its arguments back: once, or on each of two pages.
struct Mirror {
    is_paginated: bool,
}

impl Tool for Mirror {
    type Args = Value;

    fn definition(&self) -> Definition {
        let what = "Gives its arguments back.";
        match self.is_paginated {
            true => Definition::tool("two_mirrors", what).paginated(),
            false => Definition::tool("mirror", what),
        }
    }

    async fn call(&self, args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        Outcome::json(args)
    }

    async fn call_paginated(
        &self,
        args: Value,
        _ctx: &CallContext,
        position: Option<Position>,
    ) -> Result<Outcome, ToolError> {
        let next = position.is_none().then(|| Position::of(&1)).transpose()?;
        Outcome::page([args], next)
    }
}

struct Filler(u32);

impl Tool for Filler {
    type Args = Value;

    fn definition(&self) -> Definition {
        Definition::tool(format!("filler_{:03}", self.0), "Is there.")
    }

    async fn call(&self, _args: Value, _ctx: &CallContext) -> Result<Outcome, ToolError> {
        Ok(Outcome::text("here"))
    }
}

#[tokio::test]
async fn a_tool_is_walked_by_its_cursor() {
    let site = Site::on(&Disk::new()).await;
    let mut arguments = json!({"below": 10});
    let mut all = Vec::new();
    loop {
        let result = site.call(ALICE, "numbers", arguments.clone()).await;
        all.extend(result["structuredContent"]["items"].as_array().unwrap().clone());
        let next = result["_meta"]["dev.handback/nextCursor"].clone();
        if next.is_null() {
            assert_eq!(result["content"].as_array().unwrap().len(), 1);
            break;
        }
        assert!(result["content"][1]["text"].as_str().unwrap().contains(next.as_str().unwrap()));
        arguments["__cursor"] = next;
    }
    assert_eq!(all, (0..10).map(Value::from).collect::<Vec<_>>());
    let tools = site.result(ALICE, "tools/list", &json!({})).await;
    let schema = &tools["tools"][0]["inputSchema"]["properties"]["__cursor"];
    assert_eq!(schema["type"], "string");
}

#[tokio::test]
async fn nobody_else_goes_on_with_a_cursor() {
    let disk = Disk::new();
    let site = Site::on(&disk).await;
    let first = site.call(ALICE, "numbers", json!({})).await;
    let cursor = first["_meta"]["dev.handback/nextCursor"].as_str().unwrap();
    let last = if cursor.ends_with('A') { 'Q' } else { 'A' };
    let edited = format!("{}{last}", &cursor[..cursor.len() - 1]);
    let go_on = async |user, arguments: Value| {
        let params = json!({"name": "numbers", "arguments": arguments});
        site.send(user, "tools/call", &params).await
    };
    let (refused, message) = go_on(BOB, json!({"__cursor": cursor})).await;
    assert_eq!(message["result"]["isError"], true, "{message}");
    assert_eq!(text(&message["result"]), "invalid cursor");
    assert_eq!(message["result"]["_meta"]["dev.handback/reason"], "invalid");
    for (user, arguments) in [
        (NOBODY, json!({"__cursor": cursor})),
        (ALICE, json!({"__cursor": cursor, "below": 8})),
        (ALICE, json!({"__cursor": edited})),
        (ALICE, json!({"__cursor": ""})),
    ] {
        assert_eq!(go_on(user, arguments).await.0, refused, "to the byte");
    }
    let (_, message) = go_on(ALICE, json!({"__cursor": 7})).await;
    assert_eq!(message["error"]["code"], -32602);
    let (_, message) = go_on(ALICE, json!({"__cursor": cursor})).await;
    assert_eq!(message["result"]["structuredContent"]["items"][0], 4, "the victim's is as good");
    disk.time.fetch_add(20 * 60 * 1000, Ordering::SeqCst);
    let (_, message) = go_on(ALICE, json!({"__cursor": cursor})).await;
    assert_eq!(text(&message["result"]), "expired cursor: call again without it");
}

#[tokio::test]
async fn a_cursor_is_an_argument_to_a_tool_that_does_not_page() {
    let site = Site::on(&Disk::new()).await;
    let first = site.call(ALICE, "two_mirrors", json!({"a": 1})).await;
    let cursor = &first["_meta"]["dev.handback/nextCursor"];
    assert!(cursor.is_string(), "{first}");
    let with = |cursor: &Value| json!({"a": 1, "__cursor": cursor});
    for cursor in [cursor, &json!("mine"), &json!(7), &json!(null)] {
        let seen = site.call(ALICE, "mirror", with(cursor)).await;
        assert_eq!(seen["structuredContent"], with(cursor), "{seen}");
    }
    let second = site.call(ALICE, "two_mirrors", with(cursor)).await;
    assert_eq!(second["structuredContent"]["items"], json!([{"a": 1}]), "{second}");
    assert!(second["_meta"]["dev.handback/nextCursor"].is_null(), "{second}");
    let refused = site.call(ALICE, "two_mirrors", with(&json!("mine"))).await;
    assert_eq!(text(&refused), "invalid cursor");
}

#[tokio::test]
async fn what_is_asked_back_is_answered_once_and_by_who_was_asked() {
    let disk = Disk::new();
    let site = Site::on(&disk).await;
    let asked = site.call(ALICE, "pay", json!({})).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["sure"]["method"], "elicitation/create");
    let yes = json!({"sure": {"action": "accept", "content": {"confirm": true}}});
    let no = json!({"sure": {"action": "decline"}});
    let answer = async |user, state: &Value, answers: &Value| {
        let params = json!({
            "name": "pay",
            "arguments": {},
            "requestState": state,
            "inputResponses": answers,
        });
        site.send(user, "tools/call", &params).await
    };
    let state = &asked["requestState"];
    let (refused, message) = answer(BOB, state, &yes).await;
    assert_eq!(message["error"]["code"], -32602);
    assert_eq!(message["error"]["data"]["reason"], "invalid");
    assert_eq!(answer(NOBODY, state, &yes).await.0, refused);
    assert_eq!(answer(ALICE, &json!("forged"), &yes).await.0, refused);
    let (_, paid) = answer(ALICE, state, &yes).await;
    assert_eq!(text(&paid["result"]), "1");
    let (_, again) = answer(ALICE, state, &yes).await;
    assert_eq!(text(&again["result"]), "1");
    assert_eq!(again["result"]["_meta"]["dev.handback/replayed"], true);
    assert_eq!(answer(ALICE, state, &no).await.0, refused, "a replay looks like a forgery");
    assert_eq!(site.effects.count.load(Ordering::SeqCst), 1);
    let late = site.call(ALICE, "pay", json!({})).await;
    disk.time.fetch_add(10 * 60 * 1000, Ordering::SeqCst);
    let (_, message) = answer(ALICE, &late["requestState"], &yes).await;
    assert_eq!(message["error"]["data"]["reason"], "expired");
}

#[tokio::test]
async fn lists_are_paged_for_one_caller() {
    let site = Site::on(&Disk::new()).await;
    let mut names = Vec::new();
    let mut params = json!({});
    let mut first_cursor = None;
    loop {
        let page = site.result(ALICE, "tools/list", &params).await;
        let tools = page["tools"].as_array().unwrap();
        names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
        let next = page["nextCursor"].clone();
        if next.is_null() {
            break;
        }
        first_cursor.get_or_insert_with(|| next.clone());
        params["cursor"] = next;
    }
    assert_eq!(names.len(), 258);
    assert_eq!(&names[..3], ["numbers", "pay", "work"]);
    for (user, method) in [(BOB, "tools/list"), (ALICE, "prompts/list"), (NOBODY, "tools/list")] {
        let (_, message) = site.send(user, method, &json!({"cursor": first_cursor})).await;
        assert_eq!(message["error"]["code"], -32602);
        assert_eq!(message["error"]["data"]["reason"], "invalid");
    }
}

#[tokio::test]
async fn a_task_is_of_its_caller_and_outlives_the_process() {
    let disk = Disk::new();
    let site = Site::on(&disk).await;
    let task = site.call(ALICE, "long_work", json!({})).await;
    assert_eq!(task["resultType"], "task");
    let id = task["taskId"].as_str().unwrap();
    site.entered().await;
    let params = json!({"taskId": id});
    let (refused, message) = site.send(BOB, "tasks/get", &params).await;
    assert_eq!(message["error"]["code"], -32602);
    for user in [NOBODY, BOB] {
        assert_eq!(site.send(user, "tasks/get", &params).await.0, refused);
        for method in ["tasks/cancel", "tasks/update"] {
            let params = json!({"taskId": id, "inputResponses": {}});
            assert_eq!(site.send(user, method, &params).await.1["error"]["code"], -32602);
        }
    }
    let unknown = json!({"taskId": "h00000000000000000000000000000"});
    assert_eq!(site.send(ALICE, "tasks/get", &unknown).await.0, refused, "to the byte");
    assert_eq!(site.result(ALICE, "tasks/get", &params).await["status"], "working");
    site.effects.go_on.add_permits(1);
    let ended = loop {
        let task = site.result(ALICE, "tasks/get", &params).await;
        if task["status"] != "working" {
            break task;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(ended["status"], "completed");
    assert_eq!(ended["result"]["structuredContent"]["worked"], 1);
    // One that is cut off.
    let cut = site.call(ALICE, "long_work", json!({})).await;
    let after = Site::on(&disk).await;
    assert_eq!(after.result(ALICE, "tasks/get", &params).await["result"], ended["result"]);
    let cut = after.result(ALICE, "tasks/get", &json!({"taskId": cut["taskId"]})).await;
    assert_eq!(cut["status"], "failed", "{cut}");
    assert_eq!(cut["error"]["data"]["reason"], "ambiguous");
}

#[tokio::test]
async fn a_slow_call_becomes_a_task_and_can_be_cancelled() {
    let site = Site::on(&Disk::new()).await;
    let task = site.call(ALICE, "work", json!({})).await;
    assert_eq!(task["resultType"], "task", "after a moment");
    let params = json!({"taskId": task["taskId"]});
    site.result(ALICE, "tasks/cancel", &params).await;
    loop {
        let status = site.result(ALICE, "tasks/get", &params).await["status"].clone();
        if status == "cancelled" {
            break;
        }
        assert_eq!(status, "working");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(site.effects.dropped.load(Ordering::SeqCst), 1);
}

impl Site {
    /// Waits until a task is in another state, and gives what is known of it.
    async fn task_after(&self, params: &Value, state: &str) -> Value {
        let changed = async {
            loop {
                let task = self.result(ALICE, "tasks/get", params).await;
                if task["status"] != state {
                    break task;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), changed).await.unwrap()
    }
}

#[tokio::test]
async fn a_slow_call_that_can_be_no_task_is_answered_where_it_was_made() {
    let site = Site::on(&Disk::new()).await;
    for _ in 0..64 {
        let task = site.call(ALICE, "long_work", json!({})).await;
        assert_eq!(task["resultType"], "task");
    }
    let params = json!({"name": "long_work", "arguments": {}});
    let (_, refused) = site.send(ALICE, "tools/call", &params).await;
    assert_eq!(refused["error"]["data"]["reason"], "busy", "{refused}");
    let freed = async {
        // After it has become slow.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        site.effects.go_on.add_permits(65);
    };
    let (done, ()) = tokio::join!(site.call(ALICE, "work", json!({})), freed);
    assert!(done["structuredContent"]["worked"].is_number(), "{done}");
    assert_eq!(site.effects.dropped.load(Ordering::SeqCst), 0, "it was not given up");
}

#[tokio::test]
async fn a_late_answer_is_none_to_the_next_question() {
    let site = Site::on(&Disk::new()).await;
    for _ in 0..10 {
        let task = site.call(ALICE, "two_rounds", json!({})).await;
        let params = json!({"taskId": task["taskId"]});
        assert_eq!(site.task_after(&params, "working").await["status"], "input_required");
        let yes = json!({"sure": {"action": "accept", "content": {"confirm": true}}});
        let answers = json!({"taskId": task["taskId"], "inputResponses": yes});
        let answer = || site.result(ALICE, "tasks/update", &answers);
        tokio::join!(answer(), answer(), answer());
        let asks = loop {
            let now = site.task_after(&params, "working").await;
            if now.to_string().contains("Sure, 2?") {
                break now;
            }
            assert_ne!(now["status"], "completed", "{now}");
        };
        tokio::time::sleep(Duration::from_millis(20)).await;
        let still = site.result(ALICE, "tasks/get", &params).await;
        assert_eq!(still["status"], "input_required", "{asks}");
        answer().await;
        let ended = site.task_after(&params, "input_required").await;
        assert!(ended["status"] == "working" || ended["status"] == "completed", "{ended}");
        assert_eq!(site.task_after(&params, "working").await["status"], "completed");
    }
}

#[tokio::test]
async fn a_task_does_not_wait_for_answers_for_ever() {
    let mut disk = Disk::new();
    disk.config.state_ttl_s = 1;
    let site = Site::on(&disk).await;
    let mut tasks = Vec::new();
    for _ in 0..64 {
        tasks.push(site.call(ALICE, "two_rounds", json!({})).await["taskId"].clone());
    }
    for task in tasks {
        let params = json!({"taskId": task});
        site.task_after(&params, "working").await;
        let ended = site.task_after(&params, "input_required").await;
        assert_eq!(ended["status"], "failed", "{ended}");
        assert_eq!(ended["error"]["data"]["reason"], "expired");
    }
    assert_eq!(site.call(ALICE, "two_rounds", json!({})).await["resultType"], "task");
}

#[tokio::test]
async fn a_newer_client_hears_of_what_it_may_read() {
    let site = Site::on(&Disk::new()).await;
    let wanted = json!({"notifications": {
        "toolsListChanged": true,
        "resourceSubscriptions": ["note:1", "note:2"],
    }});
    let mut heard = site.ask(ALICE, "subscriptions/listen", &wanted).open().await;
    heard.until("acknowledged").await;
    site.changes.resource("note:2").await;
    site.changes.resource("note:1").await;
    site.changes.tools().await;
    let heard = heard.until("tools/list_changed").await;
    assert_eq!(heard.matches("resources/updated").count(), 1, "{heard}");
}

#[tokio::test]
async fn hanging_up_cancels_a_call_without_a_key_and_not_one_with() {
    let site = Site::on(&Disk::new()).await;
    let plain = json!({"name": "work", "arguments": {}});
    site.ask(ALICE, "tools/call", &plain).hang_up_after(site.entered()).await;
    let cancelled = async {
        while site.effects.dropped.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), cancelled).await.expect("it was cancelled");
    let mut keyed = plain.clone();
    keyed["_meta"] = json!({"dev.handback/idempotency-key": "k-1"});
    site.ask(ALICE, "tools/call", &keyed).hang_up_after(site.entered()).await;
    site.effects.go_on.add_permits(1);
    let retried = site.result(ALICE, "tools/call", &keyed).await;
    assert_eq!(retried["structuredContent"]["worked"], 1);
    assert_eq!(retried["_meta"]["dev.handback/replayed"], true);
    assert_eq!(site.effects.count.load(Ordering::SeqCst), 1);
    assert_eq!(site.effects.dropped.load(Ordering::SeqCst), 1, "only the first one");
}

#[tokio::test]
async fn an_older_client_hears_of_what_it_follows() {
    let site = Site::on(&Disk::new()).await;
    let (follows, does_not) = (site.begin(ALICE).await, site.begin(BOB).await);
    let follow = |uri| json!({"id": 3, "method": "resources/subscribe", "params": {"uri": uri}});
    assert!(site.say(ALICE, &follows, &follow("note:1")).await.contains("\"result\":{}"));
    assert!(site.say(ALICE, &follows, &follow("note:2")).await.contains("no such resource"));
    let mut hers = site.listen(ALICE, &follows).await;
    let mut his = site.listen(BOB, &does_not).await;
    site.changes.resource("note:1").await;
    site.changes.tools().await;
    let heard = hers.until("tools/list_changed").await;
    assert!(heard.contains("notifications/resources/updated") && heard.contains("note:1"));
    let heard = his.until("tools/list_changed").await;
    assert!(!heard.contains("resources/updated"), "{heard}");
    let unfollow = json!({"id": 4, "method": "resources/unsubscribe", "params": {"uri": "note:1"}});
    site.say(ALICE, &follows, &unfollow).await;
    site.changes.resource("note:1").await;
    site.changes.prompts().await;
    let heard = hers.until("prompts/list_changed").await;
    assert_eq!(heard.matches("resources/updated").count(), 1, "{heard}");
}

#[tokio::test]
async fn an_older_client_says_which_messages_it_wants() {
    let site = Site::on(&Disk::new()).await;
    let (hers, his) = (site.begin(ALICE).await, site.begin(BOB).await);
    let level = json!({"id": 3, "method": "logging/setLevel", "params": {"level": "error"}});
    site.say(ALICE, &hers, &level).await;
    let mut heard = [site.listen(ALICE, &hers).await, site.listen(BOB, &his).await];
    let chatter = json!({"id": 4, "method": "tools/call", "params": {"name": "chatter"}});
    site.say(ALICE, &hers, &chatter).await;
    site.say(BOB, &his, &chatter).await;
    assert!(!heard[0].until("said error").await.contains("said info"));
    assert!(heard[1].until("said error").await.contains("said info"));
}
