//! What a search gives whose results have their whole articles in them.

use serde::{Deserialize, Serialize};

use super::time;
use crate::prose::Prose;
use crate::random::Random;

/// How many there are: about 0.6 MB.
const COUNT: u64 = 60;

/// The article that alone has a certain name in it.
const NAMED: u64 = 37;

/// The article with a price.
const PRICED: u64 = 22;

/// The sentence with the price.
pub(crate) const PRICE: &str =
    "A single launch of the tug is expected to cost 41 million dollars from 2028 on.";

/// 2023-01-01.
const START_S: i64 = 1_672_531_200;

/// Within so many seconds they were published.
const SPAN_S: u64 = 1_400 * 86_400;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Article {
    pub(crate) rank: u64,
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) site: String,
    pub(crate) published: String,
    pub(crate) score: u64,
    pub(crate) body: String,
}

#[derive(Debug, Serialize)]
struct Listing {
    query: &'static str,
    took_ms: u64,
    results: Vec<Article>,
}

/// All of them, the best first.
pub(crate) fn all() -> Vec<Article> {
    let mut random = Random::new(0xa471);
    (1..=COUNT).map(|rank| article(rank, &mut random)).collect()
}

/// What the tool gives.
pub(crate) fn text() -> String {
    let query = "removal of debris from orbit";
    let listing = Listing { query, took_ms: 412, results: all() };
    serde_json::to_string(&listing).unwrap_or_default()
}

fn article(rank: u64, random: &mut Random) -> Article {
    let site = random.pick(SITES);
    let title = format!("{}, part {rank}", PROSE.fill(random.pick(TITLES), random));
    let slug: String = title
        .to_lowercase()
        .chars()
        .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' })
        .collect();
    Article {
        rank,
        title,
        url: format!("https://{site}.example/articles/{slug}"),
        site: site.to_owned(),
        published: time(START_S.saturating_add_unsigned(random.below(SPAN_S))),
        score: 10_000 - rank * 90 - random.below(80),
        body: body(rank, random),
    }
}

fn body(rank: u64, random: &mut Random) -> String {
    let paragraphs = random.between(14, 26);
    let mut body: Vec<_> =
        (0..paragraphs).map(|_| PROSE.paragraph(random.between(4, 8), random)).collect();
    let extra = match rank {
        NAMED => "The author calls this the Marlowe cascade, after the engineer who drew it first.",
        PRICED => PRICE,
        _ => return body.join("\n\n"),
    };
    if let Some(paragraph) = body.get_mut(9) {
        paragraph.push(' ');
        paragraph.push_str(extra);
    }
    body.join("\n\n")
}

const SITES: &[&str] = &["orbitweekly", "spacedesk", "thelaunchpad", "skyreview", "nearearth"];

const TITLES: &[&str] = &[
    "How to catch {thing} in {orbit}",
    "Why {thing} is not like other debris",
    "{who} and the cost of {thing}",
    "A {tool} for {orbit}",
    "What {who} learned from {thing}",
    "Cleaning up {orbit} with a {tool}",
];

const PROSE: Prose = Prose {
    sentences: &[
        "In {orbit} there are about {#} pieces that are larger than a hand.",
        "{who} has tested a {tool} against {thing} since last year.",
        "Nobody owns {thing}, and therefore nobody has to pay for taking it down.",
        "The {tool} weighs {#} kilograms and can be used more than once.",
        "Critics say that a {tool} could also be pointed at somebody else's satellite.",
        "At {#} kilometres the air is too thin to slow {thing} down within a century.",
        "Engineers at {who} speak of {#} close approaches in a week.",
        "The contract with {who} covers the flight, but not the insurance.",
        "An aluminium shell of {#} millimetres stops the smallest pieces.",
        "Most of {thing} turns around itself, which makes it hard for a {tool} to hold.",
        "Insurers have begun to ask where {thing} will be in {#} weeks.",
        "A model of {who} shows that removing {#} pieces a year keeps {orbit} as it is.",
        "Others would rather move {thing} to {orbit}, where it is in nobody's way.",
        "The radar in the north sees {thing} {#} times a month.",
        "If the {tool} fails, it becomes a piece of debris itself.",
    ],
    gaps: &[
        ("orbit", &["low orbit", "a polar orbit", "the belt of relays", "a graveyard orbit"]),
        (
            "thing",
            &[
                "the old upper stage",
                "a dead weather satellite",
                "the cloud of 2009",
                "a lost bolt",
                "the broken panel",
                "an empty tank",
            ],
        ),
        ("tool", &["net", "harpoon", "tug", "laser", "magnetic arm", "sail"]),
        (
            "who",
            &[
                "the agency",
                "a start-up from Delft",
                "the university",
                "a group of insurers",
                "the space command",
                "a company in Nagoya",
            ],
        ),
    ],
};
