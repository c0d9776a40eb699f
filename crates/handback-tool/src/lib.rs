//! Tools, and the one way in which every call of them is made.
//!
//! A [`Tool`] returns plain positions and plain state. The [`Pipeline`] opens what came back, checks
//! it, makes the call once, and seals what goes out, for every surface alike:
//!
//! ```text
//! identify caller → find and authorise → limits → open continuation → check arguments
//! → reserve → call → commit → bound the result → seal the next continuation → answer
//! ```
//!
//! A tool author never sees a key, and cannot forget a check.

pub mod audit;
mod clock;
mod context;
mod continuation;
mod credential;
mod definition;
mod duplex;
mod flight;
pub mod gate;
mod input;
mod limits;
pub mod metrics;
mod outcome;
mod pipeline;
mod question;
mod record;
mod recorded;
mod refusals;
mod registry;
mod relay;
mod request;
mod revoked;
mod share;
mod tool;
mod unfinished;

pub use clock::Clock;
pub use context::{Abilities, CallContext, EVENTS_WAITING_MAX, Event, EventSink, Round};
pub use credential::{Again, Credential};
pub use definition::{DEFAULT_TIME_LIMIT, Definition, Kind, MAX_NAME_CHARS, TaskMode};
pub use duplex::{CHUNKS_WAITING_MAX, Chunks, DuplexEnds};
pub use gate::Gate;
pub use handback_store::journal::ToolClass;
pub use input::{Answers, InputRequest, Inputs, MAX_INPUTS};
pub use limits::{IN_FLIGHT_MAX, LISTENERS_MAX, QUESTIONS_MAX, Rate};
pub use metrics::Metrics;
pub use outcome::{Content, Outcome, Position, ToolError, ToolResult};
pub use pipeline::{CallHeld, CallJournal, MAX_RESULT_BYTES, Pipeline, PipelineParts};
pub use question::{LetIn, QuestionKind};
pub use refusals::{LimitedRefusals, RefusalRate};
pub use registry::{
    MAX_ARGUMENTS_DEPTH, Registered, Registry, RegistryError, is_relayed_name, relayed_name,
    relayed_rest,
};
pub use relay::{
    Candidates, Claim, Entered, Failure, Made, OwnRecord, Passing, Relay, Relayed, RoundOpened,
};
pub use request::{
    Answer, Arguments, Continuation, MAX_KEY_CHARS, Refusal, Reply, Request, Surface,
};
pub use revoked::RevocationWatch;
pub use share::{Charge, Exhausted, Quota, Share};
pub use tool::Tool;
pub use unfinished::{
    INPUT_BYTES, InputBudget, InputRefusal, PROGRESS_BYTES, PROGRESS_TIME, UNCOUNTED_INPUT_BYTES,
    UnfinishedInput,
};
