package fetch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Bounds on the cost of a robots.txt.
const (
	// maxRobotsBytes bounds a robots.txt; the rest is ignored (RFC 9309 requires at least this).
	maxRobotsBytes = 500 << 10
	// maxRules bounds the rules that apply to us. With more rules, fetch takes nothing from the host.
	maxRules = 8192
	// maxWildcards bounds the asterisks of a rule. A longer rule that forbids is cut there, and forbids more; one that
	// allows is ignored.
	maxWildcards = 16
	// maxDecision bounds the bytes of a path that all rules with asterisks read. Fetch skips a URL that would need more.
	maxDecision = 4 << 20
	// maxRobotsKept bounds the rules of all hosts. Beyond it, fetch drops the least recently used rules, and reads them
	// again when it needs them.
	maxRobotsKept = 64 << 20
	// ruleBytes is the overhead of a rule.
	ruleBytes = 24
	// rulesBytes is the overhead of a host's rules.
	rulesBytes = 512
	// rulesKept bounds the age of rules in a long run (RFC 9309 allows no more).
	rulesKept = 24 * time.Hour
	// faultKept times Options.Timeout is the time without requests to a host whose robots.txt could not be read.
	faultKept = 16
)

// rules are the lines of a robots.txt that apply to us, in the order of the file (RFC 9309).
type rules struct {
	list []rule
	size int64 // bytes
	none error // instead: why nothing may be fetched

	until time.Time // read again afterwards
}

// rulesOf returns the rules of a host, or nil when they have to be read.
func (c *client) rulesOf(host string, now time.Time) *rules {
	r, known := c.robots.Get(host)
	if known && now.After(r.until) {
		c.robots.Remove(host)
		return nil
	}
	return r
}

// askRobots returns the task that reads a host's robots.txt.
func (c *client) askRobots(host string) *task {
	scheme, name, _ := strings.Cut(host, "://")
	return &task{host: host, at: &url.URL{Scheme: scheme, Host: name, Path: "/robots.txt"}, left: min(robotsTimeout, c.o.Timeout), robotsOf: host}
}

// keep stores the rules of a host, and drops the least recently used ones when all take too much memory.
func (c *client) keep(host string, r *rules) {
	if r.until.IsZero() {
		r.until = time.Now().Add(rulesKept)
	}
	r.size += rulesBytes
	c.robots.Remove(host)
	c.robots.Add(host, r)
	c.kept += r.size
	for c.kept > maxRobotsKept && c.robots.Len() > 1 {
		c.robots.RemoveOldest()
	}
}

// readRobots reads a robots.txt. A server without one allows everything, a failing server nothing.
func (c *client) readRobots(response *http.Response) (*rules, error) {
	switch {
	case response.StatusCode >= 400 && response.StatusCode < 500:
		return &rules{}, nil
	case response.StatusCode < 200 || response.StatusCode >= 300:
		return nil, &failure{reasonRobots, "robots.txt cannot be read: " + response.Status}
	case encoded(response):
		return nil, &failure{reasonRobots, "robots.txt is compressed without being asked to"}
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxRobotsBytes))
	if err != nil {
		return nil, err
	}
	return parseRobots(string(raw), c.agent), nil
}

// rule allows or forbids the paths that match its pattern.
type rule struct {
	pattern string
	allow   bool
}

// parseRobots returns the rules for an agent: those of all groups that name it, or else those for all agents. It takes
// time and memory in proportion to the text.
func parseRobots(text, agent string) *rules {
	p := &robotsParser{agent: agent}
	for line := range strings.FieldsFuncSeq(strings.TrimPrefix(text, "\ufeff"), func(r rune) bool { return r == '\n' || r == '\r' }) {
		line, _, _ = strings.Cut(line, "#")
		key, value, found := strings.Cut(line, ":")
		if found {
			p.line(strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value))
		}
	}
	chosen := &p.all
	if p.named {
		chosen = &p.own
	}
	if len(chosen.list) > maxRules {
		return &rules{none: &failure{reasonRobots, fmt.Sprintf("robots.txt has more than %d rules", maxRules)}}
	}
	return chosen
}

// robotsParser collects the rules of the groups that may apply.
type robotsParser struct {
	agent    string
	own, all rules
	named    bool // a group names the agent
	begun    bool // the group's rules, so that the next agent begins another group
	isOwn    bool // the group is for the agent
	isAll    bool
}

func (p *robotsParser) line(key, value string) {
	switch key {
	case "user-agent":
		if p.begun {
			p.begun, p.isOwn, p.isAll = false, false, false
		}
		p.isAll = p.isAll || value == "*"
		if strings.EqualFold(token(value), p.agent) {
			p.isOwn, p.named = true, true
		}
	case "allow", "disallow":
		p.begun = true
		if p.isOwn {
			p.own.add(value, key == "allow")
		}
		if p.isAll {
			p.all.add(value, key == "allow")
		}
	}
}

// token returns the letters, hyphens and underscores with which a user agent begins.
func token(value string) string {
	end := strings.IndexFunc(value, func(r rune) bool {
		return r != '-' && r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if end < 0 {
		return value
	}
	return value[:end]
}

// add keeps a rule. It keeps one more than maxRules, so that the caller notices the excess.
func (r *rules) add(pattern string, allow bool) {
	if pattern == "" || len(r.list) > maxRules {
		return
	}
	pattern = normalized(pattern)
	if cut := nthIndex(pattern, '*', maxWildcards+1); cut >= 0 {
		if allow {
			return
		}
		pattern = pattern[:cut]
	}
	r.list = append(r.list, rule{strings.Clone(pattern), allow})
	r.size += int64(len(pattern)) + ruleBytes
}

// nthIndex returns the index of the nth occurrence of a byte, or -1.
func nthIndex(s string, b byte, n int) int {
	for i := range len(s) {
		if s[i] == b {
			if n--; n == 0 {
				return i
			}
		}
	}
	return -1
}

// allows reports whether a URL may be fetched. The longest rule that matches decides; of two as long, the one that
// allows. The time is linear in the rules and in the URL. A context that ends ends the search.
func (r *rules) allows(ctx context.Context, u *url.URL) (bool, error) {
	if r.none != nil {
		return false, r.none
	}
	path := u.EscapedPath()
	if path == "" {
		path = "/"
	}
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	path = normalized(path)
	allowed, longest, read := true, -1, 0
	for i, rule := range r.list {
		if i%256 == 0 && ctx.Err() != nil {
			return false, ctx.Err()
		}
		if len(rule.pattern) < longest || len(rule.pattern) == longest && !rule.allow {
			continue
		}
		if head, _, wild := strings.Cut(rule.pattern, "*"); wild && strings.HasPrefix(path, head) {
			if read += len(path); read > maxDecision {
				return false, &failure{reasonRobots, fmt.Sprintf("%d rules take too long for a URL of %d bytes", len(r.list), len(path))}
			}
		}
		if matches(rule.pattern, path) {
			allowed, longest = rule.allow, len(rule.pattern)
		}
	}
	return allowed, nil
}

// matches reports whether a pattern matches the beginning of a path. An asterisk matches any bytes, a dollar sign at the
// end the end of the path. The first match of each piece between asterisks counts, so no byte is read twice.
func matches(pattern, path string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	piece, rest, more := strings.Cut(pattern, "*")
	if !strings.HasPrefix(path, piece) {
		return false
	}
	path = path[len(piece):]
	for more {
		piece, rest, more = strings.Cut(rest, "*")
		if !more && whole {
			return strings.HasSuffix(path, piece)
		}
		at := strings.Index(path, piece)
		if at < 0 {
			return false
		}
		path = path[at+len(piece):]
	}
	return !whole || path == ""
}

// normalized gives every octet of a path one form, so that patterns and paths can be compared (RFC 9309 2.2.2).
func normalized(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		escaped := c >= 0x80
		if c == '%' && i+2 < len(s) {
			if decoded, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				c, i = byte(decoded), i+2
				escaped = !unreserved(c)
			}
		}
		if escaped {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
