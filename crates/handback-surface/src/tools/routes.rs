//! From requests to responses.

use std::sync::Arc;

use bytes::Bytes;
use handback_identity::Caller;
use handback_token::Operation;
use handback_tool::{Arguments, Continuation, Pipeline, Refusal, Surface};
use hyper::body::Body;
use hyper::{Method, Request, Response, StatusCode};
use percent_encoding::percent_decode_str;

use super::read::{self, Bad, GoOn, Run};
use super::{answer, catalog, events, openapi};
use crate::body::ReplyBody;
use crate::calls;

const TOOLS: &str = "/v1/tools";
const DOCUMENT: &str = "/v1/openapi.json";

/// Whether a path is answered here.
#[must_use]
pub fn is_ours(path: &str) -> bool {
    let under_tools = path.strip_prefix(TOOLS);
    path == DOCUMENT || under_tools.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request whose path [`is_ours`], by a caller.
pub async fn handle<B>(
    request: Request<B>,
    caller: &Caller,
    pipeline: &Arc<Pipeline>,
) -> Response<ReplyBody>
where
    B: Body<Data = Bytes> + Send,
{
    let Some(route) = Route::of(request.uri().path()) else {
        return answer::refused(&Refusal::NotFound);
    };
    let answered = match (route, request.method()) {
        (Route::List, &Method::GET | &Method::HEAD) => {
            let query = request.uri().query().map(str::to_owned);
            catalog::list(query, caller, pipeline).await
        }
        (Route::Tool(name), &Method::GET | &Method::HEAD) => catalog::one(&name, caller, pipeline),
        (Route::Document, &Method::GET | &Method::HEAD) => {
            Ok(answer::json(&openapi::document(&calls::tools(pipeline, caller))))
        }
        (Route::Run(name), &Method::POST) => run(request, caller, pipeline, name).await,
        (Route::Continue(name), &Method::POST) => go_on(request, caller, pipeline, name).await,
        (Route::Run(_) | Route::Continue(_), _) => return answer::not_so("POST"),
        _ => return answer::not_so("GET, HEAD"),
    };
    answered.unwrap_or_else(|bad| answer::bad(&bad))
}

/// What is asked for.
enum Route {
    List,
    Tool(String),
    Run(String),
    Continue(String),
    Document,
}

impl Route {
    /// The name of a tool is one segment of the path: a slash in it is written `%2F`.
    fn of(path: &str) -> Option<Self> {
        if path == DOCUMENT {
            return Some(Self::Document);
        }
        let Some(rest) = path.strip_prefix(TOOLS)?.strip_prefix('/') else {
            return (path == TOOLS).then_some(Self::List);
        };
        let (name, verb) =
            rest.split_once('/').map_or((rest, None), |(name, verb)| (name, Some(verb)));
        let name = percent_decode_str(name).decode_utf8().ok().filter(|name| !name.is_empty())?;
        match verb {
            None => Some(Self::Tool(name.into_owned())),
            Some("run") => Some(Self::Run(name.into_owned())),
            Some("continue") => Some(Self::Continue(name.into_owned())),
            Some(_) => None,
        }
    }
}

async fn run<B>(
    request: Request<B>,
    caller: &Caller,
    pipeline: &Arc<Pipeline>,
    name: String,
) -> Result<Response<ReplyBody>, Bad>
where
    B: Body<Data = Bytes> + Send,
{
    let asked = Asked::of(&request)?;
    let Run { arguments, request_state, input_responses } = read::json(request).await?;
    let mut call = asked.call(caller, name, Arguments::Carried(arguments));
    if request_state.is_some() || input_responses.is_some() {
        let answers = input_responses.unwrap_or_default();
        call = call.continuation(Continuation::State { state: request_state, answers });
    }
    Ok(asked.respond(pipeline, call).await)
}

async fn go_on<B>(
    request: Request<B>,
    caller: &Caller,
    pipeline: &Arc<Pipeline>,
    name: String,
) -> Result<Response<ReplyBody>, Bad>
where
    B: Body<Data = Bytes> + Send,
{
    let asked = Asked::of(&request)?;
    let GoOn { cursor } = read::json(request).await?;
    let call = asked.call(caller, name, Arguments::InCursor);
    Ok(asked.respond(pipeline, call.continuation(Continuation::Cursor(cursor))).await)
}

/// What the headers of a call say.
struct Asked {
    key: Option<String>,
    wants_events: bool,
}

impl Asked {
    fn of<B>(request: &Request<B>) -> Result<Self, Bad> {
        let headers = request.headers();
        read::check_content_type(headers)?;
        Ok(Self { key: read::key(headers)?, wants_events: read::wants_events(headers) })
    }

    fn call(&self, caller: &Caller, name: String, args: Arguments) -> handback_tool::Request {
        let (caller, operation) = (caller.clone(), Operation::Call);
        let call = handback_tool::Request::new(caller, Surface::Http, operation, name, args);
        match &self.key {
            Some(key) => call.key(key),
            None => call,
        }
    }

    async fn respond(
        &self,
        pipeline: &Arc<Pipeline>,
        call: handback_tool::Request,
    ) -> Response<ReplyBody> {
        if self.wants_events {
            return events::respond(pipeline, call).await;
        }
        match answer::text(calls::call(pipeline, call).await) {
            Ok(text) => answer::whole(StatusCode::OK, text),
            Err(refusal) => answer::refused(&refusal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_tools() {
        let check = |path: &str, expected: &str| {
            let route = match Route::of(path) {
                None => "nothing".to_owned(),
                Some(Route::List) => "list".to_owned(),
                Some(Route::Document) => "document".to_owned(),
                Some(Route::Tool(name)) => format!("tool {name}"),
                Some(Route::Run(name)) => format!("run {name}"),
                Some(Route::Continue(name)) => format!("continue {name}"),
            };
            assert_eq!(route, expected, "{path}");
        };
        check("/v1/tools", "list");
        check("/v1/openapi.json", "document");
        check("/v1/tools/a", "tool a");
        check("/v1/tools/a%2Fb/run", "run a/b");
        check("/v1/tools/run/continue", "continue run");
        for path in ["/v1/tools/", "/v1/tools//run", "/v1/tools/a/", "/v1/tools/a/b/run"] {
            check(path, "nothing");
        }
        for path in ["/v1/toolsx", "/v1/tools/%FF", "/v1/tools/a/stop", "/v1/openapi.json/", "/"] {
            check(path, "nothing");
        }
        assert!(is_ours("/v1/tools/") && is_ours("/v1/tools") && !is_ours("/v1/toolsx"));
    }
}
