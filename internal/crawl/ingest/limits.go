package ingest

import (
	"time"

	"github.com/pairstream/pairstream/schemas"
)

// All limits of the front door are here, with two exceptions. Those of connections and heads are in
// internal/process/service (HTTPLimits and connlimit.go), and INGEST_MAX_LAG is in gate.go. docs/ingest.md explains
// them for clients.

// Limits of one request.
const (
	mostPairs  = 10_000
	mostBody   = 256 << 20                           // bytes
	mostObject = schemas.MaxImageBytes/3*4 + 128<<10 // bytes of a JSON object: the largest image in base64, and the rest
	mostFields = 1 << 20                             // bytes of a form besides its image
	fieldBytes = 64                                  // bytes that a field counts for besides its value
	mostWhy    = 500                                 // bytes of the reason of a refusal
	firstRead  = 16 << 10                            // initial buffer of a read, in bytes
	linkBytes  = 2 << 10                             // bytes that a waiting URL counts for besides its own

	mostMembers = schemas.MaxColumns // of meta
	mostNulls   = 1024               // of meta: a table with many columns has null in most of them
)

// Limits of all requests together.
const (
	mostBytes     = 512 << 20 // in memory
	mostDownloads = 64        // besides those of slow hosts
	mostKnown     = 1 << 16   // pairs known to be on the log
)

// Times. A body may take a minute, downloads and the log half of one each, so a client has its answer within two
// minutes.
const (
	defaultDownloadTime = 30 * time.Second       // for the downloads of a request
	ackTime             = 30 * time.Second       // for the log to acknowledge its pairs
	roomTime            = time.Second            // that a request waits for memory; meanwhile slow clients are cut off
	lookTime            = 5 * time.Second        // that a question to the log waits for its answer
	lagEvery            = 500 * time.Millisecond // maximum age of a known lag or fault
	endedEvery          = 10 * time.Second       // maximum age of a known end of the crawl
	closeTime           = 10 * time.Second       // for requests in hand when the process ends
	retryAfter          = "5"                    // seconds, in the header of a 503
)
