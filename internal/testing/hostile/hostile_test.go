package hostile

import (
	"net/http"
	"net/url"
	"testing"
)

// TestTraps makes sure that traps lead to others by names that are there, and that hosts answer.
func TestTraps(t *testing.T) {
	w := New(t)
	seen := map[string]bool{}
	for _, trap := range w.traps {
		if seen[trap.name] || trap.page == nil && trap.raw == nil {
			t.Errorf("%q is there twice, or does nothing", trap.name)
		}
		seen[trap.name] = true
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for name, want := range map[string]int{"a redirect in a circle": 302, "a page of HTML": 200, "a status of 999": 999, "a robots.txt: another host's": 302} {
		path := "a.jpg"
		if name == "a robots.txt: another host's" {
			path = "robots.txt"
		}
		r, err := client.Get(w.find(name) + path)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%s: %s, want %d", name, r.Status, want)
		}
	}
	urls := w.URLs(3 * w.Hosts())
	if _, err := url.Parse(urls[len(urls)-1]); err != nil || len(urls) != 3*w.Hosts() {
		t.Errorf("%d URLs: %v", len(urls), err)
	}
}
