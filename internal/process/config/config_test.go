package config

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// token is a secret by its type.
type token string

func (token) LogValue() slog.Value { return slog.StringValue("hidden by itself") }

// colour reads itself.
type colour string

func (c *colour) UnmarshalText(text []byte) error {
	if s := string(text); s != "red" && s != "blue" {
		return fmt.Errorf("%q is no colour", s)
	}
	*c = colour(text)
	return nil
}

type connection struct {
	Brokers  []string      `env:"BROKERS" desc:"host:port, comma separated"`
	Timeout  time.Duration `env:"TIMEOUT" envDefault:"10s" desc:"patience"`
	Password string        `env:"PASSWORD" secret:"true" desc:"never shown | anywhere"`
	Token    token         `env:"TOKEN" desc:"another secret"`
}

type settings struct {
	connection2 // unexported: not a setting
	Connection  connection
	Replica     connection `envPrefix:"REPLICA_"`
	Model       string     `env:"MODEL,required" desc:"checkpoint file"`
	Lanes       int        `env:"LANES" envDefault:"4" desc:"partitions"`
	Small       int8       `env:"SMALL" desc:"a byte"`
	Seed        uint64     `env:"SEED" envDefault:"1" desc:"of every generator"`
	Rate        float64    `env:"RATE" envDefault:"1e-4" desc:"learning rate"`
	On          bool       `env:"ON" desc:"switch"`
	Sizes       []int      `env:"SIZES" desc:"list"`
	Colour      colour     `env:"COLOUR" desc:"red or blue"`
	hidden      int        //nolint:unused // unexported fields are no settings
}

type connection2 struct {
	X string `env:"NOT_READ"`
}

func (s settings) Validate() error {
	if s.Lanes < 1 {
		return fmt.Errorf("LANES is %d, want at least 1", s.Lanes)
	}
	return nil
}

func TestParse(t *testing.T) {
	got, err := Parse[settings](map[string]string{
		"MODEL": "m.safetensors", "BROKERS": "a:1,b:2", "REPLICA_TIMEOUT": "250ms", "REPLICA_PASSWORD": "p", "LANES": "5000000000",
		"ON": "true", "SIZES": "1,2", "COLOUR": "blue", "TIMEOUT": "",
	})
	want := settings{
		Connection: connection{Brokers: []string{"a:1", "b:2"}, Timeout: 10 * time.Second},
		Replica:    connection{Timeout: 250 * time.Millisecond, Password: "p"},
		Model:      "m.safetensors", Lanes: 5_000_000_000, Seed: 1, Rate: 1e-4, On: true, Sizes: []int{1, 2}, Colour: "blue",
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("parsed\n%+v, %v\nwant\n%+v", got, err, want)
	}
}

func TestParseErrors(t *testing.T) {
	tests := []struct {
		name    string
		environ map[string]string
		want    string
	}{
		{"nothing set", nil, "MODEL is not set: checkpoint file"},
		{"whole number", map[string]string{"LANES": "many"}, `LANES="many": want a whole number`},
		{"whole number with a unit", map[string]string{"LANES": "4 lanes"}, `LANES="4 lanes": want a whole number`},
		{"too large", map[string]string{"LANES": "99999999999999999999"}, `LANES="99999999999999999999": out of range, want a whole number`},
		{"largest of its type", map[string]string{"SMALL": "127"}, ""},
		{"too large for its type", map[string]string{"SMALL": "128"}, `SMALL="128": out of range, want a whole number from -128 to 127`},
		{"negative", map[string]string{"SEED": "-1"}, `SEED="-1": want a whole number, not negative`},
		{"number", map[string]string{"RATE": "1e-4x"}, `RATE="1e-4x": want a number`},
		{"switch", map[string]string{"ON": "yes"}, `ON="yes": want true or false`},
		{"duration without a unit", map[string]string{"TIMEOUT": "10"}, `TIMEOUT="10": want a duration such as 250ms, 10s or 5m`},
		{"with a prefix", map[string]string{"REPLICA_TIMEOUT": "soon"}, `REPLICA_TIMEOUT="soon": want a duration such as 250ms, 10s or 5m`},
		{"list", map[string]string{"SIZES": "1,x"}, `SIZES="1,x": want a comma-separated list, each element a whole number`},
		{"own words", map[string]string{"COLOUR": "green"}, `COLOUR="green": "green" is no colour`},
		{"several, in order", map[string]string{"COLOUR": "green", "LANES": "x"}, "LANES=\"x\": want a whole number\nCOLOUR=\"green\": \"green\" is no colour"},
		{"validation", map[string]string{"LANES": "0"}, "LANES is 0, want at least 1"},
		{"parsing goes before validation", map[string]string{"LANES": "0", "ON": "x"}, `ON="x": want true or false`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.environ != nil {
				tt.environ["MODEL"] = "m"
			}
			got, err := Parse[settings](tt.environ)
			if text := fmt.Sprint(err); err != nil && text != tt.want || err == nil && tt.want != "" {
				t.Errorf("error %q, want %q", text, tt.want)
			}
			if err != nil && !reflect.DeepEqual(got, settings{}) {
				t.Errorf("settings beside an error: %+v", got)
			}
		})
	}
}

// The environment of the process is read by Environ alone.
func TestParseIgnoresProcess(t *testing.T) {
	t.Setenv("MODEL", "from-the-process")
	if _, err := Parse[settings](nil); err == nil {
		t.Error("MODEL came from the process")
	}
	if got, err := Parse[settings](Environ()); err != nil || got.Model != "from-the-process" {
		t.Errorf("got %q, %v", got.Model, err)
	}
}

type secrets struct {
	PIN int   `env:"PIN" secret:"true" desc:"a secret that can fail to parse"`
	Key token `env:"KEY,file" desc:"a secret in a file"`
}

func TestParseErrorsHideSecrets(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Parse[secrets](map[string]string{"PIN": "hunter2", "KEY": missing})
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("error %v shows the secret", err)
	}
	if want := "PIN=***: want a whole number\nKEY="; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q, want it to begin with %q", err, want)
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v does not say that the file is missing", err)
	}
}

type unparsable struct {
	F func() `env:"F" desc:"no value can be parsed into this"`
}

func TestParseUnsupportedType(t *testing.T) {
	if _, err := Parse[unparsable](map[string]string{"F": "x"}); err == nil || !strings.Contains(err.Error(), "F=") {
		t.Errorf("error is %v", err)
	}
}

type pointerValidator struct {
	N int `env:"N" desc:"a number"`
}

func (p *pointerValidator) Validate() error { return errors.New("seen by pointer") }

func TestParseValidatesByPointer(t *testing.T) {
	if _, err := Parse[pointerValidator](nil); err == nil || err.Error() != "seen by pointer" {
		t.Errorf("error is %v", err)
	}
}

func TestTable(t *testing.T) {
	got := table(Settings(&connection{}, struct {
		Again connection
		Model string `env:"MODEL,required" desc:"checkpoint\nfile"`
		Empty string `env:"EMPTY,notEmpty" envDefault:"x" desc:"kept"`
	}{}))
	want := "| variable | form | default | meaning |\n|---|---|---|---|\n" +
		"| `BROKERS` | list |  | host:port, comma separated |\n" +
		"| `TIMEOUT` | duration | `10s` | patience |\n" +
		"| `PASSWORD` | text |  | never shown \\| anywhere |\n" +
		"| `TOKEN` | text |  | another secret |\n" +
		"| `MODEL` | text | *required* | checkpoint file |\n" +
		"| `EMPTY` | text | `x` | kept |\n"
	if got != want {
		t.Errorf("table\n%s\nwant\n%s", got, want)
	}
}

func TestSettingsThatDifferAreAllListed(t *testing.T) {
	type other struct {
		Timeout time.Duration `env:"TIMEOUT" envDefault:"1m" desc:"patience"`
	}
	got := Settings(connection{}, other{})
	if len(got) != 5 || got[1].Default != "10s" || got[4].Default != "1m" {
		t.Errorf("settings %+v", got)
	}
}

func TestRedacted(t *testing.T) {
	cfg := settings{
		Connection: connection{Brokers: []string{"a:1", "b:2"}, Timeout: time.Second, Password: "hunter2", Token: "hunter3"},
		Model:      "m",
	}
	var out bytes.Buffer
	for _, c := range []any{cfg, &cfg} {
		slog.New(slog.NewTextHandler(&out, nil)).Info("starting", "config", Redacted(c))
	}
	for _, want := range []string{
		"config.BROKERS=a:1,b:2", "config.TIMEOUT=1s", "config.PASSWORD=***", "config.TOKEN=***",
		`config.REPLICA_PASSWORD=""`, "config.MODEL=m", "config.LANES=0",
	} {
		if strings.Count(out.String(), want) != 2 {
			t.Errorf("log does not show %s twice:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "hunter") {
		t.Errorf("log shows a secret:\n%s", out.String())
	}
}

// TestParseRefusesControlCharacters refuses what would be further lines of a file of settings, or steer a terminal.
func TestParseRefusesControlCharacters(t *testing.T) {
	for value, shown := range map[string]string{
		"a:1\n": `"a:1\n"`, "a:1\r\nMODEL=evil": `"a:1\r\nMODEL=evil"`, "a\tb": `"a\tb"`, "\x1b[2J": `"\x1b[2J"`, "\x7f": `"\x7f"`, "\u0085": `"\u0085"`,
		"http://u:hunter2@h\n": `"http://***@h\n"`,
	} {
		_, err := Parse[settings](map[string]string{"MODEL": "m", "BROKERS": value, "UNKNOWN": value})
		want := "BROKERS=" + shown + ": it has a line end or another control character: take it out"
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	_, err := Parse[settings](map[string]string{"MODEL": "m", "PASSWORD": "hunter2\n", "REPLICA_TOKEN": "\x00hunter3"})
	want := "PASSWORD=***: it has a line end or another control character: take it out\n" +
		"REPLICA_TOKEN=***: it has a line end or another control character: take it out"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := Parse[settings](map[string]string{"MODEL": "s3://***@b"}); err == nil || !strings.HasPrefix(err.Error(), `MODEL="s3://***@b": its password was left out`) {
		t.Errorf("a password that was left out: error %v", err)
	}
}

// TestPasswordsInURLsStayHidden has them in errors and in the log.
func TestPasswordsInURLsStayHidden(t *testing.T) {
	const url = "http://alice:hunter2@host:1"
	var out bytes.Buffer
	cfg := settings{Model: "s3://bucket?endpoint=" + url, Connection: connection{Brokers: []string{url, url}}}
	slog.New(slog.NewTextHandler(&out, nil)).Info("starting", "config", Redacted(cfg))
	if text := out.String(); strings.Contains(text, "hunter2") || strings.Count(text, "http://***@host:1") != 3 {
		t.Errorf("the log has %s", text)
	}
	for variable, value := range map[string]string{"TIMEOUT": url, "SIZES": "1," + url, "COLOUR": url, "LANES": url} {
		_, err := Parse[settings](map[string]string{"MODEL": "m", variable: value})
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), variable+`="`) {
			t.Errorf("error %v", err)
		}
	}
}
