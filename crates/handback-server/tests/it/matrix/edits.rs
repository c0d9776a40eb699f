//! Everything that a text can be turned into by who hopes that nobody looks.

use handback_token::{Handle, HandleError};

/// Other texts, each at least one character away.
pub(super) fn of(text: &str) -> Vec<String> {
    let mut all = flips(text);
    let len = text.len();
    for kept in [1, len / 4, len / 2, 3 * len / 4, len - 4, len - 1] {
        all.push(text[..kept].to_owned());
    }
    for end in ["A", "AA", "AAAA", "=", "==", ".", "~"] {
        all.push(format!("{text}{end}"));
    }
    all.push(format!("{text}{text}"));
    all.push(format!("A{text}"));
    all.push(text.chars().rev().collect());
    // Longer than any token.
    all.push("A".repeat(600));
    // Other alphabets of base64, and other cases.
    all.push(text.replace('-', "+").replace('_', "/"));
    all.push(text.replace(['-', '_'], "."));
    all.push(text.to_ascii_uppercase());
    all.push(text.to_ascii_lowercase());
    all.retain(|edited| edited != text);
    all
}

/// Every character, one at a time, as another one.
fn flips(text: &str) -> Vec<String> {
    let flip = |place: usize| {
        let mut edited = text.to_owned();
        let other = if &text[place..=place] == "A" { "B" } else { "A" };
        edited.replace_range(place..=place, other);
        edited
    };
    (0..text.len()).map(flip).collect()
}

/// Texts of the shape of a handle whose checksum is wrong.
pub(super) fn of_handle(handle: &str) -> Vec<String> {
    let flip = |place: usize| {
        let other = if &handle[place..=place] == "0" { "1" } else { "0" };
        format!("{}{other}{}", &handle[..place], &handle[place + 1..])
    };
    let swap = |place: usize| {
        let (first, second) = (&handle[place..=place], &handle[place + 1..place + 2]);
        format!("{}{second}{first}{}", &handle[..place], &handle[place + 2..])
    };
    let flips = (1..handle.len()).map(flip);
    let swaps = (1..handle.len() - 1).map(swap);
    // One in 32,768 has the checksum of another handle, and one that begins too high has none.
    flips.chain(swaps).filter(|text| Handle::parse(text) == Err(HandleError::Mistyped)).collect()
}
