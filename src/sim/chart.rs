//! A run as a picture: limit, in flight, latency, goodput and reasons over time, as SVG.

use std::fmt;

use plotters::prelude::*;

use super::measure::{Measure, Slice};
use super::oracle::{Limits, Reached};
use super::scenario::Scenario;
use crate::law::Reason;

/// A chart that could not be drawn.
#[derive(Debug)]
pub struct ChartError(String);

impl fmt::Display for ChartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot draw the chart: {}", self.0)
    }
}

impl std::error::Error for ChartError {}

const SIZE: (u32, u32) = (960, 860);
const POINTS: f64 = 300.0;
/// Room above the curves, for their names.
const HEADROOM: f64 = 1.4;
const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xc4);
const ORANGE: RGBColor = RGBColor(0xd9, 0x6c, 0x06);
const GREY: RGBColor = RGBColor(0x88, 0x88, 0x88);
const GREEN: RGBColor = RGBColor(0x2b, 0x8a, 0x3e);
const LIGHT: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);

struct Line {
    label: &'static str,
    color: RGBColor,
    points: Vec<(f64, f64)>,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws one run of a law beside the oracle's. The answer is an SVG document.
///
/// # Errors
/// [`ChartError`] when the drawing backend fails.
pub fn draw(
    scenario: &Scenario,
    title: &str,
    measure: &Measure,
    limits: &Limits,
    reached: &Reached,
) -> Result<String, ChartError> {
    let mut svg = String::new();
    draw_into(&mut svg, scenario, title, measure, limits, reached).map_err(|e| ChartError(e.to_string()))?;
    Ok(svg)
}

fn draw_into(
    svg: &mut String,
    scenario: &Scenario,
    title: &str,
    measure: &Measure,
    limits: &Limits,
    reached: &Reached,
) -> Result<(), Box<dyn std::error::Error>> {
    let (measure, good) = &coarser(measure, reached);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let root = root.titled(title, ("sans-serif", 20))?;
    let areas = root.split_evenly((4, 1));
    let end = scenario.seconds();
    let curve = |value: &dyn Fn(&Slice, f64) -> f64| curve(measure, value);
    let oracle_limit = steps(measure, |phase, _| f64::from(limits.0[phase]));
    let oracle_good = steps(measure, |phase, slice| f64::from(good[phase][slice]) / measure.phases[phase].slice_s);
    panel(
        &areas[0],
        "in flight",
        end,
        &[
            Line { label: "oracle's limit", color: GREY, points: oracle_limit },
            Line { label: "in flight", color: ORANGE, points: curve(&|s, _| f64::from(s.in_flight)) },
            Line { label: "limit", color: BLUE, points: curve(&|s, _| f64::from(s.limit)) },
        ],
    )?;
    panel(
        &areas[1],
        "latency, s",
        end,
        &[
            Line { label: "SLO", color: GREY, points: vec![(0.0, scenario.slo()), (end, scenario.slo())] },
            Line {
                label: "mean latency",
                color: BLUE,
                points: curve(&|s, _| s.latency_sum / f64::from(s.answered.max(1))),
            },
        ],
    )?;
    panel(
        &areas[2],
        "requests a second",
        end,
        &[
            Line { label: "oracle's goodput", color: GREY, points: oracle_good },
            Line { label: "turned away", color: ORANGE, points: curve(&|s, t| f64::from(s.turned_away) / t) },
            Line { label: "goodput", color: GREEN, points: curve(&|s, t| f64::from(s.good) / t) },
        ],
    )?;
    reasons(&areas[3], end, measure)?;
    root.present()?;
    Ok(())
}

/// Slices put together until there are about [`POINTS`] of them, and the oracle's good answers alike.
fn coarser(measure: &Measure, reached: &Reached) -> (Measure, Vec<Vec<u32>>) {
    let mut coarse = measure.clone();
    let mut good = Vec::new();
    let seconds: f64 = measure.phases.iter().map(|p| p.slice_s * p.slices.len() as f64).sum();
    for (phase, oracle) in coarse.phases.iter_mut().zip(&reached.phases) {
        let wanted = (POINTS * phase.slice_s * phase.slices.len() as f64 / seconds).max(10.0);
        let chunk = (phase.slices.len() as f64 / wanted).ceil().max(1.0) as usize;
        // Only whole chunks have the same length; a cut tail would look like a fall.
        let whole = phase.slices.len() / chunk * chunk;
        good.push(oracle.good[..whole].chunks(chunk).map(|c| c.iter().sum()).collect());
        phase.slices = phase.slices[..whole].chunks(chunk).map(Slice::together).collect();
        phase.slice_s *= chunk as f64;
    }
    (coarse, good)
}

/// A value by slice, at the slices' middles; it is told the slice and its length.
fn curve(measure: &Measure, value: &dyn Fn(&Slice, f64) -> f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for phase in &measure.phases {
        for (i, slice) in phase.slices.iter().enumerate() {
            points.push((phase.start + (i as f64 + 0.5) * phase.slice_s, value(slice, phase.slice_s)));
        }
    }
    points
}

/// A value by (phase, slice) as a staircase.
fn steps(measure: &Measure, value: impl Fn(usize, usize) -> f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    for (i, phase) in measure.phases.iter().enumerate() {
        for slice in 0..phase.slices.len() {
            let at = phase.start + slice as f64 * phase.slice_s;
            points.push((at, value(i, slice)));
            points.push((at + phase.slice_s, value(i, slice)));
        }
    }
    points
}

fn panel(area: &Area<'_>, title: &str, end: f64, lines: &[Line]) -> Result<(), Box<dyn std::error::Error>> {
    let top = lines.iter().flat_map(|l| &l.points).map(|p| p.1).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .margin_bottom(4)
        .x_label_area_size(22)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..(top * HEADROOM).max(1e-9))?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(LIGHT)
        .axis_style(GREY)
        .y_desc(title)
        .y_labels(5)
        .label_style(("sans-serif", 12))
        .draw()?;
    for line in lines {
        let color = line.color;
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), color.stroke_width(1)))?
            .label(line.label)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 14, y)], color.stroke_width(3)));
    }
    chart.configure_series_labels().position(SeriesLabelPosition::UpperRight).label_font(("sans-serif", 12)).draw()?;
    Ok(())
}

/// A row for each reason that was given; a mark where it was, the wider the more often in its slice.
fn reasons(area: &Area<'_>, end: f64, measure: &Measure) -> Result<(), Box<dyn std::error::Error>> {
    let given = |reason: &Reason| measure.sum(|s| s.reasons[reason.index()]) > 0;
    let rows: Vec<Reason> = Reason::ALL.into_iter().filter(given).collect();
    let count = rows.len().max(1);
    let mut chart = ChartBuilder::on(area)
        .margin_right(16)
        .margin_bottom(4)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..count as f64)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(TRANSPARENT)
        .bold_line_style(LIGHT)
        .axis_style(GREY)
        .x_desc("seconds")
        .label_style(("sans-serif", 12))
        .draw()?;
    for (row, reason) in rows.iter().enumerate() {
        let (low, high) = (row as f64 + 0.15, row as f64 + 0.6);
        let color = color_of(*reason);
        let marks = measure.phases.iter().flat_map(|phase| {
            phase.slices.iter().enumerate().filter_map(move |(i, slice)| {
                let all: u32 = slice.reasons.iter().sum();
                let share = f64::from(slice.reasons[reason.index()]) / f64::from(all.max(1));
                let from = phase.start + i as f64 * phase.slice_s;
                (share > 0.0)
                    .then(|| Rectangle::new([(from, low), (from + share * phase.slice_s, high)], color.filled()))
            })
        });
        chart.draw_series(marks)?;
        let font = ("sans-serif", 12).into_font().color(&BLACK);
        chart.draw_series([Text::new(reason.as_str(), (end * 0.003, row as f64 + 0.95), font)])?;
    }
    Ok(())
}

fn color_of(reason: Reason) -> RGBColor {
    match reason {
        Reason::Grow => GREEN,
        Reason::ShrinkLatency | Reason::ShrinkOverload | Reason::ShrinkThrottle => ORANGE,
        Reason::Hold | Reason::HoldAppLimited | Reason::HoldStalled | Reason::HoldUncertain => BLUE,
        _ => GREY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::law::{Aimd, Law};
    use crate::sim::engine::{Policy, run};
    use crate::sim::oracle;
    use crate::sim::scenario::{Demand, Downstream, PhaseSpec};

    #[test]
    fn a_run_becomes_an_svg_with_its_curves_and_reasons() {
        let downstream = Downstream::Fifo { backlog: Some(4) };
        let mut scenario = Scenario::bare("small", 0.05, Demand::Exponential, downstream);
        let phase = PhaseSpec { seconds: 5.0, rate: Some(200.0), workers: Some(4.0), ..PhaseSpec::default() };
        scenario.phases = vec![phase];
        let law = || Box::new(Aimd::default()) as Box<dyn Law>;
        let measure = run(&scenario, &Policy::Law { law: &law, initial: &[20.0] }, 1).measure;
        let limits = Limits(vec![6]);
        let reached = oracle::reach(&scenario, &limits, 1);
        let svg = draw(&scenario, "small: aimd", &measure, &limits, &reached).expect("drawn");
        for part in ["<svg", "small: aimd", "mean latency", "turned away", "shrink_overload"] {
            assert!(svg.contains(part), "{part}");
        }
    }
}
