//! The cost of one hop: processor time of the gateway for each megabyte of a large call.
//!
//! The arguments of the call are large and the result is small, so that reading the request and sending
//! it on are what is measured. Time is that of the gateway's process alone, user and system, in all threads.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use bench_kit::spread::Spread;

use crate::caller::{Caller, Era};
use crate::contender::{Contender, Way};
use crate::features::Site;

/// Length of the arguments in bytes.
const BYTES: usize = 3_000_000;

/// Number of measurements, and of calls in each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    rounds: usize,
    /// The kernel counts processor time in steps of 10 ms: several calls make its error small.
    calls: usize,
}

impl Effort {
    /// The effort of published numbers.
    pub(crate) fn full() -> Self {
        Self { rounds: 15, calls: 10 }
    }

    /// The effort that shows that everything runs.
    pub(crate) fn smoke() -> Self {
        Self { rounds: 1, calls: 2 }
    }
}

/// Processor time for one kind of arguments.
#[derive(Debug)]
pub(crate) struct Cost {
    pub(crate) name: &'static str,
    /// Length of a request in megabytes.
    pub(crate) megabytes: f64,
    pub(crate) ms_per_mb: Option<Spread>,
}

/// One kind of arguments, with the measurements so far.
#[derive(Debug)]
struct Case {
    name: &'static str,
    arguments: String,
    ms_per_mb: Vec<f64>,
}

/// Measures all kinds of arguments, in turns.
pub(crate) async fn measure(site: Site<'_>, effort: Effort) -> Result<Vec<Cost>> {
    let way = site.way(Contender::Handback)?;
    let mut caller = Caller::open(way.endpoint, Era::Modern, 3).await?;
    let mut cases =
        [Case::new("3 MB of small rows", rows(BYTES)), Case::new("one text of 3 MB", text(BYTES))];
    for case in &mut cases {
        calls(&mut caller, &case.arguments, 1).await.with_context(|| way.log())?;
    }
    for _ in 0..effort.rounds {
        for case in &mut cases {
            case.measure(&way, &mut caller, effort.calls).await.with_context(|| way.log())?;
        }
    }
    Ok(cases.into_iter().map(Case::cost).collect())
}

impl Case {
    fn new(name: &'static str, arguments: String) -> Self {
        Self { name, arguments, ms_per_mb: Vec::new() }
    }

    async fn measure(&mut self, way: &Way, caller: &mut Caller, count: usize) -> Result<()> {
        let gateway = way.proxy.as_ref().context("there is no gateway")?;
        let before = gateway.cpu()?;
        calls(caller, &self.arguments, count).await?;
        let spent = gateway.cpu()?.saturating_sub(before);
        #[expect(clippy::cast_precision_loss, reason = "a few calls")]
        let megabytes = self.megabytes() * count as f64;
        self.ms_per_mb.push(spent.as_secs_f64() * 1e3 / megabytes);
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "a few megabytes")]
    fn megabytes(&self) -> f64 {
        self.arguments.len() as f64 / 1e6
    }

    fn cost(self) -> Cost {
        let megabytes = self.megabytes();
        Cost { name: self.name, megabytes, ms_per_mb: Spread::of(self.ms_per_mb) }
    }
}

/// Makes calls and checks their results.
async fn calls(caller: &mut Caller, arguments: &str, count: usize) -> Result<()> {
    for _ in 0..count {
        caller.call("echo", true, arguments, "").await?;
        let outcome = caller.outcome()?;
        let text = outcome.content.first().map(|block| block.text.as_ref());
        ensure!(text == Some("7"), "7 was answered with {outcome:?}");
    }
    Ok(())
}

/// Arguments with many small objects.
fn rows(bytes: usize) -> String {
    let mut out = String::with_capacity(bytes + 100);
    out.push_str(r#""v":7,"rows":["#);
    for id in 0_u32.. {
        let comma = if id == 0 { "" } else { "," };
        let value = f64::from(id) * 1.5;
        // Written into memory, which does not fail.
        let _ = write!(out, r#"{comma}{{"id":{id},"name":"name {id}","v":{value:?}}}"#);
        if out.len() >= bytes {
            break;
        }
    }
    out.push(']');
    out
}

/// Arguments with one long string, in which a line ends now and then.
fn text(bytes: usize) -> String {
    const LINE: &str = r"The quick brown fox jumps over the lazy dog, again and again.\n";
    format!(r#""v":7,"text":"{}""#, LINE.repeat(bytes / LINE.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn arguments_are_as_long_as_they_say() {
        for arguments in [rows(BYTES), text(BYTES)] {
            assert!((BYTES - 100..BYTES + 100).contains(&arguments.len()), "{}", arguments.len());
            let value: Value = serde_json::from_str(&format!("{{{arguments}}}")).unwrap();
            assert_eq!(value["v"], 7);
        }
    }
}
