//! Reasons in plain words: what a decision or a refusal means, and what would help.
//!
//! One place for the terminal, the live page and the documents. It decides nothing; every reason
//! has words (the matches are complete), and every sentence is about this limiter, not about the reader.

use crate::law::{Inputs, Reason};
use crate::rejection::RejectReason;

impl Reason {
    /// What the decision means: a fragment such as "the limit bound and the downstream answers well".
    pub const fn in_words(self) -> &'static str {
        match self {
            Reason::Hold => "nothing to change",
            Reason::HoldAppLimited => {
                "the limit was not what bound: demand stayed below it, so there was nothing to learn"
            }
            Reason::HoldStalled => "nothing finishes: neither a sign of health nor a reason to cut",
            Reason::HoldUncertain => "too little is known to move",
            Reason::Fixed => "this law does not move the limit",
            Reason::Grow => "the limit bound and the downstream answers well",
            Reason::ShrinkThrottle => "the downstream said \"too fast\"",
            Reason::ShrinkOverload => "the downstream refused work or ran out of time",
            Reason::ShrinkLatency => "latency says that a queue stands in the downstream",
            Reason::Probe => "a short look at the unloaded latency begins or ends",
            Reason::HoldFutile => "cuts changed nothing, so the law holds instead of shedding more",
            Reason::ShrinkLocal => "this process's own runtime is late, whatever the downstream says",
            Reason::HoldLocal => "this process's own runtime is late; the last cut has not been judged yet",
            Reason::Bounds => "an operator changed the bounds",
        }
    }

    /// What would help, or that nothing needs to: a sentence without its full stop.
    pub const fn what_helps(self) -> &'static str {
        match self {
            Reason::Hold | Reason::Grow | Reason::Probe | Reason::Bounds => "nothing needs to be done",
            Reason::HoldAppLimited => "nothing needs to be done; more load would teach it more",
            Reason::HoldStalled => {
                "look at the downstream: it holds everything it was given; time-outs give places back"
            }
            Reason::HoldUncertain => "wait for more traffic; at very low rates a fixed limit is as good",
            Reason::Fixed => "name another law if the limit should follow the downstream",
            Reason::ShrinkThrottle => "send less, or ask the downstream's owner for a larger allowance",
            Reason::ShrinkOverload => "look at the downstream's health; more capacity there lets the limit grow again",
            Reason::ShrinkLatency => {
                "nothing if latency matters most; more capacity in the downstream lets the limit grow again"
            }
            Reason::HoldFutile => "look at the downstream: its trouble does not come from this load",
            Reason::ShrinkLocal | Reason::HoldLocal => {
                "look at this process: more cores, fewer connections, or find what blocks its runtime"
            }
        }
    }
}

impl RejectReason {
    /// Why the request was refused: a fragment such as "the limit is reached".
    pub const fn in_words(self) -> &'static str {
        match self {
            RejectReason::LimitReached => "the limit is reached",
            RejectReason::ClassCap => "its class is at its cap",
            RejectReason::QueueFull => "the waiting room is full",
            RejectReason::QueueTimeout => "waited as long as allowed",
            RejectReason::DeadlineUnmeetable => "the deadline cannot be met",
            RejectReason::ClientDeadline => "the deadline passed while waiting",
            RejectReason::Closed => "the limiter is closed",
            RejectReason::HoldOff => "the downstream asked to be left alone for a while",
            RejectReason::Ceiling => "the ceiling's rate is used up",
            RejectReason::BudgetSpent => "the run's budget of attempts is spent",
        }
    }

    /// What would make such refusals fewer: a sentence without its full stop.
    pub const fn what_helps(self) -> &'static str {
        match self {
            RejectReason::LimitReached => {
                "more capacity downstream, less load, or a waiting room for short bursts (queue.length)"
            }
            RejectReason::ClassCap => "a larger cap for the class, or less load of it (classes.NAME.cap)",
            RejectReason::QueueFull => {
                "less load or more capacity; a longer queue only helps against short bursts (queue.length)"
            }
            RejectReason::QueueTimeout => "more capacity, or a longer wait if clients have the time (queue.wait)",
            RejectReason::DeadlineUnmeetable => {
                "longer deadlines at the client, or more capacity: the answer would have come too late"
            }
            RejectReason::ClientDeadline => "longer deadlines at the client, or a shorter wait (queue.wait)",
            RejectReason::Closed => "nothing: the process is stopping, or the limiter was taken out of the config",
            RejectReason::HoldOff => {
                "send less, or ask the downstream's owner for a larger allowance; it ends by itself (hold_off.cap)"
            }
            RejectReason::Ceiling => "a larger quota on the other side, or callers that ask less often",
            RejectReason::BudgetSpent => "a larger budget for the run, or a look at why so many attempts fail",
        }
    }
}

/// What a decision compared, such as "latency 80 ms, unloaded latency 40 ms"; empty when nothing was.
pub fn compared(inputs: &Inputs) -> String {
    let parts: Vec<_> = inputs.iter().map(|(name, value)| input(name, value)).collect();
    parts.join(", ")
}

fn input(name: &str, value: f64) -> String {
    let words = match name {
        "latency_s" | "rtt_s" => "latency",
        "short_rtt_s" => "latency just now",
        "long_rtt_s" => "latency in the long run",
        "unloaded_s" | "rtt_noload_s" => "unloaded latency",
        "bound_share" => "share of time at the limit",
        "loss_share" => "share of losses",
        "queue_size" => "queue in the downstream",
        "in_flight" => "in flight",
        "spread" => "uncertainty of the knee",
        "gradient" => "latency in the long run over latency now",
        other => other,
    };
    let words = words.strip_suffix("_s").unwrap_or(words).replace('_', " ");
    if name.ends_with("_s") { format!("{words} {}", millis(value)) } else { format!("{words} {}", number(value)) }
}

fn millis(seconds: f64) -> String {
    format!("{} ms", number(seconds * 1e3))
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_words_of_its_own() {
        let mut all: Vec<_> = Reason::ALL.map(Reason::in_words).to_vec();
        all.extend(RejectReason::ALL.map(RejectReason::in_words));
        let mut distinct = all.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn comparisons_carry_names_and_units() {
        let inputs =
            Inputs::default().with("latency_s", 0.0804).with("unloaded_s", 0.04).with("max", 200.0).with("new_s", 12.5);
        assert_eq!(compared(&inputs), "latency 80.4 ms, unloaded latency 40 ms, max 200, new 12500 ms");
        assert_eq!(compared(&Inputs::default()), "");
    }

    #[test]
    fn the_document_gives_the_same_words() {
        let page = include_str!("../docs/page.md");
        let reasons = Reason::ALL.map(|r| (r.as_str(), r.in_words(), r.what_helps()));
        let refusals = RejectReason::ALL.map(|r| (r.as_str(), r.in_words(), r.what_helps()));
        for (name, words, helps) in reasons.iter().chain(&refusals) {
            let row = format!("| `{name}` | {words} | {helps} |");
            assert!(page.contains(&row), "docs/page.md lacks\n{row}");
        }
    }
}
