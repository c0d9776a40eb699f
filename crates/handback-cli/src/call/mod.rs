//! `handback call`: the tools of a running server.

mod all;
mod ask;
mod failure;
mod input;
mod listed;
mod progress;
mod questions;
mod shown;

use std::time::Duration;

use clap::{ArgGroup, Args};
use handback_client::tools::{
    Answer, Call, DEFAULT_MAX_BYTES, DEFAULT_MAX_PAGES, Endpoint, Limits, Tools,
};
use serde_json::{Map, Value};

use self::all::How;
use self::progress::Meter;
use crate::bearer::BearerArgs;
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;

/// Rounds of questions that are answered in one go.
const ROUNDS_MAX: u32 = 16;

/// Bytes of an answer that are not its result.
const ENVELOPE_BYTES: u64 = 1 << 20;

/// Call a tool of a running server
///
/// The address says how: http://HOST:PORT is plain HTTP (/v1/tools), with a path such as /mcp it is MCP,
/// and unix:PATH is the UNIX socket of the server. What a tool gives is written to stdout as JSON; how to
/// go on is said on stderr.
///
/// With --idempotency-key a call whose connection breaks is tried again under the same key, and is made
/// once. Without it, it is tried once: if the answer does not come, nobody knows whether it was made.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("states").args(["state", "state_json"]))]
#[command(group = ArgGroup::new("answers").args(["answer", "decline", "raw_answer"]).multiple(true))]
#[command(after_long_help = "\
Pages:
  A tool that gives pages says on stderr where the next one is. --all walks them: --merge says what
  becomes of them, --max-pages and --max-bytes how far it goes. If it stops before the end, what it
  has is written, stderr says with which --cursor to go on, and the exit code is 1.

Merging:
  concat              one array with the items of all pages
  concat-field=NAME   the last page, with the items of all pages in its member NAME
  first-page          the first page; no other is asked for
  last-page           the last page; the others are dropped
  lines               one line of JSON for each item, as pages come

Tools that ask back:
  What is asked is written to stdout, with the command that answers it. If stdin is a terminal, or
  with --interactive, the answers are asked for instead. The UNIX socket has no questions.
  A NAME that begins with \" is a JSON string: so any name can be typed.

JSON members:
  result, next_cursor, is_replay, and with --all pages and bytes
  questions [{name, message, schema, url, other}] and state, if the tool asks back
  tools with --list; with --describe, the tool as the server describes it

Exit codes:
  0 an answer, also if it is a question; 1 none, or the tool failed (its data is on stdout), or
  --all stopped before the end; 3 the cursor or state is refused

Examples:
  handback call --list
  handback call --describe shop_orders
  handback call shop_orders '{\"customer\":7}'
  handback call shop_orders '{\"customer\":7}' --all --merge lines > orders.jsonl
  handback call shop_refund '{\"order\":17}' --idempotency-key refund-17
  handback call shop_orders @arguments.json --url http://127.0.0.1:8420/mcp
  handback call shop_orders --url unix:/run/handback.sock")]
pub(crate) struct CallArgs {
    /// The tool
    #[arg(required_unless_present = "list")]
    tool: Option<String>,

    /// Its arguments: a JSON object, @FILE or - for stdin
    #[arg(default_value = "{}")]
    arguments: String,

    /// List the tools that you may use
    #[arg(long, conflicts_with_all = ["tool", "describe", "all", "cursor", "states"])]
    list: bool,

    /// Show what the tool is for, and the schema of its arguments
    #[arg(long, conflicts_with_all = ["all", "cursor", "states"])]
    describe: bool,

    /// Where the tools are: http://HOST:PORT, http://HOST:PORT/mcp or unix:PATH
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8420")]
    url: Endpoint,

    #[command(flatten)]
    bearer: BearerArgs,

    /// What makes a retry the same call
    #[arg(long, value_name = "KEY")]
    idempotency_key: Option<String>,

    /// Go on at this cursor; over MCP, with the arguments of the first page
    #[arg(long, value_name = "CURSOR", conflicts_with = "states")]
    cursor: Option<String>,

    /// Walk all pages
    #[arg(long)]
    all: bool,

    /// What becomes of the pages
    #[arg(long, value_name = "HOW", default_value = "concat", requires = "all", value_parser = all::parse)]
    merge: How,

    /// Pages at most
    #[arg(long, value_name = "PAGES", default_value_t = DEFAULT_MAX_PAGES, requires = "all",
          value_parser = clap::value_parser!(u32).range(1..))]
    max_pages: u32,

    /// Bytes of all results at most
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_BYTES,
          value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    max_bytes: u64,

    /// The state that came with the questions
    #[arg(long, value_name = "STATE", requires = "answers")]
    state: Option<String>,

    /// The state as a JSON string, for a state with control characters
    #[arg(long, value_name = "JSON", requires = "answers", value_parser = questions::parse_state)]
    state_json: Option<String>,

    /// The content of the answer to a form, as JSON; can be given several times
    #[arg(long, value_name = "NAME=JSON", requires = "states",
          value_parser = questions::parse_answer)]
    answer: Vec<(String, Value)>,

    /// A question that is not answered; can be given several times
    #[arg(long, value_name = "NAME", requires = "states", value_parser = questions::parse_name)]
    decline: Vec<String>,

    /// The whole answer to a question that is no form; can be given several times
    #[arg(long, value_name = "NAME=JSON", requires = "states",
          value_parser = questions::parse_answer)]
    raw_answer: Vec<(String, Value)>,

    /// Ask for the answers here, also if stdin is no terminal
    #[arg(long, conflicts_with = "all")]
    interactive: bool,

    /// Tell on stderr how far it is, also if that is no terminal
    #[arg(long)]
    progress: bool,

    /// How long an attempt may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_s: u64,
}

pub(crate) fn run(args: &CallArgs, output: Output) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(error).about("cannot start a runtime".to_owned()))?;
    let meter = Meter::new(args.progress, output);
    let ran = runtime.block_on(asked(args, &meter, output));
    meter.clear();
    ran
}

async fn asked(args: &CallArgs, meter: &Meter, output: Output) -> Result<Exit, Failure> {
    let tools = tools(args, meter)?;
    let Some(tool) = &args.tool else { return listed::list(&tools, output).await };
    if args.describe {
        return listed::describe(&tools, tool, output).await;
    }
    let call = call(args, tool)?;
    if args.all {
        return all::run(&tools, &call, args, meter, output).await;
    }
    let is_interactive = args.interactive || (args.arguments != "-" && ask::is_possible(output));
    answered(&tools, call, is_interactive, meter, output).await
}

fn tools(args: &CallArgs, meter: &Meter) -> Result<Tools, Failure> {
    let tools = Tools::new(&args.url).map_err(Failure::new)?;
    let response_bytes = usize::try_from(args.max_bytes.saturating_add(ENVELOPE_BYTES));
    let heard = meter.clone();
    let tools = tools
        .timeout(Duration::from_secs(args.timeout_s))
        .response_bytes(response_bytes.unwrap_or(usize::MAX))
        .hear(move |event| heard.hear(&event));
    Ok(match args.bearer.token()? {
        Some(token) => tools.bearer(&token),
        None => tools,
    })
}

fn call(args: &CallArgs, tool: &str) -> Result<Call, Failure> {
    let mut call = Call::new(tool, input::arguments(&args.arguments)?);
    if let Some(key) = &args.idempotency_key {
        call = call.idempotency_key(key);
    }
    if let Some(cursor) = &args.cursor {
        call = call.cursor(cursor);
    }
    if let Some(state) = args.state.as_ref().or(args.state_json.as_ref()) {
        let forms = args.answer.iter().map(|(name, value)| (name, questions::accepted(value)));
        let declined = args.decline.iter().map(|name| (name, questions::declined()));
        let raw = args.raw_answer.iter().map(|(name, value)| (name, value.clone()));
        let answers: Map<String, Value> =
            forms.chain(declined).chain(raw).map(|(name, value)| (name.clone(), value)).collect();
        call = call.answers(state, answers);
    }
    Ok(call)
}

impl CallArgs {
    const fn limits(&self) -> Limits {
        Limits { pages: self.max_pages, bytes: self.max_bytes }
    }
}

/// Makes a call, and answers what it asks if somebody is there to do so.
async fn answered(
    tools: &Tools,
    mut call: Call,
    is_interactive: bool,
    meter: &Meter,
    output: Output,
) -> Result<Exit, Failure> {
    for _ in 0..ROUNDS_MAX {
        let answer = match tools.call(&call).await {
            Ok(answer) => answer,
            Err(error) => return failure::told(error, &call, output),
        };
        meter.clear();
        let asks = match answer {
            Answer::Given(given) => return shown::given(&given, output),
            Answer::Failed(failed) => return shown::failed(&failed, output),
            Answer::Asks(asks) => asks,
            _ => return Err(Failure::new("the server gave something that is not known")),
        };
        let answers = if is_interactive { ask::answers(&asks)? } else { None };
        let Some(answers) = answers else { return questions::show(&asks, output) };
        call = call.answers(asks.state, answers);
    }
    Err(Failure::new(format!("the tool asks again and again: {ROUNDS_MAX} rounds were answered")))
}
