//! A request's way through the gateway: route, limiter, upstream, and back.
//!
//! Nothing is buffered and nothing is sent twice that may be done twice. The place in flight is
//! taken before the upstream is asked and held to the end of the answer; when the client goes away,
//! the future or the body is dropped, and with it the upstream call and the place.

mod answer;
mod answers;
mod body;
mod drain;
mod headers;
mod held_off;
mod outcome;
mod paced;
mod relay;
mod tunnel;
mod who;

pub(crate) use answers::Answers;
pub(crate) use body::{RequestBody, ResponseBody, Stall};

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version, header};
use hyper::body::{Body, Incoming};
use hyper::upgrade::OnUpgrade;
use tidegate::config::PermitEnd;
use tidegate::tower::{Reading, RefusalStatus};
use tidegate::{Admit, Deadline, Outcome, Permit, RejectReason, Rejected};

use crate::route::{Guard, Route, Table};
use crate::upstream::{Answer, SendError};
use body::Upload;
use held_off::Watch;
use outcome::Failure;
use relay::Relay;

/// Who is at the other end of a connection, and which worker serves it.
pub(crate) struct Peer {
    address: HeaderValue,
    scheme: HeaderValue,
    worker: usize,
    /// Held for the connection's life, also after it has changed protocol.
    _slot: Box<dyn Send + Sync>,
}

impl Peer {
    pub(crate) fn new(address: SocketAddr, tls: bool, worker: usize, slot: impl Send + Sync + 'static) -> Self {
        let address = HeaderValue::try_from(address.ip().to_string()).expect("an address is a header value");
        let scheme = HeaderValue::from_static(if tls { "https" } else { "http" });
        Self { address, scheme, worker, _slot: Box::new(slot) }
    }
}

/// Serves one request. Never fails: whatever goes wrong is an answer.
pub(crate) async fn serve(table: Arc<Table>, peer: Arc<Peer>, request: Request<Incoming>) -> Response<ResponseBody> {
    let grpc = headers::is_grpc(request.headers());
    if request.method() == Method::CONNECT {
        return answer::not_here(StatusCode::METHOD_NOT_ALLOWED, "CONNECT is not served");
    }
    let Some(route) = table.find(&request).cloned() else {
        early(request);
        return answer::not_here(StatusCode::NOT_FOUND, "no route for this request");
    };
    if announced(&request) > table.body_limit.unwrap_or(u64::MAX) {
        early(request);
        return answer::failure(&outcome::too_large(), grpc, &route.upstream_name);
    }
    let deadline = route.deadlines.read(request.headers(), Instant::now());
    let exempt = table.is_exempt(request.uri().path());
    let guard = route.guard.as_deref().filter(|_| !exempt);
    let admitted = if exempt { Ok((None, None)) } else { admit(&route, guard, &request, deadline).await };
    let (permit, watch) = match admitted {
        Ok(admitted) => admitted,
        Err(rejected) => {
            if let Some(guard) = guard.filter(|_| rejected.reason != RejectReason::Ceiling) {
                guard.tally.rejected(&rejected, who::tenant(Some(guard), &request));
            }
            let status = guard.map_or_else(RefusalStatus::default, |guard| guard.reject_status);
            let answer = answer::refusal(&rejected, request.headers(), status);
            early(request);
            return answer;
        }
    };
    forward(&table, &peer, &route, request, (permit, watch, deadline), grpc).await
}

/// A place in flight, and who is to hear what came back.
async fn admit(
    route: &Arc<Route>,
    guard: Option<&Guard>,
    request: &Request<Incoming>,
    deadline: Option<Deadline>,
) -> Result<(Option<Permit>, Option<Watch>), Rejected> {
    held_off::look(route, guard, request)?;
    // Before the place: who waits for a rate is not in flight.
    let paid = paced::pay(route, guard, deadline).await?;
    let place = async {
        let permit = place(guard, who::asks(route, guard, request, deadline)).await?;
        Ok((permit, held_off::pass(route, guard, request)?))
    };
    match place.await {
        Ok((permit, watch)) => Ok((permit, Some(watch.paying(paid)))),
        Err(rejected) => {
            if let Some(paid) = paid {
                paid.refund();
            }
            Err(rejected)
        }
    }
}

async fn place(guard: Option<&Guard>, admit: Admit<'_>) -> Result<Option<Permit>, Rejected> {
    let Some(guard) = guard else { return Ok(None) };
    if guard.waits {
        guard.limiter.acquire(admit).await.map(Some)
    } else {
        guard.limiter.try_acquire_with(&admit).map(Some)
    }
}

async fn forward(
    table: &Table,
    peer: &Arc<Peer>,
    route: &Route,
    mut request: Request<Incoming>,
    (mut permit, watch, deadline): (Option<Permit>, Option<Watch>, Option<Deadline>),
    grpc: bool,
) -> Response<ResponseBody> {
    let upgrade = headers::upgrade_of(request.headers());
    let client = upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (mut outgoing, upload) = outgoing(table, peer, route, request, upgrade);
    if let Some(deadline) = deadline {
        route.deadlines.write(outgoing.headers_mut(), deadline, Instant::now());
    }
    let Answer { mut response, lease } = match route.upstream.send(peer.worker, outgoing, deadline).await {
        Ok(answer) => answer,
        Err(err) => {
            if let (Some(watch), SendError::Connect(_) | SendError::ConnectTimeout) = (watch, &err) {
                watch.unsent();
            }
            let failure = Failure::of(&err, upload.and_then(|upload| upload.mishap()));
            if let Some(permit) = permit.filter(|_| failure.outcome != Outcome::Cancelled) {
                permit.finish(failure.outcome);
            }
            return answer::failure(&failure, grpc, &route.upstream_name);
        }
    };
    let mut reading = Reading::of(&route.classifier, &response, table.peek);
    let watch = watch.and_then(|watch| watch.see_head(&mut reading));
    // A refusal's outcome may be in its body; its latency is not wanted.
    if let Some(permit) = &mut permit
        && (!reading.is_open() || reading.so_far() == Outcome::Success)
    {
        permit.observe(reading.so_far());
    }
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return switch(route, response, client, (permit, peer.clone()));
    }
    if route.guard.as_ref().is_some_and(|guard| guard.permit_end == PermitEnd::Head)
        && let Some(permit) = permit.take()
    {
        permit.finish(reading.so_far());
    }
    headers::strip(response.headers_mut());
    *response.version_mut() = Version::HTTP_11;
    response.map(|incoming| {
        let way = (route.upstream.clone(), peer.worker, lease);
        ResponseBody::Relay(Relay::new(incoming, (permit, reading, watch), way))
    })
}

/// The upstream speaks another protocol from now on; the place is held until that ends.
fn switch(
    route: &Route,
    mut response: Response<Incoming>,
    client: Option<OnUpgrade>,
    (permit, peer): (Option<Permit>, Arc<Peer>),
) -> Response<ResponseBody> {
    let Some(client) = client else {
        let detail = "the upstream changed protocol without being asked".to_owned();
        let (status, outcome) = (StatusCode::BAD_GATEWAY, Outcome::Fault);
        if let Some(permit) = permit {
            permit.finish(outcome);
        }
        let failure = Failure { outcome, status, error: "upstream_broken", detail };
        return answer::failure(&failure, false, &route.upstream_name);
    };
    let upstream = hyper::upgrade::on(&mut response);
    tunnel::join(client, upstream, (permit, peer), route.upstream.config().idle_timeout());
    let upgrade = response.headers().get(header::UPGRADE).cloned();
    headers::strip(response.headers_mut());
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(upgrade) = upgrade {
        response.headers_mut().insert(header::UPGRADE, upgrade);
    }
    response.map(|_| ResponseBody::Own(None))
}

/// The request as the upstream gets it, and where a mishap with its body is noted.
fn outgoing(
    table: &Table,
    peer: &Peer,
    route: &Route,
    request: Request<Incoming>,
    upgrade: Option<HeaderValue>,
) -> (Request<RequestBody>, Option<Arc<Upload>>) {
    let (mut parts, incoming) = request.into_parts();
    let authority = parts.uri.authority();
    let own_host = route.upstream.own_host();
    headers::towards_upstream(&mut parts.headers, peer, table.forwarded, authority, own_host);
    if let Some(upgrade) = upgrade {
        parts.headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        parts.headers.insert(header::UPGRADE, upgrade);
    }
    parts.version = Version::HTTP_11;
    if route.upstream.config().http2() {
        parts.version = Version::HTTP_2;
    }
    if parts.uri.scheme().is_some() || parts.uri.authority().is_some() {
        let path = parts.uri.path_and_query().cloned();
        parts.uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    }
    parts.extensions.clear();
    let body = RequestBody::new(incoming, table.body_limit, table.client_idle);
    let upload = body.upload();
    (Request::from_parts(parts, body), upload)
}

/// A request that is answered before its body was read.
fn early(request: Request<Incoming>) {
    // Who waits for 100 Continue has sent nothing, and reading would ask for it.
    if !request.headers().contains_key(header::EXPECT) {
        drain::unread(Some(request.into_body()));
    }
}

/// The size of the body as far as the head tells.
fn announced(request: &Request<Incoming>) -> u64 {
    request.body().size_hint().lower()
}
