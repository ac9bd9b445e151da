#include "textflag.h"

// Two RGB pixels, 6 bytes of 8, as two times four bytes with a zero.
DATA spread<>+0(SB)/8, $0x8005040380020100
DATA spread<>+8(SB)/8, $0x8080808080808080
GLOBL spread<>(SB), RODATA|NOPTR, $16

DATA half<>+0(SB)/4, $0x00200000
GLOBL half<>(SB), RODATA|NOPTR, $4

// func filterRow(dst, src *byte, first *int, weights *int32, n, pairs int)
TEXT ·filterRow(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         first+16(FP), BX
	MOVQ         weights+24(FP), DX
	MOVQ         n+32(FP), R8
	MOVQ         pairs+40(FP), R9
	VMOVDQU      spread<>(SB), X6
	VPBROADCASTD half<>(SB), X7

nextPixel:
	MOVQ  (BX), AX
	LEAQ  (AX)(AX*2), AX         // three bytes a pixel
	ADDQ  SI, AX
	VPXOR Y0, Y0, Y0
	MOVQ  R9, CX

nextPair:
	VMOVQ     (AX), X1
	VPSHUFB   X6, X1, X1
	VPMOVZXBD X1, Y1
	VPMULLD   (DX), Y1, Y1
	VPADDD    Y1, Y0, Y0
	ADDQ      $6, AX
	ADDQ      $32, DX
	DECQ      CX
	JNZ       nextPair

	VEXTRACTI128 $1, Y0, X1
	VPADDD       X1, X0, X0
	VPADDD       X7, X0, X0
	VPSRAD       $22, X0, X0
	VPACKSSDW    X0, X0, X0
	VPACKUSWB    X0, X0, X0
	VMOVD        X0, (DI)        // the fourth byte is the next pixel's, which comes later
	ADDQ         $3, DI
	ADDQ         $8, BX
	DECQ         R8
	JNZ          nextPixel
	VZEROUPPER
	RET

// Eight RGB pixels, 24 bytes of 32, as words: two by two, the same channel of both side by side, and a fourth channel of zeros.
DATA taps<>+0(SB)/8, $0x0004000100030000
DATA taps<>+8(SB)/8, $0x0000000000050002
DATA taps<>+16(SB)/8, $0x000a000700090006
DATA taps<>+24(SB)/8, $0x00000000000b0008
DATA taps<>+32(SB)/8, $0x0010000d000f000c
DATA taps<>+40(SB)/8, $0x000000000011000e
DATA taps<>+48(SB)/8, $0x0016001300150012
DATA taps<>+56(SB)/8, $0x0000000000170014
GLOBL taps<>(SB), RODATA|NOPTR, $64

DATA colours<>+0(SB)/8, $0x0555055505550555 // the bytes of these words that are not zero
GLOBL colours<>(SB), RODATA|NOPTR, $8

// Four pixels of four channels without the fourth.
DATA three<>+0(SB)/8, $0x0908060504020100
DATA three<>+8(SB)/8, $0x808080800e0d0c0a
GLOBL three<>(SB), RODATA|NOPTR, $16

// TAPS adds eight weighted pixels of two rows, at A, to their sums: H by the upper bits of the weights at W, L by the lower.
#define TAPS(A, W, H0, L0, H1, L1) \
	VMOVDQU32 (A), Y18;             \
	VMOVDQU32 (A)(R8*1), Y19;       \
	VPERMB.Z  Z18, Z30, K1, Z18;    \
	VPERMB.Z  Z19, Z30, K1, Z19;    \
	VMOVDQU32 W(DX), Z16;           \
	VMOVDQU32 (W+64)(DX), Z17;      \
	VPDPWSSD  Z16, Z18, H0;         \
	VPDPWSSD  Z17, Z18, L0;         \
	VPDPWSSD  Z16, Z19, H1;         \
	VPDPWSSD  Z17, Z19, L1;         \
	ADDQ      $24, A

// JOIN makes one sum of two.
#define JOIN(H, L) \
	VPSLLD $11, H, H; \
	VPADDD L, H, H

// PIXELS adds up the four quarters of four sums, one a pixel, rounds, and writes twelve bytes.
#define PIXELS(A, B, C, D, XA, DST) \
	VSHUFI32X4 $0x44, B, A, Z16;  \
	VSHUFI32X4 $0xEE, B, A, Z17;  \
	VPADDD     Z16, Z17, A;       \
	VSHUFI32X4 $0x44, D, C, Z16;  \
	VSHUFI32X4 $0xEE, D, C, Z17;  \
	VPADDD     Z16, Z17, C;       \
	VSHUFI32X4 $0x88, C, A, Z16;  \
	VSHUFI32X4 $0xDD, C, A, Z17;  \
	VPADDD     Z16, Z17, A;       \
	VPADDD     Z31, A, A;         \
	VPSRAD     $22, A, A;         \
	VPMAXSD    Z29, A, A;         \
	VPMOVUSDB  A, XA;             \
	VPSHUFB    three<>(SB), XA, XA; \
	VMOVQ      XA, (DST);         \
	VPEXTRD    $2, XA, 8(DST);    \
	ADDQ       $12, DST

#define ADDRESS(AT, A) \
	MOVQ AT(BX), A;      \
	LEAQ (A)(A*2), A;    \ // three bytes a pixel
	ADDQ SI, A

// func filterRowsWide(dst0, dst1, src0, src1 *byte, first *int, weights *int16, fours, eights int)
TEXT ·filterRowsWide(SB), NOSPLIT, $0-64
	MOVQ         dst0+0(FP), DI
	MOVQ         dst1+8(FP), R13
	MOVQ         src0+16(FP), SI
	MOVQ         src1+24(FP), R8
	MOVQ         first+32(FP), BX
	MOVQ         weights+40(FP), DX
	MOVQ         fours+48(FP), R9
	SUBQ         SI, R8
	VMOVDQU32    taps<>(SB), Z30
	KMOVQ        colours<>(SB), K1
	VPBROADCASTD half<>(SB), Z31
	VPXORD       Z29, Z29, Z29

nextPixels:
	ADDRESS(0, AX)
	ADDRESS(8, R10)
	ADDRESS(16, R11)
	ADDRESS(24, R12)
	VPXORD Z0, Z0, Z0
	VPXORD Z1, Z1, Z1
	VPXORD Z2, Z2, Z2
	VPXORD Z3, Z3, Z3
	VPXORD Z4, Z4, Z4
	VPXORD Z5, Z5, Z5
	VPXORD Z6, Z6, Z6
	VPXORD Z7, Z7, Z7
	VPXORD Z8, Z8, Z8
	VPXORD Z9, Z9, Z9
	VPXORD Z10, Z10, Z10
	VPXORD Z11, Z11, Z11
	VPXORD Z12, Z12, Z12
	VPXORD Z13, Z13, Z13
	VPXORD Z14, Z14, Z14
	VPXORD Z15, Z15, Z15
	MOVQ   eights+56(FP), CX

nextTaps:
	TAPS(AX, 0, Z0, Z4, Z8, Z12)
	TAPS(R10, 128, Z1, Z5, Z9, Z13)
	TAPS(R11, 256, Z2, Z6, Z10, Z14)
	TAPS(R12, 384, Z3, Z7, Z11, Z15)
	ADDQ $512, DX
	DECQ CX
	JNZ  nextTaps

	JOIN(Z0, Z4)
	JOIN(Z1, Z5)
	JOIN(Z2, Z6)
	JOIN(Z3, Z7)
	JOIN(Z8, Z12)
	JOIN(Z9, Z13)
	JOIN(Z10, Z14)
	JOIN(Z11, Z15)
	PIXELS(Z0, Z1, Z2, Z3, X0, DI)
	PIXELS(Z8, Z9, Z10, Z11, X8, R13)
	ADDQ $32, BX
	DECQ R9
	JNZ  nextPixels
	VZEROUPPER
	RET

// WEIGH adds the weighted bytes at P to A.
#define WEIGH(P, A) \
	VPMOVZXBD P, Y5;      \
	VPMULLD   Y4, Y5, Y5; \
	VPADDD    Y5, A, A

// func filterColumns(dst, src *byte, stride int, weights *int32, taps, blocks int)
TEXT ·filterColumns(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         stride+16(FP), R8
	MOVQ         weights+24(FP), DX
	MOVQ         taps+32(FP), R9
	MOVQ         blocks+40(FP), R10
	VPBROADCASTD half<>(SB), Y7

nextBlock:
	VMOVDQA Y7, Y0
	VMOVDQA Y7, Y1
	VMOVDQA Y7, Y2
	VMOVDQA Y7, Y3
	MOVQ    SI, AX
	MOVQ    DX, BX
	MOVQ    R9, CX

nextTap:
	VPBROADCASTD (BX), Y4
	WEIGH((AX), Y0)
	WEIGH(8(AX), Y1)
	WEIGH(16(AX), Y2)
	WEIGH(24(AX), Y3)
	ADDQ R8, AX
	ADDQ $4, BX
	DECQ CX
	JNZ  nextTap

	VPSRAD    $22, Y0, Y0
	VPSRAD    $22, Y1, Y1
	VPSRAD    $22, Y2, Y2
	VPSRAD    $22, Y3, Y3
	VPACKSSDW Y1, Y0, Y0          // 0-3 8-11 | 4-7 12-15
	VPACKSSDW Y3, Y2, Y2          // 16-19 24-27 | 20-23 28-31
	VPACKUSWB Y2, Y0, Y0          // 0-3 8-11 16-19 24-27 | 4-7 12-15 20-23 28-31
	VMOVDQU   order<>(SB), Y4
	VPERMD    Y0, Y4, Y0
	VMOVDQU   Y0, (DI)
	ADDQ      $32, DI
	ADDQ      $32, SI
	DECQ      R10
	JNZ       nextBlock
	VZEROUPPER
	RET

// The places of quarters of eight after they were packed.
DATA order<>+0(SB)/8, $0x0000000400000000
DATA order<>+8(SB)/8, $0x0000000500000001
DATA order<>+16(SB)/8, $0x0000000600000002
DATA order<>+24(SB)/8, $0x0000000700000003
GLOBL order<>(SB), RODATA|NOPTR, $32
