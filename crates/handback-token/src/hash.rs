//! SHA-256 and HMAC-SHA256 for many short messages with the same beginning.
//!
//! A token costs two or three hashes of a few blocks. Feeding them piece by piece to a streaming
//! hasher, and cloning and clearing that, costs about as much as the hashing itself. Here, a message
//! is put together on the stack and compressed in one go, from a state that was computed beforehand.
//! The compression function is that of crate `sha2`; results are tested against `sha2` and `hmac`.

use sha2::block_api::compress256;
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::encoding::Writer;

const BLOCK_BYTES: usize = 64;

/// Where a message's length is written: the last 8 bytes of its last block.
const LENGTH_BYTES: usize = 8;

/// What a message can have on the stack, padding included. A context and a cursor fit.
const STACK_BYTES: usize = 6 * BLOCK_BYTES;

/// FIPS 180-4, section 5.3.3.
const INITIAL: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// The hash of a beginning that many messages share.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Prefix {
    state: [u32; 8],
    hashed_bytes: u64,
    /// What does not fill a block yet.
    rest: [u8; BLOCK_BYTES],
    rest_bytes: usize,
}

impl Prefix {
    pub(crate) fn new(beginning: &[u8]) -> Self {
        let (blocks, left) = beginning.as_chunks::<BLOCK_BYTES>();
        let mut state = INITIAL;
        compress256(&mut state, blocks);
        let mut rest = [0; BLOCK_BYTES];
        let (place, _) = rest.split_at_mut(left.len());
        place.copy_from_slice(left);
        let hashed_bytes = (beginning.len() - left.len()) as u64;
        Self { state, hashed_bytes, rest, rest_bytes: left.len() }
    }

    /// The hash of this beginning and `len` more bytes, which `fill` writes.
    #[inline]
    pub(crate) fn digest(&self, len: usize, fill: impl FnOnce(Writer<'_>)) -> [u8; 32] {
        let end = self.rest_bytes + len;
        let padded = (end + 1 + LENGTH_BYTES).next_multiple_of(BLOCK_BYTES);
        let mut stack = [0; STACK_BYTES];
        let mut heap = Vec::new();
        let message = match stack.get_mut(..padded) {
            Some(message) => message,
            None => {
                heap.resize(padded, 0);
                heap.as_mut_slice()
            }
        };
        let (rest, _) = message.split_at_mut(BLOCK_BYTES);
        rest.copy_from_slice(&self.rest);
        let (_, place) = message.split_at_mut(self.rest_bytes);
        let (place, _) = place.split_at_mut(len);
        fill(Writer(place));
        pad(message, end, self.hashed_bytes + end as u64);
        let mut state = self.state;
        compress256(&mut state, message.as_chunks().0);
        to_bytes(state)
    }
}

/// Writes the padding after `len` bytes; what lies between is zero already.
fn pad(message: &mut [u8], len: usize, total_bytes: u64) {
    if let Some(end) = message.get_mut(len) {
        *end = 0x80;
    }
    if let Some(length) = message.last_chunk_mut::<LENGTH_BYTES>() {
        *length = (total_bytes * 8).to_be_bytes();
    }
}

fn to_bytes(state: [u32; 8]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (place, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(state) {
        *place = word.to_be_bytes();
    }
    bytes
}

/// HMAC-SHA256 with its two key blocks already absorbed. These states are as secret as the key
/// (RFC 2104, section 4), and are cleared like it.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct MacKey {
    inner: Prefix,
    outer: Prefix,
}

impl MacKey {
    /// A key of at most 64 bytes, which is used as it is; a longer one is hashed first.
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut block = zeroize::Zeroizing::new([0u8; BLOCK_BYTES]);
        match block.get_mut(..key.len()) {
            Some(place) => place.copy_from_slice(key),
            None => block.split_at_mut(32).0.copy_from_slice(&Sha256::digest(key)),
        }
        let padded = |byte: u8| {
            let block = zeroize::Zeroizing::new(block.map(|key| key ^ byte));
            Prefix::new(block.as_slice())
        };
        Self { inner: padded(0x36), outer: padded(0x5c) }
    }

    /// The MAC of `len` bytes, which `fill` writes.
    #[inline]
    pub(crate) fn mac(&self, len: usize, fill: impl FnOnce(Writer<'_>)) -> [u8; 32] {
        let inner = self.inner.digest(len, fill);
        // The outer message is always one more block: the digest and its padding.
        let mut block = [0; BLOCK_BYTES];
        block.split_at_mut(inner.len()).0.copy_from_slice(&inner);
        pad(&mut block, inner.len(), self.outer.hashed_bytes + inner.len() as u64);
        let mut state = self.outer.state;
        compress256(&mut state, &[block]);
        to_bytes(state)
    }
}

#[cfg(test)]
mod tests {
    use hmac::{Hmac, KeyInit as _, Mac as _};

    use super::*;

    fn bytes(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from((at * 31 + seed * 7) % 251).unwrap()).collect()
    }

    #[test]
    fn agrees_with_sha2_at_every_length() {
        for beginning in [0, 1, 55, 63, 64, 65, 69, 128, 200] {
            let prefix = Prefix::new(&bytes(beginning, 1));
            for len in (0..700).chain([4096, 65_536]) {
                for cut in [0, len / 3, len] {
                    let rest = bytes(len, 2);
                    let made = prefix.digest(len, |writer| {
                        writer.put(&rest[..cut]).put(&rest[cut..]).done();
                    });
                    let whole = [bytes(beginning, 1), rest].concat();
                    let expected: [u8; 32] = Sha256::digest(&whole).into();
                    assert_eq!(made, expected, "{beginning} + {len}, cut at {cut}");
                }
            }
        }
    }

    #[test]
    fn agrees_with_hmac_at_every_length() {
        for key_len in [0, 1, 31, 32, 63, 64, 65, 200] {
            let key = bytes(key_len, 3);
            let ours = MacKey::new(&key);
            for len in (0..700).chain([16_384]) {
                let text = bytes(len, 4);
                let made = ours.mac(len, |writer| writer.put(&text).done());
                let mut theirs = Hmac::<Sha256>::new_from_slice(&key).unwrap();
                theirs.update(&text);
                let expected: [u8; 32] = theirs.finalize().into_bytes().into();
                assert_eq!(made, expected, "key {key_len}, text {len}");
            }
        }
    }
}
