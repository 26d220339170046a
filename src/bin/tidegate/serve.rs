//! `tidegate serve`: starts the gateway, lets it run until it is told to stop, and ends it in order.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tidegate::config::{Config, TlsFiles};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use crate::admin::{self, Admin};
use crate::alerting;
use crate::ceilings;
use crate::cli::ServeArgs;
use crate::client::Clients;
use crate::live::Live;
use crate::reload::{Reloader, Start};
use crate::worker::{self, Places, Worker};

/// A gateway that runs. Dropping it ends it at once; [`Gateway::stop`] ends it in order.
pub(crate) struct Gateway {
    pub(crate) live: Arc<Live>,
    pub(crate) address: SocketAddr,
    stop: watch::Sender<bool>,
    acceptor: JoinHandle<()>,
    workers: Arc<[Worker]>,
    places: Arc<Places>,
}

/// What requests that wait are given to hear that the gateway is closed, once the drain time is over.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// `tidegate serve`.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let code = runtime.block_on(until_told(args))?;
    // Whatever still runs here is in the background, and the process ends.
    runtime.shutdown_background();
    Ok(code)
}

async fn until_told(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let (start, config) = Start::load(&args)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Taken before anybody can know that the gateway is up: until then a hangup would end it.
    let hangup = signal(SignalKind::hangup())?;
    let gateway = Gateway::start(config).await?;
    let reloader = Arc::new(Reloader::new(start, args.overrides(), gateway.live.clone()));
    tokio::spawn(alerting::follow(gateway.live.clone(), reloader.clone()));
    tokio::spawn(ceilings::follow(gateway.live.clone(), reloader.clone()));
    let admin = Admin::new(gateway.live.clone(), reloader.clone(), gateway.places.clone());
    let admin_address = admin::start(admin.clone()).await?;
    println!("listening {}", gateway.address);
    if let Some(address) = admin_address {
        println!("admin {address}");
    }
    let reloading = tokio::spawn(reloader.run(hangup));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    admin.not_ready();
    reloading.abort();
    let live = gateway.live.clone();
    let drain = live.config().server().drain();
    tracing::info!(drain_s = drain.as_secs_f64(), "stopping: no new connections, requests under way may finish");
    tokio::select! {
        all_ended = gateway.stop(drain) => {
            if !all_ended {
                tracing::warn!("stopped at the end of the drain time with connections still open");
            }
        }
        _ = terminate.recv() => tracing::warn!("told twice: stopped at once"),
        _ = interrupt.recv() => tracing::warn!("told twice: stopped at once"),
    }
    alerting::last_words(&live).await;
    Ok(ExitCode::SUCCESS)
}

impl Gateway {
    /// Binds, starts the workers, accepts.
    pub(crate) async fn start(config: Config) -> anyhow::Result<Self> {
        let server = config.server().clone();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if server.threads() == 0 { cores } else { server.threads() };
        let tls = server.tls().map(acceptor).transpose()?;
        let listener = TcpListener::bind(server.listen())
            .await
            .with_context(|| format!("cannot listen on {}", server.listen()))?;
        let address = listener.local_addr()?;
        let live = Arc::new(Live::start(config, threads)?);
        tokio::spawn(alerting::run(live.clone()));
        let (stop, stopped) = watch::channel(false);
        let workers: anyhow::Result<Arc<[Worker]>> = (0..threads)
            .map(|worker| {
                Worker::start(Clients {
                    live: live.clone(),
                    tls: tls.clone(),
                    header_timeout: server.header_timeout(),
                    idle_timeout: server.idle_timeout(),
                    worker,
                    stop: stopped.clone(),
                })
            })
            .collect();
        let workers = workers?;
        let places = Arc::new(Places::new(server.max_connections()));
        let acceptor = tokio::spawn(worker::accept(listener, workers.clone(), places.clone()));
        Ok(Self { live, address, stop, acceptor, workers, places })
    }

    /// Takes no new connections, lets requests finish for `drain`, and says whether all did.
    pub(crate) async fn stop(self, drain: Duration) -> bool {
        self.acceptor.abort();
        // The acceptor holds one place while it waits for a client: it must be gone.
        drop(self.acceptor.await);
        self.stop.send_replace(true);
        if tokio::time::timeout(drain, self.places.empty()).await.is_ok() {
            return true;
        }
        self.live.close();
        let ended = tokio::time::timeout(LAST_WORDS, self.places.empty()).await.is_ok();
        drop(self.workers);
        ended
    }
}

fn acceptor(files: &TlsFiles) -> anyhow::Result<TlsAcceptor> {
    let read = |path: &std::path::Path| format!("server.tls: {}", path.display());
    let chain: Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(&files.cert).with_context(|| read(&files.cert))?.collect();
    let chain = chain.with_context(|| read(&files.cert))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).with_context(|| read(&files.key))?;
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .context("server.tls: certificate and key do not fit")?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
