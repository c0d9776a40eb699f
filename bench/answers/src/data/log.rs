//! The log of a day of several services: plain text.

use crate::random::Random;

/// How many lines: about 2.4 MB.
const LINES: u64 = 24_000;

/// Milliseconds between two lines, on average: a day in all.
const PACE_MS: u64 = 3_600;

/// The line with the panic.
const PANIC: u64 = 15_577;

/// The request that is followed through the services.
const TRACED: &str = "c0ffee5a";

/// Where the traced request passes: lines and services.
const TRACE: [(u64, &str, &str); 5] = [
    (9_120, "edge", "POST /v1/checkout accepted"),
    (9_124, "auth", "token of account 5512 is good"),
    (9_131, "basket", "basket 88231 has 3 lines"),
    (9_140, "payments", "charge of 12990 cents authorised"),
    (9_152, "edge", "POST /v1/checkout 201 612 ms"),
];

/// The hour with more warnings than others.
const BAD_HOUR: u64 = 17;

const MS_PER_HOUR: u64 = 3_600_000;

/// What the tool gives.
pub(crate) fn text() -> String {
    let mut random = Random::new(0x1065);
    let mut at = 0;
    let mut text = String::new();
    for number in 1..=LINES {
        at += random.between(1, 2 * PACE_MS - 100);
        text.push_str(&stamp(at));
        text.push(' ');
        text.push_str(&line(number, at / MS_PER_HOUR, &mut random));
        text.push('\n');
    }
    text
}

/// The lines of a text that may be cut: the last one counts only if it is whole.
pub(crate) fn lines(text: &str) -> Vec<String> {
    let whole = text.rfind('\n').and_then(|end| text.get(..end)).unwrap_or_default();
    whole.split('\n').map(str::to_owned).collect()
}

fn stamp(at: u64) -> String {
    let (hour, minute) = (at / MS_PER_HOUR, at / 60_000 % 60);
    format!("2026-05-04T{hour:02}:{minute:02}:{:02}.{:03}Z", at / 1000 % 60, at % 1000)
}

fn line(number: u64, hour: u64, random: &mut Random) -> String {
    if number == PANIC {
        return "FATAL basket   req=- thread 'worker-3' panicked: index 4 is out of range"
            .to_owned();
    }
    if let Some((_, service, what)) = TRACE.iter().find(|(line, ..)| *line == number) {
        return format!("INFO  {service:<8} req={TRACED} {what}");
    }
    let service = random.pick(SERVICES);
    let request = random.hex(8);
    let (level, what) = event(hour, random);
    format!("{level:<5} {service:<8} req={request} {what}")
}

fn event(hour: u64, random: &mut Random) -> (&'static str, String) {
    let number = random.between(1000, 99_999);
    let ms = 3 + random.low(400);
    let warnings = if hour == BAD_HOUR { 19 } else { 5 };
    match random.below(100) {
        0..2 => ("ERROR", error(number, random)),
        20.. if random.chance(warnings) => ("WARN", warning(number, ms, random)),
        2..20 => ("DEBUG", format!("cache {} for key order:{number}", random.pick(CACHE))),
        20..25 => ("INFO", format!("worker is up again, the last ERROR was {ms} minutes ago")),
        25..40 => {
            ("INFO", format!("job {} of queue {} done in {ms} ms", number, random.pick(QUEUES)))
        }
        _ => {
            let (method, path) = (random.pick(METHODS), random.pick(PATHS));
            let status = random.pick(STATUSES);
            (
                "INFO",
                format!("{method} {path}/{number} {status} {ms} ms agent={}", random.pick(AGENTS)),
            )
        }
    }
}

fn error(number: u64, random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("upstream connect time-out after 5000 ms, order {number} is not saved"),
        1 => format!("database refused the transaction of order {number}: serialization failure"),
        _ => format!("mail to account {number} bounced: mailbox is full"),
    }
}

fn warning(number: u64, ms: u64, random: &mut Random) -> String {
    match random.below(3) {
        0 => format!("slow query: {ms} ms for account {number}"),
        1 => format!("retry {} of call to payments for order {number}", random.between(1, 3)),
        _ => format!("queue {} has {number} jobs waiting", random.pick(QUEUES)),
    }
}

const SERVICES: &[&str] = &["edge", "auth", "basket", "payments", "search", "mailer", "reports"];
const METHODS: &[&str] = &["GET", "GET", "GET", "POST", "PUT", "DELETE"];
const PATHS: &[&str] =
    &["/v1/orders", "/v1/accounts", "/v1/baskets", "/v1/products", "/v1/reports"];
const STATUSES: &[&str] = &["200", "200", "200", "201", "204", "304", "404"];
const CACHE: &[&str] = &["hit", "hit", "miss"];
const QUEUES: &[&str] = &["mail", "export", "thumbnails", "billing"];
const AGENTS: &[&str] = &["web/8.2", "ios/5.1", "android/5.0", "partner-api/2"];
