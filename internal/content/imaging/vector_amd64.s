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
