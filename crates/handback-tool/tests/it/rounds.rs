use std::time::Duration;

use handback_token::Reason;
use handback_tool::{Content, Continuation, Refusal, Reply, Request, Surface};
use serde_json::{Value, json};

use crate::bench::{Bench, alice, asked, bob, carried, nobody, round};

fn refused(reason: Reason) -> Refusal {
    Refusal::Continuation { outside: reason.outside(), reason }
}

fn yes() -> Value {
    json!({"action": "accept", "content": {"confirm": true}})
}

fn card() -> Value {
    json!({"action": "accept", "content": {"card": "4711"}})
}

fn paid(amount: u32, number: u32) -> Reply {
    Reply::Done(Content::Value(json!({"paid": amount, "number": number})))
}

#[tokio::test]
async fn an_exchange_asks_and_acts() {
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let (names, state) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    assert_eq!(names, ["means", "sure"]);
    let answers = json!({"sure": yes(), "means": card(), "other": {"action": "accept"}});
    let answer = bench.answer(alice(), "pay", args, &state, answers).await.unwrap();
    assert_eq!(answer.reply, paid(7, 1));
    assert!(!answer.is_replay);
    assert!(bench.effects.keys.lock().unwrap()[0].is_some(), "what is done once has a key");
}

#[tokio::test]
async fn state_is_of_one_caller_one_tool_and_one_call() {
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let (_, state) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    let answers = json!({"sure": yes(), "means": card()});
    for (caller, name, args) in [
        (bob(), "pay", args.clone()),
        (nobody(), "pay", args.clone()),
        (alice(), "pay_late", args.clone()),
        (alice(), "pay", json!({"amount": 8})),
        (alice(), "pay", json!({"amount": 7, "twice": false})),
    ] {
        let refusal = bench.answer(caller, name, args, &state, answers.clone()).await.unwrap_err();
        assert_eq!(refusal, refused(Reason::NotOpened));
    }
    assert_eq!(bench.effects.count(), 0);
    // And whoever was refused has not used it up.
    let answer = bench.answer(alice(), "pay", args, &state, answers).await.unwrap();
    assert_eq!(answer.reply, paid(7, 1));
}

#[tokio::test]
async fn what_is_answered_once_is_acted_on_once() {
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let (_, state) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    let answers = json!({"sure": yes(), "means": card()});
    let answer =
        |answers: &Value| bench.answer(alice(), "pay", args.clone(), &state, answers.clone());
    assert_eq!(answer(&answers).await.unwrap().reply, paid(7, 1));
    let again = answer(&answers).await.unwrap();
    assert_eq!((again.reply, again.is_replay), (paid(7, 1), true));
    let other = json!({"sure": {"action": "decline"}, "means": card()});
    assert_eq!(answer(&other).await.unwrap_err(), refused(Reason::Replayed));
    assert_eq!(bench.effects.count(), 1);
}

#[tokio::test]
async fn a_replayed_question_is_the_same_round() {
    let bench = Bench::new();
    let args = json!({"amount": 7, "twice": true});
    let (_, first) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    let answers = json!({"sure": yes(), "means": card()});
    let ask = async || {
        let answer = bench.answer(alice(), "pay", args.clone(), &first, answers.clone()).await;
        asked(answer.unwrap()).1
    };
    let (second, second_again) = (ask().await, ask().await);
    let really = json!({"really": yes()});
    let answer = bench.answer(alice(), "pay", args.clone(), &second, really.clone()).await;
    assert_eq!(answer.unwrap().reply, paid(7, 1));
    // Two texts, one round: it is redeemed already.
    let answer = bench.answer(alice(), "pay", args, &second_again, really).await.unwrap();
    assert_eq!((answer.reply, answer.is_replay), (paid(7, 1), true));
    assert_eq!(bench.effects.count(), 1);
}

#[tokio::test]
async fn a_question_that_is_replayed_for_a_day_is_answered_once() {
    const MINUTE: Duration = Duration::from_secs(60);
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let answers = json!({"sure": yes(), "means": card()});
    let ask = async || {
        let request = Request::call(alice(), Surface::Library, "pay", args.clone()).key("k");
        let answer = bench.pipeline.call(request).await.unwrap();
        let is_replay = answer.is_replay;
        (asked(answer).1, is_replay)
    };
    let (first, _) = ask().await;
    let answer = bench.answer(alice(), "pay", args.clone(), &first, answers.clone()).await;
    assert_eq!(answer.unwrap().reply, paid(7, 1));
    // The question is still there, and its state begins to live anew.
    bench.pass(Duration::from_secs(24 * 3600) - MINUTE);
    let (last, is_replay) = ask().await;
    assert!(is_replay);
    bench.pass(2 * MINUTE);
    let again = bench.answer(alice(), "pay", args.clone(), &last, answers.clone()).await.unwrap();
    assert_eq!((again.reply, again.is_replay), (paid(7, 1), true));
    let other = json!({"sure": {"action": "decline"}, "means": card()});
    let other = bench.answer(alice(), "pay", args.clone(), &last, other).await;
    assert_eq!(other.unwrap_err(), refused(Reason::Replayed));
    assert_eq!(bench.effects.count(), 1);
    // From now on it is another question.
    assert!(!ask().await.1);
}

#[tokio::test]
async fn what_is_not_answered_is_asked_again_and_uses_the_state_up() {
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let (_, first) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    let answer = async |state: &str, answers: Value| {
        bench.answer(alice(), "pay", args.clone(), state, answers).await
    };
    let (names, second) = asked(answer(&first, json!({"means": card()})).await.unwrap());
    assert_eq!(names, ["sure"]);
    assert_eq!(answer(&second, json!({"sure": yes()})).await.unwrap().reply, paid(7, 1));
    let all = json!({"sure": yes(), "means": card()});
    assert_eq!(answer(&first, all).await.unwrap_err(), refused(Reason::Replayed));
    assert_eq!(bench.effects.count(), 1);
}

#[tokio::test]
async fn answers_are_checked_against_what_was_asked() {
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let (_, state) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    for bad in [
        json!(true),
        json!({}),
        json!({"action": "maybe"}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": {"confirm": "yes"}}),
        json!({"action": "accept", "content": {}}),
    ] {
        let answers = json!({"sure": bad.clone(), "means": card()});
        let ended = bench.answer(alice(), "pay", args.clone(), &state, answers).await;
        assert!(matches!(ended, Err(Refusal::BadAnswers(_))), "{bad}: {ended:?}");
    }
    // None of them used it up.
    let answers = json!({"sure": yes(), "means": card()});
    let answer = bench.answer(alice(), "pay", args, &state, answers).await.unwrap();
    assert_eq!(answer.reply, paid(7, 1));
}

#[tokio::test]
async fn a_late_answer_is_refused_or_told() {
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let (_, strict) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    let (_, lenient) = asked(bench.call(alice(), "pay_late", args.clone()).await.unwrap());
    bench.pass(Duration::from_secs(7 * 60));
    let answers = json!({"sure": yes(), "means": card()});
    let late = bench.answer(alice(), "pay", args.clone(), &strict, answers.clone()).await;
    assert_eq!(late.unwrap_err(), refused(Reason::Expired));
    let late = bench.answer(alice(), "pay_late", args.clone(), &lenient, answers.clone()).await;
    assert_eq!(late.unwrap().reply, Reply::Done(Content::Value(json!("too late"))));
    // Somebody else's is refused in any case.
    let late = bench.answer(bob(), "pay_late", args, &lenient, answers).await;
    assert_eq!(late.unwrap_err(), refused(Reason::NotOpened));
    assert_eq!(bench.effects.count(), 0);
}

#[tokio::test]
async fn both_of_two_at_once_get_the_one_answer() {
    let bench = Bench::new();
    let args = json!({"amount": 7});
    let (_, state) = asked(bench.call(alice(), "pay", args.clone()).await.unwrap());
    let Value::Object(answers) = json!({"sure": yes(), "means": card()}) else { unreachable!() };
    let request = || round(alice(), "pay", args.clone(), &state, answers.clone());
    // With a key as well, or without: what was redeemed decides.
    let (one, two, three) = tokio::join!(
        bench.pipeline.call(request()),
        bench.pipeline.call(request().key("k")),
        bench.pipeline.call(request()),
    );
    for answer in [one, two, three] {
        assert_eq!(answer.unwrap().reply, paid(7, 1));
    }
    assert_eq!(bench.effects.count(), 1);
}

#[tokio::test]
async fn what_may_be_answered_up_front_is_checked_like_an_answer() {
    let bench = Bench::new();
    let answer = async |name: &str, answers: Value| {
        let answers =
            Continuation::State { state: None, answers: answers.as_object().unwrap().clone() };
        bench.pipeline.call(carried(alice(), name, json!({})).continuation(answers)).await
    };
    let bought = answer("buy", json!({"means": card(), "other": 1})).await.unwrap();
    assert_eq!(bought.reply, Reply::Done(Content::Value("bought".into())));
    for bad in [json!(7), json!({"action": "accept", "content": {"card": 7}})] {
        let refusal = answer("buy", json!({"means": bad})).await.unwrap_err();
        assert!(matches!(refusal, Refusal::BadAnswers(_)), "{refusal:?}");
    }
    // Others are asked: what is answered once has to have been asked.
    for (name, answers) in
        [("buy", json!({"other": card()})), ("buy_once", json!({"means": card()}))]
    {
        let (names, _) = asked(answer(name, answers).await.unwrap());
        assert_eq!(names, ["means"]);
    }
}
