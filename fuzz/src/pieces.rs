//! Bytes, cut into pieces as a network would.

/// The bytes in pieces: all at once, one by one, or in lengths that follow from the seed.
pub fn pieces(bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    let mut state = u32::from(seed);
    let (mut rest, mut pieces) = (bytes, Vec::new());
    while !rest.is_empty() {
        let length = match seed {
            0 => rest.len(),
            1 => 1,
            _ => {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as usize % 40
            }
        };
        // Pieces may be empty.
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}
