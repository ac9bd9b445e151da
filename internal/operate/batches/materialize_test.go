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
	must.Do(t, os.Rename(in("scenes/00000.tar"), in("moved.tar")))
	alone.Tars = in("moved")
	wantError(t, "data that is gone", "name it behind the flags", alone, maps.Clone(environ))
}
