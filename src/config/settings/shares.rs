//! The keys of a limiter's classes and tenants.

use super::super::SharesConfig;
use super::super::classes::show_share;
use super::Settings;
use crate::admission::{Lend, Order};

impl Settings {
    pub(super) fn shares(&mut self, limiter: &str, shares: &SharesConfig) {
        let key = |field: &str| format!("limiters.{limiter}.{field}");
        for class in shares.classes() {
            let key = |field: &str| format!("limiters.{limiter}.classes.{}.{field}", class.name());
            self.put(&key("reserve"), show_share(class.reserve_share()));
            if let Some(cap) = class.cap_share() {
                self.put(&key("cap"), show_share(cap));
            }
            self.put(&key("lend"), if class.lends() == Lend::Allowed { "allowed" } else { "nothing" });
            self.put(&key("priority"), class.rank());
            match class.room_order() {
                Order::Adaptive { target } => {
                    self.put(&key("order"), "adaptive");
                    self.time(&key("target"), target);
                }
                _ => self.put(&key("order"), "fifo"),
            }
            if let (Some(length), Some(wait)) = class.own_room() {
                self.put(&key("queue.length"), length);
                self.time(&key("queue.wait"), wait);
            }
        }
        for (field, header) in [("class_header", shares.class_header()), ("tenants.header", shares.tenant_header())] {
            if let Some(header) = header {
                self.put(&key(field), header);
            }
        }
        let tenants = shares.tenants();
        self.put(&key("tenants.tracked"), tenants.tracked);
        self.put(&key("tenants.burst"), tenants.burst);
        self.time(&key("tenants.refill"), tenants.refill);
        let weights: Vec<String> =
            tenants.weights.iter().map(|(tenant, weight)| format!("{tenant}={weight}")).collect();
        self.list(&key("tenants.weights"), &weights);
    }
}
