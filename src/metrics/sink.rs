//! Where a limiter's numbers go: into the `metrics` facade, or straight into Prometheus text.

use metrics::{Label, counter, gauge};

use crate::histogram::Durations;

/// Names and values.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

/// Takes numbers as they stand now.
pub(super) trait Sink {
    fn gauge(&mut self, name: &'static str, labels: Labels<'_>, value: f64);
    fn counter(&mut self, name: &'static str, labels: Labels<'_>, value: u64);
    /// `names` are those of the buckets, the sum and the count.
    fn durations(&mut self, names: [&'static str; 3], labels: Labels<'_>, durations: &Durations);
}

/// Whichever recorder the `metrics` facade has. Its own histograms want each sample, so durations go
/// there as counters by `le`.
pub(super) struct Facade;

impl Sink for Facade {
    fn gauge(&mut self, name: &'static str, labels: Labels<'_>, value: f64) {
        gauge!(name, owned(labels)).set(value);
    }

    fn counter(&mut self, name: &'static str, labels: Labels<'_>, value: u64) {
        counter!(name, owned(labels)).absolute(value);
    }

    fn durations(&mut self, [bucket, sum, count]: [&'static str; 3], labels: Labels<'_>, durations: &Durations) {
        for (end, so_far) in octaves(durations) {
            let mut labels = owned(labels);
            labels.push(Label::new("le", upper(end)));
            counter!(bucket, labels).absolute(so_far);
        }
        self.gauge(sum, labels, durations.sum().as_secs_f64());
        self.counter(count, labels, durations.count());
    }
}

fn owned(labels: Labels<'_>) -> Vec<Label> {
    labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect()
}

/// Whole octaves are enough for a dashboard: upper end in seconds, and how many lie at or below it.
pub(super) fn octaves(durations: &Durations) -> impl Iterator<Item = (f64, u64)> + '_ {
    let mut so_far = 0;
    durations.buckets().enumerate().filter_map(move |(i, (end, n))| {
        so_far += n;
        (i % 2 == 1).then_some((end, so_far))
    })
}

/// The end of a bucket as the label `le` has it.
pub(super) fn upper(end: f64) -> String {
    if end.is_infinite() { "+Inf".to_owned() } else { format!("{end:.6}") }
}
