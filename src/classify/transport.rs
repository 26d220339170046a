//! Errors that come in place of an answer, sorted by what they say about the other side.
//!
//! Clients wrap the true cause in layers of their own errors, so the whole chain of sources is
//! looked at, outermost first. A cause that nobody recognises is "other", never a time-out.

use std::error::Error;
use std::io::{self, ErrorKind};

use crate::breaker::BreakerOpen;
use crate::rejection::Rejected;

/// How far down a chain of sources to look; a chain that is longer is looped or absurd.
const DEEPEST: usize = 16;

/// The kind of an error that came in place of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TransportError {
    /// Nobody listens there.
    ConnectionRefused,
    /// The connection broke before the answer was whole.
    Reset,
    /// No answer in time.
    TimedOut,
    /// A limiter, a hold-off or a breaker of tidegate's, further in, refused.
    Rejected,
    /// Anything else.
    Other,
}

impl TransportError {
    /// The kind of this error, found in it or in one of its sources.
    pub fn of(error: &(dyn Error + 'static)) -> Self {
        let mut link = Some(error);
        for _ in 0..DEEPEST {
            let Some(error) = link else { break };
            if let Some(kind) = recognise(error) {
                return kind;
            }
            link = error.source();
        }
        Self::Other
    }
}

fn recognise(error: &(dyn Error + 'static)) -> Option<TransportError> {
    if error.is::<Rejected>() || error.is::<BreakerOpen>() {
        return Some(TransportError::Rejected);
    }
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return of_io(error);
    }
    // Time-outs have a type of their own in every crate (tokio, tower, hyper-util, reqwest), and most
    // of those crates are not known here. They agree on the words.
    let words = error.to_string();
    let timed_out = ["timed out", "deadline has elapsed", "timeout expired"].iter().any(|w| words.contains(w));
    timed_out.then_some(TransportError::TimedOut)
}

fn of_io(error: &io::Error) -> Option<TransportError> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(TransportError::ConnectionRefused),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::NotConnected
        | ErrorKind::UnexpectedEof => Some(TransportError::Reset),
        ErrorKind::TimedOut => Some(TransportError::TimedOut),
        // An io::Error made of another error does not list it as its source.
        _ => error.get_ref().and_then(|inner| recognise(inner)),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Wrapped(&'static str, Option<Box<dyn Error + 'static>>);

    impl fmt::Display for Wrapped {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Wrapped {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref()
        }
    }

    fn io(kind: ErrorKind) -> Box<dyn Error> {
        Box::new(io::Error::from(kind))
    }

    #[test]
    fn the_cause_is_found_under_its_wrappings() {
        for (kind, expected) in [
            (ErrorKind::ConnectionRefused, TransportError::ConnectionRefused),
            (ErrorKind::ConnectionReset, TransportError::Reset),
            (ErrorKind::UnexpectedEof, TransportError::Reset),
            (ErrorKind::TimedOut, TransportError::TimedOut),
            (ErrorKind::PermissionDenied, TransportError::Other),
        ] {
            let wrapped = Wrapped("client error", Some(Box::new(Wrapped("connect", Some(io(kind))))));
            assert_eq!(TransportError::of(&wrapped), expected, "{kind:?}");
        }
    }

    #[test]
    fn time_outs_are_known_by_their_words() {
        for words in ["request timed out", "deadline has elapsed", "operation timed out", "Timeout expired"] {
            let lower = words.to_ascii_lowercase();
            let error = io::Error::other(lower);
            assert_eq!(TransportError::of(&error), TransportError::TimedOut, "{words}");
        }
        assert_eq!(TransportError::of(&Wrapped("no time", None)), TransportError::Other);
    }

    #[test]
    fn an_endless_chain_ends() {
        #[derive(Debug)]
        struct Endless;
        impl fmt::Display for Endless {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("again")
            }
        }
        impl Error for Endless {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&Endless)
            }
        }
        assert_eq!(TransportError::of(&Endless), TransportError::Other);
    }
}
