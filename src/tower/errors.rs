//! What becomes of the inner service's errors, and whether a refusal is one.
//!
//! A server's framework often demands an error type of its own (axum: `Infallible`), so there it is
//! kept, and can be looked into only when it is one of a few known types. A client boxes it, which
//! lets the classifier walk along its sources.

use std::any::Any;
use std::error::Error;
use std::io;

use crate::classify::Classifier;
use crate::outcome::Outcome;
use crate::rejection::Rejected;

/// Any error; the same type as `tower::BoxError`.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// How a [`Limit`](super::Limit) treats the inner service's errors `X`. Sealed: [`KeepErrors`] and
/// [`BoxErrors`] are all there are.
pub trait ErrorMode<X>: sealed::Sealed + Send + Sync + 'static {
    /// The error of the limited service.
    type Error;

    /// What the error means, and the error to hand on.
    fn failed(&self, error: X, classifier: &Classifier) -> (Outcome, Self::Error);

    /// A refusal as an error, or back again when it is to be a response.
    fn refused(&self, rejected: Rejected) -> Result<Self::Error, Rejected>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::KeepErrors {}
    impl Sealed for super::BoxErrors {}
}

/// Keeps the inner service's error type; a refusal is always a response.
///
/// Errors of the types [`BoxError`], [`io::Error`] and [`Rejected`] are classified by their sources,
/// any other counts as a fault.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepErrors;

impl<X: 'static> ErrorMode<X> for KeepErrors {
    type Error = X;

    fn failed(&self, error: X, classifier: &Classifier) -> (Outcome, X) {
        let any: &dyn Any = &error;
        let known: Option<&(dyn Error + 'static)> = if let Some(boxed) = any.downcast_ref::<BoxError>() {
            Some(boxed.as_ref())
        } else if let Some(error) = any.downcast_ref::<io::Error>() {
            Some(error)
        } else {
            any.downcast_ref::<Rejected>().map(|error| error as _)
        };
        (known.map_or(Outcome::Fault, |error| classifier.classify_error(error)), error)
    }

    fn refused(&self, rejected: Rejected) -> Result<X, Rejected> {
        Err(rejected)
    }
}

/// Turns the inner service's errors into [`BoxError`] and classifies them by their sources.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoxErrors {
    refuse: bool,
}

impl BoxErrors {
    pub(super) const fn refusing() -> Self {
        Self { refuse: true }
    }
}

impl<X: Into<BoxError>> ErrorMode<X> for BoxErrors {
    type Error = BoxError;

    fn failed(&self, error: X, classifier: &Classifier) -> (Outcome, BoxError) {
        let error = error.into();
        (classifier.classify_error(error.as_ref()), error)
    }

    fn refused(&self, rejected: Rejected) -> Result<BoxError, Rejected> {
        if self.refuse { Ok(rejected.into()) } else { Err(rejected) }
    }
}
