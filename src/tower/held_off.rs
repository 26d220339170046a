//! What a layer asks besides its limiter: hold-off and ceiling, asked before a request goes out, told
//! what came back.

use std::borrow::Cow;

use http::request::Parts;

use super::layer::Settings;
use super::reading::Reading;
use crate::classify::Verdict;
use crate::client::{Ask, Attempt, Destination, Listeners};
use crate::deadline::Deadline;
use crate::limiter::{Admit, Permit};
use crate::outcome::Outcome;
use crate::rejection::{RejectReason, Rejected};

pub(super) type UnitsBy = dyn Fn(&Parts) -> u32 + Send + Sync;
pub(super) type KeyBy = dyn for<'a> Fn(&'a Parts) -> Cow<'a, str> + Send + Sync;

/// Tells hold-off and ceiling what came back of a request.
#[derive(Debug)]
pub(super) struct Watch(Listeners);

impl Watch {
    /// Tells what the head tells; itself again when there is more to come. A long stream that began
    /// well need not end for that to be good news.
    pub(super) fn see_head(mut self, reading: &mut Reading) -> Option<Self> {
        if !reading.is_open() {
            self.see(&reading.end(None));
            return None;
        }
        if reading.so_far() == Outcome::Success {
            self.see(&Verdict::of(Outcome::Success));
        }
        Some(self)
    }

    pub(super) fn see(&mut self, verdict: &Verdict<'_>) {
        self.0.tell(verdict);
    }
}

/// A request that may go out.
pub(super) struct Entry {
    pub(super) permit: Permit,
    /// There when the hold-off has been asked already.
    pub(super) watch: Option<Watch>,
}

impl From<Permit> for Entry {
    fn from(permit: Permit) -> Self {
        Self { permit, watch: None }
    }
}

impl From<Attempt> for Entry {
    fn from(attempt: Attempt) -> Self {
        let (permit, listeners) = attempt.into_parts();
        Self { permit, watch: Some(Watch(listeners)) }
    }
}

impl<E> Settings<E> {
    /// Waits for all that the request has to wait for.
    pub(super) async fn enter(&self, request: &Parts) -> Result<Entry, Rejected> {
        match &self.destination {
            Some(destination) => {
                let key = self.key(request);
                destination.begin(self.ask(request, &key)).await.map(Entry::from)
            }
            None => self.limiter.acquire(self.admit(request)).await.map(Entry::from),
        }
    }

    /// Enters a destination now or not at all.
    pub(super) fn try_enter(&self, destination: &Destination, request: &Parts) -> Result<Entry, Rejected> {
        let key = self.key(request);
        destination.try_begin(self.ask(request, &key)).map(Entry::from)
    }

    fn ask<'a>(&self, request: &'a Parts, key: &'a str) -> Ask<'a> {
        let ask = Ask::new().admit(self.admit(request)).key(key);
        let ask = self.units_by.as_ref().map_or(ask, |by| ask.units(by(request)));
        request.extensions.get::<Deadline>().map_or(ask, |deadline| ask.deadline(deadline.moment()))
    }

    /// Refuses what would be held off: to be asked before there is a permit.
    pub(super) fn look(&self, request: &Parts, admit: &Admit<'_>) -> Result<(), Rejected> {
        let Some(hold_off) = &self.hold_off else { return Ok(()) };
        match hold_off.remaining(&self.key(request)) {
            Some(left) => Err(self.limiter.refuse(admit, RejectReason::HoldOff, left)),
            None => Ok(()),
        }
    }

    /// Passes, or refuses: to be asked right before the request goes out.
    pub(super) fn pass(&self, request: &Parts) -> Result<Option<Watch>, Rejected> {
        let Some(hold_off) = &self.hold_off else { return Ok(None) };
        let key = self.key(request);
        match hold_off.check(&key) {
            Ok(()) => Ok(Some(Watch(Listeners::new(None, Some((hold_off.clone(), key.into())))))),
            Err(held) => {
                let admit = self.admit(request);
                Err(self.limiter.refuse(&admit, RejectReason::HoldOff, held.retry_after))
            }
        }
    }

    fn key<'a>(&self, request: &'a Parts) -> Cow<'a, str> {
        self.key_by.as_ref().map_or(Cow::Borrowed(""), |by| by(request))
    }
}
