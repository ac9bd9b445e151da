// Package ranks joins the trainers of one model over TCP. One of them leads: rank 0. It hands out work, hears results, and
// adds up what all ranks have computed.
//
// It is a small exchange of its own: no all-reduce of NCCL or Gloo, and no protocol that others speak. All traffic goes
// through rank 0, whose line is the limit for many ranks of a large model.
//
// # Guarantees
//
//  1. Vectors are added along a binary tree over the ranks: 0 and 1, 2 and 3, then both sums. A rank without a vector is
//     passed over, and no zero takes its place. All ranks get the same bits, those of a process that adds alone along the
//     same tree.
//  2. All ranks state the same facts (settings, log, version), or the leader refuses the one that differs and names both
//     values.
//  3. Both sides prove that they know the token before anything else is said. The token does not travel. What follows is
//     not encrypted.
//  4. A rank that ends, or of which nothing is heard for a while, ends the whole group. The error names the rank.
//  5. Messages of one link arrive in the order in which they were sent, whole.
//
// # Frames
//
// Everything that travels is a frame, numbers in little-endian order:
//
//	length uint32   of the payload, at most 64 MiB; 1 MiB before the handshake is over
//	kind   uint8
//	payload
//
// The leader begins with a challenge, the other rank says hello, and the leader gives its verdict. After that both send
// beats, so that silence means a loss.
//
// A sum begins with the leader's ask. Each rank sends a header with the lengths of its vectors (-1: none) and a note. Chunks
// of 262,144 float32 follow, vector by vector. The leader answers with a header and chunks of the same form.
//
// Leader and Member are safe for one goroutine that sums, one that sends messages and one for each rank that hears.
package ranks
