//! Results over a client's budget, in the store of held values.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use handback_identity::VerifiedPrincipal;
use handback_page::json::ByteSource as _;
use handback_store::Kv;
use handback_store::held::{HeldError, HeldWriter, NewValue};
use handback_store::journal::COMMITTED_LIFE_MS;
use handback_token::Handle;
use handback_tool::{CallHeld, Clock, Failure};

use crate::bound::{
    Bounded, Bounding, Budget, Keep, Kept, NewPart, PartWriter, bound, bound_error,
};
use crate::calls::asks;
use crate::note::HeldNote;
use crate::replay::MARK_BYTES;
use crate::schemas::{Checking, CheckingJob};
use crate::upstream::Raw;

/// The tool that held values are read with.
pub(crate) const READER: &str = "mcp_aql_read";

/// Bytes of a result that is passed on at most, whatever the budget: it is in memory while it is. A
/// larger one is held even for clients that take everything, and refused where nothing is held.
pub(crate) const PASSED_BYTES_MAX: u64 = 64 << 20;

/// Bytes of media that are passed on at most of a result that is larger than that.
const HUGE_MEDIA_BYTES: usize = 32 << 20;

/// For how long a call with a key, or a round that is redeemed once, gets the answer that it got first.
/// The record is kept for a day from its commit. The hour is for what lies between, and for the state
/// that a round is redeemed by; that its record is kept for longer is for nobody who still has one.
pub(crate) const RETRIED_FOR: Duration = Duration::from_millis(COMMITTED_LIFE_MS + 60 * 60 * 1_000);

/// For whom a result is held, and from which size on.
#[derive(Clone)]
pub(crate) struct Holding {
    pub(crate) budget: Budget,
    /// The budget of images, audio and blobs.
    pub(crate) media: Budget,
    /// True if the client knows blocks of the type `resource_link`.
    pub(crate) knows_links: bool,
    pub(crate) held: CallHeld,
    pub(crate) owner: VerifiedPrincipal,
    /// A result is held from when it is there, which may be long after it was asked for.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) upstream: String,
    pub(crate) tool: String,
    /// For how long another try of the call gets the same answer, with the same handles in it.
    pub(crate) retried_for: Duration,
}

/// What has to be known to cut a result.
pub(crate) struct Cutting {
    /// The name of the tool that held values are read with.
    pub(crate) reader: String,
    /// What structured results have to fit.
    pub(crate) output: Option<Checking>,
}

/// A result within the budgets.
pub(crate) struct Within {
    pub(crate) json: Bytes,
    /// True if it is the upstream's, to the byte, and nothing is held.
    pub(crate) is_as_given: bool,
}

/// Why a result is not given.
pub(crate) enum NotHeld {
    /// It is none of this protocol, or larger than anything that is held.
    Failed(Failure),
    /// There is no room for it: for people.
    Refused(String),
    /// It asks the client something: a part of that is of no use.
    Asks,
}

/// What is told of a result that was there, and is not held.
pub(crate) const NOT_HELD: &str = "the call was made, but its result could not be held";

impl Holding {
    /// True if a result may be over a budget: what of it is media is known once it is read.
    pub(crate) fn is_over(&self, raw: &Raw) -> bool {
        !self.passing().allows(raw.size_bytes()) || raw.size_bytes() > PASSED_BYTES_MAX
    }

    /// An error of the upstream, within the budget.
    pub(crate) fn error(&self, json: Bytes) -> Bytes {
        bound_error(&json, &self.passing()).map_or(json, Bytes::from)
    }

    /// What is passed on as it is.
    const fn passing(&self) -> Bounding<'static> {
        Bounding::new(self.budget).media(self.media).reserving(self.reserved_bytes())
    }

    /// What is added to a result that may be given again.
    const fn reserved_bytes(&self) -> usize {
        if self.retried_for.is_zero() { 0 } else { MARK_BYTES }
    }

    /// The budgets of a result of so many bytes that may be over one of them: of texts, and of media.
    fn shown(&self, bytes: u64) -> (Budget, Budget) {
        let is_huge = bytes > PASSED_BYTES_MAX;
        let budget = match self.budget.allows(PASSED_BYTES_MAX) {
            true if is_huge => Budget::DEFAULT,
            _ => self.budget,
        };
        let media = match is_huge {
            true => self.media.min(Budget::bytes(HUGE_MEDIA_BYTES)),
            false => self.media,
        };
        (budget, media)
    }

    /// Holds what is over a budget in a result; gives the one that takes its place.
    pub(crate) async fn hold(&self, raw: Raw, cutting: Cutting) -> Result<Within, NotHeld> {
        let mut keep = self.clone();
        let check = cutting.output.as_ref().map(Checking::job);
        let reader = cutting.reader;
        let cut = move || {
            let validator = check.as_ref().map(CheckingJob::validator);
            let (budget, media) = keep.shown(raw.size_bytes());
            let how = Bounding::new(budget).media(media).reading_tool(&reader);
            let mut how = how.reserving(keep.reserved_bytes());
            if !keep.knows_links {
                how = how.without_links();
            }
            if let Some(validator) = &validator {
                how = how.output_schema(validator);
            }
            let bounded = bound(&raw, &how, &mut keep);
            if let (Some(check), Some(validator)) = (&check, &validator) {
                check.finish(validator);
            }
            let bounded = bounded?;
            if asks(&bounded.result) {
                bounded.forget(&mut keep);
                return Ok(None);
            }
            Ok(Some(Offered { keep, bounded: Some(bounded) }))
        };
        let broke = || NotHeld::Refused(NOT_HELD.to_owned());
        let cut = tokio::task::spawn_blocking(cut).await.map_err(|_| broke())?;
        match cut {
            Ok(Some(offered)) => offered.taken().ok_or_else(broke),
            Ok(None) => Err(NotHeld::Asks),
            Err(crate::bound::BoundError::Keep(HeldError::Quota { limit })) => {
                Err(NotHeld::Refused(format!(
                    "the call was made, but its result is larger than what is still held for this \
                     caller: at most {limit} bytes in all"
                )))
            }
            Err(crate::bound::BoundError::NotJson(_)) => Err(NotHeld::Failed(Failure::Lost)),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a result was not held");
                Err(broke())
            }
        }
    }
}

impl Keep for Holding {
    type Error = HeldError;
    type Writer<'a> = Writer;

    fn part(&mut self, part: &NewPart) -> Result<Writer, HeldError> {
        let note = HeldNote {
            upstream: Some(self.upstream.clone()),
            tool: self.tool.clone(),
            items: part.items.to_string(),
            media: part.media.clone(),
        };
        let least_ms = u64::try_from(self.retried_for.as_millis()).unwrap_or(u64::MAX);
        let new = NewValue::new(part.kind).note(note.to_bytes()).at_least(least_ms);
        let now_ms = self.clock.now_ms();
        let writer = self.held.writer(&self.owner, new, &mut rand::rng(), now_ms)?;
        Ok(Writer { writer, clock: Arc::clone(&self.clock) })
    }

    fn forget(&mut self, handle: Handle) {
        if let Err(error) = self.held.remove(handle, &self.owner, self.clock.now_ms()) {
            tracing::debug!(%error, "a part that nobody knows of is held until it ends");
        }
    }
}

/// A result that was cut. If nobody takes it, because the call was cancelled or took too long, nobody
/// knows the handles in it: what is held under them is given up.
struct Offered {
    keep: Holding,
    bounded: Option<Bounded>,
}

impl Offered {
    fn taken(mut self) -> Option<Within> {
        let Bounded { result, is_as_given, .. } = self.bounded.take()?;
        Some(Within { json: result.into(), is_as_given })
    }
}

/// Where it was cut, which may block; unless its caller left between that and the next step.
impl Drop for Offered {
    fn drop(&mut self) {
        if let Some(bounded) = self.bounded.take() {
            bounded.forget(&mut self.keep);
        }
    }
}

/// Writes one part.
pub(crate) struct Writer {
    writer: HeldWriter<Arc<dyn Kv>>,
    clock: Arc<dyn Clock>,
}

impl PartWriter for Writer {
    type Error = HeldError;

    fn write(&mut self, bytes: &[u8]) -> Result<(), HeldError> {
        self.writer.write(bytes, self.clock.now_ms())
    }

    fn finish(self) -> Result<Kept, HeldError> {
        let held = self.writer.finish(self.clock.now_ms())?;
        let handle = held.handle().ok_or(HeldError::Gone)?;
        let (until_ms, until_at_most_ms) = (held.until(), held.until_at_most());
        Ok(Kept { handle, until_ms, until_at_most_ms })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use handback_identity::UnixPeers;
    use handback_store::faulty::{Fault, FaultPlan, FaultyDisk};
    use handback_store::held::{HeldOptions, HeldStore, LookUp};
    use serde_json::{Value, json};

    use super::*;
    use crate::replay::{self, Again};

    const NOW: u64 = 1_800_000_000_000;

    const MINUTE_MS: u64 = 60 * 1000;

    /// Time that stands still until it is moved.
    #[derive(Debug)]
    struct Hand(AtomicU64);

    impl Hand {
        fn new() -> Arc<Self> {
            Arc::new(Self(AtomicU64::new(NOW)))
        }

        fn later(&self, time_ms: u64) {
            self.0.fetch_add(time_ms, Ordering::Relaxed);
        }
    }

    impl Clock for Hand {
        fn now_ms(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }
    }

    fn holding(kv: Arc<dyn Kv>, options: HeldOptions) -> Holding {
        let caller = UnixPeers::new("test").unwrap().caller(1);
        Holding {
            budget: Budget::bytes(8000),
            media: Budget::MEDIA_DEFAULT,
            knows_links: true,
            held: HeldStore::new(kv, options).unwrap(),
            owner: caller.principal().clone(),
            clock: Hand::new(),
            upstream: "files".to_owned(),
            tool: "read".to_owned(),
            retried_for: Duration::ZERO,
        }
    }

    /// Three parts, of so many bytes each.
    fn result(bytes: usize) -> Raw {
        let block = |letter: &str| json!({"type": "text", "text": letter.repeat(bytes)});
        let result = json!({"content": [block("a"), block("b"), block("c")]});
        Raw::Memory(Bytes::from(result.to_string()))
    }

    async fn hold(holding: &Holding, raw: Raw) -> Result<Value, String> {
        let cutting = Cutting { reader: READER.to_owned(), output: None };
        match holding.hold(raw, cutting).await {
            Ok(result) => Ok(serde_json::from_slice(&result.json).unwrap()),
            Err(NotHeld::Refused(why)) => Err(why),
            Err(NotHeld::Asks) => Err("it asks".to_owned()),
            Err(NotHeld::Failed(_)) => panic!("nothing is wrong with the result"),
        }
    }

    /// What a result names is there.
    fn check(holding: &Holding, result: &Value) {
        let parts = result["_meta"][crate::bound::HELD_KEY].as_array().unwrap();
        assert_eq!(parts.len(), 3);
        for part in parts {
            let handle = Handle::parse(part["handle"].as_str().unwrap()).unwrap();
            let found =
                holding.held.look_up(handle, &holding.owner, holding.clock.now_ms()).unwrap();
            assert!(matches!(found, LookUp::Found(_)));
        }
    }

    fn used(holding: &Holding) -> u64 {
        holding.held.used_bytes(&holding.owner, NOW).unwrap()
    }

    fn memory() -> Arc<dyn Kv> {
        Arc::new(handback_store::MemoryStore::new())
    }

    #[tokio::test]
    async fn a_result_is_held_from_when_it_is_there() {
        let hand = Hand::new();
        let options = HeldOptions::new().idle_ms(60 * MINUTE_MS);
        let holding = Holding { clock: hand.clone(), ..holding(memory(), options) };
        // The call was let in, and takes its time.
        hand.later(70 * MINUTE_MS);
        let held = hold(&holding, result(20_000)).await.unwrap();
        check(&holding, &held);
        assert_eq!(held["_meta"][crate::bound::HELD_KEY][0]["until"], "2027-01-15T10:10:00Z");
        hand.later(59 * MINUTE_MS);
        check(&holding, &held);
    }

    #[tokio::test]
    async fn what_is_recorded_is_held_for_as_long_as_its_record() {
        let hand = Hand::new();
        let of_call = holding(memory(), HeldOptions::new());
        let holding = Holding { clock: hand.clone(), retried_for: RETRIED_FOR, ..of_call.clone() };
        let held = hold(&holding, result(20_000)).await.unwrap();
        let until = &held["_meta"][crate::bound::HELD_KEY][0]["until"];
        assert_eq!(until, "2027-01-16T09:00:00Z");
        let notice = held["content"][0]["text"].as_str().unwrap();
        assert!(notice.contains("held for you until 2027-01-16T09:00:00Z:\n"), "{notice}");
        // What another try is given a day later is still there.
        hand.later(COMMITTED_LIFE_MS);
        check(&holding, &held);
        assert_eq!(used(&holding), used(&of_call), "it counts as any other");
        assert!(used(&holding) > 60_000);
        let held = hold(&of_call, result(20_000)).await.unwrap();
        let notice = held["content"][0]["text"].as_str().unwrap();
        assert!(notice.contains("until 2027-01-15T09:00:00Z (longer while"), "{notice}");
    }

    #[tokio::test]
    async fn a_mark_of_a_replay_has_room() {
        let of_call = holding(memory(), HeldOptions::new());
        let recorded = Holding { retried_for: RETRIED_FOR, ..of_call.clone() };
        let lines = "a line of a text\n".repeat(5000);
        let raw = json!({"content": [{"type": "text", "text": lines}]}).to_string();
        for budget in [0, 8000] {
            let recorded = Holding { budget: Budget::bytes(budget), ..recorded.clone() };
            let raw = Raw::Memory(raw.clone().into());
            let result = hold(&recorded, raw).await.unwrap().to_string();
            let marked = replay::marked(result.as_bytes(), "_meta", Again::OtherKey).unwrap();
            assert!(marked.len() > result.len());
            let most = budget.max(Budget::FLOOR_BYTES);
            assert!(marked.len() <= most, "{} > {most}", marked.len());
            let error = json!({"code": 7, "message": "x".repeat(20_000), "data": {"a": 1}});
            let told = recorded.error(error.to_string().into());
            let marked = replay::error(&told, Again::OtherKey);
            assert!(told.len() < marked.len() && marked.len() <= most, "{}", marked.len());
        }
        let full = Raw::Memory(vec![b' '; 8000 - MARK_BYTES + 1].into());
        assert!(recorded.is_over(&full) && !of_call.is_over(&full));
    }

    #[tokio::test]
    async fn a_full_disk_is_told_of_and_leaves_nothing_half_held() {
        let mut refused = 0;
        for at in 0.. {
            let disk = FaultyDisk::new(FaultPlan::new(at).fault(at, Fault::Full));
            let holding = holding(Arc::new(disk.open()), HeldOptions::new());
            match hold(&holding, result(20_000)).await {
                Err(why) => {
                    assert_eq!(why, "the call was made, but its result could not be held");
                    assert_eq!(used(&holding), 0, "held for nobody");
                }
                Ok(whole) => {
                    check(&holding, &whole);
                    assert!(disk.writes() <= at, "a write failed, and nobody was told");
                    break;
                }
            }
            refused += 1;
            // Once there is room, all goes on.
            check(&holding, &hold(&holding, result(20_000)).await.unwrap());
        }
        assert!(refused >= 3, "{refused}");
    }

    #[tokio::test]
    async fn what_asks_is_not_held() {
        let holding = holding(memory(), HeldOptions::new());
        let asked =
            json!({"q": {"method": "elicitation/create", "params": {"x": "x".repeat(20_000)}}});
        let result = json!({"resultType": "input_required", "inputRequests": asked});
        let why = hold(&holding, Raw::Memory(result.to_string().into())).await.unwrap_err();
        assert_eq!(why, "it asks");
        assert_eq!(used(&holding), 0);
    }

    #[tokio::test]
    async fn what_is_over_the_quota_takes_none_of_it() {
        let holding = holding(memory(), HeldOptions::new().per_principal_bytes(100_000));
        let new = NewValue::new(crate::bound::TEXT);
        holding.held.put(&holding.owner, new, &[b'x'; 30_000], &mut rand::rng(), NOW).unwrap();
        let before = used(&holding);
        // Two of three parts have room.
        let why = hold(&holding, result(25_000)).await.unwrap_err();
        assert!(why.contains("at most 100000 bytes in all"), "{why}");
        assert_eq!(used(&holding), before);
        check(&holding, &hold(&holding, result(15_000)).await.unwrap());
    }

    /// Time that is told when somebody else wants it to be.
    #[derive(Debug)]
    struct Late(std::sync::Barrier);

    impl Clock for Late {
        fn now_ms(&self) -> u64 {
            static ASKED: AtomicU64 = AtomicU64::new(0);
            if ASKED.fetch_add(1, Ordering::Relaxed) == 0 {
                // It was asked for, and may be told.
                self.0.wait();
                self.0.wait();
            }
            NOW
        }
    }

    #[tokio::test]
    async fn what_nobody_waits_for_is_not_held() {
        let late = Arc::new(Late(std::sync::Barrier::new(2)));
        let clock = Arc::<Late>::clone(&late);
        let holding = Holding { clock, ..holding(memory(), HeldOptions::new()) };
        let caller = tokio::spawn({
            let holding = holding.clone();
            async move { hold(&holding, result(20_000)).await.map(drop) }
        });
        let meet = || {
            let late = Arc::<Late>::clone(&late);
            tokio::task::spawn_blocking(move || late.0.wait())
        };
        meet().await.unwrap();
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        meet().await.unwrap();
        loop {
            let tally = holding.held.tally(1_000, NOW).unwrap();
            if tally.taken_values == 3 && tally.values == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(used(&holding), 0);
    }

    #[tokio::test]
    async fn a_file_that_cannot_be_written_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("held");
        let kv = Arc::new(handback_store::MemoryStore::new());
        let holding = holding(kv, HeldOptions::new().folder(&inner));
        // Where the folder was, there is a file now.
        std::fs::remove_dir_all(&inner).unwrap();
        std::fs::write(&inner, "").unwrap();
        let large = || result(9 << 20);
        assert_eq!(
            hold(&holding, large()).await.unwrap_err(),
            "the call was made, but its result could not be held"
        );
        check(&holding, &hold(&holding, result(20_000)).await.unwrap());
        std::fs::remove_file(&inner).unwrap();
        std::fs::create_dir(&inner).unwrap();
        check(&holding, &hold(&holding, large()).await.unwrap());
    }
}
