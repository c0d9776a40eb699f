//! The demo on the pipeline.

use std::time::Duration;

use handback_server::demo::{self, Endpoints};
use handback_token::{Operation, Reason};
use handback_tool::{Answer, Arguments, Content, Event, Refusal, Reply, Request, Surface};
use rusqlite::Connection;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, alice, bob, request, round};

fn page(answer: Answer) -> (Vec<Value>, Option<String>) {
    match answer.reply {
        Reply::Page { items, next } => (items, next),
        other => panic!("no page: {other:?}"),
    }
}

fn refused(reason: Reason) -> Refusal {
    Refusal::Continuation { outside: reason.outside(), reason }
}

#[tokio::test]
async fn orders_are_walked_in_pages_of_any_size() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let shop = Connection::open(data.path().join("demo/shop-1.db")).unwrap();
    let mut statement =
        shop.prepare("SELECT id FROM orders WHERE customer_id = 7 ORDER BY id DESC").unwrap();
    let expected: Vec<i64> =
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(expected.len() > 20, "{}", expected.len());
    let first = bench.call(alice(), "shop_orders", json!({"customer": 7, "page_size": 3})).await;
    let (mut met, mut next) = page(first.unwrap());
    let after_first = next.clone().unwrap();
    for size in [5, 1, 20, 100, 100] {
        let Some(cursor) = next else { break };
        let args = json!({"customer": 7, "page_size": size});
        let (items, cursor) =
            page(bench.page(alice(), "shop_orders", args, &cursor).await.unwrap());
        assert!(items.len() <= size);
        met.extend(items);
        next = cursor;
    }
    assert_eq!(next, None);
    assert_eq!(met.iter().map(|order| order["id"].as_i64().unwrap()).collect::<Vec<_>>(), expected);
    assert!(met.iter().all(|order| order["customer_id"] == 7 && order["product"].is_string()));

    for (who, args) in
        [(bob(), json!({"customer": 7})), (alice(), json!({"customer": 8})), (alice(), json!({}))]
    {
        let ended = bench.page(who, "shop_orders", args, &after_first).await;
        assert_eq!(ended.unwrap_err(), refused(Reason::NotOpened));
    }
    let unknown = bench.call(alice(), "shop_orders", json!({"customer": 1_000_000})).await.unwrap();
    assert!(matches!(unknown.reply, Reply::Failed { .. }));
    for bad in [json!({"page_size": 0}), json!({"page_size": 101}), json!({"colour": 1})] {
        let ended = bench.call(alice(), "shop_orders", bad).await;
        assert!(matches!(ended, Err(Refusal::BadArguments(_))), "{ended:?}");
    }
    let (all, next) = page(bench.call(alice(), "shop_orders", json!({})).await.unwrap());
    assert_eq!((all.len(), &all[0]["id"]), (20, &json!(demo::ORDERS)));
    assert!(next.is_some());
}

/// An order that can be refunded.
const ORDER: i64 = 17;

fn yes(reason: &str) -> Map<String, Value> {
    let content = json!({"confirm": true, "reason": reason});
    Map::from_iter([("refund".to_owned(), json!({"action": "accept", "content": content}))])
}

/// The question, and its state.
async fn asked(bench: &Bench, order: i64) -> String {
    let answer = bench.call(alice(), "shop_refund", json!({"order": order})).await.unwrap();
    let Reply::NeedsInput { inputs, state } = answer.reply else { panic!("{answer:?}") };
    assert_eq!(inputs.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["refund"]);
    state
}

fn refunds(data: &tempfile::TempDir) -> i64 {
    let db = Connection::open(data.path().join("demo/refunds-1.db")).unwrap();
    db.query_row("SELECT count(*) FROM refunds", [], |row| row.get(0)).unwrap()
}

fn done(answer: Answer) -> Value {
    match answer.reply {
        Reply::Done(Content::Value(value) | Content::Result(value)) => value,
        other => panic!("not done: {other:?}"),
    }
}

#[tokio::test]
async fn an_order_is_refunded_once() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let args = json!({"order": ORDER});
    let (state, other) = (asked(&bench, ORDER).await, asked(&bench, ORDER).await);
    let answer = |who, args: &Value, state: &str, answers| {
        bench.pipeline.call(round(who, "shop_refund", args.clone(), state, answers))
    };
    // Nobody else's, and of no other order.
    let ended = answer(bob(), &args, &state, yes("broken")).await;
    assert_eq!(ended.unwrap_err(), refused(Reason::NotOpened));
    let ended = answer(alice(), &json!({"order": ORDER + 1}), &state, yes("broken")).await;
    assert_eq!(ended.unwrap_err(), refused(Reason::NotOpened));
    let ended = answer(alice(), &args, &state, yes(&"x".repeat(201))).await;
    assert!(matches!(ended, Err(Refusal::BadAnswers(_))), "{ended:?}");
    assert_eq!(refunds(&data), 0);

    let (one, two) = tokio::join!(
        answer(alice(), &args, &state, yes("broken")),
        answer(alice(), &args, &state, yes("broken")),
    );
    let one = done(one.unwrap());
    assert_eq!((&one["refunded"], &one["order"]), (&json!(true), &json!(ORDER)));
    assert_eq!(done(two.unwrap()), one);
    let again = answer(alice(), &args, &state, yes("broken")).await.unwrap();
    assert!(again.is_replay);
    assert_eq!(done(again), one);
    let ended = answer(alice(), &args, &state, yes("other")).await;
    assert_eq!(ended.unwrap_err(), refused(Reason::Replayed));
    // A second exchange about the same order was asked before it was refunded.
    let late = answer(alice(), &args, &other, yes("broken")).await.unwrap();
    assert!(matches!(late.reply, Reply::Failed { .. }), "{late:?}");
    let ended = bench.call(alice(), "shop_refund", args).await.unwrap();
    assert!(matches!(ended.reply, Reply::Failed { .. }), "{ended:?}");
    assert_eq!(refunds(&data), 1);
}

#[tokio::test]
async fn a_keyed_refund_asks_the_same_question_and_acts_once() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let args = json!({"order": ORDER});
    let ask = || bench.pipeline.call(request(alice(), "shop_refund", args.clone()).key("r-17"));
    let mut states = Vec::new();
    for _ in 0..2 {
        let answer = ask().await.unwrap();
        let Reply::NeedsInput { state, .. } = answer.reply else { panic!("{answer:?}") };
        states.push(state);
    }
    let mut made = Vec::new();
    for state in &states {
        let answered = round(alice(), "shop_refund", args.clone(), state, yes("late")).key("r-17");
        made.push(done(bench.pipeline.call(answered).await.unwrap()));
    }
    assert_eq!(made[0], made[1]);
    assert_eq!(refunds(&data), 1);
}

#[tokio::test]
async fn who_says_no_keeps_the_order() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let args = json!({"order": ORDER});
    for no in [
        json!({"action": "decline"}),
        json!({"action": "accept", "content": {"confirm": false, "reason": ""}}),
    ] {
        let state = asked(&bench, ORDER).await;
        let answers = Map::from_iter([("refund".to_owned(), no)]);
        let answer = round(alice(), "shop_refund", args.clone(), &state, answers);
        let answer = done(bench.pipeline.call(answer).await.unwrap());
        assert_eq!(answer, json!({"refunded": false, "order": ORDER}));
    }
    assert_eq!(refunds(&data), 0);
    let unknown = bench.call(alice(), "shop_refund", json!({"order": -1})).await.unwrap();
    assert!(matches!(unknown.reply, Reply::Failed { .. }));
}

fn report(pause_ms: u32, events: mpsc::Sender<Event>) -> Request {
    request(alice(), "shop_report", json!({"pause_ms": pause_ms})).events(events)
}

#[tokio::test]
async fn a_report_tells_how_far_it_is() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let (events, mut told) = mpsc::channel(64);
    let report = done(bench.pipeline.call(report(1, events)).await.unwrap());
    let (mut parts, mut last) = (Vec::new(), 0.0);
    while let Some(event) = told.recv().await {
        match event {
            Event::Part(part) => parts.push(part),
            Event::Progress { done, total, .. } => {
                assert!(done > last && total == Some(10.0));
                last = done;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((json!(parts), last), (report["categories"].clone(), 10.0));
    let shop = Connection::open(data.path().join("demo/shop-1.db")).unwrap();
    let sum: i64 = shop
        .query_row("SELECT sum(total_cents) FROM orders WHERE status <> 'cancelled'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(report["total_cents"], sum);
}

#[tokio::test]
async fn a_report_that_nobody_wants_ends() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let (events, mut told) = mpsc::channel(64);
    let cancel = CancellationToken::new();
    let call = bench.pipeline.call(report(400, events).cancel(cancel.clone()));
    let (ended, count) = tokio::join!(call, async {
        let mut count = usize::from(told.recv().await.is_some());
        cancel.cancel();
        // Its work was dropped with all that it holds.
        while tokio::time::timeout(Duration::from_secs(2), told.recv()).await.unwrap().is_some() {
            count += 1;
        }
        count
    });
    assert_eq!(ended.unwrap_err(), Refusal::Cancelled);
    assert!(count < 4, "{count} events");
}

#[tokio::test]
async fn there_is_a_prompt_and_a_resource() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let ask = |operation, name: &str, args: Value| {
        let args = Arguments::Given(args);
        bench.pipeline.call(Request::new(alice(), Surface::Library, operation, name, args))
    };
    let prompt = ask(Operation::Prompt, "shop_letter", json!({"customer": "7"})).await;
    let prompt = done(prompt.unwrap());
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("customer 7,"), "{text}");
    let schema = done(ask(Operation::Read, "shop://schema", json!({})).await.unwrap());
    assert!(schema["contents"][0]["text"].as_str().unwrap().contains("CREATE TABLE orders"));
    let unknown = ask(Operation::Prompt, "shop_letter", json!({"customer": "x"})).await.unwrap();
    assert!(matches!(unknown.reply, Reply::Failed { .. }));
}

#[tokio::test]
async fn the_shop_can_be_queried_and_its_examples_work() {
    let data = tempfile::tempdir().unwrap();
    let bench = Bench::demo(data.path());
    let intro = demo::intro(&Endpoints {
        http: "http://127.0.0.1:1".to_owned(),
        socket: None,
        program: "handback".to_owned(),
        identity: "none",
    });
    let arguments = |tool: &str| {
        let line = intro.lines().find(|line| line.contains(&format!("call {tool} "))).unwrap();
        let arguments = line.split('\'').find(|part| part.starts_with('{')).unwrap();
        serde_json::from_str::<Value>(arguments).unwrap()
    };
    let answer = bench.ask(alice(), arguments("mcp_aql_read")).await;
    assert_eq!(answer["data"]["items"].as_array().unwrap().len(), 3, "{answer}");
    assert!(answer["data"]["items"][0]["status"] == "paid", "{answer}");
    let orders = bench.call(alice(), "shop_orders", arguments("shop_orders")).await;
    assert!(page(orders.unwrap()).1.is_some());
    let answer = bench.call(alice(), "shop_refund", arguments("shop_refund")).await.unwrap();
    assert!(matches!(answer.reply, Reply::NeedsInput { .. }), "{answer:?}");
    let count = bench.list(alice(), "orders", json!({"first": 1, "include_total": true})).await;
    assert_eq!(count["pageInfo"]["totalCount"], demo::ORDERS);
    let found = json!({"operation": "count_elements", "element_type": "customers"});
    assert_eq!(bench.ask(alice(), found).await["data"]["count"], demo::CUSTOMERS);
    let walk = bench.list(alice(), "orders", json!({"first": 2, "sort": {"field": "placed_at"}}));
    let walk = walk.await;
    assert_eq!(walk["items"][0]["id"], 1);
}
