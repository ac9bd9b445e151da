package notification_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/crawl/notification"
)

func TestObjects(t *testing.T) {
	s3 := `{"EventName":"s3:ObjectCreated:Put","Key":"crawl/a.tar","Records":[` +
		`{"eventName":"s3:ObjectCreated:Put","s3":{"bucket":{"name":"crawl"},"object":{"key":"new/a+b%3F.tar"}}},` +
		`{"eventName":"ObjectRemoved:Delete","s3":{"bucket":{"name":"crawl"},"object":{"key":"gone.tar"}}},` +
		`{"eventName":"ObjectCreated:CompleteMultipartUpload","s3":{"bucket":{"name":"crawl"},"object":{"key":"crawl/100%.tar"}}}]}`
	want := []string{"s3://crawl/new/a%20b%3F.tar", "s3://crawl/crawl/100%25.tar"}
	google := `{"kind":"storage#object","bucket":"crawl","name":"new/a.tar","size":"3"}`
	for _, c := range []struct {
		name, body string
		attributes map[string]string
		want       []string
	}{
		{"S3", s3, nil, want},
		{"S3 through SNS", `{"Type":"Notification","Message":` + quote(s3) + `}`, nil, want},
		{"the test that S3 sends first", `{"Service":"Amazon S3","Event":"s3:TestEvent","Bucket":"crawl"}`, nil, nil},
		{"Google", google, map[string]string{"eventType": "OBJECT_FINALIZE"}, []string{"gs://crawl/new/a.tar"}},
		{"Google, deleted", google, map[string]string{"eventType": "OBJECT_DELETE"}, nil},
		{"no JSON", "\x00", nil, nil},
		{"another list", `[1]`, nil, nil},
		{"a message in itself", `{"Message":"{\"Message\":\"x\"}"}`, nil, nil},
	} {
		if got := notification.Objects([]byte(c.body), c.attributes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestHostileNotifications name one object many times, many objects, and messages within messages.
func TestHostileNotifications(t *testing.T) {
	record := func(key string) string {
		return `{"eventName":"ObjectCreated:","s3":{"bucket":{"name":"b"},"object":{"key":"` + key + `"}}}`
	}
	many := make([]string, 10_000)
	for i := range many {
		many[i] = record(fmt.Sprint(i, ".tar"))
	}
	nested := `{"Records":[` + record("a.tar") + `]}`
	for range 2 {
		nested = `{"Message":` + quote(nested) + `}`
	}
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"one object many times":    {`{"Records":[` + strings.Repeat(record("a.tar")+",", 10_000) + record("a.tar") + `]}`, 1},
		"many objects":             {`{"Records":[` + strings.Join(many, ",") + `]}`, 1000},
		"messages within messages": {nested, 0},
	} {
		if got := notification.Objects([]byte(c.body), nil); len(got) != c.want {
			t.Errorf("%s: %d objects, want %d", name, len(got), c.want)
		}
	}
}

func quote(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func FuzzObjects(f *testing.F) {
	f.Add([]byte(`{"Records":[{"eventName":"ObjectCreated:Put","s3":{"bucket":{"name":"b"},"object":{"key":"%zz"}}}]}`))
	f.Fuzz(func(_ *testing.T, body []byte) { notification.Objects(body, nil) })
}
