//! The table of routes.

mod answers;
mod dead;
mod gates;
mod items;
mod operations;
mod pipelines;
mod policies;
mod reports;
mod runs;
mod status;
mod work;

use crate::route::Route;

/// Every route. What is not here does not exist; what is here is in the document.
pub fn table() -> Vec<Route> {
    [
        status::routes(),
        runs::routes(),
        items::routes(),
        dead::routes(),
        operations::routes(),
        gates::routes(),
        pipelines::routes(),
        policies::routes(),
        reports::routes(),
        work::routes(),
        answers::routes(),
    ]
    .concat()
}
