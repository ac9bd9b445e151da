//go:build cgo

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pairstream/pairstream/internal/crawl/shard"
	"github.com/pairstream/pairstream/internal/log/stream"
	"github.com/pairstream/pairstream/internal/operate/pipeline"
	"github.com/pairstream/pairstream/internal/process/config"
	"github.com/pairstream/pairstream/internal/process/service"
	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/schemas"
)

// TestUpSearchesByMeaning asks the console of a running pipeline for what is like a caption and like an image. Both get
// the encoder's own vectors, bit for bit, and live search finds the pair that they come from.
func TestUpSearchesByMeaning(t *testing.T) {
	if apart(t) {
		return
	}
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	in := setUpPipeline(t, 8)
	t.Setenv("CHECKPOINT_DIR", in("checkpoints"))
	t.Setenv("CONSOLE_ADDR", "127.0.0.1:0")
	t.Setenv("CONSOLE_DIR", in("console"))
	live := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Setenv("LIVE_ADDR", live.Addr().String())
	must.Do(t, live.Close())
	p := must.Get(config.Parse[pipeline.Settings](config.Environ()))(t)
	rt := service.NewRuntime(slog.New(slog.DiscardHandler))
	log := must.Get(service.OpenLog(t.Context(), rt, p.Stream))(t)
	defer log.Close()
	s, out := pipeline.NewStages(), new(bytes.Buffer)
	if _, err := s.Queries.EmbedText(t.Context(), "early"); err == nil {
		t.Error("a query has an answer before there is a model")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	closeConsole := pipeline.StartConsole(ctx, out, log, rt, p, s, in(""))
	go func() { done <- pipeline.Run(ctx, log, rt, p, s, false) }()
	mustCommand(t, "produce", in("scenes")) // the crawl goes on

	pair, encoded := anEmbedding(t, log, p.Encoder.Bucket.Roots)
	for what, embed := range map[string]func() ([]float32, error){
		"caption": func() ([]float32, error) { return s.Queries.EmbedText(t.Context(), pair.Caption) },
		"image":   func() ([]float32, error) { return s.Queries.EmbedImage(t.Context(), encoded) },
	} {
		want := map[string]schemas.Float16s{"caption": pair.T, "image": pair.V}[what]
		if got, err := embed(); err != nil || !slices.Equal(schemas.NewFloat16s(got).Floats(), want.Floats()) {
			t.Errorf("the %s has another vector than the log says: error %v", what, err)
		}
	}
	address := strings.TrimSpace(strings.TrimPrefix(out.String(), "console: "))
	upload := func(content []byte) (*http.Response, error) {
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("image", "mine.jpg")
		if err == nil {
			_, err = part.Write(content)
		}
		if err = errors.Join(err, w.Close()); err != nil {
			return nil, err
		}
		return http.Post(address+"/search", w.FormDataContentType(), &form)
	}
	for want, content := range map[string][]byte{
		"not a readable image: neither JPEG, PNG nor WebP": []byte("<html>"),
		"image too large: 65500 x 65500 pixels":            tooManyPixels,
	} {
		if page := pageOf(t, func() (*http.Response, error) { return upload(content) }); !strings.Contains(page, want) {
			t.Errorf("the page does not say %q:\n%s", want, page)
		}
	}
	// A batch, a closed group and the console's index have to catch up.
	shown(t, pair, "Nearest captions", func() (*http.Response, error) {
		return http.Get(address + "/search?q=" + url.QueryEscape(pair.Caption))
	})
	shown(t, pair, "Nearest images", func() (*http.Response, error) {
		return upload(encoded)
	})
	cancel()
	must.Check(t, <-done)
	closeConsole()
	if _, err := s.Queries.EmbedText(t.Context(), "late"); err == nil {
		t.Error("a query has an answer when the encoder has ended")
	}
}

// tooManyPixels is the frame of a JPEG of 65,500 x 65,500 pixels.
var tooManyPixels = []byte("\xff\xd8\xff\xc0\x00\x0b\x08\xff\xdc\xff\xdc\x01\x01\x11\x00\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00")

func pageOf(t *testing.T, ask func() (*http.Response, error)) string {
	t.Helper()
	response := must.Get(ask())(t)
	raw, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// anEmbedding waits for the encoder, and returns an embedding with the bytes of its image.
func anEmbedding(t *testing.T, log *stream.Log, roots []string) (*schemas.Embedding, []byte) {
	t.Helper()
	bucket := must.Get(shard.OpenBucket(t.Context(), roots, nil))(t)
	defer bucket.Close()
	for range 300 {
		rec, found := must.Get2(log.LastRecord(t.Context(), schemas.Embeddings, 0))(t)
		if found {
			r := must.Get(schemas.Unmarshal(rec.Schema, rec.Value))(t)
			x := r.(*schemas.Embedding)
			encoded := must.Get(bucket.ReadRange(t.Context(), x.Image, x.ImageID))(t)
			return x, encoded
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("there is no embedding after half a minute")
	return nil, nil
}

// shown asks again until the list under title has the pair, with a similarity of 1.
func shown(t *testing.T, pair *schemas.Embedding, title string, ask func() (*http.Response, error)) {
	t.Helper()
	var page string
	for range 100 {
		page = pageOf(t, ask)
		_, list, _ := strings.Cut(page, title)
		list, _, _ = strings.Cut(list, "</section>")
		_, tile, found := strings.Cut(list, "/pairs/"+pair.ID.String())
		tile, _, _ = strings.Cut(tile, "tile-box")
		if found && strings.Contains(tile, ">1.00") {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Errorf("%s does not show pair %s as equal:\n%s", title, pair.ID, page)
}
