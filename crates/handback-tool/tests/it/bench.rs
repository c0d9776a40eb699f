//! A pipeline to try things on.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handback_identity::{Caller, UnixPeers};
use handback_store::held::{HeldOptions, HeldStore};
use handback_store::journal::{InstanceId, Journal};
use handback_store::{Kv, MemoryStore};
use handback_token::ring::Mode;
use handback_token::{KeyRing, Sealer, SealerConfig, UnixTime};
use handback_tool::audit::JsonLines;
use handback_tool::{
    Answer, Arguments, CallContext, Clock, Content, Continuation, Definition, Inputs, Outcome,
    Pipeline, PipelineParts, Position, Refusal, Registry, Reply, Request, RevocationWatch, Round,
    Surface, Tool, ToolClass, ToolError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
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
pub(crate) struct Paper(Arc<Mutex<Vec<u8>>>);

impl io::Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the tools of the bench do, counted.
#[derive(Debug)]
pub(crate) struct Effects {
    pub(crate) count: AtomicUsize,
    pub(crate) keys: Mutex<Vec<Option<String>>>,
    entered: Semaphore,
    go_on: Semaphore,
}

impl Effects {
    fn new() -> Self {
        Self {
            count: AtomicUsize::new(0),
            keys: Mutex::default(),
            entered: Semaphore::new(0),
            go_on: Semaphore::new(0),
        }
    }

    /// Waits until a tool was entered, once more.
    pub(crate) async fn entered(&self) {
        self.entered.acquire().await.unwrap().forget();
    }

    /// Lets one tool that waits go on.
    pub(crate) fn go_on(&self) {
        self.go_on.add_permits(1);
    }

    /// Becomes ready if nobody else takes what [`go_on`](Self::go_on) gave.
    pub(crate) async fn take_go_on(&self) {
        self.go_on.acquire().await.unwrap().forget();
    }

    fn happen(&self, ctx: &CallContext) -> usize {
        self.keys.lock().unwrap().push(ctx.effect_key().map(str::to_owned));
        self.count.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

/// A pipeline with tools.
pub(crate) struct Bench {
    pub(crate) pipeline: Pipeline,
    pub(crate) effects: Arc<Effects>,
    pub(crate) clock: Arc<Hands>,
    pub(crate) paper: Paper,
    pub(crate) revocations: RevocationWatch,
}

pub(crate) const START_MS: u64 = 1_800_000_000_000;

impl Bench {
    pub(crate) fn new() -> Self {
        Self::over(Arc::new(MemoryStore::new()), None)
    }

    /// One whose callers hold so much.
    pub(crate) fn holding(bytes: u64) -> Self {
        let options = HeldOptions::new().per_principal_bytes(bytes);
        Self::with(Arc::new(MemoryStore::new()), None, options)
    }

    pub(crate) fn over(kv: Arc<dyn Kv>, audience: Option<&str>) -> Self {
        Self::with(kv, audience, HeldOptions::new())
    }

    fn with(kv: Arc<dyn Kv>, audience: Option<&str>, options: HeldOptions) -> Self {
        let effects = Arc::new(Effects::new());
        let clock = Arc::new(Hands(AtomicU64::new(START_MS)));
        let paper = Paper::default();
        let mut rng = rand::rng();
        let now = UnixTime::from_secs(START_MS / 1000);
        let ring = KeyRing::generate(&mut rng, Mode::Sealed, now);
        let config =
            SealerConfig { audience: audience.map(str::to_owned), ..SealerConfig::default() };
        let mut registry = Registry::new();
        let e = || Arc::clone(&effects);
        registry.add(Buy { name: "buy", single_use: false }).unwrap();
        registry.add(Buy { name: "buy_once", single_use: true }).unwrap();
        registry.add(Numbers { name: "numbers", step: 3 }).unwrap();
        registry.add(Numbers { name: "others", step: 3 }).unwrap();
        registry.add(Pay { name: "pay", effects: e(), single_use: true }).unwrap();
        registry.add(Pay { name: "pay_late", effects: e(), single_use: false }).unwrap();
        registry.add(Act { name: "act", class: ToolClass::Unknown, effects: e() }).unwrap();
        registry
            .add(Act { name: "act_takes_key", class: ToolClass::TakesKey, effects: e() })
            .unwrap();
        let journal =
            Journal::open(Arc::clone(&kv), InstanceId::generate(&mut rng), START_MS).unwrap();
        let revocations = RevocationWatch::new(Arc::clone(&kv), START_MS).unwrap();
        let pipeline = Pipeline::new(PipelineParts {
            registry,
            sealer: Arc::new(Sealer::new(&ring, config).unwrap()),
            journal: Arc::new(journal),
            held: HeldStore::new(Arc::clone(&kv), options).unwrap(),
            revocations: revocations.clone(),
            audit: Arc::new(JsonLines::new(paper.clone())),
            clock: Arc::clone(&clock) as Arc<dyn Clock>,
            in_flight_max: 4,
            result_bytes_max: 100_000,
            counts_recorded: true,
        });
        Self { pipeline, effects, clock, paper, revocations }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(u64::try_from(time.as_millis()).unwrap(), Ordering::SeqCst);
    }

    pub(crate) async fn call(
        &self,
        who: Caller,
        name: &str,
        args: Value,
    ) -> Result<Answer, Refusal> {
        self.pipeline.call(Request::call(who, Surface::Library, name, args)).await
    }

    pub(crate) async fn page(
        &self,
        who: Caller,
        name: &str,
        args: Value,
        cursor: &str,
    ) -> Result<Answer, Refusal> {
        let request = Request::call(who, Surface::Library, name, args);
        self.pipeline.call(request.continuation(Continuation::Cursor(cursor.to_owned()))).await
    }

    pub(crate) async fn answer(
        &self,
        who: Caller,
        name: &str,
        args: Value,
        state: &str,
        answers: Value,
    ) -> Result<Answer, Refusal> {
        let Value::Object(answers) = answers else { panic!("answers are an object") };
        self.pipeline.call(round(who, name, args, state, answers)).await
    }

    /// The lines of the audit.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8(self.paper.0.lock().unwrap().clone()).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

pub(crate) fn round(
    who: Caller,
    name: &str,
    args: Value,
    state: &str,
    answers: Map<String, Value>,
) -> Request {
    let state = Some(state.to_owned());
    let continuation = Continuation::State { state, answers };
    Request::call(who, Surface::Library, name, args).continuation(continuation)
}

pub(crate) fn carried(who: Caller, name: &str, args: Value) -> Request {
    use handback_token::Operation;
    Request::new(who, Surface::Socket, Operation::Call, name, Arguments::Carried(args))
}

pub(crate) fn carried_on(who: Caller, name: &str, cursor: &str) -> Request {
    use handback_token::Operation;
    Request::new(who, Surface::Socket, Operation::Call, name, Arguments::InCursor)
        .continuation(Continuation::Cursor(cursor.to_owned()))
}

pub(crate) fn alice() -> Caller {
    UnixPeers::new("test").unwrap().caller(1)
}

pub(crate) fn bob() -> Caller {
    UnixPeers::new("test").unwrap().caller(2)
}

pub(crate) fn nobody() -> Caller {
    Caller::unauthenticated()
}

/// The items of a page, and the cursor of the next one.
pub(crate) fn items(answer: Answer) -> (Vec<Value>, Option<String>) {
    match answer.reply {
        Reply::Page { items, next } => (items, next),
        other => panic!("no page: {other:?}"),
    }
}

/// The names of what is asked, and the state.
pub(crate) fn asked(answer: Answer) -> (Vec<String>, String) {
    match answer.reply {
        Reply::NeedsInput { inputs, state } => {
            (inputs.iter().map(|(name, _)| name.to_owned()).collect(), state)
        }
        other => panic!("no question: {other:?}"),
    }
}

/// The numbers from `from` on, below `below`, a few at a time.
struct Numbers {
    name: &'static str,
    step: u64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NumbersArgs {
    from: u64,
    below: u64,
    #[serde(default)]
    page_size: Option<u64>,
    /// Makes positions long.
    #[serde(default)]
    padding: usize,
}

impl Tool for Numbers {
    type Args = NumbersArgs;

    fn definition(&self) -> Definition {
        Definition::tool(self.name, "Numbers, in pages.")
            .class(ToolClass::ReadOnly)
            .paginated()
            .page_argument("page_size")
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
        let (start, _): (u64, String) = match position {
            Some(position) => position.read()?,
            None => (args.from, String::new()),
        };
        let end = args.below.min(start + args.page_size.unwrap_or(self.step));
        let next = (end < args.below).then(|| Position::of(&(end, "x".repeat(args.padding))));
        Outcome::page(start..end, next.transpose()?)
    }
}

/// Asks whether to pay, and how, then pays.
struct Pay {
    name: &'static str,
    effects: Arc<Effects>,
    single_use: bool,
}

#[derive(Deserialize, JsonSchema)]
struct PayArgs {
    amount: u32,
    #[serde(default)]
    twice: bool,
}

#[derive(Serialize, Deserialize)]
struct Basket {
    amount: u32,
    round: u32,
}

#[derive(Deserialize, JsonSchema)]
struct Means {
    #[expect(dead_code, reason = "only its schema is used")]
    card: String,
}

impl Tool for Pay {
    type Args = PayArgs;

    fn definition(&self) -> Definition {
        let definition = Definition::tool(self.name, "Pays, after asking.");
        if self.single_use { definition.single_use() } else { definition.takes_expired_state() }
    }

    async fn call(&self, args: PayArgs, ctx: &CallContext) -> Result<Outcome, ToolError> {
        let questions = || Inputs::new().confirm("sure", "Pay?").form::<Means>("means", "How?");
        let basket = match ctx.request_state::<Basket>()? {
            Round::First => {
                return ctx.needs_input(questions(), &Basket { amount: args.amount, round: 1 });
            }
            Round::Expired => return Outcome::json("too late"),
            Round::Opened(basket) => basket,
        };
        if args.twice && basket.round == 1 {
            let inputs = Inputs::new().confirm("really", "Really?");
            return ctx.needs_input(inputs, &Basket { round: 2, ..basket });
        }
        let name = if basket.round == 1 { "sure" } else { "really" };
        if !ctx.answers().is_confirmed(name) {
            return Outcome::json("not paid");
        }
        Outcome::json(json!({"paid": basket.amount, "number": self.effects.happen(ctx)}))
    }
}

/// Does as it is told.
struct Act {
    name: &'static str,
    class: ToolClass,
    effects: Arc<Effects>,
}

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
    FailBefore,
    Panic,
    Hang,
    Wait,
    WaitAndAsk,
    Large,
    Deep,
    TooDeep,
}

/// A value of so many levels.
pub(crate) fn nested(levels: usize) -> Value {
    (0..levels).fold(Value::Null, |value, _| Value::Array(vec![value]))
}

/// Asks for a card, unless it was given one before it could ask.
struct Buy {
    name: &'static str,
    single_use: bool,
}

impl Tool for Buy {
    type Args = Value;

    fn definition(&self) -> Definition {
        let inputs = Inputs::new().form::<Means>("means", "How?");
        let definition = Definition::tool(self.name, "Buys.").answers_up_front(inputs);
        if self.single_use { definition.single_use() } else { definition }
    }

    async fn call(&self, _args: Value, ctx: &CallContext) -> Result<Outcome, ToolError> {
        match ctx.answers().raw("means") {
            Some(_) => Outcome::json("bought"),
            None => ctx.needs_input(Inputs::new().form::<Means>("means", "How?"), &()),
        }
    }
}

impl Tool for Act {
    type Args = ActArgs;

    fn definition(&self) -> Definition {
        Definition::tool(self.name, "Does something.")
            .class(self.class)
            .time_limit(Duration::from_secs(2))
    }

    async fn call(&self, args: ActArgs, ctx: &CallContext) -> Result<Outcome, ToolError> {
        if matches!(args.how, How::FailBefore) {
            return Err(ToolError::new("not now").nothing_happened());
        }
        let number = self.effects.happen(ctx);
        self.effects.entered.add_permits(1);
        match args.how {
            How::Well | How::FailBefore => Outcome::json(number),
            How::Fail => Err(ToolError::new("it failed").data(json!(number))),
            How::Panic => panic!("on purpose"),
            How::Hang => std::future::pending().await,
            How::Wait => {
                self.effects.take_go_on().await;
                Outcome::json(number)
            }
            How::WaitAndAsk => {
                self.effects.take_go_on().await;
                ctx.needs_input(Inputs::new().confirm("sure", "Sure?"), &())
            }
            How::Large => Ok(Outcome::text("x".repeat(200_000))),
            How::Deep => Ok(Outcome::Done(Content::Value(nested(100)))),
            How::TooDeep => Ok(Outcome::Done(Content::Value(nested(126)))),
        }
    }
}
