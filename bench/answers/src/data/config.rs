//! A deployment's configuration: one deeply nested document, printed with indents.

use serde_json::{Map, Value, json};

use crate::random::Random;

/// What the tool gives: about 0.5 MB.
pub(crate) fn text() -> String {
    serde_json::to_string_pretty(&all()).unwrap_or_default()
}

/// All of it.
pub(crate) fn all() -> Value {
    let mut random = Random::new(0xc0f6);
    let environments = ENVIRONMENTS.iter().map(|&name| {
        let regions = REGIONS.iter().map(|&region| (region.to_owned(), self::region(&mut random)));
        (name.to_owned(), json!({"regions": regions.collect::<Map<_, _>>()}))
    });
    let environments: Map<_, _> = environments.collect();
    json!({
        "schemaVersion": "3.2",
        "defaults": {
            "logLevel": "info",
            "probes": {"readiness": {"path": "/ready", "timeoutSeconds": 3, "periodSeconds": 10}},
            "resources": {"cpu": "250m", "memory": "256Mi"},
        },
        "environments": environments,
        "flags": flags(&mut random),
    })
}

fn region(random: &mut Random) -> Value {
    let services = SERVICES.iter().map(|&name| (name.to_owned(), service(name, random)));
    let services: Map<_, _> = services.collect();
    json!({
        "network": {"cidr": format!("10.{}.0.0/16", random.below(250)), "zones": ["a", "b", "c"]},
        "services": services,
    })
}

fn service(name: &str, random: &mut Random) -> Value {
    // Most places have the same version of a service.
    let mut version = Random::new(name.bytes().map(u64::from).sum());
    let patch = if random.chance(15) { random.between(10, 19) } else { version.low(9) };
    let tag = format!("{}.{}.{patch}", version.between(1, 4), version.low(12));
    let env = ENV.iter().map(|&name| (name.to_owned(), json!(setting(name, random))));
    let env: Map<_, _> = env.collect();
    json!({
        "image": {"repository": format!("registry.example/shop/{name}"), "tag": tag},
        "replicas": random.between(1, 11),
        "owner": random.pick(TEAMS),
        "ports": [{"name": "http", "port": 8080}, {"name": "metrics", "port": 9090}],
        "env": env,
        "probes": {
            "readiness": {
                "path": "/ready",
                "timeoutSeconds": random.between(1, 9),
                "periodSeconds": random.between(5, 30),
            },
            "liveness": {"path": "/alive", "timeoutSeconds": random.between(1, 9)},
        },
        "resources": {
            "requests": {"cpu": format!("{}m", 50 * random.between(1, 20)), "memory": "256Mi"},
            "limits": {"cpu": "2", "memory": format!("{}Mi", 256 * random.between(1, 8))},
        },
        "alerts": [
            {"name": format!("{name}-errors"), "above": random.between(1, 20), "minutes": 5},
            {"name": format!("{name}-latency"), "above": random.between(100, 900), "minutes": 10},
        ],
    })
}

fn setting(name: &str, random: &mut Random) -> String {
    match name {
        "LOG_LEVEL" => random.pick(&["debug", "info", "warn"]).to_owned(),
        "DATABASE_URL" => format!("postgres://db-{}.internal:5432/shop", random.between(1, 9)),
        _ => random.between(1, 5000).to_string(),
    }
}

fn flags(random: &mut Random) -> Vec<Value> {
    let flag = |number: u64| {
        json!({
            "name": format!("flag-{number:03}"),
            "owner": random.pick(TEAMS),
            "percent": random.below(101),
            "expires": format!("2026-{:02}-{:02}", random.between(1, 12), random.between(1, 28)),
        })
    };
    (1..=240).map(flag).collect()
}

const ENVIRONMENTS: &[&str] = &["production", "staging", "development"];
const REGIONS: &[&str] = &["eu-west-1", "eu-north-1", "us-east-1", "ap-south-1"];
const TEAMS: &[&str] = &["checkout", "catalogue", "platform", "growth", "care"];
const ENV: &[&str] =
    &["LOG_LEVEL", "DATABASE_URL", "POOL_SIZE", "CACHE_SECONDS", "RATE_LIMIT", "RETRY_MS"];
const SERVICES: &[&str] = &[
    "accounts-api",
    "auth",
    "basket-api",
    "billing-worker",
    "catalogue-api",
    "checkout-api",
    "edge",
    "export-worker",
    "fraud-check",
    "images",
    "invoices-api",
    "mailer",
    "notifications",
    "orders-api",
    "payments-api",
    "pricing",
    "recommendations",
    "reports",
    "returns-api",
    "search-api",
    "search-indexer",
    "shipping-api",
    "stock-sync",
    "tax",
];
