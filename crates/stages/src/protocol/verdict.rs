//! What a stage found of an item: said beside its output, or read from a place in it.

use redrive_core::event::ItemReply;
use redrive_core::verdict::Verdict;
use redrive_engine::handler::Input;
use serde_json::value::RawValue;

use super::{Decoder, EXCERPT, failed, look_up};

impl Decoder {
    /// An item passed with this output, and this was said beside it.
    pub(crate) fn passed_with(&self, output: &RawValue, said: Option<&RawValue>, item: &Input) -> ItemReply {
        let passed = self.placed(output, item);
        let ItemReply::Output(payload) = passed else { return passed };
        match self.found(output.get().as_bytes(), said) {
            Ok(Some(verdict)) => ItemReply::Judged(verdict, payload),
            Ok(None) => ItemReply::Output(payload),
            Err(wrong) => failed(self.broken(&wrong, output.get().as_bytes())),
        }
    }

    /// An item passed as it is: what it has is the output.
    pub(crate) fn passed_as_it_is(&self, item: &Input) -> ItemReply {
        match self.found(&item.payload, None) {
            Ok(Some(verdict)) => ItemReply::Judged(verdict, None),
            Ok(None) => ItemReply::Output(None),
            Err(wrong) => failed(self.broken(&wrong, &item.payload)),
        }
    }

    /// The verdict: what is said beside the output goes before what stands in it. Nothing, and `null`, are none.
    fn found(&self, output: &[u8], said: Option<&RawValue>) -> Result<Option<Verdict>, String> {
        let is_said = |raw: &&RawValue| raw.get() != "null";
        let said = said.filter(is_said);
        let pointer = self.verdict.as_deref().filter(|_| said.is_none());
        let stands = pointer.map(|pointer| look_up(output, pointer)).transpose()?.flatten();
        let Some(raw) = said.or(stands).filter(is_said) else { return Ok(None) };
        let word = serde_json::from_str::<String>(raw.get()).ok();
        let verdict = word.as_deref().and_then(|word| Verdict::from_name(word.trim()));
        verdict.map(Some).ok_or_else(|| {
            let names = Verdict::ALL.map(Verdict::name).join(", ");
            let shown = self.secrets.clean(raw.get().as_bytes(), EXCERPT);
            let place = pointer.map_or_else(String::new, |pointer| format!(" at {pointer:?}"));
            format!("has {shown}{place} for a verdict, which is none of {names}")
        })
    }
}
