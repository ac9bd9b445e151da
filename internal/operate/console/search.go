package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/pairstream/pairstream/internal/operate/console/index"
	"github.com/pairstream/pairstream/schemas"
)

const (
	foundShown = 48
	mostAnswer = 1 << 20 // bytes of an answer of live search
)

// Embedder makes unit vectors with the encoder's model, where the console runs beside the encoder.
type Embedder interface {
	EmbedText(ctx context.Context, caption string) ([]float32, error)
	EmbedImage(ctx context.Context, encoded []byte) ([]float32, error)
}

type searchView struct {
	Query    string
	Near     *index.Pair
	Live     bool // there is live search
	Embeds   bool // captions and images can be turned into vectors
	Uploaded string
	Results  []results
	Notice   string
}

type results struct {
	Title string
	Means string
	Items []found
}

// found is a pair that was looked for by likeness.
type found struct {
	*index.Pair
	Score  float64
	Scored bool
}

func (s *Server) newSearch() searchView {
	return searchView{Live: s.o.Settings.LiveURL != "", Embeds: s.o.Embedder != nil && s.o.Settings.LiveURL != ""}
}

func (s *Server) searchPage(w http.ResponseWriter, r *http.Request) error {
	v := s.newSearch()
	v.Query = clip(500, r.FormValue("q"))
	if v.Query != "" {
		if err := s.byCaption(r.Context(), &v); err != nil {
			return err
		}
	}
	if near := r.FormValue("near"); near != "" {
		var err error
		if v.Near, err = s.pairAt(r, near); err != nil {
			return err
		}
		s.near(r.Context(), &v)
	}
	return s.answer(w, r, "search.html", page{Title: "Search", Path: "/search", Data: v})
}

func (s *Server) byCaption(ctx context.Context, v *searchView) error {
	if v.Embeds {
		vector, err := s.o.Embedder.EmbedText(ctx, v.Query)
		if err == nil {
			err = s.byVector(ctx, v, vector)
		}
		if err != nil {
			v.Notice = "There is no answer by meaning: " + clip(200, err.Error())
		}
	}
	pairs, err := s.o.Index.WithWords(ctx, v.Query, foundShown)
	if err != nil {
		return err
	}
	out := results{Title: "Captions with these words", Means: "the latest first"}
	for _, p := range pairs {
		out.Items = append(out.Items, found{Pair: p})
	}
	v.Results = append(v.Results, out)
	return nil
}

// near asks live search for the neighbours of a pair.
func (s *Server) near(ctx context.Context, v *searchView) {
	if !v.Live {
		v.Notice = "There is no live search here. Set LIVE_ADDR for the indexer and CONSOLE_LIVE_URL for the console."
		return
	}
	var answer struct {
		Texts  []liveNeighbor `json:"texts"`
		Images []liveNeighbor `json:"images"`
	}
	err := s.askLive(ctx, http.MethodGet, &url.URL{Path: "/neighbors", RawQuery: "k=24&pair=" + v.Near.ID.String()}, nil, &answer)
	if err == nil {
		err = s.show(ctx, v, "Images nearest to its image", answer.Images)
	}
	if err == nil {
		err = s.show(ctx, v, "Captions nearest to its image", answer.Texts)
	}
	if err != nil {
		v.Notice = "Live search did not answer: " + clip(200, err.Error())
	}
}

func (s *Server) byVector(ctx context.Context, v *searchView, vector []float32) error {
	for _, way := range []struct{ modality, title string }{{"image", "Nearest images"}, {"text", "Nearest captions"}} {
		body, err := json.Marshal(map[string]any{"vector": vector, "k": 24, "modality": way.modality})
		if err != nil {
			return err
		}
		var answer struct {
			Neighbors []liveNeighbor `json:"neighbors"`
		}
		if err := s.askLive(ctx, http.MethodPost, &url.URL{Path: "/search"}, body, &answer); err != nil {
			return err
		}
		if err := s.show(ctx, v, way.title, answer.Neighbors); err != nil {
			return err
		}
	}
	return nil
}

type liveNeighbor struct {
	Pair       string  `json:"pair"`
	Similarity float64 `json:"similarity"`
}

func (s *Server) show(ctx context.Context, v *searchView, title string, list []liveNeighbor) error {
	out := results{Title: title, Means: "by live search, over what was read up to now"}
	for _, n := range list {
		id, err := schemas.ParsePairID(n.Pair)
		if err != nil {
			return err
		}
		p, err := s.o.Index.Pair(ctx, id)
		if errors.Is(err, index.ErrNotFound) {
			continue // the indexer is ahead of the console
		}
		if err != nil {
			return err
		}
		out.Items = append(out.Items, found{p, n.Similarity, true})
	}
	v.Results = append(v.Results, out)
	return nil
}

// liveClient follows no redirect, since the token is for live search alone.
var liveClient = &http.Client{
	Timeout:       8 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func (s *Server) askLive(ctx context.Context, method string, to *url.URL, body []byte, into any) error {
	base, err := url.Parse(s.o.Settings.LiveURL)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, method, base.ResolveReference(to).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	if s.o.LiveToken != "" {
		request.Header.Set("Authorization", "Bearer "+string(s.o.LiveToken))
	}
	response, err := liveClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, clip(200, string(raw)))
	}
	return json.Unmarshal(raw, into)
}

// uploadsAtOnce images are read and embedded at a time. The others wait, and take no memory.
const uploadsAtOnce = 2

// searchImage looks for pairs like an uploaded image.
func (s *Server) searchImage(w http.ResponseWriter, r *http.Request) error {
	if err := s.uploads.Acquire(r.Context(), 1); err != nil {
		return err
	}
	defer s.uploads.Release(1)
	v := s.newSearch()
	file, header, err := r.FormFile("image")
	if err != nil {
		return badRequest{fmt.Errorf("no image came with the form, or it is larger than %s", bytesOf(maxUpload))}
	}
	defer file.Close()
	encoded, err := io.ReadAll(file)
	if err != nil {
		return badRequest{err}
	}
	v.Uploaded = clip(80, header.Filename)
	if !v.Embeds {
		v.Notice = "An image can be searched for where the console runs beside the encoder: pairstream up, with LIVE_ADDR set."
	} else {
		vector, err := s.o.Embedder.EmbedImage(r.Context(), encoded)
		if err == nil {
			err = s.byVector(r.Context(), &v, vector)
		}
		if err != nil {
			v.Notice = "There is no answer: " + clip(200, err.Error())
		}
	}
	return s.answer(w, r, "search.html", page{Title: "Search", Path: "/search", Data: v})
}
