//! Alerts of this gateway: made from the config, told who is told.

use std::sync::Arc;
use std::time::Duration;

use tidegate::alerts::{Alertmanager, Alerts, Form, Kind, Receiver, Secret, Settings, Subject, Webhook};
use tidegate::config::{AlertmanagerConfig, AlertsConfig, Place, WebhookConfig};

use crate::live::Live;
use crate::reload::Reloader;

/// What a receiver is given to take the last messages when the gateway ends.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often the state of the config is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// Alerts without receivers: see [`apply`].
pub(crate) fn new(config: &AlertsConfig) -> Alerts {
    let client = reqwest::Client::builder()
        .user_agent(concat!("tidegate/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(Duration::from_secs(5))
        .build();
    // A host without trusted certificates, most likely: no reason to refuse traffic.
    let client = client.inspect_err(|err| tracing::error!(%err, "no HTTP client: alerts go to the log only")).ok();
    Alerts::new(client, config.instance().map_or_else(host_name, str::to_owned))
}

/// Puts `config` in force. Within a runtime.
pub(crate) fn apply(alerts: &Alerts, config: &AlertsConfig) {
    let settings = Settings {
        period: config.period(),
        quiet: config.quiet(),
        most_groups: config.max_groups(),
        tenants: config.tenants(),
    };
    let webhooks = config.webhooks().iter().map(|(name, to)| (name.clone(), webhook(to)));
    let managers = config.alertmanagers().iter().map(|(name, to)| (name.clone(), alertmanager(to)));
    alerts.set(settings, config.log(), webhooks.chain(managers).collect());
}

/// Tells what is the matter with the limiters in force, until it is dropped.
pub(crate) async fn run(live: Arc<Live>) {
    live.alerts().clone().run(move || live.limiters()).await;
}

/// Tells while the config file is not what is in force, and when a change was taken back, until it is dropped.
pub(crate) async fn follow(live: Arc<Live>, reloader: Arc<Reloader>) {
    let (refused, reverted) = (Subject::process(Kind::ConfigRefused), Subject::process(Kind::GuardReverted));
    let mut reverts = 0;
    loop {
        let state = reloader.shown();
        let taken_back = state.reverted > reverts;
        reverts = state.reverted;
        match state.error {
            Some(what) if taken_back => live.alerts().raise(&reverted, &what),
            Some(why) => live.alerts().hold(&refused, &why),
            None => live.alerts().clear(&refused),
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// The last messages, when the gateway ends.
pub(crate) async fn last_words(live: &Live) {
    live.alerts().flush(|| live.limiters(), LAST_WORDS).await;
}

fn webhook(to: &WebhookConfig) -> Receiver {
    Receiver::Webhook(Webhook {
        url: secret(&to.place),
        form: if to.chat { Form::Chat } else { Form::Json },
        secret: to.secret_file.clone().map(Secret::File),
        most_bytes: usize::try_from(to.max_body).unwrap_or(usize::MAX),
        timeout: to.timeout,
    })
}

fn alertmanager(to: &AlertmanagerConfig) -> Receiver {
    Receiver::Alertmanager(Alertmanager {
        url: secret(&to.place),
        labels: to.labels.clone(),
        token: to.token_file.clone().map(Secret::File),
        resend: to.resend,
        timeout: to.timeout,
    })
}

fn secret(place: &Place) -> Secret {
    match place {
        Place::Url(url) => Secret::Text(url.clone()),
        Place::File(path) => Secret::File(path.clone()),
    }
}

fn host_name() -> String {
    let named =
        std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::fs::read_to_string("/etc/hostname"));
    let name = named.unwrap_or_default().trim().to_owned();
    if name.is_empty() { "tidegate".to_owned() } else { name }
}
