//! What one caller, or all of them, can take of the server.

use std::time::Duration;

use handback_stream::StreamQuotas;
use handback_tool::{INPUT_BYTES, MAX_RESULT_BYTES, Rate, RefusalRate, Share};

/// Limits of a server. [`Limits::default`] is what suits most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "written as a literal with `..Default::default()`")]
pub struct Limits {
    /// Bytes of the body of a request.
    pub body_bytes: usize,
    /// Bytes of the headers of a request.
    pub header_bytes: usize,
    /// Connections at a time, if the system allows so many files.
    pub connections: usize,
    /// The part of each limit for all callers that one identified caller may use.
    pub caller_share: Share,
    /// Bytes of requests and frames of all callers that have begun to arrive and are not complete.
    pub input_bytes: u64,
    /// WebSocket connections of all callers.
    pub websockets: usize,
    /// Event streams of all callers.
    pub event_streams: usize,
    /// Streams of all callers.
    pub streams: u64,
    /// Stored bytes of the streams of all callers.
    pub stream_bytes: u64,
    /// Sessions of MCP clients before 2026-07-28, of all callers.
    pub sessions: usize,
    /// Programs of upstreams that are started for single callers, of all callers.
    pub programs: usize,
    /// Refused calls of all callers per second that the audit has lines of.
    pub audit_refusals: u32,
    /// Bytes of a file of the audit, before the next one is begun.
    pub audit_file_bytes: u64,
    /// Full files of the audit that are kept.
    pub audit_files: u32,
    /// Subscriptions of streams.
    pub subscriptions: u64,
    /// Bytes of subscriptions, with the paths of the streams that they follow.
    pub subscription_bytes: u64,
    /// Calls of tools that one caller may have in flight.
    pub calls_per_caller: usize,
    /// How fast one caller may call tools.
    pub call_rate: Rate,
    /// How long a call of a tool may take.
    pub call_time: Duration,
    /// How deep JSON may be nested.
    pub json_depth: usize,
    /// Bytes of a result of a tool. What is larger is stopped, and recorded as done and too large.
    pub result_bytes: usize,
    /// Bytes that are held for one caller.
    pub held_bytes_per_caller: u64,
    /// How long something is held without being used.
    pub held_idle: Duration,
    /// How long something is held at most.
    pub held_longest: Duration,
}

impl Limits {
    /// The same limits, of which one caller may use all: there is only one caller.
    pub(crate) fn of_one_caller(self) -> Self {
        Self { caller_share: Share::WHOLE, ..self }
    }

    /// The quotas of streams.
    pub(crate) fn stream_quotas(&self) -> StreamQuotas {
        StreamQuotas {
            streams: self.streams,
            streams_per_owner: self.caller_share.of(self.streams),
            bytes: self.stream_bytes,
            bytes_per_owner: self.caller_share.of(self.stream_bytes),
        }
    }

    /// Bytes of a body: room for a large document.
    pub const BODY_BYTES: usize = 4 << 20;
    /// Bytes of headers: many times what ours have together, and the longest access token.
    pub const HEADER_BYTES: usize = 16 << 10;
    /// Connections: more than one machine serves well.
    pub const CONNECTIONS: usize = 10_000;
    /// WebSocket connections: each has some tens of kilobytes of buffers.
    pub const WEBSOCKETS: usize = handback_surface::duplex::CONNECTIONS_MAX as usize;
    /// Event streams: each is woken by every change of what it shows.
    pub const EVENT_STREAMS: usize = 4_096;
    /// Streams: about 2 GB of memory, since each has some kilobytes.
    pub const STREAMS: u64 = 800_000;
    /// Stored bytes of streams, 64 GiB: what a small machine has beside its system.
    pub const STREAM_BYTES: u64 = 64 << 30;
    /// Sessions: 100 for each of eight callers.
    pub const SESSIONS: usize = 800;
    /// Programs: 32 for each of eight callers. One has about 50 MB of memory.
    pub const PROGRAMS: usize = 256;
    /// Bytes of a file of the audit: about 200,000 calls.
    pub const AUDIT_FILE_BYTES: u64 = 64 << 20;
    /// Full files of the audit: 512 MiB.
    pub const AUDIT_FILES: u32 = 8;
    /// Subscriptions: an eighth is a worker for each of a thousand things.
    pub const SUBSCRIPTIONS: u64 = 10_000;
    /// Bytes of subscriptions: a quarter of a million links, in the memory of a small machine.
    pub const SUBSCRIPTION_BYTES: u64 = 128 << 20;
    /// Calls in flight: an agent that works on many things at once.
    pub const CALLS_PER_CALLER: usize = 64;
    /// How long a call may take: longer work has a task of its own.
    pub const CALL_TIME: Duration = Duration::from_secs(120);
    /// How deep JSON may be nested: real documents have a third of it.
    pub const JSON_DEPTH: usize = 32;
    /// Bytes of a result: more than anything that a model can look at, and a second of a disk's time.
    pub const RESULT_BYTES: usize = MAX_RESULT_BYTES;
    /// Bytes that are held for one caller: the largest result, or many that are not so large.
    pub const HELD_BYTES_PER_CALLER: u64 = 256 << 20;
    /// How long something is held without being used: a conversation with a pause.
    pub const HELD_IDLE: Duration = Duration::from_secs(60 * 60);
    /// How long something is held at most: a day's work.
    pub const HELD_LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: Self::BODY_BYTES,
            header_bytes: Self::HEADER_BYTES,
            connections: Self::CONNECTIONS,
            caller_share: Share::default(),
            input_bytes: INPUT_BYTES,
            websockets: Self::WEBSOCKETS,
            event_streams: Self::EVENT_STREAMS,
            streams: Self::STREAMS,
            stream_bytes: Self::STREAM_BYTES,
            sessions: Self::SESSIONS,
            programs: Self::PROGRAMS,
            audit_refusals: RefusalRate::PER_SECOND,
            audit_file_bytes: Self::AUDIT_FILE_BYTES,
            audit_files: Self::AUDIT_FILES,
            subscriptions: Self::SUBSCRIPTIONS,
            subscription_bytes: Self::SUBSCRIPTION_BYTES,
            calls_per_caller: Self::CALLS_PER_CALLER,
            call_rate: Rate { per_second: Rate::PER_SECOND, burst: Rate::BURST },
            call_time: Self::CALL_TIME,
            json_depth: Self::JSON_DEPTH,
            result_bytes: Self::RESULT_BYTES,
            held_bytes_per_caller: Self::HELD_BYTES_PER_CALLER,
            held_idle: Self::HELD_IDLE,
            held_longest: Self::HELD_LONGEST,
        }
    }
}
