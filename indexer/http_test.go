package indexer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/indexer"
	"github.com/pairstream/pairstream/internal/neighbors/knn/cpu"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// ask sends a request and decodes the answer.
func ask(t *testing.T, h http.Handler, method, target, body string, into any) int {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, target, strings.NewReader(body)))
	if into != nil {
		if got := w.Header().Get("Content-Type"); got != "application/json" {
			t.Errorf("%s %s: content type %q", method, target, got)
		}
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatalf("%s %s: decoding %q: %v", method, target, w.Body, err)
		}
	}
	return w.Code
}

func TestHTTP(t *testing.T) {
	live := newLive(t, indexer.DefaultLiveOptions(), cpu.Engine{})
	pairs := lane(1, 50, 1)
	addAll(t, newLane(t, live, 2, options()), pairs, 0)
	h := indexer.NewHandler(live)

	type neighbor struct {
		Pair, Group string
		Position    int
		Similarity  float32
	}
	var near struct {
		Pair, Group, Model string
		Position, Searched int
		Texts, Images      []neighbor
	}
	if code := ask(t, h, "GET", "/neighbors?k=3&pair="+pairs[17].ID.String(), "", &near); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	if near.Pair != pairs[17].ID.String() || near.Group != "2/0" || near.Position != 17 || near.Model != "m1" || near.Searched != 50 {
		t.Errorf("answer %+v", near)
	}
	for what, c := range map[string]struct {
		got  []neighbor
		want []int
	}{
		"texts":  {near.Texts, best(pairs, texts, pairs[17].V.Floats(), 3, -1)},
		"images": {near.Images, best(pairs, images, pairs[17].V.Floats(), 3, 17)},
	} {
		if len(c.got) != len(c.want) {
			t.Fatalf("%d %s, want %d", len(c.got), what, len(c.want))
		}
		for i, at := range c.want {
			if c.got[i].Pair != pairs[at].ID.String() || c.got[i].Position != at || c.got[i].Similarity > 1.01 {
				t.Errorf("%s: number %d is %+v, want position %d", what, i, c.got[i], at)
			}
		}
	}

	vector := must.Get(json.Marshal(pairs[5].T.Floats()))(t)
	var found struct {
		Model     string
		Searched  int
		Neighbors []neighbor
	}
	body := fmt.Sprintf(`{"vector": %s, "k": 2, "modality": "text"}`, vector)
	if code := ask(t, h, "POST", "/search", body, &found); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	if len(found.Neighbors) != 2 || found.Neighbors[0].Position != 5 || found.Searched != 50 || found.Model != "m1" {
		t.Errorf("answer %+v", found)
	}
	if ask(t, h, "POST", "/search", fmt.Sprintf(`{"vector": %s}`, vector), &found); len(found.Neighbors) != 10 {
		t.Errorf("%d neighbours by default, want 10", len(found.Neighbors))
	}
}

func TestHTTPErrors(t *testing.T) {
	live := newLive(t, indexer.DefaultLiveOptions(), cpu.Engine{})
	pairs := lane(1, 20, 1)
	addAll(t, newLane(t, live, 2, options()), pairs, 0)
	h := indexer.NewHandler(live)
	pair := pairs[0].ID.String()
	for _, c := range []struct {
		name, method, target, body string
		code                       int
		says                       string
	}{
		{"no pair", "GET", "/neighbors", "", 400, "pair"},
		{"not an id", "GET", "/neighbors?pair=xyz", "", 400, "32 hexadecimal digits"},
		{"unknown pair", "GET", "/neighbors?pair=" + strings.Repeat("0", 32), "", 404, "is in no group"},
		{"k is no number", "GET", "/neighbors?k=ten&pair=" + pair, "", 400, "ten"},
		{"k is zero", "GET", "/neighbors?k=0&pair=" + pair, "", 400, "1..1000"},
		{"k is large", "GET", "/neighbors?k=1001&pair=" + pair, "", 400, "1..1000"},
		{"modality", "GET", "/neighbors?modality=sound&pair=" + pair, "", 400, "sound"},
		{"no body", "POST", "/search", "", 400, "decoding the body"},
		{"no JSON", "POST", "/search", "vector", 400, "decoding the body"},
		{"unknown field", "POST", "/search", `{"vectors": []}`, 400, "vectors"},
		{"something follows", "POST", "/search", `{"vector": []} {}`, 400, "follows"},
		{"wrong width", "POST", "/search", `{"vector": [1, 2]}`, 400, fmt.Sprintf("2 values, want %d", dim)},
		{"zero vector", "POST", "/search", `{"vector": [` + strings.Repeat("0,", dim-1) + `0]}`, 400, "norm"},
		{"too large", "POST", "/search", `{"vector": [` + strings.Repeat("0,", 1<<20) + `0]}`, 413, "large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answer struct{ Error string }
			if code := ask(t, h, c.method, c.target, c.body, &answer); code != c.code || !strings.Contains(answer.Error, c.says) {
				t.Errorf("status %d, %q; want %d and a word of %q", code, answer.Error, c.code, c.says)
			}
		})
	}
	for target, method := range map[string]string{"/neighbors": "POST", "/search": "GET"} {
		if code := ask(t, h, method, target, "", nil); code != http.StatusMethodNotAllowed {
			t.Errorf("%s %s: status %d", method, target, code)
		}
	}
}
