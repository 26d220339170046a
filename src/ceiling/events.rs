//! What a shared ceiling says by `tracing`: one line for each change of standing.

use super::sharing::OnLoss;
use super::standing::Turn;
use super::store::Loss;

pub(super) fn turned(ceiling: &str, turn: Turn, on_loss: OnLoss) {
    let instead = match on_loss {
        OnLoss::Refuse => "refuses everything",
        OnLoss::Share | OnLoss::Rate(_) => "takes a safe share",
    };
    match turn {
        Turn::Joined => tracing::info!(ceiling, "ceiling is shared"),
        Turn::Lost(Loss::Denied) => {
            tracing::error!(ceiling, why = %Loss::Denied, instead, "ceiling falls back");
        }
        Turn::Lost(loss) => tracing::warn!(ceiling, why = %loss, instead, "ceiling falls back"),
        Turn::Back(after) => tracing::info!(ceiling, after_s = after.as_secs_f64(), "ceiling is shared again"),
    }
}
