package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/pairstream/pairstream/internal/base/interrupt"
	"github.com/pairstream/pairstream/internal/process/service"
)

// Errors of a request as a whole.
var (
	errForm = errors.New("no form that can be read")
	errType = errors.New("want Content-Type: application/json, multipart/form-data or application/x-ndjson")
)

// errSlow means that a slow client had to make room.
var errSlow = errors.New("others needed the room while the body came slowly: send it again")

// bodyError is a fault of a body in transit: the client has aborted it, or sends too slowly.
type bodyError struct{ error }

func (e bodyError) Unwrap() error { return e.error }

// bodyReader marks faults of a body as bodyError.
type bodyReader struct{ io.Reader }

func (b bodyReader) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = bodyError{err}
	}
	return n, err
}

// post answers POST /v1/pairs.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	all := answer{Pairs: []taken{}}
	err := s.gate.admit(r.Context())
	if err == nil {
		end := s.o.Instruments.Batch()
		all, err = s.take(w, r)
		end()
	}
	status := s.status(&all, err)
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	// Reading may have taken the request's whole time, and its pairs are on the log.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(cmp.Or(s.o.Limits.Write, service.DefaultHTTPLimits.Write)))
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(all) // the client may be gone
	s.metrics.requests.WithLabelValues(strconv.Itoa(status)).Inc()
}

// take reads the pairs of a request, publishes them and waits until they are on the log. With an error, the answer
// still lists the pairs on the log.
func (s *Server) take(w http.ResponseWriter, r *http.Request) (answer, error) {
	none := answer{Pairs: []taken{}}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return none, errType
	}
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return none, fmt.Errorf("%w; Content-Encoding is %.40q, want a body that is not compressed", errType, encoding)
	}
	ctx := r.Context()
	era, err := s.gate.eraOf(ctx, endedEvery)
	if err != nil {
		return none, err
	}
	p := &purse{of: s.budget}
	sender := service.ClientOf(ctx)
	if sender != nil {
		p.from = sender
	}
	defer p.give()
	in := s.newRequest(era, p)
	body := bodyReader{http.MaxBytesReader(w, r.Body, mostBody)}
	switch kind {
	case "application/json":
		err = in.object(ctx, body)
	case "application/x-ndjson", "application/ndjson", "application/jsonl", "application/jsonlines", "application/x-jsonlines", "application/json-lines":
		err = in.lines(ctx, body)
	case "multipart/form-data":
		err = in.form(ctx, multipart.NewReader(body, params["boundary"]))
	default:
		err = errType
	}
	if err == nil {
		err = in.download(ctx)
	}
	if err != nil && sender.Ended() {
		err = fmt.Errorf("%w: %w", errSlow, err)
	}
	return in.end(ctx, err)
}

// end settles the published pairs of a request, and counts its pairs.
func (r *request) end(ctx context.Context, err error) (answer, error) {
	if fault := r.settle(ctx, err); fault != nil {
		err = fault
	}
	r.sort()
	repeated := 0
	for _, p := range r.answer.Pairs {
		if p.repeated {
			repeated++
		}
	}
	s, published := r.s, len(r.answer.Pairs)-repeated
	s.gate.took(published)
	for outcome, n := range map[string]int{"published": published, "repeated": repeated, "refused": len(r.answer.Errors)} {
		s.metrics.pairs.WithLabelValues(outcome).Add(float64(n))
	}
	s.o.Instruments.PairsIn(r.pairs)
	s.o.Instruments.PairsOut(published)
	return r.answer, err
}

// status returns the HTTP status of an answer. It sets the answer's error, which says why the request as a whole was
// not taken.
func (s *Server) status(all *answer, err error) int {
	if err == nil {
		return all.status()
	}
	fault := cmp.Or(all.Error, "the log takes no pairs now: send the request again later") // the rest names brokers
	all.Error = err.Error()
	var lag lagError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &lag):
		return http.StatusTooManyRequests
	case errors.Is(err, errEnded):
		return http.StatusConflict
	case errors.Is(err, errType):
		return http.StatusUnsupportedMediaType
	case errors.Is(err, errLong), errors.As(err, &large):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable
	case errors.Is(err, errSlow):
		all.Error = errSlow.Error()
		return http.StatusServiceUnavailable
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.As(err, new(bodyError)):
		all.Error = "the body did not arrive in time: send it again, in smaller requests"
		return http.StatusRequestTimeout
	case errors.Is(err, errForm), errors.As(err, new(bodyError)):
		return http.StatusBadRequest
	}
	all.Error = fault
	if interrupt.Failure(err) != nil { // otherwise a client has gone
		s.log.Warn("the log takes no pairs", keyErr, err)
	}
	return http.StatusServiceUnavailable
}

// status returns the HTTP status of an answer to a request that was read to its end.
func (a *answer) status() int {
	late := 0
	for _, e := range a.Errors {
		if e.Retry {
			late++
		}
	}
	switch {
	case late > 0:
		a.Error = fmt.Sprintf("%d pairs were not taken in time, nothing is wrong with them: send them again, or the whole request", late)
		return http.StatusServiceUnavailable
	case len(a.Errors) > 0:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
