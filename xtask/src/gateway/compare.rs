//! Two recordings, compared to the byte. What may differ is listed, with its reason; everything else
//! is a finding.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;

use super::recording::{Answer, Exchange, Recording};

/// One request of a plan.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Step {
    pub(crate) method: String,
    /// Why its answer is another one each time, if it is.
    #[serde(default)]
    pub(crate) varies: Option<String>,
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// How many things were the same.
    pub(crate) same: u64,
    /// What was not.
    pub(crate) findings: Vec<Finding>,
}

/// Something that differs and may not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) what: String,
    pub(crate) sides: [String; 2],
}

/// How an answer through the gateway may differ from a direct one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Not at all.
    Same,
    /// The gateway speaks for itself: capabilities, name and instructions are its own. The revision is
    /// the same.
    Handshake,
    /// The gateway's reading tools come after the upstream's, which are as they were.
    ToolsAdded,
}

/// The methods whose answers may differ. None of the servers pages, keeps request state or is asked
/// for tasks here, so that nothing wrapped occurs.
const RULES: [(&str, Rule); 2] =
    [("initialize", Rule::Handshake), ("tools/list", Rule::ToolsAdded)];

/// Members of the answer to `initialize` that are the gateway's own.
const OWN_MEMBERS: [&str; 4] = ["capabilities", "serverInfo", "instructions", "_meta"];

/// Members of a result that only the newer revision has, beside its type.
const CACHE_MEMBERS: [&str; 2] = ["ttlMs", "cacheScope"];

/// The tools that the gateway adds: what reads held results, and what makes others of them.
const OWN_TOOLS: [&str; 2] = ["mcp_aql_read", "mcp_aql_create"];

/// Requests that make the upstream do something: each goes there once, and its answer comes back as
/// it is. Lists are not among them, because a gateway may look for itself.
const RELAYED: [&str; 4] = ["tools/call", "prompts/get", "resources/read", "completion/complete"];

/// Compares two runs of a plan without a gateway: all is the same but what varies by itself.
pub(crate) fn direct(plan: &[Step], first: &Recording, second: &Recording) -> Verdict {
    runs(plan, first, second, |_| Rule::Same)
}

/// Compares a run through the gateway with a direct one, as the client saw them.
pub(crate) fn through(plan: &[Step], direct: &Recording, through: &Recording) -> Verdict {
    runs(plan, direct, through, |method| {
        let rule = RULES.iter().find(|(name, _)| *name == method);
        rule.map_or(Rule::Same, |(_, rule)| *rule)
    })
}

/// Compares both sides of the gateway in one run: what the server said is what the client got, also
/// where it is another each time, and nothing was done twice.
pub(crate) fn hop(front: &Recording, back: &Recording) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.check("how often the server was started", &front.starts, &back.starts);
    for (what, front, back) in verdict.relayed(front, back) {
        verdict.check(&what, &front.answer, &back.answer);
    }
    let asked = |recording: &Recording| sorted(&recording.asked_back);
    verdict.check("what the server asked, and was answered", &asked(front), &asked(back));
    verdict.check("what the server told", &told(front), &told(back));
    verdict
}

/// The same if the client speaks the newer revision and the server the older. What that obliges to is
/// all that differs: a result says that it is one and how long it holds, and what the server asks is
/// an answer, to which the client calls again. The process that was asked what it speaks goes on.
pub(crate) fn hop_to_older(front: &Recording, back: &Recording) -> Verdict {
    let mut verdict = Verdict::default();
    verdict.check("how often the server was started", &front.starts, &back.starts);
    let mut front = front.clone();
    front.asked.retain(|exchange| result_type(exchange).as_deref() != Some("input_required"));
    for (what, front, back) in verdict.relayed(&front, back) {
        let Some(mut members) = members(&front) else {
            verdict.check(&what, &front.answer, &back.answer);
            continue;
        };
        let kind = members.remove("resultType");
        verdict.check(&format!("{what}: its type"), &kind.as_deref(), &Some("\"complete\""));
        members.retain(|name, _| !CACHE_MEMBERS.contains(&name.as_str()));
        verdict.check(&what, &Some(members), &self::members(&back));
    }
    // What else a server tells, a client of that revision has to ask for.
    let progress = |recording: &Recording| {
        let mut told = told(recording);
        told.retain(|(method, _)| method == "notifications/progress");
        told
    };
    verdict.check("the progress that the server told", &progress(&front), &progress(back));
    verdict
}

fn runs(
    plan: &[Step],
    first: &Recording,
    second: &Recording,
    rule: impl Fn(&str) -> Rule,
) -> Verdict {
    let mut verdict = Verdict::default();
    let methods = |recording: &Recording| -> Vec<String> {
        recording.asked.iter().map(|exchange| exchange.method.clone()).collect()
    };
    verdict.check("what was asked", &methods(first), &methods(second));
    // Before the first step there is the handshake.
    let planned: Vec<&str> = plan.iter().map(|step| step.method.as_str()).collect();
    let asked = methods(second);
    let shaken = asked.len().saturating_sub(planned.len());
    verdict.check("the plan", &planned, &asked.iter().skip(shaken).map(String::as_str).collect());
    for (at, (first, second)) in first.asked.iter().zip(&second.asked).enumerate() {
        let what = format!("{} {}", first.method, first.params);
        verdict.check(&format!("{what}: its parameters"), &first.params, &second.params);
        let step = at.checked_sub(shaken).and_then(|at| plan.get(at));
        if step.is_some_and(|step| step.varies.is_some()) {
            continue;
        }
        match rule(&first.method) {
            Rule::Same => verdict.check(&what, &first.answer, &second.answer),
            Rule::Handshake => verdict.check(&what, &handshake(first), &handshake(second)),
            Rule::ToolsAdded => verdict.tools(&what, first, second),
        }
    }
    let asked = |recording: &Recording| sorted(&recording.asked_back);
    verdict.check("what the server asked, and was answered", &asked(first), &asked(second));
    verdict.check("what the server told", &sorted(&first.told), &sorted(&second.told));
    verdict
}

impl Verdict {
    fn check<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, first: &T, second: &T) {
        if first == second {
            self.same += 1;
        } else {
            let sides = [format!("{first:?}"), format!("{second:?}")];
            self.findings.push(Finding { what: what.to_owned(), sides });
        }
    }

    /// What was asked in front of the gateway and what was asked behind it, if it is the same; with
    /// words for it.
    fn relayed(
        &mut self,
        front: &Recording,
        back: &Recording,
    ) -> Vec<(String, Exchange, Exchange)> {
        let mut pairs = Vec::new();
        for method in RELAYED {
            let of = |recording: &Recording| -> Vec<Exchange> {
                let asked = recording.asked.iter().filter(|exchange| exchange.method == method);
                asked.cloned().collect()
            };
            let (front, back) = (of(front), of(back));
            self.check(&format!("the number of {method}"), &front.len(), &back.len());
            for (front, back) in front.into_iter().zip(back) {
                let what = format!("{method} {}", front.params);
                self.check(&format!("{what}: its parameters"), &plain(&front), &plain(&back));
                pairs.push((what, front, back));
            }
        }
        pairs
    }

    fn tools(&mut self, what: &str, first: &Exchange, second: &Exchange) {
        let (Some(first), Some(second)) = (list(first), list(second)) else {
            self.findings.push(Finding {
                what: format!("{what}: it is no list"),
                sides: [first, second].map(|exchange| format!("{:?}", exchange.answer)),
            });
            return;
        };
        self.check(&format!("{what}: what is beside the tools"), &first.rest, &second.rest);
        let (upstream, own) = second.tools.split_at(first.tools.len().min(second.tools.len()));
        self.check(&format!("{what}: the tools of the server"), &first.tools, &upstream.to_vec());
        let names: Vec<String> = own.iter().map(|tool| name(tool)).collect();
        let added: Vec<String> = OWN_TOOLS.map(str::to_owned).to_vec();
        self.check(&format!("{what}: the tools of the gateway"), &added, &names);
    }
}

/// A list of tools, each as it was written.
struct Tools {
    tools: Vec<String>,
    rest: BTreeMap<String, String>,
}

fn list(exchange: &Exchange) -> Option<Tools> {
    let mut rest = members(exchange)?;
    let tools = rest.remove("tools")?;
    let tools: Vec<&RawValue> = serde_json::from_str(&tools).ok()?;
    let tools = tools.into_iter().map(|tool| tool.get().to_owned()).collect();
    Some(Tools { tools, rest })
}

fn name(tool: &str) -> String {
    let tool: Value = serde_json::from_str(tool).unwrap_or_default();
    tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// What is left of the answer to `initialize` without what is the gateway's own.
fn handshake(exchange: &Exchange) -> Option<BTreeMap<String, String>> {
    let mut members = members(exchange)?;
    members.retain(|name, _| !OWN_MEMBERS.contains(&name.as_str()));
    Some(members)
}

/// The members of a result, each as it was written.
fn members(exchange: &Exchange) -> Option<BTreeMap<String, String>> {
    let Some(Answer::Result(result)) = &exchange.answer else { return None };
    let members: BTreeMap<String, &RawValue> = serde_json::from_str(result).ok()?;
    Some(members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect())
}

fn result_type(exchange: &Exchange) -> Option<String> {
    serde_json::from_str(members(exchange)?.get("resultType")?).ok()
}

/// Parameters without what each side of a gateway has of its own.
fn plain(exchange: &Exchange) -> Value {
    without(&exchange.params, &["_meta", "requestState", "inputResponses"])
}

/// What the server told, in whatever order: it goes its own way beside answers. The token of progress
/// is one of its side.
fn told(recording: &Recording) -> Vec<(String, String)> {
    let told = recording.told.iter().map(|note| {
        let params = match note.method.as_str() {
            "notifications/progress" => without(&note.params, &["progressToken"]).to_string(),
            _ => note.params.clone(),
        };
        (note.method.clone(), params)
    });
    sorted(&told.collect::<Vec<_>>())
}

/// JSON without some members of its object.
fn without(json: &str, names: &[&str]) -> Value {
    let mut value: Value = serde_json::from_str(json).unwrap_or_default();
    if let Some(members) = value.as_object_mut() {
        members.retain(|name, _| !names.contains(&name.as_str()));
    }
    value
}

fn sorted<T: Ord + Clone>(all: &[T]) -> Vec<T> {
    let mut all = all.to_vec();
    all.sort();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = r#"[{"method": "tools/list"}, {"method": "tools/call"}]"#;
    const VARIES: &str =
        r#"[{"method": "tools/list"}, {"method": "tools/call", "varies": "the time"}]"#;

    /// A run with these results.
    fn run(hello: &str, tools: &str, call: &str) -> Recording {
        Recording::parse(&format!(
            "7> {{\"id\":0,\"method\":\"initialize\"}}\n7< {{\"id\":0,\"result\":{hello}}}\n\
             7> {{\"id\":1,\"method\":\"tools/list\"}}\n7< {{\"id\":1,\"result\":{tools}}}\n\
             7> {{\"id\":2,\"method\":\"tools/call\",\"params\":{{\"name\":\"a\"}}}}\n\
             7< {{\"id\":2,\"result\":{call}}}\n"
        ))
        .unwrap()
    }

    const HELLO: &str = r#"{"protocolVersion":"1","serverInfo":{"name":"up"}}"#;
    const TOOLS: &str = r#"{"tools":[{"name":"a", "x":1.0}]}"#;
    const ADDED: &str =
        r#"{"tools":[{"name":"a", "x":1.0},{"name":"mcp_aql_read"},{"name":"mcp_aql_create"}]}"#;
    const CALL: &str = r#"{"content":[ ]}"#;

    fn plan(text: &str) -> Vec<Step> {
        serde_json::from_str(text).unwrap()
    }

    fn findings(verdict: &Verdict) -> Vec<&str> {
        verdict.findings.iter().map(|finding| finding.what.as_str()).collect()
    }

    #[test]
    fn a_direct_run_is_like_another() {
        let run = || run(HELLO, TOOLS, CALL);
        let verdict = direct(&plan(PLAN), &run(), &run());
        assert_eq!(findings(&verdict), [""; 0]);
        assert!(verdict.same > 6);
    }

    #[test]
    fn a_byte_makes_a_difference() {
        let other = run(HELLO, TOOLS, r#"{"content":[]}"#);
        let first = run(HELLO, TOOLS, CALL);
        for verdict in [direct(&plan(PLAN), &first, &other), hop(&first, &other)] {
            assert_eq!(findings(&verdict), [r#"tools/call {"name":"a"}"#]);
        }
        let through = through(&plan(PLAN), &first, &run(HELLO, ADDED, r#"{"content":[]}"#));
        assert_eq!(findings(&through), [r#"tools/call {"name":"a"}"#]);
        let varying = direct(&plan(VARIES), &first, &other);
        assert_eq!(findings(&varying), [""; 0]);
    }

    #[test]
    fn a_gateway_may_introduce_itself_and_add_its_tools() {
        let hello = r#"{"protocolVersion":"1","serverInfo":{"name":"us"},"capabilities":{}}"#;
        let first = run(HELLO, TOOLS, CALL);
        let verdict = through(&plan(PLAN), &first, &run(hello, ADDED, CALL));
        assert_eq!(findings(&verdict), [""; 0]);
        let other = r#"{"protocolVersion":"2","serverInfo":{}}"#;
        let verdict = through(&plan(PLAN), &first, &run(other, ADDED, CALL));
        assert_eq!(findings(&verdict), ["initialize "]);
    }

    #[test]
    fn it_may_not_touch_other_tools() {
        let check = |tools: &str, what: &str| {
            let (first, second) = (run(HELLO, TOOLS, CALL), run(HELLO, tools, CALL));
            let verdict = through(&plan(PLAN), &first, &second);
            assert_eq!(findings(&verdict), [format!("tools/list : {what}")]);
        };
        check(TOOLS, "the tools of the gateway");
        check(
            r#"{"tools":[{"name":"a","x":1.0},{"name":"mcp_aql_read"},{"name":"mcp_aql_create"}]}"#,
            "the tools of the server",
        );
        check(&ADDED.replace("]}", r#"],"nextCursor":"x"}"#), "what is beside the tools");
        check(&ADDED.replace("]}", r#",{"name":"b"}]}"#), "the tools of the gateway");
    }

    #[test]
    fn a_run_is_all_of_the_plan() {
        let run = || run(HELLO, TOOLS, CALL);
        let longer = r#"[{"method": "tools/list"}, {"method": "ping"}, {"method": "tools/call"}]"#;
        let verdict = direct(&plan(longer), &run(), &run());
        assert_eq!(findings(&verdict), ["the plan"]);
    }

    #[test]
    fn nothing_is_done_twice() {
        let front = run(HELLO, TOOLS, CALL);
        let mut back = run(HELLO, TOOLS, CALL);
        back.asked.push(back.asked.last().unwrap().clone());
        assert_eq!(findings(&hop(&front, &back)), ["the number of tools/call"]);
        let back = Recording { starts: 2, ..run(HELLO, TOOLS, CALL) };
        assert_eq!(findings(&hop(&front, &back)), ["how often the server was started"]);
    }

    #[test]
    fn a_newer_client_gets_the_same_with_a_type() {
        let back = run(HELLO, TOOLS, CALL);
        let check = |call: &str, expected: &[&str]| {
            let verdict = hop_to_older(&run(HELLO, TOOLS, call), &back);
            assert_eq!(findings(&verdict), expected);
        };
        check(r#"{"resultType":"complete","content":[ ]}"#, &[]);
        check(r#"{"content":[ ],"resultType":"complete","ttlMs":0}"#, &[]);
        check(r#"{"resultType":"complete","content":[]}"#, &[r#"tools/call {"name":"a"}"#]);
        check(CALL, &[r#"tools/call {"name":"a"}: its type"#]);
        check(r#"{"resultType":"input_required"}"#, &["the number of tools/call"]);
    }

    #[test]
    fn what_comes_unasked_is_compared_in_any_order() {
        let told = |notes: &[&str]| {
            let lines: Vec<String> =
                notes.iter().map(|note| format!("7< {{\"method\":\"{note}\"}}\n")).collect();
            Recording::parse(&lines.concat()).unwrap()
        };
        assert_eq!(findings(&hop(&told(&["a", "b"]), &told(&["b", "a"]))), [""; 0]);
        let lost = hop(&told(&["a", "b"]), &told(&["a"]));
        assert_eq!(findings(&lost), ["what the server told"]);
    }

    #[test]
    fn progress_has_a_token_of_its_side() {
        let progress = |token: u8, done: u8| {
            let params = format!("{{\"progressToken\":{token},\"progress\":{done}}}");
            let note =
                format!("7< {{\"method\":\"notifications/progress\",\"params\":{params}}}\n");
            Recording::parse(&note).unwrap()
        };
        assert_eq!(findings(&hop(&progress(1, 5), &progress(2, 5))), [""; 0]);
        assert_eq!(findings(&hop(&progress(1, 5), &progress(1, 6))), ["what the server told"]);
        let back = progress(1, 6);
        let older = hop_to_older(&progress(1, 5), &back);
        assert_eq!(findings(&older), ["the progress that the server told"]);
    }
}
