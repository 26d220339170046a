//! What happens at fixed times: slices, phases and full stops begin and end.

use super::{Engine, Policy};
use crate::sim::gate::Gate;

impl Engine<'_> {
    /// A slice, a phase or a stop begins or ends.
    pub(super) fn edge(&mut self) -> bool {
        let (stop_at, stops) = self.next_stop;
        if self.now >= stop_at {
            self.stop(stops);
        }
        if self.now >= self.slice_end {
            self.end_slice();
        }
        if self.now >= self.phase_end {
            if self.phase + 1 == self.scenario.phases.len() {
                return false;
            }
            self.begin_phase(self.phase + 1);
        }
        true
    }

    fn end_slice(&mut self) {
        let limit = self.gates.iter().map(Gate::limit).sum();
        let in_flight = self.gates.iter().map(Gate::in_flight).sum();
        let slice_s = self.measure.phases[self.phase].slice_s;
        let ended = self.slice_end - 0.5 * slice_s;
        let slice = self.measure.slice(self.phase, ended);
        slice.limit = limit;
        slice.in_flight = in_flight;
        self.slice_end += slice_s;
        if self.slice_end > self.phase_end - 1e-6 * slice_s {
            self.slice_end = self.phase_end;
        }
    }

    pub(super) fn begin_phase(&mut self, phase: usize) {
        let spec = &self.scenario.phases[phase];
        self.phase = phase;
        self.phase_start = self.now;
        self.phase_end = self.now + spec.seconds;
        self.slice_end = self.now + self.measure.phases[phase].slice_s;
        self.measure.phases[phase].start = self.now;
        self.station.set_stopped(self.now, false);
        self.station.set_phase(self.now, spec);
        self.next_stop = (self.now + spec.stop.map_or(f64::INFINITY, |stop| stop.every_s), true);
        if self.scenario.clients.closed.is_none() {
            self.arrivals.begin_phase(self.now, spec, self.scenario.trace.as_ref());
        }
        if let Policy::Static(limits) = self.policy {
            self.gates[0].set_limit(limits[phase]);
            self.admit_waiting(0);
        }
    }

    fn stop(&mut self, stops: bool) {
        let Some(stop) = self.scenario.phases[self.phase].stop else { return };
        self.station.set_stopped(self.now, stops);
        let next = if stops { stop.for_s } else { stop.every_s - stop.for_s };
        self.next_stop = (self.now + next, !stops);
    }
}
