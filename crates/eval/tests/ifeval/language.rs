//! Languages, and English in one case.

use serde_json::json;

use crate::{Case, check, table};

/// "Today the weather is fine, and we go for a walk in the park with friends", and more.
pub(crate) const TEXTS: [(&str, &str); 30] = [
    ("ar", "الطقس جميل اليوم ونحن نتمشى في الحديقة مع الأصدقاء."),
    ("bg", "Днес времето е хубаво и ние се разхождаме в парка с приятели."),
    ("bn", "আজ আবহাওয়া সুন্দর এবং আমরা বন্ধুদের সাথে পার্কে হাঁটতে যাচ্ছি।"),
    ("de", "Heute ist das Wetter schön und wir gehen mit Freunden im Park spazieren."),
    ("en", "Today the weather is fine, and we go for a walk in the park with friends."),
    ("es", "Hoy hace buen tiempo y vamos a pasear por el parque con los amigos."),
    ("fa", "امروز هوا خوب است و ما با دوستان در پارک قدم می‌زنیم."),
    ("fi", "Tänään on kaunis sää ja kävelemme puistossa ystävien kanssa."),
    ("fr", "Aujourd'hui il fait beau et nous nous promenons dans le parc avec des amis."),
    ("gu", "આજે હવામાન સારું છે અને અમે મિત્રો સાથે બગીચામાં ફરવા જઈએ છીએ."),
    ("he", "היום מזג האוויר יפה ואנחנו מטיילים בפארק עם חברים."),
    ("hi", "आज मौसम अच्छा है और हम दोस्तों के साथ पार्क में घूमने जा रहे हैं।"),
    ("it", "Oggi il tempo è bello e andiamo a passeggiare nel parco con gli amici."),
    ("ja", "今日は天気がいいので、友だちと公園を散歩します。"),
    ("kn", "ಇಂದು ಹವಾಮಾನ ಚೆನ್ನಾಗಿದೆ ಮತ್ತು ನಾವು ಸ್ನೇಹಿತರೊಂದಿಗೆ ಉದ್ಯಾನವನದಲ್ಲಿ ನಡೆಯುತ್ತೇವೆ."),
    ("ko", "오늘은 날씨가 좋아서 우리는 친구들과 공원에서 산책을 합니다."),
    ("ml", "ഇന്ന് കാലാവസ്ഥ നല്ലതാണ്, ഞങ്ങൾ കൂട്ടുകാരോടൊപ്പം പാർക്കിൽ നടക്കുന്നു."),
    ("mr", "आज हवामान छान आहे आणि आम्ही मित्रांसोबत उद्यानात फिरायला जात आहोत."),
    ("ne", "आज मौसम राम्रो छ र हामी साथीहरूसँग पार्कमा हिँड्न जाँदैछौं।"),
    ("pa", "ਅੱਜ ਮੌਸਮ ਚੰਗਾ ਹੈ ਅਤੇ ਅਸੀਂ ਦੋਸਤਾਂ ਨਾਲ ਪਾਰਕ ਵਿੱਚ ਸੈਰ ਕਰਨ ਜਾ ਰਹੇ ਹਾਂ।"),
    ("pl", "Dzisiaj jest ładna pogoda i idziemy z przyjaciółmi na spacer do parku."),
    ("pt", "Hoje o tempo está bom e nós vamos passear no parque com os amigos."),
    ("ru", "Сегодня хорошая погода и мы гуляем в парке с друзьями."),
    ("sw", "Leo hali ya hewa ni nzuri na tunatembea katika bustani pamoja na marafiki."),
    ("ta", "இன்று வானிலை நன்றாக உள்ளது, நாங்கள் நண்பர்களுடன் பூங்காவில் நடக்கிறோம்."),
    ("te", "ఈరోజు వాతావరణం బాగుంది మరియు మేము స్నేహితులతో పార్కులో నడుస్తున్నాము."),
    ("th", "วันนี้อากาศดีและเราไปเดินเล่นในสวนสาธารณะกับเพื่อน"),
    ("uk", "Сьогодні гарна погода, і ми гуляємо в парку з друзями."),
    ("ur", "آج موسم اچھا ہے اور ہم دوستوں کے ساتھ پارک میں سیر کر رہے ہیں۔"),
    ("vi", "Hôm nay trời đẹp và chúng tôi đi dạo trong công viên với bạn bè."),
];

#[test]
fn every_language_of_the_data_is_told_from_every_other() {
    let found = |asked: &str, text: &str| {
        check("language:response_language", &json!({"language": asked}), text).prompt_strict()
    };
    for (language, text) in TEXTS {
        for (asked, _) in TEXTS {
            assert_eq!(found(asked, text), asked == language, "{asked} asked: {text}");
        }
    }
}

#[test]
fn languages_with_edges() {
    table(
        "language:response_language",
        &json!({"language": "de"}),
        &[
            Case(
                "mostly German",
                "Das Wetter ist heute schön, okay? Wir gehen gern in den Park.",
                true,
            ),
            Case(
                "all capitals",
                "DAS WETTER IST HEUTE SCHÖN UND WIR GEHEN GERN IN DEN PARK.",
                true,
            ),
            Case("English", "The weather is fine and we like to walk in the park.", false),
            Case("no letters speak against nothing", "123 + 456", true),
            Case(
                "Dutch is another language",
                "Het weer is vandaag mooi en wij gaan graag naar het park.",
                false,
            ),
            Case("a blank text follows nothing", " ", false),
        ],
    );
    let mixed = "Sure, here it is:\nวันนี้อากาศดีและเราไปเดินเล่นในสวนสาธารณะกับเพื่อน";
    let cases = [Case("an English line before Thai ones", mixed, true)];
    table("language:response_language", &json!({"language": "th"}), &cases);
}

#[test]
fn english_in_capitals() {
    table(
        "change_case:english_capital",
        &json!({}),
        &[
            Case("as asked", "THIS IS THE ANSWER TO ALL OF IT.", true),
            Case("one small letter", "THIS IS THE ANSWEr TO ALL OF IT.", false),
            Case("digits and signs are allowed", "THE 3 RULES: #1 IS THE BEST!", true),
            Case("short", "YES, IT IS.", true),
            Case("another language", "DAS WETTER IST HEUTE SCHÖN UND WIR GEHEN SPAZIEREN.", false),
            Case("no letters", "1 2 3", false),
            Case("small letters", "this is it", false),
        ],
    );
}

#[test]
fn english_in_small_letters() {
    table(
        "change_case:english_lowercase",
        &json!({}),
        &[
            Case("as asked", "this is the answer to all of it.", true),
            Case("one capital", "this is the answer to all of It.", false),
            Case("digits and signs are allowed", "the 3 rules: #1 is the best!", true),
            Case("short", "yes, it is.", true),
            Case(
                "another language",
                "oggi il tempo è bello e andiamo a passeggiare nel parco.",
                false,
            ),
            Case("no letters", "1 2 3", false),
            Case("all capitals", "THIS IS IT", false),
        ],
    );
}
