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

// Four RGB pixels, 12 bytes of 16, as four times four bytes with a zero.
DATA spread4<>+0(SB)/8, $0x8005040380020100
DATA spread4<>+8(SB)/8, $0x800b0a0980080706
GLOBL spread4<>(SB), RODATA|NOPTR, $16

// func filterRowWide(dst, src *byte, first *int, weights *int32, n, fours int)
TEXT ·filterRowWide(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         src+8(FP), SI
	MOVQ         first+16(FP), BX
	MOVQ         weights+24(FP), DX
	MOVQ         n+32(FP), R8
	MOVQ         fours+40(FP), R9
	VMOVDQU      spread4<>(SB), X6
	VPBROADCASTD half<>(SB), X7

nextPixel:
	MOVQ   (BX), AX
	LEAQ   (AX)(AX*2), AX        // three bytes a pixel
	ADDQ   SI, AX
	VPXORD Z0, Z0, Z0
	MOVQ   R9, CX

nextFour:
	VMOVDQU   (AX), X1
	VPSHUFB   X6, X1, X1
	VPMOVZXBD X1, Z1
	VPMULLD   (DX), Z1, Z1
	VPADDD    Z1, Z0, Z0
	ADDQ      $12, AX
	ADDQ      $64, DX
	DECQ      CX
	JNZ       nextFour

	VEXTRACTI64X4 $1, Z0, Y1
	VPADDD        Y1, Y0, Y0
	VEXTRACTI128  $1, Y0, X1
	VPADDD        X1, X0, X0
	VPADDD        X7, X0, X0
	VPSRAD        $22, X0, X0
	VPACKSSDW     X0, X0, X0
	VPACKUSWB     X0, X0, X0
	VMOVD         X0, (DI)       // the fourth byte is the next pixel's, which comes later
	ADDQ          $3, DI
	ADDQ          $8, BX
	DECQ          R8
	JNZ           nextPixel
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

// Every chroma sample for two pixels: the first four, and the last four.
DATA lower<>+0(SB)/8, $0x0000000000000000
DATA lower<>+8(SB)/8, $0x0000000100000001
DATA lower<>+16(SB)/8, $0x0000000200000002
DATA lower<>+24(SB)/8, $0x0000000300000003
GLOBL lower<>(SB), RODATA|NOPTR, $32
DATA upper<>+0(SB)/8, $0x0000000400000004
DATA upper<>+8(SB)/8, $0x0000000500000005
DATA upper<>+16(SB)/8, $0x0000000600000006
DATA upper<>+24(SB)/8, $0x0000000700000007
GLOBL upper<>(SB), RODATA|NOPTR, $32

DATA center<>+0(SB)/4, $128
GLOBL center<>(SB), RODATA|NOPTR, $4

// Where the bytes of R, of G and of B go in 48 bytes of RGB: three masks each.
DATA reds<>+0(SB)/8, $0x8002808001808000
DATA reds<>+8(SB)/8, $0x0580800480800380
DATA reds<>+16(SB)/8, $0x8080078080068080
DATA reds<>+24(SB)/8, $0x800a808009808008
DATA reds<>+32(SB)/8, $0x0d80800c80800b80
DATA reds<>+40(SB)/8, $0x80800f80800e8080
GLOBL reds<>(SB), RODATA|NOPTR, $48
DATA greens<>+0(SB)/8, $0x0280800180800080
DATA greens<>+8(SB)/8, $0x8080048080038080
DATA greens<>+16(SB)/8, $0x8007808006808005
DATA greens<>+24(SB)/8, $0x0a80800980800880
DATA greens<>+32(SB)/8, $0x80800c80800b8080
DATA greens<>+40(SB)/8, $0x800f80800e80800d
GLOBL greens<>(SB), RODATA|NOPTR, $48
DATA blues<>+0(SB)/8, $0x8080018080008080
DATA blues<>+8(SB)/8, $0x8004808003808002
DATA blues<>+16(SB)/8, $0x0780800680800580
DATA blues<>+24(SB)/8, $0x8080098080088080
DATA blues<>+32(SB)/8, $0x800c80800b80800a
DATA blues<>+40(SB)/8, $0x0f80800e80800d80
GLOBL blues<>(SB), RODATA|NOPTR, $48

// CHANNEL makes the 16 bytes of a channel, in X, out of the luma in Y0 and Y1 and the summands of 8 pairs in S.
#define CHANNEL(S, Y, X) \
	VPERMD    S, Y14, Y;   \
	VPERMD    S, Y15, Y2;  \
	VPADDD    Y0, Y, Y;    \
	VPADDD    Y1, Y2, Y2;  \
	VPSRAD    $16, Y, Y;   \
	VPSRAD    $16, Y2, Y2; \
	VPACKSSDW Y2, Y, Y;    \ // 0-3 8-11 | 4-7 12-15
	VPERMQ    $0xD8, Y, Y; \
	VEXTRACTI128 $1, Y, X2; \
	VPACKUSWB X2, X, X

// WOVEN writes 16 bytes of RGB.
#define WOVEN(AT) \
	VPSHUFB reds<>+AT(SB), X6, X9;    \
	VPSHUFB greens<>+AT(SB), X7, X10; \
	VPSHUFB blues<>+AT(SB), X8, X11;  \
	VPOR    X10, X9, X9;   \
	VPOR    X11, X9, X9;   \
	VMOVDQU X9, AT(DI)

// func convertRow(dst, luma, cb, cr *byte, blocks int, m *yuvMatrix)
TEXT ·convertRow(SB), NOSPLIT, $0-48
	MOVQ         dst+0(FP), DI
	MOVQ         luma+8(FP), SI
	MOVQ         cb+16(FP), BX
	MOVQ         cr+24(FP), DX
	MOVQ         blocks+32(FP), CX
	MOVQ         m+40(FP), R8
	VMOVDQU      lower<>(SB), Y14
	VMOVDQU      upper<>(SB), Y15
	VPBROADCASTD center<>(SB), Y13
	VPBROADCASTD 4(R8), Y12        // offset

nextPixels:
	VPMOVZXBD    (BX), Y3
	VPMOVZXBD    (DX), Y4
	VPSUBD       Y13, Y3, Y3       // u
	VPSUBD       Y13, Y4, Y4       // v
	VPBROADCASTD 8(R8), Y5
	VPMULLD      Y4, Y5, Y6
	VPADDD       Y12, Y6, Y6       // offset + rv v
	VPBROADCASTD 12(R8), Y5
	VPMULLD      Y3, Y5, Y7
	VPBROADCASTD 16(R8), Y5
	VPMULLD      Y4, Y5, Y4
	VPADDD       Y4, Y7, Y7
	VPADDD       Y12, Y7, Y7       // offset + gu u + gv v
	VPBROADCASTD 20(R8), Y5
	VPMULLD      Y3, Y5, Y8
	VPADDD       Y12, Y8, Y8       // offset + bu u
	VPBROADCASTD (R8), Y5
	VPMOVZXBD    (SI), Y0
	VPMOVZXBD    8(SI), Y1
	VPMULLD      Y5, Y0, Y0
	VPMULLD      Y5, Y1, Y1
	CHANNEL(Y6, Y3, X3)
	CHANNEL(Y7, Y4, X4)
	CHANNEL(Y8, Y5, X5)
	VMOVDQA      X3, X6
	VMOVDQA      X4, X7
	VMOVDQA      X5, X8
	WOVEN(0)
	WOVEN(16)
	WOVEN(32)
	ADDQ         $48, DI
	ADDQ         $16, SI
	ADDQ         $8, BX
	ADDQ         $8, DX
	DECQ         CX
	JNZ          nextPixels
	VZEROUPPER
	RET
