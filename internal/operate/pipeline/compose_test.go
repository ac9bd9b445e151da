package pipeline

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"testing"

	"go.yaml.in/yaml/v3"

	discriminatorservice "github.com/pairstream/pairstream/discriminator/service"
	encoderservice "github.com/pairstream/pairstream/encoder/service"
	grouperservice "github.com/pairstream/pairstream/grouper/service"
	indexerservice "github.com/pairstream/pairstream/indexer/service"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/recipe"
	"github.com/pairstream/pairstream/internal/testing/must"
	trainerservice "github.com/pairstream/pairstream/trainer/service"
)

// withDefault is a variable of compose.yaml, such as ${LANES:-4}.
var withDefault = regexp.MustCompile(`\$\{([A-Z_]+):-([^}]*)\}`)

// composed returns the environments that compose gives to its services where RECIPE alone is set.
func composed(t *testing.T, name string) map[string]map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile("../../../deploy/compose.yaml"))(t)
	filled := withDefault.ReplaceAllFunc(text, func(m []byte) []byte {
		parts := withDefault.FindSubmatch(m)
		if string(parts[1]) == recipe.Variable {
			return []byte(name)
		}
		return parts[2]
	})
	var file struct {
		Services map[string]struct{ Environment map[string]any }
	}
	must.Do(t, yaml.Unmarshal(filled, &file))
	out := map[string]map[string]string{}
	for service, s := range file.Services {
		out[service] = map[string]string{}
		for variable, value := range s.Environment {
			if value != nil {
				out[service][variable] = fmt.Sprint(value)
			}
		}
	}
	return out
}

// read returns the settings with which a stage starts in an environment.
func read[T any](environ map[string]string) (any, error) { return config.Parse[T](environ) }

// Every stage that compose starts reads the values that the table of its recipe has, and none that compose has put in
// their place.
func TestStagesOfComposeReadTheirRecipe(t *testing.T) {
	stages := map[string]func(map[string]string) (any, error){
		"encoder": read[encoderservice.Settings], "indexer": read[indexerservice.Settings], "grouper": read[grouperservice.Settings],
		"discriminator": read[discriminatorservice.Settings], "trainer": read[trainerservice.Settings],
	}
	different := map[string]map[string]any{}
	for _, name := range recipe.Names() {
		services := composed(t, name)
		different[name] = map[string]any{}
		for stage, read := range stages {
			environ := services[stage]
			got, err := read(environ)
			if err != nil {
				t.Fatalf("RECIPE=%s: the %s does not start: %v", name, stage, err)
			}
			table := maps.Clone(environ)
			for _, v := range must.Get(recipe.Of(name, map[string]string{"LANES": environ["LANES"], "GROUP_SIZE": environ["GROUP_SIZE"]}))(t) {
				table[v.Variable] = v.Value
			}
			want := must.Get(read(table))(t)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("RECIPE=%s: the %s starts with\n%+v\nwant the table's\n%+v", name, stage, got, want)
			}
			different[name][stage] = got
		}
	}
	for _, stage := range []string{"grouper", "trainer"} {
		if reflect.DeepEqual(different["gpn-s"][stage], different["mafa"][stage]) {
			t.Errorf("the %s starts alike with gpn-s and with mafa", stage)
		}
	}
}
