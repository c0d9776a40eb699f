//! A handbook in Markdown: one long document, a paragraph per line.

use crate::prose::Prose;
use crate::random::Random;

/// Where it says how long before leave is asked for.
const NOTICE_AT: (u64, u64) = (7, 4);

/// The rule that is asked for, and changed.
pub(crate) const NOTICE: &str =
    "Leave of more than ten working days is asked for 30 days before it starts.";

/// What it is changed to.
pub(crate) const NEW_NOTICE: &str =
    "Leave of more than ten working days is asked for 45 days before it starts.";

/// Where animals are.
const ANIMALS_AT: (u64, u64) = (12, 9);

/// The rule about animals, without the word that people ask with.
pub(crate) const ANIMALS: &str = "Four-legged companions are welcome on Fridays, if everybody in \
                                  the room has said yes in writing.";

/// What the tool gives: about 0.35 MB.
pub(crate) fn text() -> String {
    let mut random = Random::new(0xa11d);
    let mut text = String::from("# Handbook\n\n");
    for (chapter, topic) in (1..).zip(TOPICS) {
        text.push_str(&format!("## {chapter} {topic}\n\n"));
        for section in 1..=random.between(9, 14) {
            let heading = PROSE.fill(random.pick(HEADINGS), &mut random);
            text.push_str(&format!("### {chapter}.{section} {heading}\n\n"));
            for part in paragraphs((chapter, section), &mut random) {
                text.push_str(&part);
                text.push_str("\n\n");
            }
        }
    }
    text
}

fn paragraphs(place: (u64, u64), random: &mut Random) -> Vec<String> {
    let mut parts: Vec<_> =
        (0..random.between(3, 8)).map(|_| PROSE.paragraph(random.between(3, 6), random)).collect();
    let rule = match place {
        NOTICE_AT => NOTICE,
        ANIMALS_AT => ANIMALS,
        _ => return parts,
    };
    if let Some(part) = parts.get_mut(1) {
        part.push(' ');
        part.push_str(rule);
    }
    parts
}

/// The chapters, in order.
const TOPICS: &[&str] = &[
    "Working hours",
    "Travel",
    "Equipment",
    "Expenses",
    "Health",
    "Security",
    "Leave",
    "Training",
    "Meetings",
    "Hiring",
    "Visitors",
    "The office",
    "Data",
    "Suppliers",
    "Pay",
    "Conduct",
    "Accidents",
    "Leaving",
];

const HEADINGS: &[&str] = &[
    "Who decides about {what}",
    "Asking for {what}",
    "Keeping records of {what}",
    "{what} abroad",
    "Exceptions for {who}",
    "When {who} is away",
    "Costs of {what}",
    "What {who} must know",
];

const PROSE: Prose = Prose {
    sentences: &[
        "{who} asks for {what} at least {#} hours before it is needed.",
        "Without a reason in writing, {what} is not given to {who}.",
        "The team lead answers within {#} working hours, and says why if the answer is no.",
        "{what} is kept for {#} days and then deleted.",
        "Whoever is asked by {who} may say no, and need not say why.",
        "On Fridays {who} looks after {what} for everybody.",
        "Costs above {#} euros are agreed with {who} beforehand.",
        "A guide dog may come with {who} to every meeting.",
        "If {what} is lost, {who} is told on the same day.",
        "Nobody works alone with {what} after 22:00.",
        "Notice of a change is given {#} days ahead, except for {what}.",
        "The list of {what} is public within the company, the names on it are not.",
        "{who} repeats the training on {what} every {#} weeks.",
    ],
    gaps: &[
        (
            "what",
            &[
                "a laptop",
                "a travel card",
                "the keys",
                "paid leave",
                "a parking space",
                "personal data",
                "protective clothing",
                "a meeting room",
                "overtime",
                "a visa",
                "training material",
                "a company phone",
            ],
        ),
        (
            "who",
            &[
                "the office manager",
                "a new colleague",
                "the works council",
                "a visitor",
                "the finance team",
                "an apprentice",
                "the person on call",
                "a freelancer",
            ],
        ),
    ],
};
