package broker

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// TestInterfacesAreKfakes compares the methods here with those of the field that the option sets. It fails when a new
// kfake has others, before anything is called by the wrong table.
func TestInterfacesAreKfakes(t *testing.T) {
	apply := reflect.TypeOf(kfake.DataDir("")).Field(0).Type
	field, ok := apply.In(0).Elem().FieldByName("injectFS")
	if !ok {
		t.Fatal("kfake's settings have no file system any more")
	}
	same(t, field.Type, reflect.TypeFor[disk]())
}

func same(t *testing.T, theirs, ours reflect.Type) {
	t.Helper()
	if theirs.Kind() != reflect.Interface || theirs.NumMethod() != ours.NumMethod() {
		t.Fatalf("kfake has %v with %d methods, want %d", theirs, theirs.NumMethod(), ours.NumMethod())
	}
	for i := range ours.NumMethod() {
		a, b := theirs.Method(i), ours.Method(i)
		if a.Name != b.Name || a.Type.NumIn() != b.Type.NumIn() || a.Type.NumOut() != b.Type.NumOut() {
			t.Fatalf("kfake has %s %v, want %s %v", a.Name, a.Type, b.Name, b.Type)
		}
		for n := range b.Type.NumIn() {
			if a.Type.In(n) != b.Type.In(n) {
				t.Errorf("%s takes %v, want %v", b.Name, a.Type.In(n), b.Type.In(n))
			}
		}
		for n := range b.Type.NumOut() {
			switch out := b.Type.Out(n); {
			case out == reflect.TypeFor[file]():
				same(t, a.Type.Out(n), out)
			case a.Type.Out(n) != out:
				t.Errorf("%s returns %v, want %v", b.Name, a.Type.Out(n), out)
			}
		}
	}
}
