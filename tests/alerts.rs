//! Alerts from refusal to receiver: a webhook on a real socket that fails, hangs, throttles and
//! comes back, and a real Alertmanager.
#![allow(clippy::disallowed_methods, reason = "a test looks at the clock that it has paused")]

mod alerts {
    pub(crate) mod alertmanager;
    pub(crate) mod receiver;
    pub(crate) mod webhook;
}
