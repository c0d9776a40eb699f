//! `--all`: every page.

use std::io::{self, Write as _};

use handback_client::tools::{
    AllOptions, Answer, Call, Ended, Limit, Limits, Merge, Tools, ToolsError, Walk,
};
use serde::Serialize;
use serde_json::value::RawValue;

use super::progress::Meter;
use super::{CallArgs, failure, questions, shown};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// What becomes of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    Merged(Merge),
    /// One line for each item, as pages come.
    Lines,
}

pub(super) fn parse(text: &str) -> Result<How, String> {
    Ok(match (text, text.strip_prefix("concat-field=")) {
        ("concat", _) => How::Merged(Merge::ConcatArray),
        ("first-page", _) => How::Merged(Merge::FirstPageOnly),
        ("last-page", _) => How::Merged(Merge::LastPage),
        ("lines", _) => How::Lines,
        (_, Some(name)) if !name.is_empty() => How::Merged(Merge::ConcatField(name.to_owned())),
        _ => return Err("it is concat, concat-field=NAME, first-page, last-page or lines".into()),
    })
}

#[derive(Serialize)]
struct Line<'a> {
    result: Option<&'a RawValue>,
    next_cursor: Option<&'a str>,
    pages: u32,
    bytes: u64,
}

pub(super) async fn run(
    tools: &Tools,
    call: &Call,
    args: &CallArgs,
    meter: &Meter,
    output: Output,
) -> Result<Exit, Failure> {
    let limits = args.limits();
    let merge = match &args.merge {
        How::Lines => return lines(tools.walk(call, limits), call, meter, output).await,
        How::Merged(merge) => merge.clone(),
    };
    let options = AllOptions { limits, merge };
    let walked = match tools.call_all(call, &options).await {
        Ok(walked) => walked,
        Err(error) => return failure::told(error, call, output),
    };
    meter.clear();
    let next_cursor = match &walked.ended {
        Ended::Stopped { cursor, .. } | Ended::Broken { cursor, .. } => cursor.as_deref(),
        _ => None,
    };
    let (pages, bytes) = (walked.pages, walked.bytes);
    if let Some(merged) = &walked.merged {
        let line = Line { result: Some(merged), next_cursor, pages, bytes };
        shown::print(merged, &line, output)?;
    }
    ended(&walked.ended, pages, &limits, call, output)
}

/// How a walk ended, for people and for the exit code.
fn ended(
    ended: &Ended,
    pages: u32,
    limits: &Limits,
    call: &Call,
    output: Output,
) -> Result<Exit, Failure> {
    match ended {
        Ended::Complete => Ok(Exit::OK),
        // It is what was wanted.
        Ended::Stopped { limit: None, cursor } => {
            output.note("next page", &next(cursor.as_deref()));
            Ok(Exit::OK)
        }
        Ended::Stopped { limit: Some(limit), cursor } => {
            Err(stopped(*limit, pages, limits, cursor.as_deref()))
        }
        Ended::Asks(asks) => questions::show(asks, output),
        Ended::Failed(failed) => shown::failed(failed, output),
        Ended::Broken { error, cursor } => {
            Err(broken(error.clone(), call, pages, cursor.as_deref()))
        }
        _ => Err(Failure::new("the walk ended in a way that is not known")),
    }
}

fn next(cursor: Option<&str>) -> String {
    match cursor {
        Some(cursor) => format!("the same command with --cursor={}", shown::word(cursor)),
        None => "the same command".to_owned(),
    }
}

fn stopped(limit: Limit, pages: u32, limits: &Limits, cursor: Option<&str>) -> Failure {
    let (which, flag) = match limit {
        Limit::Pages => (format!("--max-pages is {}", limits.pages), "--max-pages"),
        Limit::Bytes => (format!("--max-bytes is {}", limits.bytes), "--max-bytes"),
    };
    let what = match pages {
        0 => format!("the first page is too large: {which}"),
        pages => format!("stopped after {pages} pages: {which}, and there is more"),
    };
    Failure::new(what).hint(format!("{} goes on; {flag} takes more", next(cursor)))
}

fn broken(error: ToolsError, call: &Call, pages: u32, cursor: Option<&str>) -> Failure {
    failure::failure(error, call.is_keyed())
        .about(format!("stopped after {pages} pages, and there is more"))
        .hint(format!("{} goes on", next(cursor)))
}

/// One line for each item, as pages come.
async fn lines(
    mut walk: Walk<'_>,
    call: &Call,
    meter: &Meter,
    output: Output,
) -> Result<Exit, Failure> {
    let mut items = 0_u64;
    loop {
        let cursor = walk.cursor().map(str::to_owned);
        let answer = match walk.next().await {
            Ok(answer) => answer,
            Err(error) if walk.pages() == 0 => return failure::told(error, call, output),
            Err(error) => return Err(broken(error, call, walk.pages(), cursor.as_deref())),
        };
        match answer {
            Some(Answer::Given(given)) => {
                let Some(count) = write_items(&given.result)? else { return Ok(Exit::OK) };
                items += count;
            }
            Some(Answer::Asks(asks)) => return questions::show(&asks, output),
            Some(Answer::Failed(failed)) => return shown::failed(&failed, output),
            Some(_) => return Err(Failure::new("the server gave something that is not known")),
            None => break,
        }
    }
    meter.clear();
    let pages = walk.pages();
    output.note("done", &format!("{items} lines of {pages} pages"));
    match walk.stopped() {
        Some(limit) => Err(stopped(limit, pages, &walk.limits(), walk.cursor())),
        None => Ok(Exit::OK),
    }
}

/// Writes the items of a page, and says how many; nothing, if nobody reads any more.
fn write_items(page: &RawValue) -> Result<Option<u64>, Failure> {
    let items: Vec<&RawValue> = match serde_json::from_str(page.get()) {
        Ok(items) => items,
        Err(_) => vec![page],
    };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = items
        .iter()
        // JSON has line ends outside of its texts only.
        .try_for_each(|item| writeln!(out, "{}", text::one_line(item.get())))
        .and_then(|()| out.flush());
    match written {
        Ok(()) => Ok(Some(items.len() as u64)),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::new(error).about("cannot write to stdout".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name() {
        assert_eq!(parse("concat"), Ok(How::Merged(Merge::ConcatArray)));
        let field = Merge::ConcatField("rows".to_owned());
        assert_eq!(parse("concat-field=rows"), Ok(How::Merged(field)));
        assert_eq!(parse("first-page"), Ok(How::Merged(Merge::FirstPageOnly)));
        assert_eq!(parse("last-page"), Ok(How::Merged(Merge::LastPage)));
        assert_eq!(parse("lines"), Ok(How::Lines));
        assert!(parse("concat-field=").is_err());
        assert!(parse("all").is_err());
    }
}
