package display_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/base/display"
)

func TestRedacted(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                           "",
		"no URL: a@b, c:d@e":                                         "no URL: a@b, c:d@e",
		"file:///data/a@b/c:d":                                       "file:///data/a@b/c:d",
		"http://host:8080/a@b?c=d@e":                                 "http://host:8080/a@b?c=d@e",
		"http://[::1]:8080/a@b":                                      "http://[::1]:8080/a@b",
		"s3://bucket/photo@2x.jpg":                                   "s3://bucket/photo@2x.jpg",
		"http://alice:hunter2@mlflow:5000":                           "http://***@mlflow:5000",
		"HTTPS://alice:hunter2@h/p?q#f":                              "HTTPS://***@h/p?q#f",
		"https://hunter2@host/x":                                     "https://***@host/x",
		"http://alice:hun@ter2@host/":                                "http://***@host/",
		"http://alice:hun/ter2@host/":                                "http://***@host/",
		"http://alice:hun?ter2@host/":                                "http://***@host/",
		"http://alice:hun#ter2@host/":                                "http://***@host/",
		"http://alice:hun,ter2@host/":                                "http://***@host/",
		"http://:hunter2@host":                                       "http://***@host",
		"postgresql://mlflow:hunter2@db/x":                           "postgresql://***@db/x",
		`parse "http://a:hunter2@h:x": invalid port`:                 `parse "http://***@h:x": invalid port`,
		"s3://a?endpoint=http://a:hunter2@h,s3://b/k@v":              "s3://a?endpoint=http://***@h,s3://b/k@v",
		"s3://a:hunter2@b/k,file:///d,gs://c:hunter2@e":              "s3://***@b/k,file:///d,gs://***@e",
		"s3://b?endpoint=http%3A%2F%2Falice%3Ahunter2%40h%3A1&r=x":   "s3://b?endpoint=http%3A%2F%2F***%40h%3A1&r=x",
		"s3://b?endpoint=http%3a%2f%2falice:hunter2@h:1":             "s3://b?endpoint=http%3a%2f%2f***@h:1",
		"x=http%253A%252F%252Fa%253Ahunter2%2540h%252Fpath":          "x=http%253A%252F%252F***%2540h%252Fpath",
		"s3://b?endpoint=http%3A%2F%2Fh%3A1%2Fa%40b":                 "s3://b?endpoint=http%3A%2F%2Fh%3A1%2Fa%40b",
		"https://h/x?X-Amz-Signature=hunter2&X-Amz-Date=1":           "https://h/x?X-Amz-Signature=***&X-Amz-Date=1",
		"https://h/x?sv=1&sig=hunter2#f":                             "https://h/x?sv=1&sig=***#f",
		"s3://b?access_key=hunter2&secret_key=hunter2&region=e":      "s3://b?access_key=***&secret_key=***&region=e",
		"s3://b?region=eu&kmskeyid=alias&awssdk=v2&profile=p":        "s3://b?region=eu&kmskeyid=alias&awssdk=v2&profile=p",
		"two\nhttp://a:hunter2@b lines http://c:hunter2@d\nand more": "two\nhttp://***@b lines http://***@d\nand more",
	} {
		got := display.Redacted(text)
		if got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if again := display.Redacted(got); again != got {
			t.Errorf("%q becomes %q, and then %q", text, got, again)
		}
	}
}

func FuzzRedacted(f *testing.F) {
	f.Add("http", "alice", "hunter2", "host/x")
	f.Add("s3", "", "a@b%40", "[::1]:9/x?y@z")
	f.Fuzz(func(t *testing.T, scheme, user, password, rest string) {
		if strings.ContainsAny(password, "/?#&%:@ \t\r\n\v\f\u0085\u00a0\"<>") || len(password) < 8 || strings.Contains(scheme+user+rest+display.Hidden, password) {
			return // no password that a reader could tell from the rest
		}
		user = strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r
			}
			return -1
		}, user)
		if strings.ContainsFunc(password, func(r rune) bool { return r > 127 || r < '!' }) {
			return
		}
		if got := display.Redacted("http://" + user + ":" + password + "@" + rest); strings.Contains(got, password) {
			t.Errorf("%q shows the password %q", got, password)
		}
	})
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain, Größe, 漢字": "plain, Größe, 漢字",
		"\x1b[2J":          "\ufffd[2J",
		"a\nb\tc\r":        "a\ufffdb\ufffdc\ufffd",
		"gnp\u202egpj":     "gnp\ufffdgpj",
		"\u2066\u200b\x9b": "\ufffd\ufffd\ufffd",
		"\xff":             "\ufffd",
	} {
		if got := display.Printable(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// TestAttr logs passwords in every shape of a value, in both formats.
func TestAttr(t *testing.T) {
	const url = "http://alice:hunter2@host"
	var out bytes.Buffer
	o := &slog.HandlerOptions{ReplaceAttr: display.Attr}
	for _, h := range []slog.Handler{slog.NewTextHandler(&out, o), slog.NewJSONHandler(&out, o)} {
		out.Reset()
		slog.New(h).With("with", url).Info("see "+url, "text", url, "err", errors.New("asking "+url), "list", []string{url, "x"},
			"group", slog.GroupValue(slog.String("in", url)), "struct", struct{ URL string }{url}, "number", 7, "plain", []string{"x", "y"})
		text := out.String()
		if strings.Contains(text, "hunter2") || strings.Count(text, "http://***@host") != 7 || !strings.Contains(text, "7") {
			t.Errorf("logged %s", text)
		}
	}
}
