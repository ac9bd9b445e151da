package console_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/forget"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestWhatIsTakenBackIsOnNoPage gives every page one caption of its own to look for.
func TestWhatIsTakenBackIsOnNoPage(t *testing.T) {
	const caption = "zanzibar umbrella"
	o := small
	o.Captions = map[int]string{7: caption}
	s := open(t, o, nil)
	pair := s.run.Pairs[7]
	must.Do(t, s.log.EnsureTopics(t.Context(), schemas.Forgotten))
	pages := []string{"/", "/pairs/" + pair.ID.String(), "/groups/0/0", "/connections/0/0", "/search?q=zanzibar"}
	for epoch := range small.Epochs {
		for n := range small.Pairs / small.Batch {
			pages = append(pages, fmt.Sprintf("/groups/0/0/batches/%d/%d", epoch, n))
		}
	}
	shown := func() (count int) {
		for _, path := range pages {
			if _, body, _ := s.ask(http.MethodGet, path, nil, nil); strings.Contains(body, caption) {
				count++
			}
		}
		return count
	}
	if n := shown(); n < 5 {
		t.Fatalf("only %d pages show the caption before it is forgotten", n)
	}
	image := "/thumbs/" + pair.ID.String() + "?s=s"
	const photograph = "image/jpeg"
	if _, _, h := s.ask(http.MethodGet, image, nil, nil); h.Get("Content-Type") != photograph {
		t.Fatalf("its picture is a %s before", h.Get("Content-Type"))
	}
	must.Get(forget.Publish(t.Context(), s.log, []forget.Key{{Kind: forget.Image, ID: pair.ImageID}}, time.Now()))(t)
	must.Do(t, s.index.Fill(t.Context()))
	if n := shown(); n != 0 {
		t.Errorf("%d pages show what was forgotten", n)
	}
	if _, body, h := s.ask(http.MethodGet, image, nil, nil); h.Get("Content-Type") == photograph || !strings.Contains(body, "<svg") {
		t.Errorf("its picture is handed out, as %s", h.Get("Content-Type"))
	}
}
