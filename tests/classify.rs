//! Every real form of throttles, overloads, faults and their lookalikes, one line each: what an answer
//! means, whether to send the request again, how long to wait, and whom it concerns.

use std::time::{Duration, SystemTime};

use tidegate::Outcome::{self, Caller, Exhausted, Fault, Overloaded, Success, Throttled};
use tidegate::classify::Retry::{self, IfSafe, Never, Yes};
use tidegate::classify::Scope::{self, Destination, Key, Request};
use tidegate::classify::{Classifier, Seen, bulk_rules, otlp_rule};

/// 2026-09-10T06:00:00Z.
const NOW: u64 = 1_789_020_000;

struct Case {
    what: &'static str,
    seen: Seen,
    headers: Vec<(&'static str, String)>,
    text: &'static str,
    outcome: Outcome,
    retry: Retry,
    wait_ms: Option<u64>,
    scope: Scope,
}

fn http(what: &'static str, status: u16, text: &'static str, outcome: Outcome, retry: Retry) -> Case {
    case(what, Seen::Http(status), text, outcome, retry)
}

fn grpc(what: &'static str, code: u32, text: &'static str, outcome: Outcome, retry: Retry) -> Case {
    case(what, Seen::Grpc(code), text, outcome, retry)
}

fn case(what: &'static str, seen: Seen, text: &'static str, outcome: Outcome, retry: Retry) -> Case {
    let scope = if matches!(outcome, Throttled | Overloaded | Exhausted) { Key } else { Request };
    Case { what, seen, headers: Vec::new(), text, outcome, retry, wait_ms: None, scope }
}

impl Case {
    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    fn wait_s(self, secs: u64) -> Self {
        self.wait_ms(secs * 1000)
    }

    fn wait_ms(mut self, ms: u64) -> Self {
        self.wait_ms = Some(ms);
        self
    }

    fn scope(mut self, scope: Scope) -> Self {
        self.scope = scope;
        self
    }

    /// Checked under `table`. The text may be cut off anywhere: that must never be an error.
    fn check(&self, table: &Classifier) {
        let Case { what, seen, text, .. } = self;
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = table.judge(*seen, &self.headers[..], &text[..end], now);
        }
        let verdict = table.judge(*seen, &self.headers[..], text, now);
        assert_eq!(
            (verdict.outcome, verdict.retry, verdict.scope),
            (self.outcome, self.retry, self.scope),
            "{what}, by {}",
            verdict.rule
        );
        let wait = verdict.wait.map(|wait| wait.length.as_millis() as u64);
        assert_eq!(wait, self.wait_ms, "{what}: the wait, by {}", verdict.rule);
        if !text.is_empty() && matches!(seen, Seen::Http(_)) && self.outcome != Success {
            let blind = table.judge(*seen, &self.headers[..], "", now);
            let needed = (blind.outcome, blind.retry) != (verdict.outcome, verdict.retry);
            assert!(!needed || table.wants_text(*seen, &self.headers[..]), "{what}: the text would not be looked at");
        }
    }
}

fn check(cases: impl IntoIterator<Item = Case>) {
    let table = Classifier::default();
    cases.into_iter().for_each(|case| case.check(&table));
}

#[test]
fn a_used_up_account_is_not_a_throttle() {
    let openai = r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
    let anthropic = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API."}}"#;
    check([
        http("no credit, as 429", 429, openai, Exhausted, Never),
        http("no credit, as 400", 400, anthropic, Exhausted, Never),
        http("no credit, as 402", 402, r#"{"error":{"message":"Insufficient Balance"}}"#, Exhausted, Never),
        http("billing limit", 400, r#"{"error":{"code":"billing_hard_limit_reached"}}"#, Exhausted, Never),
    ]);
}

#[test]
fn lookalikes_of_pressure() {
    let pdb = r#"{"kind":"Status","status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget web needs 2 healthy pods and has 2 currently"}]},"code":429}"#;
    let locked = r#"{"error":{"code":"lock_timeout","type":"invalid_request_error","message":"This object cannot be accessed right now because another API request or Stripe process is currently accessing it."}}"#;
    let disabled = r#"{"error":"This endpoint is disabled. Ask its owner to enable it."}"#;
    let google = r#"{"error":{"code":403,"status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"SERVICE_DISABLED"}]}}"#;
    check([
        http("a disruption budget", 429, pdb, Caller, Yes).wait_s(5),
        http("one object is locked", 429, locked, Caller, Yes),
        http("its control", 429, r#"{"error":{"code":"rate_limit","message":"slow down"}}"#, Throttled, Yes),
        http("a disabled endpoint, as 503", 503, disabled, Exhausted, Never),
        http("a disabled endpoint, as 429", 429, disabled, Exhausted, Never),
        http("a disabled service", 403, google, Exhausted, Never),
        http("any other 403", 403, r#"{"error":{"status":"PERMISSION_DENIED"}}"#, Caller, Never),
        http("an oversize payload", 413, "", Caller, Never),
        http("a bad request", 400, r#"{"message":"bad"}"#, Caller, Never),
        http("not found", 404, "<html>rate limit</html>", Caller, Never),
    ]);
}

#[test]
fn aws_codes_in_json_xml_headers_and_sdk_text() {
    let namespaced = r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"Rate exceeded"}"#;
    let wrapped = "An error occurred (ThrottlingException) when calling the DescribeTable operation: Rate exceeded";
    let validation = r#"{"__type":"ValidationException","message":"ThrottlingException is no table"}"#;
    check([
        http("JSON", 400, r#"{"__type":"ThrottlingException","message":"Rate exceeded"}"#, Throttled, Yes),
        http("JSON with namespace", 400, namespaced, Throttled, Yes),
        http("header", 400, "", Throttled, Yes).header("x-amzn-ErrorType", "ThrottlingException:http://example/"),
        http("header with namespace", 400, "", Throttled, Yes)
            .header("X-Amzn-Errortype", "com.amazon.coral.availability#ThrottlingException"),
        http("SDK text", 400, wrapped, Throttled, Yes),
        http("a validation error", 400, validation, Caller, Never),
        http("a validation error in the header", 400, "", Caller, Never)
            .header("x-amzn-errortype", "ValidationException"),
        http("S3 SlowDown", 503, "<Error><Code>SlowDown</Code><Message>Reduce.</Message></Error>", Throttled, Yes),
        http("S3 down", 503, "<Error><Code>ServiceUnavailable</Code></Error>", Fault, IfSafe),
    ]);
}

#[test]
fn every_aws_name_of_a_throttle_counts_whatever_the_status() {
    let codes = "Throttling ThrottlingException ThrottledException RequestThrottledException RequestThrottled \
                 TooManyRequestsException RequestLimitExceeded BandwidthLimitExceeded SlowDown \
                 PriorRequestNotComplete EC2ThrottledException ProvisionedThroughputExceededException \
                 TransactionInProgressException RateLimitExceeded";
    let table = Classifier::default();
    for code in codes.split_whitespace() {
        let xml = format!(
            "<ErrorResponse><Error><Type>Sender</Type><Code>{code}</Code><Message>Rate exceeded</Message></Error></ErrorResponse>"
        );
        let json = format!(r#"{{"__type":"com.amazonaws.kinesis#{code}","message":"x"}}"#);
        for status in [400, 403, 429, 500, 503] {
            for text in [&xml, &json] {
                let verdict = table.judge(Seen::Http(status), &(), text, SystemTime::UNIX_EPOCH);
                assert_eq!((verdict.outcome, verdict.retry), (Throttled, Yes), "{status} {text}");
            }
        }
    }
}

#[test]
fn bulk_answers_that_hide_refusals() {
    const JSON: &str = "application/x-amz-json-1.0";
    let items = r#"{"took":1819,"errors":true,"items":[{"index":{"status":429,"error":{"type":"es_rejected_execution_exception","reason":"rejected execution queue capacity = 1000"}}},{"index":{"status":201}}]}"#;
    let legacy = r#"{"took":3,"errors":true,"items":[{"create":{"status":503,"error":"RemoteTransportException[x]; nested: EsRejectedExecutionException[y]"}}]}"#;
    let conflict = r#"{"took":3,"errors":true,"items":[{"create":{"status":409,"error":{"type":"version_conflict_engine_exception"}}}]}"#;
    let search = r#"{"took":3,"hits":{"hits":[{"_source":{"message":"es_rejected_execution_exception"}}]}}"#;
    let es =
        |what, text, outcome, retry| http(what, 200, text, outcome, retry).header("X-elastic-product", "Elasticsearch");
    let aws = |what, text, outcome, retry| http(what, 200, text, outcome, retry).header("content-type", JSON);
    let sqs = r#"{"Failed":[{"Id":"1","Code":"RequestThrottled","SenderFault":true}],"Successful":[{"Id":"2"}]}"#;
    let kinesis = r#"{"FailedRecordCount":2,"Records":[{"SequenceNumber":"1"},{"ErrorCode":"ProvisionedThroughputExceededException","ErrorMessage":"Rate exceeded"}]}"#;
    let internal = r#"{"FailedRecordCount":1,"Records":[{"ErrorCode":"InternalFailure"}]}"#;
    check([
        es("a refused item", items, Throttled, Yes),
        es("a refused item, old form", legacy, Throttled, Yes),
        es("an item with a conflict", conflict, Success, Never),
        es("a search that finds the words", search, Success, Never),
        http("the same answer of nobody knows whom", 200, items, Success, Never),
        aws("items left over", r#"{"UnprocessedItems":{"t":[{"PutRequest":{}}]}}"#, Throttled, Yes),
        aws("no items left over", r#"{"UnprocessedItems":{}}"#, Success, Never),
        aws("keys left over", r#"{"Responses":{},"UnprocessedKeys":{"t":{"Keys":[{}]}}}"#, Throttled, Yes),
        aws("messages not taken", sqs, Throttled, Yes),
        aws("all messages taken", r#"{"Failed":[],"Successful":[{"Id":"2"}]}"#, Success, Never),
        aws("records not taken", kinesis, Throttled, Yes),
        aws("records that failed otherwise", internal, Success, Never),
    ]);
    let opensearch = Classifier::default().extended(bulk_rules());
    http("a refused item, rules put in front", 200, items, Throttled, Yes).check(&opensearch);
    http("a refused item, old form", 200, legacy, Throttled, Yes).check(&opensearch);
}

#[test]
fn grpc_says_it_by_status_details_and_pushback() {
    // google.rpc.Status { code: 8, message: "quota", details: [RetryInfo { retry_delay: 2s }] }.
    let two_seconds = "CAgSBXF1b3RhGi4KKHR5cGUuZ29vZ2xlYXBpcy5jb20vZ29vZ2xlLnJwYy5SZXRyeUluZm8SAgoACg==";
    let memory = "data refused due to high memory usage";
    check([
        grpc("resource exhausted", 8, memory, Overloaded, Yes),
        grpc("message too large, Go", 8, "grpc: received message larger than max (4197803 vs. 4194304)", Caller, Never),
        grpc("message too large, C", 8, "Received message larger than max (17777780 vs. 4194304)", Caller, Never),
        grpc("message too large, on its way out", 8, "trying to send message larger than max (2 vs. 1)", Caller, Never),
        grpc("message too large, Java", 8, "gRPC message exceeds maximum size 4194304", Caller, Never),
        grpc("a proxy's rate limit", 14, "", Throttled, Yes).header("x-envoy-ratelimited", "true"),
        grpc("down", 14, "connection refused", Fault, IfSafe),
        grpc("closing", 14, "transport is closing", Fault, IfSafe),
        grpc("pushback", 8, memory, Overloaded, Yes).header("grpc-retry-pushback-ms", "250").wait_ms(250),
        grpc("pushback says no", 8, memory, Overloaded, Never).header("grpc-retry-pushback-ms", "-1"),
        grpc("pushback nobody can read", 8, memory, Overloaded, Never).header("grpc-retry-pushback-ms", "soon"),
        grpc("pushback for unavailable", 14, "", Fault, IfSafe).header("grpc-retry-pushback-ms", "40").wait_ms(40),
        grpc("details that are broken", 8, memory, Overloaded, Yes)
            .header("grpc-status-details-bin", &two_seconds[..40]),
        grpc("deadline", 4, "", Overloaded, IfSafe),
        grpc("invalid", 3, "retry in 5s", Caller, Never),
    ]);
    let otlp = Classifier::default().extended([otlp_rule()]);
    grpc("OTLP without a wait", 8, memory, Overloaded, Never).check(&otlp);
    grpc("OTLP with a wait", 8, memory, Overloaded, Yes)
        .header("grpc-status-details-bin", details(&[8, 2]))
        .wait_s(2)
        .check(&otlp);
    grpc("half a second", 8, memory, Overloaded, Yes)
        .header("grpc-status-details-bin", details(&[16, 0x80, 0xca, 0xb5, 0xee, 0x01]))
        .wait_ms(500)
        .check(&Classifier::default());
}

/// `google.rpc.Status` with one RetryInfo of this encoded Duration, in base64.
fn details(delay: &[u8]) -> String {
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        [&[number << 3 | 2, bytes.len() as u8], bytes].concat()
    }
    let info = [field(1, b"type.googleapis.com/google.rpc.RetryInfo"), field(2, &field(1, delay))].concat();
    let status = [vec![8, 8], field(2, b"quota"), field(3, &info)].concat();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in status.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        (0..=group.len()).for_each(|i| out.push(char::from(alphabet[(bits >> (18 - 6 * i)) as usize & 63])));
    }
    out
}

#[test]
fn retry_after_in_every_form() {
    let told = |what, value: &str| http(what, 429, "", Throttled, Yes).header("retry-after", value);
    check([
        told("seconds", "2").wait_s(2),
        told("spaces", " 2 ").wait_s(2),
        told("zero", "0").wait_s(0),
        told("a fraction", "0.503").wait_ms(503),
        told("a long fraction", "292.052427053").wait_ms(292_052),
        told("another", "1.5").wait_ms(1500),
        told("a day", "86400").wait_s(86_400),
        told("IMF-fixdate", "Thu, 10 Sep 2026 06:02:00 GMT").wait_s(120),
        told("RFC 850", "Thursday, 10-Sep-26 06:02:00 GMT").wait_s(120),
        told("asctime", "Thu Sep 10 06:02:00 2026").wait_s(120),
        told("a date one hour ago", "Thu, 10 Sep 2026 05:00:00 GMT").wait_s(0),
        told("our clock is 90 s late", "Thu, 10 Sep 2026 06:02:00 GMT")
            .header("date", "Thu, 10 Sep 2026 06:01:30 GMT")
            .wait_s(30),
        told("nonsense", "soon"),
        told("negative", "-5"),
        told("not a number", "NaN"),
        told("endless", "99999999999999999999999999").wait_s(1 << 53),
        http("milliseconds first", 429, "", Throttled, Yes)
            .header("retry-after-ms", "350")
            .header("retry-after", "1")
            .wait_ms(350),
        http("Azure's", 429, "", Throttled, Yes)
            .header("x-ms-retry-after-ms", "350")
            .header("retry-after", "1")
            .wait_ms(350),
        http("unreadable milliseconds", 429, "", Throttled, Yes)
            .header("retry-after-ms", "abc")
            .header("retry-after", "1")
            .wait_s(1),
    ]);
}

#[test]
fn resets_of_rate_limits_in_every_form() {
    let reset = |what, value: &str| http(what, 429, "", Throttled, Yes).header("x-ratelimit-reset", value);
    check([
        reset("an epoch", "1789020060").wait_s(60),
        reset("seconds from now", "60").wait_s(60),
        reset("a duration", "6m0s").wait_s(360),
        reset("a short duration", "12ms").wait_ms(12),
        reset("a date", "2026-09-10T06:01:00Z").wait_s(60),
        reset("an epoch in milliseconds", "1789020060000").wait_s(60),
        reset("an epoch that is over", "1789010000").wait_s(0),
        reset("nonsense", "later"),
        reset("retry-after wins", "60").header("retry-after", "3").wait_s(3),
        http("three headers", 429, "", Throttled, Yes)
            .header("RateLimit-Limit", "100")
            .header("RateLimit-Remaining", "0")
            .header("RateLimit-Reset", "10")
            .wait_s(10),
        http("one header", 429, "", Throttled, Yes).header("RateLimit", "limit=100, remaining=0, reset=10").wait_s(10),
        http("structured", 429, "", Throttled, Yes)
            .header("RateLimit", r#""burst";r=0;t=10, "daily";r=900;t=3600"#)
            .header("RateLimit-Policy", r#""burst";q=100;w=60"#)
            .wait_s(10),
        http("OpenAI", 429, "", Throttled, Yes)
            .header("x-ratelimit-remaining-requests", "59")
            .header("x-ratelimit-reset-requests", "1s")
            .header("x-ratelimit-remaining-tokens", "0")
            .header("x-ratelimit-reset-tokens", "6m0s")
            .wait_s(360),
        http("the last of a budget, on a good answer", 200, "", Success, Never)
            .header("RateLimit-Remaining", "0")
            .header("RateLimit-Reset", "10")
            .wait_s(10),
        http("enough left", 200, "", Success, Never).header("RateLimit-Remaining", "9").header("RateLimit-Reset", "10"),
        http("nothing said of what is left", 200, "", Success, Never).header("x-ratelimit-reset", "10"),
    ]);
}

#[test]
fn of_two_budgets_the_empty_one_counts_and_of_two_empty_ones_the_later() {
    let anthropic = |what, requests| {
        http(what, 429, r#"{"type":"error","error":{"type":"rate_limit_error"}}"#, Throttled, Yes)
            .header("anthropic-ratelimit-requests-remaining", requests)
            .header("anthropic-ratelimit-requests-reset", "2026-09-10T06:00:05Z")
            .header("anthropic-ratelimit-tokens-remaining", "0")
            .header("anthropic-ratelimit-tokens-reset", "2026-09-10T06:00:41Z")
    };
    check([
        anthropic("tokens are used up", "12").wait_s(41),
        anthropic("both are", "0").wait_s(41),
        anthropic("retry-after wins", "0").header("retry-after", "7").wait_s(7),
    ]);
}

#[test]
fn a_wait_in_the_body() {
    let google = r#"{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","message":"You exceeded your rate. Please retry in 36.429760048s.","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38s"}]}}"#;
    let short = r#"{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"0.847655010s"}]}}"#;
    let openai = r#"{"error":{"message":"Rate limit reached for requests. Limit: 3 / min. Please try again in 20s.","type":"requests","code":"rate_limit_exceeded"}}"#;
    let slack = r#"{"retry_after":1.5,"ok":false,"error":"rate_limited"}"#;
    check([
        http("RetryInfo in JSON", 429, google, Throttled, Yes).wait_s(38),
        http("less than a second", 429, short, Throttled, Yes).wait_ms(847),
        http("in words", 429, openai, Throttled, Yes).wait_s(20),
        http("a member", 429, slack, Throttled, Yes).wait_ms(1500),
    ]);
}

#[test]
fn limits_that_answer_403_and_bans_at_the_edge() {
    let secondary = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.";
    let github = |what, left| http(what, 403, secondary, Throttled, Yes).header("x-ratelimit-remaining", left);
    let banned = r#"{"code":0,"message":"You are being blocked from accessing our API temporarily due to exceeding our rate limits frequently. Please read our docs"}"#;
    check([
        github("secondary limit", "14").header("x-ratelimit-reset", (NOW + 60).to_string()).wait_s(60),
        github("secondary limit, nothing left", "0").header("x-ratelimit-reset", (NOW + 60).to_string()).wait_s(60),
        github("secondary limit with retry-after", "14").header("retry-after", "60").wait_s(60),
        http("secondary limit, nothing said", 429, secondary, Throttled, Yes).wait_s(60),
        http("primary limit", 403, "", Throttled, Yes)
            .header("x-ratelimit-remaining", "0")
            .header("x-ratelimit-reset", (NOW + 90).to_string())
            .wait_s(90),
        http("a CDN's ban", 429, "error code: 1015", Throttled, Yes).scope(Destination).wait_s(60),
        http("a ban in JSON", 429, banned, Throttled, Yes).scope(Destination).wait_s(60),
        http("a ban as a page", 429, "<html>", Throttled, Yes)
            .header("content-type", "text/html; charset=UTF-8")
            .header("retry-after", "3600")
            .scope(Destination)
            .wait_s(3600),
    ]);
}

#[test]
fn three_meanings_of_503() {
    let gemini =
        r#"{"error":{"code":503,"status":"UNAVAILABLE","message":"The model is overloaded. Please try again later."}}"#;
    check([
        http("maintenance", 503, "down for maintenance", Fault, IfSafe)
            .header("retry-after", "1800")
            .scope(Destination)
            .wait_s(1800),
        http("nothing said", 503, "", Fault, IfSafe),
        http("a page", 503, "<html>Service Unavailable</html>", Fault, IfSafe),
        http("overloaded in words", 503, gemini, Overloaded, Yes),
        http("a short wait", 503, "", Throttled, Yes).header("retry-after", "2").scope(Destination).wait_s(2),
        http("a mesh says so", 503, "", Overloaded, Yes).header("x-envoy-overloaded", "true"),
        http("tidegate's own", 503, "", Overloaded, Yes)
            .header("tidegate-rejected", "queue_full")
            .header("retry-after", "1")
            .scope(Request)
            .wait_s(1),
    ]);
}

#[test]
fn errors_inside_a_stream_that_began_well() {
    let event = |what, text, outcome, retry| case(what, Seen::Event, text, outcome, retry);
    let anthropic = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    let limited = r#"{"type":"error","error":{"type":"rate_limit_error","message":"Slow down"}}"#;
    check([
        event("overloaded", anthropic, Overloaded, IfSafe),
        event("too fast", limited, Throttled, Yes),
        event("no credit", r#"{"error":{"code":"insufficient_quota","message":"x"}}"#, Exhausted, Never),
        event("the caller's", r#"{"error":{"type":"invalid_request_error"}}"#, Caller, Never),
        event("broken", r#"{"type":"error","error":{"type":"api_error","message":"Internal"}}"#, Fault, IfSafe),
        event("cut off", r#"{"type":"err"#, Fault, IfSafe),
        http("the same before a stream begins", 529, anthropic, Overloaded, Yes),
    ]);
}

proptest::proptest! {
    /// Whatever a server sends: a verdict, never a panic.
    #[test]
    fn nonsense_is_read_without_harm(
        status in 100u16..600,
        name in "(retry-after|retry-after-ms|x-ratelimit-reset|ratelimit|date|grpc-status-details-bin|grpc-retry-pushback-ms)",
        value in "([0-9:;=,.\" ThuSepGMTZ-]|[a-z]|\\PC){0,40}",
        text in "([{}\\[\\]\":,\\\\]|[a-z]|retry in |\"retryDelay\":\"|__type|<Code>|[0-9.]|é|\\PC){0,60}",
    ) {
        let table = Classifier::default().extended(bulk_rules());
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(NOW);
        for seen in [Seen::Http(status), Seen::Grpc(u32::from(status) % 18), Seen::Event] {
            let headers = &[(name.as_str(), value.as_str())][..];
            let verdict = table.judge(seen, headers, &text, now);
            proptest::prop_assert_eq!(verdict.is_pressure(), verdict.outcome.is_pressure());
        }
    }
}
