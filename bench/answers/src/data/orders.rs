//! The orders of half a year: an object with an array of many small records.

use serde::{Deserialize, Serialize};

use super::time;
use crate::random::Random;

/// How many there are: about 4.2 MB.
const COUNT: u64 = 9_000;

/// The number of the first one.
const FIRST_NUMBER: u64 = 100_001;

/// 2026-01-01.
const START_S: i64 = 1_767_225_600;

/// Seconds between two of them, on average: half a year in all.
const PACE_S: u64 = 1_720;

/// How many customers there are.
const CUSTOMERS: u64 = 900;

/// How many things are sold.
const PRODUCTS: u64 = 130;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) created_at: String,
    pub(crate) status: String,
    pub(crate) customer: Customer,
    pub(crate) lines: Vec<Line>,
    pub(crate) currency: String,
    pub(crate) total_cents: u64,
    pub(crate) shipping: Shipping,
    pub(crate) note: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Customer {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) email: String,
    pub(crate) country: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) sku: String,
    pub(crate) name: String,
    pub(crate) quantity: u64,
    pub(crate) unit_cents: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Shipping {
    pub(crate) carrier: String,
    pub(crate) tracking: Option<String>,
    pub(crate) express: bool,
}

#[derive(Debug, Serialize)]
struct Listing {
    exported_at: String,
    count: u64,
    orders: Vec<Order>,
}

/// All of them, oldest first.
pub(crate) fn all() -> Vec<Order> {
    let mut random = Random::new(0x0de5);
    let mut placed = START_S;
    (0..COUNT)
        .map(|place| {
            placed = placed.saturating_add_unsigned(random.between(1, 2 * PACE_S));
            order(FIRST_NUMBER + place, placed, &mut random)
        })
        .collect()
}

/// What the tool gives.
pub(crate) fn text() -> String {
    let exported = START_S.saturating_add_unsigned(COUNT * (PACE_S + 100));
    let listing = Listing { exported_at: time(exported), count: COUNT, orders: all() };
    serde_json::to_string(&listing).unwrap_or_default()
}

fn order(number: u64, placed: i64, random: &mut Random) -> Order {
    let lines: Vec<_> = (0..1 + random.low(5)).map(|_| line(random)).collect();
    let customer = customer(random.low(CUSTOMERS));
    let currency = currency(&customer.country).to_owned();
    let status = random.pick(STATUSES);
    let is_sent = matches!(status, "shipped" | "delivered" | "refunded");
    Order {
        id: format!("ORD-{number}"),
        created_at: time(placed),
        status: status.to_owned(),
        customer,
        total_cents: lines.iter().map(|line| line.quantity * line.unit_cents).sum(),
        lines,
        currency,
        shipping: Shipping {
            carrier: random.pick(CARRIERS).to_owned(),
            tracking: is_sent.then(|| format!("TR{}", random.hex(10).to_uppercase())),
            express: random.chance(15),
        },
        note: random.chance(12).then(|| random.pick(NOTES).to_owned()),
    }
}

fn line(random: &mut Random) -> Line {
    let number = random.low(PRODUCTS);
    // The same product is the same in all orders.
    let mut product = Random::new(0x9a0d + number);
    let kind = product.pick(KINDS);
    Line {
        sku: format!("{}-{number:03}", kind.get(..2).unwrap_or(kind).to_uppercase()),
        name: format!("{} {kind}", product.pick(LOOKS)),
        quantity: 1 + random.low(6),
        unit_cents: product.between(350, 48_000),
    }
}

fn customer(number: u64) -> Customer {
    let mut random = Random::new(0xc057 + number);
    let (first, last) = (random.pick(FIRST_NAMES), random.pick(LAST_NAMES));
    let email = format!("{}.{}{number}@mail.example", first.to_lowercase(), last.to_lowercase());
    Customer {
        id: format!("C{:05}", 10_000 + number * 7),
        name: format!("{first} {last}"),
        email,
        country: random.pick(COUNTRIES).to_owned(),
    }
}

fn currency(country: &str) -> &'static str {
    match country {
        "GB" => "GBP",
        "US" | "CA" => "USD",
        "SE" => "SEK",
        "PL" => "PLN",
        _ => "EUR",
    }
}

const STATUSES: &[&str] = &[
    "pending",
    "paid",
    "paid",
    "shipped",
    "shipped",
    "delivered",
    "delivered",
    "delivered",
    "delivered",
    "cancelled",
    "refunded",
];

const CARRIERS: &[&str] = &["Postway", "Northline", "Parcelo", "Blue Van", "Pick-up"];

const COUNTRIES: &[&str] = &[
    "DE", "DE", "DE", "FR", "FR", "GB", "US", "US", "IT", "ES", "NL", "SE", "PL", "AT", "IE", "CA",
];

const NOTES: &[&str] = &[
    "Please leave it with the neighbour.",
    "Ring twice.",
    "A present: no invoice in the box, please.",
    "Call before delivery.",
    "Deliver after 18:00.",
    "Behind the garage is fine.",
];

const KINDS: &[&str] = &[
    "keyboard", "lamp", "chair", "kettle", "backpack", "notebook", "monitor", "cable", "desk",
    "mug", "printer", "speaker", "headset", "shelf", "clock",
];

const LOOKS: &[&str] =
    &["Oak", "Black", "Compact", "Large", "Steel", "Linen", "Foldable", "Classic", "White", "Pro"];

const FIRST_NAMES: &[&str] = &[
    "Anna", "Ben", "Carla", "Deniz", "Emil", "Fatima", "Greta", "Hugo", "Ida", "Jonas", "Klara",
    "Luis", "Mira", "Noah", "Olga", "Paul", "Rosa", "Samir", "Tilda", "Yusuf",
];

const LAST_NAMES: &[&str] = &[
    "Adler", "Bianchi", "Costa", "Dubois", "Eriksen", "Fischer", "Garcia", "Haas", "Ivanova",
    "Jensen", "Kowalska", "Lefevre", "Murphy", "Novak", "Olsen", "Peeters", "Quinn", "Rossi",
    "Schmidt", "Taylor",
];
