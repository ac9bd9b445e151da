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

// Bounds of what a stranger's robots.txt may cost.
const (
	// maxRobotsBytes bounds a robots.txt; what lies behind does not count (RFC 9309 wants at least this).
	maxRobotsBytes = 500 << 10
	// maxRules bounds the rules that hold for us. A host with more of them gives nothing.
	maxRules = 8192
	// maxWildcards bounds the asterisks of a rule. A rule with more is cut there, so that it forbids more, or allows
	// nothing.
	maxWildcards = 16
	// maxDecision bounds the bytes that rules with asterisks read of a path, all together. What would take more gives
	// nothing.
	maxDecision = 4 << 20
	// maxRobotsKept bounds the rules of all hosts together. Beyond it the rules that were asked for longest ago are read
	// anew.
	maxRobotsKept = 64 << 20
	// ruleBytes is what a rule takes beside its text.
	ruleBytes = 24
	// rulesBytes is what the rules of a host take beside the rules.
	rulesBytes = 512
	// rulesKept ends the life of rules in a long run (RFC 9309 wants no more).
	rulesKept = 24 * time.Hour
	// faultKept times Options.Timeout is how long a host gives nothing whose robots.txt could not be had.
	faultKept = 16
)

// rules are the lines of a robots.txt that hold for us, in the order of the file (RFC 9309).
type rules struct {
	list []rule
	size int64 // bytes
	none error // instead: why nothing may be fetched

	until time.Time // read again behind that
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

// keep keeps the rules of a host, and gives up those that were asked for longest ago when all take too much.
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

// readRobots reads a robots.txt. A server without one allows everything, and one that is at fault nothing.
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

// robotsParser collects the rules of the groups that may hold.
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

// add keeps a rule. One rule more than allowed is kept, so that the caller sees it.
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

// nthIndex returns where a byte comes for the nth time, or -1.
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

// matches reports whether a path begins as a pattern says. An asterisk stands for any bytes, a dollar sign at the end
// for the end of the path. Each piece between asterisks is found where it comes first, so no byte is read again for an
// asterisk.
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

// normalized writes every octet of a path in one way, so that patterns and paths can be compared (RFC 9309 2.2.2).
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
