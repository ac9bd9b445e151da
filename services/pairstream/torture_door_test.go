//go:build cgo && torture

package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
	"github.com/pairstream/pairstream/internal/testing/torture"
)

// TestTortureAtTheDoor sends every hostile image to the front door, as a form and as JSON, and a good pair behind each.
// The door says what becomes of it, stays small, and goes on.
func TestTortureAtTheDoor(t *testing.T) {
	t.Setenv("KAFKA_BROKERS", startBroker(t))
	t.Setenv("NAMESPACE", "door")
	t.Setenv("LANES", "1")
	door, url := startIngestProcess(t, "127.0.0.1:0")
	peak := watchMemory(t, door)
	refused := 0
	images := append(torture.ManyLarge(), torture.Images()...)
	for i, image := range images {
		encoded := image.Encode()
		var form bytes.Buffer
		w := multipart.NewWriter(&form)
		part, err := w.CreateFormFile("image", "image.jpg")
		if err == nil {
			_, err = part.Write(encoded)
		}
		if err == nil {
			err = w.WriteField("caption", "a picture that is "+image.Name)
		}
		if err == nil {
			err = w.Close()
		}
		must.Do(t, err)
		object := must.Get(json.Marshal(map[string]string{"image": base64.StdEncoding.EncodeToString(encoded), "caption": image.Name}))(t)
		first := answerOf(t, url, image.Name, w.FormDataContentType(), form.Bytes())
		if second := answerOf(t, url, image.Name, "application/json", object); first != second {
			t.Errorf("%s is answered with %d as a form, and with %d as JSON", image.Name, first, second)
		}
		if first != http.StatusOK {
			refused++
		}
		good := must.Get(json.Marshal(map[string]string{"image": base64.StdEncoding.EncodeToString(drawn(i)), "caption": "behind it"}))(t)
		if status := answerOf(t, url, "good", "application/json", good); status != http.StatusOK {
			t.Fatalf("a good pair behind %s is answered with %d", image.Name, status)
		}
	}
	if refused == 0 || refused == len(images) {
		t.Errorf("%d of %d hostile images are refused: want some, by their headers, and not all", refused, len(images))
	}
	if most := peak(); most > maxRSS {
		t.Errorf("the front door takes %d MiB, want at most %d", most>>20, maxRSS>>20)
	}
	t.Logf("%d hostile images, %d refused by their headers; the door took %d MiB", len(images), refused, peak()>>20)
	door.stop(t)
}

// answerOf posts a body, and wants an id or a reason.
func answerOf(t *testing.T, url, name, kind string, body []byte) int {
	t.Helper()
	response, err := http.Post(url+"/v1/pairs", kind, bytes.NewReader(body))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer response.Body.Close()
	raw := must.Get(io.ReadAll(response.Body))(t)
	var answer struct {
		Pairs  []struct{ ID string }
		Errors []struct{ Reason, Detail string }
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		t.Fatalf("%s: %s: %v in %.200q", name, response.Status, err, raw)
	}
	known := response.StatusCode == http.StatusOK && len(answer.Pairs) == 1 && answer.Pairs[0].ID != "" ||
		response.StatusCode == http.StatusBadRequest && len(answer.Errors) == 1
	if !known {
		t.Errorf("%s is answered with %s, %.300q: want an id, or 400 with a reason", name, response.Status, raw)
	}
	return response.StatusCode
}
