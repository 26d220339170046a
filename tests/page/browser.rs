//! A headless Chromium, spoken to over its DevTools protocol. Nothing else is installed or asked.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;

/// Nothing in these tests takes this long unless it hangs.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    child: Child,
    dir: PathBuf,
    shared: Arc<Shared>,
}

struct Shared {
    next: AtomicU64,
    commands: mpsc::Sender<String>,
    answers: Mutex<HashMap<u64, oneshot::Sender<Value>>>,
    events: Mutex<Vec<Value>>,
}

/// A tab.
pub(crate) struct Page {
    shared: Arc<Shared>,
    session: String,
}

impl Browser {
    pub(crate) async fn start() -> Self {
        let dir = super::fresh_dir("chromium");
        let mut child = chromium()
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", dir.display()))
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("log")).expect("writable"))
            .spawn()
            .expect("these tests need the command chromium (Debian package chromium); tests/run installs it");
        let url = address(&dir, &mut child).await;
        let (socket, _) = tokio_tungstenite::connect_async(url).await.expect("DevTools answer");
        let (mut out, mut incoming) = socket.split();
        let (commands, mut queue) = mpsc::channel::<String>(64);
        let shared =
            Arc::new(Shared { next: AtomicU64::new(1), commands, answers: Mutex::default(), events: Mutex::default() });
        tokio::spawn(async move {
            while let Some(command) = queue.recv().await {
                if out.send(Message::text(command)).await.is_err() {
                    return;
                }
            }
        });
        let reader = shared.clone();
        tokio::spawn(async move {
            while let Some(Ok(message)) = incoming.next().await {
                let Ok(value) = serde_json::from_str::<Value>(message.to_text().unwrap_or("")) else { continue };
                match value["id"].as_u64() {
                    Some(id) => {
                        let waiting = reader.answers.lock().expect("sound").remove(&id);
                        waiting.map(|waiting| waiting.send(value));
                    }
                    None => reader.events.lock().expect("sound").push(value),
                }
            }
        });
        Self { child, dir, shared }
    }

    /// Opens `url` in a window of this size.
    pub(crate) async fn open(&self, url: &str, width: u32, height: u32, scheme: &str) -> Page {
        let target = self.shared.call(None, "Target.createTarget", json!({ "url": "about:blank" })).await;
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.shared.call(None, "Target.attachToTarget", attach).await;
        let page =
            Page { shared: self.shared.clone(), session: session["sessionId"].as_str().expect("a session").to_owned() };
        for domain in ["Runtime.enable", "Log.enable", "Page.enable", "Network.enable"] {
            page.call(domain, json!({})).await;
        }
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        page.call("Emulation.setDeviceMetricsOverride", metrics).await;
        page.prefer(scheme).await;
        page.call("Page.navigate", json!({ "url": url })).await;
        page
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

fn chromium() -> Command {
    let there =
        |name: &&&str| Command::new(name).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    Command::new(["chromium", "chromium-browser", "google-chrome"].iter().find(there).unwrap_or(&"chromium"))
}

/// Where DevTools listen, once they do.
async fn address(dir: &Path, child: &mut Child) -> String {
    let began = Instant::now();
    loop {
        let text = std::fs::read_to_string(dir.join("DevToolsActivePort")).unwrap_or_default();
        if let Some((port, path)) = text.split_once('\n') {
            return format!("ws://127.0.0.1:{port}{}", path.trim());
        }
        let log = || std::fs::read_to_string(dir.join("log")).unwrap_or_default();
        assert!(child.try_wait().expect("ours").is_none(), "chromium ended: {}", log());
        assert!(began.elapsed() < PATIENCE, "chromium does not start: {}", log());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Shared {
    async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        self.answers.lock().expect("sound").insert(id, sender);
        let mut command = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        self.commands.send(command.to_string()).await.expect("chromium lives");
        let answer = tokio::time::timeout(PATIENCE, answer).await.expect("an answer in time").expect("chromium lives");
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }
}

impl Page {
    async fn call(&self, method: &str, params: Value) -> Value {
        self.shared.call(Some(&self.session), method, params).await
    }

    /// The system's theme, as the page sees it.
    pub(crate) async fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features).await;
    }

    /// Loads the page again.
    pub(crate) async fn reload(&self) {
        self.call("Page.reload", json!({})).await;
    }

    /// The value of a JavaScript expression; null when it throws.
    pub(crate) async fn eval(&self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        self.call("Runtime.evaluate", params).await["result"]["value"].clone()
    }

    /// Waits until the expression is true.
    pub(crate) async fn until(&self, what: &str, expression: &str) {
        let began = Instant::now();
        while self.eval(expression).await != json!(true) {
            if began.elapsed() > PATIENCE {
                let text = self.eval("document.body.innerText").await;
                panic!(
                    "{what} does not come; the page says\n{}\nerrors: {:#?}",
                    text.as_str().unwrap_or(""),
                    self.errors()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Presses a key that has a name.
    pub(crate) async fn press(&self, key: &str) {
        for kind in ["keyDown", "keyUp"] {
            self.call("Input.dispatchKeyEvent", json!({ "type": kind, "key": key, "code": key })).await;
        }
    }

    /// Saves what is seen, when `TIDEGATE_SCREENSHOTS` names a folder.
    pub(crate) async fn picture(&self, name: &str) {
        let Some(dir) = std::env::var_os("TIDEGATE_SCREENSHOTS") else { return };
        let shot = self.call("Page.captureScreenshot", json!({ "format": "png" })).await;
        let path = Path::new(&dir).join(format!("{name}.b64"));
        std::fs::write(path, shot["data"].as_str().unwrap_or("")).expect("writable");
    }

    /// What went wrong in the page: exceptions, errors it logged or that the browser logged for it.
    pub(crate) fn errors(&self) -> Vec<String> {
        let events = self.shared.events.lock().expect("sound");
        let own = events.iter().filter(|event| event["sessionId"] == json!(self.session));
        own.filter_map(|event| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" if params["type"] != "log" => Some(params["args"].to_string()),
                "Log.entryAdded" if params["entry"]["level"] == "error" => Some(params["entry"].to_string()),
                _ => None,
            }
        })
        .collect()
    }

    /// Every address that the page asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        let events = self.shared.events.lock().expect("sound");
        let own = events.iter().filter(|event| event["sessionId"] == json!(self.session));
        let sent = own.filter(|event| event["method"] == "Network.requestWillBeSent");
        sent.filter_map(|event| event["params"]["request"]["url"].as_str().map(str::to_owned)).collect()
    }
}
