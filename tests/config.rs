//! Configs as files: what is shipped is valid, and what is wrong is said in full.

use std::time::Duration;

use tidegate::config::{Config, HostHeader, Overrides, PermitEnd};
use tidegate::{Bounds, Mode};

fn parse(text: &str) -> Result<Config, tidegate::config::InvalidConfig> {
    Config::parse("tidegate.toml", text, &Overrides::default())
}

#[test]
fn every_shipped_config_is_valid() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/config");
    let mut seen = 0;
    for dir in [root.to_owned(), format!("{root}/examples")] {
        for entry in std::fs::read_dir(dir).expect("there") {
            let path = entry.expect("readable").path();
            if path.extension().is_none_or(|ext| ext != "toml") {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let parsed = Config::parse(&path.display().to_string(), &text, &Overrides::default());
            assert!(parsed.is_ok(), "{}", parsed.expect_err("checked").drawn());
            seen += 1;
        }
    }
    assert!(seen >= 5, "only {seen} files seen");
}

#[test]
fn what_the_commented_config_shows_as_default_is_the_default() {
    let text = include_str!("../config/tidegate.toml");
    // Uncomment every key that is shown with its default; prose stays a comment.
    let is_key = |line: &str| {
        let key = line.split(" = ").next().unwrap_or("");
        line.contains(" = ") && key.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c == '2')
    };
    let not_defaults = [
        "threads",
        "body_limit",
        "overload_delay",
        "token_file",
        "tls_ca",
        "cert",
        "key",
        "latency_target",
        "methods",
        "header",
        "law",
        "length",
        "wait",
        "backoff",
        "by_header",
        "name",
        "upstreams",
        "status",
        "status_to",
        "header_contains",
        "text",
        "codes",
        "outcome",
        "retry",
        "scope",
    ];
    let full: String = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(key) if is_key(key) && !not_defaults.contains(&key.split(' ').next().unwrap_or("")) => key,
            _ => line,
        })
        .flat_map(|line| [line, "\n"])
        .collect();
    assert!(full.contains("\nmax_connections = 10000\n") && full.contains("\npermit_end = \"body_end\"\n"));
    let (short, full) = (parse(text).expect("valid"), parse(&full).expect("valid"));
    assert_eq!(short, full);
}

#[test]
fn without_a_file_an_upstream_is_enough() {
    let overrides = Overrides { upstream: Some("http://127.0.0.1:9000".into()), ..Overrides::default() };
    let config = Config::parse("none", "", &overrides).expect("valid");
    assert!(config.server().listen().ip().is_loopback());
    assert_eq!(config.admin().listen(), None);
    let limiter = &config.limiters()["default"];
    assert_eq!(
        (limiter.bounds(), limiter.initial(), limiter.mode()),
        (Bounds::new(1, 1000).expect("valid"), 20, Mode::Enforce)
    );
    assert_eq!((limiter.reject_status(), limiter.permit_end()), (503, PermitEnd::BodyEnd));
    assert_eq!(config.routes().len(), 1);
    assert_eq!(config.upstreams()["default"].host(), HostHeader::Client);
}

#[test]
fn a_config_without_an_upstream_says_what_is_missing() {
    let err = parse("").expect_err("nothing to serve");
    assert!(err.to_string().contains("--upstream"), "{err}");
}

#[test]
fn values_of_the_command_line_lie_over_those_of_the_file() {
    let overrides = Overrides { max: Some(40), listen: Some("127.0.0.1:1".into()), ..Overrides::default() };
    let text = "[upstreams.default]\nurl = \"http://a\"\n[limiters.default]\nmin = 3\nmax = 500\n";
    for text in [text.to_owned(), text.replace("max = 500\n", ""), format!("{text}# touched\n")] {
        let config = Config::parse("file", &text, &overrides).expect("valid");
        assert_eq!(config.limiters()["default"].bounds(), Bounds::new(3, 40).expect("valid"));
        assert_eq!(config.server().listen().port(), 1);
    }
}

#[test]
fn a_wrong_value_of_the_command_line_is_called_that() {
    let overrides = Overrides { upstream: Some("127.0.0.1:9000".into()), ..Overrides::default() };
    let err = Config::parse("file", "", &overrides).expect_err("no scheme");
    assert!(
        err.to_string().starts_with("command line: upstreams.default.url = \"127.0.0.1:9000\": must be http://"),
        "{err}"
    );
    assert!(err.drawn().contains("command line"));
}

#[test]
fn every_violation_is_listed_with_place_value_and_what_is_allowed() {
    let text = r#"[server]
listen = "localhost"
header_timeout = "10 minutes"
drain = "2d"
body_limit = "10MB"

[upstreams.a]
url = "http://a/path"
connect_timeout = "1ms"

[limiters.Orders]
min = 0
max = -5
law = "knees"
reject_status = 500
queue = { length = 5, wiat = "1s" }

[limiters.b]
min = 50
max = 10
initial = 60
mode = "shadows"

[[routes]]
prefix = "api"
upstream = "aa"
limiter = "c"
"#;
    let err = parse(text).expect_err("much is wrong");
    let lines: Vec<String> = err.lines().collect();
    for expected in [
        "tidegate.toml:2:10: server.listen = \"localhost\": must be an address with a port",
        "tidegate.toml:3:18: server.header_timeout = \"10 minutes\": must be a duration",
        "tidegate.toml:4:9: server.drain = \"2d\": must be a duration",
        "tidegate.toml:5:14: server.body_limit = \"10MB\": must be a size",
        "tidegate.toml:8:7: upstreams.a.url = \"http://a/path\": must be http://",
        "tidegate.toml:9:19: upstreams.a.connect_timeout = \"1ms\": must be within 10ms and 1m",
        "tidegate.toml:11:11: limiters.Orders: a name has 1 to 64",
        "tidegate.toml:12:7: limiters.Orders.min = 0: must be within 1 and",
        "tidegate.toml:13:7: limiters.Orders.max = -5: must be within 1 and",
        "tidegate.toml:14:7: limiters.Orders.law = \"knees\": did you mean \"knee\"? allowed:",
        "tidegate.toml:15:17: limiters.Orders.reject_status = 500: must be 429 or 503",
        "tidegate.toml:16:23: limiters.Orders.queue.wiat: unknown key; did you mean `wait`? allowed: length, wait",
        "tidegate.toml:20:7: limiters.b.max: max 10 is below min 50",
        "tidegate.toml:22:8: limiters.b.mode = \"shadows\": did you mean \"shadow\"?",
        "tidegate.toml:25:10: routes[0].prefix = \"api\": must begin with /",
        "tidegate.toml:26:12: routes[0].upstream = \"aa\": points to nothing; did you mean \"a\"?",
        "tidegate.toml:27:11: routes[0].limiter = \"c\": points to nothing; did you mean \"b\"?",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(expected)), "{expected}\nmissing in\n{}", lines.join("\n"));
    }
    let drawn = err.drawn();
    assert!(drawn.contains("min = 0") && drawn.contains("^"), "{drawn}");
}

#[test]
fn initial_must_lie_within_the_bounds() {
    let err =
        parse("[upstreams.a]\nurl = \"http://a\"\n[limiters.b]\nmin = 5\nmax = 10\ninitial = 4\n").expect_err("below");
    assert!(err.to_string().contains("limiters.b.initial = 4: must be within 5 and 10"), "{err}");
}

#[test]
fn several_upstreams_need_routes() {
    let text = "[upstreams.a]\nurl = \"http://a\"\n[upstreams.b]\nurl = \"http://b\"\n";
    assert!(parse(text).expect_err("which one?").to_string().contains("[[routes]]"));
    let config = parse(&format!("{text}[[routes]]\nupstream = \"b\"\n")).expect("valid");
    assert_eq!((config.routes()[0].prefix(), config.routes()[0].limiter()), ("/", None));
}

#[test]
fn a_text_that_is_no_config_never_panics() {
    for text in [
        "\u{0}",
        "= 1",
        "[",
        "[server",
        "server = 1",
        "routes = 3",
        "[[server]]",
        "exempt = [1, \"a\", 2]",
        "a.b.c = 1",
        "[limiters]\nx = 1",
        "é = \"",
        "[upstreams.a]\nurl = 1979-05-27\n",
    ] {
        let err = parse(text).expect_err(text);
        assert!(!err.drawn().is_empty() && err.lines().count() > 0);
    }
}

#[test]
fn times_are_what_they_say() {
    let config =
        parse("[server]\ndrain = \"1m30s\"\n[upstreams.a]\nurl = \"https://a\"\nkeep_alive = \"0s\"\n").expect("valid");
    assert_eq!(config.server().drain(), Duration::from_secs(90));
    assert_eq!(config.upstreams()["a"].keep_alive(), Duration::ZERO);
    assert_eq!(config.upstreams()["a"].host(), HostHeader::Upstream, "TLS upstreams are told their own name");
}

#[test]
fn a_budget_must_be_shorter_than_its_callers_wait() {
    let with = |deadline: &str| {
        let upstream = "[upstreams.a]\nurl = \"http://a\"\nconnect_timeout = \"1s\"\nresponse_timeout = \"8s\"\n";
        let limiter = "[limiters.b]\nqueue = { length = 5, wait = \"1s\" }\n";
        let route = "[[routes]]\nupstream = \"a\"\nlimiter = \"b\"\n";
        parse(&format!("{upstream}{limiter}{route}deadline = {{ {deadline} }}\n"))
    };
    let good = with("header = \"X-Timeout\", unit = \"s\", budget = \"4s\", client_timeout = \"5s\"").expect("fits");
    let deadline = good.routes()[0].deadline();
    assert_eq!(deadline.header(), Some(("x-timeout", tidegate::deadline::BudgetUnit::Seconds)));
    assert_eq!(deadline.budget(), Some(std::time::Duration::from_secs(4)));
    with("client_timeout = \"11s\"").expect("1 s of waiting, 1 s to connect and 8 s to answer are less");
    for (deadline, expected) in [
        (
            "budget = \"5s\", client_timeout = \"5s\"",
            "tidegate.toml:10:23: routes[0].deadline.budget = \"5s\": must be shorter than client_timeout, 5s",
        ),
        (
            "client_timeout = \"10s\"",
            "tidegate.toml:10:31: routes[0].deadline.client_timeout = \"10s\": must be longer than a request may take \
             here, 10s: queue.wait 1s, connect_timeout 1s and response_timeout 8s; or give a deadline.budget",
        ),
        ("budget = \"2h\"", "routes[0].deadline.budget = \"2h\": must be within 1ms and 1h"),
        ("unit = \"s\"", "routes[0].deadline.unit = \"s\": the unit of a header, but deadline.header is not given"),
        ("header = \"x y\"", "routes[0].deadline.header = \"x y\": must be the name of a header"),
        ("header = \"Host\"", "routes[0].deadline.header = \"Host\": has a meaning of its own, and"),
        ("header = \"grpc-timeout\"", "routes[0].deadline.header = \"grpc-timeout\": has a meaning of its own, and"),
    ] {
        let err = with(deadline).expect_err(deadline).to_string();
        assert!(err.contains(expected), "{deadline}: {err}");
    }
}

#[test]
fn wrong_rules_are_listed_in_full_and_good_ones_hold_for_their_upstreams() {
    let base = "[upstreams.a]\nurl = \"http://a\"\n[upstreams.b]\nurl = \"http://b\"\n[[routes]]\nupstream = \"a\"\n";
    let wrong = "[upstreams.a.hold_off]\nmode = \"maybe\"\ncap = \"2h\"\nby_header = \"not a name\"\n\
                 [[classify]]\nupstreams = [\"c\"]\nstatus = 99\noutcome = \"bad\"\n\
                 [[classify]]\ngrpc = 8\nstatus = 400\nheader_is = \"x\"\ntext = [\"\"]\nwait = \"0ms\"\n\
                 [[classify]]\nstatus = 500\nstatus_to = 400\noutcome = \"fault\"\n";
    let invalid = Config::parse("f", &format!("{base}{wrong}"), &Overrides::default()).expect_err("wrong");
    let found: Vec<&str> = invalid.violations().iter().map(|v| v.key.as_str()).collect();
    for key in [
        "upstreams.a.hold_off.mode",
        "upstreams.a.hold_off.cap",
        "upstreams.a.hold_off.by_header",
        "classify[0].upstreams",
        "classify[0].status",
        "classify[0].outcome",
        "classify[1].status",
        "classify[1].outcome",
        "classify[1].header",
        "classify[1].text",
        "classify[1].wait",
        "classify[2].status_to",
    ] {
        assert!(found.contains(&key), "{key} missing in {found:?}");
    }
    let good = "[[classify]]\nupstreams = [\"b\"]\nstatus = 420\noutcome = \"throttled\"\nwait = \"5s\"\n";
    let config = Config::parse("f", &format!("{base}{good}"), &Overrides::default()).expect("good");
    let rule = &config.classify()[0];
    assert_eq!((rule.is_for("a"), rule.is_for("b"), rule.rule().name()), (false, true, "rule-0"));
    assert_eq!((config.hold_offs()["a"].on(), config.hold_offs()["a"].cap().as_secs()), (true, 60));
}
