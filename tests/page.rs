//! The live page in a real browser, its stream, and the tools that show the same in a terminal.
#![allow(clippy::disallowed_methods, reason = "a test that waits for another process has to give up some time")]

#[path = "page/browser.rs"]
mod browser;
#[path = "page/world.rs"]
mod world;

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use browser::{Browser, Page};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use world::{Gateway, Service, get};

fn fresh_dir(kind: &str) -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("tidegate-page-{kind}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let dir = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&dir).expect("writable");
    dir
}

fn fixed(n: u32) -> String {
    format!("[upstreams.default]\nurl = \"UPSTREAM\"\n[limiters.default]\nmin = {n}\nmax = {n}\nlaw = \"fixed\"\n")
}

fn many(n: usize) -> String {
    let limiters: String = (0..n).map(|i| format!("[limiters.l{i:03}]\nmin = 1\nmax = 9\n")).collect();
    let route = "[[routes]]\nprefix = \"/\"\nupstream = \"default\"\nlimiter = \"l000\"\n";
    format!("[upstreams.default]\nurl = \"UPSTREAM\"\n{limiters}{route}")
}

/// Whether the first chart has ink in the colour of the limit's line.
const INK: &str = r#"(() => {
  const canvas = document.querySelector(".charts canvas");
  if (!canvas || !canvas.width) return false;
  const probe = document.createElement("canvas").getContext("2d");
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--blue"); probe.fillRect(0, 0, 1, 1);
  const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let ink = 0;
  for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && data[i] === r && data[i + 1] === g && data[i + 2] === b) ink += 1;
  return ink > 3;
})()"#;

fn figure(label: &str, begins: &str) -> String {
    format!(
        "[...document.querySelectorAll('.figures div')].some(d => d.querySelector('dt').textContent === '{label}' \
         && d.querySelector('dd').textContent.startsWith('{begins}'))"
    )
}

fn says(selector: &str, text: &str) -> String {
    format!("[...document.querySelectorAll('{selector}')].some(n => n.textContent.includes('{text}'))")
}

async fn is_well(page: &Page, gateway: &Gateway) {
    assert_eq!(page.errors(), Vec::<String>::new());
    let base = gateway.url("/");
    let elsewhere: Vec<_> =
        page.asked().into_iter().filter(|url| !url.starts_with(&base) && url != "about:blank").collect();
    assert_eq!(elsewhere, Vec::<String>::new(), "the page asks nobody else");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_draws_limit_load_and_refusals_and_follows_a_change_of_bounds() {
    let service = Service::start().await;
    let gateway = Gateway::start(&fixed(3), &service);
    service.hold(true);
    gateway.send(3);
    let browser = Browser::start().await;
    let page = browser.open(&gateway.url("/"), 1280, 900, "light").await;
    page.until("the load", &figure("in flight", "3")).await;
    page.until("the limit", &figure("limit", "3 of 3–3")).await;
    page.until("a drawn limit", INK).await;
    assert_eq!(page.eval("document.querySelectorAll('.charts canvas').length").await, 4);
    // Refusals come while the page looks on, so that a second with some of them is seen.
    for _ in 0..200 {
        gateway.send(2);
        if page.eval(&says(".badge", "refusing")).await == true {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    page.until(
        "a line for the reason",
        "[...document.querySelectorAll('.keys li')].some(k => !k.hidden && k.textContent.startsWith('limit reached'))",
    )
    .await;
    gateway.write(&fixed(7), &service);
    page.until("the new bounds", &figure("limit", "7 of 7–7")).await;
    page.until("the decision in words", &says("td", "an operator changed the bounds")).await;
    page.until("the config's version", &says("#config-pill", "version 2")).await;
    page.picture("bounds").await;
    gateway.write("nonsense = 1", &service);
    page.until("a refused config", &says("#config-pill", "refused")).await;
    page.until("why it was refused", &says("dd pre", "nonsense")).await;
    is_well(&page, &gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bounds_are_set_with_the_token_and_the_change_is_in_the_history() {
    let (service, log) = (Service::start().await, fresh_dir("audit"));
    let gateway = Gateway::start(&format!("{}[audit]\ndir = \"{}\"\n", fixed(3), log.display()), &service);
    let browser = Browser::start().await;
    let page = browser.open(&gateway.url("/"), 1280, 900, "light").await;
    page.until("the bounds in the form", "document.querySelector('form input')?.value === '3'").await;
    let send = |token: &str, n: u32| {
        format!(
            "(() => {{ const [min, max, reason, token] = document.querySelectorAll('form input'); \
             [min.value, max.value, reason.value, token.value] = ['{n}', '{n}', 'more room', '{token}']; \
             document.querySelector('form button').click(); }})()"
        )
    };
    page.eval(&send("let-me-in", 5)).await;
    page.until("what became of it", &says("form output", "applied: 5 to 5")).await;
    page.until("the new bounds", &figure("limit", "5 of 5–5")).await;
    page.until("the history", &says("#gateway td", "reason: more room")).await;
    is_well(&page, &gateway).await;
    page.eval(&send("wrong", 9)).await;
    page.until("the refusal", &says("form output", "not applied: wrong token")).await;
    page.until("no change", &figure("limit", "5 of 5–5")).await;
    page.eval("document.getElementById('gateway').scrollIntoView()").await;
    page.picture("history").await;
    let _ = std::fs::remove_dir_all(log);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fallback_is_shown_while_it_lasts() {
    let service = Service::start().await;
    let gateway = Gateway::start(&fixed(3), &service);
    for _ in 0..50 {
        get(gateway.address, "/", "").await;
    }
    service.hold(true);
    gateway.send(3);
    let browser = Browser::start().await;
    let page = browser.open(&gateway.url("/#default"), 1280, 900, "dark").await;
    page.until("the badge", &says("#limiter .badge", "fallback: signal")).await;
    page.until("the words", &says(".why", "nothing finishes")).await;
    page.until("the summary", &says("#summary", "1 on a fallback")).await;
    page.picture("fallback").await;
    service.hold(false);
    page.until("its end", &format!("!{}", says("#limiter .badge", "fallback"))).await;
    is_well(&page, &gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_limiters_are_listed_searched_and_walked_by_key() {
    let service = Service::start().await;
    let gateway = Gateway::start(&many(200), &service);
    let browser = Browser::start().await;
    let page = browser.open(&gateway.url("/"), 1280, 900, "light").await;
    page.until("all rows", "document.querySelectorAll('#rows li').length === 200").await;
    page.until("the first is chosen", &says("#limiter h2", "l000")).await;
    page.until("a chart", INK).await;
    assert_eq!(
        page.eval("document.querySelectorAll('.charts canvas').length").await,
        4,
        "one limiter is drawn in full"
    );
    let drawn = page.eval("[...document.querySelectorAll('#rows canvas')].filter(c => c.width !== 300).length").await;
    assert!((1..60).contains(&drawn.as_i64().unwrap_or(0)), "{drawn} rows are drawn");
    page.press("/").await;
    page.until("the search has the focus", "document.activeElement.id === 'filter'").await;
    page.eval("document.getElementById('filter').value = 'l15'; document.getElementById('filter').dispatchEvent(new Event('input'))").await;
    page.until("what was found", "document.querySelectorAll('#rows li:not([hidden])').length === 10").await;
    page.eval("document.querySelector('#rows li:not([hidden]) a').focus()").await;
    page.press("ArrowDown").await;
    page.until("the next row", "document.activeElement.hash === '#l151'").await;
    page.eval("document.activeElement.click()").await;
    page.until("its detail", &says("#limiter h2", "l151")).await;
    is_well(&page, &gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_finds_back_after_the_gateway_was_restarted() {
    let service = Service::start().await;
    let mut gateway = Gateway::start(&fixed(3), &service);
    let browser = Browser::start().await;
    let page = browser.open(&gateway.url("/"), 1280, 900, "light").await;
    page.until("life", &says("#connection", "live")).await;
    page.until("the limit", &figure("limit", "3")).await;
    gateway.write(&fixed(3), &service);
    gateway.restart(async || page.until("the loss", &says("#connection", "not connected")).await).await;
    page.until("life again", &format!("{} && !document.body.classList.contains('stale')", says("#connection", "live")))
        .await;
    service.hold(true);
    gateway.send(2);
    page.until("the new process's load", &figure("in flight", "2")).await;
    page.until("a drawn limit", INK).await;
    // That nobody answered is all that the browser may complain about.
    let others: Vec<_> = page.errors().into_iter().filter(|error| !error.contains("net::ERR_")).collect();
    assert_eq!(others, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn light_dark_and_a_phone() {
    let service = Service::start().await;
    let gateway = Gateway::start(&many(3), &service);
    let browser = Browser::start().await;
    let page = browser.open(&gateway.url("/"), 390, 844, "dark").await;
    let background = "getComputedStyle(document.documentElement).backgroundColor";
    page.until("the list", "document.querySelectorAll('#rows li').length === 3").await;
    page.until("dark", &format!("{background} === 'rgb(16, 21, 28)'")).await;
    page.prefer("light").await;
    page.until("light", &format!("{background} === 'rgb(246, 247, 249)'")).await;
    page.eval("document.getElementById('theme').click()").await;
    page.until("dark by choice", &format!("{background} === 'rgb(16, 21, 28)'")).await;
    page.reload().await;
    page.until(
        "the choice is kept",
        &format!("{background} === 'rgb(16, 21, 28)' && document.querySelectorAll('#rows li').length === 3"),
    )
    .await;
    let fits = "document.documentElement.scrollWidth <= innerWidth";
    assert_eq!(page.eval(fits).await, true, "nothing sticks out of the list");
    page.picture("phone-list").await;
    page.eval("document.querySelector('#rows a[href=\"#l001\"]').click()").await;
    page.until(
        "the detail in place of the list",
        &format!("document.getElementById('list').offsetWidth === 0 && {}", says("#limiter h2", "l001")),
    )
    .await;
    page.until("a chart", INK).await;
    assert_eq!(page.eval(fits).await, true, "nothing sticks out of the detail");
    page.picture("phone-detail").await;
    page.press("Escape").await;
    page.until("the list again", "document.getElementById('list').offsetWidth > 0").await;
    is_well(&page, &gateway).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn assets_have_types_tags_and_a_strict_policy() {
    let service = Service::start().await;
    let gateway = Gateway::start(&fixed(3), &service);
    for (path, kind) in [
        ("/", "text/html"),
        ("/page/page.js", "text/javascript"),
        ("/page/page.css", "text/css"),
        ("/page/icon.svg", "image/svg+xml"),
    ] {
        let answer = get(gateway.admin, path, "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(answer.contains(&format!("content-type: {kind}")), "{path}");
        assert!(answer.contains("content-security-policy: default-src 'none'; script-src 'self';"), "{path}");
        let tag = answer.lines().find_map(|line| line.strip_prefix("etag: ")).expect("a tag").to_owned();
        let again = get(gateway.admin, path, &format!("if-none-match: {tag}\r\n")).await;
        assert!(again.starts_with("HTTP/1.1 304"), "{path}: {again}");
    }
    assert!(get(gateway.admin, "/page/uPlot.LICENSE", "").await.contains("The MIT License"));
    assert!(get(gateway.admin, "/page/nothing", "").await.starts_with("HTTP/1.1 404"));
    let index = get(gateway.admin, "/", "").await;
    assert!(
        !index.contains("<style")
            && !index.contains("onclick")
            && !index.contains("http://")
            && !index.contains("https://")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stream_has_room_for_so_many_and_says_so() {
    let service = Service::start().await;
    let gateway = Gateway::start(&fixed(3), &service);
    let mut open = Vec::new();
    for i in 0..33 {
        let mut tcp = TcpStream::connect(gateway.admin).await.expect("listening");
        tcp.write_all(b"GET /api/v1/stream HTTP/1.1\r\nhost: a.b\r\n\r\n").await.expect("taken");
        let mut text = String::new();
        let wanted = if i < 32 { "event: now" } else { "too many pages" };
        while !text.contains(wanted) {
            let mut piece = [0; 4096];
            let n =
                tokio::time::timeout(browser::PATIENCE, tcp.read(&mut piece)).await.expect("in time").expect("open");
            assert!(n > 0, "client {i}: {text}");
            text.push_str(&String::from_utf8_lossy(&piece[..n]));
        }
        assert!(text.starts_with(if i < 32 { "HTTP/1.1 200" } else { "HTTP/1.1 503" }), "client {i}: {text}");
        open.push(tcp);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_and_why_tell_it_in_a_terminal() {
    let service = Service::start().await;
    let gateway = Gateway::start(&fixed(3), &service);
    for _ in 0..30 {
        get(gateway.address, "/", "").await;
    }
    service.hold(true);
    gateway.send(3);
    let text = |args: &[&str]| {
        let output = gateway.tool(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let began = std::time::Instant::now();
    while !get(gateway.admin, "/api/v1/limiters/default", "").await.contains("\"in_flight\":3") {
        assert!(began.elapsed() < browser::PATIENCE, "it does not fill");
    }
    // Only when it is full: a request that is let in would wait for the service.
    while !text(&["why", "default"]).contains("(limit_reached)") {
        assert!(get(gateway.address, "/", "").await.starts_with("HTTP/1.1 503"));
        assert!(began.elapsed() < browser::PATIENCE, "no refusal is told");
    }
    let top = text(&["top", "--once"]);
    let row: Vec<_> =
        top.lines().find(|line| line.starts_with("default")).expect("its row").split_whitespace().collect();
    assert_eq!(&row[..4], ["default", "3", "3", "3-3"], "{top}");
    assert_eq!(text(&["top"]).lines().count(), top.lines().count(), "no terminal: it prints once");
    let why = text(&["why", "default"]);
    for part in [
        "default: limit 3 (bounds 3 to 3)",
        "What binds now",
        "would help",
        "(limit_reached)",
        "Decisions, newest first",
    ] {
        assert!(why.contains(part), "{part} is missing in\n{why}");
    }
    let unknown = gateway.tool(&["why", "nobody"]);
    assert!(!unknown.status.success());
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("there are: default"));
}
