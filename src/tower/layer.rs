//! The layer: the limiter and how requests and answers are read. Shared by every clone.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http::request::Parts;
use tower_layer::Layer;

use super::deadline::DeadlineSource;
use super::errors::{BoxErrors, KeepErrors};
use super::held_off::{KeyBy, UnitsBy};
use super::reading::DEFAULT_PEEK;
use super::rejection::{Refusal, RefusalBody, RefusalStatus, Side};
use super::service::Limit;
use crate::classify::Classifier;
use crate::client::Destination;
use crate::clock;
use crate::deadline::Deadline;
use crate::hold_off::HoldOff;
use crate::limiter::{Admit, Limiter};
use crate::rejection::Rejected;

/// When a permit ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PermitEnd {
    /// At the response head: bodies are not counted.
    Head,
    /// At the first byte of the body.
    FirstByte,
    /// At the end of the body, with its trailers, or when it is dropped.
    #[default]
    BodyEnd,
}

/// When the latency is sampled. A permit that ends earlier is sampled at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleAt {
    /// At the response head, so that long streams do not look like slow answers.
    #[default]
    Head,
    /// When the permit ends. For calls whose time is in the body, and for gRPC services whose
    /// failures stand in the trailers after a head that looked well.
    BodyEnd,
}

type AdmitBy = dyn for<'a> Fn(&'a Parts) -> Admit<'a> + Send + Sync;
type ExemptBy = dyn Fn(&Parts) -> bool + Send + Sync;

/// What all services of one layer share.
#[derive(Clone)]
pub(super) struct Settings<E> {
    pub(super) limiter: Limiter,
    pub(super) classifier: Classifier,
    pub(super) permit_end: PermitEnd,
    pub(super) sample_at: SampleAt,
    pub(super) waits: bool,
    pub(super) deadlines: DeadlineSource,
    pub(super) refusal: Refusal,
    pub(super) errors: E,
    pub(super) peek: usize,
    pub(super) hold_off: Option<HoldOff>,
    pub(super) key_by: Option<Arc<KeyBy>>,
    /// Asked in place of limiter and hold-off.
    pub(super) destination: Option<Destination>,
    pub(super) units_by: Option<Arc<UnitsBy>>,
    admit_by: Option<Arc<AdmitBy>>,
    exempt_by: Option<Arc<ExemptBy>>,
}

impl<E> Settings<E> {
    pub(super) fn admit<'a>(&self, request: &'a Parts) -> Admit<'a> {
        let admit = self.admit_by.as_ref().map_or_else(Admit::new, |by| by(request));
        match request.extensions.get::<Deadline>() {
            Some(deadline) => admit.deadline_at_most(deadline.moment()),
            None => admit,
        }
    }

    /// Fixes the request's deadline, if it has one.
    pub(super) fn arrived(&self, request: &mut Parts) {
        if let Some(deadline) = self.deadlines.of(request) {
            request.extensions.insert(deadline);
        }
    }

    /// Tells the inner service what is left of the request's deadline.
    pub(super) fn leaves(&self, request: &mut Parts) {
        if let Some(deadline) = request.extensions.get::<Deadline>().copied() {
            self.deadlines.write(&mut request.headers, deadline, clock::now());
        }
    }

    pub(super) fn is_exempt(&self, request: &Parts) -> bool {
        self.exempt_by.as_ref().is_some_and(|by| by(request))
    }
}

/// Puts a [`Limiter`] in front of a service. Clones share the limiter.
///
/// `E` says what becomes of the inner service's errors; see [`KeepErrors`] and [`BoxErrors`].
#[derive(Clone)]
pub struct LimitLayer<E = KeepErrors> {
    settings: Arc<Settings<E>>,
}

impl LimitLayer<KeepErrors> {
    /// For a server: refusals are responses, and the inner service's error type stays as it is.
    pub fn new(limiter: Limiter) -> Self {
        Self::with(limiter, KeepErrors, Side::Inbound)
    }
}

impl LimitLayer<BoxErrors> {
    /// For a client: errors become a [`BoxError`](super::BoxError), and are classified by their sources.
    pub fn client(limiter: Limiter) -> Self {
        Self::with(limiter, BoxErrors::default(), Side::Outbound)
    }

    /// For a client, with all that stands before this destination: each call waits for its hold-off,
    /// its ceiling and its limiter in one go, and tells them how it ended. The destination's own
    /// hold-off counts, not [`LimitLayer::hold_off`].
    pub fn to(destination: Destination) -> Self {
        let mut layer = Self::client(destination.limiter().clone());
        layer.change().destination = Some(destination);
        layer
    }

    /// Says how many units of the destination's ceiling a request takes; 0 takes none. Default: 1.
    #[must_use]
    pub fn units_by(mut self, by: impl Fn(&Parts) -> u32 + Send + Sync + 'static) -> Self {
        self.change().units_by = Some(Arc::new(by));
        self
    }

    /// Fails with [`Rejected`] as the error when the limiter refuses, in place of a response.
    #[must_use]
    pub fn refuse_by_error(mut self) -> Self {
        self.change().errors = BoxErrors::refusing();
        self
    }
}

impl<E: Clone> LimitLayer<E> {
    fn with(limiter: Limiter, errors: E, side: Side) -> Self {
        Self {
            settings: Arc::new(Settings {
                limiter,
                classifier: Classifier::default(),
                permit_end: PermitEnd::default(),
                sample_at: SampleAt::default(),
                waits: true,
                deadlines: DeadlineSource::default(),
                refusal: Refusal::new(side),
                errors,
                peek: DEFAULT_PEEK,
                hold_off: None,
                key_by: None,
                destination: None,
                units_by: None,
                admit_by: None,
                exempt_by: None,
            }),
        }
    }

    fn change(&mut self) -> &mut Settings<E> {
        Arc::make_mut(&mut self.settings)
    }

    /// Says who asks, for how much and until when, from the request's head. Without it every
    /// request is one unit of nobody's. A request that has to wait is asked a second time.
    #[must_use]
    pub fn admit_by(mut self, by: impl for<'a> Fn(&'a Parts) -> Admit<'a> + Send + Sync + 'static) -> Self {
        self.change().admit_by = Some(Arc::new(by));
        self
    }

    /// Lets requests for which this is true (health probes, say) past the limiter, uncounted and
    /// unsampled.
    #[must_use]
    pub fn exempt(mut self, by: impl Fn(&Parts) -> bool + Send + Sync + 'static) -> Self {
        self.change().exempt_by = Some(Arc::new(by));
        self
    }

    /// Refuses at once when the limiter is full, though it has a waiting room.
    #[must_use]
    pub fn never_wait(mut self) -> Self {
        self.change().waits = false;
        self
    }

    /// Where requests tell their deadlines. Default: in `grpc-timeout`, and in the request's extensions
    /// as a [`Deadline`].
    #[must_use]
    pub fn deadlines(mut self, source: DeadlineSource) -> Self {
        self.change().deadlines = source;
        self
    }

    /// Reads answers by this table. Default: the built-in one.
    #[must_use]
    pub fn classifier(mut self, classifier: Classifier) -> Self {
        self.change().classifier = classifier;
        self
    }

    /// How many bytes of a body are looked at, at its beginning and at its end, when a rule asks for
    /// them; 0 looks at none. They are copied as they pass. Default: [`DEFAULT_PEEK`].
    #[must_use]
    pub fn peek(mut self, most: usize) -> Self {
        self.change().peek = most.min(1 << 20);
        self
    }

    /// Refuses while this hold-off holds, with [`RejectReason::HoldOff`](crate::RejectReason::HoldOff),
    /// and tells it what answers mean. All requests share one key unless [`LimitLayer::key_by`] says
    /// otherwise.
    #[must_use]
    pub fn hold_off(mut self, hold_off: HoldOff) -> Self {
        self.change().hold_off = Some(hold_off);
        self
    }

    /// Says under which key of the hold-off a request counts: its account, model or route, say.
    #[must_use]
    pub fn key_by(mut self, by: impl for<'a> Fn(&'a Parts) -> Cow<'a, str> + Send + Sync + 'static) -> Self {
        self.change().key_by = Some(Arc::new(by));
        self
    }

    /// When permits end. Default: [`PermitEnd::BodyEnd`].
    #[must_use]
    pub fn permit_end(mut self, end: PermitEnd) -> Self {
        self.change().permit_end = end;
        self
    }

    /// When latency is sampled. Default: [`SampleAt::Head`].
    #[must_use]
    pub fn sample_at(mut self, at: SampleAt) -> Self {
        self.change().sample_at = at;
        self
    }

    /// The HTTP status of refusals. Default: [`RefusalStatus::ServiceUnavailable`].
    #[must_use]
    pub fn refusal_status(mut self, status: RefusalStatus) -> Self {
        self.change().refusal.form.status = status;
        self
    }

    /// The form of a refusal's body. Default: [`RefusalBody::Json`].
    #[must_use]
    pub fn refusal_body(mut self, body: RefusalBody) -> Self {
        self.change().refusal.form.body = body;
        self
    }

    /// Writes refusals in place of the built-in form, for gRPC requests too.
    #[must_use]
    pub fn render(mut self, by: impl Fn(&Rejected, &Parts) -> Response<Bytes> + Send + Sync + 'static) -> Self {
        self.change().refusal.render_by = Some(Arc::new(by));
        self
    }

    /// The limiter.
    pub fn limiter(&self) -> &Limiter {
        &self.settings.limiter
    }
}

impl<S, E> Layer<S> for LimitLayer<E> {
    type Service = Limit<S, E>;

    fn layer(&self, inner: S) -> Self::Service {
        Limit::new(inner, Arc::clone(&self.settings))
    }
}

impl<E> fmt::Debug for LimitLayer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Settings { limiter, permit_end, sample_at, waits, .. } = &*self.settings;
        f.debug_struct("LimitLayer")
            .field("limiter", limiter)
            .field("permit_end", permit_end)
            .field("sample_at", sample_at)
            .field("waits", waits)
            .finish_non_exhaustive()
    }
}
