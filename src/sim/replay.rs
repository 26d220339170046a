//! Recorded traffic as a scenario: the arrivals as they were, each request's work from its latency.
//!
//! Two forms are read. A CSV has a line `arrival,latency` for each request, in seconds (or in
//! milliseconds, where a heading names `arrival_ms` or `latency_ms`). An access log has a time, in
//! brackets as web servers write it (`[01/Dec/2026:10:00:00 +0000]`) or in ISO 8601, and the
//! request's duration as its last word: with a decimal point it is seconds, without one
//! microseconds. Logs are written when a request ends, so its arrival is that much earlier; within
//! a second in which there is no finer time, requests are spread evenly.
//!
//! The recorded latency counts as work. That is right for a recording without a queue; in one with
//! a queue the work comes out too large, by the queue.

mod time;

use std::fmt;

use super::scenario::{Demand, Downstream, PhaseSpec, Scenario, Trace};

/// A trace that cannot be read: says the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTrace(String);

impl fmt::Display for InvalidTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for InvalidTrace {}

/// Reads a trace; times are counted from its first arrival.
///
/// # Errors
/// [`InvalidTrace`] with the line that cannot be read, or when there is none.
pub fn parse(text: &str) -> Result<Trace, InvalidTrace> {
    let lines = || text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let is_log = lines().next().is_some_and(|(_, line)| time::find(line).is_some());
    let mut requests = if is_log { log(lines())? } else { csv(lines())? };
    requests.retain(|(arrival, latency)| arrival.is_finite() && *latency > 0.0 && latency.is_finite());
    requests.sort_by(|a, b| a.0.total_cmp(&b.0));
    let first = requests.first().ok_or_else(|| InvalidTrace("the trace has no request".to_owned()))?.0;
    for request in &mut requests {
        request.0 -= first;
    }
    Ok(Trace { requests })
}

fn csv<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<(f64, f64)>, InvalidTrace> {
    let mut requests = Vec::new();
    let (mut arrival_unit, mut latency_unit) = (1.0, 1.0);
    for (at, line) in lines {
        let fields: Vec<&str> = line.split([',', ';', '\t']).map(str::trim).collect();
        let numbers: Vec<f64> = fields.iter().filter_map(|field| field.parse().ok()).collect();
        if at == 0 && numbers.is_empty() {
            arrival_unit = if fields.contains(&"arrival_ms") { 1e-3 } else { 1.0 };
            latency_unit = if fields.contains(&"latency_ms") { 1e-3 } else { 1.0 };
            continue;
        }
        let [arrival, latency, ..] = numbers[..] else {
            return Err(InvalidTrace(format!("line {}: \"{line}\" is not arrival,latency in numbers", at + 1)));
        };
        requests.push((arrival * arrival_unit, latency * latency_unit));
    }
    Ok(requests)
}

fn log<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Result<Vec<(f64, f64)>, InvalidTrace> {
    let mut ends = Vec::new();
    for (at, line) in lines {
        let wrong = |what| InvalidTrace(format!("line {}: \"{line}\" {what}", at + 1));
        let end = time::find(line).ok_or_else(|| wrong("has no time in brackets or in ISO 8601"))?;
        let took = duration(line).ok_or_else(|| wrong("does not end in a duration"))?;
        ends.push((end, took));
    }
    spread(&mut ends);
    Ok(ends.into_iter().map(|(end, took)| (end - took, took)).collect())
}

/// The last word: seconds with a decimal point, else microseconds. `rt=` or the like may precede it.
fn duration(line: &str) -> Option<f64> {
    let word = line.split_whitespace().next_back()?.trim_matches('"');
    let number = word.rsplit('=').next()?;
    let value: f64 = number.parse().ok()?;
    Some(if number.contains('.') { value } else { value * 1e-6 })
}

/// Spreads ends that carry the same whole second over that second.
fn spread(ends: &mut [(f64, f64)]) {
    let mut from = 0;
    while from < ends.len() {
        let second = ends[from].0;
        let count = ends[from..].iter().take_while(|end| end.0 == second).count();
        if second.fract() == 0.0 {
            for (i, end) in ends[from..from + count].iter_mut().enumerate() {
                end.0 += (i as f64 + 0.5) / count as f64;
            }
        }
        from += count;
    }
}

/// A scenario around a trace. With a `base`, its downstream, SLO, limiter and phases are used and
/// the last phase lasts as long as the trace; without one, the downstream is processor sharing with
/// as many workers as requests were in flight at most, but for one time in twenty.
pub fn scenario(name: &str, trace: Trace, base: Option<Scenario>) -> Scenario {
    let seconds = trace.requests.last().map_or(0.0, |last| last.0).max(1e-3);
    let mut scenario = base.unwrap_or_else(|| {
        let count = trace.requests.len() as f64;
        let mean = trace.requests.iter().map(|r| r.1).sum::<f64>() / count.max(1.0);
        let mut made = Scenario::bare(name, mean, Demand::Exponential, Downstream::Ps);
        let workers = Some(usual_most(&trace));
        made.phases = vec![PhaseSpec { seconds, workers, rate: Some(count / seconds), ..PhaseSpec::default() }];
        made
    });
    let planned = scenario.seconds();
    if let Some(last) = scenario.phases.last_mut() {
        last.seconds = (last.seconds + seconds - planned).max(last.seconds);
    }
    scenario.trace = Some(trace);
    scenario
}

/// 95th percentile, over the arrivals, of the requests in flight.
fn usual_most(trace: &Trace) -> f64 {
    let mut ends: Vec<f64> = trace.requests.iter().map(|(arrival, latency)| arrival + latency).collect();
    ends.sort_by(f64::total_cmp);
    let in_flight =
        trace.requests.iter().enumerate().map(|(i, request)| i + 1 - ends.partition_point(|e| *e <= request.0));
    let mut levels: Vec<usize> = in_flight.collect();
    levels.sort_unstable();
    levels.get(levels.len() * 95 / 100).map_or(1.0, |level| (*level).max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn csv_with_and_without_heading() {
        let plain = parse("5.0,0.1\n5.5,0.2\n").expect("valid");
        assert_eq!(plain.requests, [(0.0, 0.1), (0.5, 0.2)]);
        let milliseconds = parse("arrival_ms,latency_ms\n500,200\n0,100\n").expect("valid");
        assert_eq!(milliseconds.requests, [(0.0, 0.1), (0.5, 0.2)]);
    }

    #[test]
    fn access_logs_of_two_kinds() {
        let common = "::1 - - [01/Dec/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5 0.250\n\
                      ::1 - - [01/Dec/2026:11:00:01 +0100] \"GET / HTTP/1.1\" 200 5 250000\n";
        let requests = parse(common).expect("valid").requests;
        assert_eq!(requests, [(0.0, 0.25), (1.0, 0.25)]);
        let iso = "2026-12-01T10:00:00.500Z GET / rt=0.5\n2026-12-01T10:00:01.750Z GET / rt=0.25\n";
        assert_eq!(parse(iso).expect("valid").requests, [(0.0, 0.5), (1.5, 0.25)]);
    }

    #[test]
    fn a_wrong_line_is_named() {
        let err = parse("1,2\nx,y\n").expect_err("wrong");
        assert!(err.to_string().contains("line 2"), "{err}");
        assert!(parse("").is_err());
    }

    #[test]
    fn without_a_base_the_capacity_is_what_was_used() {
        let requests = (0..1000).map(|i| (f64::from(i) * 0.1, 0.5)).collect();
        let scenario = scenario("trace", Trace { requests }, None);
        assert_eq!(scenario.phases[0].workers, Some(5.0));
        scenario.check().expect("valid");
    }
}
