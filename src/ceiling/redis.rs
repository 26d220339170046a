//! Shared ceilings in Redis or Valkey: one key a ceiling, one script a lease, the store's clock.
//!
//! The script is sent again when the server does not know it. A connection that failed in any way is
//! dropped, and the next one looks the name up anew, so that a failover is followed. User and password
//! are read when a connection is made and stand in no log.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::io::tcp::TcpSettings;
use redis::{
    AsyncConnectionConfig, Client, ConnectionInfo, ErrorKind, IntoConnectionInfo, RedisError, Script, ServerErrorKind,
    TlsCertificates,
};

use super::store::{Answer, Ask, Asking, Loss, Store};

const SCRIPT: &str = include_str!("lease.lua");

/// A ceiling's place in Redis or Valkey.
pub struct RedisStore {
    settings: RedisStoreBuilder,
    key: String,
    member: String,
    script: Script,
    connection: Option<MultiplexedConnection>,
}

/// Where the store is, and how to get in.
#[derive(Clone)]
pub struct RedisStoreBuilder {
    url: String,
    user: Option<String>,
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    prefix: String,
}

/// Why a store cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidStore {
    /// The URL is none.
    Url,
    /// The URL holds a user or a password.
    Secret,
}

impl RedisStore {
    /// Begins with `url`: `redis://HOST[:PORT][/DB]`, or `rediss://` with TLS; `valkey` does as well.
    ///
    /// With TLS, the process needs rustls's provider of cryptography installed.
    pub fn builder(url: impl Into<String>) -> RedisStoreBuilder {
        RedisStoreBuilder {
            url: url.into(),
            user: None,
            password_file: None,
            ca_file: None,
            prefix: "tidegate:ceiling:".into(),
        }
    }

    /// The key that holds the ceiling.
    pub fn key(&self) -> &str {
        &self.key
    }

    async fn make_connection(&self) -> Result<MultiplexedConnection, Loss> {
        let settings = self.settings.clone();
        let opened = tokio::task::spawn_blocking(move || settings.client()).await;
        let client = opened.map_err(|_| Loss::Unreachable)??;
        // Every call has a time-out of its own; the library's only ends what was left behind.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(1)))
            .set_response_timeout(Some(Duration::from_secs(1)));
        client.get_multiplexed_async_connection_with_config(&config).await.map_err(|err| loss(&err))
    }

    async fn invoke(&self, connection: &mut MultiplexedConnection, ask: &Ask) -> Result<Answer, RedisError> {
        let throttled = ask.throttled.map_or(-1, |age| i64::try_from(age.as_micros()).unwrap_or(i64::MAX));
        let (granted, life, wait, rate, members): (u32, u64, u64, f64, u32) = self
            .script
            .key(&self.key)
            .arg(&self.member)
            .arg(ask.want)
            .arg(ask.least)
            .arg(ask.unspent)
            .arg(ask.used)
            .arg(throttled)
            .arg(u8::from(ask.succeeded))
            .arg(ask.terms.rate)
            .arg(ask.terms.burst)
            .arg(ask.terms.bounds.0)
            .arg(ask.terms.bounds.1)
            .invoke_async(connection)
            .await?;
        let us = Duration::from_micros;
        Ok(Answer { granted, life: us(life), wait: us(wait), rate, members })
    }
}

impl Store for RedisStore {
    fn connect(&mut self) -> Asking<'_, ()> {
        Box::pin(async {
            if self.connection.is_none() {
                self.connection = Some(self.make_connection().await?);
            }
            Ok(())
        })
    }

    fn lease<'a>(&'a mut self, ask: &'a Ask) -> Asking<'a, Answer> {
        Box::pin(async {
            // Taken out: a call that is dropped half-way takes its connection with it.
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.make_connection().await?,
            };
            let answer = match self.invoke(&mut connection, ask).await {
                // The server closed it while nothing was asked; the time-out is around both.
                Err(err) if err.is_connection_dropped() && !err.is_timeout() => {
                    connection = self.make_connection().await?;
                    self.invoke(&mut connection, ask).await
                }
                answer => answer,
            };
            let answer = answer.map_err(|err| loss(&err))?;
            self.connection = Some(connection);
            Ok(answer)
        })
    }
}

impl RedisStoreBuilder {
    /// The user. Default: the store's default user.
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// A file that holds the password and nothing else; read whenever a connection is made.
    pub fn password_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.password_file = Some(path.into());
        self
    }

    /// Certificates to trust instead of the system's, PEM; for `rediss`.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// What the key begins with. Default `tidegate:ceiling:`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The store of the ceiling `name`. Its key is the prefix and the name in braces, the hash tag of a
    /// cluster; what is no letter, digit, `.`, `_` or `-` is written as `%` and two hexadecimal digits.
    ///
    /// # Errors
    /// [`InvalidStore`] when the URL is none, or holds a user or a password. Nothing is connected yet.
    pub fn build(self, name: &str) -> Result<RedisStore, InvalidStore> {
        let info = self.url.as_str().into_connection_info().map_err(|_| InvalidStore::Url)?;
        if info.redis_settings().password().is_some() || info.redis_settings().username().is_some() {
            return Err(InvalidStore::Secret);
        }
        let key = format!("{}{{{}}}", self.prefix, escaped(name));
        let member = format!("{:016x}", RandomState::new().build_hasher().finish());
        Ok(RedisStore { settings: self, key, member, script: Script::new(SCRIPT), connection: None })
    }

    fn client(&self) -> Result<Client, Loss> {
        let info = self.url.as_str().into_connection_info().map_err(|_| Loss::Unreachable)?;
        let mut redis = info.redis_settings().clone();
        if let Some(user) = &self.user {
            redis = redis.set_username(user);
        }
        if let Some(path) = &self.password_file {
            let password = std::fs::read_to_string(path).map_err(|_| Loss::Denied)?;
            redis = redis.set_password(password.trim_end_matches(['\r', '\n']));
        }
        let tcp = TcpSettings::default().set_nodelay(true).set_user_timeout(Duration::from_secs(5));
        let info: ConnectionInfo = info.set_redis_settings(redis).set_tcp_settings(tcp);
        let client = match &self.ca_file {
            Some(path) => {
                let root_cert = Some(std::fs::read(path).map_err(|_| Loss::Denied)?);
                Client::build_with_tls(info, TlsCertificates { client_tls: None, root_cert })
            }
            None => Client::open(info),
        };
        client.map_err(|_| Loss::Unreachable)
    }
}

/// A name as a part of a key: no braces and no blanks, whatever users call things.
fn escaped(name: &str) -> String {
    let mut key = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
            key.push(char::from(byte));
        } else {
            key.push_str(&format!("%{byte:02x}"));
        }
    }
    key
}

fn loss(err: &RedisError) -> Loss {
    match err.kind() {
        ErrorKind::Io => Loss::Unreachable,
        ErrorKind::AuthenticationFailed | ErrorKind::Server(ServerErrorKind::NoPerm) => Loss::Denied,
        ErrorKind::Server(ServerErrorKind::ReadOnly) => Loss::ReadOnly,
        ErrorKind::Server(
            ServerErrorKind::BusyLoading
            | ServerErrorKind::ClusterDown
            | ServerErrorKind::MasterDown
            | ServerErrorKind::TryAgain
            | ServerErrorKind::Moved
            | ServerErrorKind::Ask,
        ) => Loss::Busy,
        _ => loss_in_words(err),
    }
}

/// Older servers wrap a script's error in one of their own; what it was stands in the text.
fn loss_in_words(err: &RedisError) -> Loss {
    let text = err.to_string();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if says(&["OOM"]) {
        Loss::Full
    } else if says(&["READONLY", "MISCONF", "NOREPLICAS"]) {
        Loss::ReadOnly
    } else if says(&["NOAUTH", "WRONGPASS", "NOPERM", "invalid username-password"]) {
        Loss::Denied
    } else if says(&["BUSY", "LOADING", "MASTERDOWN", "CLUSTERDOWN"]) {
        Loss::Busy
    } else {
        Loss::Nonsense
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("key", &self.key).finish_non_exhaustive()
    }
}

impl fmt::Debug for RedisStoreBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStoreBuilder").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl fmt::Display for InvalidStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Url => "the store's URL is none: need redis://HOST[:PORT][/DB] or rediss://HOST[:PORT][/DB]",
            Self::Secret => {
                "the store's URL holds a user or a password: give the user apart, and the password in a file"
            }
        })
    }
}

impl std::error::Error for InvalidStore {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_hash_tag_whatever_the_name() {
        for (name, tag) in [("partner", "partner"), ("a{b}c d", "a%7bb%7dc%20d"), ("größe", "gr%c3%b6%c3%9fe")] {
            let store = RedisStore::builder("redis://127.0.0.1:1").build(name).expect("a good URL");
            assert_eq!(store.key(), format!("tidegate:ceiling:{{{tag}}}"));
        }
    }

    #[test]
    fn secrets_stay_out_of_urls_and_debug_texts() {
        let build = |url: &str| RedisStore::builder(url).build("a").expect_err("refused");
        assert_eq!(build("redis://user:secret@h"), InvalidStore::Secret);
        assert_eq!(build("http://h"), InvalidStore::Url);
        let builder = RedisStore::builder("redis://h").user("me").password_file("/secret");
        assert!(!format!("{builder:?}").contains("secret"));
    }
}
