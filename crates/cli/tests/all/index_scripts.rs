//! Text of any script, and text that is no language at all: every passage is in the index, is found, and is told.

use std::time::Duration;

use crate::support::index::{Library, Provider};
use crate::support::{Names, array, column, count, names, text};
use serde_json::Value;

/// A file, a sentence that only it has, and a word of that sentence.
const SCRIPTS: &[(&str, &str, &str)] = &[
    ("amharic.txt", "አዲስ አበባ የኢትዮጵያ ዋና ከተማ ናት።", "ከተማ"),
    ("arabic.txt", "القاهرة هي عاصمة جمهورية مصر", "عاصمة"),
    ("armenian.txt", "Երևանը Հայաստանի մայրաքաղաքն է", "մայրաքաղաքն"),
    ("burmese.txt", "နေပြည်တော်သည်မြန်မာနိုင်ငံ၏မြို့တော်ဖြစ်သည်။", "မြန်မာနိုင်ငံ"),
    ("chinese.txt", "北京是中华人民共和国的首都。", "首都"),
    ("emoji.txt", "🦭🐚🌊", "🐚"),
    ("english.txt", "The walrus sleeps on the ice.", "walrus"),
    ("georgian.txt", "თბილისი საქართველოს დედაქალაქია", "დედაქალაქია"),
    ("greek.txt", "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας", "πρωτεύουσα"),
    ("hebrew.txt", "ירושלים היא בירת ישראל", "בירת"),
    ("hindi.txt", "नई दिल्ली भारत की राजधानी है", "राजधानी"),
    ("japanese.txt", "東京は日本の首府である。とても大きい。", "大き"),
    ("khmer.txt", "ភ្នំពេញគឺជារាជធានីនៃព្រះរាជាណាចក្រកម្ពុជា", "រាជធានី"),
    ("korean.txt", "서울은 대한민국의 수도이다", "수도"),
    ("lao.txt", "ວຽງຈັນແມ່ນນະຄອນຫຼວງຂອງລາວ", "ນະຄອນຫຼວງ"),
    ("mathematics.txt", "∀ε ∃δ: ∑ ≤ ∫ ⊕ ∇", "⊕"),
    ("russian.txt", "Москва является столицей России", "столицей"),
    ("sinhala.txt", "කොළඹ ශ්‍රී ලංකාවේ විශාලතම නගරයයි", "විශාලතම"),
    ("tamil.txt", "சென்னை தமிழ்நாட்டின் தலைநகரம் ஆகும்", "தலைநகரம்"),
    ("telugu.txt", "హైదరాబాదు తెలంగాణ రాష్ట్ర రాజధాని", "రాష్ట్ర"),
    ("thai.txt", "เมืองหลวงของประเทศไทยคือกรุงเทพมหานคร", "กรุงเทพมหานคร"),
    ("tibetan.txt", "ལྷ་ས་ནི་བོད་ཀྱི་རྒྱལ་ས་ཡིན།", "རྒྱལ"),
];

/// Letters and digits without a space that repeat nothing, from a seed.
fn gibberish(seed: u64, letters: usize) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut state = seed;
    let mut letter = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        char::from(ALPHABET[(state >> 59) as usize])
    };
    (0..letters).map(|_| letter()).collect()
}

fn fill(library: &Library) {
    SCRIPTS.iter().for_each(|(name, sentence, _)| library.write(name, sentence));
    library.write("hash.txt", gibberish(1, 256));
    library.write("key.txt", format!("-----BEGIN KEY-----\n{}\n-----END KEY-----\n", gibberish(2, 640)));
    library.write("long.txt", gibberish(3, 300_000));
}

/// What there is to be found: a file, and what finds it and nothing else.
fn lookups() -> Vec<(&'static str, String)> {
    let mut lookups: Vec<(&str, String)> =
        SCRIPTS.iter().map(|(name, _, word)| (*name, (*word).to_owned())).collect();
    lookups.push(("hash.txt", gibberish(1, 256)));
    lookups.push(("hash.txt", gibberish(1, 256)[100..112].to_owned()));
    lookups.push(("key.txt", gibberish(2, 640)[300..320].to_owned()));
    lookups.push(("long.txt", gibberish(3, 300_000)[150_000..150_020].to_owned()));
    lookups
}

fn first(library: &Library, args: &[&str]) -> Value {
    let args: Vec<&str> = ["search", "-k", "3"].into_iter().chain(args.iter().copied()).collect();
    array(&library.place.json(&args)["hits"]).first().cloned().unwrap_or_default()
}

fn figure(report: &Value, pointer: &str) -> u64 {
    count(report.pointer(&format!("/index/{pointer}")).unwrap_or(&Value::Null))
}

/// The files that have a passage.
fn with_passages(library: &Library) -> Names {
    let store = library.store();
    let mut paths =
        store.prepare("SELECT DISTINCT path FROM doc JOIN chunk ON chunk.doc = doc.no").expect("SQL");
    let paths = paths.query_map([], |row| row.get::<_, String>(0)).expect("asked");
    names(paths.map(|path| path.expect("read")))
}

#[test]
fn text_that_the_model_does_not_know_is_kept_found_by_words_and_told() {
    let library = Library::builtin();
    fill(&library);
    let report = library.index(&[], 0);
    let files = SCRIPTS.len() as u64 + 3;
    assert_eq!((figure(&report, "indexed"), figure(&report, "size/documents")), (files, files));
    assert_eq!(figure(&report, "size/empty"), 0);
    assert_eq!(with_passages(&library).len() as u64, files, "every file has a passage");

    // Every passage is told as what it is.
    let (chunks, words_only) = (figure(&report, "size/chunks"), figure(&report, "size/words_only"));
    assert!(words_only > 300_000 / 4_096, "{words_only}");
    assert_eq!(figure(&report, "words_only"), words_only);
    assert_eq!(figure(&report, "embedded") + figure(&report, "reused") + words_only, chunks);
    let told = library.place.run(&["index", "docs"]).expect(0).stdout;
    let words = told.lines().find(|line| line.contains("by words only")).expect("told").replace(',', "");
    assert!(words.contains(&format!("{words_only} passages")), "{told}");

    // And every one of them is found.
    for (name, wanted) in lookups() {
        for mode in ["words", "hybrid"] {
            let hit = first(&library, &[&wanted, "--mode", mode]);
            assert_eq!(hit["path"], name, "{mode}: {wanted}");
        }
    }
    for (name, sentence, _) in SCRIPTS {
        let hit = first(&library, &[sentence, "--mode", "words"]);
        assert_eq!((&hit["path"], text(&hit["text"]).as_str()), (&Value::from(*name), *sentence));
    }
    let check = library.place.json(&["check"]);
    assert_eq!(check["ok"], true, "{check}");
}

#[test]
fn another_model_embeds_what_the_built_in_one_could_not() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::builtin();
    fill(&library);
    let before = library.index(&[], 0);
    let url = provider.base_url();
    let other =
        ["index", "docs", "--json", "--rebuild", "--embedder", "openai", "--model", "m", "--base-url", &url];
    let report = library.place.run(&other).expect(0).json();
    assert_eq!(figure(&report, "size/chunks"), figure(&before, "size/chunks"));
    assert_eq!((figure(&report, "size/words_only"), figure(&report, "words_only")), (0, 0));
    assert_eq!(provider.texts(), library.texts(), "every passage was sent");
    assert_eq!(provider.sent_again(), Names::new(), "and none twice");
    // With the service away it is still found by words.
    let hit = first(&library, &["กรุงเทพมหานคร", "--mode", "words"]);
    assert_eq!(hit["path"], "thai.txt");
}

#[test]
fn a_word_without_end_is_not_sent_as_one_token() {
    let provider = Provider::start(Duration::ZERO);
    let library = Library::asking(&provider.base_url());
    let thai = "เมืองหลวงของประเทศไทยคือกรุงเทพมหานคร".repeat(400);
    library.write("base64.txt", gibberish(4, 50_000));
    library.write("thai.txt", &thai);
    library.write("emoji.txt", "🦭🐚🌊".repeat(2_000));
    library.index(&[], 0);
    for sent in provider.texts() {
        // 256 tokens are at most 256 letters of Thai, 384 of base64, and 128 signs.
        let letters = sent.chars().count();
        assert!(letters <= 384 && sent.len() <= 1_024, "{letters} letters, {} bytes", sent.len());
    }
    let sent: usize = provider.texts().iter().map(|text| text.chars().count()).sum();
    assert!(sent > 50_000, "all of it was sent: {sent}");
}

#[test]
fn passages_of_a_file_are_replaced_also_where_they_have_no_vector() {
    let library = Library::builtin();
    library.write("a.txt", "ประเทศไทย");
    library.index(&[], 0);
    library.write("a.txt", "กัมพูชา");
    library.index(&[], 0);
    assert_eq!(first(&library, &["กัมพูชา"])["path"], "a.txt");
    assert_eq!(first(&library, &["ประเทศไทย"]), Value::Null);
    std::fs::remove_file(library.place.path("docs/a.txt")).expect("removed");
    library.write("b.txt", "plain");
    library.index(&[], 0);
    assert_eq!(first(&library, &["กัมพูชา"]), Value::Null);
    assert_eq!(column(&library.place.json(&["search", "plain"])["hits"], "path"), names(["b.txt"]));
    let left: i64 =
        library.store().query_row("SELECT count(*) FROM gram", [], |row| row.get(0)).expect("counted");
    assert_eq!(left, 0);
}
