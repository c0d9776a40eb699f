//! The answers, from records in memory: plain loops, and nothing of Handback. This is what a reader
//! works out who has the records in front of him, and what the answers in `questions.json` are
//! checked against.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::data::digest;
use crate::data::handbook::{ANIMALS, NEW_NOTICE, NOTICE};
use crate::data::issues::{Issue, PAID_DOUBLE};
use crate::data::orders::Order;
use crate::data::results::{Article, PRICE};
use crate::known::Known;

/// The answer to a question, by its id; null where nothing in the records gives one.
pub(crate) fn answer(question: &str, known: &Known) -> Value {
    match known {
        Known::Issues(issues) => of_issues(question, issues),
        Known::Orders(orders) => of_orders(question, orders),
        Known::Lines(lines) if question.starts_with("log") => of_log(question, lines),
        Known::Lines(lines) => of_handbook(question, lines),
        Known::Config(config) => of_config(question, config),
        Known::Results(articles) => of_results(question, articles),
    }
}

/// The document as the question wants it, for questions that write.
pub(crate) fn edited(question: &str, known: &Known) -> Option<Value> {
    match (question, known) {
        ("config-edit", Known::Config(config)) => {
            let mut config = config.clone();
            *config.pointer_mut(CHANGED)? = json!(12);
            Some(config)
        }
        ("handbook-edit", Known::Lines(lines)) => {
            let mut text = lines.join("\n").replace(NOTICE, NEW_NOTICE);
            text.push('\n');
            Some(text.into())
        }
        _ => None,
    }
}

/// What tells one document from another: of JSON, the members in order of their names.
pub(crate) fn document_digest(document: &Value) -> String {
    match document {
        Value::String(text) => digest(text),
        other => digest(&other.to_string()),
    }
}

/// The value that `config-edit` changes.
const CHANGED: &str = "/environments/production/regions/eu-west-1/services/checkout-api/replicas";

fn of_issues(question: &str, issues: &[Issue]) -> Value {
    let open = || issues.iter().filter(|issue| issue.state == "open");
    match question {
        "issues-first" => {
            let newest = issues.iter().max_by_key(|issue| issue.number);
            json!(newest.map(|issue| &issue.title))
        }
        "issues-one" => {
            let one = issues.iter().find(|issue| issue.number == 18_204);
            json!(one.and_then(|issue| issue.assignee.as_ref()).map(|user| &user.login))
        }
        "issues-count" => {
            json!(open().filter(|issue| issue.labels.iter().any(|l| l == "regression")).count())
        }
        "issues-top" => {
            let mut best: Vec<_> = open().collect();
            best.sort_by_key(|issue| Reverse((issue.comments, issue.number)));
            best.truncate(10);
            best.iter().map(|issue| issue.number).collect()
        }
        "issues-stale" => {
            json!(open().filter(|issue| issue.updated_at.as_str() < "2025-12-01").count())
        }
        "issues-code" => first(issues, |issue| issue.body.contains("E-7731"), |i| json!(i.number)),
        "issues-fuzzy" => {
            first(issues, |issue| issue.body.contains(PAID_DOUBLE), |i| json!(i.number))
        }
        "issues-groups" => counts(open().filter_map(|issue| Some(&issue.assignee.as_ref()?.login))),
        _ => Value::Null,
    }
}

fn of_orders(question: &str, orders: &[Order]) -> Value {
    match question {
        "orders-one" => first(orders, |order| order.id == "ORD-104233", |o| json!(o.status)),
        "orders-count" => {
            let is_one = |o: &&Order| o.status == "refunded" && o.customer.country == "DE";
            json!(orders.iter().filter(is_one).count())
        }
        "orders-top" => {
            let mut best: Vec<_> = orders.iter().collect();
            best.sort_by_key(|order| Reverse((order.total_cents, &order.id)));
            best.truncate(10);
            best.iter().map(|order| order.id.as_str()).collect()
        }
        "orders-part" => {
            let has = |order: &&Order| order.lines.iter().any(|line| line.sku == SKU);
            json!(orders.iter().filter(has).count())
        }
        "orders-latest" => {
            let theirs = orders.iter().filter(|order| order.customer.id == "C10511");
            theirs.max_by_key(|order| &order.created_at).map_or(Value::Null, |o| json!(o.id))
        }
        "orders-sum" => {
            let june = orders.iter().filter(|o| o.created_at.starts_with("2026-06"));
            let refunded = june.filter(|order| order.status == "refunded");
            json!(refunded.map(|order| order.total_cents).sum::<u64>())
        }
        "orders-median" => {
            let mut totals: Vec<_> = orders.iter().map(|order| order.total_cents).collect();
            totals.sort_unstable();
            json!(totals.get(totals.len().saturating_sub(1) / 2))
        }
        "orders-groups" => {
            let mut sums = BTreeMap::<&str, u64>::new();
            for order in orders {
                *sums.entry(&order.customer.country).or_default() += order.total_cents;
            }
            json!(sums)
        }
        "orders-most" => {
            let mut counts = BTreeMap::<&str, u64>::new();
            for order in orders {
                *counts.entry(&order.customer.id).or_default() += 1;
            }
            let most = counts.iter().max_by_key(|&(id, count)| (count, Reverse(id)));
            json!(most.map(|(id, _)| id))
        }
        _ => Value::Null,
    }
}

/// The part that `orders-part` asks for.
const SKU: &str = "KE-036";

fn of_log(question: &str, lines: &[String]) -> Value {
    let level = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
    match question {
        "log-first" => json!(lines.first().and_then(|line| line.split_whitespace().next())),
        "log-count" => json!(lines.iter().filter(|line| level(line) == "ERROR").count()),
        "log-before" => {
            let at = lines.iter().position(|line| line.contains("panicked"));
            json!(at.and_then(|at| lines.get(at.saturating_sub(3)..at)))
        }
        "log-trace" => {
            let traced = lines.iter().filter(|line| line.contains("req=c0ffee5a"));
            traced.filter_map(|line| line.split_whitespace().nth(2)).collect()
        }
        "log-hour" => {
            let mut hours = BTreeMap::<&str, u64>::new();
            for line in lines.iter().filter(|line| level(line) == "WARN") {
                *hours.entry(line.get(11..13).unwrap_or_default()).or_default() += 1;
            }
            json!(hours.iter().max_by_key(|(_, count)| **count).map(|(hour, _)| hour))
        }
        _ => Value::Null,
    }
}

fn of_config(question: &str, config: &Value) -> Value {
    let services = |place: &str| {
        let services = config.pointer(&format!("/environments/{place}/services"));
        services.and_then(Value::as_object).cloned().unwrap_or_default()
    };
    match question {
        "config-one" => {
            let services = services("production/regions/eu-west-1");
            let value = services.get("payments-api");
            json!(value.and_then(|service| service.pointer("/probes/readiness/timeoutSeconds")))
        }
        "config-many" => {
            let services = services("production/regions/us-east-1");
            let many = services.iter().filter(|(_, one)| one["replicas"].as_u64() > Some(8));
            many.map(|(name, _)| name.as_str()).collect()
        }
        "config-flags" => {
            let flags = config["flags"].as_array().map(Vec::as_slice).unwrap_or_default();
            let full = flags.iter().filter(|flag| flag["owner"] == "growth");
            let full = full.filter(|flag| flag["percent"].as_u64() >= Some(90));
            full.map(|flag| flag["name"].clone()).collect()
        }
        "config-compare" => {
            let (here, there) =
                (services("production/regions/eu-west-1"), services("staging/regions/eu-west-1"));
            let tag = |service: &Value| service.pointer("/image/tag").cloned();
            let differ = here
                .iter()
                .filter(|(name, one)| there.get(*name).is_some_and(|other| tag(other) != tag(one)));
            differ.map(|(name, _)| name.as_str()).collect()
        }
        "config-edit" => edited(question, &Known::Config(config.clone()))
            .map_or(Value::Null, |document| document_digest(&document).into()),
        _ => Value::Null,
    }
}

fn of_results(question: &str, articles: &[Article]) -> Value {
    match question {
        "results-first" => {
            json!(articles.iter().max_by_key(|article| article.score).map(|article| &article.title))
        }
        "results-one" => first(articles, |a| a.body.contains("Marlowe cascade"), |a| json!(a.url)),
        "results-list" => {
            let mut recent: Vec<_> =
                articles.iter().filter(|a| a.published.starts_with("2026")).collect();
            recent.sort_by_key(|article| Reverse(&article.published));
            recent.iter().map(|article| article.title.as_str()).collect()
        }
        "results-quote" => {
            let find = |a: &Article| a.body.find(PRICE).map(|_| PRICE);
            json!(articles.iter().find_map(find))
        }
        "results-all" => {
            let words = articles.iter().map(|a| a.body.split_whitespace().count());
            json!(words.sum::<usize>())
        }
        _ => Value::Null,
    }
}

fn of_handbook(question: &str, lines: &[String]) -> Value {
    match question {
        "handbook-one" => {
            let days = NOTICE.split_whitespace().find_map(|word| word.parse::<u64>().ok());
            if lines.iter().any(|line| line.contains(NOTICE)) { json!(days) } else { Value::Null }
        }
        "handbook-outline" => {
            let headings = lines.iter().filter_map(|line| line.strip_prefix("## "));
            headings.collect()
        }
        "handbook-fuzzy" => {
            let at = lines.iter().position(|line| line.contains(ANIMALS)).unwrap_or_default();
            let before = lines.get(..at).unwrap_or_default();
            let heading = before.iter().rev().find_map(|line| line.strip_prefix("### "));
            json!(heading.and_then(|heading| heading.split_whitespace().next()))
        }
        "handbook-edit" => edited(question, &Known::Lines(lines.to_vec()))
            .map_or(Value::Null, |document| document_digest(&document).into()),
        _ => Value::Null,
    }
}

fn first<T>(all: &[T], is_it: impl Fn(&T) -> bool, tell: impl Fn(&T) -> Value) -> Value {
    all.iter().find(|one| is_it(one)).map_or(Value::Null, tell)
}

fn counts<'a>(names: impl Iterator<Item = &'a String>) -> Value {
    let mut counts = BTreeMap::<&str, u64>::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    json!(counts)
}
