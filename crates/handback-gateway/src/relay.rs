//! One question to an upstream, and what its client hears until the answer is there.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::session::{Beside, Session};
use crate::talk::{Talk, ToClient};
use crate::upstream::{Answer, Ask, DEAF_AFTER, HEARD_MAX, Heard, Line, LineError};
use crate::wishes::is_of_task;
use crate::words::{self, METHOD_NOT_FOUND, NOT_ASKED};

/// Asks, and passes on what comes before the answer.
pub(crate) async fn relayed(talk: Talk, line: Line, mut ask: Ask) -> Result<Answer, LineError> {
    let (sender, mut heard) = mpsc::channel(HEARD_MAX);
    ask.heard = Some(sender);
    ask.owner = Some(Arc::from(talk.caller.principal().binding()));
    let listens = ask.subscription.is_some();
    let mut asked = std::pin::pin!(line.ask(ask));
    let mut ear = Ear::of(&talk);
    // What becomes of a task is told to who follows it, under the id that it knows.
    let is_for_client = |heard: &Heard| {
        let is_task = matches!(heard, Heard::Notification { method, .. } if is_of_task(method));
        listens || talk.session.is_some() || !is_task
    };
    let answered = loop {
        tokio::select! {
            biased;
            answered = &mut asked => break answered,
            Some(heard) = heard.recv() => if is_for_client(&heard) {
                ear.pass_on(&talk, &line, heard).await;
            },
        }
        // Who listens believes to hear everything.
        if listens && ear.is_deaf {
            return Err(LineError::Lost);
        }
    };
    // What came before it goes before it; but a client that is slow to take that gets its answer.
    let until = Instant::now() + DEAF_AFTER;
    while let Ok(heard) = heard.try_recv() {
        ear.is_deaf |= Instant::now() >= until;
        if is_for_client(&heard) {
            ear.pass_on(&talk, &line, heard).await;
        }
    }
    answered
}

/// What a client hears beside one question.
pub(crate) struct Ear {
    beside: Option<Beside>,
    /// It takes nothing any more.
    pub(crate) is_deaf: bool,
}

impl Ear {
    pub(crate) fn of(talk: &Talk) -> Self {
        Self { beside: talk.session.as_ref().map(Session::beside_question), is_deaf: false }
    }

    /// Tells the client; one that takes nothing for a while is deaf from then on.
    pub(crate) async fn tell(&mut self, talk: &Talk, told: ToClient) {
        if self.is_deaf {
            return;
        }
        let asked = match &told {
            ToClient::Request { id, .. } => Some(*id),
            ToClient::Notification { .. } => None,
        };
        // The client may be gone; the call goes on if it is to.
        let sent = tokio::time::timeout(DEAF_AFTER, talk.out.send(told)).await;
        self.is_deaf = !matches!(sent, Ok(Ok(())));
        if let (true, Some(id), Some(session)) = (self.is_deaf, asked, &talk.session) {
            session.answer(id, Err(words::error(METHOD_NOT_FOUND, NOT_ASKED, None))).await;
        }
    }

    async fn pass_on(&mut self, talk: &Talk, line: &Line, heard: Heard) {
        let told = match (&talk.session, heard) {
            (_, Heard::Request { id, .. }) if self.is_deaf => Err((line.clone(), id)),
            (Some(session), heard) => session.to_client(line, heard),
            (None, Heard::Notification { method, params }) => {
                Ok(Some(ToClient::Notification { method, params }))
            }
            (None, Heard::Request { id, .. }) => Err((line.clone(), id)),
        };
        match told {
            Ok(None) => {}
            Ok(Some(told)) => {
                self.beside.iter_mut().for_each(|beside| beside.told(&told));
                self.tell(talk, told).await;
            }
            Err((line, id)) => {
                let error = words::error(METHOD_NOT_FOUND, NOT_ASKED, None);
                let _ = line.answer(id, Err(error)).await;
            }
        }
    }
}
