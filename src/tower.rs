//! The limiter as a tower layer, for servers and clients over HTTP and gRPC.
//!
//! The permit is taken in `call`, never in `poll_ready`: readiness belongs to a connection or a
//! clone, a permit to a request. It is held until the response body has ended, so that a stream
//! counts while it lives; the latency is sampled at the response head. All clones of the layer and
//! of its services share the limiter. Nothing here spawns a task.
//!
//! | | server | client |
//! |---|---|---|
//! | made by | [`LimitLayer::new`] | [`LimitLayer::client`] |
//! | a refusal is | a response | a response, or [`Rejected`](crate::Rejected) as an error |
//! | errors of the inner service | keep their type | become a [`BoxError`], read along their sources |
//!
//! Over axum: `Router::layer(LimitLayer::new(limiter))`. Over tonic: `Server::builder().layer(..)`, or
//! `ServiceBuilder::new().layer(LimitLayer::client(limiter)).service(channel)`. Over plain hyper:
//! wrap the service and hand it to hyper-util's `TowerToHyperService`.
//!
//! # Deadlines
//!
//! A request's `grpc-timeout`, the header that [`DeadlineSource`] names and a
//! [`Deadline`](crate::Deadline) in its extensions become one absolute deadline. A request that cannot
//! meet it is refused on arrival; one whose deadline passes in the waiting room leaves it. The inner
//! service finds the deadline in the request's extensions, and what is left of it in the headers.
//! Ending a call that is under way is left to the service: tonic, for one, does it by `grpc-timeout`.
//!
//! # Upgrades
//!
//! A WebSocket outlives its response. The layer puts an [`UpgradeGuard`] into the extensions of each
//! request that asks for an upgrade; whoever carries the upgraded connection keeps the guard as long,
//! and the permit lives with it:
//!
//! ```no_run
//! use axum::extract::Request;
//! use axum::http::StatusCode;
//! use tidegate::tower::UpgradeGuard;
//!
//! async fn socket(mut request: Request) -> StatusCode {
//!     let guard = request.extensions_mut().remove::<UpgradeGuard>();
//!     tokio::spawn(async move {
//!         let socket = hyper::upgrade::on(request).await;
//!         // ... serve the socket; the request counts as in flight meanwhile ...
//!         drop((socket, guard));
//!     });
//!     StatusCode::SWITCHING_PROTOCOLS
//! }
//! ```
//!
//! With axum's `WebSocketUpgrade` the guard is an `Extension<UpgradeGuard>` beside it, moved into the
//! callback of `on_upgrade`.
//!
//! When nobody takes it, the permit ends with the response: a connection that was handed over leaves
//! no other trace that a layer could watch.

mod body;
mod deadline;
mod errors;
mod future;
mod head;
mod held_off;
mod layer;
mod reading;
mod rejection;
mod service;
mod upgrade;

pub use body::LimitedBody;
pub use deadline::DeadlineSource;
pub use errors::{BoxError, BoxErrors, ErrorMode, KeepErrors};
pub use future::ResponseFuture;
pub use layer::{LimitLayer, PermitEnd, SampleAt};
pub use reading::{DEFAULT_PEEK, Reading};
pub use rejection::{RefusalBody, RefusalForm, RefusalStatus, Side, refusal};
pub use service::Limit;
pub use upgrade::UpgradeGuard;
