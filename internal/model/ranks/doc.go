// Package ranks joins the trainers of one model over TCP. One of them leads: rank 0. It hands out work, hears results,
// and adds up what all ranks have computed.
//
// It has its own small protocol. Work and results go through rank 0. Vectors do not: each rank is connected to each. It
// owns a slice of them, gets it from all others, adds it up and sends the sum to all. So a rank sends and receives 2 (R
// - 1) / R of the vectors, for any R. [Exchange] is the interface for another transport.
//
// # Guarantees
//
//  1. Vectors are added along a binary tree over the ranks: 0 and 1, 2 and 3, then both sums. A rank without a vector
//     is skipped, not replaced by zeros. All ranks get the same bits, those of a process that adds alone along the
//     same tree.
//  2. All ranks state the same facts (settings, log, version), or the leader refuses the one that differs and names
//     both values.
//  3. Both sides of every connection prove that they know the token before they say anything else. The token itself
//     is never sent. The connection is encrypted (TLS 1.3), and a proof is bound to it, so it cannot be passed on.
//  4. A rank that ends, or is silent for a while, ends the whole group. The error names the rank, and says whether
//     the others' state is sound ([ErrLost]). They may then join again, as at the start.
//  5. Messages of one link arrive whole, and in the order in which they were sent.
//  6. The frames that a link holds for its readers are bounded, except for messages, which the sender of work bounds.
//
// # Frames
//
// Everything that travels is a frame, numbers in little-endian order:
//
//	length uint32   of the payload, at most 64 MiB; 256 KiB for a chunk; 1 MiB before the handshake is over
//	kind   uint8
//	payload
//
// The side that accepts a connection sends a challenge, the other one a hello, and the first its verdict. After that
// both send beats, so that silence means a loss.
//
// Ranks connect to rank 0, and tell where they listen themselves. When all are present, rank 0 sends each the roster,
// with the nonce of this session. Each connects to the ranks below it, and tells rank 0 when it is connected to all. If
// another transport carries vectors, its id is in the roster, and a loss that the links notice ends its sums.
//
// A sum begins with the shapes: each rank tells rank 0 the lengths of its vectors (-1: none) and a note. Rank 0 answers
// with the plan. Every rank then cuts the vectors into slices and chunks of 65,536 float32 in the same way. It sends
// each owner its values of the owner's chunks (pieces), and the owner answers each chunk with its sum.
//
// All ranks make their sums in one order. A caller may sum a large vector in consecutive runs: it gets the same bits as
// for the whole, and the first runs travel while it still computes the last.
//
// Leader and Member are safe for one goroutine that sums, one that sends messages and one for each rank that hears.
package ranks
