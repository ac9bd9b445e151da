// Package notification reads the notifications of object stores about new objects in buckets.
//
// Notifications are hints. They may come twice, late or not at all, so their reader also lists the buckets regularly,
// and remembers the objects that it has published. A message that is no notification names no objects.
package notification

import (
	"encoding/json"
	"net/url"
	"strings"
)

// s3Event is the notification of Amazon S3, MinIO and versitygw; SNS wraps it as text into its own message.
type s3Event struct {
	Records []struct {
		EventName string `json:"eventName"`
		S3        struct {
			Bucket struct {
				Name string `json:"name"`
			} `json:"bucket"`
			Object struct {
				Key string `json:"key"`
			} `json:"object"`
		} `json:"s3"`
	} `json:"Records"`
	Message string `json:"Message"`
}

// gcsObject is the payload of a notification of Google Cloud Storage.
type gcsObject struct {
	Kind   string `json:"kind"`
	Bucket string `json:"bucket"`
	Name   string `json:"name"`
}

// mostObjects bounds the objects of a notification. Stores name one, or a few.
const mostObjects = 1000

// Objects returns the URIs of the written objects that a notification names, each once. attributes are the message's.
// It returns the first 1,000 objects; a listing finds the others.
func Objects(body []byte, attributes map[string]string) []string {
	return objects(body, attributes, false)
}

// objects is Objects for a message, or for the message inside one.
func objects(body []byte, attributes map[string]string, inside bool) (uris []string) {
	var google gcsObject
	if json.Unmarshal(body, &google) == nil && google.Kind == "storage#object" {
		if event := attributes["eventType"]; event == "" || event == "OBJECT_FINALIZE" {
			uris = append(uris, uri("gs", google.Bucket, google.Name))
		}
		return uris
	}
	var event s3Event
	if json.Unmarshal(body, &event) != nil {
		return nil
	}
	if len(event.Records) == 0 && event.Message != "" && !inside {
		return objects([]byte(event.Message), attributes, true)
	}
	seen := make(map[string]bool)
	for _, r := range event.Records {
		if !strings.Contains(r.EventName, "ObjectCreated:") {
			continue
		}
		key, err := url.QueryUnescape(r.S3.Object.Key) // S3 writes keys as in a query, spaces as plus signs
		if err != nil {
			key = r.S3.Object.Key
		}
		u := uri("s3", r.S3.Bucket.Name, key)
		if seen[u] {
			continue
		}
		if seen[u] = true; len(seen) > mostObjects {
			break
		}
		uris = append(uris, u)
	}
	return uris
}

func uri(scheme, bucket, key string) string {
	return (&url.URL{Scheme: scheme, Host: bucket, Path: "/" + key}).String()
}
