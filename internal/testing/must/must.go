// Package must fails a test when a step fails that the test needs and does not ask about. It is for tests only.
//
//	must.Do(t, os.Mkdir(dir, 0o755))
//	raw := must.Get(os.ReadFile(path))(t)
//
// In Go, a call with several results is the only argument of another call, or none. So t comes behind.
package must

// T is the test, benchmark or property to end: a [testing.TB], or a test of rapid.
type T interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
}

// Do ends the test if err is not nil.
func Do(t T, err error) {
	if err != nil { // Helper is slow, and benchmarks call Do as well
		t.Helper()
		t.Fatal(err)
	}
}

// Check fails the test if err is not nil, and lets it go on: to the end of a goroutine, or to what is to be cleaned up.
func Check(t T, err error) {
	if err != nil {
		t.Helper()
		t.Error(err)
	}
}

// Get returns a function that returns v, or ends the test if err is not nil.
func Get[V any](v V, err error) func(T) V {
	return func(t T) V {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Get2 is [Get] for two values.
func Get2[V, W any](v V, w W, err error) func(T) (V, W) {
	return func(t T) (V, W) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v, w
	}
}
