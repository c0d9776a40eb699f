//! A pipeline with tools, for the surfaces that lead to it.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handback_identity::permissions::{Permissions, Rule};
use handback_identity::{Caller, Glob, UnixPeers};
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal};
use handback_store::{Kv, MemoryStore};
use handback_token::ring::Mode;
use handback_token::{KeyRing, Sealer, SealerConfig, UnixTime};
use handback_tool::audit::JsonLines;
use handback_tool::{
    CallContext, Clock, Content, Definition, Event, Inputs, Outcome, Pipeline, PipelineParts,
    Position, Registry, RevocationWatch, Round, Tool, ToolClass, ToolError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(crate) struct Hands(AtomicU64);

impl Clock for Hands {
    fn now_ms(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The audit, for reading.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What tools do, counted, and what they wait for.
#[derive(Debug)]
pub(crate) struct Effects {
    count: AtomicUsize,
    entered: Semaphore,
    go_on: Semaphore,
}

impl Effects {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until a tool was entered, once more.
    pub(crate) async fn entered(&self) {
        self.entered.acquire().await.unwrap().forget();
    }

    /// Lets one tool that waits go on.
    pub(crate) fn go_on(&self) {
        self.go_on.add_permits(1);
    }
}

/// A pipeline with tools.
pub(crate) struct Bench {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) effects: Arc<Effects>,
    clock: Arc<Hands>,
    paper: Paper,
}

const START_MS: u64 = 1_800_000_000_000;

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// With more tools than usual.
    pub(crate) fn with(add: impl FnOnce(&mut Registry)) -> Self {
        let effects = Arc::new(Effects {
            count: AtomicUsize::new(0),
            entered: Semaphore::new(0),
            go_on: Semaphore::new(0),
        });
        let clock = Arc::new(Hands(AtomicU64::new(START_MS)));
        let paper = Paper::default();
        let mut rng = rand::rng();
        let kv: Arc<dyn Kv> = Arc::new(MemoryStore::new());
        let ring = KeyRing::generate(&mut rng, Mode::Sealed, UnixTime::from_secs(START_MS / 1000));
        let hidden = Rule::deny([Glob::new("secret*").unwrap()]);
        let open = Rule::allow([Glob::new("*").unwrap()]);
        let mut registry = Registry::new().permissions(Permissions::new([open, hidden]));
        registry.add(Numbers("numbers")).unwrap();
        registry.add(Numbers("more/numbers")).unwrap();
        registry.add(Numbers("secret_numbers")).unwrap();
        registry.add(Pay(Arc::clone(&effects))).unwrap();
        registry.add(Act(Arc::clone(&effects))).unwrap();
        add(&mut registry);
        let journal =
            Journal::open(Arc::clone(&kv), InstanceId::generate(&mut rng), START_MS).unwrap();
        let pipeline = Pipeline::new(PipelineParts {
            registry,
            sealer: Arc::new(Sealer::new(&ring, SealerConfig::default()).unwrap()),
            journal: Arc::new(journal),
            held: HeldStore::new(Arc::clone(&kv), HeldOptions::new()).unwrap(),
            revocations: RevocationWatch::new(kv, START_MS).unwrap(),
            audit: Arc::new(JsonLines::new(paper.clone())),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            in_flight_max: 4,
            result_bytes_max: 32 << 20,
            counts_recorded: true,
        });
        Self { pipeline: Arc::new(pipeline), effects, clock, paper }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// The decision and the reason of the last line of the audit.
    pub(crate) fn last_line(&self) -> (Value, Value) {
        let text = String::from_utf8(self.paper.0.lock().unwrap().clone()).unwrap();
        let line: Value = serde_json::from_str(text.lines().next_back().unwrap()).unwrap();
        let member = |name| line.get(name).cloned().unwrap_or_default();
        (member("decision"), member("reason"))
    }
}

pub(crate) fn alice() -> Caller {
    UnixPeers::new("test").unwrap().caller(1)
}

pub(crate) fn bob() -> Caller {
    UnixPeers::new("test").unwrap().caller(2)
}

/// The numbers from `from` on, below `below`, three at a time.
pub(crate) struct Numbers(pub(crate) &'static str);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NumbersArgs {
    /// The first one.
    from: u64,
    /// All are below this.
    below: u64,
    /// Makes arguments long.
    #[serde(default)]
    padding: String,
}

impl Tool for Numbers {
    type Args = NumbersArgs;

    fn definition(&self) -> Definition {
        Definition::tool(self.0, "Numbers, in pages.").class(ToolClass::ReadOnly).paginated()
    }

    async fn call(&self, args: NumbersArgs, ctx: &CallContext) -> Result<Outcome, ToolError> {
        self.call_paginated(args, ctx, None).await
    }

    async fn call_paginated(
        &self,
        args: NumbersArgs,
        _ctx: &CallContext,
        position: Option<Position>,
    ) -> Result<Outcome, ToolError> {
        let start = position.map_or(Ok(args.from), |position| position.read())?;
        let end = args.below.min(start + 3);
        let _ = args.padding;
        let next = (end < args.below).then(|| Position::of(&end)).transpose()?;
        Outcome::page(start..end, next)
    }
}

/// Asks whether to pay, then pays.
struct Pay(Arc<Effects>);

#[derive(Deserialize, JsonSchema)]
struct PayArgs {
    amount: u32,
    #[serde(default)]
    to: Option<Account>,
}

#[derive(Deserialize, JsonSchema)]
struct Account {
    #[expect(dead_code, reason = "only its schema is used")]
    number: String,
}

#[derive(Serialize, Deserialize)]
struct Basket {
    amount: u32,
}

#[derive(JsonSchema)]
struct Receipt {
    #[expect(dead_code, reason = "only its schema is used")]
    paid: u32,
}

impl Tool for Pay {
    type Args = PayArgs;

    fn definition(&self) -> Definition {
        let definition = Definition::tool("pay", "Pays, after asking.");
        definition.title("Pay").single_use().scope("money").output::<Receipt>()
    }

    async fn call(&self, args: PayArgs, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let _ = args.to;
        match ctx.request_state::<Basket>()? {
            Round::Opened(basket) if ctx.answers().is_confirmed("sure") => {
                self.0.count.fetch_add(1, Ordering::SeqCst);
                Outcome::json(json!({"paid": basket.amount}))
            }
            Round::Opened(_) => Err(ToolError::new("not paid")),
            _ => {
                let inputs = Inputs::new().confirm("sure", "Pay?");
                ctx.needs_input(inputs, &Basket { amount: args.amount })
            }
        }
    }
}

/// Does as it is told.
struct Act(Arc<Effects>);

#[derive(Deserialize, JsonSchema)]
struct ActArgs {
    #[serde(default)]
    how: How,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum How {
    #[default]
    Well,
    Fail,
    Panic,
    Hang,
    Wait,
    Large,
    Raw,
    NotJson,
    Talk,
}

impl Tool for Act {
    type Args = ActArgs;

    fn definition(&self) -> Definition {
        Definition::tool("act", "Does something.").time_limit(Duration::from_secs(1))
    }

    async fn call(&self, args: ActArgs, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let number = self.0.count.fetch_add(1, Ordering::SeqCst) + 1;
        self.0.entered.add_permits(1);
        match args.how {
            How::Well => Outcome::json(number),
            How::Fail => Err(ToolError::new("it failed").data(json!({"number": number}))),
            How::Panic => panic!("on purpose"),
            How::Hang => std::future::pending().await,
            How::Wait => {
                self.0.go_on.acquire().await.unwrap().forget();
                Outcome::json(number)
            }
            How::Large => Ok(Outcome::text("x".repeat(11 << 20))),
            How::Raw => Ok(Outcome::Done(Content::Raw("{\"b\":1.0,\r\n \"a\":2}".into()))),
            How::NotJson => Ok(Outcome::Done(Content::Raw("{no".into()))),
            How::Talk => {
                ctx.progress(1.0, Some(2.0)).await;
                ctx.emit(Event::Log { level: "info".to_owned(), data: json!("half") }).await;
                ctx.emit(Event::Part(json!({"half": "of it"}))).await;
                self.0.go_on.acquire().await.unwrap().forget();
                ctx.progress(2.0, Some(2.0)).await;
                Outcome::json("all of it")
            }
        }
    }
}
