//! How services spell what they mean: error codes, and words where there is no code.

/// "Too fast", whatever the status: the AWS services' names, and those of model providers and
/// payment services.
pub(super) const THROTTLE: [&str; 20] = [
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "RequestThrottledException",
    "RequestThrottled",
    "TooManyRequestsException",
    "TooManyRequests",
    "ProvisionedThroughputExceededException",
    "ProvisionedThroughputExceeded",
    "TransactionInProgressException",
    "RequestLimitExceeded",
    "BandwidthLimitExceeded",
    "SlowDown",
    "PriorRequestNotComplete",
    "EC2ThrottledException",
    "RateLimitExceeded",
    "rateLimitExceeded",
    "rate_limit_exceeded",
    "rate_limit_error",
    "rate_limit",
];

/// Nothing more until someone acts.
pub(super) const EXHAUSTED: [&str; 7] = [
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "account_deactivated",
    "access_terminated",
    "insufficient_balance",
    "exceeded_current_quota_error",
];

/// The same where there is no code.
pub(super) const EXHAUSTED_IN_WORDS: [&str; 3] =
    ["credit balance is too low", "check your plan and billing details", "insufficient balance"];

/// Switched off: as with a used-up account, somebody has to act.
pub(super) const DISABLED_IN_WORDS: [&str; 5] = [
    "endpoint is disabled",
    "endpoint has been disabled",
    "endpoint disabled",
    "SERVICE_DISABLED",
    "account has been disabled",
];

/// "Too many", where the status does not say so.
pub(super) const OVERLOADED_IN_WORDS: [&str; 4] =
    ["is overloaded", "currently overloaded", "overloaded_error", "over capacity"];

/// How libraries say that a message was too large, when they say it by RESOURCE_EXHAUSTED.
pub(super) const OVERSIZE_IN_WORDS: [&str; 4] =
    ["larger than max", "exceeds maximum size", "message length too large", "message size exceeds"];
