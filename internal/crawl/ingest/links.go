package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/pairstream/pairstream/internal/crawl/fetch"
)

// links are the pairs of a request with images to download. Each URL is downloaded once.
type links struct {
	urls  []string
	pairs [][]linkedPair // by URL
	index map[string]int // of the URL
}

type linkedPair struct {
	index int
	in    input
	key   linkKey
}

// addLink takes a pair with a URL. It downloads nothing if the URL has recently given the pair and the log still holds
// it.
func (r *request) addLink(ctx context.Context, index int, in input) error {
	if err := r.purse.take(int64(linkBytes + len(in.URL) + len(in.Caption) + len(in.Source) + in.Meta.bytes())); err != nil {
		return err
	}
	p := linkedPair{index, in, linkOf(in.URL, strings.TrimSpace(in.Caption))}
	if l, found := r.s.known.linked(p.key, r.s.gate.now()); found {
		lane := l.image.Lane(r.s.o.Log.Config().Lanes)
		switch there, err := r.isOnLog(ctx, l.pair, lane); {
		case err != nil:
			return err
		case there:
			r.answer.Pairs = append(r.answer.Pairs, taken{
				Index: index, ID: l.pair.String(), ImageID: l.image.String(), Lane: lane, id: l.pair, image: l.image, repeated: true,
			})
			return nil
		}
	}
	at, found := r.links.index[in.URL]
	if !found {
		at = len(r.links.urls)
		if r.links.index == nil {
			r.links.index = make(map[string]int)
		}
		r.links.index[in.URL] = at
		r.links.urls, r.links.pairs = append(r.links.urls, in.URL), append(r.links.pairs, nil)
	}
	r.links.pairs[at] = append(r.links.pairs[at], p)
	return nil
}

// download downloads the images of URLs, and publishes their pairs. Pairs whose turn does not come in time are refused,
// and may be sent again.
func (r *request) download(ctx context.Context) error {
	if len(r.links.urls) == 0 {
		return nil
	}
	inTime, cancel := context.WithTimeout(ctx, r.s.o.DownloadTime)
	defer cancel()
	var fault error // of the log
	r.s.urls.GetAll(inTime, r.links.urls, func(at int, image []byte, err error) {
		why, retry := err, false
		switch {
		case fault != nil:
			why, retry = errors.New("the log takes no pairs: send it again"), true
		case err != nil:
			retry, why = r.noImage(err, inTime.Err() != nil)
		}
		for _, p := range r.links.pairs[at] {
			if why != nil {
				r.refuse(p.index, why, retry)
				continue
			}
			p.in.Image = image
			if fault = r.publish(ctx, p.index, p.in, &p.key); fault != nil {
				cancel() // the others would also fail
				return
			}
		}
	})
	return fault
}

// noImage returns the reason for a URL without an image, fit for a client, and whether to send the URL again. Details
// of this machine's network are not disclosed.
func (r *request) noImage(err error, late bool) (retry bool, why error) {
	reason := fetch.Reason(err)
	r.s.log.Debug("a URL gave no image", keyReason, reason, keyErr, err)
	switch {
	case late:
		return true, fmt.Errorf("url: not downloaded within the %s that a request has: send it again", r.s.o.DownloadTime)
	case reason == "":
		r.s.log.Warn("downloading the image of a URL", keyErr, err)
		return true, errors.New("url: the server cannot download now: send it again")
	}
	return false, fmt.Errorf("url: %s: %s", reason, explanation(reason))
}

// explanation translates a reason of package fetch for a client.
func explanation(reason string) string {
	if code, ok := strings.CutPrefix(reason, "http_"); ok {
		status, _ := strconv.Atoi(code)
		return "the server answers " + strings.TrimSpace(code+" "+http.StatusText(status))
	}
	if text := explanations[reason]; text != "" {
		return text
	}
	return "it gave no image"
}

// explanations of the reasons why a URL gives no image. They quote neither the server nor an address.
var explanations = map[string]string{
	"bad_url":           "want http:// or https:// with the name of a host, without a password, of at most 8192 bytes",
	"forbidden_address": "its host has no address on the public internet",
	"robots":            "robots.txt of its host forbids it, or cannot be read",
	"robots_tag":        "X-Robots-Tag of the answer forbids it",
	"redirects":         "it redirects too often",
	"host_set_aside":    "its host has timed out again and again, and is asked later",
	"timeout":           "its host does not answer in time",
	"network":           "its host cannot be reached, or ends the connection",
	"content_encoding":  "the answer is compressed",
	"too_large":         "the image is larger than 16 MiB",
	"cut":               "the answer ends early",
	"empty":             "the answer is empty",
	"not_image":         "the answer is no JPEG, PNG or WebP",
}

// Keys of log lines.
const (
	keyErr    = "err"
	keyReason = "reason"
)
