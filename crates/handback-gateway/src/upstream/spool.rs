//! Messages as they arrive: in memory if they are small, else in a file.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use handback_wire::scan::{Envelope, Kind, Scan};

use super::aside::{Aside, Spooled};
use super::{LineError, Raw, Spec};

/// Bytes that are written to a file at once. Each time costs a change of threads.
const WRITTEN_BYTES: usize = 256 << 10;

/// Shorter parts are copied while they wait to be written. A part keeps all that was read together with
/// it, up to some hundred kilobytes, most of which may be no part of the message.
const COPIED_BYTES: usize = 32 << 10;

/// How large messages may be, and where large ones go.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) memory_bytes_max: usize,
    pub(super) answer_bytes_max: u64,
    pub(super) folder: PathBuf,
    /// What all files have together.
    pub(super) aside: Aside,
}

impl Limits {
    pub(super) fn of(spec: &Spec, aside: &Aside) -> Arc<Self> {
        let answer_bytes_max = usize::try_from(spec.answer_bytes_max).unwrap_or(usize::MAX);
        Arc::new(Self {
            // How much has arrived is looked at where it leaves memory.
            memory_bytes_max: spec.memory_bytes_max.min(answer_bytes_max),
            answer_bytes_max: spec.answer_bytes_max,
            folder: spec.spool.clone(),
            aside: aside.clone(),
        })
    }

    /// Of what is said in this process, which has bounds of its own.
    pub(super) fn in_process() -> Arc<Self> {
        let bytes = 512 << 20;
        let folder = std::env::temp_dir();
        let (memory_bytes_max, answer_bytes_max) = (bytes, bytes as u64);
        Arc::new(Self { memory_bytes_max, answer_bytes_max, folder, aside: Aside::default() })
    }
}

/// All bytes of a message.
#[derive(Debug)]
pub(super) enum Whole {
    /// In memory, not yet read.
    Memory(Bytes),
    /// In a file, read on its way there.
    File(Arc<Spooled>, Envelope),
    /// Not kept, but read.
    Discarded(Envelope),
    /// Read, but it could not be written to its file, which was found out at its end.
    Unwritten(Envelope),
    /// No message: it was found out on the way to the file.
    Malformed,
}

/// Gathers the bytes of a message.
#[derive(Debug)]
pub(super) struct Gather {
    limits: Arc<Limits>,
    /// How much has arrived.
    length: u64,
    /// How much there will be, if that is known and fits into memory.
    expected: usize,
    parts: Parts,
    /// Nothing is kept, and no limit holds.
    discards: bool,
}

#[derive(Debug)]
enum Parts {
    None,
    /// All of it arrived at once, so far.
    One(Bytes),
    Many(BytesMut),
    Large(Box<Large>),
}

impl Gather {
    pub(super) const fn new(limits: Arc<Limits>) -> Self {
        Self { limits, length: 0, expected: 0, parts: Parts::None, discards: false }
    }

    /// Says how long the message will be.
    pub(super) fn expect(&mut self, length: u64) -> Result<(), LineError> {
        if length > self.limits.answer_bytes_max {
            return Err(LineError::TooLarge);
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        self.expected = if length <= self.limits.memory_bytes_max { length } else { 0 };
        Ok(())
    }

    /// How much has arrived.
    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// Takes the next bytes.
    ///
    /// Fails if the message is larger than it may be, or cannot be set aside. Whoever goes on
    /// nevertheless calls [`Self::discard`] first.
    pub(super) async fn push(&mut self, part: Bytes) -> Result<(), LineError> {
        self.length += part.len() as u64;
        if self.length > self.limits.memory_bytes_max as u64 {
            return self.push_large(part).await;
        }
        self.parts = match std::mem::replace(&mut self.parts, Parts::None) {
            Parts::None => Parts::One(part),
            Parts::One(first) => {
                let room = self.expected.max(2 * (first.len() + part.len()));
                let mut all = BytesMut::with_capacity(room);
                all.extend_from_slice(&first);
                all.extend_from_slice(&part);
                Parts::Many(all)
            }
            Parts::Many(mut all) => {
                all.extend_from_slice(&part);
                Parts::Many(all)
            }
            large @ Parts::Large(_) => large,
        };
        Ok(())
    }

    /// All has arrived: what it is. The next message begins.
    pub(super) async fn finish(&mut self) -> Result<Whole, LineError> {
        self.length = 0;
        self.expected = 0;
        let discards = std::mem::take(&mut self.discards);
        match std::mem::replace(&mut self.parts, Parts::None) {
            Parts::None => Ok(Whole::Memory(Bytes::new())),
            Parts::One(all) => Ok(Whole::Memory(all)),
            Parts::Many(all) => Ok(Whole::Memory(all.freeze())),
            Parts::Large(mut large) => {
                large.write().await;
                large.finish(discards)
            }
        }
    }

    /// Looks at all that has arrived of a large message.
    pub(super) async fn look(&mut self) {
        if let Parts::Large(large) = &mut self.parts {
            large.write().await;
        }
    }

    /// The JSON of the id of a large message, once it is known.
    pub(super) fn id(&self) -> Option<&[u8]> {
        match &self.parts {
            Parts::Large(large) => large.sink.scan.as_ref()?.id(),
            _ => None,
        }
    }

    /// What a large message is, once that is known.
    pub(super) fn kind(&self) -> Option<Kind> {
        match &self.parts {
            Parts::Large(large) => large.sink.scan.as_ref()?.kind(),
            _ => None,
        }
    }

    /// Keeps nothing more of this message.
    pub(super) fn discard(&mut self) {
        self.discards = true;
        if let Parts::Large(large) = &mut self.parts {
            large.sink.file = None;
        }
    }

    #[cold]
    async fn push_large(&mut self, part: Bytes) -> Result<(), LineError> {
        let mut large = match std::mem::replace(&mut self.parts, Parts::None) {
            Parts::None => Box::new(Large::begin(&self.limits, Bytes::new()).await),
            Parts::One(first) => Box::new(Large::begin(&self.limits, first).await),
            Parts::Many(first) => Box::new(Large::begin(&self.limits, first.freeze()).await),
            Parts::Large(large) => large,
        };
        large.put(part).await;
        let is_too_large = self.length > self.limits.answer_bytes_max;
        if !self.discards && (is_too_large || large.sink.has_failed) {
            // What it is may decide about what becomes of it.
            large.write().await;
        }
        let has_failed = large.sink.has_failed;
        self.parts = Parts::Large(large);
        match self.discards {
            true => Ok(()),
            false if has_failed => Err(LineError::Disk),
            false if is_too_large => Err(LineError::TooLarge),
            false => Ok(()),
        }
    }
}

/// A message that does not fit into memory.
#[derive(Debug)]
struct Large {
    waiting: Vec<Bytes>,
    /// Short parts, which follow those that wait.
    copied: BytesMut,
    waiting_bytes: usize,
    sink: Sink,
}

impl Large {
    async fn begin(limits: &Arc<Limits>, first: Bytes) -> Self {
        let limits = Arc::clone(limits);
        let sink = blocking(move || match file_in(&limits.folder) {
            Ok(file) => {
                let file = Spooled::new(file, &limits.aside, limits.answer_bytes_max);
                let scan = Some(Scan::new());
                Sink { file: Some(file), scan, is_malformed: false, has_failed: false }
            }
            Err(why) => {
                failed(&why);
                let scan = Some(Scan::new());
                Sink { file: None, scan, is_malformed: false, has_failed: true }
            }
        });
        let (waiting_bytes, copied) = (first.len(), BytesMut::new());
        Self { waiting: vec![first], copied, waiting_bytes, sink: sink.await.unwrap_or_default() }
    }

    async fn put(&mut self, part: Bytes) {
        self.waiting_bytes += part.len();
        if part.len() < COPIED_BYTES {
            self.copied.extend_from_slice(&part);
        } else {
            self.flush_copied();
            self.waiting.push(part);
        }
        if self.waiting_bytes >= WRITTEN_BYTES {
            self.write().await;
        }
    }

    /// What was copied waits like the rest.
    fn flush_copied(&mut self) {
        if !self.copied.is_empty() {
            self.waiting.push(self.copied.split().freeze());
        }
    }

    async fn write(&mut self) {
        self.flush_copied();
        if self.waiting.is_empty() {
            return;
        }
        let parts = std::mem::take(&mut self.waiting);
        self.waiting_bytes = 0;
        let mut sink = std::mem::take(&mut self.sink);
        let written = blocking(move || {
            for part in &parts {
                sink.take(part);
            }
            sink
        });
        self.sink = written.await.unwrap_or_default();
    }

    fn finish(self, discards: bool) -> Result<Whole, LineError> {
        let Sink { file, scan, is_malformed, has_failed } = self.sink;
        match (file, scan.filter(|_| !is_malformed).map(Scan::finish)) {
            (Some(file), Some(Ok(envelope))) => Ok(Whole::File(Arc::new(file), envelope)),
            (None, Some(Ok(envelope))) if discards => Ok(Whole::Discarded(envelope)),
            // Whose it is says who is to know.
            (None, Some(Ok(envelope))) => Ok(Whole::Unwritten(envelope)),
            (_, None) if has_failed && !discards => Err(LineError::Disk),
            _ => Ok(Whole::Malformed),
        }
    }
}

/// A value that is written once more because a part of it changes.
#[derive(Debug)]
pub(super) struct Rewritten {
    file: Spooled,
    size_bytes: u64,
}

impl Rewritten {
    /// An empty one. Blocks, as all of its methods do.
    pub(super) fn begin(limits: &Limits) -> Result<Self, LineError> {
        let file = file_in(&limits.folder).map_err(|_| LineError::Disk)?;
        let file = Spooled::new(file, &limits.aside, limits.answer_bytes_max);
        Ok(Self { file, size_bytes: 0 })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), LineError> {
        self.size_bytes += bytes.len() as u64;
        self.file.write(bytes).map_err(|_| LineError::Disk)
    }

    pub(super) fn finish(self) -> Raw {
        let range = 0..self.size_bytes;
        Raw::File { file: Arc::new(self.file), range, more: Bytes::new() }
    }
}

/// A file without a name. Its folder is made when the first one is, and is nobody else's.
fn file_in(folder: &Path) -> io::Result<File> {
    match tempfile::tempfile_in(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            tempfile::tempfile_in(folder)
        }
        made => made,
    }
}

/// Where the bytes of a large message go.
#[derive(Debug)]
struct Sink {
    /// Without it, the bytes are only looked at.
    file: Option<Spooled>,
    /// Without it, nothing is known of them.
    scan: Option<Scan>,
    /// They are no message, but what is known of them is known.
    is_malformed: bool,
    /// They could not be written.
    has_failed: bool,
}

/// One that nothing goes to.
impl Default for Sink {
    fn default() -> Self {
        Self { file: None, scan: None, is_malformed: false, has_failed: true }
    }
}

impl Sink {
    fn take(&mut self, part: &[u8]) {
        if self.is_malformed {
            return;
        }
        if self.scan.as_mut().is_some_and(|scan| scan.push(part).is_err()) {
            // What is no message is not kept.
            (self.is_malformed, self.file) = (true, None);
            return;
        }
        if let Some(Err(why)) = self.file.as_mut().map(|file| file.write(part)) {
            failed(&why);
            (self.file, self.has_failed) = (None, true);
        }
    }
}

/// Does something with files where that is allowed. Nothing comes back only if the runtime ends.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

fn failed(why: &io::Error) {
    tracing::error!(%why, "failed to set a large answer aside");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limits(memory_bytes_max: usize, answer_bytes_max: u64) -> Arc<Limits> {
        let (folder, aside) = (std::env::temp_dir(), Aside::default());
        Arc::new(Limits { memory_bytes_max, answer_bytes_max, folder, aside })
    }

    fn message(result: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#)
    }

    /// The bytes of a message that is whole.
    fn bytes(whole: Whole) -> Vec<u8> {
        match whole {
            Whole::Memory(bytes) => bytes.to_vec(),
            Whole::File(file, _) => {
                let mut bytes = vec![0; usize::try_from(file.size_bytes()).unwrap()];
                file.read_exact_at(&mut bytes, 0).unwrap();
                bytes
            }
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn what_arrives_at_once_is_not_copied() {
        let mut gather = Gather::new(limits(100, 200));
        let part = Bytes::from(message("1"));
        gather.push(part.clone()).await.unwrap();
        let Whole::Memory(whole) = gather.finish().await.unwrap() else { panic!("in memory") };
        assert_eq!(whole.as_ptr(), part.as_ptr());
    }

    #[tokio::test]
    async fn what_is_larger_than_memory_is_in_a_file() {
        let mut gather = Gather::new(limits(100, 10_000));
        let all = message(&format!("[{:?},1.50]", "x".repeat(5000)));
        for part in all.as_bytes().chunks(7) {
            gather.push(Bytes::copy_from_slice(part)).await.unwrap();
        }
        let whole = gather.finish().await.unwrap();
        let Whole::File(_, envelope) = &whole else { panic!("in a file") };
        let range = envelope.result().unwrap();
        let place = |at: u64| usize::try_from(at).unwrap();
        let result = &all[place(range.start)..place(range.end)];
        assert!(result.starts_with("[\"xxx") && result.ends_with(",1.50]"));
        assert_eq!(bytes(whole), all.as_bytes());
        // And the next one is a small one again.
        gather.push(Bytes::from_static(b"{}")).await.unwrap();
        assert!(matches!(gather.finish().await.unwrap(), Whole::Memory(_)));
    }

    #[tokio::test]
    async fn what_is_too_large_is_stopped() {
        let mut gather = Gather::new(limits(100, 1000));
        assert_eq!(gather.expect(1001), Err(LineError::TooLarge));
        let all = message(&format!("{:?}", "x".repeat(5000)));
        let mut stopped_at = 0;
        for part in all.as_bytes().chunks(10) {
            if let Err(why) = gather.push(Bytes::copy_from_slice(part)).await {
                assert_eq!(why, LineError::TooLarge);
                assert_eq!(stopped_at, 0, "once discarded, nothing is stopped");
                stopped_at = gather.length();
                gather.discard();
            }
        }
        assert_eq!(stopped_at, 1010);
        let Whole::Discarded(envelope) = gather.finish().await.unwrap() else { panic!("not kept") };
        assert!(envelope.message().is_ok());
    }

    #[tokio::test]
    async fn what_cannot_be_set_aside_is_told_of() {
        let folder = "/dev/null/folder".into();
        let aside = Aside::default();
        let limits = Limits { memory_bytes_max: 10, answer_bytes_max: 1000, folder, aside };
        let mut gather = Gather::new(Arc::new(limits));
        let all = Bytes::from(message("[1,2,3]"));
        assert_eq!(gather.push(all.clone()).await, Err(LineError::Disk));
        assert!(matches!(gather.finish().await, Ok(Whole::Unwritten(_))));
        gather.push(all).await.unwrap_err();
        gather.discard();
        assert!(matches!(gather.finish().await, Ok(Whole::Discarded(_))));
    }

    #[tokio::test]
    async fn what_cannot_be_written_at_its_end_is_known_nevertheless() {
        let (folder, aside) = (std::env::temp_dir(), Aside::full());
        let limits = Limits { memory_bytes_max: 10, answer_bytes_max: 1000, folder, aside };
        let mut gather = Gather::new(Arc::new(limits));
        // So little is written when all of it is there.
        let all = message("[1,2,3]");
        gather.push(Bytes::from(all.clone())).await.unwrap();
        let Whole::Unwritten(envelope) = gather.finish().await.unwrap() else { panic!("written") };
        assert!(envelope.message().is_ok());
        // What is no message is none, whatever the disk says.
        let (cut, _) = all.split_at(all.len() - 1);
        gather.push(Bytes::copy_from_slice(cut.as_bytes())).await.unwrap();
        assert!(matches!(gather.finish().await, Ok(Whole::Malformed)));
    }

    proptest! {
        #[test]
        fn however_it_is_cut_it_is_whole(
            text in "[a-z\\\\\"é]{0,300}",
            sizes in prop::collection::vec(1..50_usize, 1..20),
            memory in 1..400_usize,
        ) {
            let all = message(&serde_json::Value::from(text).to_string());
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let whole = runtime.block_on(async {
                let mut gather = Gather::new(limits(memory, 10_000));
                let (mut rest, mut sizes) = (all.as_bytes(), sizes.iter().cycle());
                while !rest.is_empty() {
                    let (part, after) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                    gather.push(Bytes::copy_from_slice(part)).await.unwrap();
                    rest = after;
                }
                gather.finish().await.unwrap()
            });
            let is_small = all.len() <= memory;
            prop_assert_eq!(matches!(whole, Whole::Memory(_)), is_small);
            prop_assert_eq!(bytes(whole), all.as_bytes());
        }
    }
}
