package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// ranged stands for settings of a program.
type ranged struct {
	BatchSize int     `env:"BATCH_SIZE" envDefault:"96" desc:"a size"`
	LR        float64 `env:"LR" envDefault:"1e-4" desc:"a rate"`
	Token     string  `env:"CONSOLE_TOKEN" secret:"true" desc:"a token"`
	Addr      string  `env:"CONSOLE_ADDR" desc:"an address"`
	Strategy  word    `env:"STRATEGY" envDefault:"grit" desc:"a word"`
}

type word string

func (w *word) UnmarshalText(text []byte) error {
	if *w = word(text); *w != "grit" && *w != "gns" {
		return errors.New("want grit or gns")
	}
	return nil
}

func (r ranged) Validate() error {
	switch {
	case r.BatchSize < 1:
		return fmt.Errorf("BATCH_SIZE is %d, want at least 1", r.BatchSize)
	case r.Addr != "" && r.Token == "":
		return fmt.Errorf("CONSOLE_ADDR is %s, which needs CONSOLE_TOKEN", r.Addr)
	}
	return nil
}

// fileOf writes a file, and forgets at the test's end that it was in use.
func fileOf(t *testing.T, text string) string {
	t.Helper()
	t.Cleanup(UseNone)
	path := filepath.Join(t.TempDir(), "pairstream.toml")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestFileGivesSettingsBelowTheEnvironment(t *testing.T) {
	path := fileOf(t, "\ufeff"+strings.ReplaceAll(`# a comment
recipe = "gpn-s"
group_size = 5_000_000
stream.kafka_retention = "0s,batches=168h"

[stream]
kafka_brokers = ["kafka-0:9092", "kafka-1:9092"]
kafka_tls = true
stream_session_timeout = "1m30s"

[grouper]
batch_size = 0x20
epochs = +6

[trainer]
lr = 1e-4
"adamw" = [0.9, 0.95, 1e-6]
ecm_losses = ["itc", "itm"]
eval_data = "a,b"
seed = 18_446_744_073_709_551_615

[discriminator]
cond_min_precision = 0.5
`, "\n", "\r\n")+`console = {console_addr = ":8090", "console_token" = 'geheim "x"'}`)
	text := string(must.Get(os.ReadFile(path))(t))
	front, back, _ := strings.Cut(text, "\r\n[stream]") // a key after a section belongs to it
	sections, last, _ := strings.Cut(back, "console = ")
	must.Do(t, os.WriteFile(path, []byte(front+"\r\nconsole = "+last+"\r\n[stream]"+sections), 0o600))
	for _, name := range []string{"EPOCHS", "LR", "KAFKA_TLS"} {
		t.Setenv(name, "")
	}
	t.Setenv("LR", "3e-4")
	must.Do(t, Use(path))
	environ := Environ()
	want := map[string]string{
		"RECIPE": "gpn-s", "GROUP_SIZE": "5000000", "KAFKA_RETENTION": "0s,batches=168h", "KAFKA_BROKERS": "kafka-0:9092,kafka-1:9092",
		"KAFKA_TLS": "true", "STREAM_SESSION_TIMEOUT": "1m30s", "BATCH_SIZE": "32", "EPOCHS": "6", "LR": "3e-4", "ADAMW": "0.9,0.95,1e-6",
		"ECM_LOSSES": "itc,itm", "EVAL_DATA": "a,b", "SEED": "18446744073709551615", "COND_MIN_PRECISION": "0.5", "CONSOLE_ADDR": ":8090",
		"CONSOLE_TOKEN": `geheim "x"`,
	}
	for variable, value := range want {
		if environ[variable] != value {
			t.Errorf("%s is %q, want %q", variable, environ[variable], value)
		}
	}
	if len(inUse.settings) != len(want) {
		t.Errorf("the file has %v, want %d settings", slices.Sorted(maps.Keys(inUse.settings)), len(want))
	}
	UseNone()
	if Environ()["BATCH_SIZE"] != os.Getenv("BATCH_SIZE") {
		t.Error("a file that is not in use gives a setting")
	}
}

func TestUseRefusesWhatIsNoSettingWithItsLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"unknown setting":             {"\nbatchsize = 3", ":2: no setting is called batchsize: the nearest name is batch_size"},
		"unknown setting of a part":   {"[trainer]\nlr_wamup = 3", ":2: no setting is called lr_wamup: the nearest name is lr_warmup"},
		"upper case":                  {"BATCH_SIZE = 3", ":1: no setting is called BATCH_SIZE: the nearest name is batch_size"},
		"unknown section":             {"[trainr]\nlr = 1\nx = 2", ":1: no section is called [trainr]: the nearest name is [trainer]"},
		"a section in a section":      {"[trainer.adam]\nlr = 1", ":1: no section is called [trainer.adam]: the nearest name is [trainer]"},
		"a setting in a setting":      {"[trainer]\nlr.max = 1", ":2: no setting is called lr.max: the nearest name is lr_min"},
		"another section's":           {"[encoder]\nlr = 1e-3", ":2: lr does not belong in [encoder]: write it above the first section or in [trainer]"},
		"a setting as a section":      {"[lr]\nmax = 1", ":1: lr is a setting, not a section: write lr = ..."},
		"a section as a setting":      {"trainer = 1", ":1: trainer is a section: write [trainer] above its settings"},
		"a list of sections":          {"[[trainer]]\nlr = 1", ":1: [[trainer]] is a list of sections, want [trainer]"},
		"a section again":             {"[trainer]\n[encoder]\n[trainer]", ":3: [trainer] begins again: line 1 has it already"},
		"a setting again":             {"[trainer]\nlr = 1e-3\nlr = 2e-3", ":3: lr is set again: line 2 sets it already"},
		"again in another section":    {"[grouper]\nbatch_size = 3\n[trainer]\nbatch_size = 3", ":4: batch_size is set again: line 2 sets it already"},
		"again above":                 {"trainer.lr = 1e-3\nlr = 2e-3", ":2: lr is set again: line 1 sets it already"},
		"again after a wrong one":     {"lr = 'x'\nlr = 1", ":1: lr is text, want a number, without quotes\nF:2: lr is set again: line 1 sets it already"},
		"text for a number":           {"lr = '1e-4'", ":1: lr is text, want a number, without quotes"},
		"a fraction for a whole":      {"batch_size = 1.5", ":1: batch_size is a number with a fraction, want a whole number, without quotes"},
		"not a number":                {"lr = nan", ":1: lr is a number with a fraction, want a number, without quotes"},
		"text for a switch":           {"kafka_tls = 'true'", ":1: kafka_tls is text, want true or false, without quotes"},
		"a number for a switch":       {"kafka_tls = 1", ":1: kafka_tls is a whole number, want true or false, without quotes"},
		"a number for a text":         {"namespace = 7", ":1: namespace is a whole number, want text in quotes"},
		"a secret of another form":    {"ingest_token = 123456789", ":1: ingest_token is a whole number, want text in quotes"},
		"a number for a duration":     {"rank_timeout = 10", `:1: rank_timeout is a whole number, want a duration in quotes, such as "250ms", "10s" or "5m"`},
		"a text for a duration":       {"rank_timeout = '10'", `:1: rank_timeout is text, want a duration in quotes, such as "250ms", "10s" or "5m"`},
		"a list of numbers for texts": {"eval_data = [1]", `:1: eval_data is a list, want a list of texts without commas, such as ["one", "two"]`},
		"a comma in a list":           {"eval_data = ['a,b']", `:1: eval_data is a list, want a list of texts without commas, such as ["one", "two"]`},
		"a list in a list":            {"adamw = [[0.9]]", ":1: adamw is a list, want text in quotes, a number, or a list of either"},
		"a list for one":              {"lr = [1]", ":1: lr is a list, want a number, without quotes"},
		"a table":                     {"lr = {max = 1}", ":1: lr is a table, want a number, without quotes"},
		"a date":                      {"namespace = 2026-01-01", ":1: namespace is a date, want text in quotes"},
		"a line end":                  {"namespace = 'x'\ndevice = \"\"\"\na\nb\"\"\"", ":2: device has a line end or another control character: take it out"},
		"removed, of no use":          {"itm_same_image = false", ":1: itm_same_image: the setting was removed: SAME_IMAGE_NEGATIVES of the grouper is one switch for the walk, ITC, ITM and Con-D; take it out"},
		"removed, with a successor":   {"[trainer]\nmomentum = true", ":2: momentum: MOMENTUM=true has no effect, the setting was removed: MOMENTUM_DECAY above 0 keeps a momentum encoder; set MOMENTUM_DECAY=0.995; take it out"},
		"no TOML":                     {"lr = 1\nnonsense", ":2: expected '=' after key: want TOML, such as lr = 1e-4"},
		"a leading zero":              {"batch_size = 010", ":1: "},
		"an environment file":         {"LR=1e-4\nexport X=3", ":1: no setting is called LR: the nearest name is lr\nF:2: "},
		"steering the terminal":       {"\"\\u001b[31m\" = 1", ":1: no setting is called \ufffd[31m: the nearest name is "},
		"several":                     {"x_ = 1\n[trainer]\nlr = 'a'\n[encodr]", ":1: no setting is called x_: "},
	} {
		t.Run(name, func(t *testing.T) {
			path := fileOf(t, c.text)
			err := Use(path)
			if err == nil || !strings.HasPrefix(strings.ReplaceAll(err.Error(), path, "F"), "F"+c.want) {
				t.Fatalf("error is\n%v\nwant\nF%s", err, c.want)
			}
			if strings.Contains(err.Error(), "123456789") {
				t.Errorf("a secret is printed: %v", err)
			}
			if len(inUse.settings) > 0 {
				t.Error("a refused file is in use")
			}
		})
	}
}

// TestHostileFiles wants an error that names the file, and no end of the program.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Symlink(dir, filepath.Join(dir, "folder.toml")))
	must.Do(t, os.Symlink("loop.toml", filepath.Join(dir, "loop.toml")))
	must.Do(t, syscall.Mkfifo(filepath.Join(dir, "pipe.toml"), 0o600))
	for name, text := range map[string]string{
		"huge.toml":    strings.Repeat("# more\n", mostFileBytes/7+1),
		"nul.toml":     "lr = 1e-4\nnamespace = \"a\x00b\"",
		"binary.toml":  "\x00\x01\xff\xfe",
		"latin1.toml":  "namespace = \"caf\xe9\"",
		"utf16.toml":   "\xff\xfel\x00r\x00",
		"tables.toml":  "[a" + strings.Repeat(".a", 10_000) + "]",
		"deeper.toml":  growing(10_000, func(n int) string { return fmt.Sprintf("[t%d.t%[1]d]\n", n) }),
		"braces.toml":  "lr = " + strings.Repeat("{a = ", 10_000) + "1" + strings.Repeat("}", 10_000),
		"lists.toml":   "adamw = " + strings.Repeat("[", 500_000),
		"dotted.toml":  "a" + strings.Repeat(".a", 500_000) + " = 1",
		"long.toml":    strings.Repeat("a", 1_000_000) + " = 1",
		"unknown.toml": growing(50_000, func(n int) string { return fmt.Sprintf("setting_%d = 1\n", n) }),
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	entries := must.Get(os.ReadDir(dir))(t)
	for _, path := range []string{"", "gone.toml", "huge.toml/x"} {
		if path != "" {
			path = filepath.Join(dir, path)
		}
		if err := Use(path); err == nil || !strings.Contains(err.Error(), "--config") {
			t.Errorf("%s: error is %v", path, err)
		}
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		err := Use(path)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error is %.200v", e.Name(), err)
		} else if line, _, _ := strings.Cut(err.Error(), "\n"); len(line) > 400 {
			t.Errorf("%s: a line of the error has %d bytes", e.Name(), len(line))
		}
	}
}

func growing(n int, line func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
	}
	return b.String()
}

func TestParseNamesTheLineOfAValueThatItRefuses(t *testing.T) {
	path := fileOf(t, "[grouper]\nstrategy = \"grits\"\n")
	must.Do(t, Use(path))
	if _, err := Parse[ranged](Environ()); err == nil || err.Error() != path+`:2: STRATEGY="grits": want grit or gns` {
		t.Errorf("error is %v", err)
	}
	t.Setenv("STRATEGY", "gritz") // now the file is innocent
	if _, err := Parse[ranged](Environ()); err == nil || err.Error() != `STRATEGY="gritz": want grit or gns` {
		t.Errorf("error is %v", err)
	}
}

func TestCheckFindsEverything(t *testing.T) {
	path := fileOf(t, `batchsize = 3
[console]
console_addr = ":80"
[grouper]
strategy = "grits"
batch_size = 0
[trainer]
lr = "x"
`)
	t.Setenv("BATCH_SIZE", "5") // the environment wins in a run, and hides nothing here
	want := strings.ReplaceAll(`F:1: no setting is called batchsize: the nearest name is batch_size
F:5: STRATEGY="grits": want grit or gns
F:6: BATCH_SIZE is 0, want at least 1
F:8: lr is text, want a number, without quotes`, "F", path)
	if _, err := Check[ranged](path); err == nil || err.Error() != want {
		t.Errorf("error is\n%v\nwant\n%s", err, want)
	}
	must.Do(t, os.WriteFile(path, []byte("console_addr = ':80'"), 0o600))
	if _, err := Check[ranged](path); err == nil || err.Error() != path+":1: CONSOLE_ADDR is :80, which needs CONSOLE_TOKEN" {
		t.Errorf("error is %v", err)
	}
	t.Setenv("CONSOLE_TOKEN", "secret") // kept out of the file
	if n, err := Check[ranged](path); err != nil || n != 1 {
		t.Errorf("%d settings, error %v", n, err)
	}
}

func TestSectionsPutSharedSettingsAboveThem(t *testing.T) {
	type Every struct {
		Level string `env:"LEVEL" desc:"a level"`
	}
	type part struct {
		Size int `env:"SIZE" desc:"a size"`
	}
	got := Sections(struct {
		Process Every `section:"-"`
		Grouper struct {
			Part part
			Own  bool `env:"OWN_SWITCH" desc:"a switch"`
		}
		Trainer part
	}{})
	if want := "LEVEL\ttext\t\nSIZE\twhole number\tgrouper,trainer\nOWN_SWITCH\ttrue or false\tgrouper\n"; Names(got) != want {
		t.Errorf("names are\n%s\nwant\n%s", Names(got), want)
	}
}

func FuzzFile(f *testing.F) {
	for _, text := range []string{"lr = 1e-4", "[trainer]\nlr = 'x'", "trainer = {lr = 1, adamw = [0.9, '1']}", "a.b.c = 2026-01-01", "[[x]]", "\"\\u0000\" = 1", "lr = 1\r\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		settings, findings := parseTOML(raw)
		lines := strings.Count(string(raw), "\n") + 1
		for _, p := range findings {
			if p.line < 1 || p.line > lines {
				t.Errorf("line %d of %d: %s", p.line, lines, p.text)
			}
		}
		for variable, s := range settings {
			if strings.ContainsAny(s.value, "\x00\n\r") || s.line < 1 || s.line > lines {
				t.Errorf("%s is %+v", variable, s)
			}
		}
	})
}
