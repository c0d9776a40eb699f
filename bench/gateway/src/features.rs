//! What each feature of ours costs: sealing what the upstream wants back, holding a large result,
//! reading a page of it, calling with a key, replaying.
//!
//! Direct calls and calls through Handback alternate in small batches; a number is the median over
//! the batches of the median within a batch.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bench_kit::spread::{Spread, percentiles};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::caller::{Caller, Era};
use crate::contender::{Contender, Programs, Way};

/// Where the answer says what is held.
const HELD: &str = "dev.handback/held";

/// Where it says that it is one from before.
const REPLAYED: &str = "dev.handback/replayed";

/// Items of a page.
const PAGE: usize = 20;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Batches of each kind.
    rounds: usize,
    /// Calls in a batch.
    batch: usize,
    /// Bytes of a large result, and of a very large one.
    large: [u64; 2],
    /// Gateways that very large results are sent through: what one caller may hold has room for two.
    gateways: usize,
}

impl Effort {
    /// What is published.
    pub(crate) fn full() -> Self {
        Self { rounds: 15, batch: 100, large: [1_000_000, 100_000_000], gateways: 2 }
    }

    /// Only whether it works.
    pub(crate) fn smoke() -> Self {
        Self { rounds: 1, batch: 2, large: [1_000_000, 2_000_000], gateways: 1 }
    }
}

/// What something costs, in milliseconds.
#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) what: String,
    /// Without the gateway, where that makes sense.
    pub(crate) direct: Option<Spread>,
    pub(crate) through: Option<Spread>,
}

/// Both ways of doing something, batch by batch.
#[derive(Debug, Default)]
struct Pairs {
    direct: Vec<f64>,
    through: Vec<f64>,
}

impl Pairs {
    fn cost(self, what: impl Into<String>) -> Cost {
        let Self { direct, through } = self;
        Cost { what: what.into(), direct: Spread::of(direct), through: Spread::of(through) }
    }
}

/// Where everything runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Site<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) scratch: &'a Path,
    pub(crate) upstream: SocketAddr,
}

impl Site<'_> {
    /// Opens a way to the upstream.
    pub(crate) fn way(&self, contender: Contender) -> Result<Way> {
        Way::open(contender, self.programs, self.scratch, self.upstream)
    }
}

/// Measures all features.
pub(crate) async fn measure(site: Site<'_>, effort: &Effort) -> Result<Vec<Cost>> {
    let direct = site.way(Contender::Direct)?;
    let mut costs = Vec::new();
    {
        let ours = site.way(Contender::Handback)?;
        let mut bench = Bench::open(&direct, &ours).await?;
        let measured = bench.small(effort).await.with_context(|| said(&ours))?;
        costs.extend(measured);
        let [large, _] = effort.large;
        let (mut hold, mut page) = (Pairs::default(), Pairs::default());
        for _ in 0..effort.rounds {
            bench
                .large(large, effort.batch, &mut hold, &mut page)
                .await
                .with_context(|| said(&ours))?;
        }
        costs.extend(told(large, hold, page));
    }
    let [_, large] = effort.large;
    let (mut hold, mut page) = (Pairs::default(), Pairs::default());
    for _ in 0..effort.gateways {
        let ours = site.way(Contender::Handback)?;
        let mut bench = Bench::open(&direct, &ours).await?;
        for _ in 0..2 {
            bench
                .large(large, effort.batch, &mut hold, &mut page)
                .await
                .with_context(|| said(&ours))?;
        }
    }
    costs.extend(told(large, hold, page));
    Ok(costs)
}

fn told(bytes: u64, hold: Pairs, page: Pairs) -> [Cost; 2] {
    let megabytes = bytes / 1_000_000;
    [
        hold.cost(format!("hold {megabytes} MB; direct: all of it")),
        page.cost(format!("a page of {PAGE} of the {megabytes} MB, anywhere")),
    ]
}

fn said(way: &Way) -> String {
    format!("Handback said:\n{}", way.log())
}

/// A caller on either way.
struct Bench {
    direct: Caller,
    through: Caller,
}

impl Bench {
    async fn open(direct: &Way, ours: &Way) -> Result<Self> {
        let direct = Caller::open(direct.endpoint, Era::Modern, 1).await?;
        let through = Caller::open(ours.endpoint, Era::Modern, 2).await?;
        let mut bench = Self { direct, through };
        for _ in 0..20 {
            bench.direct.echo().await?;
            bench.through.echo().await?;
        }
        Ok(bench)
    }

    async fn small(&mut self, effort: &Effort) -> Result<[Cost; 5]> {
        let [mut plain, mut ask, mut answer, mut keyed, mut replay] =
            std::array::from_fn(|_| Pairs::default());
        for _ in 0..effort.rounds {
            plain.direct.push(echoes(&mut self.direct, effort.batch).await?);
            plain.through.push(echoes(&mut self.through, effort.batch).await?);
            for (caller, asks, answers) in [
                (&mut self.direct, &mut ask.direct, &mut answer.direct),
                (&mut self.through, &mut ask.through, &mut answer.through),
            ] {
                let (asked, answered) = questions(caller, effort.batch).await?;
                asks.push(asked);
                answers.push(answered);
            }
            let (first, again) = keys(&mut self.through, effort.batch).await?;
            keyed.through.push(first);
            replay.through.push(again);
        }
        Ok([
            plain.cost("a call"),
            ask.cost("seal: a call that asks back, with request state"),
            answer.cost("open: the answer to it, with the state"),
            keyed.cost("a call with a key, reserved on the disk before it goes on"),
            replay.cost("replay: the same again"),
        ])
    }

    /// Fetches a large result both ways, and reads pages of what is held.
    async fn large(
        &mut self,
        bytes: u64,
        batch: usize,
        hold: &mut Pairs,
        page: &mut Pairs,
    ) -> Result<()> {
        let arguments = format!(r#""bytes":{bytes}"#);
        hold.direct.push(ms(self.direct.call("large", true, &arguments, "").await?));
        let text = self.direct.outcome()?.content.into_iter().next().context("there is no text")?;
        ensure!(text.text.len() as u64 >= bytes, "the upstream gave less than {bytes} bytes");
        hold.through.push(ms(self.through.call("large", true, &arguments, "").await?));
        let outcome = self.through.outcome()?;
        let shown: usize = outcome.content.iter().map(|block| block.text.len()).sum();
        ensure!((shown as u64) < bytes, "nothing was held: {shown} bytes came");
        let meta = outcome.meta.unwrap_or_default();
        let handle = meta.get(HELD).and_then(|held| held.get(0)?.get("handle"));
        let handle = handle.with_context(|| format!("there is no handle in {meta}"))?;
        page.through.push(pages(&mut self.through, handle, bytes, batch).await?);
        Ok(())
    }
}

async fn echoes(caller: &mut Caller, count: usize) -> Result<f64> {
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        took.push(caller.echo().await?);
    }
    Ok(percentiles(took).0)
}

/// Calls that ask back, and the answers to them.
async fn questions(caller: &mut Caller, count: usize) -> Result<(f64, f64)> {
    const YES: &str = r#"{"sure":{"action":"accept","content":{"sure":true}}}"#;
    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let number = caller.fresh();
        let arguments = format!(r#""v":{number}"#);
        asked.push(caller.call("ask", true, &arguments, "").await?);
        let outcome = caller.outcome()?;
        let state = outcome.request_state.context("there is no request state")?;
        let rest =
            format!(r#","requestState":{},"inputResponses":{YES}"#, Value::from(state.as_ref()));
        answered.push(caller.call("ask", true, &arguments, &rest).await?);
        let outcome = caller.outcome()?;
        let text = outcome.content.first().map(|block| block.text.as_ref());
        ensure!(text == Some(&number.to_string()), "{number} was answered with {outcome:?}");
    }
    Ok((percentiles(asked).0, percentiles(answered).0))
}

/// Calls with a new key each, and the same once more.
async fn keys(caller: &mut Caller, count: usize) -> Result<(f64, f64)> {
    let (mut first, mut again) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let number = caller.fresh();
        let key = format!(r#""dev.handback/idempotency-key":"bench-{number}""#);
        first.push(caller.say_echo(number, &key).await?);
        again.push(caller.say_echo(number, &key).await?);
        let meta = caller.outcome()?.meta.unwrap_or_default();
        ensure!(meta.get(REPLAYED) == Some(&Value::Bool(true)), "it is no replay: {meta}");
    }
    Ok((percentiles(first).0, percentiles(again).0))
}

/// A page as the reading tool gives it.
#[derive(Deserialize)]
struct Page {
    data: Option<PageData>,
}

#[derive(Deserialize)]
struct PageData {
    items: Vec<IgnoredAny>,
}

/// Pages at places that go round through all of it.
async fn pages(caller: &mut Caller, handle: &Value, bytes: u64, count: usize) -> Result<f64> {
    // A record has fewer than a hundred bytes, so that there are at least so many.
    let records = bytes / 100;
    let mut took = Vec::with_capacity(count);
    let mut place = 0;
    for _ in 0..count {
        // Neither near each other nor in order.
        place = (place + 7_919 * records / 10_007 + 1) % (records - PAGE as u64);
        let arguments = format!(
            r#""operation":"list_elements","element_type":{handle},"params":{{"limit":{PAGE},"offset":{place}}}"#
        );
        took.push(caller.call("mcp_aql_read", false, &arguments, "").await?);
        let outcome = caller.outcome()?;
        let text = outcome.content.first().map_or("", |block| block.text.as_ref());
        let items = serde_json::from_str::<Page>(text).ok().and_then(|page| page.data);
        let items = items.map(|data| data.items.len());
        ensure!(items == Some(PAGE), "no page of {PAGE} at {place}: {text}");
    }
    Ok(percentiles(took).0)
}

fn ms(took: Duration) -> f64 {
    took.as_secs_f64() * 1e3
}
