//! `handback query --all`: every page of a walk.

use std::io::{self, Write as _};

use handback_page::aql::{Answer, Code, Operation};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value};

use super::{Asker, exit_of, given};
use crate::error::Failure;
use crate::exit::Exit;
use crate::output::Output;
use crate::text;

/// Writes every item of every page as a line of JSON.
pub(super) fn run(asker: &Asker, request: &[u8], output: Output) -> Result<Exit, Failure> {
    let limits = &asker.engine.settings().limits;
    let mut walk = match handback_page::aql::parse_request(request, limits) {
        Ok(request) => Walk::of(request, asker.engine.settings().max_page_size)?,
        // The engine says what is wrong with it.
        Err(_) => return stop(&asker.ask(request)?, 0, None, output),
    };
    let bar = progress(output);
    let mut written = 0;
    let mut after: Option<String> = None;
    let mut out = io::BufWriter::new(io::stdout().lock());
    loop {
        let answer = asker.ask(walk.request().to_string().as_bytes())?;
        let Some((page, info)) = answer.page().and_then(|page| Some((page, page.page_info()?)))
        else {
            let _ = out.flush();
            bar.finish_and_clear();
            return stop(&answer, written, after.as_deref(), output);
        };
        if written == 0
            && let Some(total) = info.total_count
        {
            bar.set_length(total);
        }
        for item in page.items() {
            match writeln!(out, "{}", text::plain_json(item.json())) {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(Exit::OK),
                result => result.map_err(unwritten)?,
            }
        }
        written += page.items().len() as u64;
        bar.set_position(written);
        match (&info.end_cursor, info.has_next_page) {
            (Some(cursor), true) => {
                walk.set("after", cursor.as_str().into());
                // Counting again on every page would cost more than the page.
                walk.set("include_total", false.into());
                after = Some(cursor.clone());
            }
            _ => break,
        }
    }
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(unwritten(error)),
        _ => {}
    }
    bar.finish_and_clear();
    output.note("done", &format!("{written} items"));
    Ok(Exit::OK)
}

/// A request that can be walked, and its parameters.
struct Walk {
    request: Map<String, Value>,
    params: Map<String, Value>,
}

impl Walk {
    /// With the largest pages, unless the request says how large they are.
    fn of(request: Value, size: usize) -> Result<Self, Failure> {
        let other =
            ["last", "before", "page", "page_size", "limit", "offset", "stream", "operations"];
        let operation = request.get("operation").and_then(Value::as_str);
        if let Some(operation) = operation.and_then(Operation::named)
            && !operation.is_paged()
        {
            let name = operation.name();
            return Err(Failure::usage(format!("--all needs pages, and '{name}' gives none")));
        }
        let is_given =
            |name: &&str| given(&request, name).is_some_and(|value| *value != Value::Bool(false));
        if let Some(name) = other.into_iter().find(is_given) {
            return Err(Failure::usage(format!("--all walks forward by cursor, without '{name}'")));
        }
        let first = given(&request, "first").cloned().unwrap_or_else(|| size.into());
        if first.as_f64() == Some(0.0) {
            return Err(Failure::usage("--all needs pages with items: 'first' is 0"));
        }
        let Value::Object(mut request) = request else {
            return Err(Failure::usage("--all needs a request, which is a JSON object"));
        };
        let params = match request.remove("params") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return Err(Failure::usage("'params' of a request is a JSON object")),
        };
        let mut walk = Self { request, params };
        walk.set("first", first);
        // The items alone are written.
        walk.set("include_edges", Value::Null);
        Ok(walk)
    }

    /// Sets a parameter, which then counts more than one outside of `params`.
    fn set(&mut self, name: &str, value: Value) {
        self.request.remove(name);
        self.params.insert(name.to_owned(), value);
    }

    fn request(&self) -> Value {
        let mut request = self.request.clone();
        request.insert("params".to_owned(), Value::Object(self.params.clone()));
        Value::Object(request)
    }
}

/// Ends a walk that failed: what was written is complete up to a cursor.
fn stop(
    answer: &Answer,
    written: u64,
    after: Option<&str>,
    output: Output,
) -> Result<Exit, Failure> {
    let Some(failure) = answer.failure() else {
        return Err(Failure::usage("--all needs an operation whose answers are pages"));
    };
    let error = Failure::new(format!("{}: {}", failure.code().as_str(), failure.message()));
    // What is gone, or does not take the cursor, does not go on with it.
    let less = match failure.code() {
        Code::Internal => Some(""),
        Code::PayloadTooLarge => Some(" and fewer \"fields\""),
        _ => None,
    };
    let error = match (after, less) {
        (Some(after), Some(less)) => error.hint(format!(
            "{written} items were written; the same request with \"after\": \"{after}\"{less} goes on"
        )),
        _ => error,
    };
    output.failure(&error);
    Ok(exit_of(answer))
}

/// A bar on the terminal of a person; nothing for programs.
fn progress(output: Output) -> ProgressBar {
    let target = if output.is_for_people() {
        ProgressDrawTarget::stderr_with_hz(5)
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(None, target);
    let style = "{spinner} {human_pos} items {wide_bar} {human_len} {per_sec} {eta}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

fn unwritten(error: io::Error) -> Failure {
    Failure::new(format!("cannot write the items to stdout: {error}"))
}
