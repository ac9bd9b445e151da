package batches

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestPlanAsTars writes the tars of a plan with it, and those of the plan that is there then, from its folder alone.
// Tombstones that came later, tars in the folder of the plan, and a plan that is not there are refused.
func TestPlanAsTars(t *testing.T) {
	t.Parallel()
	in, o, environ := setUp(t, 8)
	o.Tars, o.PerTar = in("tars"), 1
	out := must.Get(plan(t, o, environ))(t)
	tars := must.Get(filepath.Glob(in("tars/epoch-000/*.tar")))(t)
	if want := in("tars") + "/epoch-000: "; !strings.Contains(out, want) || len(tars) < 4 {
		t.Errorf("%d tars, and it prints %s", len(tars), out)
	}
	alone := o
	alone.Sources, alone.Tars = nil, in("again")
	delete(environ, "BUCKET_ROOTS")
	must.Get(plan(t, alone, environ))(t)
	sameFiles(t, filesIn(t, in("again/epoch-000")), filesIn(t, in("tars/epoch-000")))

	within := o
	within.Tars = in("plan/tars")
	wantError(t, "tars in the plan", "--materialize lies in --out", within, environ)
	within.Tars = in("scenes")
	wantError(t, "tars beside the data", `and no .pairstream`, within, environ)
	none := alone
	none.Out = in("nothing")
	wantError(t, "no plan", "holds no plan that is complete", none, environ)
	none.Tars = ""
	wantError(t, "neither data nor tars", "there is no data", none, environ)
	none = o
	none.PerTar = 0
	wantError(t, "no mini-batch a tar", "--tar-batches is 0", none, environ)
	blended := Options{Out: in("blend"), Blend: in("plan") + ":2," + in("other") + ":1", Tars: in("blended"), PerTar: 1, Log: o.Log}
	wantError(t, "a part that is not there", "holds no plan that is complete", blended, environ)
	other := o
	other.Out, other.Tars = in("other"), ""
	environ["SEED"] = "4"
	must.Get(plan(t, other, environ))(t)
	out = must.Get(plan(t, blended, environ))(t)
	made, first := manifestIn(t, in("blend")), manifestIn(t, in("plan"))
	all := 0
	for _, f := range first.Files {
		all += f.Batches
	}
	if got := made.Files[0].Batches; got != all+all/2 || len(made.Blend) != 2 || made.Blend[1].Weight != 1 || !strings.Contains(out, in("blended/epoch-000")) {
		t.Errorf("the blend has %d mini-batches, want %d and half as many, of %+v; it prints %s", got, all, made.Blend, out)
	}
	if again := must.Get(plan(t, blended, environ))(t); !strings.Contains(again, "is complete") {
		t.Errorf("once more it prints %s", again)
	}
	for text, want := range map[string]string{in("plan") + ":1": "two plans or more", in("plan") + ":0," + in("other"): "no plan with a weight above 0", in("plan") + ":1," + in("other") + ":1": "holds another plan"} {
		blended.Blend = text
		wantError(t, text, want, blended, environ)
	}

	must.Do(t, os.Rename(in("scenes/00000.tar"), in("moved.tar")))
	alone.Tars = in("moved")
	wantError(t, "data that is gone", "name it behind the flags", alone, maps.Clone(environ))
}
