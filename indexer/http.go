package indexer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/pairstream/pairstream/schemas"
)

// maxSearchBytes bounds the body of a search: a vector of schemas.MaxDim numbers fits many times.
const maxSearchBytes = 1 << 20

// defaultNeighbors is k when a request does not say it.
const defaultNeighbors = 10

type neighborJSON struct {
	Pair       string  `json:"pair"`       // 32 hexadecimal digits
	Group      string  `json:"group"`      // "lane/number"
	Position   int     `json:"position"`   // in the group
	Similarity float32 `json:"similarity"` // inner product of the unit vectors
}

type neighborsJSON struct {
	Pair     string         `json:"pair"`
	Group    string         `json:"group"`
	Position int            `json:"position"`
	Model    string         `json:"model"`            // fingerprint of the encoder; only its vectors are compared
	Searched int            `json:"searched"`         // pairs that were searched
	Texts    []neighborJSON `json:"texts,omitempty"`  // pairs by how near their texts are to the pair's image, its own among them
	Images   []neighborJSON `json:"images,omitempty"` // pairs by how near their images are, without the pair itself
}

type searchRequest struct {
	Vector   []float32 `json:"vector"`   // any length but zero
	K        *int      `json:"k"`        // vectors to compare with: "image" (default) or "text"
	Modality string    `json:"modality"` // what to compare with: "image", unless given, or "text"
	Exact    bool      `json:"exact"`    // compare with every pair, which takes longer
}

type searchJSON struct {
	Model     string         `json:"model"`
	Searched  int            `json:"searched"`
	Neighbors []neighborJSON `json:"neighbors"`
}

// NewHandler answers searches over HTTP, in JSON:
//
//	GET /neighbors?pair=ID&k=10&modality=image   pairs near the image of a pair; without modality both kinds
//	POST /search {"vector": [...], "k": 10, "modality": "text", "exact": false}
//
// Errors are {"error": "..."}: 400 for a bad request, 404 for a pair that is not held, 405 and 413 as usual.
func NewHandler(s Searcher) http.Handler {
	mux, h := http.NewServeMux(), handler{s}
	mux.HandleFunc("GET /neighbors", func(w http.ResponseWriter, r *http.Request) { answer(w, r, h.neighborsJSON) })
	mux.HandleFunc("POST /search", func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxSearchBytes)
		answer(w, r, h.searchJSON)
	})
	return mux
}

// Searcher searches pairs: a [Live] or an [Archive].
type Searcher interface {
	// Search finds the pairs whose vectors have the largest inner products with the vector.
	Search(vector []float32, query Query) (Answer, error)
	// Neighbors finds the pairs nearest to the image of a pair.
	Neighbors(pair schemas.PairID, query Query) (Neighbor, Answer, error)
}

type handler struct{ Searcher }

// answer writes the response to a request, or its error.
func answer(w http.ResponseWriter, r *http.Request, respond func(*http.Request) (any, error)) {
	status := http.StatusOK
	body, err := respond(r)
	if err != nil {
		status, body = statusOf(err), map[string]string{"error": err.Error()}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		http.Error(w, `{"error":"encoding the answer"}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // on an error the client is gone
}

func statusOf(err error) int {
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, ErrQuery):
		return http.StatusBadRequest
	case errors.Is(err, ErrNoPairs):
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}

func (h handler) neighborsJSON(r *http.Request) (any, error) {
	query := r.URL.Query()
	pair, err := schemas.ParsePairID(query.Get("pair"))
	if err != nil {
		return nil, fmt.Errorf("%w: parameter pair: %w", ErrQuery, err)
	}
	k := defaultNeighbors
	if text := query.Get("k"); text != "" {
		if k, err = strconv.Atoi(text); err != nil {
			return nil, fmt.Errorf("%w: parameter k is %q, want a number from 1 to %d", ErrQuery, text, MaxNeighbors)
		}
	}
	var out neighborsJSON
	wanted := query.Get("modality")
	for _, modality := range []string{Text, Image} {
		if wanted != "" && wanted != modality {
			continue
		}
		self, found, err := h.Neighbors(pair, Query{K: k, Modality: modality})
		if err != nil {
			return nil, err
		}
		out.Pair, out.Group, out.Position = self.Pair.String(), self.Group.String(), self.Position
		out.Model, out.Searched = found.Model, found.Searched
		if modality == Text {
			out.Texts = asJSON(found.Neighbors)
		} else {
			out.Images = asJSON(found.Neighbors)
		}
	}
	if out.Pair == "" {
		return nil, fmt.Errorf("%w: parameter modality is %q, want %q or %q", ErrQuery, wanted, Image, Text)
	}
	return out, nil
}

func (h handler) searchJSON(r *http.Request) (any, error) {
	request := searchRequest{Modality: Image}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return nil, fmt.Errorf("%w: decoding the body: %w", ErrQuery, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: decoding the body: something follows the request", ErrQuery)
	}
	k := defaultNeighbors
	if request.K != nil {
		k = *request.K
	}
	found, err := h.Search(request.Vector, Query{K: k, Modality: request.Modality, Exact: request.Exact})
	if err != nil {
		return nil, err
	}
	return searchJSON{Model: found.Model, Searched: found.Searched, Neighbors: asJSON(found.Neighbors)}, nil
}

func asJSON(neighbors []Neighbor) []neighborJSON {
	out := make([]neighborJSON, len(neighbors))
	for i, n := range neighbors {
		out[i] = neighborJSON{Pair: n.Pair.String(), Group: n.Group.String(), Position: n.Position, Similarity: n.Similarity}
	}
	return out
}
