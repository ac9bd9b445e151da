package config

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pairstream/pairstream/internal/base/invalid"
)

// coreOptions stands for the options of a core, which know no variables.
type coreOptions struct {
	Size int
	Rate struct{ High float64 }
}

func (o coreOptions) Validate() error {
	var l invalid.List
	invalid.AtLeast(&l, "Size", o.Size, 1)
	l.Want(o.Rate.High <= 1, "%s is %g, want at most 1 with %s=%d and without %s", invalid.Field("Rate.High"), o.Rate.High,
		invalid.Field("Size"), o.Size, invalid.Field("Unheard"))
	return l.Err()
}

// coreSettings are the settings for them.
type coreSettings struct {
	Size int `env:"CORE_SIZE" envDefault:"8" desc:"a size"`
	Rate struct {
		High float64 `env:"HIGH" envDefault:"1" desc:"a rate"`
	} `envPrefix:"RATE_"`
}

func (s coreSettings) Validate() error {
	o := coreOptions{Size: s.Size}
	o.Rate.High = s.Rate.High
	return o.Validate()
}

type whole struct {
	Own   int `env:"OWN" envDefault:"1" desc:"a number"`
	First struct{ Core coreSettings }
	Again coreSettings
	Other coreSettings `envPrefix:"OTHER_"`
}

func (w *whole) Validate() error {
	if w.Own < 1 {
		return errors.New("OWN is too small")
	}
	return nil
}

// Structs within structs are asked too, the outer one first; problems of fields that share a variable are told once.
func TestParseValidatesWhatIsNested(t *testing.T) {
	for _, tt := range []struct {
		environ map[string]string
		want    string
	}{
		{nil, ""},
		{map[string]string{"CORE_SIZE": "0"}, "CORE_SIZE is 0, want at least 1"},
		{map[string]string{"OTHER_CORE_SIZE": "-1", "OWN": "0"}, "OWN is too small\nOTHER_CORE_SIZE is -1, want at least 1"},
		{map[string]string{"RATE_HIGH": "2"}, "RATE_HIGH is 2, want at most 1 with CORE_SIZE=8 and without Unheard"},
		{map[string]string{"CORE_SIZE": "x"}, `CORE_SIZE="x": want a whole number`},
	} {
		_, err := Parse[whole](tt.environ)
		if got := fmt.Sprint(err); err != nil && got != tt.want || err == nil && tt.want != "" {
			t.Errorf("%v: error\n%s\nwant\n%s", tt.environ, got, tt.want)
		}
	}
}

func TestVariables(t *testing.T) {
	if err := Variables(coreSettings{}, nil); err != nil {
		t.Errorf("nothing is wrong, and yet: %v", err)
	}
	other := errors.New("the disk is full")
	if err := Variables(coreSettings{}, other); err != other { //nolint:errorlint // the very same
		t.Errorf("an error of other making became %v", err)
	}
	err := Variables(&coreSettings{}, fmt.Errorf("making a core: %w", errors.Join(coreOptions{}.Validate(), other)))
	if want := "making a core: CORE_SIZE is 0, want at least 1\nthe disk is full"; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
	if !errors.Is(err, other) {
		t.Error("the error no longer wraps what it did")
	}
	if again := Variables(coreSettings{}, fmt.Errorf("again: %w", err)); again.Error() != "again: "+err.Error() {
		t.Errorf("renamed twice it is %q", again)
	}
}
