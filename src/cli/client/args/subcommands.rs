//! What is done with a plan, a schedule or a tenant.

use clap::Subcommand;

use super::id;

#[derive(Clone, Copy, Debug, Subcommand)]
pub(in crate::cli) enum PlanCommand {
    /// Edit the plan in $EDITOR: the file has all items; those that have not begun can be changed
    #[command(override_usage = "pes plan [THREAD] edit [OPTIONS]")]
    Edit,
    /// Show how the plan changed
    #[command(override_usage = "pes plan [THREAD] diff [OPTIONS]")]
    Diff,
    /// Show what the remaining items may do, and who is asked
    #[command(override_usage = "pes plan [THREAD] forecast [OPTIONS]")]
    Forecast,
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ScheduleCommand {
    /// Pause it: it starts no runs until it is resumed
    Pause {
        /// The id of the schedule
        #[arg(value_parser = id)]
        schedule: String,
    },
    /// Resume it, with the rights of your key; runs that the pause left out are not made up for
    Resume {
        /// The id of the schedule
        #[arg(value_parser = id)]
        schedule: String,
    },
    /// Run it now; prints the thread
    Trigger {
        /// The id of the schedule
        #[arg(value_parser = id)]
        schedule: String,
    },
}

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum TenantCommand {
    /// Refuse all its callers, and delete its threads, keys and documents; its audit and its usage are kept
    Rm {
        /// The name of the tenant
        tenant: String,
        /// Confirm it: nothing brings back what is deleted
        #[arg(long)]
        yes: bool,
    },
    /// Let the callers of a removed tenant in again; what was deleted does not come back
    Reopen {
        /// The name of the tenant
        tenant: String,
    },
}
