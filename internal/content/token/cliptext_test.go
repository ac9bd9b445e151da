package token

import "testing"

func TestUnescapeHTML(t *testing.T) {
	for in, want := range map[string]string{
		"a & b":                     "a & b",
		"&lt;b&gt;":                 "<b>",
		"&eacute &eacutex;":         "é éx;",
		"&notit; &unknown;":         "¬it; &unknown;",
		"&#65;&#x42;&#X43":          "ABC",
		"&#; &#x; &#xg; &#a;":       "&#; &#x; &#xg; &#a;",
		"&#128;&#x81;":              "€\u0081",
		"&#0;&#xD800;&#1114112;":    "\uFFFD\uFFFD\uFFFD",
		"&#99999999999999999999;":   "\uFFFD",
		"&#4294967361;":             "\uFFFD", // 2^32 + 65
		"a&#1;b&#11;c&#31;d&#127;e": "abcde",
		"&#xFDD0;&#xFFFE;&#x1FFFF;": "",
		"&#13;&#9;":                 "\r\t",
		"&am&#112;":                 "&amp", // one pass does not read what it wrote
		"&amp;#65;":                 "&#65;",
	} {
		if got := unescapeHTML(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestLowerFull(t *testing.T) {
	for in, want := range map[string]string{
		"ABC É":         "abc é",
		"İI":            "i\u0307i",
		"ΣΑΣ":           "σας",
		"ΑΣ'Α ΑΣ' Σ":    "ασ'α ας' σ",
		"ΑΣ\u0301 Α.ΣΑ": "ας\u0301 α.σα",
		"1Σ":            "1σ",
	} {
		if got := lowerFull(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestClipWord(t *testing.T) {
	for in, want := range map[string]int{
		"abc1": 3, "12": 1, "½a": 2, "é漢1": 5, "'sa": 2, "'llama": 3, "'x": 1, "!?a": 2, " a": 1, "\u3000a": 3,
		"<|endoftext|>x": 13, "<|endoftext": 2, "\u0301a": 2, "\x1ca": 1,
	} {
		if got := clipWord(in); got != want {
			t.Errorf("%q: first word has %d bytes, want %d", in, got, want)
		}
	}
}
