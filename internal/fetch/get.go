package fetch

import "context"

// Getter downloads single images, within the bounds of [Options]. It is safe for concurrent use.
type Getter struct{ c *client }

// NewGetter returns a getter. The options that concern lists and shards have no effect.
func NewGetter(o Options) (*Getter, error) {
	o.URLColumn, o.CaptionColumn, o.PerShard = "url", "caption", 1
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	return &Getter{c}, nil
}

// Get returns the image of a URL. The text of its error begins with the reason in a word; Get returns the context's error
// where the caller has given up.
func (g *Getter) Get(ctx context.Context, url string) ([]byte, error) { return g.c.get(ctx, url) }

// Close ends idle connections.
func (g *Getter) Close() { g.c.http.CloseIdleConnections() }
