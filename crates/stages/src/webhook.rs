//! What a webhook is sent with: who it is, when, and a signature, as Standard Webhooks has it.
//!
//! The id is that of the item, so it is the same at every try; the time is that of the try. What is signed is
//! `ID.TIME.BODY`, with HMAC-SHA256.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use redrive_core::secret::Secret;
use redrive_core::time::Timestamp;
use redrive_engine::handler::Input;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ring::hmac;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIME: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
/// What secrets begin with.
const PREFIX: &str = "whsec_";
/// A key that is shorter can be guessed.
const SHORTEST: usize = 16;

/// Signs bodies.
pub(crate) struct Signer(hmac::Key);

impl Signer {
    /// Takes a secret as Standard Webhooks writes it: `whsec_`, and the key in base64.
    ///
    /// # Errors
    /// When it is not so; the secret is not repeated.
    pub(crate) fn new(secret: &Secret) -> Result<Self, String> {
        let key = secret.expose().trim().strip_prefix(PREFIX).and_then(|key| STANDARD.decode(key).ok());
        let key = key.filter(|key| key.len() >= SHORTEST).ok_or_else(|| {
            format!("the signing secret is not {PREFIX} followed by {SHORTEST} bytes or more in base64")
        })?;
        Ok(Self(hmac::Key::new(hmac::HMAC_SHA256, &key)))
    }

    fn signature(&self, id: &str, time: &str, body: &[u8]) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        [id.as_bytes(), b".", time.as_bytes(), b".", body].into_iter().for_each(|part| context.update(part));
        format!("v1,{}", STANDARD.encode(context.sign()))
    }
}

/// The headers of one try.
pub(crate) fn headers(item: &Input, now: Timestamp, body: &[u8], signer: Option<&Signer>) -> HeaderMap {
    let (id, time) = (format!("msg_{}", item.id), now.0.div_euclid(1_000).to_string());
    let signature = signer.map(|signer| signer.signature(&id, &time, body));
    let all = [(ID, Some(id)), (TIME, Some(time)), (SIGNATURE, signature)];
    let given =
        all.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(&value?).ok()?)));
    given.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_published_example() {
        // The example of the specification.
        let signer = Signer::new(&"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()).expect("a secret");
        let body = br#"{"test": 2432232314}"#;
        let signed = signer.signature("msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn what_is_no_secret_is_refused_and_not_repeated() {
        for secret in ["", "whsec_", "hunter2-hunter2-hunter2", "whsec_AAAA", "whsec_%%%%"] {
            let refused = Signer::new(&secret.into()).map(|_| ()).expect_err("no secret");
            assert!(refused.contains("whsec_ followed by 16 bytes"), "{refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
    }
}
