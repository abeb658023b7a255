//! What every store on an SQL database writes alike, without a driver: the columns of an item, and the numbers that stand for
//! states, reasons and kinds.

mod code;
mod item;

pub use code::{
    Unknown, cause, class, dead_reason, kind, operation_kind, operation_kind_code, operation_state,
    operation_state_code, state, verdict,
};
pub use item::ItemColumns;
