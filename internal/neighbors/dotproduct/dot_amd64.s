#include "textflag.h"

// FOLD4 adds up the eight lanes of each of the four sums A, B, C, D, in the order that the package documents, and leaves
// the four totals in XA. XA is the lower half of A, and so on. Y0..Y3 are overwritten.
#define FOLD4(A, XA, B, XB, C, XC, D, XD) \
	VEXTRACTF128 $1, A, X0;      \ // l4 l5 l6 l7
	VEXTRACTF128 $1, B, X1;      \
	VEXTRACTF128 $1, C, X2;      \
	VEXTRACTF128 $1, D, X3;      \
	VADDPS       X0, XA, XA;     \ // l0+l4 l1+l5 l2+l6 l3+l7
	VADDPS       X1, XB, XB;     \
	VADDPS       X2, XC, XC;     \
	VADDPS       X3, XD, XD;     \
	VMOVLHPS     XB, XA, X0;     \ // the first two of A, then of B
	VMOVHLPS     XA, XB, X1;     \ // the last two of A, then of B
	VMOVLHPS     XD, XC, X2;     \
	VMOVHLPS     XC, XD, X3;     \
	VADDPS       X1, X0, X0;     \
	VADDPS       X3, X2, X2;     \
	VSHUFPS      $0x88, X2, X0, X1; \ // the even halves of A B C D
	VSHUFPS      $0xDD, X2, X0, X3; \ // the odd halves
	VADDPS       X3, X1, XA

// func rows4(dst *float32, dstStride int, a, b *float32, chunks, pairs int)
TEXT ·rows4(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), BX
	MOVQ chunks+32(FP), R9
	MOVQ pairs+40(FP), R10
	SHLQ $2, R8                  // bytes between rows of dst
	LEAQ (DI)(R8*2), R11         // third row of dst
	MOVQ R9, R12
	SHLQ $5, R12                 // bytes of a row
	LEAQ (SI)(R12*2), R13        // third row of a

nextPair:
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11
	VXORPS Y12, Y12, Y12
	VXORPS Y13, Y13, Y13
	VXORPS Y14, Y14, Y14
	VXORPS Y15, Y15, Y15
	MOVQ   SI, AX
	MOVQ   R13, DX
	MOVQ   R9, CX

nextChunk:
	VMOVUPS (BX), Y0
	VMOVUPS (BX)(R12*1), Y1
	VMOVUPS (AX), Y2
	VMOVUPS (AX)(R12*1), Y3
	VMULPS  Y0, Y2, Y4
	VMULPS  Y1, Y2, Y5
	VMULPS  Y0, Y3, Y6
	VMULPS  Y1, Y3, Y7
	VADDPS  Y4, Y8, Y8
	VADDPS  Y5, Y12, Y12
	VADDPS  Y6, Y9, Y9
	VADDPS  Y7, Y13, Y13
	VMOVUPS (DX), Y2
	VMOVUPS (DX)(R12*1), Y3
	VMULPS  Y0, Y2, Y4
	VMULPS  Y1, Y2, Y5
	VMULPS  Y0, Y3, Y6
	VMULPS  Y1, Y3, Y7
	VADDPS  Y4, Y10, Y10
	VADDPS  Y5, Y14, Y14
	VADDPS  Y6, Y11, Y11
	VADDPS  Y7, Y15, Y15
	ADDQ    $32, AX
	ADDQ    $32, BX
	ADDQ    $32, DX
	DECQ    CX
	JNZ     nextChunk

	FOLD4(Y8, X8, Y9, X9, Y10, X10, Y11, X11)
	FOLD4(Y12, X12, Y13, X13, Y14, X14, Y15, X15)
	VUNPCKLPS X12, X8, X0        // a0.b0 a0.b1 a1.b0 a1.b1
	VUNPCKHPS X12, X8, X1        // a2.b0 a2.b1 a3.b0 a3.b1
	VMOVLPS   X0, (DI)
	VMOVHPS   X0, (DI)(R8*1)
	VMOVLPS   X1, (R11)
	VMOVHPS   X1, (R11)(R8*1)
	ADDQ      $8, DI
	ADDQ      $8, R11
	ADDQ      R12, BX            // over the second row of b
	DECQ      R10
	JNZ       nextPair
	VZEROUPPER
	RET

// func gather4(dst, row, b0, b1, b2, b3 *float32, chunks int)
TEXT ·gather4(SB), NOSPLIT, $0-56
	MOVQ   dst+0(FP), DI
	MOVQ   row+8(FP), SI
	MOVQ   b0+16(FP), R8
	MOVQ   b1+24(FP), R9
	MOVQ   b2+32(FP), R10
	MOVQ   b3+40(FP), R11
	MOVQ   chunks+48(FP), CX
	XORQ   AX, AX
	VXORPS Y8, Y8, Y8
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11

gatherChunk:
	VMOVUPS (SI)(AX*1), Y0
	VMULPS  (R8)(AX*1), Y0, Y4
	VMULPS  (R9)(AX*1), Y0, Y5
	VMULPS  (R10)(AX*1), Y0, Y6
	VMULPS  (R11)(AX*1), Y0, Y7
	VADDPS  Y4, Y8, Y8
	VADDPS  Y5, Y9, Y9
	VADDPS  Y6, Y10, Y10
	VADDPS  Y7, Y11, Y11
	ADDQ    $32, AX
	DECQ    CX
	JNZ     gatherChunk

	FOLD4(Y8, X8, Y9, X9, Y10, X10, Y11, X11)
	VMOVUPS X8, (DI)
	VZEROUPPER
	RET

// func rows4wide(dst *float32, dstStride int, a, b *float32, chunks, quads int)
// A register of 512 bits holds the lanes of two rows of b; the row of a is in both of its halves.
TEXT ·rows4wide(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ dstStride+8(FP), R8
	MOVQ a+16(FP), SI
	MOVQ b+24(FP), BX
	MOVQ chunks+32(FP), R9
	MOVQ quads+40(FP), R10
	SHLQ $2, R8                  // bytes between rows of dst
	LEAQ (R8)(R8*2), R13
	MOVQ R9, R12
	SHLQ $5, R12                 // bytes of a row
	LEAQ (R12)(R12*2), R11

nextQuad:
	VXORPS Y8, Y8, Y8            // clears all 512 bits
	VXORPS Y9, Y9, Y9
	VXORPS Y10, Y10, Y10
	VXORPS Y11, Y11, Y11
	VXORPS Y12, Y12, Y12
	VXORPS Y13, Y13, Y13
	VXORPS Y14, Y14, Y14
	VXORPS Y15, Y15, Y15
	MOVQ   SI, AX
	MOVQ   R9, CX

wideChunk:
	VMOVUPS        (BX), Y0
	VMOVUPS        (BX)(R12*2), Y1
	VINSERTF64X4   $1, (BX)(R12*1), Z0, Z0
	VINSERTF64X4   $1, (BX)(R11*1), Z1, Z1
	VBROADCASTF64X4 (AX), Z2
	VBROADCASTF64X4 (AX)(R12*1), Z3
	VMULPS         Z0, Z2, Z4
	VMULPS         Z1, Z2, Z5
	VMULPS         Z0, Z3, Z6
	VMULPS         Z1, Z3, Z7
	VADDPS         Z4, Z8, Z8
	VADDPS         Z5, Z12, Z12
	VADDPS         Z6, Z9, Z9
	VADDPS         Z7, Z13, Z13
	VBROADCASTF64X4 (AX)(R12*2), Z2
	VBROADCASTF64X4 (AX)(R11*1), Z3
	VMULPS         Z0, Z2, Z4
	VMULPS         Z1, Z2, Z5
	VMULPS         Z0, Z3, Z6
	VMULPS         Z1, Z3, Z7
	VADDPS         Z4, Z10, Z10
	VADDPS         Z5, Z14, Z14
	VADDPS         Z6, Z11, Z11
	VADDPS         Z7, Z15, Z15
	ADDQ           $32, AX
	ADDQ           $32, BX
	DECQ           CX
	JNZ            wideChunk

	VEXTRACTF64X4 $1, Z8, Y4
	VEXTRACTF64X4 $1, Z9, Y5
	VEXTRACTF64X4 $1, Z10, Y6
	VEXTRACTF64X4 $1, Z11, Y7
	FOLD4(Y8, X8, Y9, X9, Y10, X10, Y11, X11)  // X8: a0..a3 . b0
	FOLD4(Y4, X4, Y5, X5, Y6, X6, Y7, X7)      // X4: a0..a3 . b1
	VEXTRACTF64X4 $1, Z12, Y5
	VEXTRACTF64X4 $1, Z13, Y6
	VEXTRACTF64X4 $1, Z14, Y7
	VEXTRACTF64X4 $1, Z15, Y9
	FOLD4(Y12, X12, Y13, X13, Y14, X14, Y15, X15) // X12: a0..a3 . b2
	FOLD4(Y5, X5, Y6, X6, Y7, X7, Y9, X9)         // X5: a0..a3 . b3
	VUNPCKLPS X4, X8, X0         // a0.b0 a0.b1 a1.b0 a1.b1
	VUNPCKHPS X4, X8, X1         // a2.b0 a2.b1 a3.b0 a3.b1
	VUNPCKLPS X5, X12, X2        // a0.b2 a0.b3 a1.b2 a1.b3
	VUNPCKHPS X5, X12, X3        // a2.b2 a2.b3 a3.b2 a3.b3
	VMOVLHPS  X2, X0, X6
	VMOVHLPS  X0, X2, X7
	VMOVUPS   X6, (DI)
	VMOVUPS   X7, (DI)(R8*1)
	VMOVLHPS  X3, X1, X6
	VMOVHLPS  X1, X3, X7
	VMOVUPS   X6, (DI)(R8*2)
	VMOVUPS   X7, (DI)(R13*1)
	ADDQ      $16, DI
	ADDQ      R11, BX            // over the other three rows of b
	DECQ      R10
	JNZ       nextQuad
	VZEROUPPER
	RET
