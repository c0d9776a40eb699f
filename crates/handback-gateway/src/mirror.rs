//! Arguments that go in headers as well.
//!
//! Over HTTP a server of the newer era may say of an argument, by `x-mcp-header` in the schema of its
//! tool, that it goes in a header `Mcp-Param-…` too, where what stands between can read it. The server
//! refuses a call whose headers say something else than its arguments, or nothing.
//!
//! What a client over HTTP says in its headers is passed on: that it fits the arguments is the server's
//! to check. Clients on standard streams and of the older era have no such headers, and the gateway makes
//! them of the arguments that go out. Rejected: replacing those of all clients. A client whose headers
//! contradict its arguments would not be refused any more, and what stands before the gateway may have
//! read them.
//!
//! No call waits until it is known what a tool has: most have no such arguments, and a server that misses
//! a header refuses before it begins. Then it is looked at, and the call is made again.

use std::borrow::Cow;

use handback_mcp::wire::Object;
use handback_wire::header;
use hyper::header::HeaderName;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::catalog::{Catalog, member};
use crate::gateway::Gateway;
use crate::relay;
use crate::talk::Talk;
use crate::upstream::{Answer, Ask, Line, LineError};

/// How the names of these headers begin.
pub(crate) const PARAM_PREFIX: &str = "mcp-param-";

/// The member of the schema of an argument that names its header.
const ANNOTATION: &str = "x-mcp-header";

/// Arguments of one tool that go in headers at most: servers take about a hundred headers in all.
const ARGUMENTS_MAX: usize = 32;

/// Bytes of the name of a header at most.
const NAME_BYTES_MAX: usize = 128;

/// Bytes of all of these headers of a call at most: what common servers take of one header.
const BYTES_MAX: usize = 8 << 10;

/// Headers: their names, in lower case, and their plain values.
pub(crate) type Headers = Vec<(String, String)>;

/// The arguments of a tool that go in headers as well.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mirrored(Vec<Argument>);

#[derive(Clone, Debug)]
struct Argument {
    /// The members that lead to it.
    path: Vec<String>,
    header: String,
}

/// They are longer than headers may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the arguments that go in headers are longer than {BYTES_MAX} bytes together")]
pub(crate) struct TooLong;

impl Mirrored {
    /// Those of an input schema. A name that is none of a header, or another one's, is passed over.
    pub(crate) fn read(schema: Option<&Value>) -> Self {
        let mut arguments = Vec::new();
        collect(schema, &mut Vec::new(), &mut arguments);
        Self(arguments)
    }

    /// The headers of these arguments.
    pub(crate) fn headers(&self, arguments: Option<&str>) -> Result<Headers, TooLong> {
        let said = self.said_of(arguments.unwrap_or_default());
        let made = self.0.iter().zip(said);
        let made = made.filter_map(|(argument, said)| Some((argument.header.clone(), said?)));
        bounded(made.collect())
    }

    /// The headers that a client `said` of its arguments, once others are in the place of these. A header
    /// that fitted its argument fits what that has become; one that did not is left for the server to refuse.
    pub(crate) fn moved(
        &self,
        mut said: Headers,
        (from, to): (&str, &str),
    ) -> Result<Headers, TooLong> {
        let all = self.0.iter().zip(self.said_of(from)).zip(self.said_of(to));
        for ((argument, from), to) in all {
            let mut own = said.iter().filter(|(name, _)| *name == argument.header);
            let fitted = own.next().map(|(_, value)| value) == from.as_ref();
            if !fitted || own.next().is_some() || from == to {
                continue;
            }
            said.retain(|(name, _)| *name != argument.header);
            said.extend(to.map(|value| (argument.header.clone(), value)));
        }
        bounded(said)
    }

    /// What headers say of each of the arguments: nothing of one that is not there, that is null, or that
    /// has parts.
    fn said_of(&self, arguments: &str) -> Vec<Option<String>> {
        let read = serde_json::from_str::<&RawValue>(arguments);
        let object = read.ok().and_then(|raw| Object::read(raw).ok()).unwrap_or_default();
        let said = |Argument { path, .. }: &Argument| {
            let (first, rest) = path.split_first()?;
            let mut json = object.get(first)?;
            for name in rest {
                let raw: &RawValue = serde_json::from_str(json).ok()?;
                let Cow::Borrowed(inside) = Object::read(raw).ok()?.remove(name)? else {
                    return None;
                };
                json = inside;
            }
            plain(json)
        };
        self.0.iter().map(said).collect()
    }
}

/// Looks for such arguments among the members of an object; a schema is not nested deeper than JSON may be.
fn collect(schema: Option<&Value>, path: &mut Vec<String>, found: &mut Vec<Argument>) {
    let properties = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    for (name, schema) in properties.into_iter().flatten() {
        path.push(name.clone());
        let header = schema.get(ANNOTATION).and_then(Value::as_str).and_then(header_of);
        let is_new = |header: &String| found.iter().all(|known| known.header != *header);
        if let Some(header) = header.filter(is_new)
            && found.len() < ARGUMENTS_MAX
        {
            found.push(Argument { path: path.clone(), header });
        }
        collect(Some(schema), path, found);
        path.pop();
    }
}

/// The name of a header, from what an annotation says.
fn header_of(said: &str) -> Option<String> {
    let is_short = !said.is_empty() && said.len() <= NAME_BYTES_MAX;
    let name = is_short.then(|| format!("{PARAM_PREFIX}{said}"))?;
    HeaderName::from_bytes(name.as_bytes()).ok().map(|name| name.as_str().to_owned())
}

/// What a header says of a value.
fn plain(json: &str) -> Option<String> {
    if json.starts_with(['{', '[']) {
        return None;
    }
    match serde_json::from_str(json).ok()? {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn bounded(headers: Headers) -> Result<Headers, TooLong> {
    let bytes: usize = headers.iter().map(|(_, value)| header::encode(value).len()).sum();
    if bytes > BYTES_MAX { Err(TooLong) } else { Ok(headers) }
}

/// The arguments among parameters.
pub(crate) fn arguments_of(params: &str) -> Option<&str> {
    #[derive(serde::Deserialize)]
    struct Params<'a> {
        #[serde(borrow, default)]
        arguments: Option<&'a RawValue>,
    }

    let params: Params<'_> = serde_json::from_str(params).ok()?;
    params.arguments.map(RawValue::get)
}

impl Gateway {
    /// Asks on a line, with the headers that the server wants beside the arguments, and passes on what
    /// comes before the answer.
    pub(crate) async fn relayed(
        &self,
        talk: Talk,
        (which, line): (usize, Line),
        mut ask: Ask,
    ) -> Result<Answer, LineError> {
        if talk.has_headers || !line.has_headers() || ask.method != "tools/call" {
            return relay::relayed(talk, line, ask).await;
        }
        if let Some(known) = self.known_catalog(&talk) {
            ask.headers = headers_of(&known, which, &ask)?;
        }
        let error = match relay::relayed(talk.clone(), line.clone(), ask.clone()).await {
            Err(LineError::Mismatch(error)) => error,
            answered => return answered,
        };
        // The tool is not known, or is another one by now.
        let headers = headers_of(&*self.catalog_anew(&talk).await, which, &ask)?;
        if headers == ask.headers {
            return Err(LineError::Mismatch(error));
        }
        relay::relayed(talk, line, Ask { headers, ..ask }).await
    }
}

/// The headers of a call, as far as its tool is known.
fn headers_of(catalog: &Catalog, which: usize, ask: &Ask) -> Result<Headers, LineError> {
    let params = ask.params.as_deref().unwrap_or_default();
    let name = member(params, "name").unwrap_or_default();
    let Some(tool) = catalog.tool_of(which, &name) else { return Ok(Headers::new()) };
    // Most have none, and their arguments are not looked at.
    if tool.mirrored.0.is_empty() {
        return Ok(Headers::new());
    }
    let arguments = std::str::from_utf8(params).ok().and_then(arguments_of);
    tool.mirrored.headers(arguments).map_err(|_| LineError::Headers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mirrored(properties: &Value) -> Mirrored {
        Mirrored::read(Some(&json!({"type": "object", "properties": properties})))
    }

    fn region() -> Mirrored {
        mirrored(&json!({"region": {"type": "string", "x-mcp-header": "Region"}}))
    }

    fn pairs(said: &[(&str, &str)]) -> Headers {
        said.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn arguments_become_headers_as_they_are_written() {
        let mirrored = mirrored(&json!({
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "place": {"type": "object", "properties": {
                "is_open": {"type": "boolean", "x-mcp-header": "Is-Open"},
            }},
            "other": {"type": "string"},
        }));
        let check = |arguments: &str, expected: &[(&str, &str)]| {
            assert_eq!(mirrored.headers(Some(arguments)), Ok(pairs(expected)), "{arguments}");
        };
        check(
            r#"{"region":"Z\u00fcrich","count":-7,"place":{"is_open":false},"other":"x"}"#,
            &[
                ("mcp-param-count", "-7"),
                ("mcp-param-is-open", "false"),
                ("mcp-param-region", "Zürich"),
            ],
        );
        // What is not there has none, nor has what is null or has parts.
        check(r#"{"region":null,"count":[1],"place":{},"is_open":true}"#, &[]);
        check(r#"{"region":{"$held":"h"},"place":7}"#, &[]);
        check(r#"{"region":""}"#, &[("mcp-param-region", "")]);
        check("[]", &[]);
        assert_eq!(mirrored.headers(None), Ok(Headers::new()));
    }

    #[test]
    fn names_that_are_none_of_a_header_are_passed_over() {
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let mirrored = mirrored(&json!({
            "a": {"x-mcp-header": "Same"},
            "b": {"x-mcp-header": "sAME"},
            "c": {"x-mcp-header": ""},
            "d": {"x-mcp-header": "a b"},
            "e": {"x-mcp-header": "a\r\nb"},
            "f": {"x-mcp-header": 7},
            "g": {"x-mcp-header": long},
            // Where it names no argument.
            "h": {"items": {"properties": {"x": {"x-mcp-header": "Item"}}}},
            "i": {"oneOf": [{"x-mcp-header": "Choice"}]},
        }));
        let arguments = r#"{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":[{"x":8}],"i":9}"#;
        assert_eq!(mirrored.headers(Some(arguments)), Ok(pairs(&[("mcp-param-same", "1")])));
    }

    #[test]
    fn headers_are_bounded_in_number_and_length() {
        let all = |count: usize| {
            let one = |n: usize| (format!("a{n:03}"), json!({"x-mcp-header": format!("H{n}")}));
            mirrored(&(0..count).map(one).collect::<serde_json::Map<_, _>>().into())
        };
        let arguments: serde_json::Map<_, _> =
            (0..40).map(|n| (format!("a{n:03}"), json!("v"))).collect();
        let arguments = Value::Object(arguments).to_string();
        assert_eq!(all(40).headers(Some(&arguments)).unwrap().len(), ARGUMENTS_MAX);
        let long = |bytes: usize| json!({"region": "x".repeat(bytes)}).to_string();
        assert!(region().headers(Some(&long(BYTES_MAX))).is_ok());
        assert_eq!(region().headers(Some(&long(BYTES_MAX + 1))), Err(TooLong));
        let moved = region().moved(
            pairs(&[("mcp-param-region", "a")]),
            (r#"{"region":"a"}"#, &long(BYTES_MAX + 1)),
        );
        assert_eq!(moved, Err(TooLong));
    }

    #[test]
    fn a_header_that_fitted_fits_what_came_in_its_place() {
        let (reference, object) =
            (r#"{"region":"$held:h"}"#, r#"{"region":{"$held":"h","path":"/0"}}"#);
        let value = r#"{"region":"eu"}"#;
        let check = |said: &[(&str, &str)], from: &str, to: &str, expected: &[(&str, &str)]| {
            assert_eq!(region().moved(pairs(said), (from, to)), Ok(pairs(expected)), "{said:?}");
        };
        let other = ("mcp-param-other", "x");
        let own = |value| ("mcp-param-region", value);
        check(&[own("$held:h"), other], reference, value, &[other, own("eu")]);
        check(&[], object, value, &[own("eu")]);
        check(&[own("$held:h")], reference, r#"{"region":null}"#, &[]);
        // What did not fit is the server's to refuse.
        for wrong in [vec![], vec![own("eu-1")], vec![own("$held:h"), own("$held:h")]] {
            check(&wrong, reference, value, &wrong);
        }
        check(&[own("x")], object, value, &[own("x")]);
    }
}
