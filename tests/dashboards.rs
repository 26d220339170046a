//! Dashboards and rules say what the gateway measures: by reading them, by promtool, and by a real
//! Prometheus that scrapes a real gateway under a load that exercises everything.

mod dashboards {
    pub(crate) mod files;
    pub(crate) mod live;
    pub(crate) mod system;
}
