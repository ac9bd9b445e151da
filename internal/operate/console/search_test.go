package console_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/operate/console"
	"github.com/pairstream/pairstream/internal/testing/must"
)

// embedder remembers what it was asked.
type embedder struct {
	asked []string
	err   error
}

func (e *embedder) EmbedText(_ context.Context, caption string) ([]float32, error) {
	e.asked = append(e.asked, caption)
	return []float32{1, 0}, e.err
}

func (e *embedder) EmbedImage(_ context.Context, encoded []byte) ([]float32, error) {
	e.asked = append(e.asked, fmt.Sprintf("%d bytes", len(encoded)))
	return []float32{0, 1}, e.err
}

// liveSearch answers with the ids of answer, and "gone" after them: a pair that the console's index does not have.
func liveSearch(t *testing.T, answer *[]string, asked *[]string) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer a-token-of-search" {
			http.Error(w, "no token", http.StatusUnauthorized)
			return
		}
		body, err := io.ReadAll(r.Body)
		must.Check(t, err)
		*asked = append(*asked, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		var list []string
		for i, id := range append(*answer, strings.Repeat("0", 32)) {
			list = append(list, fmt.Sprintf(`{"pair": %q, "similarity": %.2f}`, id, 0.97-float64(i)/10))
		}
		all := strings.Join(list, ",")
		fmt.Fprintf(w, `{"neighbors": [%s], "texts": [%s], "images": [%s]}`, all, all, all)
	}))
	t.Cleanup(server.Close)
	return server
}

// upload sends an image as the form of the page does.
func (s *site) upload(content []byte) (int, string) {
	s.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("image", "<b>mine.jpg")
	if err == nil {
		_, err = part.Write(content)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		s.t.Fatal(err)
	}
	request := must.Get(http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.address+"/search", &form))(s.t)
	request.Header.Set("Content-Type", w.FormDataContentType())
	response := must.Get(http.DefaultClient.Do(request))(s.t)
	defer response.Body.Close()
	body := must.Get(io.ReadAll(response.Body))(s.t)
	return response.StatusCode, string(body)
}

func TestSearchOverLiveSearch(t *testing.T) {
	var answer, asked []string
	live, model := liveSearch(t, &answer, &asked), &embedder{}
	s := open(t, small, func(o *console.Options) {
		o.Settings.LiveURL, o.LiveToken, o.Embedder = live.URL, "a-token-of-search", model
	})
	first, second := s.run.Pairs[3].ID.String(), s.run.Pairs[9].ID.String()
	answer = []string{first, second}
	wants := func(what, page string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			at := strings.Index(page, want)
			if at < 0 {
				t.Errorf("%s does not show %q in its place:\n%s", what, want, page)
				return
			}
			page = page[at+len(want):]
		}
	}
	wants("a caption", s.get("/search?q=a+thing+that+shines"), "Nearest images", first, "0.97", second, "0.87", "Nearest captions", first, "Captions with these words")
	wants("a pair", s.get("/search?near="+second), "Like this pair", second, "Images nearest to its image", first, "0.97", "Captions nearest to its image", second)
	status, page := s.upload([]byte("pixels"))
	wants("an image", page, "Like <bdi>&lt;b&gt;mine.jpg", "Nearest images", first, "Nearest captions", second)
	if got, want := fmt.Sprint(model.asked), "[a thing that shines 6 bytes]"; got != want || status != http.StatusOK {
		t.Errorf("the model was asked for %s, want %s; status %d", got, want, status)
	}
	if want := []string{
		`POST /search {"k":24,"modality":"image","vector":[1,0]}`, `POST /search {"k":24,"modality":"text","vector":[1,0]}`, "GET /neighbors?k=24&pair=" + second + " ",
		`POST /search {"k":24,"modality":"image","vector":[0,1]}`, `POST /search {"k":24,"modality":"text","vector":[0,1]}`,
	}; fmt.Sprint(asked) != fmt.Sprint(want) {
		t.Errorf("live search was asked\n%q, want\n%q", asked, want)
	}

	model.err = errors.New("the model is away")
	wants("a caption without the model", s.get("/search?q=red+circle"), "There is no answer by meaning: the model is away", "Captions with these words", "a red circle")
	model.err = nil
	live.Close()
	wants("a pair without live search", s.get("/search?near="+second), "Live search did not answer")
}

func TestUploadsAreBounded(t *testing.T) {
	model := &embedder{}
	s := open(t, small, func(o *console.Options) { o.Settings.LiveURL, o.Embedder = "http://127.0.0.1:1", model })
	if status, page := s.upload(make([]byte, 20<<20+1)); status != http.StatusBadRequest || !strings.Contains(page, "larger than 21.0 MB") || len(model.asked) > 0 {
		t.Errorf("an upload beyond the bound: status %d, the model was asked for %q:\n%s", status, model.asked, page)
	}
	status, _, _ := s.ask(http.MethodPost, "/search", map[string]string{"Sec-Fetch-Site": "cross-site"}, nil)
	if status != http.StatusForbidden {
		t.Errorf("an upload from another site: status %d", status)
	}
	alone := open(t, small, nil)
	if _, page := alone.upload([]byte("pixels")); !strings.Contains(page, "pairstream up, with LIVE_ADDR set") {
		t.Errorf("a console without a model does not say what it lacks:\n%s", page)
	}
}

// crowd counts the images that are embedded at the same time.
type crowd struct {
	embedder
	now, most atomic.Int64
}

func (c *crowd) EmbedImage(context.Context, []byte) ([]float32, error) {
	n := c.now.Add(1)
	defer c.now.Add(-1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	time.Sleep(20 * time.Millisecond) // for others to come in
	return nil, errors.New("seen")
}

// TestUploadsTakeTurns sends many images at once. A few at a time are in memory, and all get an answer.
func TestUploadsTakeTurns(t *testing.T) {
	model := &crowd{}
	s := open(t, small, func(o *console.Options) { o.Settings.LiveURL, o.Embedder = "http://127.0.0.1:1", model })
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if status, page := s.upload([]byte("pixels")); status != http.StatusOK || !strings.Contains(page, "There is no answer: seen") {
				t.Errorf("status %d:\n%s", status, page)
			}
		})
	}
	all.Wait()
	if most := model.most.Load(); most < 1 || most > 2 {
		t.Errorf("%d images at once, want 2 at most", most)
	}
}
