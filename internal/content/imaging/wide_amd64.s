#include "textflag.h"

// Twenty RGB pixels, 60 bytes of 64, as five times four: their reds, their greens, their blues.
DATA fours<>+0(SB)/8, $0x0a07040109060300
DATA fours<>+8(SB)/8, $0x15120f0c0b080502
DATA fours<>+16(SB)/8, $0x1714110e1613100d
DATA fours<>+24(SB)/8, $0x221f1c19211e1b18
DATA fours<>+32(SB)/8, $0x2d2a272423201d1a
DATA fours<>+40(SB)/8, $0x2f2c29262e2b2825
DATA fours<>+48(SB)/8, $0x3a37343139363330
DATA fours<>+56(SB)/8, $0x000000003b383532
GLOBL fours<>(SB), RODATA|NOPTR, $64

DATA half<>+0(SB)/4, $0x00200000
GLOBL half<>(SB), RODATA|NOPTR, $4

// The places of 16 words of four bytes after they were packed.
DATA packed<>+0(SB)/8, $0x0000000400000000
DATA packed<>+8(SB)/8, $0x0000000c00000008
DATA packed<>+16(SB)/8, $0x0000000500000001
DATA packed<>+24(SB)/8, $0x0000000d00000009
DATA packed<>+32(SB)/8, $0x0000000600000002
DATA packed<>+40(SB)/8, $0x0000000e0000000a
DATA packed<>+48(SB)/8, $0x0000000700000003
DATA packed<>+56(SB)/8, $0x0000000f0000000b
GLOBL packed<>(SB), RODATA|NOPTR, $64

// ROW reads 20 pixels of row N. Processors do not foresee sixteen rows, so it asks for what comes four steps later.
#define ROW(N, TO) \
	MOVQ       (8*N)(BX), AX;      \
	PREFETCHT0 256(AX)(R8*1);      \
	VMOVDQU8.Z (AX)(R8*1), K1, TO; \
	VPERMB     TO, Z31, TO

// ROWS reads four rows. The first word of each quarter of all rows is in A, the second in B, and so on.
#define ROWS(N, A, B, C, D) \
	ROW(N, Z16);                  \
	ROW((N+1), Z17);              \
	ROW((N+2), Z18);              \
	ROW((N+3), Z19);              \
	VPUNPCKLDQ  Z17, Z16, Z20;    \
	VPUNPCKHDQ  Z17, Z16, Z21;    \
	VPUNPCKLDQ  Z19, Z18, Z22;    \
	VPUNPCKHDQ  Z19, Z18, Z23;    \
	VPUNPCKLQDQ Z22, Z20, A;      \
	VPUNPCKHQDQ Z22, Z20, B;      \
	VPUNPCKLQDQ Z23, Z21, C;      \
	VPUNPCKHQDQ Z23, Z21, D

// WORDS writes word N of each quarter, of all rows.
#define WORDS(N, A, B, C, D) \
	VSHUFI32X4 $0x44, B, A, Z16;     \
	VSHUFI32X4 $0xEE, B, A, Z17;     \
	VSHUFI32X4 $0x44, D, C, Z18;     \
	VSHUFI32X4 $0xEE, D, C, Z19;     \
	VSHUFI32X4 $0x88, Z18, Z16, Z20; \
	VSHUFI32X4 $0xDD, Z18, Z16, Z21; \
	VSHUFI32X4 $0x88, Z19, Z17, Z22; \
	VSHUFI32X4 $0xDD, Z19, Z17, Z23; \
	VMOVDQU32  Z20, (64*N)(DI);      \
	VMOVDQU32  Z21, (64*(N+4))(DI);  \
	VMOVDQU32  Z22, (64*(N+8))(DI);  \
	VMOVDQU32  Z23, (64*(N+12))(DI)

// func interleave(dst *byte, rows *[16]*byte, n int)
TEXT ·interleave(SB), NOSPLIT, $0-24
	MOVQ      dst+0(FP), DI
	MOVQ      rows+8(FP), BX
	MOVQ      n+16(FP), R9
	XORQ      R8, R8
	VMOVDQU32 fours<>(SB), Z31
	MOVQ      $64, R10
	MOVQ      $-1, R11

nextPixels:
	CMPQ    R9, R10
	CMOVQLT R9, R10
	BZHIQ   R10, R11, AX         // no byte is read beyond the row
	KMOVQ   AX, K1
	ROWS(0, Z0, Z1, Z2, Z3)
	ROWS(4, Z4, Z5, Z6, Z7)
	ROWS(8, Z8, Z9, Z10, Z11)
	ROWS(12, Z12, Z13, Z14, Z15)
	WORDS(0, Z0, Z4, Z8, Z12)
	WORDS(1, Z1, Z5, Z9, Z13)
	WORDS(2, Z2, Z6, Z10, Z14)
	WORDS(3, Z3, Z7, Z11, Z15)   // the last of which is written over by the next pixels
	ADDQ    $60, R8
	ADDQ    $960, DI
	SUBQ    $60, R9
	JGT     nextPixels
	VZEROUPPER
	RET

// TAPS adds four weighted bytes, 16 times, by the three digits of the weights in Z20, Z21 and Z22.
#define TAPS(P, X, A, B, C) \
	VMOVDQU32 P, X;      \
	VPDPBUSD  Z20, X, A; \
	VPDPBUSD  Z21, X, B; \
	VPDPBUSD  Z22, X, C

#define DIGITS \
	VPBROADCASTD (DX), Z20;  \
	VPBROADCASTD 4(DX), Z21; \
	VPBROADCASTD 8(DX), Z22; \
	ADDQ         $12, DX

// START makes three sums: zero twice, and what rounds.
#define START(A, B, C) \
	VPXORD    A, A, A; \
	VPXORD    B, B, B; \
	VMOVDQA32 Z31, C

// JOIN makes one sum of three, without the bits behind the point.
#define JOIN(A, B, C) \
	VPSLLD $8, A, A;  \
	VPADDD B, A, A;   \
	VPSLLD $8, A, A;  \
	VPADDD C, A, A;   \
	VPSRAD $22, A, A

// func filterAcross(dst *byte, stride int, src *byte, fours *int, digits *int8, n, depth int)
TEXT ·filterAcross(SB), NOSPLIT, $0-56
	MOVQ         dst+0(FP), DI
	MOVQ         stride+8(FP), R8
	MOVQ         src+16(FP), SI
	MOVQ         fours+24(FP), BX
	MOVQ         digits+32(FP), DX
	MOVQ         n+40(FP), R9
	MOVQ         depth+48(FP), R10
	LEAQ         (R8)(R8*2), R11
	VPBROADCASTD half<>(SB), Z31

nextPixel:
	MOVQ (BX), AX
	LEAQ (AX)(AX*2), AX
	SHLQ $6, AX                  // 192 bytes for four pixels of 16 rows
	ADDQ SI, AX
	START(Z0, Z1, Z2)
	START(Z3, Z4, Z5)
	START(Z6, Z7, Z8)
	MOVQ R10, CX

nextTaps:
	DIGITS
	TAPS((AX), Z16, Z0, Z1, Z2)
	TAPS(64(AX), Z17, Z3, Z4, Z5)
	TAPS(128(AX), Z18, Z6, Z7, Z8)
	ADDQ $192, AX
	DECQ CX
	JNZ  nextTaps

	JOIN(Z0, Z1, Z2)
	JOIN(Z3, Z4, Z5)
	JOIN(Z6, Z7, Z8)
	VPACKUSDW     Z3, Z0, Z0
	VPACKUSDW     Z6, Z6, Z6
	VPACKUSWB     Z6, Z0, Z0     // each quarter: four reds, greens, blues, and again blues, which the next pixel is written over
	VMOVDQU       X0, (DI)
	VEXTRACTI32X4 $1, Z0, (DI)(R8*1)
	VEXTRACTI32X4 $2, Z0, (DI)(R8*2)
	VEXTRACTI32X4 $3, Z0, (DI)(R11*1)
	ADDQ          $12, DI
	ADDQ          $8, BX
	DECQ          R9
	JNZ           nextPixel
	VZEROUPPER
	RET

// func filterDown(dst, src *byte, stride int, digits *int8, n, depth int)
TEXT ·filterDown(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         stride+16(FP), R8
	MOVQ         digits+24(FP), BX
	MOVQ         n+32(FP), R9
	MOVQ         depth+40(FP), R10
	MOVQ         $64, R11
	MOVQ         $-1, R12
	VPBROADCASTD half<>(SB), Z31
	VMOVDQU32    packed<>(SB), Z30

nextColumns:
	MOVQ SI, AX
	MOVQ BX, DX
	MOVQ R10, CX
	START(Z0, Z1, Z2)
	START(Z3, Z4, Z5)
	START(Z6, Z7, Z8)
	START(Z9, Z10, Z11)

nextRows:
	DIGITS
	TAPS((AX), Z16, Z0, Z1, Z2)
	TAPS(64(AX), Z17, Z3, Z4, Z5)
	TAPS(128(AX), Z18, Z6, Z7, Z8)
	TAPS(192(AX), Z19, Z9, Z10, Z11)
	ADDQ R8, AX
	DECQ CX
	JNZ  nextRows

	JOIN(Z0, Z1, Z2)
	JOIN(Z3, Z4, Z5)
	JOIN(Z6, Z7, Z8)
	JOIN(Z9, Z10, Z11)
	VPACKUSDW Z3, Z0, Z0
	VPACKUSDW Z9, Z6, Z6
	VPACKUSWB Z6, Z0, Z0
	VPERMD    Z0, Z30, Z0
	CMPQ      R9, R11
	CMOVQLT   R9, R11
	BZHIQ     R11, R12, AX
	KMOVQ     AX, K1
	VMOVDQU8  Z0, K1, (DI)
	ADDQ      $64, DI
	ADDQ      $256, SI
	SUBQ      $64, R9
	JGT       nextColumns
	VZEROUPPER
	RET

// The first bytes of 64 pixels.
DATA reds<>+0(SB)/8, $0x15120f0c09060300
DATA reds<>+8(SB)/8, $0x2d2a2724211e1b18
DATA reds<>+16(SB)/8, $0x45423f3c39363330
DATA reds<>+24(SB)/8, $0x5d5a5754514e4b48
DATA reds<>+32(SB)/8, $0x75726f6c69666360
DATA reds<>+40(SB)/8, $0x8d8a8784817e7b78
DATA reds<>+48(SB)/8, $0xa5a29f9c99969390
DATA reds<>+56(SB)/8, $0xbdbab7b4b1aeaba8
GLOBL reds<>(SB), RODATA|NOPTR, $64

DATA ones<>+0(SB)/8, $0x0101010101010101
GLOBL ones<>(SB), RODATA|NOPTR, $8

// COLOUR writes the bytes that PLACES names, those in Z2 by the mask.
#define COLOUR(PLACES, MASK, DST) \
	VMOVDQA64 PLACES, Z3;           \
	VPERMI2B  Z1, Z0, Z3;           \
	VPERMB    Z2, PLACES, MASK, Z3; \
	VMOVDQU32 Z3, (DST)(CX*1)

// func separate(red, green, blue, pixels *byte, groups int)
TEXT ·separate(SB), NOSPLIT, $0-40
	MOVQ         red+0(FP), DI
	MOVQ         green+8(FP), R8
	MOVQ         blue+16(FP), R9
	MOVQ         pixels+24(FP), SI
	MOVQ         groups+32(FP), R10
	VMOVDQU32    reds<>(SB), Z4
	VPBROADCASTQ ones<>(SB), Z7
	VPADDB       Z7, Z4, Z5
	VPADDB       Z7, Z5, Z6
	MOVQ         $-1, AX
	SHLQ         $42, AX         // the blue of pixel 42 is byte 128
	KMOVQ        AX, K2
	ADDQ         AX, AX
	KMOVQ        AX, K1
	XORQ         CX, CX

nextGroup:
	VMOVDQU32 (SI), Z0
	VMOVDQU32 64(SI), Z1
	VMOVDQU32 128(SI), Z2
	COLOUR(Z4, K1, DI)
	COLOUR(Z5, K1, R8)
	COLOUR(Z6, K2, R9)
	ADDQ $192, SI
	ADDQ $64, CX
	DECQ R10
	JNZ  nextGroup
	VZEROUPPER
	RET

// PLANE looks 64 bytes up in a table of 256, whose upper half those take that K1 names.
#define PLANE(A, B, C, D, TO) \
	VMOVDQA64 Z0, TO;     \
	VMOVDQA64 Z0, Z5;     \
	VPERMI2B  B, A, TO;   \
	VPERMI2B  D, C, Z5;   \
	VMOVDQU8  Z5, K1, TO

// TABLE reads a table of 256 bytes.
#define TABLE(N, A, B, C, D) \
	VMOVDQU32 (256*N)(BX), A;     \
	VMOVDQU32 (256*N+64)(BX), B;  \
	VMOVDQU32 (256*N+128)(BX), C; \
	VMOVDQU32 (256*N+192)(BX), D

// func lookUp(dst *float32, src *byte, bytes *[4][256]byte, groups int)
TEXT ·lookUp(SB), NOSPLIT, $0-32
	MOVQ      dst+0(FP), DI
	MOVQ      src+8(FP), SI
	MOVQ      bytes+16(FP), BX
	MOVQ      groups+24(FP), R8
	VMOVDQU32 packed<>(SB), Z15
	TABLE(0, Z16, Z17, Z18, Z19)
	TABLE(1, Z20, Z21, Z22, Z23)
	TABLE(2, Z24, Z25, Z26, Z27)
	TABLE(3, Z28, Z29, Z30, Z31)

nextBytes:
	VPERMD     (SI), Z15, Z0     // words in the order in which unpacking takes them
	VPMOVB2M   Z0, K1
	PLANE(Z16, Z17, Z18, Z19, Z1)
	PLANE(Z20, Z21, Z22, Z23, Z2)
	PLANE(Z24, Z25, Z26, Z27, Z3)
	PLANE(Z28, Z29, Z30, Z31, Z4)
	VPUNPCKLBW Z2, Z1, Z5
	VPUNPCKHBW Z2, Z1, Z6
	VPUNPCKLBW Z4, Z3, Z7
	VPUNPCKHBW Z4, Z3, Z8
	VPUNPCKLWD Z7, Z5, Z9
	VPUNPCKHWD Z7, Z5, Z10
	VPUNPCKLWD Z8, Z6, Z11
	VPUNPCKHWD Z8, Z6, Z12
	VMOVDQU32  Z9, (DI)
	VMOVDQU32  Z10, 64(DI)
	VMOVDQU32  Z11, 128(DI)
	VMOVDQU32  Z12, 192(DI)
	ADDQ       $64, SI
	ADDQ       $256, DI
	DECQ       R8
	JNZ        nextBytes
	VZEROUPPER
	RET
