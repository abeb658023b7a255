//! What a daemon leaves behind that was refused at its start.

use std::net::TcpListener;

use crate::support::Place;

#[test]
fn a_start_that_is_refused_makes_no_token_and_the_first_good_one_shows_it() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().map(|address| (taken, address.to_string())).expect("its address");
    place.write("broken.pem", "no certificate");
    for wrong in [
        &["--listen", &taken.1][..],
        &["--listen", "0.0.0.0:0"],
        &["--listen", "127.0.0.1:0", "--tls-cert", "broken.pem", "--tls-key", "broken.pem"],
    ] {
        let refused = place.run(&[&["serve", "--no-work"], wrong].concat()).expect(2);
        assert!(!refused.stderr.contains("rdv_"), "{wrong:?}: {}", refused.stderr);
        assert!(!place.path(".redrive/tokens.json").exists(), "{wrong:?}: nobody has seen that token");
    }
    let started = place.start(&["serve", "--listen", "127.0.0.1:0", "--no-work"]);
    started.until_said("rdv_");
    started.first_line();
    started.signal("TERM");
    started.finish().expect(0);
}
