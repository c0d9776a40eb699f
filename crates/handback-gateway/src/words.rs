//! What the gateway says itself, as JSON.

use bytes::Bytes;
use handback_mcp::Era;
use handback_mcp::server::REASON_META;
use handback_token::Outside;
use handback_tool::Refusal;
use handback_wire::depth::depth;
use serde_json::{Value, json};

use crate::reference::{Fault, ReferenceError};
use crate::replay::Again;
use crate::upstream::{Answer, LineError, PROGRAMS, Raw, SET_LEVEL};

/// Codes of JSON-RPC and of the protocol.
pub(crate) const INVALID_REQUEST: i32 = -32600;
pub(crate) const INVALID_PARAMS: i32 = -32602;
pub(crate) const METHOD_NOT_FOUND: i32 = -32601;
pub(crate) const INTERNAL_ERROR: i32 = -32603;

/// The message to a server whose request reaches nobody.
pub(crate) const NOT_ASKED: &str = "the client cannot be asked";

/// What is said of a message that readers differ about.
pub(crate) const TWICE: &str = "a member of the message is there twice";

/// How deep a message may be nested that is looked at for such members.
const DEPTH_MAX: usize = 1_024;

/// What is said of a message that may be read in several ways.
pub(crate) fn ambiguous(message: &[u8]) -> &'static str {
    match depth(message) > DEPTH_MAX {
        true => "the message is nested too deeply",
        false => TWICE,
    }
}

/// What is told of a result that is over the limit of results. It was stopped while it arrived.
const TOO_LARGE: &str = "the call was made, but its result is larger than this server takes, and \
     nothing of it is kept: ask for less of it, or have the limit `result_bytes` raised";

/// What is told of a call without a key whose effect is not known. Nobody gave a key that could be
/// another one.
const CUT_OFF: &str = "this call, or an identical one before it, was cut off: whether it had its effect is \
     not known, and it is not made again. To have it made all the same, call again a minute after that, or \
     with other arguments";

/// An error object, with its members in the order of the protocol, as rmcp has them: a client cannot tell by
/// the bytes of a refusal which part of the server refused.
pub(crate) fn error(code: i32, message: &str, data: Option<Value>) -> Bytes {
    let data = data.map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    format!(r#"{{"code":{code},"message":{}{data}}}"#, Value::from(message)).into()
}

/// An error object, as an answer.
pub(crate) fn refused(code: i32, message: &str, data: Option<Value>) -> Answer {
    Answer::Error(error(code, message, data))
}

/// What a second `initialize` gets: what was agreed in the first one holds until the session ends, at the
/// servers behind as well.
pub(crate) fn begun_before() -> Answer {
    refused(INVALID_REQUEST, "there was an `initialize` in this session", None)
}

/// A result, as an answer.
pub(crate) fn result(value: &Value) -> Answer {
    Answer::Result(Raw::Memory(value.to_string().into()))
}

/// A result of a tool that says why there is none.
pub(crate) fn tool_error(era: Era, message: &str, reason: &str) -> Answer {
    let mut told = json!({
        "content": [{"type": "text", "text": message}],
        "isError": true,
        "_meta": {REASON_META: reason},
    });
    if let (Era::Modern, Some(told)) = (era, told.as_object_mut()) {
        told.insert("resultType".to_owned(), "complete".into());
    }
    result(&told)
}

/// What a refused call of a tool gets: an error of the protocol where the protocol is at fault, else
/// a result that says why there is none.
pub(crate) fn refusal(era: Era, refusal: &Refusal) -> Answer {
    let (code, message, reason) = match refusal {
        Refusal::Continuation { outside, .. } => {
            let message = match outside {
                Outside::Expired => "expired request state",
                _ => "invalid request state",
            };
            (INVALID_PARAMS, message.to_owned(), outside.as_str())
        }
        Refusal::NotFound | Refusal::BadAnswers(_) => {
            (INVALID_PARAMS, refusal.to_string(), refusal.reason())
        }
        Refusal::Cancelled | Refusal::Unavailable => {
            (INTERNAL_ERROR, refusal.to_string(), refusal.reason())
        }
        Refusal::TooLarge => return tool_error(era, TOO_LARGE, refusal.reason()),
        other => return tool_error(era, &other.to_string(), other.reason()),
    };
    refused(code, &message, Some(json!({"reason": reason})))
}

/// Why a call was not made, and what its client can go by, if that is more than the refusal says.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) refusal: Refusal,
    outside: Option<&'static str>,
    /// Why the result of the call is not known, where that is known itself.
    cause: Option<String>,
}

impl Refused {
    /// The refusal with its cause, if the call was cut off.
    pub(crate) fn because(refusal: Refusal, cause: Option<String>) -> Self {
        let cause = cause.filter(|_| refusal == Refusal::Ambiguous);
        Self { cause, ..Self::from(refusal) }
    }

    /// What its client gets, of a call that may be taken for another try.
    pub(crate) fn told_of(&self, era: Era, again: Again) -> Answer {
        let of_identical = match (&self.refusal, again) {
            (Refusal::Ambiguous, Again::Identical) => CUT_OFF,
            (Refusal::InFlight, Again::Identical) => "an identical call is under way",
            _ => return self.told(era),
        };
        tool_error(era, &self.with_cause(of_identical), self.refusal.reason())
    }

    fn with_cause(&self, sentence: &str) -> String {
        let cause = self.cause.as_ref().map(|cause| format!("{cause}: "));
        cause.unwrap_or_default() + sentence
    }

    /// What its client gets.
    pub(crate) fn told(&self, era: Era) -> Answer {
        match self.outside {
            Some(reason) => tool_error(era, &self.refusal.to_string(), reason),
            None if self.cause.is_some() => {
                let sentence = self.with_cause(&self.refusal.to_string());
                tool_error(era, &sentence, self.refusal.reason())
            }
            None => refusal(era, &self.refusal),
        }
    }
}

impl From<Refusal> for Refused {
    fn from(refusal: Refusal) -> Self {
        Self { refusal, outside: None, cause: None }
    }
}

/// Of a handle the client learns one of three things. That the store does not answer is nobody's mistake.
impl From<ReferenceError> for Refused {
    fn from(error: ReferenceError) -> Self {
        if *error.fault() == Fault::Unavailable {
            return Refusal::Unavailable.into();
        }
        let outside = Some(error.outside());
        Self { outside, ..Self::from(Refusal::BadArguments(error.to_string())) }
    }
}

/// A question that an upstream did not answer, of anything but a tool.
pub(crate) fn unanswered(upstream: &str, why: &LineError) -> Answer {
    if let LineError::Mismatch(error) = why {
        return Answer::Error(error.clone());
    }
    let (message, reason) = unanswered_words(upstream, why);
    refused(INTERNAL_ERROR, &message, Some(json!({"reason": reason})))
}

/// Upstreams whose causes a refusal has at most, and the characters of each.
const AWAY_MAX: usize = 4;
const AWAY_CHARS_MAX: usize = 300;

/// The refusal of a name that only an upstream can have which is not there, in words and in one. None if
/// no upstream is away.
pub(crate) fn away(upstreams: &[(&str, LineError)]) -> Option<(String, &'static str)> {
    let ((first, why), others) = upstreams.split_first()?;
    let (sentence, reason) = unanswered_words(first, why);
    if others.is_empty() {
        return Some((sentence, reason));
    }
    let sentences = upstreams.iter().take(AWAY_MAX).map(|(upstream, why)| {
        let (sentence, _) = unanswered_words(upstream, why);
        match sentence.char_indices().nth(AWAY_CHARS_MAX) {
            Some((end, _)) => format!("{}…", sentence.get(..end).unwrap_or_default()),
            None => sentence,
        }
    });
    let sentences: Vec<_> = sentences.collect();
    let more = upstreams.len().saturating_sub(AWAY_MAX);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let list = sentences.join("; ");
    Some((
        format!("no server that is there has it, and others are not: {list}{more}"),
        "unreachable",
    ))
}

/// Why an upstream did not answer, in words and in one.
pub(crate) fn unanswered_words(upstream: &str, why: &LineError) -> (String, &'static str) {
    match why {
        LineError::Unreachable(cause) if cause.is_empty() => {
            (format!("the server `{upstream}` cannot be reached"), "unreachable")
        }
        LineError::Unreachable(cause) => {
            (format!("the server `{upstream}` cannot be reached: {cause}"), "unreachable")
        }
        LineError::Lost => (format!("the server `{upstream}` went away"), "lost"),
        LineError::Ended(cause) => (format!("the server `{upstream}` went away ({cause})"), "lost"),
        LineError::GivenUp => {
            ("the call was given up while it waited for an answer".to_owned(), "ambiguous")
        }
        LineError::TimedOut => (format!("the server `{upstream}` took too long"), "timed_out"),
        LineError::TooLarge => {
            (format!("the answer of the server `{upstream}` is too large"), "too_large")
        }
        LineError::Disk => {
            let why = "is large, and there is no room to set it aside";
            (format!("the answer of the server `{upstream}` {why}"), "no_room")
        }
        LineError::Refused(status) => (
            format!("the server `{upstream}` refused to be asked, with status {status}"),
            "refused",
        ),
        LineError::Mismatch(_) => {
            let why = "finds that the headers do not fit the message";
            (format!("the server `{upstream}` {why}"), "headers")
        }
        LineError::Encoding(name) => (
            format!(
                "the server `{upstream}` answered in the Content-Encoding `{name}`, which was not \
                 requested"
            ),
            "encoding",
        ),
        LineError::Headers => {
            let why = "wants in headers are too long for that";
            (format!("arguments that the server `{upstream}` {why}"), "headers_too_long")
        }
        LineError::OverQuota(part) => (part.sentence(PROGRAMS), part.reason()),
        LineError::Busy => (format!("the server `{upstream}` is busy"), "busy"),
        LineError::Era => {
            (format!("the server `{upstream}` speaks another revision of the protocol"), "era")
        }
        _ => (format!("the server `{upstream}` does not speak the protocol"), "protocol"),
    }
}

/// Whether a question changes or shows what belongs to a connection of the older era, and not to one
/// caller: how much is logged, which resources are watched, all tasks.
pub(crate) fn is_for_all(method: &str) -> bool {
    matches!(method, SET_LEVEL | "resources/subscribe" | "resources/unsubscribe")
        || method.starts_with("tasks/")
}

/// The refusal of such a request on a connection that callers share.
pub(crate) fn for_all_callers() -> Answer {
    let message = "the connection to this server is shared: this would be for all callers";
    refused(METHOD_NOT_FOUND, message, None)
}

/// True if an answer is [`for_all_callers`].
pub(crate) fn is_for_all_callers(answer: &Answer) -> bool {
    match (answer, for_all_callers()) {
        (Answer::Error(error), Answer::Error(refusal)) => *error == refusal,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use handback_token::Handle;

    use super::*;
    use crate::reference::{Call, Fetch, HandleRefusal, Rules, Source, resolve};

    /// Holds nothing, for one reason.
    struct Without(Fault);

    impl Fetch for Without {
        fn fetch(&mut self, _: Handle) -> Result<Source, Fault> {
            Err(self.0.clone())
        }
    }

    /// What a client is told whose argument names something that is not there for this reason.
    fn told(fault: Fault, era: Era) -> (bool, Value) {
        let call = Call { upstream: "up", tool: "t", rules: &Rules::default(), schema: None };
        let arguments = json!({"a": {"$held": Handle::from_bytes([1; 16]).to_string()}});
        let refused = resolve(&arguments.to_string(), &call, &mut Without(fault)).unwrap_err();
        let (is_error, json) = match Refused::from(refused).told(era) {
            Answer::Error(json) => (true, json),
            Answer::Result(raw) => (false, raw.in_memory().unwrap().clone()),
        };
        (is_error, serde_json::from_slice(&json).unwrap())
    }

    #[test]
    fn a_handle_has_one_sentence_and_one_word() {
        for (why, word) in [
            (HandleRefusal::Expired, "expired"),
            (HandleRefusal::Unknown, "invalid"),
            (HandleRefusal::Revoked, "invalid"),
            (HandleRefusal::Mistyped, "mistyped"),
        ] {
            for era in [Era::Legacy, Era::Modern] {
                let (is_error, told) = told(Fault::Handle(why), era);
                assert!(!is_error && told["isError"] == true, "{told}");
                assert_eq!(told["content"][0]["text"], why.sentence());
                assert_eq!(told["_meta"], json!({REASON_META: word}));
            }
        }
    }

    #[test]
    fn who_sent_no_key_is_told_of_no_key() {
        for refusal in [Refusal::Ambiguous, Refusal::InFlight] {
            let told = |again| {
                let refused = Refused::from(refusal.clone());
                let Answer::Result(raw) = refused.told_of(Era::Modern, again) else {
                    panic!("a result of a tool");
                };
                let told: Value = serde_json::from_slice(raw.in_memory().unwrap()).unwrap();
                assert_eq!(told["_meta"], json!({REASON_META: refusal.reason()}));
                told["content"][0]["text"].as_str().unwrap().to_owned()
            };
            assert!(told(Again::OtherKey).contains("this key"));
            let identical = told(Again::Identical);
            assert!(identical.contains("identical") && !identical.contains("key"), "{identical}");
        }
    }

    #[test]
    fn a_store_that_does_not_answer_is_no_mistake_of_the_caller() {
        let (is_error, told) = told(Fault::Unavailable, Era::Modern);
        assert!(is_error, "{told}");
        assert_eq!(
            (&told["code"], &told["data"]["reason"]),
            (&json!(INTERNAL_ERROR), &json!("unavailable"))
        );
    }
}
