//! Metrics for a Pushgateway: what ends before Prometheus asks for them leaves them there.

use std::time::Duration;

use reqwest::{Client, Url};

use crate::service::{address, install_tls};

/// How long a push may take.
const WITHIN: Duration = Duration::from_secs(10);

/// A Pushgateway.
pub struct Pushgateway {
    client: Client,
    url: Url,
}

impl Pushgateway {
    /// The one at this address.
    ///
    /// # Errors
    /// When it is no address.
    pub fn at(url: &str) -> Result<Self, String> {
        let mut url = address("the address", url)?;
        if !url.path().ends_with('/') {
            url.set_path(&format!("{}/", url.path()));
        }
        install_tls();
        let client = Client::builder()
            .user_agent(concat!("redrive/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .no_proxy()
            .timeout(WITHIN)
            .build()
            .map_err(|error| error.to_string())?;
        Ok(Self { client, url })
    }

    /// Puts the metrics of a job there, in place of those that were there.
    ///
    /// # Errors
    /// Why that could not be done.
    pub async fn push(&self, job: &str, text: String) -> Result<(), String> {
        let url = self.url.join(&format!("metrics/job/{job}")).map_err(|error| error.to_string())?;
        let request = self.client.put(url).header("content-type", "text/plain; version=0.0.4").body(text);
        // The address may have a password in it, and an error repeats the address.
        let answer = request.send().await.map_err(|error| error.without_url().to_string())?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let told: String = answer.text().await.unwrap_or_default().chars().take(300).collect();
        Err(format!("it answered {status}: {told}"))
    }
}
