//! Clients of the older era, who have a connection, and so has each upstream for them.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::join_all;
use handback_identity::Caller;
use handback_mcp::Era;
use handback_mcp::wire::{Id, Object};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::catalog::Catalogs;
use crate::gateway::Gateway;
use crate::slot::Slot;
use crate::talk::{Question, Talk, ToClient, WAITING_MAX};
use crate::upstream::{Answer, Heard, Line, LineError, Opening, Raw};
use crate::words::{self, INTERNAL_ERROR};

/// Questions of upstreams that one client has not answered yet, at most.
const ASKED_MAX: usize = 256;

/// Who asks the client something.
enum Asker {
    Upstream(Line, Id<'static>),
    Gateway(oneshot::Sender<Result<Bytes, Bytes>>),
}

/// A client of the older era.
pub struct Session {
    gateway: Gateway,
    caller: Caller,
    client: Option<String>,
    /// What the client said of itself.
    greeting: Value,
    /// One for each upstream, in their order, and the last one for our own tools.
    slots: Vec<Arc<Slot>>,
    pub(crate) catalogs: Catalogs,
    /// Where what belongs to no question goes.
    out: mpsc::Sender<ToClient>,
    asked: Mutex<HashMap<u64, Asker>>,
    next: AtomicU64,
    /// What is under way, by the JSON of its id.
    under_way: Mutex<HashMap<String, CancellationToken>>,
}

impl Session {
    /// Begins a session: every upstream is greeted with what the client says of itself.
    ///
    /// # Errors
    ///
    /// The answer that says why there is none.
    pub async fn begin(
        gateway: &Gateway,
        caller: Caller,
        initialize: &RawValue,
        out: mpsc::Sender<ToClient>,
    ) -> Result<(Arc<Self>, Answer), Answer> {
        let client = Object::read(initialize).ok().and_then(|params| {
            let info: Value = serde_json::from_str(params.get("clientInfo")?).ok()?;
            info.get("name").and_then(Value::as_str).map(str::to_owned)
        });
        let opening =
            Opening::Legacy { initialize: Bytes::copy_from_slice(initialize.get().as_bytes()) };
        let mut slots = Vec::new();
        let mut heard = Vec::new();
        for source in gateway.sources(&caller) {
            let (sender, receiver) = mpsc::channel(WAITING_MAX);
            slots.push(Arc::new(Slot::new(source, opening.clone(), sender)));
            heard.push(receiver);
        }
        let opened = slots.iter().enumerate().map(|(which, slot)| async move {
            match slot.line().await {
                Ok(line) => Ok(line.hello().cloned().unwrap_or_default()),
                Err(LineError::Era) => {
                    let greeted = gateway.welcome_by_newer(which, initialize.get().as_bytes());
                    greeted.await.ok_or(LineError::Era)
                }
                Err(error) => Err(error),
            }
        });
        let opened = join_all(opened).await;
        let hellos = gateway.welcome_legacy(&caller, &opened)?;
        let greeting = serde_json::from_str(initialize.get()).unwrap_or_default();
        let session = Arc::new(Self {
            gateway: gateway.clone(),
            caller,
            client,
            greeting,
            slots,
            catalogs: Catalogs::default(),
            out,
            asked: Mutex::default(),
            next: AtomicU64::new(1),
            under_way: Mutex::default(),
        });
        for (which, receiver) in heard.into_iter().enumerate() {
            tokio::spawn(listen(Arc::downgrade(&session), which, receiver));
        }
        Ok((session, Answer::Result(Raw::Memory(hellos))))
    }

    /// Answers a question; what comes before the answer goes to `out`.
    pub async fn ask(
        self: &Arc<Self>,
        question: Question<'_>,
        out: mpsc::Sender<ToClient>,
    ) -> Answer {
        let talk = Talk {
            caller: self.caller.clone(),
            era: Era::Legacy,
            out,
            session: Some(Arc::clone(self)),
        };
        let id = question.id.to_owned();
        let cancel = CancellationToken::new();
        lock(&self.under_way).insert(id.clone(), cancel.clone());
        let listed = Listed { session: Arc::clone(self), id };
        let answer = self.gateway.ask(&talk, question, cancel).await;
        drop(listed);
        answer
    }

    /// The client says something that is not answered.
    pub async fn tell(&self, method: &str, params: Option<Bytes>) {
        match method {
            // Every upstream was told when it was greeted.
            "notifications/initialized" => {}
            "notifications/cancelled" => self.cancel(params.as_deref()),
            _ => {
                for slot in &self.slots {
                    if let Ok(line) = slot.line().await {
                        // It is gone, or it is told.
                        let _ = line.tell(method, params.clone()).await;
                    }
                }
            }
        }
    }

    /// The client answers a question of an upstream.
    pub async fn answer(&self, id: u64, with: Result<Bytes, Bytes>) {
        let asked = lock(&self.asked).remove(&id);
        match asked {
            // It is gone, or it is told.
            Some(Asker::Upstream(line, id)) => drop(line.answer(id, with).await),
            Some(Asker::Gateway(sender)) => drop(sender.send(with)),
            None => {}
        }
    }

    fn cancel(&self, params: Option<&[u8]>) {
        let id = params.and_then(|params| {
            let raw: &RawValue = serde_json::from_slice(params).ok()?;
            Object::read(raw).ok()?.get("requestId").map(str::to_owned)
        });
        let cancel = id.and_then(|id| lock(&self.under_way).get(&id).cloned());
        if let Some(cancel) = cancel {
            cancel.cancel();
        }
    }

    pub(crate) async fn line(&self, which: usize) -> Result<Line, LineError> {
        match self.slots.get(which) {
            Some(slot) => match slot.line().await {
                Err(LineError::Era) => self.gateway.modern_line(which).await,
                line => line,
            },
            None => Err(LineError::Unreachable("there is none".to_owned())),
        }
    }

    /// What a question of the newer era says of the client.
    pub(crate) fn meta(&self, revision: &str) -> Map<String, Value> {
        let said = |name: &str| self.greeting.get(name).cloned().unwrap_or_else(|| json!({}));
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": revision,
            "io.modelcontextprotocol/clientInfo": said("clientInfo"),
            "io.modelcontextprotocol/clientCapabilities": said("capabilities"),
        });
        match meta {
            Value::Object(meta) => meta,
            _ => Map::new(),
        }
    }

    /// Asks the client something; nothing, if it cannot be asked.
    pub(crate) async fn ask_client(
        &self,
        out: &mpsc::Sender<ToClient>,
        method: &str,
        params: Option<Bytes>,
    ) -> Option<Result<Bytes, Bytes>> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut asked = lock(&self.asked);
            if asked.len() >= ASKED_MAX {
                return None;
            }
            let id = self.next.fetch_add(1, Ordering::Relaxed);
            asked.insert(id, Asker::Gateway(sender));
            id
        };
        out.send(ToClient::Request { id, method: method.to_owned(), params }).await.ok()?;
        answer.await.ok()
    }

    /// The name that the client gives itself.
    pub(crate) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// What an upstream says, on its way to the client.
    pub(crate) fn to_client(
        &self,
        line: &Line,
        heard: Heard,
    ) -> Result<ToClient, (Line, Id<'static>)> {
        match heard {
            Heard::Notification { method, params } => Ok(ToClient::Notification { method, params }),
            Heard::Request { id, method, params } => {
                let mut asked = lock(&self.asked);
                if asked.len() >= ASKED_MAX {
                    return Err((line.clone(), id));
                }
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                asked.insert(number, Asker::Upstream(line.clone(), id));
                Ok(ToClient::Request { id: number, method, params })
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

/// A question among those that are under way, for as long as it is.
struct Listed {
    session: Arc<Session>,
    id: String,
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.session.under_way).remove(&self.id);
    }
}

/// Passes on what belongs to no question, for as long as there is a session.
async fn listen(session: std::sync::Weak<Session>, which: usize, mut heard: mpsc::Receiver<Heard>) {
    while let Some(heard) = heard.recv().await {
        let Some(session) = session.upgrade() else { return };
        if let Heard::Notification { method, .. } = &heard
            && method.ends_with("/list_changed")
        {
            session.catalogs.forget();
        }
        let Ok(line) = session.line(which).await else { continue };
        let told = session.to_client(&line, heard);
        let out = session.out.clone();
        drop(session);
        match told {
            Ok(told) => {
                if out.send(told).await.is_err() {
                    return;
                }
            }
            Err((line, id)) => {
                let busy = words::error(INTERNAL_ERROR, "too many questions", Some(json!({})));
                let _ = line.answer(id, Err(busy)).await;
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
