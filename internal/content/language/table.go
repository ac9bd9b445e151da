package language

// The tables of lingua-go v1.4.0, by Peter M. Stahl, Apache-2.0.

import "unicode"

// speech is a language: its code of ISO 639-1, the scripts that it is written in, and characters of no other language.
type speech struct {
	code    string
	scripts []script
	own     string
}

// script is an index into scripts.
type script int

const (
	arabic script = iota
	armenian
	bengali
	cyrillic
	devanagari
	georgian
	greek
	gujarati
	gurmukhi
	han
	hangul
	hebrew
	hiragana
	katakana
	latin
	tamil
	telugu
	thai
)

var scripts = []*unicode.RangeTable{
	unicode.Arabic,
	unicode.Armenian,
	unicode.Bengali,
	unicode.Cyrillic,
	unicode.Devanagari,
	unicode.Georgian,
	unicode.Greek,
	unicode.Gujarati,
	unicode.Gurmukhi,
	unicode.Han,
	unicode.Hangul,
	unicode.Hebrew,
	unicode.Hiragana,
	unicode.Katakana,
	unicode.Latin,
	unicode.Tamil,
	unicode.Telugu,
	unicode.Thai,
}

// speeches are sorted by their names in English.
var speeches = []speech{
	{"af", []script{latin}, ""},                   // Afrikaans
	{"sq", []script{latin}, ""},                   // Albanian
	{"ar", []script{arabic}, ""},                  // Arabic
	{"hy", []script{armenian}, ""},                // Armenian
	{"az", []script{latin}, "Əə"},                 // Azerbaijani
	{"eu", []script{latin}, ""},                   // Basque
	{"be", []script{cyrillic}, ""},                // Belarusian
	{"bn", []script{bengali}, ""},                 // Bengali
	{"nb", []script{latin}, ""},                   // Bokmal
	{"bs", []script{latin}, ""},                   // Bosnian
	{"bg", []script{cyrillic}, ""},                // Bulgarian
	{"ca", []script{latin}, "Ïï"},                 // Catalan
	{"zh", []script{han}, ""},                     // Chinese
	{"hr", []script{latin}, ""},                   // Croatian
	{"cs", []script{latin}, "ĚěŘřŮů"},             // Czech
	{"da", []script{latin}, ""},                   // Danish
	{"nl", []script{latin}, ""},                   // Dutch
	{"en", []script{latin}, ""},                   // English
	{"eo", []script{latin}, "ĈĉĜĝĤĥĴĵŜŝŬŭ"},       // Esperanto
	{"et", []script{latin}, ""},                   // Estonian
	{"fi", []script{latin}, ""},                   // Finnish
	{"fr", []script{latin}, ""},                   // French
	{"lg", []script{latin}, ""},                   // Ganda
	{"ka", []script{georgian}, ""},                // Georgian
	{"de", []script{latin}, "ß"},                  // German
	{"el", []script{greek}, ""},                   // Greek
	{"gu", []script{gujarati}, ""},                // Gujarati
	{"he", []script{hebrew}, ""},                  // Hebrew
	{"hi", []script{devanagari}, ""},              // Hindi
	{"hu", []script{latin}, "ŐőŰű"},               // Hungarian
	{"is", []script{latin}, ""},                   // Icelandic
	{"id", []script{latin}, ""},                   // Indonesian
	{"ga", []script{latin}, ""},                   // Irish
	{"it", []script{latin}, ""},                   // Italian
	{"ja", []script{hiragana, katakana, han}, ""}, // Japanese
	{"kk", []script{cyrillic}, "ӘәҒғҚқҢңҰұ"},      // Kazakh
	{"ko", []script{hangul}, ""},                  // Korean
	{"la", []script{latin}, ""},                   // Latin
	{"lv", []script{latin}, "ĢģĶķĻļŅņ"},           // Latvian
	{"lt", []script{latin}, "ĖėĮįŲų"},             // Lithuanian
	{"mk", []script{cyrillic}, "ЃѓЅѕЌќЏџ"},        // Macedonian
	{"ms", []script{latin}, ""},                   // Malay
	{"mi", []script{latin}, ""},                   // Maori
	{"mr", []script{devanagari}, "ळ"},             // Marathi
	{"mn", []script{cyrillic}, "ӨөҮү"},            // Mongolian
	{"nn", []script{latin}, ""},                   // Nynorsk
	{"fa", []script{arabic}, ""},                  // Persian
	{"pl", []script{latin}, "ŁłŃńŚśŹź"},           // Polish
	{"pt", []script{latin}, ""},                   // Portuguese
	{"pa", []script{gurmukhi}, ""},                // Punjabi
	{"ro", []script{latin}, "Țţ"},                 // Romanian
	{"ru", []script{cyrillic}, ""},                // Russian
	{"sr", []script{cyrillic}, "ЂђЋћ"},            // Serbian
	{"sn", []script{latin}, ""},                   // Shona
	{"sk", []script{latin}, "ĹĺĽľŔŕ"},             // Slovak
	{"sl", []script{latin}, ""},                   // Slovene
	{"so", []script{latin}, ""},                   // Somali
	{"st", []script{latin}, ""},                   // Sotho
	{"es", []script{latin}, "¿¡"},                 // Spanish
	{"sw", []script{latin}, ""},                   // Swahili
	{"sv", []script{latin}, ""},                   // Swedish
	{"tl", []script{latin}, ""},                   // Tagalog
	{"ta", []script{tamil}, ""},                   // Tamil
	{"te", []script{telugu}, ""},                  // Telugu
	{"th", []script{thai}, ""},                    // Thai
	{"ts", []script{latin}, ""},                   // Tsonga
	{"tn", []script{latin}, ""},                   // Tswana
	{"tr", []script{latin}, ""},                   // Turkish
	{"uk", []script{cyrillic}, "ҐґЄєЇї"},          // Ukrainian
	{"ur", []script{arabic}, ""},                  // Urdu
	{"vi", []script{latin}, "ẰằẦầẲẳẨẩẴẵẪẫẮắẤấẠạẶặẬậỀềẺẻỂểẼẽỄễẾếỆệỈỉĨĩỊịƠơỒồỜờỎỏỔổỞởỖỗỠỡỐốỚớỘộỢợƯưỪừỦủỬửŨũỮữỨứỤụỰựỲỳỶỷỸỹỴỵ"}, // Vietnamese
	{"cy", []script{latin}, ""},     // Welsh
	{"xh", []script{latin}, ""},     // Xhosa
	{"yo", []script{latin}, "ŌōṢṣ"}, // Yoruba
	{"zu", []script{latin}, ""},     // Zulu
}

// sharing lists the languages that have some characters and no others have.
var sharing = []struct{ characters, codes string }{
	{"Àà", "ca fr it pt vi"},
	{"ÁáÍíÚú", "ca cs is ga hu pt sk es vi yo"},
	{"Ââ", "fr pt ro tr vi"},
	{"Ãã", "pt vi"},
	{"Ää", "et fi de sk sv"},
	{"Åå", "nb da nn sv"},
	{"Ææ", "nb da is nn"},
	{"Çç", "sq az eu ca fr pt tr"},
	{"ÈèÙù", "fr it vi yo"},
	{"Éé", "ca cs fr hu is ga it pt sk es vi yo"},
	{"Êê", "af fr pt vi"},
	{"Ëë", "af sq nl fr"},
	{"Ìì", "it vi yo"},
	{"Îî", "fr ro"},
	{"ÐðÞþ", "is tr"},
	{"Ññ", "eu es"},
	{"Òò", "ca it vi yo"},
	{"Óó", "ca hu is ga pl pt sk es vi yo"},
	{"Ôô", "fr pt sk vi"},
	{"Õõ", "et hu pt vi"},
	{"Öö", "az et fi de hu is sv tr"},
	{"Øø", "nb da nn"},
	{"Ûû", "fr hu"},
	{"Üü", "az ca et de hu es tr"},
	{"Ýý", "cs is sk tr vi"},
	{"ĀāĒēĪī", "lv mi yo"},
	{"Ăă", "ro vi"},
	{"ĄąĘę", "lt pl"},
	{"Ćć", "bs hr pl"},
	{"ČčŠšŽž", "bs cs hr lv lt sk sl"},
	{"Ďď", "cs ro sk"},
	{"Đđ", "bs hr vi"},
	{"İıĞğ", "az tr"},
	{"ŇňŤť", "cs sk"},
	{"Ōō", "mi yo"},
	{"Şş", "az ro tr"},
	{"Ūū", "lv lt mi yo"},
	{"Żż", "pl ro"},
	{"ЁёЫыЭэ", "be kk mn ru"},
	{"Іі", "be kk uk"},
	{"ЈјЉљЊњ", "mk sr"},
	{"ЩщЪъ", "bg kk mn ru"},
	{"ẸẹỌọ", "vi yo"},
}
