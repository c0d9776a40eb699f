//! `rs1` and `rs2` request state: any text, and any body behind a tag that verifies.
#![no_main]

use std::sync::LazyLock;

use handback_fuzz::{KEY, NOW, acceptance, context, encode, mac};
use handback_token::compat::ForeignKey;
use handback_token::compat::rmcp::RmcpState;
use libfuzzer_sys::fuzz_target;

static STATE: LazyLock<RmcpState> = LazyLock::new(|| {
    let key = || ForeignKey::from_bytes(&KEY).unwrap();
    RmcpState::new(acceptance()).rs1_key(key()).rs2_key("k", key())
});

fuzz_target!(|data: &[u8]| {
    assert!(STATE.open(&String::from_utf8_lossy(data), b"ad", &context(), NOW).is_err());
    let length = 2u64.to_be_bytes();
    let tag = mac(&[b"rmcp/mrtr/request-state/v1", &length, b"ad", data]);
    let signed = format!("rs1.{}.{}", encode(data), encode(&tag));
    let _ = STATE.open(&signed, b"ad", &context(), NOW);
    let kid_length = 1u64.to_be_bytes();
    let tag = mac(&[b"rmcp/mrtr/request-state/v2", &kid_length, b"k", &length, b"ad", data]);
    let signed = format!("rs2.{}.{}.{}", encode(b"k"), encode(data), encode(&tag));
    let _ = STATE.open(&signed, b"ad", &context(), NOW);
});
