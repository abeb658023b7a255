//! What each verb does within its transaction, one file per subject.

pub(crate) mod claim;
pub(crate) mod commit;
pub(crate) mod copy;
pub(crate) mod counter;
pub(crate) mod damage;
pub(crate) mod gate;
pub(crate) mod group;
pub(crate) mod history;
pub(crate) mod index;
pub(crate) mod item;
pub(crate) mod memo;
pub(crate) mod note;
pub(crate) mod operation;
pub(crate) mod outbox;
pub(crate) mod output;
pub(crate) mod pause;
pub(crate) mod prune;
pub(crate) mod purge;
pub(crate) mod query;
pub(crate) mod run;
pub(crate) mod scrub;
pub(crate) mod submit;
pub(crate) mod tombstone;
pub(crate) mod turn;
pub(crate) mod work;
pub(crate) mod worker;
